"""The socket of open pages: who is let in, and what reaches whom."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.test import Client

from builders.live_sockets import (
    ACCEPTED,
    TIMEOUT_S,
    a_hint,
    a_session,
    a_socket,
    answers,
    run,
)
from builders.portal_builders import a_company, a_user
from live import consumers
from live.consumers import SIGNED_OUT
from live.publishing import EVERYBODY, RIGHTS, group_of, person
from primitives.clock import SystemClock
from tenants.access import actor_of
from tenants.models import Session, User
from tenants.sessions import end_session

pytestmark = pytest.mark.django_db(transaction=True)

AT = "2026-11-21T12:00:00Z"


@pytest.fixture(autouse=True)
def layer(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer is Valkey's client in production; who may see what does not depend on it."""
    monkeypatch.setattr(consumers, "_open_sockets", Counter())
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}


def a_message(stream: str, seq: int, topic: str = "jobs") -> dict[str, Any]:
    return {"type": "change", "stream": stream, "seq": seq, "topic": topic, "at": AT}


def test_a_hint_reaches_its_audience_and_nobody_else() -> None:
    company, other = a_company(), a_company("other")
    bob, charlie = a_user(company.organization, "bob"), a_user(other.organization, "charlie")
    keys = a_session(bob), a_session(charlie)
    ours = str(company.organization.pk)

    async def scene() -> None:
        sockets = [a_socket(key) for key in keys]
        for socket in sockets:
            assert await answers(socket) == [ACCEPTED]
        layer = get_channel_layer()
        assert layer is not None
        await layer.group_send(group_of(ours), a_message(ours, 7))
        assert await a_hint(sockets[0]) == {"seq": 1, "topic": "jobs", "at": AT}
        assert await sockets[1].receive_nothing()
        await layer.group_send(group_of(EVERYBODY), a_message(EVERYBODY, 70, "clusters"))
        for socket, seq in zip(sockets, (2, 1), strict=True):
            assert await a_hint(socket) == {"seq": seq, "topic": "clusters", "at": AT}
            await socket.send_input({"type": "websocket.disconnect", "code": 1000})
            await socket.wait(TIMEOUT_S)

    run(scene)


def test_a_hint_that_was_missed_means_all_topics() -> None:
    """Planted and seen to die: only that one."""
    key = a_session(a_user(a_company().organization, "bob"))

    async def scene() -> None:
        socket = a_socket(key)
        assert await answers(socket) == [ACCEPTED]
        layer = get_channel_layer()
        assert layer is not None
        for seq in (7, 9):
            await layer.group_send(group_of(EVERYBODY), a_message(EVERYBODY, seq))
        heard = [await a_hint(socket) for _ in range(5)]
        assert [(hint["seq"], hint["topic"]) for hint in heard] == [
            (1, "jobs"),
            (2, "jobs"),
            (3, "quotas"),
            (4, "clusters"),
            (5, "reports"),
        ]

    run(scene)


def test_sockets_of_one_person_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted and seen to die: a socket that was closed goes on counting."""
    monkeypatch.setattr(consumers, "PERSON_SOCKETS_MAX", 2)
    company = a_company()
    key, other = (a_session(a_user(company.organization, name)) for name in ("bob", "eve"))

    async def scene() -> None:
        first, second, third = (a_socket(key) for _ in range(3))
        for socket in (first, second):
            assert await answers(socket) == [ACCEPTED]
        # Before it is accepted: 403, so that the page tries again ever later.
        assert [kind for kind, _ in await answers(third)] == ["websocket.close"]
        assert await answers(a_socket(other)) == [ACCEPTED]
        await first.send_input({"type": "websocket.disconnect", "code": 1000})
        await first.wait(TIMEOUT_S)
        assert await answers(a_socket(key)) == [ACCEPTED]

    run(scene)


def test_sockets_of_one_source_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "SOURCE_SOCKETS_MAX", 1)
    key = a_session(a_user(a_company().organization, "bob"))

    async def scene() -> None:
        assert await answers(a_socket(key)) == [ACCEPTED]
        assert [kind for kind, _ in await answers(a_socket(key))] == ["websocket.close"]
        assert await answers(a_socket(key, address="192.0.2.1")) == [ACCEPTED]

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


def test_the_sockets_of_an_ended_session_close_at_once() -> None:
    """Planted: an end of the session that leaves its sockets open for a minute."""
    bob = a_user(a_company().organization, "bob")
    ended, kept = a_session(bob), a_session(bob)
    audience = person(bob.pk)

    def end() -> None:
        row = Session.objects.get(session_key=ended)
        end_session(actor=actor_of(bob), session_id=row.pk, now=SystemClock().now())

    async def scene() -> None:
        sockets = [a_socket(key) for key in (ended, kept)]
        for socket in sockets:
            assert await answers(socket) == [ACCEPTED]
        await database_sync_to_async(end)()
        layer = get_channel_layer()
        assert layer is not None
        # The message of the relay for the notice of `end_session`.
        await layer.group_send(group_of(audience), a_message(audience, 1, RIGHTS))
        closed = await sockets[0].receive_output(TIMEOUT_S)
        assert (closed["type"], closed["code"]) == ("websocket.close", SIGNED_OUT)
        assert await sockets[1].receive_nothing()

    run(scene)


def test_a_session_with_a_password_of_somebody_else_hears_nothing() -> None:
    company = a_company()
    bob = a_user(company.organization, "bob")
    key = a_session(bob)

    async def scene() -> None:
        users = User.objects.filter(pk=bob.pk)
        await database_sync_to_async(users.update)(must_change_password=True)
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
