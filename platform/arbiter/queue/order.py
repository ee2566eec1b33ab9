"""The order of service (R-18 to R-27): between teams, and inside a team.

Between teams, guaranteed demand comes first. A team's next job draws on the lowest guarantee on its
path that it fits in. That is its team's own, else an ancestor's idle one (its reserve, or the idle
part of a sister team), else spare GPUs of the pool. So GPUs that a job could reclaim anyway go to
that job before they are lent to another. Lower levels come first, then the lowest ratio of
protected use to guarantee.

A job that draws on its own guarantee is then ordered by fair-share. A job that draws on more is
ordered by rank, credits and fair-share, in the order that the policy sets. Submit time and id come
last.

A start is charged at once, and a team's credits and fair-share only get worse within a cycle. So a
stored position is never too late, and is checked again only when it comes up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, NamedTuple

from arbiter.api.plan import Code
from arbiter.fairshare.fair_tree import NO_LEVEL, FairShares
from arbiter.placement.free_devices import Shape
from arbiter.quota.tree import ROOT

#: The submit time of a job and its id: the smaller one goes first.
Age = tuple[int, str]


class Position(NamedTuple):
    """The position of a team's next job between the teams, without fair-share; smaller is earlier.

    `minus_credits` comes before fair-share, `late_minus_credits` after it. The policy selects one
    of them; the other one or both are 0.
    """

    level: int
    ratio: int
    minus_rank: int = 0
    minus_credits: int = 0
    late_minus_credits: int = 0

    def with_loads(self, loads: Iterable[int]) -> tuple[int, ...]:
        """Return the position with fair-share, given by the `loads` of a team."""
        return (*self[:-1], *loads, self.late_minus_credits)


@dataclass(frozen=True, slots=True)
class Priority:
    """The properties of a priority class that the arbiter needs; `cap_mgpu` of None is no cap."""

    id: str
    order: int = 0
    preempts: bool = False
    cap_mgpu: int | None = None
    preempts_others: bool = False


@dataclass(slots=True, eq=False)
class JobClass:
    """The jobs of one team that differ only in user and age.

    Once one of them cannot start, none of them can in this cycle. `code` says why;
    WAITING_FOR_FREE_GPUS means that quota or placement refused it. `code_at_first` is its value
    before the cycle. `could_ever_mgpu` belongs to NEVER_FITS.

    `reserved` describes the reservation for which refused jobs wait: the requested milli-GPU and
    the start time. `may_reserve` is False where its jobs hold their reservations in another pool.
    `serving_node` is the node on whose guarantee a job was served in this cycle that requested a
    reservation.
    """

    shape: Shape
    priority: Priority
    may_reserve: bool = True
    user_queues: list[UserQueue] = field(default_factory=list)
    code_at_first: Code | None = None
    code: Code | None = None
    could_ever_mgpu: int = 0
    reserved: tuple[int, int] = (0, 0)
    serving_node: int | None = None


@dataclass(slots=True, eq=False)
class UserQueue:
    """The jobs of one class and user, in order of age; `at` is the index of the next one.

    `refused` jobs would delay a reservation. `jobs` is replaced and never modified. `all` are the
    jobs that waited before the cycle.
    """

    cls: JobClass
    user: str
    all: list[Age]
    jobs: list[Age] = field(init=False)
    at: int = 0
    refused: list[Age] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.jobs = self.all

    @property
    def job(self) -> Age:
        """Return the next job."""
        return self.jobs[self.at]

    @property
    def waiting_count(self) -> int:
        """Return the number of jobs that are not settled."""
        return len(self.jobs) - self.at + len(self.refused)


class TeamQueue:
    """One team's waiting jobs in one pool: by priority class, use of the user, submit time and id.

    `blocked_mgpu` is requested by jobs that fit in the team's guarantee and keep their place in it,
    although they cannot start now.
    """

    __slots__ = ("_charged", "_heap", "_shares", "blocked_mgpu", "classes", "compares", "team")

    def __init__(self, team: int) -> None:
        self.team = team
        self.classes: list[JobClass] = []
        self.blocked_mgpu = 0
        self._shares: FairShares | None = None
        self._charged: set[str] = set()
        self._heap: list[tuple[int, int, Age, UserQueue]] = []
        #: Whether several users have jobs of one priority, so that their use orders these.
        self.compares = False

    def reset(self) -> None:
        """Restore all jobs that waited before the cycle, without reasons; call `open` next."""
        self.blocked_mgpu = 0
        self._charged.clear()
        for cls in self.classes:
            cls.code, cls.serving_node = cls.code_at_first, None
            for user_queue in cls.user_queues:
                user_queue.jobs, user_queue.at = user_queue.all, 0
                if user_queue.refused:
                    user_queue.refused = []

    def open(self, shares: FairShares) -> None:
        """Order the jobs that may still start.

        Where several users compete, the order is by their use in `shares`. Such a queue must be
        opened again in each cycle.
        """
        self._shares = shares
        user_queues: list[UserQueue] = []
        users: dict[int, str] = {}
        self.compares = False
        for cls in self.classes:
            if cls.code is None:
                for user_queue in cls.user_queues:
                    if user_queue.at < len(user_queue.jobs):
                        user_queues.append(user_queue)
                        if users.setdefault(cls.priority.order, user_queue.user) != user_queue.user:
                            self.compares = True
        self._heap = [self._entry(user_queue) for user_queue in user_queues]
        heapify(self._heap)

    def close(self) -> None:
        """Stop using the queue: separate its classes and users, so that they are freed at once.

        They refer to each other, and would otherwise wait for the garbage collector.
        """
        for cls in self.classes:
            cls.user_queues.clear()

    def refuse(self, cls: JobClass, is_refused: Callable[[Age], bool]) -> None:
        """Set aside the jobs of `cls` that would delay a reservation; the others stay queued."""
        is_over = True
        for user_queue in cls.user_queues:
            waiting = user_queue.jobs[user_queue.at :]
            refused = list(filter(is_refused, waiting))
            if len(refused) < len(waiting):
                aside = set(refused)
                waiting = [job for job in waiting if job not in aside]
                is_over = False
            else:
                waiting = []
            user_queue.refused += refused
            user_queue.jobs, user_queue.at = waiting, 0
        if is_over:
            # Its jobs leave the heap when they reach the front.
            cls.code = Code.RESERVED_FOR_LARGER_JOB
            return
        assert self._shares is not None
        self.open(self._shares)

    def _entry(self, user_queue: UserQueue) -> tuple[int, int, Age, UserQueue]:
        return (
            -user_queue.cls.priority.order,
            self._used(user_queue),
            user_queue.jobs[user_queue.at],
            user_queue,
        )

    def _used(self, user_queue: UserQueue) -> int:
        if not self.compares:
            return 0
        assert self._shares is not None
        return self._shares.of_user(self.team, user_queue.user)

    def head(self) -> UserQueue | None:
        """Return the jobs of the user whose next job is the team's next."""
        heap = self._heap
        while heap:
            _, used, _, user_queue = heap[0]
            if user_queue.cls.code is not None:
                heappop(heap)
            elif (
                self.compares
                and user_queue.user in self._charged
                and used != self._used(user_queue)
            ):
                heapreplace(heap, self._entry(user_queue))
            else:
                return user_queue
        return None

    def advance(self) -> None:
        """Move on from a settled job: it started, claims GPUs, or is served in another pool."""
        user_queue = self._heap[0][3]
        user_queue.at += 1
        self._charged.add(user_queue.user)
        if user_queue.at < len(user_queue.jobs):
            heapreplace(self._heap, self._entry(user_queue))
        else:
            heappop(self._heap)


