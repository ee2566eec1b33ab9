"""In every test the leader's memory is held against the database and a core made anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from arbiter.cycle.decide import decide
from arbiter.cycle.result import Decided
from jobs.arbitration import memory
from jobs.arbitration.memory import Memory
from jobs.arbitration.snapshots import Reading


def hold_against_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a job that is remembered wrongly fails the test, and so does a plan other than
    that of a core which was told everything at once."""
    read, decided_by = Memory.read, Memory.decide
    last: list[Reading] = []

    def reading(self: Memory, now: datetime) -> Reading:
        last[:] = [read(self, now)]
        return last[0]

    def deciding(self: Memory, now: datetime) -> Decided:
        decided = decided_by(self, now)
        whole = decide(last[0].snapshot, last[0].policy)
        assert decided.plan == replace(whole, waiting=(), use=(), reservations=())
        assert decided.explained() == whole
        return decided

    def refuse(message: str, *values: object) -> None:
        raise AssertionError(message % values)

    monkeypatch.setattr(Memory, "read", reading)
    monkeypatch.setattr(Memory, "decide", deciding)
    monkeypatch.setattr(memory.log, "error", refuse)
