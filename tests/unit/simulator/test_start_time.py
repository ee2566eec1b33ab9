"""When one waiting job starts: small futures, worked out by hand."""

from __future__ import annotations

import pytest

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from builders.arbiter_builders import (
    NOW,
    a_queued,
    a_running,
    a_snapshot,
    devices,
    slots,
)
from simulator.look_ahead import Assumptions
from simulator.start_time import StartTime, start_time

DAY_S = 86_400


def found(snapshot: Snapshot, job: str, horizon_s: int = DAY_S, **assumed: int) -> StartTime:
    return start_time(snapshot, Policy(), job, horizon_s, Assumptions(**assumed))


def a_queue(limit_s: int | None = 1_000) -> Snapshot:
    """4 GPUs: y runs on all of them, for `limit_s` more; x and then z wait for all of them, x for
    500 s."""
    return a_snapshot(
        quotas={"a": 4},
        devices=devices(1, gpus=4),
        running=[a_running("y", "a", slots(0, 1, gpus=4), started_at=NOW, time_limit_s=limit_s)],
        queued=[
            a_queued("x", "a", gpus=4, time_limit_s=500, submitted_at=NOW - 2),
            a_queued("z", "a", gpus=4, time_limit_s=500, submitted_at=NOW - 1),
        ],
    )


def test_a_job_starts_at_the_first_decision_after_the_end_it_waits_for() -> None:
    """Decisions are a minute apart: y ends at 1,000, x is served by 1,020 and ends 500 s later.
    Mutant: the range began at the decision before."""
    assert found(a_queue(), "x") == StartTime(NOW + 1_000, NOW + 1_020, NOW + DAY_S, NOW + DAY_S, 0)
    assert found(a_queue(), "z") == StartTime(NOW + 1_520, NOW + 1_560, NOW + DAY_S, NOW + DAY_S, 0)


def test_who_can_start_starts_now() -> None:
    snapshot = a_snapshot(
        quotas={"a": 4}, devices=devices(1, gpus=4), queued=[a_queued("x", "a", gpus=4)]
    )
    assert found(snapshot, "x") == StartTime(NOW, NOW, NOW + DAY_S, NOW + DAY_S, 1)


def test_who_does_not_start_in_that_time_starts_after_it() -> None:
    assert found(a_queue(), "x", 900) == StartTime(NOW + 900, None, NOW + 900, NOW + 900, 0)
    # What never comes free is waited for to the end of what was asked.
    assert found(a_queue(None), "z", 600) == StartTime(NOW + 600, None, NOW + 600, NOW + 600, 1)


def test_a_look_that_would_be_too_much_work_says_how_far_it_came() -> None:
    cut = found(a_queue(), "z", work_max=4)
    assert (cut.latest, cut.until) == (None, cut.earliest)
    assert NOW < cut.until < cut.asked_until


def test_what_makes_no_sense_is_refused() -> None:
    for job, horizon_s in (("y", 100), ("x", 0), ("x", 31 * DAY_S + 1)):
        with pytest.raises(ValueError, match=r"does not wait|horizon"):
            found(a_queue(), job, horizon_s)
