"""The times of log lines, of real processes on every kind of cluster."""

from __future__ import annotations

import time

from builders.connector_builders import a_workload, eventually, until_released
from conformance.rigs import Rig
from connectors.errors import LogUnavailable
from connectors.protocol import LogChunk

#: How late a time may be, and how early where it is in whole seconds.
LATE_MS = 2_000
EARLY_MS = 1_000


def chunk_of(rig: Rig, key: str, *, stream: str = "stdout", rank: int = 0) -> LogChunk:
    return rig.read_log(key, rank=rank, stream=stream, offset=0, limit=1_000)


def time_ms(chunk: LogChunk, offset: int) -> int:
    """The time of the line at `offset`."""
    found = next(mark.at_ms for mark in chunk.times if mark.until > offset)
    assert found is not None
    return found


def test_lines_have_the_times_at_which_they_were_written(rig: Rig) -> None:
    """Against: a look at the end only, so that all lines have the last time."""
    begin_ms = int(time.time() * 1000)
    workload = a_workload("echo one; sleep 4; echo two")
    rig.start(workload)
    until_released(rig.connector, workload.key)
    assert rig.log(workload.key) == "one\ntwo\n"
    chunk = chunk_of(rig, workload.key)
    first_ms, second_ms = time_ms(chunk, 0), time_ms(chunk, 4)
    assert begin_ms - EARLY_MS <= first_ms
    assert second_ms - first_ms >= 4_000 - LATE_MS
    assert second_ms <= time.time() * 1000
    later = rig.read_log(workload.key, rank=0, stream="stdout", offset=4, limit=1_000)
    assert time_ms(later, 4) == second_ms


def test_the_streams_of_all_ranks_have_times(rig: Rig) -> None:
    """Against: times of the first rank, or of one stream, alone."""
    workload = a_workload("echo out; echo err >&2; sleep 2", ranks=2)
    rig.start(workload)
    until_released(rig.connector, workload.key)
    for rank in range(2):
        for stream in ("stdout", "stderr") if rig.parts_streams else ("stdout",):
            assert rig.log(workload.key, rank=rank, stream=stream) != ""
            chunk = chunk_of(rig, workload.key, rank=rank, stream=stream)
            assert chunk.times[-1].until >= chunk.next_offset
            assert None not in [mark.at_ms for mark in chunk.times]


def test_a_line_has_its_time_while_the_job_runs(rig: Rig) -> None:
    """Against: times once the job has ended."""
    go = rig.scratch / "go"
    workload = a_workload(f"echo one; while ! [ -e {go} ]; do sleep 0.1; done")
    rig.start(workload)

    def first() -> LogChunk | None:
        try:
            found = chunk_of(rig, workload.key)
        except LogUnavailable:
            return None
        return found if found.times else None

    chunk = eventually(first)
    now_ms = time.time() * 1000
    assert now_ms - 60_000 < time_ms(chunk, 0) <= now_ms
    go.touch()
    until_released(rig.connector, workload.key)
