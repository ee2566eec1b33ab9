"""The core that lives on from cycle to cycle."""

from __future__ import annotations

import pytest

from arbiter.core import Core
from arbiter.cycle import decide
from arbiter.policy import Policy
from arbiter.reclaim import Reclaimer
from builders.arbiter_builders import NOW, a_queued, a_running, a_snapshot, devices, slots


def test_a_cycle_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what a failed cycle had started stays taken for good."""
    snapshot = a_snapshot(
        quotas={"a": 16, "a/t": 16, "b": 0, "b/t": 0},
        devices=devices(3),
        running=[a_running("gang", "b/t", slots(0, 2))],
        queued=[
            a_queued("small", "a/t", gpus=8, submitted_at=NOW - 90),
            a_queued("large", "a/t", gpus=8, submitted_at=NOW - 50),
        ],
    )
    core = Core.of(snapshot, Policy())
    with monkeypatch.context() as broken:
        broken.setattr(Reclaimer, "find", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            core.cycle(NOW)
    plan = core.cycle(NOW)
    assert [start.job for start in plan.starts] == ["small"]
    assert plan == decide(snapshot, Policy())
