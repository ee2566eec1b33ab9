"""The order of service in plain terms: all is worked out anew for each start.

It knows no queues, contests or heaps, and shares with the arbiter only what an hour is worth. So it
is what the arbiter's order is held to, in worlds where nothing but that order matters: one pool, no
limits, no caps, no claims, devices for everybody, and all that runs is older than an hour.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import ceil, inf
from random import Random

from arbiter.api.policy import Policy, SpareOrder
from arbiter.api.snapshot import QueuedJob, Quota, RunningJob, Snapshot
from arbiter.fairshare.decay import CHARGED_AT_START_S, Decay
from builders.arbiter_builders import (
    GPU,
    NOW,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    devices,
    slots,
)

_TENTH_OF_A_DAY_S = 8_640
_CLASSES = ("high", "normal", "low")


class NaiveService:
    """Whose turn it is, in a snapshot."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.policy = policy
        self.quotas = {quota.node: quota for quota in snapshot.quotas}
        self.nodes = {node.id: node for node in snapshot.nodes}
        self.orders = {cls.id: cls.order for cls in snapshot.priority_classes}
        self.waiting = list(snapshot.queued)
        self.used: dict[tuple[str, str], int] = defaultdict(int)
        for row in snapshot.usage:
            self.used[row.team, row.user] += row.decayed_mgpu_s * 1_000
        self.credits = {row.team: row.credits - row.held for row in snapshot.balances}
        self.protected: dict[str, int] = defaultdict(int)
        self._protect(list(snapshot.running))

    def starts(self) -> list[str]:
        """The jobs that one cycle starts, in order."""
        found = []
        while self.waiting and len(found) < self.policy.starts_max:
            teams = {job.team for job in self.waiting}
            job = min(map(self._next_of, teams), key=self._turn)
            self._start(job)
            found.append(job.id)
        return found

    def _next_of(self, team: str) -> QueuedJob:
        """Priority class, the user's fair-share, submit time, id."""
        return min(
            (job for job in self.waiting if job.team == team),
            key=lambda job: (
                -self.orders[job.priority_class],
                self.used[team, job.user],
                job.submitted_at,
                job.id,
            ),
        )

    def _turn(self, job: QueuedJob) -> tuple[object, ...]:
        """Guaranteed demand by use over guarantee; what is to spare by how far up it is, rank,
        credits; fair-share; submit time, id."""
        team, source = job.team, self._source(job)
        ratio, level = Fraction(0), len(self.nodes) + 1
        if source is not None:
            ratio = Fraction(self.protected[source], self._guaranteed(source))
            level = 0 if source == team else len(self.nodes) - source.count("/")
        rank, credits, late_credits = 0, (False, 0), (False, 0)
        if source != team:
            rank = self._ranks_before(team)
            order = self.policy.spare_order
            if order is SpareOrder.CREDITS_THEN_FAIR_SHARE:
                credits = self._debts(team)
            elif order is SpareOrder.FAIR_SHARE_THEN_CREDITS:
                late_credits = self._debts(team)
        loads = tuple(map(self._load, reversed(_path(team))))
        return level, ratio, rank, credits, loads, late_credits, job.submitted_at, job.id

    def _source(self, job: QueuedJob) -> str | None:
        """The lowest node on whose guarantee the job draws."""
        for node in _path(job.team):
            if self.protected[node] + job.mgpu <= self._guaranteed(node):
                return node
        return None

    def _start(self, job: QueuedJob) -> None:
        """It counts as protected wherever it fits, as used for the first hour, and holds the
        credits of that where it borrows."""
        if self._source(job) != job.team and job.team in self.credits:
            self.credits[job.team] -= job.mgpu * 1_000 * CHARGED_AT_START_S
        for node in _path(job.team):
            if self.protected[node] + job.mgpu <= self._guaranteed(node):
                self.protected[node] += job.mgpu
        hour = Decay(self.policy.fair_share_half_life_s).at_start()
        self.used[job.team, job.user] += job.mgpu * hour * 1_000 >> 32
        self.waiting.remove(job)

    def _protect(self, running: list[RunningJob]) -> None:
        """At each node, the lowest first, those below it: protected one level lower first, then by
        priority, start time and id, while they fit whole."""
        lower: dict[str, set[str]] = defaultdict(set)
        for node in sorted(self.nodes, key=lambda name: -name.count("/")):
            below = [run for run in running if node in _path(run.team)]
            children = [child for child in self.nodes if _path(child)[1:2] == [node]]
            kept = {job for child in children for job in lower[child]}
            below.sort(
                key=lambda run: (
                    run.job not in kept,
                    -self.orders[run.priority_class],
                    run.started_at,
                    run.job,
                )
            )
            for run in below:
                if self.protected[node] + run.mgpu <= self._guaranteed(node):
                    self.protected[node] += run.mgpu
                    lower[node].add(run.job)

    def _guaranteed(self, node: str) -> int:
        return self.quotas[node].guaranteed_mgpu

    def _ranks_before(self, team: str) -> int:
        """How many ranks of its organization go before the team's."""
        organization = _path(team)[-1]
        own = {name: self._rank(name) for name in self.nodes if _path(name)[-1] == organization}
        return sum(1 for rank in set(own.values()) if rank > own[team])

    def _rank(self, node: str) -> int:
        return next((self.nodes[name].rank for name in _path(node) if self.nodes[name].rank), 0)

    def _debts(self, team: str) -> tuple[bool, int]:
        """Who borrows unpaid comes last; else by whole tenths of a day of the guarantee. A debt
        that is never paid counts as one of a tenth beyond the floor at least."""
        day = max(1, self._guaranteed(team)) * 1_000
        if team not in self.credits:
            return False, 0
        credits, floor_s = self.credits[team], self.policy.credit_floor_s
        debt = -(credits // (day * _TENTH_OF_A_DAY_S))
        if credits > -self._guaranteed(team) * 1_000 * floor_s:
            return False, debt
        return True, max(debt, ceil(floor_s / _TENTH_OF_A_DAY_S) + 1)

    def _load(self, node: str) -> Fraction | float:
        """Use over the part of all weights."""
        used = sum(mgpu_s for (team, _), mgpu_s in self.used.items() if node in _path(team))
        part = Fraction(1)
        for name in _path(node):
            sisters = [one for one in self.nodes if _path(one)[1:] == _path(name)[1:]]
            weights = sum(self.quotas[one].weight for one in sisters)
            part *= Fraction(self.quotas[name].weight, weights or 1)
        return Fraction(used) / part if part else inf


def _path(node: str) -> list[str]:
    """A node and all above it."""
    names = node.split("/")
    return ["/".join(names[:count]) for count in range(len(names), 0, -1)]


def a_world(dice: Random) -> tuple[Snapshot, Policy]:
    """A small world in which everybody could start, and its policy."""
    names = ["a", "a/d", "a/d/s", "a/d/t", "a/t", "b", "b/s", "b/t"]
    names = [name for name in names if name.count("/") < 2 or dice.random() < 0.8]
    quotas: list[Quota] = []
    for name in reversed(names):
        below = [one.guaranteed_mgpu for one in quotas if _path(one.node)[1:2] == [name]]
        gpus = sum(below) // GPU + dice.choice((0, 0, 1, 3))
        quotas.append(a_quota(name, gpus, weight=dice.choice((0, 50, 100, 100))))
    teams = [name for name in names if name != "a/d"] + ["a/d"] * (dice.random() < 0.3)
    users = ("u", "v", "w")
    running = [
        a_running(
            f"r{at}",
            dice.choice(teams),
            slots(0, 1, gpus=dice.randint(1, 3)),
            started_at=NOW - 7_200 - dice.randrange(3),
            priority=dice.choice(_CLASSES),
        )
        for at in range(dice.randrange(4))
    ]
    queued = [
        a_queued(
            f"q{at}",
            dice.choice(teams),
            gpus=dice.choice((1, 1, 2, 4)),
            user=dice.choice(users),
            priority=dice.choice(_CLASSES if dice.random() < 0.3 else ("normal",)),
            submitted_at=NOW - 100 + dice.randrange(4),
        )
        for at in range(dice.randint(2, 12))
    ]
    used = {
        (team, user): dice.choice((0, 100, 5_000, 5_000, 70_000))
        for team in teams
        for user in users
        if dice.random() < 0.5
    }
    snapshot = a_snapshot(
        quotas=quotas,
        devices=devices(1, gpus=500),
        running=running,
        queued=queued,
        ranks={name: dice.randrange(3) for name in names if dice.random() < 0.5},
        used=used,
        credits={team: dice.randint(-3, 3) for team in teams if dice.random() < 0.6},
    )
    policy = Policy(
        spare_order=dice.choice(list(SpareOrder)),
        starts_max=dice.choice((1, 3, 100)),
        credit_floor_s=dice.choice((9_000, 86_400, 604_800)),
    )
    return snapshot, policy