#: A load and the entry below, or minus the credits that come after fair-share and a job; then the
#: team of the entry. Entries of all teams are nested as deep as the tree. A heap entry is valid
#: only as long as it equals the one listed for that node.
Entry = tuple[Any, ...]
#: Level, source (or ratio, for teams that draw on their own guarantee), minus rank, minus credits.
_ContestKey = tuple[int, int, int, int]
#: Level, ratio, minus rank, minus credits, the entry of its first team (empty until it is known),
#: and the contest.
_AgendaEntry = tuple[Any, ...]


class Contest:
    """Teams that are equal except for fair-share, credits after it and age; it finds the first.

    Each node of the tree with nodes below it keeps these in a heap. The entry of a child has its
    load, the first entry of the child's own heap, and the team at the end of that chain. The entry
    of a team that waits at the node itself has its order apart from fair-share. So charging a start
    to a path takes as many steps as the tree is deep, however many teams there are. A new team
    enters no heap before the first team is requested.
    """

    __slots__ = ("_entered", "_entries", "_heaps", "_listed", "_shares", "_tree")

    def __init__(self, shares: FairShares) -> None:
        self._shares = shares
        self._tree = shares.tree
        self._heaps: dict[int, list[Entry]] = {}
        self._listed: dict[int, Entry] = {}
        self._entries: dict[int, Entry] = {}
        self._entered: dict[int, tuple[int, Age]] = {}

    def enlist(self, team: int, minus_credits: int, job: Age) -> None:
        """Add `team`, whose next job is `job`."""
        self._entered[team] = minus_credits, job

    def _enter(self, team: int, minus_credits: int, job: Age) -> None:
        tree, loads, heaps = self._tree, self._shares.loads, self._heaps
        entry: Entry = (minus_credits, job, team)
        for _ in range(tree.depth_max - tree.depths[team]):
            entry = (NO_LEVEL, entry, team)
        self._entries[team] = entry
        for node in tree.paths[team]:
            if node in tree.children:
                heap = heaps.setdefault(node, [])
                heappush(heap, entry)
                if heap[0] != entry:
                    return
            entry = self._listed[node] = (loads[node], entry, team)
        heappush(heaps.setdefault(ROOT, []), entry)

    @property
    def is_empty(self) -> bool:
        """Return whether no team is left."""
        return not self._entered and not self._entries

    def withdraw(self, team: int) -> None:
        """Remove `team`."""
        if self._entered.pop(team, None) is None:
            del self._entries[team]

    def first(self) -> Entry | None:
        """Return the entry that goes first; its last part is the team."""
        for team, (minus_credits, job) in self._entered.items():
            self._enter(team, minus_credits, job)
        self._entered.clear()
        return self._first(ROOT, -1)

    def _first(self, node: int, below: int) -> Entry | None:
        """Return the first entry at an inner node.

        `below` is the index of its children on the paths of teams.
        """
        heap = self._heaps.get(node)
        if not heap:
            return None
        tree, loads, listed = self._tree, self._shares.loads, self._listed
        paths, children, entries = tree.paths, tree.children, self._entries
        while heap:
            entry = heap[0]
            load, known, team = entry
            if team == node:
                if entries.get(team) == entry:
                    return entry
                heappop(heap)
                continue
            child = paths[team][below]
            if listed.get(child) != entry:
                heappop(heap)
                continue
            under = self._first(child, below - 1) if child in children else entries.get(child)
            if under is None:
                heappop(heap)
                del listed[child]
            elif load == loads[child] and under == known:
                return entry
            else:
                entry = listed[child] = (loads[child], under, under[2])
                heapreplace(heap, entry)
        return None


