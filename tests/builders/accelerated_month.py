"""Weeks of a company in minutes: the product's own loops and timers, on a clock that a test moves.

Toy clusters run the jobs in memory. Each job ends after the time that the test has made up for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from uuid import UUID

from bank.correcting import correct_due
from bank.settling import settle_due
from billing.reconciliations import plan_days
from budgets.evaluation import evaluate, organizations_with_budgets
from builders.clocks import ClockAt
from builders.loop_builders import LoopOn, a_job
from builders.reconciled_loop import carry_out
from clusters.models import Cluster, Pool
from connectors.errors import ClusterUnavailable
from connectors.protocol import Outcome
from jobs.models import Attempt, AttemptState, Heartbeat, Job
from tenants.models import Node, User
from toy_kind.connector import CLUSTERS, ToyCluster

#: The pause after the end of an interval before it is settled.
SETTLED_AFTER = timedelta(seconds=60)


def a_toy_cluster(cluster: Cluster, pool: Pool, *, nodes: int, kind: str) -> ToyCluster:
    """A toy cluster of `nodes` x 8 GPUs for the row. The caller takes it out of CLUSTERS again."""
    cluster.kind, cluster.options = kind, {"address": cluster.name, "gpus_per_node": 8}
    cluster.save()
    CLUSTERS[cluster.name] = toy = ToyCluster(pool=pool.name, node_count=nodes)
    return toy


def _nothing() -> None:
    """Happen without an effect."""


@dataclass
class AcceleratedMonth:
    """The loops of some toy clusters, what is to happen when, and how long each job runs."""

    clock: ClockAt
    loops: dict[str, LoopOn]
    settled_every: timedelta
    lasting: dict[UUID, timedelta] = field(default_factory=dict)
    _due: list[tuple[datetime, int, Callable[[], object], bool]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)
    _known: set[str] = field(default_factory=set)

    @property
    def now(self) -> datetime:
        return self.clock.time

    def at(
        self, moment: datetime, act: Callable[[], object] = _nothing, *, turns: bool = True
    ) -> None:
        """Let something happen at a moment that is to come, and then the loops turn."""
        heapq.heappush(self._due, (moment, next(self._numbers), act, turns))

    def submit(
        self, team: Node, user: User, pool: Pool, name: str, *, gpus: int, lasts: timedelta
    ) -> Job:
        """Submit a job now that will run so long in each of its attempts, which is its limit."""
        limit_s = int(lasts.total_seconds())
        job = a_job(team, user, pool, gpus=gpus, name=name, now=self.now, time_limit_s=limit_s)
        self.lasting[job.pk] = lasts
        self.at(self.now)
        return job

    def run_until(self, moment: datetime) -> None:
        """Let time pass until `moment`, with all that is to happen."""
        self.at(moment)
        turns = False
        while self._due and self._due[0][0] <= moment:
            self.clock.time, _, act, matters = heapq.heappop(self._due)
            act()
            turns |= matters
            if turns and (not self._due or self._due[0][0] > self.now):
                self._turn()
                turns = False

    def settle_from(self, start: datetime) -> None:
        """Settle credits and evaluate budgets after each interval from `start` on."""

        def settle() -> None:
            settle_due(self.now)
            correct_due(self.now)
            for organization in organizations_with_budgets():
                evaluate(organization, self.now)
            self.at(self.now + self.settled_every, settle, turns=False)

        self.at(start + self.settled_every + SETTLED_AFTER, settle, turns=False)

    def reconcile_from(self, start: datetime) -> None:
        """Compare each day with the clusters' accounts, once a day from `start` on."""

        def compare() -> None:
            for loop in self.loops.values():
                with loop.observer.fence():
                    plan_days(loop.cluster, now=self.now)
                carry_out(loop)
            self.at(self.now + timedelta(days=1), compare, turns=False)

        self.at(start, compare, turns=False)

    def _turn(self) -> None:
        for loop in self.loops.values():
            with away():
                loop.take_inventory()
                loop.observe()
        (first, *_) = self.loops.values()
        first.cycles.run(self.now)
        for role in ("arbiter", "observer"):
            Heartbeat.objects.update_or_create(
                role=role, defaults={"epoch": 1, "at": self.now, "worked_at": self.now}
            )
        for loop in self.loops.values():
            loop.deliver()
            with away():
                loop.observe()
        self._plan_ends()
        graces = Attempt.objects.filter(
            state=AttemptState.STOPPING, released_at=None, forced_at=None, grace_until__gt=self.now
        )
        for until in set(graces.values_list("grace_until", flat=True)):
            assert until is not None
            self.at(until)

    def _plan_ends(self) -> None:
        """Let each attempt that has begun since end after the time of its job."""
        for toy in [CLUSTERS[name] for name in self.loops if name in CLUSTERS]:
            for key in toy.runs.keys() - self._known:
                self._known.add(key)
                attempt = Attempt.objects.get(pk=key.removeprefix("tg-"))
                self.at(self.now + self.lasting[attempt.job_id], partial(toy.end, key))

    def fail_node_of(self, job: Job) -> None:
        """The node under a job's running attempt fails."""
        attempt = job.attempts.get(released_at=None)
        assert attempt.cluster is not None
        CLUSTERS[attempt.cluster.name].end(attempt.key, Outcome.NODE_FAILED)


@contextmanager
def away() -> Iterator[None]:
    """A step of a loop whose cluster may be cut off."""
    try:
        yield
    except ClusterUnavailable:
        return
