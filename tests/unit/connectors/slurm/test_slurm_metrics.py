"""Use of ended jobs, by records of the accounting."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.errors import ClusterUnavailable
from connectors.metrics import FinalMetrics
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.metrics import figures_of

MIB = 1 << 20


def entry(kind: str, count: object, name: str | None = None) -> dict[str, Any]:
    return {"type": kind, "name": name, "id": 1, "count": count}


def a_step(
    step_id: object, seconds: int, microseconds: int, *total: dict[str, Any]
) -> dict[str, Any]:
    return {
        "step": {"id": step_id, "name": "batch" if step_id == "batch" else "python3"},
        "time": {"total": {"seconds": seconds, "microseconds": microseconds}},
        "tres": {"requested": {"total": list(total), "max": [entry("mem", 1)]}},
    }


def a_record(*steps: dict[str, Any], gpus: int = 2) -> dict[str, Any]:
    """The shape that Slurm 22.05 answers with, as it was seen with `jobacct_gather/linux`."""
    return {
        "job_id": 7,
        "name": "tg-1",
        "user": "ana",
        "account": "teama",
        "cluster": "c",
        "partition": "h100",
        "nodes": "h001",
        "state": {"current": "COMPLETED", "reason": "None"},
        "time": {"submission": 10, "eligible": 10, "start": 20, "end": 120, "limit": 60},
        "exit_code": {"status": "SUCCESS", "return_code": 0},
        "tres": {
            "allocated": [
                entry("cpu", 4),
                entry("mem", 1_000),
                entry("gres", gpus, "gpu"),
                entry("gres", gpus, "gpu:h100"),
            ]
        },
        "steps": list(steps),
    }


def figures(record: dict[str, Any], version: str = "v0.0.38") -> FinalMetrics | None:
    return figures_of(DIALECTS[version].run_use(record))


def test_a_job_used_the_time_of_all_steps_and_the_memory_of_the_largest() -> None:
    """The batch script runs beside its steps. Planted: the sum over all steps."""
    record = a_record(
        a_step("batch", 0, 14_615, entry("mem", 12 * MIB)),
        a_step(0, 3, 993_704, entry("mem", 150 * MIB), entry("cpu", 2_850)),
        a_step(1, 1, 0, entry("mem", 90 * MIB)),
    )
    assert figures(record) == FinalMetrics(
        cpu_time_ms=14 + 3_993 + 1_000,
        memory_peak_bytes=162 * MIB,
        cpu_milli=4_000,
        memory_given_bytes=1_000 * MIB,
    )


def test_the_use_of_gpus_is_a_mean_over_them() -> None:
    """Slurm adds the GPUs of a task up. Planted: 130 %."""
    step = a_step(
        0, 1, 0, entry("mem", MIB), entry("gres", 130, "gpuutil"), entry("gres", 9 * MIB, "gpumem")
    )
    found = figures(a_record(step))
    assert found is not None
    assert (found.gpu_utilisation_percent, found.gpu_memory_peak_bytes) == (65, 9 * MIB)


def test_without_a_gatherer_nothing_is_known() -> None:
    """With `jobacct_gather/none` steps have times of 0 and no memory. Planted: 0 ms of CPU time."""
    assert figures(a_record(a_step("batch", 0, 0), a_step(0, 0, 0))) is None
    assert figures(a_record()) is None


def test_later_versions_name_the_batch_step_by_its_job() -> None:
    """v0.0.40 and later. Planted: the batch script counted as a step."""
    record = a_record(
        {**a_step("7.batch", 1, 0, entry("mem", 5)), "step": {"id": "7.batch", "name": "batch"}},
        {**a_step("7.0", 1, 0, entry("mem", 7)), "step": {"id": "7.0", "name": "sleep"}},
    )
    record["state"] = {"current": ["COMPLETED"], "reason": "None"}
    record["time"]["limit"] = {"set": True, "infinite": False, "number": 60}
    record["exit_code"] = {"status": ["SUCCESS"], "return_code": {"set": True, "number": 0}}
    found = figures(record, "v0.0.42")
    assert found is not None
    assert found.memory_peak_bytes == 12


def test_steps_that_are_no_records_are_refused() -> None:
    record = a_record()
    record["steps"] = ["0"]
    with pytest.raises(ClusterUnavailable, match="no list of records"):
        figures(record)
