"""The socket of open pages: who is let in, and what reaches whom."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import connections
from django.test import Client

from builders.portal_builders import a_company, a_user
from live.consumers import SIGNED_OUT
from live.publishing import EVERYBODY, group_of
from tenants.models import User

pytestmark = pytest.mark.django_db(transaction=True)

TIMEOUT_S = 60


@pytest.fixture(autouse=True)
def layer(settings: Any) -> None:
    """The layer is Valkey's client in production; who may see what does not depend on it."""
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}


def a_session(user: User) -> str:
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    assert session.session_key is not None
    return str(session.session_key)


def a_socket(session_key: str | None, origin: str = "http://127.0.0.1") -> ApplicationCommunicator:
    from portal.routing import build_application

    headers = [(b"origin", origin.encode()), (b"host", b"127.0.0.1")]
    if session_key is not None:
        name = settings.SESSION_COOKIE_NAME
        headers.append((b"cookie", f"{name}={session_key}".encode()))
    scope = {
        "type": "websocket",
        "path": "/ws/changes",
        "query_string": b"",
        "headers": headers,
        "subprotocols": [],
    }
    return ApplicationCommunicator(build_application(), scope)


async def answers(socket: ApplicationCommunicator, count: int = 1) -> list[tuple[str, Any]]:
    """Open the socket and give the first `count` answers as (type, close code)."""
    await socket.send_input({"type": "websocket.connect"})
    found = [await socket.receive_output(TIMEOUT_S) for _ in range(count)]
    return [(answer["type"], answer.get("code")) for answer in found]


async def a_hint(socket: ApplicationCommunicator) -> Any:
    return json.loads((await socket.receive_output(TIMEOUT_S))["text"])


ACCEPTED = ("websocket.accept", None)


def run(scene: Any) -> None:
    async def whole() -> None:
        try:
            await asyncio.wait_for(scene(), TIMEOUT_S)
        finally:
            # The loop's own thread has a connection, which would outlive the test database.
            await sync_to_async(connections.close_all)()

    asyncio.run(whole())


def test_a_hint_reaches_the_organization_and_nobody_else() -> None:
    company, other = a_company(), a_company("other")
    bob, charlie = a_user(company.organization, "bob"), a_user(other.organization, "charlie")
    keys = a_session(bob), a_session(charlie)
    hint = {
        "type": "change",
        "stream": "organization",
        "seq": 7,
        "topic": "jobs",
        "ids": ["a"],
        "at": "2026-11-21T12:00:00Z",
    }

    async def scene() -> None:
        sockets = [a_socket(key) for key in keys]
        for socket in sockets:
            assert await answers(socket) == [ACCEPTED]
        layer = get_channel_layer()
        assert layer is not None
        await layer.group_send(group_of(str(company.organization.pk)), hint)
        received = await a_hint(sockets[0])
        assert received == {key: hint[key] for key in ("stream", "seq", "topic", "ids", "at")}
        assert await sockets[1].receive_nothing()
        await layer.group_send(group_of(EVERYBODY), hint)
        assert (await a_hint(sockets[1]))["seq"] == 7
        for socket in sockets:
            await socket.send_input({"type": "websocket.disconnect", "code": 1000})
            await socket.wait(TIMEOUT_S)

    run(scene)


def test_nobody_without_a_session_is_let_in() -> None:
    async def scene() -> None:
        for key in (None, "made-up"):
            socket = a_socket(key)
            assert await answers(socket, 2) == [ACCEPTED, ("websocket.close", 4401)]

    run(scene)


def test_a_session_of_a_deactivated_user_is_over() -> None:
    company = a_company()
    bob = a_user(company.organization, "bob")
    key = a_session(bob)

    async def scene() -> None:
        await database_sync_to_async(User.objects.filter(pk=bob.pk).update)(is_active=False)
        socket = a_socket(key)
        assert await answers(socket, 2) == [ACCEPTED, ("websocket.close", 4401)]

    run(scene)


def test_a_page_of_another_site_is_refused() -> None:
    company = a_company()
    key = a_session(a_user(company.organization, "bob"))

    async def scene() -> None:
        socket = a_socket(key, origin="http://evil.example")
        assert [kind for kind, _ in await answers(socket)] == ["websocket.close"]

    run(scene)


def test_a_session_outlives_the_key_that_signed_it(settings: Any) -> None:
    """Planted: the session was ended, and its user signed out, by the page that opened first after
    a change of the key; a key that was taken out still held."""
    company = a_company()
    bob = a_user(company.organization, "bob")
    key = a_session(bob)
    settings.SECRET_KEY, old_key = "n" * 32, settings.SECRET_KEY
    settings.SECRET_KEY_FALLBACKS = ["x" * 32, old_key]

    async def opened() -> None:
        socket = a_socket(key)
        assert await answers(socket) == [ACCEPTED]
        assert await socket.receive_nothing()

    run(opened)
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    for _ in range(2):
        assert client.get("/api/v1/session").json()["user"]["username"] == "bob"
    ended = a_session(bob)
    bob.session_generation += 1
    bob.save()
    key_is_out = a_session(bob)

    async def refused(late: str) -> None:
        assert await answers(a_socket(late), 2) == [ACCEPTED, ("websocket.close", SIGNED_OUT)]

    run(lambda: refused(ended))
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "m" * 32, []
    run(lambda: refused(key_is_out))
