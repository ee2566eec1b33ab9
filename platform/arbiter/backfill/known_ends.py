"""When the GPUs of one pool come free at the latest, as far as that is known (R-74).

An end is known where a time limit or a grace gives one, up to the policy's horizon. An attempt
without a time limit has no known end, and its GPUs are not counted on. The same holds for an
attempt that has exceeded its limit for longer than the policy waits for a victim.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter

from arbiter.api.snapshot import QueuedJob, Slot
from arbiter.cache.claims import Earmark
from arbiter.cache.pool import Pool
from arbiter.cache.running import Holding, Node
from arbiter.quota.tree import ROOT

#: The time of an end, and the amount that it frees on a node: milli-GPU, milli-CPU or MiB.
End = tuple[int, int]
#: The time of an end, its team (ROOT: no team's use), its milli-GPU, its cluster and its slots.
Release = tuple[int, int, int, str, Sequence[Slot]]
#: The number of ends that are looked at together.
_AT_ONCE = 32

_moment = itemgetter(0)


class KnownEnds:
    """The known ends of one pool, updated while the cycle starts and stops jobs.

    Nothing is computed before the first request.
    """

    __slots__ = (
        *(
            "_ends",
            "_graces",
            "_counts_claims",
            "_more",
            "_pool",
            "_rest",
            "_seen",
            "_to_come",
            "_void",
        ),
    )

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counts_claims = False
        self._ends: dict[Node, list[End]] = {}
        #: Ends of jobs that start now or later, by node; and the jobs of these that will not start.
        self._more: dict[Node, list[tuple[int, int, str]]] = {}
        self._void: set[str] = set()
        self._to_come: list[tuple[Release, str]] = []
        #: The first ends of attempts that are not being stopped, in parts; and the range of indexes
        #: of all ends that were not looked at yet.
        self._seen: list[Sequence[Release]] = []
        self._rest: tuple[int, int] | None = None
        #: By node, when stopping attempts on it are gone at the latest; None until it is needed.
        self._graces: dict[Node, int] | None = None

    def of(self, holding: Holding) -> int | None:
        """Return when an attempt that is not being stopped is gone at the latest.

        Return None if that is unknown.
        """
        run, pool = holding.run, self._pool
        if run.time_limit_s is None:
            return None
        end = run.started_at + run.time_limit_s
        if end + pool.policy.claim_overdue_s < pool.taken_at:
            return None
        return self._within(max(end, pool.taken_at))

    def of_start(self, job: QueuedJob, at: int) -> int | None:
        """Return when `job` is gone at the latest if it starts at `at`; None if that is unknown."""
        return None if job.time_limit_s is None else self._within(at + job.time_limit_s)

    def on(self, node: Node) -> list[End]:
        """Return what comes free on a node, in order of time."""
        ends = self._ends.get(node)
        if ends is None:
            ends = self._ends[node] = self._look(node)
        return ends

    def by_time(self) -> Iterator[Release]:
        """Return all known ends, in order of time; then stopping attempts without a claim.

        Jobs that are stopped before their end are left out. Quota counts the latter as gone
        already.
        """
        return chain.from_iterable(self.parts())

    def parts(self) -> Iterator[Sequence[Release]]:
        """Return the same as `by_time`, a few ends together."""
        self._note_claims()
        others = sorted([*self._starting(), *self._leaving()], key=_moment)
        at = yielded = 0
        while at < len(self._seen) or self._see_more():
            part = self._seen[at]
            at += 1
            if yielded == len(others):
                yield part
                continue
            until = bisect_left(others, _moment(part[-1]), lo=yielded, key=_moment)
            if until > yielded:
                # At equal times running attempts come first.
                part = sorted([*part, *others[yielded:until]], key=_moment)
                yielded = until
            yield part
        yield others[yielded:]

    def add(self, end: int, job: QueuedJob, team: int, cluster: str, slots: Sequence[Slot]) -> None:
        """Add a `job` that starts now or later and frees `slots` by `end`."""
        self._note_claims()
        insort(self._to_come, ((end, team, job.mgpu, cluster, slots), job.id), key=_first)
        for slot in slots:
            node = cluster, slot.node
            self._more.setdefault(node, []).append((end, slot.mgpu, job.id))
            self._ends.pop(node, None)

    def stop(self, earmark: Earmark) -> None:
        """Note that the victims of a new claim are gone by the end of its grace."""
        for holding in earmark.victims:
            self._note_grace(holding, earmark.claim.grace_until)

    def forget(self, holding: Holding) -> None:
        """Remove the end of an attempt that is being stopped, or of a dropped claim."""
        if holding.claim_of is not None:
            self._void.add(holding.claim_of)
            self._graces = None
        self._seen, self._rest = [], None
        for slot in holding.run.slots:
            self._ends.pop((holding.run.cluster, slot.node), None)

    def claim(self, earmark: Earmark) -> None:
        """Add the end of a new claim's job: its time limit after the victims' grace."""
        if self._counts_claims:
            self._claim(earmark)
        else:
            self._note_claims()

    def of_claim(self, earmark: Earmark) -> int | None:
        """Return when the job of a claim is gone at the latest; None if that is unknown."""
        return self.of_start(earmark.job, max(self._pool.taken_at, earmark.claim.grace_until))

    def _claim(self, earmark: Earmark) -> None:
        claim, end = earmark.claim, self.of_claim(earmark)
        if end is not None:
            self.add(end, earmark.job, earmark.team, claim.cluster, claim.slots)

    def _within(self, end: int) -> int | None:
        pool = self._pool
        return end if end <= pool.taken_at + pool.policy.reservation_horizon_s else None

    def _note_claims(self) -> None:
        if not self._counts_claims:
            self._counts_claims = True
            for earmark in self._pool.earmarks.values():
                self._claim(earmark)

    def _see_more(self) -> bool:
        """Look at some more running attempts that are not being stopped, if there are any.

        The first few ends are usually enough, and there is one request per reservation.
        """
        pool, now = self._pool, self._pool.taken_at
        ends = pool.holdings.ends
        if self._rest is None:
            first = bisect_left(ends, (now - pool.policy.claim_overdue_s,))
            last = bisect_left(ends, (now + pool.policy.reservation_horizon_s + 1,))
            self._rest = first, last
        at, last = self._rest
        part: list[Release] = []
        while at < last and len(part) < _AT_ONCE:
            end, _, holding = ends[at]
            at += 1
            if not holding.is_going and pool.holdings.has(holding):
                run = holding.run
                part.append((max(end, now), holding.team, holding.mgpu, run.cluster, run.slots))
        self._rest = at, last
        if part:
            self._seen.append(part)
        return bool(part)

    def _starting(self) -> Iterator[Release]:
        """Return the ends of jobs that start in this cycle, or later by reservation or claim."""
        return (release for release, job in self._to_come if job not in self._void)

    def _leaving(self) -> list[Release]:
        found: list[Release] = [
            (self.grace_on((cluster, node)), ROOT, 0, cluster, (Slot(node, mgpu),))
            for cluster, nodes in self._pool.coming_back.items()
            for node, mgpu in nodes.items()
            if mgpu > 0
        ]
        return sorted(found, key=_moment)

    def _look(self, node: Node) -> list[End]:
        self._note_claims()
        pool, (cluster, name) = self._pool, node
        ends = [
            (end, mgpu)
            for attempt, mgpu in pool.holdings.on_node.get(node, {}).items()
            if not (holding := pool.holdings.all[attempt]).is_going
            and (end := self.of(holding)) is not None
        ]
        unclaimed = pool.coming_back.get(cluster, {}).get(name, 0)
        if unclaimed > 0:
            ends.append((self.grace_on(node), unclaimed))
        ends += [
            (end, mgpu) for end, mgpu, job in self._more.get(node, ()) if job not in self._void
        ]
        ends.sort()
        return ends

    def grace_on(self, node: Node) -> int:
        """Return when stopping attempts on a node are gone at the latest (epoch seconds)."""
        if self._graces is None:
            self._graces = {}
            for holding in self._pool.leaving:
                self._note_grace(holding, holding.run.grace_until or 0)
            for earmark in self._pool.earmarks.values():
                self.stop(earmark)
        return max(self._pool.taken_at, self._graces.get(node, 0))

    def _note_grace(self, holding: Holding, grace_until: int) -> None:
        if self._graces is not None:
            for slot in holding.run.slots:
                node = holding.run.cluster, slot.node
                self._graces[node] = max(grace_until, self._graces.get(node, 0))


def _first(entry: tuple[Release, str]) -> int:
    return entry[0][0]
