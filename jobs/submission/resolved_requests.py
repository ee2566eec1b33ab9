"""A request whose every name was looked up, before it becomes a job."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from arbiter.api.plan import Waiting
from clusters.models import Cluster, Pool
from jobs.models import Condition, JobType
from jobs.submission.fitting import Fleet
from jobs.submission.offers import Offer
from jobs.submission.requests import JobRequest
from jobs.submission.sbatch import Note
from primitives.units import DeviceKind
from quotas.models import PriorityClass
from tenants.models import Node


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A job or (`is_array`) an array to wait for, in the state of this moment."""

    id: UUID
    is_array: bool
    name: str
    condition: Condition
    state: str


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A request whose every name is a thing that the actor may use.

    `others` are the same request in the further pools that it accepts, each as if it were the only
    one; its size is that of the first.

    `clusters` are the ids of those that it is confined to, by its own word or by its image; None
    is any. It starts with `node_count` nodes at least and has `node_count_max` at most, which are
    more only where it is elastic. `never` is the arbiter's word that it could not even run on an
    idle fleet.
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
        """The request in all pools that it accepts, in its order."""
        return (self, *self.others)

    @property
    def hopeless(self) -> tuple[ResolvedRequest, Waiting] | None:
        """The first of its pools in which it could never run, with the arbiter's word."""
        return next(((one, one.never) for one in self.in_each_pool if one.never is not None), None)

    @property
    def mgpu(self) -> int:
        """What it asks for in all, at least, in milli-GPU."""
        return self.mgpu_per_node * self.node_count

    @property
    def mgpu_max(self) -> int:
        """The most that it would have, in milli-GPU."""
        return self.mgpu_per_node * self.node_count_max


def size_pointer(request: JobRequest) -> str:
    """The member that says how large the job is."""
    if request.size.device is DeviceKind.CPU:
        return "/cpus_per_node"
    return "/gpus" if request.size.mgpu is not None else "/gpus_per_node"
