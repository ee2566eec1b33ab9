"""Sockets of open pages, for tests: opened as a browser does, on the whole application."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db import connections

from tenants.models import Session, User
from tenants.session_store import SessionStore

TIMEOUT_S = 60


def a_browser_session(user: User) -> Session:
    """The row of a stored session of the user."""
    return Session.objects.get(session_key=a_session(user))


def a_session(user: User) -> str:
    """A stored session of the user; its key."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    assert session.session_key is not None
    return str(session.session_key)


def a_socket(
    session_key: str | None, origin: str = "http://127.0.0.1", address: str = "127.0.0.1"
) -> ApplicationCommunicator:
    """A socket that is not open yet, with this session or none."""
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
        "client": (address, 1234),
    }
    return ApplicationCommunicator(build_application(), scope)


async def answers(socket: ApplicationCommunicator, count: int = 1) -> list[tuple[str, Any]]:
    """Open the socket and give the first `count` answers as (type, close code)."""
    await socket.send_input({"type": "websocket.connect"})
    found = [await socket.receive_output(TIMEOUT_S) for _ in range(count)]
    return [(answer["type"], answer.get("code")) for answer in found]


async def a_hint(socket: ApplicationCommunicator) -> Any:
    """What the socket is sent next."""
    return json.loads((await socket.receive_output(TIMEOUT_S))["text"])


ACCEPTED = ("websocket.accept", None)


def run(scene: Any) -> None:
    """Run the coroutine function `scene`."""

    async def whole() -> None:
        try:
            await asyncio.wait_for(scene(), TIMEOUT_S)
        finally:
            # The loop's own thread has a connection, which would outlive the test database.
            await sync_to_async(connections.close_all)()

    asyncio.run(whole())
