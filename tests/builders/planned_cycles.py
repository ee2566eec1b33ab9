"""Cycles that decide what a test says."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from arbiter.api.plan import Plan
from jobs.arbitration.memory import Memory


@dataclass(frozen=True)
class AsPlanned:
    """What was decided, of which there is nothing more to tell."""

    plan: Plan

    def explained(self) -> Plan:
        """The plan."""
        return self.plan


def use_plan(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """Let the arbiter decide `plan`, whatever it is asked."""
    monkeypatch.setattr(Memory, "decide", lambda memory, now: AsPlanned(plan))
