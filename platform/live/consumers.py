"""The WebSocket of open pages: hints that something changed, for what the session may see."""

from __future__ import annotations

import asyncio
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

from live.publishing import EVERYBODY, PLATFORM, group_of

RECHECK_S = 60
SIGNED_OUT = 4401


class ChangesConsumer(AsyncJsonWebsocketConsumer):
    """Sends hints of the user's organization; closes when the user may no longer see them.

    What a client sends is ignored. The session is checked when the socket opens and every
    minute after.
    """

    async def connect(self) -> None:
        """Join the groups of the signed-in user, or refuse with 4401."""
        self.joined: list[str] = []
        self.watch: asyncio.Task[None] | None = None
        audiences = await self._audiences()
        if audiences is None:
            await self.accept()
            await self.close(code=SIGNED_OUT)
            return
        for audience in audiences:
            await self.channel_layer.group_add(group_of(audience), self.channel_name)
            self.joined.append(group_of(audience))
        await self.accept()
        self.watch = asyncio.create_task(self._recheck())

    async def disconnect(self, code: int) -> None:
        """Leave the groups."""
        if self.watch is not None:
            self.watch.cancel()
        for group in self.joined:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def receive(self, *args: Any, **kwargs: Any) -> None:
        """Ignore what a client says."""

    async def change(self, event: dict[str, Any]) -> None:
        """Pass a hint on."""
        await self.send_json({key: event[key] for key in ("stream", "seq", "topic", "ids", "at")})

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(RECHECK_S)
            if await self._audiences() is None:
                await self.close(code=SIGNED_OUT)
                return

    async def _audiences(self) -> list[str] | None:
        """Whose hints the session may see now; None when it is over.

        The session's hash is compared too, which ends with a password change or a deactivation,
        even one that was taken back meanwhile.
        """
        session = self.scope["session"]
        if not await database_sync_to_async(session.exists)(session.session_key or ""):
            return None
        user = await database_sync_to_async(_user_of)(session)
        if user is None or not user.is_active:
            return None
        organization = getattr(user, "organization_id", None)
        return [EVERYBODY, PLATFORM if organization is None else str(organization)]


def _user_of(session: SessionBase) -> AbstractBaseUser | None:
    """Whose session it is; None for nobody's, and for one that is over.

    As `channels.auth.get_user`, which knows no key but the one of now and ends every other session.
    One that an older key signed is left as it is: the next request renews it, with its cookie.
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
