"""A request with all its names resolved, before it becomes a job."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from arbiter.api.plan import Waiting
from clusters.models import Cluster, Pool
from jobs.models import Condition, JobType
from jobs.submission.fitting import Fleet
from jobs.submission.offers import Offer
from jobs.submission.requests import JobRequest
from jobs.submission.sbatch_notes import Note
from primitives.units import DeviceKind
from quotas.models import PriorityClass
from tenants.models import Node


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A job, or with `is_array` an array, to wait for, with its state at this moment."""

    id: UUID
    is_array: bool
    name: str
    condition: Condition
    state: str


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request in which every name is resolved to an object that the actor may use.

    `others` are the same request in the further accepted pools, each as if it were the only pool.
    They have the size that was laid out for the first pool.

    `clusters` are the ids of the clusters to which its pin or image restricts it; None means any.
    It starts with at least `node_count` and at most `node_count_max` nodes, which differ only for
    an elastic job. `never` is the arbiter's reason if it could not run even on an idle fleet.
    """

    request: JobRequest
    team: Node
    pool: Pool
    priority_class: PriorityClass
    cluster: Cluster | None
    clusters: frozenset[str] | None
    type: JobType
    mgpu_per_node: int
    node_count: int
    node_count_max: int
    notes: tuple[Note, ...]
    fleet: Fleet
    offer: Offer
    never: Waiting | None
    predecessors: tuple[Predecessor, ...]
    others: tuple[ResolvedRequest, ...] = ()

    @property
    def in_each_pool(self) -> tuple[ResolvedRequest, ...]:
        """The request in all accepted pools, most preferred first."""
        return (self, *self.others)

    @property
    def hopeless(self) -> tuple[ResolvedRequest, Waiting] | None:
        """The first pool in which the request could never run, with the arbiter's reason."""
        return next(((one, one.never) for one in self.in_each_pool if one.never is not None), None)

    @property
    def mgpu(self) -> int:
        """The least total that it asks for, in milli-GPU."""
        return self.mgpu_per_node * self.node_count

    @property
    def mgpu_max(self) -> int:
        """The largest total that it may get, in milli-GPU."""
        return self.mgpu_per_node * self.node_count_max


def size_pointer(request: JobRequest) -> str:
    """Return the JSON pointer of the member that gives the job's size."""
    if request.size.device is DeviceKind.CPU:
        return "/cpus_per_node"
    return "/gpus" if request.size.mgpu is not None else "/gpus_per_node"
