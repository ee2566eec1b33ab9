"""The output of real processes on this machine: times of log lines."""

from __future__ import annotations

import time

from builders.connector_builders import a_workload, until_released
from conformance.rigs import LocalRig


def test_lines_have_the_times_at_which_they_were_written(local_rig: LocalRig) -> None:
    """Planted: the supervisor looks only at the end, and all lines have the last time."""
    connector = local_rig.open()
    begin_ms = int(time.time() * 1000)
    workload = a_workload("echo one; sleep 3; echo two")
    connector.submit(workload)
    until_released(connector, workload.key)
    chunk = connector.read_log(workload.key, rank=0, stream="stdout", offset=0, limit=100)
    assert [mark.until for mark in chunk.times] == [4, 8]
    first_ms, second_ms = (mark.at_ms or 0 for mark in chunk.times)
    assert begin_ms - 10 <= first_ms <= second_ms - 2_990
    assert second_ms <= time.time() * 1000
