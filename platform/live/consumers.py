"""The WebSocket of open pages. It sends hints that something visible to the session changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.contrib.auth import (
    BACKEND_SESSION_KEY,
    HASH_SESSION_KEY,
    SESSION_KEY,
    get_user_model,
    load_backend,
)
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.sessions.backends.base import SessionBase
from django.utils.crypto import constant_time_compare

from live.publishing import RIGHTS, TOPICS, group_of
from primitives.addresses import network_of

#: A socket may get hints for this long after its reader lost the right to see them.
RECHECK_S = 60
SIGNED_OUT = 4401
#: Limits of open sockets in one process. A page without a socket polls every 30 s.
PERSON_SOCKETS_MAX = 16
SOURCE_SOCKETS_MAX = 1_000

#: Returns the audiences of a person, named as in `live.publishing`.
AudiencesOf = Callable[[Any], Iterable[str]]
#: Returns whether a person and a session get hints at all.
MayListen = Callable[[Any, Any], bool]

_open_sockets: Counter[str] = Counter()


class ChangesConsumer(AsyncJsonWebsocketConsumer):
    """Sends the hints for the audiences of the session. Closes when the session ends.

    Messages from the client are ignored. Session and rights are checked when the socket opens, when
    either changes (`live.publishing.publish_rights`), and every minute. Each socket numbers its own
    hints, so that the numbers reveal nothing about other audiences.
    """

    def __init__(
        self, *args: Any, audiences_of: AudiencesOf, may_listen: MayListen, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.audiences_of = audiences_of
        self.may_listen = may_listen
        self.joined: set[str] = set()
        self.counted: list[str] = []
        self.heard: dict[str, int] = {}
        self.sent = 0
        self.watch: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Join the groups of the signed-in user, or close the socket.

        Without a signed-in user, the socket is accepted and closed with 4401. Above the limits of
        sockets, it is closed before the handshake.
        """
        client = self.scope.get("client") or ("",)
        if not self._count(f"source {network_of(client[0])}", SOURCE_SOCKETS_MAX):
            await self.close()
            return
        user = await self._user()
        if user is None:
            await self.accept()
            await self.close(code=SIGNED_OUT)
            return
        if not self._count(f"person {user.pk}", PERSON_SOCKETS_MAX):
            await self.close()
            return
        await self._join(user)
        await self.accept()
        self.watch = asyncio.create_task(self._recheck())

    async def disconnect(self, code: int) -> None:
        """Leave the groups."""
        if self.watch is not None:
            self.watch.cancel()
        for group in self.joined:
            await self.channel_layer.group_discard(group, self.channel_name)
        for key in self.counted:
            _open_sockets[key] -= 1
            if not _open_sockets[key]:
                del _open_sockets[key]
        self.counted = []

    async def receive(self, *args: Any, **kwargs: Any) -> None:
        """Ignore messages from the client."""

    async def change(self, event: dict[str, Any]) -> None:
        """Pass a hint on, or hints for all topics if an earlier hint of its audience was missed."""
        before = self.heard.get(event["stream"])
        self.heard[event["stream"]] = event["seq"]
        is_missed = before is not None and event["seq"] != before + 1
        if event["topic"] == RIGHTS or is_missed:
            await self._look_again()
        for topic in TOPICS if is_missed else [event["topic"]]:
            if topic != RIGHTS:
                self.sent += 1
                await self.send_json({"seq": self.sent, "topic": topic, "at": event["at"]})

    def _count(self, key: str, most: int) -> bool:
        if _open_sockets[key] >= most:
            return False
        _open_sockets[key] += 1
        self.counted.append(key)
        return True

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_S)
            await self._look_again()

    async def _look_again(self) -> None:
        """Check the session and rights again. Close when the session is over."""
        user = await self._user()
        if user is None:
            await self.close(code=SIGNED_OUT)
        else:
            await self._join(user)

    async def _join(self, user: AbstractBaseUser) -> None:
        audiences = await database_sync_to_async(self.audiences_of)(user)
        groups = {group_of(audience) for audience in audiences}
        for group in self.joined - groups:
            await self.channel_layer.group_discard(group, self.channel_name)
        for group in groups - self.joined:
            await self.channel_layer.group_add(group, self.channel_name)
        self.joined = groups

    async def _user(self) -> AbstractBaseUser | None:
        """Return the user of this session, or None when the session is over or gets no hints.

        The check includes the session's hash. It changes with a password change or a deactivation,
        even one that was reverted meanwhile.
        """
        session = self.scope["session"]
        if not await database_sync_to_async(session.exists)(session.session_key or ""):
            return None
        user = await database_sync_to_async(_user_of)(session)
        if user is None or not await database_sync_to_async(self.may_listen)(user, session):
            return None
        return user


def _user_of(session: SessionBase) -> AbstractBaseUser | None:
    """Return the user of the session, or None without a user or with an invalid hash.

    `channels.auth.get_user` accepts only the current secret key and ends all other sessions. This
    function leaves a session that an older key signed as it is. The next request renews it, with
    its cookie.
    """
    if SESSION_KEY not in session or session.get(BACKEND_SESSION_KEY) not in (
        settings.AUTHENTICATION_BACKENDS
    ):
        return None
    user_id = get_user_model()._meta.pk.to_python(session[SESSION_KEY])
    user = load_backend(session[BACKEND_SESSION_KEY]).get_user(user_id)
    if user is None:
        return None
    told = str(session.get(HASH_SESSION_KEY, ""))
    hashes = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return user if any(constant_time_compare(told, one) for one in hashes) else None
