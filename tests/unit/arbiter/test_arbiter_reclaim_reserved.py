"""What is taken back beside what is reserved: only for as long as it would be in the way."""

from __future__ import annotations

import pytest

from arbiter.snapshot import PriorityClass, QueuedJob, RunningJob, Snapshot
from builders.arbiter_builders import NOW, a_queued, a_running, a_snapshot, devices, slots
from builders.arbiter_plans import plan_of, started, victims

CLASSES = (PriorityClass("critical", 20, preempts_within_team=True), PriorityClass("normal", 5))


def a_free_gpu_reserved_for_later(time_limit_s: int | None, *more: QueuedJob) -> Snapshot:
    """The free GPU of node 0 is reserved for a big job of a higher rank, from 5,000 s on. A
    critical gang of two ranks, which runs for so long at most, may stop its mates on both nodes.
    Another GPU is free on a cluster where neither may run."""

    def mate(name: str, node: int, ends_in_s: int) -> RunningJob:
        on = slots(node, 1, gpus=1)
        return a_running(name, "o/b", on, started_at=NOW, time_limit_s=ends_in_s)

    return a_snapshot(
        quotas={"o": 5, "o/a": 0, "o/b": 0},
        ranks={"o/a": 5, "o/b": 1},
        classes=CLASSES,
        devices=(
            *devices(1, gpus=3),
            devices(2, gpus=1)[1],
            *devices(1, gpus=1, cluster="beta"),
        ),
        running=[mate("long", 0, 5_000), mate("mate", 0, 100), mate("other", 1, 100)],
        queued=[
            a_queued(
                "big", "o/a", gpus=3, cluster="alpha", submitted_at=NOW - 900, time_limit_s=500
            ),
            a_queued(
                "gang",
                "o/b",
                nodes=2,
                gpus=1,
                cluster="alpha",
                priority="critical",
                time_limit_s=time_limit_s,
            ),
            *more,
        ],
    )


@pytest.mark.parametrize(
    ("time_limit_s", "stopped"),
    [
        # Gone at 300 + 4,700 s at the latest, when the big job is to start.
        (4_700, ["other"]),
        (4_701, ["long", "other"]),
        (None, ["long", "other"]),
    ],
)
def test_nobody_is_stopped_for_what_is_reserved_for_later(
    time_limit_s: int | None, stopped: list[str]
) -> None:
    """Planted: whoever GPUs are taken back for is thought to run for ever; the grace is left out of
    how long it is in the way."""
    plan = plan_of(a_free_gpu_reserved_for_later(time_limit_s), min_run_s=0)
    assert [(one.job, one.start_at - NOW) for one in plan.reservations] == [("big", 5_000)]
    assert victims(plan) == stopped


@pytest.mark.parametrize(("time_limit_s", "starts"), [(4_700, ["late"]), (4_701, [])])
def test_a_claim_that_ends_before_leaves_the_quota_of_what_is_reserved(
    time_limit_s: int, starts: list[str]
) -> None:
    """Of 5 GPUs the big job needs 3 and the late one has 1 when it is to start.

    Planted: every claim counts then against quota.
    """
    late = a_queued("late", "o/b", gpus=1, cluster="beta", time_limit_s=10_000)
    plan = plan_of(a_free_gpu_reserved_for_later(time_limit_s, late), min_run_s=0)
    assert plan.reservations[0].job == "big"
    assert started(plan) == starts
