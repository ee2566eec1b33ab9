"""When the GPUs of one pool come free at the latest, by what is known of what holds them (R-74).

An end is known where a time limit or a grace gives one, no further away than the policy's
horizon. What has no limit ends nobody knows when: its GPUs are not counted on. The same goes for
what has outlived its limit for longer than the policy waits for a victim.
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

#: When how many milli-GPU come free on a node, or how much of a room.
End = tuple[int, int]
#: When, how much of which team's use (at ROOT: of nobody's), and where that is.
Release = tuple[int, int, int, str, Sequence[Slot]]
#: So many ends are looked at together.
_AT_ONCE = 32

_moment = itemgetter(0)


class KnownEnds:
    """The known ends of one pool, kept up to date while the cycle starts and stops jobs.

    Nothing is looked at before the first question.
    """

    __slots__ = (
        *("_ends", "_graces", "_is_told", "_more", "_pool", "_rest", "_seen", "_to_come", "_void"),
    )

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._is_told = False
        self._ends: dict[Node, list[End]] = {}
        #: Ends of jobs that start now or later, by node, and those of them that do not after all.
        self._more: dict[Node, list[tuple[int, int, str]]] = {}
        self._void: set[str] = set()
        self._to_come: list[tuple[Release, str]] = []
        #: The first ends of what runs that nobody stops, in parts, and where those stand among all
        #: ends that are not looked at yet: from the first number to before the second.
        self._seen: list[Sequence[Release]] = []
        self._rest: tuple[int, int] | None = None
        #: By node, when what is being stopped on it is gone at the latest; None: to be found out.
        self._graces: dict[Node, int] | None = None

    def of(self, holding: Holding) -> int | None:
        """When an attempt that nobody stops is gone at the latest; None when that is unknown."""
        run, pool = holding.run, self._pool
        if run.time_limit_s is None:
            return None
        end = run.started_at + run.time_limit_s
        if end + pool.policy.claim_overdue_s < pool.taken_at:
            return None
        return self._within(max(end, pool.taken_at))

    def of_start(self, job: QueuedJob, at: int) -> int | None:
        """When `job` is gone at the latest if it starts at `at`; None when that is unknown."""
        return None if job.time_limit_s is None else self._within(at + job.time_limit_s)

    def on(self, node: Node) -> list[End]:
        """What comes free on a node, in order of time."""
        ends = self._ends.get(node)
        if ends is None:
            ends = self._ends[node] = self._look(node)
        return ends

    def by_time(self) -> Iterator[Release]:
        """All that has a known end and is not stopped before it, in order of time; then what is
        being stopped and nobody waits for. Quota counts this as gone already."""
        return chain.from_iterable(self.parts())

    def parts(self) -> Iterator[Sequence[Release]]:
        """What `by_time` says, a few ends together."""
        self._note_claims()
        others = sorted([*self._starting(), *self._leaving()], key=_moment)
        at = told = 0
        while at < len(self._seen) or self._see_more():
            part = self._seen[at]
            at += 1
            if told == len(others):
                yield part
                continue
            until = bisect_left(others, _moment(part[-1]), lo=told, key=_moment)
            if until > told:
                # At one moment what runs comes first.
                part = sorted([*part, *others[told:until]], key=_moment)
                told = until
            yield part
        yield others[told:]

    def add(self, end: int, job: QueuedJob, team: int, cluster: str, slots: Sequence[Slot]) -> None:
        """`job`, which starts now or later, gives `slots` back by `end`."""
        self._note_claims()
        insort(self._to_come, ((end, team, job.mgpu, cluster, slots), job.id), key=_first)
        for slot in slots:
            node = cluster, slot.node
            self._more.setdefault(node, []).append((end, slot.mgpu, job.id))
            self._ends.pop(node, None)

    def stop(self, earmark: Earmark) -> None:
        """The victims of a new claim are gone by the end of its grace."""
        for holding in earmark.victims:
            self._note_grace(holding, earmark.claim.grace_until)

    def forget(self, holding: Holding) -> None:
        """An attempt is being stopped, or a claim is given up: its end is not one any more."""
        if holding.claim_of is not None:
            self._void.add(holding.claim_of)
            self._graces = None
        self._seen, self._rest = [], None
        for slot in holding.run.slots:
            self._ends.pop((holding.run.cluster, slot.node), None)

    def claim(self, earmark: Earmark) -> None:
        """A new claim's job is gone at the latest when its limit is over after the victims'
        grace."""
        if self._is_told:
            self._claim(earmark)
        else:
            self._note_claims()

    def of_claim(self, earmark: Earmark) -> int | None:
        """When the job of a claim is gone at the latest; None when that is unknown."""
        return self.of_start(earmark.job, max(self._pool.taken_at, earmark.claim.grace_until))

    def _claim(self, earmark: Earmark) -> None:
        claim, end = earmark.claim, self.of_claim(earmark)
        if end is not None:
            self.add(end, earmark.job, earmark.team, claim.cluster, claim.slots)

    def _within(self, end: int) -> int | None:
        pool = self._pool
        return end if end <= pool.taken_at + pool.policy.reservation_horizon_s else None

    def _note_claims(self) -> None:
        if not self._is_told:
            self._is_told = True
            for earmark in self._pool.earmarks.values():
                self._claim(earmark)

    def _see_more(self) -> bool:
        """Look at some more of what runs and nobody stops, if there are more: most questions are
        answered by the first few, and one is asked for each reservation."""
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
        """What starts in this cycle, or later by a reservation or a claim."""
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
        """When what is being stopped on a node is gone at the latest."""
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
