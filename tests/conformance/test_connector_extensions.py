"""A longer time limit for what runs, on every cluster."""

from __future__ import annotations

import pytest

from builders.connector_builders import a_workload, eventually, until_released
from conformance.rigs import Rig
from connectors.protocol import Outcome, Workload

#: Longer than any of these tests, and two minutes to a cluster that counts in minutes.
LONGER_S = 120


def started(rig: Rig, workload: Workload, ready: str) -> str:
    """Start it and wait for the file `ready`; the cluster's id."""
    native_id = rig.start(workload)
    eventually(lambda: (rig.scratch / ready).exists())
    return native_id


def waits_for(rig: Rig, seconds: int, ready: str) -> str:
    """A script that notes its start, says a notice, and is done after `seconds`."""
    return (
        f"ready={rig.scratch}/{ready}; echo > $ready.$RANK; mv $ready.$RANK $ready\n"
        "trap 'echo noticed; exit 3' TERM\n"
        f"for n in $(seq {seconds * 10}); do sleep 0.1; done\necho done"
    )


def test_a_longer_limit_moves_the_notice_and_the_end(rig: Rig) -> None:
    """Planted: the launcher of each cluster went by the limit that it was submitted with."""
    script = waits_for(rig, 14, "ready")
    workload = a_workload(script, ranks=2, time_limit_s=12, grace_s=2)
    native_id = started(rig, workload, "ready")
    rig.connector.set_time_limit(workload.key, LONGER_S, native_id=native_id)
    rig.connector.set_time_limit(workload.key, LONGER_S, native_id=native_id)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.SUCCEEDED, {0: 0, 1: 0})
    assert [rig.log(workload.key, rank=rank) for rank in (0, 1)] == ["done\n", "done\n"]


def test_a_limit_stays_after_its_notice(rig: Rig) -> None:
    """Planted: the new limit counted at the end, and the job that was told to end ran on."""
    script = (
        f"trap 'echo > {rig.scratch}/heard' TERM; echo > {rig.scratch}/ready\n"
        "while :; do sleep 0.1; done"
    )
    workload = a_workload(script, time_limit_s=10, grace_s=1, signal_ahead_s=4)
    native_id = started(rig, workload, "ready")
    eventually(lambda: (rig.scratch / "heard").exists())
    rig.connector.set_time_limit(workload.key, LONGER_S, native_id=native_id)
    seen = until_released(rig.connector, workload.key)
    assert seen.outcome == Outcome.TIMED_OUT
    assert seen.started_at is not None
    assert seen.ended_at is not None
    assert 9 <= seen.ended_at - seen.started_at <= 14


def test_the_longer_limit_ends_it(rig: Rig) -> None:
    """Planted: a longer limit was no limit."""
    if rig.counts_minutes:
        pytest.skip("its shortest extension takes two minutes")
    script = waits_for(rig, 60, "ready")
    workload = a_workload(script, time_limit_s=6, grace_s=2)
    native_id = started(rig, workload, "ready")
    rig.connector.set_time_limit(workload.key, 12, native_id=native_id)
    seen = until_released(rig.connector, workload.key)
    assert (seen.outcome, seen.exit_codes) == (Outcome.TIMED_OUT, {0: 3})
    assert seen.started_at is not None
    assert seen.ended_at is not None
    assert 9 <= seen.ended_at - seen.started_at <= 13


def test_what_is_unknown_or_over_is_left_alone(rig: Rig) -> None:
    """Planted: Slurm was asked to change a job that had ended, and refused."""
    rig.connector.set_time_limit("nobody-knows-this-key", LONGER_S)
    workload = a_workload("exit 0", time_limit_s=60)
    native_id = rig.start(workload)
    before = until_released(rig.connector, workload.key)
    rig.connector.set_time_limit(workload.key, LONGER_S, native_id=native_id)
    after = until_released(rig.connector, workload.key)
    assert (before.outcome, after.outcome) == (Outcome.SUCCEEDED, Outcome.SUCCEEDED)
