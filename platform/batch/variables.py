"""Slurm's environment variables of a batch job and of the tasks of its steps (sbatch(1), srun(1)).

Names and values are those of Slurm 22.05, but for the job's number: Slurm's is a small counter, and
ours is computed from the job's id (`job_number`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from uuid import UUID

from batch.places import PLACES_VARIABLE, Place, places_text
from primitives.hostlist import contract

_JOB_NUMBER_BITS = 30
_YEAR_S = 365 * 86_400


class BatchJob:
    """A batch job as its script is told about it.

    `folder` is the one in which the script starts, and `qos` the name of its priority class.
    `array_number` is the number of the job's array, and `restarts` counts its earlier attempts.
    The fields about tasks are those of the `#SBATCH` lines; None means that these say nothing.
    `tasks` counts all tasks. Memory is in MiB.
    """

    def __init__(
        self,
        *,
        number: int,
        name: str,
        user: str,
        account: str,
        partition: str,
        folder: str,
        qos: str = "",
        restarts: int = 0,
        array_number: int | None = None,
        tasks: int | None = None,
        tasks_per_node: int | None = None,
        cpus_per_task: int | None = None,
        gpus_per_task: int | None = None,
        cpus_per_node: int | None = None,
        memory_mib_per_node: int | None = None,
    ) -> None:
        self.number = number
        self.name = name
        self.user = user
        self.account = account
        self.partition = partition
        self.folder = folder
        self.qos = qos
        self.restarts = restarts
        self.array_number = array_number
        self.tasks = tasks
        self.tasks_per_node = tasks_per_node
        self.cpus_per_task = cpus_per_task
        self.gpus_per_task = gpus_per_task
        self.cpus_per_node = cpus_per_node
        self.memory_mib_per_node = memory_mib_per_node


def job_number(job_id: UUID) -> int:
    """Return the number that stands for the job where Slurm has a number: scripts compute with it.

    It is the same for all attempts of the job. Two jobs may share it, once in a billion pairs.
    """
    return job_id.int % (1 << _JOB_NUMBER_BITS)


def counts_text(counts: Sequence[int]) -> str:
    """Return counts by node as Slurm writes them: 8, 8, 4 is `8(x2),4`."""
    runs = ((count, len(list(run))) for count, run in groupby(counts))
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def tasks_by_node(nodes: int, tasks: int, tasks_per_node: int | None = None) -> list[int]:
    """Return the number of tasks on each node, in Slurm's default distribution (block).

    With `tasks_per_node` the nodes are filled one after the other, else evenly: the first nodes get
    one more. As in Slurm, `tasks_per_node` is ignored where the tasks do not fit with it.
    """
    if not respects_tasks_per_node(nodes, tasks, tasks_per_node):
        least, more = divmod(tasks, nodes)
        return [least + (node < more) for node in range(nodes)]
    assert tasks_per_node is not None
    # Every node gets a task, as far as there are enough of them.
    counts = []
    for node in range(nodes):
        others = nodes - node - 1
        counts.append(min(tasks_per_node, max(tasks - others, min(tasks, 1))))
        tasks -= counts[-1]
    return counts


def respects_tasks_per_node(nodes: int, tasks: int | None, tasks_per_node: int | None) -> bool:
    """Return whether there is a number of tasks on each node, with which all tasks fit."""
    return tasks_per_node is not None and (tasks is None or tasks <= nodes * tasks_per_node)


def job_variables(job: BatchJob, places: Sequence[Place]) -> dict[str, str]:
    """Return the `SLURM_*` variables of the batch script, which runs on the first of `places`."""
    nodes = [place.node for place in places]
    tasks = job.tasks
    is_respected = respects_tasks_per_node(len(nodes), tasks, job.tasks_per_node)
    if tasks is None and job.tasks_per_node is not None:
        tasks = len(nodes) * job.tasks_per_node
    by_node = tasks_by_node(len(nodes), tasks or len(nodes), job.tasks_per_node)
    found = {
        "SLURM_CLUSTER_NAME": "tidegate",
        "SLURM_JOB_ACCOUNT": job.account,
        "SLURM_JOB_ID": str(job.number),
        "SLURM_JOB_NAME": job.name,
        "SLURM_JOB_NODELIST": contract(nodes),
        "SLURM_JOB_NUM_NODES": str(len(nodes)),
        "SLURM_JOB_PARTITION": job.partition,
        "SLURM_JOB_QOS": job.qos,
        "SLURM_JOB_USER": job.user,
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_RESTART_COUNT": str(job.restarts),
        "SLURM_SUBMIT_DIR": job.folder,
        "SLURM_SUBMIT_HOST": nodes[0],
        "SLURM_TASKS_PER_NODE": counts_text(by_node),
        PLACES_VARIABLE: places_text(places),
        **node_variables(places[0], 0),
    }
    found["SLURM_JOBID"] = found["SLURM_JOB_ID"]
    found["SLURM_NODELIST"] = found["SLURM_JOB_NODELIST"]
    found["SLURM_NNODES"] = found["SLURM_JOB_NUM_NODES"]
    # The batch script is task 0 of the batch step.
    found.update(SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_GTIDS="0")
    if not job.restarts:
        del found["SLURM_RESTART_COUNT"]
    gpus = sum(len(place.devices) for place in places)
    optional = {
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": job.tasks_per_node if is_respected else None,
        "SLURM_CPUS_PER_TASK": job.cpus_per_task,
        "SLURM_GPUS_PER_TASK": job.gpus_per_task,
        "SLURM_MEM_PER_NODE": job.memory_mib_per_node,
        "SLURM_GPUS": gpus or None,
        "SLURM_GPUS_ON_NODE": len(places[0].devices) or None,
        "SLURM_GPUS_PER_NODE": len(places[0].devices) or None,
        "SLURM_ARRAY_JOB_ID": job.array_number,
    }
    found.update({key: str(value) for key, value in optional.items() if value is not None})
    # A job that names no CPUs has one for each task, as in Slurm.
    cpus = [job.cpus_per_node or max(1, count) for count in by_node]
    found["SLURM_CPUS_ON_NODE"] = str(cpus[0])
    found["SLURM_JOB_CPUS_PER_NODE"] = counts_text(cpus)
    return found


def start_variables(
    *, user_id: int, group_id: int, started_at: int, time_limit_s: int | None
) -> dict[str, str]:
    """Return the variables that are known only when the batch script starts.

    `started_at` is in seconds of UNIX time. As in Slurm, a job without a limit ends in a year.
    """
    end = started_at + (_YEAR_S if time_limit_s is None else time_limit_s)
    return {
        "SLURM_JOB_END_TIME": str(end),
        "SLURM_JOB_GID": str(group_id),
        "SLURM_JOB_START_TIME": str(started_at),
        "SLURM_JOB_UID": str(user_id),
    }


def node_variables(place: Place, node_id: int) -> dict[str, str]:
    """Return the variables of every process on the job's node number `node_id`."""
    devices = ",".join(map(str, place.devices))
    return {
        "SLURMD_NODENAME": place.node,
        "SLURM_NODEID": str(node_id),
        "SLURM_JOB_GPUS": devices,
        "TIDEGATE_NODE": place.node,
        "TIDEGATE_GPUS_PER_NODE": str(len(place.devices)),
        "TIDEGATE_GPU_SLOTS": devices,
    }
