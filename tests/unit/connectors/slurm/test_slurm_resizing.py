"""A job that was changed while it ran is one run in the account, with what it held when.

Planted and seen to die: records not joined; joined although they do not meet; the start of the
second record believed; a requeued job joined; the last record's submit time kept.
"""

from __future__ import annotations

from typing import Any

import pytest

from connectors.slurm.neutral import HistoryJob
from connectors.slurm.resizing import held_since, joined


def a_record(**changes: Any) -> HistoryJob:
    values: dict[str, Any] = {
        "job_id": 19,
        "name": "x",
        "user": "ana",
        "account": "a",
        "cluster": "c",
        "partition": "h100",
        "qos": "q",
        "comment": "",
        "state": "COMPLETED",
        "state_flags": frozenset(),
        "reason": "None",
        "submit_time": 100,
        "eligible_time": 100,
        "start_time": 101,
        "end_time": 150,
        "nodes": ("h001",),
        "gpus": {"h100": 8},
        "exit_code": 0,
        "exit_signal": None,
        "time_limit_s": 600,
    }
    return HistoryJob(**{**values, **changes})


def resized(until: int, **changes: Any) -> HistoryJob:
    return a_record(state="RUNNING", state_flags=frozenset({"RESIZING"}), end_time=until, **changes)


@pytest.mark.parametrize("starts", [(101, 101), (104, 120)], ids=["22.05", "24.11"])
def test_records_of_one_run_are_joined(starts: tuple[int, int]) -> None:
    first = resized(104)
    second = resized(120, submit_time=104, start_time=starts[0], gpus={"h100": 4})
    last = a_record(submit_time=120, start_time=starts[1], gpus={"h100": 2})
    [run] = joined([last, first, second])
    assert (run.submit_time, run.start_time, run.end_time) == (100, 101, 150)
    assert (run.state, run.gpus) == ("COMPLETED", {"h100": 2})
    assert run.before == ((104, {"h100": 8}), (120, {"h100": 4}))
    assert held_since(run) == 101


def test_the_second_record_alone_counts_from_the_change() -> None:
    [run] = joined([a_record(submit_time=104, gpus={"h100": 4})])
    assert (held_since(run), run.before) == (104, ())


def test_a_requeued_job_and_another_job_are_not_joined() -> None:
    first = resized(104)
    again = a_record(submit_time=104, start_time=110)
    other = a_record(job_id=20, submit_time=104)
    assert len(joined([first, again, other])) == 3
    assert len(joined([first, a_record(submit_time=105)])) == 2


def test_what_never_began_is_held_since_never() -> None:
    assert held_since(a_record(start_time=None)) is None
