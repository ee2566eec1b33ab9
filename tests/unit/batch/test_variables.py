"""Slurm's variables of a batch job."""

from __future__ import annotations

from uuid import UUID

import pytest

from batch.places import Place
from batch.variables import (
    BatchJob,
    counts_text,
    job_number,
    job_variables,
    start_variables,
    tasks_by_node,
)

TWO = [Place("node-001", range(8)), Place("node-002", range(8))]


def a_job(**changes: object) -> BatchJob:
    facts = {
        "number": 77,
        "name": "pretrain",
        "user": "ana",
        "account": "ai-company/nlp",
        "partition": "h100",
        "folder": "/work",
        "qos": "normal",
    }
    return BatchJob(**{**facts, **changes})  # type: ignore[arg-type]


def test_a_job_that_names_no_cpus_has_one_for_each_task() -> None:
    """Scripts with `set -u` end without them. Planted: no variable; one CPU for a whole node."""
    found = job_variables(a_job(tasks=3, tasks_per_node=2), TWO)
    assert (found["SLURM_CPUS_ON_NODE"], found["SLURM_JOB_CPUS_PER_NODE"]) == ("2", "2,1")
    assert job_variables(a_job(), TWO)["SLURM_JOB_CPUS_PER_NODE"] == "1(x2)"


def test_the_variables_of_two_nodes_with_four_tasks_each() -> None:
    job = a_job(
        tasks_per_node=4, cpus_per_task=6, cpus_per_node=24, memory_mib_per_node=4096, restarts=2
    )
    assert job_variables(job, TWO) == {
        "SLURMD_NODENAME": "node-001",
        "SLURM_CLUSTER_NAME": "tidegate",
        "SLURM_CPUS_ON_NODE": "24",
        "SLURM_CPUS_PER_TASK": "6",
        "SLURM_GPUS": "16",
        "SLURM_GPUS_ON_NODE": "8",
        "SLURM_GPUS_PER_NODE": "8",
        "SLURM_GTIDS": "0",
        "SLURM_JOBID": "77",
        "SLURM_JOB_ACCOUNT": "ai-company/nlp",
        "SLURM_JOB_CPUS_PER_NODE": "24(x2)",
        "SLURM_JOB_GPUS": "0,1,2,3,4,5,6,7",
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_NAME": "pretrain",
        "SLURM_JOB_NODELIST": "node-[001-002]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_PARTITION": "h100",
        "SLURM_JOB_QOS": "normal",
        "SLURM_JOB_USER": "ana",
        "SLURM_LOCALID": "0",
        "SLURM_MEM_PER_NODE": "4096",
        "SLURM_NNODES": "2",
        "SLURM_NODEID": "0",
        "SLURM_NODELIST": "node-[001-002]",
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_NPROCS": "8",
        "SLURM_NTASKS": "8",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_PROCID": "0",
        "SLURM_RESTART_COUNT": "2",
        "SLURM_SUBMIT_DIR": "/work",
        "SLURM_SUBMIT_HOST": "node-001",
        "SLURM_TASKS_PER_NODE": "4(x2)",
        "TIDEGATE_GPUS_PER_NODE": "8",
        "TIDEGATE_GPU_SLOTS": "0,1,2,3,4,5,6,7",
        "TIDEGATE_NODE": "node-001",
        "TIDEGATE_PLACES": "node-[001-002]:0-7",
    }


@pytest.mark.parametrize(("limit_s", "end"), [(900, "1796000900"), (None, "1827536000")])
def test_scripts_know_how_long_they_may_run(limit_s: int | None, end: str) -> None:
    """A job without a limit has a year, as in Slurm. Planted: no end without a limit."""
    found = start_variables(
        user_id=1002, group_id=100, started_at=1_796_000_000, time_limit_s=limit_s
    )
    assert found == {
        "SLURM_JOB_END_TIME": end,
        "SLURM_JOB_GID": "100",
        "SLURM_JOB_START_TIME": "1796000000",
        "SLURM_JOB_UID": "1002",
    }


def test_what_nobody_asked_for_is_not_set() -> None:
    """Planted: SLURM_NTASKS of a job that names no tasks, so that srun -N1 started two."""
    found = job_variables(a_job(), TWO)
    absent = ("NTASKS", "NPROCS", "NTASKS_PER_NODE", "CPUS_PER_TASK", "MEM_PER_NODE")
    assert not {f"SLURM_{name}" for name in (*absent, "RESTART_COUNT", "ARRAY_JOB_ID")} & set(found)


@pytest.mark.parametrize(
    ("nodes", "tasks", "per_node", "counts"),
    [
        (1, 4, None, [4]),
        (2, 5, None, [3, 2]),
        (3, 2, None, [1, 1, 0]),
        (2, 8, 4, [4, 4]),
        (4, 8, 4, [4, 2, 1, 1]),
        (2, 3, 8, [2, 1]),
    ],
)
def test_tasks_are_spread_over_nodes(
    nodes: int, tasks: int, per_node: int | None, counts: list[int]
) -> None:
    assert tasks_by_node(nodes, tasks, per_node) == counts


def test_a_number_of_tasks_on_each_node_that_is_too_small_is_ignored() -> None:
    """As in Slurm. An elastic job may get fewer nodes than its tasks need. Against: an error."""
    assert tasks_by_node(2, 9, 4) == [5, 4]
    found = job_variables(a_job(tasks=9, tasks_per_node=4), TWO)
    assert (found["SLURM_NTASKS"], found["SLURM_TASKS_PER_NODE"]) == ("9", "5,4")
    assert "SLURM_NTASKS_PER_NODE" not in found


def test_counts_are_written_as_slurm_writes_them() -> None:
    assert counts_text([8, 8, 4]) == "8(x2),4"


def test_the_number_of_a_job_is_a_small_one_that_scripts_can_compute_with() -> None:
    assert job_number(UUID("01a22350-95b9-715b-8a9f-ffffffffffff")) == (1 << 30) - 1
