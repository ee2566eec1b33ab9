"""Heartbeat of a web worker: it shows the supervisor that the event loop makes progress."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from live.pulse import BEAT_S, Pulse, pulse_here

#: An event loop hangs if it does not run a callback within this time.
LOOP_WITHIN_S = 10.0


async def lifespan(
    scope: Mapping[str, Any],
    receive: Callable[[], Awaitable[Mapping[str, Any]]],
    send: Callable[[Mapping[str, Any]], Awaitable[None]],
) -> None:
    """Beat from the start of the server to its end. All workers touch one file."""
    await receive()
    pulse = pulse_here()
    beating = asyncio.create_task(_beat(pulse))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    beating.cancel()
    pulse.end()
    await send({"type": "lifespan.shutdown.complete"})


async def _beat(pulse: Pulse) -> None:
    while True:
        pulse.promise(LOOP_WITHIN_S)
        await asyncio.sleep(BEAT_S)
