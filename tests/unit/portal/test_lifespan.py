"""The heartbeat of a web worker, from the first to the last message of its server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from portal import lifespan
from portal.routing import build_application

WITHIN_S = 20


class Recorded:
    """A pulse that keeps what it is promised."""

    def __init__(self) -> None:
        self.promises: list[float] = []
        self.is_ended = False

    def promise(self, within_s: float) -> None:
        self.promises.append(within_s)

    def end(self) -> None:
        self.is_ended = True


def test_a_worker_beats_while_its_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: one promise at the start only; a pulse that nobody ends; a task that goes on; an
    application that does not know this kind of scope."""
    pulse = Recorded()
    monkeypatch.setattr(lifespan, "pulse_here", lambda: pulse)
    monkeypatch.setattr(lifespan, "BEAT_S", 0)
    application = build_application()

    async def serve() -> None:
        told: asyncio.Queue[Any] = asyncio.Queue()
        said: asyncio.Queue[Any] = asyncio.Queue()
        async with asyncio.timeout(WITHIN_S):
            running = asyncio.create_task(
                application({"type": "lifespan", "state": {}}, told.get, said.put)
            )
            await told.put({"type": "lifespan.startup"})
            assert await said.get() == {"type": "lifespan.startup.complete"}
            while len(pulse.promises) < 3:
                await asyncio.sleep(0)
            assert not pulse.is_ended
            await told.put({"type": "lifespan.shutdown"})
            assert await said.get() == {"type": "lifespan.shutdown.complete"}
            await running
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)

    asyncio.run(serve())
    assert pulse.is_ended
    assert set(pulse.promises) == {10.0}


def test_a_worker_without_a_heartbeat_does_not_start() -> None:
    """uvicorn would go on without, and the supervisor would kill it every 15 s."""
    from embedded.services import web_command

    assert "--lifespan on" in " ".join(web_command(8000))
