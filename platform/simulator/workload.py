"""The jobs of a trace with the properties that it lacks, drawn once for all policies."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

_RANGES = {
    "checkpointable_percent": (0, 100),
    "checkpoint_interval_s": (1, 30 * 86_400),
    "save_s": (0, 86_400),
    "restart_s": (0, 86_400),
    "cycle_s": (1, 86_400),
    "strict_after_s": (0, 366 * 86_400),
    "limit_error_percent": (0, 1_000),
    "failure_interval_s": (0, 100 * 366 * 86_400),
    "repair_s": (1, 366 * 86_400),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The assumptions of a simulation beyond its trace.

    `checkpointable_percent` of the jobs can resume from a checkpoint. They write one every
    `checkpoint_interval_s` of work. After a notice they write one more, in the last `save_s` of
    their grace. The other jobs start from the beginning. Every attempt except the first spends
    `restart_s` before it works.

    Policies decide at multiples of `cycle_s` after a change. In the baselines no job passes an
    older one of the same queue that has waited for `strict_after_s`.

    If the trace has no time limits, they are the true duration times a lognormal factor, and never
    below the duration. The logarithm of the factor has the standard deviation `limit_error_percent`
    / 100.

    `failure_interval_s` is the mean time between two failures of one node, exponentially
    distributed; 0 means no failures. A failed node is back after `repair_s`.

    `has_credits`: whether there is a bank in which teams begin with 0 credits.

    Raises ValueError when a number is out of its range.
    """

    seed: int = 1
    checkpointable_percent: int = 70
    checkpoint_interval_s: int = 1_800
    save_s: int = 60
    restart_s: int = 120
    cycle_s: int = 60
    strict_after_s: int = 43_200
    limit_error_percent: int = 50
    failure_interval_s: int = 0
    repair_s: int = 14_400
    has_credits: bool = True

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}; choose {low} to {high}")


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A row of a trace: `node_count` nodes with `mgpu_per_node` each for `duration_s`.

    `features` are required of each node; `cpu_milli` and `memory_mib` are requested of each node.
    These two and `time_limit_s` are None if the trace has no value.
    """

    id: str
    team: str
    user: str
    submit_s: int
    duration_s: int
    mgpu_per_node: int
    node_count: int = 1
    time_limit_s: int | None = None
    features: frozenset[str] = frozenset()
    cpu_milli: int | None = None
    memory_mib: int | None = None

    @property
    def mgpu(self) -> int:
        """Return the total request of the job, in milli-GPU."""
        return self.mgpu_per_node * self.node_count


@dataclass(frozen=True, slots=True)
class Work:
    """A job with its place in the trace, its time limit, and whether it can resume."""

    number: int
    job: TraceJob
    limit_s: int
    is_checkpointable: bool


def gang(gpus: int, per_node: int) -> tuple[int, int]:
    """Return (milli-GPU on each node, nodes) of a job that needs `gpus` whole GPUs.

    It gets the smallest number of nodes of `per_node` GPUs that hold it in equal parts.
    """
    nodes = -(-gpus // per_node)
    while gpus % nodes:
        nodes += 1
    return gpus // nodes * 1_000, nodes


def prepare(jobs: Iterable[TraceJob], settings: Settings) -> tuple[Work, ...]:
    """Return the jobs by submit time and id, numbered, with the properties drawn by the seed.

    Second 0 is the first submission. The order of `jobs` does not matter.
    """
    dice = random.Random(settings.seed)
    ordered = sorted(jobs, key=_place)
    begins_s = ordered[0].submit_s if ordered else 0
    return tuple(
        _drawn(number, replace(job, submit_s=job.submit_s - begins_s), settings, dice)
        for number, job in enumerate(ordered)
    )


def _place(job: TraceJob) -> tuple[int, int, str]:
    """Return the sort key: submit time, then id, where 9 comes before 10."""
    return job.submit_s, len(job.id), job.id


def _drawn(number: int, job: TraceJob, settings: Settings, dice: random.Random) -> Work:
    is_checkpointable = dice.randrange(100) < settings.checkpointable_percent
    error = max(1.0, dice.lognormvariate(0.0, settings.limit_error_percent / 100))
    limit_s = job.time_limit_s
    if limit_s is None:
        limit_s = round(job.duration_s * error)
    return Work(number, job, max(job.duration_s, limit_s), is_checkpointable)


def fluid_bound_mgpu_s(jobs: Sequence[TraceJob], capacity_mgpu: int, horizon_s: int) -> int:
    """Return the most work that any policy could do until `horizon_s`, in milli-GPU-seconds.

    It is the smaller of two relaxations. In one, a single queue is served at full capacity. In the
    other, every job starts at its submission. Both ignore gangs, nodes and order.
    """
    alone = sum(job.mgpu * min(job.duration_s, max(0, horizon_s - job.submit_s)) for job in jobs)
    done = backlog = at = 0
    for job in sorted(jobs, key=lambda one: one.submit_s):
        until = min(job.submit_s, horizon_s)
        served = min(backlog, capacity_mgpu * (until - at))
        done += served
        backlog += job.mgpu * job.duration_s - served
        at = until
    done += min(backlog, capacity_mgpu * (horizon_s - at))
    return min(alone, done)
