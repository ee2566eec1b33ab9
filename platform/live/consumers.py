"""The WebSocket of open pages: hints that something changed, for what the session may see."""

from __future__ import annotations

import asyncio
from typing import Any

from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer

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

        `get_user` compares the session's hash too, which ends with a password change or a
        deactivation, even one that was taken back meanwhile.
        """
        session = self.scope["session"]
        if not await database_sync_to_async(session.exists)(session.session_key or ""):
            return None
        user = await get_user(self.scope)
        if not user.is_authenticated or not user.is_active:
            return None
        organization = getattr(user, "organization_id", None)
        return [EVERYBODY, PLATFORM if organization is None else str(organization)]
