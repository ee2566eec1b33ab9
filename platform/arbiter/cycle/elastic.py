"""Elastic jobs: the number of nodes with which a job starts that accepts a range (R-47 to R-49).

In the queue an elastic job counts with its minimum. Its order, its reason to wait, its reservation
and its reclaim all use that size. So it never waits for more than its minimum, and no job is
stopped to make it larger. Once it can start it gets more nodes in two steps:

1. When it is served, it gets as many nodes as its team's own guarantee allows. Guaranteed GPUs
   are given out in the order of service, and the job competes there like one of that size.
2. After all jobs were served, it gets free nodes that are left over on its cluster. They could
   be reclaimed only by stopping the whole job, so any job that can start on them goes first,
   whatever its rank. For the same reason it takes nothing that is held back for a reservation,
   whatever its time limit. It also takes nothing in a cycle that reached `starts_max` or
   `reclaims_max`, because some waiting jobs were not considered in that cycle.

After that it is a job of the granted size: for fair-share, credits, metering and protection. A job
is protected as a whole or not at all. A job that must be protected should request no more than its
team's guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from arbiter.api.snapshot import QueuedJob
from arbiter.backfill.reservations import Reservations
from arbiter.cache.pool import Pool
from arbiter.explain.usage import NewStart
from arbiter.fairshare.fair_tree import FairShares
from arbiter.placement.free_devices import Place, Shape
from arbiter.queue.order import Position, TeamQueue
from arbiter.quota.tree import ROOT


def is_elastic(job: QueuedJob) -> bool:
    """Return whether a job accepts more nodes than it has."""
    return job.node_count_max is not None and job.node_count < job.node_count_max


class Charge(Protocol):
    """Count a job of a team as use."""

    def __call__(self, team: int, job: QueuedJob, *, is_borrowed: bool) -> None: ...


class Elastic:
    """The sizes of elastic jobs in one pool and cycle."""

    def __init__(
        self,
        pool: Pool,
        reserved: Reservations,
        shares: FairShares,
        queues: Mapping[int, TeamQueue],
    ) -> None:
        self._pool = pool
        self._reserved = reserved
        self._shares = shares
        self._queues = queues

    def sized(self, job: QueuedJob, team: int) -> tuple[QueuedJob, Shape]:
        """Return an elastic `job` in the size with which it starts when served, and its shape.

        The job can start at its minimum and draws on its team's own guarantee. It gets as many
        nodes as that guarantee, quota, class and devices allow now.
        """
        assert job.node_count_max is not None
        can = partial(self._can_start, job, team)
        sized = replace(job, node_count=_most(job.node_count, job.node_count_max, can))
        return sized, self._pool.config.shape_of(sized)

    def _can_start(self, job: QueuedJob, team: int, nodes: int) -> bool:
        """Return whether `job` could start on that many nodes, within its team's own guarantee."""
        pool, reserved, larger = self._pool, self._reserved, replace(job, node_count=nodes)
        shape = pool.config.shape_of(larger)
        if not (
            pool.guarantees.fits(team, team, larger.mgpu)
            and self._is_allowed(larger, team)
            and reserved.fits(shape)
        ):
            return False
        longest_s, first = reserved.longest_s(team, shape, job.priority_class, team)
        return first is None or (
            larger.time_limit_s is not None and larger.time_limit_s <= longest_s
        )

    def grow_all(
        self,
        starts: list[NewStart],
        position_of: Callable[[int, int], Position],
        charge: Charge,
    ) -> None:
        """Give nodes that are left over to elastic jobs among `starts`, in the order of service.

        `position_of` returns the position of a team that draws on the guarantee of a node.
        """
        pool, in_order = self._pool, []
        for at, start in enumerate(starts):
            if is_elastic(start.job):
                job, team = start.job, start.team
                source = pool.source(team, job.mgpu_per_node)
                used = self._shares.of_user(team, job.user)
                place = position_of(team, source).with_loads(self._shares.order(team))
                in_order.append((place, -start.order, used, job.submitted_at, job.id, source, at))
        for *_, source, at in sorted(in_order):
            grown = self._grow(starts[at])
            if grown is not None:
                starts[at], more = grown
                charge(starts[at].team, more, is_borrowed=source != starts[at].team)

    def _grow(self, start: NewStart) -> tuple[NewStart, QueuedJob] | None:
        """Add the nodes of its cluster that no other job needs to a start.

        Return the larger start, and the added nodes as if they were a job of their own. Return None
        if there are no such nodes. The added nodes count as taken.
        """
        job, team, place = start.job, start.team, start.place
        assert job.node_count_max is not None
        nodes = self._nodes_for(job, place)[: job.node_count_max - job.node_count]
        alone = replace(
            job,
            clusters=frozenset((place.cluster,)),
            required_topology=None,
            preferred_topology=None,
            node_count_max=None,
        )
        count = _most(0, len(nodes), partial(self._can_add, alone, team))
        if not count:
            return None
        more = replace(alone, node_count=count)
        added = Place(place.cluster, tuple(sorted(nodes[:count])))
        slots = self._pool.start(more, team, added)
        self._reserved.note_start(more, team, added.cluster, slots)
        whole = replace(job, node_count=job.node_count + count)
        names = tuple(sorted((*place.nodes, *added.nodes)))
        return NewStart(whole, team, start.order, Place(place.cluster, names)), more

    def _can_add(self, alone: QueuedJob, team: int, count: int) -> bool:
        """Return whether `alone` could start on that many nodes and delay no reservation."""
        more = replace(alone, node_count=count)
        if not self._is_allowed(more, team):
            return False
        shape = self._pool.config.shape_of(more)
        return self._reserved.longest_s(team, shape, alone.priority_class, ROOT)[1] is None

    def _is_allowed(self, job: QueuedJob, team: int) -> bool:
        """Return whether the class cap, the team's own blocked jobs and quota allow this job."""
        pool, queue = self._pool, self._queues.get(team)
        cls = pool.config.classes.get(job.priority_class)
        if cls is not None and cls.team_cap_mgpu is not None:
            in_use = pool.class_use.get((team, cls.id), 0)
            if in_use + job.mgpu > cls.team_cap_mgpu:
                return False
        blocked = 0 if queue is None else queue.blocked_mgpu
        if blocked and not pool.guarantees.fits(team, team, blocked + job.mgpu):
            return False
        return pool.blocker(team, job.mgpu) is None

    def _nodes_for(self, job: QueuedJob, place: Place) -> list[str]:
        """Return further nodes with space for a rank of `job`, which starts at `place`.

        Nodes in the topology domain that the job prefers come first, and among equals the fullest.
        """
        free, cluster = self._pool.free, place.cluster
        shape, own = self._pool.config.shape_of(job), set(place.nodes)
        found = [node for _, node in free.nodes_for(cluster, shape) if node not in own]
        topology = replace(job, node_count=2).topology
        if topology is None:
            return found
        if not topology.is_required:
            nearby = topology._replace(is_required=True)
            return sorted(
                found,
                key=lambda node: (
                    not free.plans.are_together(nearby, cluster, (place.nodes[0], node))
                ),
            )
        return [
            node
            for node in found
            if free.plans.are_together(topology, cluster, (place.nodes[0], node))
        ]


def _most(least: int, most: int, can: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` for which `can` holds.

    It holds for `least`, and for every number below one for which it holds.
    """
    while least < most:
        middle = (least + most + 1) // 2
        if can(middle):
            least = middle
        else:
            most = middle - 1
    return least