class Agenda:
    """All teams of one pool by the position of their next job.

    Teams that draw on the same guarantee share one contest, unless rank and credits distinguish
    them. A start there moves all of them together. Teams that draw on their own guarantees, and
    have used equal parts of them, share one too. No other contest has the same position as theirs,
    so its first team is not needed before it is served. A contest is identified by its position and
    its guarantee, without the ratio of a guarantee on which other teams draw too.

    While only one team is on the agenda, its position is not computed. It is computed when a second
    team comes. Until then nothing can change it, because a team is enlisted again after each change
    of its own.

    In the same way the positions of teams that draw on more than their own guarantee are computed
    only after all other teams were served. Often nothing is left by then.
    """

    __slots__ = (
        *("_alone", "_at", "_contests", "_entries", "_keys", "_later", "_of_source", "_shares"),
        "_position_of",
    )

    def __init__(self, shares: FairShares, position_of: Callable[[int, int], Position]) -> None:
        """Create an empty agenda.

        `position_of` returns the current position of a team that draws on the guarantee of a node.
        """
        self._shares = shares
        self._position_of = position_of
        self._alone: tuple[int, Age, int] | None = None
        self._contests: dict[_ContestKey, Contest] = {}
        self._of_source: dict[int, list[_ContestKey]] = {}
        self._at: dict[int, _ContestKey] = {}
        self._keys: dict[_ContestKey, _AgendaEntry] = {}
        self._entries: list[_AgendaEntry] = []
        #: Source and next job of teams that draw on more than their own guarantee; None once they
        #: are due.
        self._later: dict[int, tuple[int, Age]] | None = {}

    def enlist(self, source: int, job: Age, team: int) -> None:
        """Add `team`, whose next job is `job` and draws on the guarantee of node `source`."""
        alone = self._alone
        if alone is not None:
            self._alone = None
            its_source, its_job, its_team = alone
            self._add(its_source, its_job, its_team)
        elif not self._at and not self._later:
            self._alone = source, job, team
            return
        self._add(source, job, team)

    def _add(self, source: int, job: Age, team: int) -> None:
        is_own = source == team
        if not is_own and self._later is not None:
            self._later[team] = source, job
            return
        level, ratio, minus_rank, minus_credits, late_minus_credits = self._position_of(
            team, source
        )
        key = level, ratio if is_own else source, minus_rank, minus_credits
        contest = self._contests.get(key)
        if contest is None:
            contest = self._contests[key] = Contest(self._shares)
            if not is_own:
                self._of_source.setdefault(source, []).append(key)
        self._at[team] = key
        contest.enlist(team, late_minus_credits, job)
        known = self._keys.get(key)
        # The new team may be the first there, which matters if another contest has an equal
        # position.
        if known is None or (known[4] and not is_own):
            self._list(key, ratio, ())

    def withdraw(self, team: int) -> bool:
        """Remove `team`. Return False when it is not on the agenda."""
        if self._alone is not None and self._alone[2] == team:
            self._alone = None
            return True
        if self._later and self._later.pop(team, None) is not None:
            return True
        key = self._at.pop(team, None)
        if key is None:
            return False
        self._contests[key].withdraw(team)
        return True

    @property
    def drawn_on(self) -> Collection[int]:
        """Return the nodes on whose guarantees teams below them have drawn."""
        return self._of_source

    def refresh(self, source: int, ratio: int) -> None:
        """Update the ratio of a node on whose guarantee other teams may draw."""
        for key in self._of_source[source]:
            known = self._keys.get(key)
            if known is not None and known[1] != ratio:
                self._list(key, ratio, known[4])

    def _list(self, key: _ContestKey, ratio: int, first: Entry | tuple[()]) -> None:
        level, _, minus_rank, minus_credits = key
        entry = (level, ratio, minus_rank, minus_credits, first, key)
        self._keys[key] = entry
        heappush(self._entries, entry)

    def lowest_ratio(self) -> int | None:
        """Return the lowest ratio of teams that draw on their own guarantees; None without any."""
        if self._alone is not None:
            source, _, team = self._alone
            return self._position_of(team, source).ratio if source == team else None
        entries, keys = self._entries, self._keys
        while entries and entries[0][0] == 0:
            listed = entries[0]
            key = listed[5]
            is_listed = keys.get(key) == listed
            if is_listed and not self._contests[key].is_empty:
                ratio: int = listed[1]
                return ratio
            heappop(entries)
            if is_listed:
                del keys[key]
        return None

    def pop(self) -> tuple[int, int] | None:
        """Remove and return the (source, team) that is served next; None when no team is left."""
        if self._alone is not None:
            source, _, team = self._alone
            self._alone = None
            return source, team
        entries, keys = self._entries, self._keys
        while entries or self._later:
            if self._later and (not entries or entries[0][0] > 0):
                later, self._later = self._later, None
                for team, (source, job) in later.items():
                    self._add(source, job, team)
                continue
            listed = entries[0]
            key = listed[5]
            if keys.get(key) != listed:
                heappop(entries)
                continue
            first = self._contests[key].first()
            if first is None:
                heappop(entries)
                del keys[key]
                continue
            # No contest has the same position as teams that draw on their own guarantees.
            if key[0] > 0 and first != listed[4]:
                listed = keys[key] = (*listed[:4], first, key)
                heapreplace(entries, listed)
                if entries[0] != listed:
                    continue
            team = first[2]
            self._contests[self._at.pop(team)].withdraw(team)
            return (key[1] if key[0] else team), team
        return None
