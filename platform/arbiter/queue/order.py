"""The order of service (R-18 to R-27): between teams, and inside a team.

Between teams, guaranteed demand comes first. A team's next job draws on the lowest guarantee
on its path that it fits in: its team's own, else an ancestor's idle one (its reserve or what
a sister team leaves idle), else spare GPUs of the pool. What could be reclaimed from others
anyway is thus served before it is lent to them. Lower levels come first, then the lowest
protected use over guarantee. Who draws on its own guarantee is served by fair-share then; who
draws on more, by rank, credits and fair-share in the order that the policy says. Submit time and
id come last.

What starts is charged at once, and a team's credits and fair-share only ever get worse within a
cycle. So an order that was worked out before is at worst too good: it is looked at again when it
comes up, and not before.
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

#: When a job was submitted, and its id: the earlier one goes first.
Age = tuple[int, str]


class Standing(NamedTuple):
    """Where a team's next job stands between the teams, but for fair-share; smaller is earlier.

    `minus_credits` comes before fair-share, `late_minus_credits` after it: as the policy says, one
    of them or both are 0.
    """

    level: int
    ratio: int
    minus_rank: int = 0
    minus_credits: int = 0
    late_minus_credits: int = 0

    def with_loads(self, loads: Iterable[int]) -> tuple[int, ...]:
        """With fair-share, for which a team's `loads` stand."""
        return (*self[:-1], *loads, self.late_minus_credits)


@dataclass(frozen=True, slots=True)
class Priority:
    """What the arbiter needs of a priority class; `cap_mgpu` of None is no cap."""

    id: str
    order: int = 0
    preempts: bool = False
    cap_mgpu: int | None = None
    preempts_others: bool = False


@dataclass(slots=True, eq=False)
class JobClass:
    """The jobs of one team that differ only in user and age. Once one of them cannot start, none
    of them can in this cycle: `code` says why, and WAITING_FOR_FREE_GPUS that quota or placement
    refused it; `code_at_first` is what it says before. `could_ever_mgpu` goes with NEVER_FITS;
    `reserved` says for whom refused jobs have to wait: what that one asks for, and when it starts.
    `may_reserve` is False where its jobs hold their reservations in another pool. `turn` is on
    whose guarantee one had its turn in this cycle that asked for a reservation."""

    shape: Shape
    priority: Priority
    may_reserve: bool = True
    lines: list[JobLine] = field(default_factory=list)
    code_at_first: Code | None = None
    code: Code | None = None
    could_ever_mgpu: int = 0
    reserved: tuple[int, int] = (0, 0)
    turn: int | None = None


@dataclass(slots=True, eq=False)
class JobLine:
    """The jobs of one class and user, first come first; `at` is the place of the next of them.
    `refused` ones would delay a reservation. `jobs` is replaced and never changed; `all` are those
    that waited before the cycle."""

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
        """The next of the jobs."""
        return self.jobs[self.at]

    @property
    def waiting_count(self) -> int:
        """How many of the jobs are not settled."""
        return len(self.jobs) - self.at + len(self.refused)


class TeamQueue:
    """One team's waiting jobs in one pool: priority class first, then what their users have
    used, then submit time, then id.

    `blocked_mgpu` is what jobs ask for that fit in the team's guarantee and keep their
    place in it although they cannot start now.
    """

    __slots__ = ("_charged", "_heap", "_shares", "blocked_mgpu", "classes", "compares", "team")

    def __init__(self, team: int) -> None:
        self.team = team
        self.classes: list[JobClass] = []
        self.blocked_mgpu = 0
        self._shares: FairShares | None = None
        self._charged: set[str] = set()
        self._heap: list[tuple[int, int, Age, JobLine]] = []
        #: Whether jobs of several users are of one priority, so that their use orders them.
        self.compares = False

    def reset(self) -> None:
        """All jobs wait again that waited before the cycle, and nobody knows why; to be opened."""
        self.blocked_mgpu = 0
        self._charged.clear()
        for cls in self.classes:
            cls.code, cls.turn = cls.code_at_first, None
            for line in cls.lines:
                line.jobs, line.at = line.all, 0
                if line.refused:
                    line.refused = []

    def open(self, shares: FairShares) -> None:
        """Put the jobs that may still start into order, by what their users have used as `shares`
        have it where that matters: such a queue is to be opened anew in each cycle."""
        self._shares = shares
        lines: list[JobLine] = []
        users: dict[int, str] = {}
        self.compares = False
        for cls in self.classes:
            if cls.code is None:
                for line in cls.lines:
                    if line.at < len(line.jobs):
                        lines.append(line)
                        if users.setdefault(cls.priority.order, line.user) != line.user:
                            self.compares = True
        self._heap = [self._entry(line) for line in lines]
        heapify(self._heap)

    def close(self) -> None:
        """It is used no more. Classes and lines know each other: apart, they go at once, and not
        when garbage is collected."""
        for cls in self.classes:
            cls.lines.clear()

    def refuse(self, cls: JobClass, is_refused: Callable[[Age], bool]) -> None:
        """Set those jobs of `cls` aside that would delay a reservation; the others go on."""
        is_over = True
        for line in cls.lines:
            waiting = line.jobs[line.at :]
            refused = list(filter(is_refused, waiting))
            if len(refused) < len(waiting):
                aside = set(refused)
                waiting = [job for job in waiting if job not in aside]
                is_over = False
            else:
                waiting = []
            line.refused += refused
            line.jobs, line.at = waiting, 0
        if is_over:
            # Its lines leave the order when their turn comes.
            cls.code = Code.RESERVED_FOR_LARGER_JOB
            return
        assert self._shares is not None
        self.open(self._shares)

    def _entry(self, line: JobLine) -> tuple[int, int, Age, JobLine]:
        return -line.cls.priority.order, self._used(line), line.jobs[line.at], line

    def _used(self, line: JobLine) -> int:
        if not self.compares:
            return 0
        assert self._shares is not None
        return self._shares.of_user(self.team, line.user)

    def head(self) -> JobLine | None:
        """The line whose next job is the team's next."""
        heap = self._heap
        while heap:
            _, used, _, line = heap[0]
            if line.cls.code is not None:
                heappop(heap)
            elif self.compares and line.user in self._charged and used != self._used(line):
                heapreplace(heap, self._entry(line))
            else:
                return line
        return None

    def advance(self) -> None:
        """The next job is settled (started, its GPUs are being freed, or it is served in another
        pool): on to the one after."""
        line = self._heap[0][3]
        line.at += 1
        self._charged.add(line.user)
        if line.at < len(line.jobs):
            heapreplace(self._heap, self._entry(line))
        else:
            heappop(self._heap)


#: A load and the entry below, or minus the credits that come after fair-share and a job; and the
#: team that the entry is of. All teams' entries are nested as deep as the tree is. What is in a
#: heap counts as long as it is equal to what stands for that node elsewhere.
Entry = tuple[Any, ...]
#: Level, source (of teams that draw on their own: ratio), minus rank, minus credits.
_ContestKey = tuple[int, int, int, int]
#: Level, ratio, minus rank, minus credits, the entry of its first team (or nothing where nobody has
#: looked), and the contest.
_AgendaEntry = tuple[Any, ...]


class Contest:
    """Teams that are level but for fair-share, credits after it and age: the first of them.

    Each node of the tree that has nodes below keeps them in a heap. Of a child there stand its
    load, the first of the child's own heap, and the team that this comes down to; of a team that
    waits at the node itself, what orders it where fair-share does not. So a start that is charged
    to a path costs as many steps as the tree is deep, and not as there are teams below it.
    Who only entered stands in no heap before somebody asks who is first.
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
        """Whether nobody is left."""
        return not self._entered and not self._entries

    def withdraw(self, team: int) -> None:
        """Take `team` out."""
        if self._entered.pop(team, None) is None:
            del self._entries[team]

    def first(self) -> Entry | None:
        """The entry that goes first; its last part is the team."""
        for team, (minus_credits, job) in self._entered.items():
            self._enter(team, minus_credits, job)
        self._entered.clear()
        return self._first(ROOT, -1)

    def _first(self, node: int, below: int) -> Entry | None:
        """The first at a node with nodes below, which stand at `below` on the paths of teams."""
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
    """All teams of one pool by the standing of their next job.

    Teams that draw on the same guarantee wait in one contest, if rank and credits do not tell
    them apart: a start there moves all of them as a whole. So do teams that draw on their own
    guarantees and have used as much of them: no other contest stands level with theirs, so that
    nobody has to know who is first there before its turn comes. A contest is known by its
    standing, but for the ratio of a guarantee that others draw on too, and by whose guarantee it
    is.

    Who is alone on it is known by name only: where a team stands is found out once there is another
    one. Until then nothing changes that: what makes it stand elsewhere is news of the team itself,
    which is then enlisted anew.

    So it is with all who do not draw on their own guarantee, until nobody is left who does: often
    nothing is left for them by then.
    """

    __slots__ = (
        *("_alone", "_at", "_contests", "_entries", "_keys", "_later", "_of_source", "_shares"),
        "_standing",
    )

    def __init__(self, shares: FairShares, standing: Callable[[int, int], Standing]) -> None:
        """`standing` of a team and what it draws on, as of now."""
        self._shares = shares
        self._standing = standing
        self._alone: tuple[int, Age, int] | None = None
        self._contests: dict[_ContestKey, Contest] = {}
        self._of_source: dict[int, list[_ContestKey]] = {}
        self._at: dict[int, _ContestKey] = {}
        self._keys: dict[_ContestKey, _AgendaEntry] = {}
        self._entries: list[_AgendaEntry] = []
        #: Source and next job of who draws on others' guarantees; None once they have their turn.
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
        level, ratio, minus_rank, minus_credits, late_minus_credits = self._standing(team, source)
        key = level, ratio if is_own else source, minus_rank, minus_credits
        contest = self._contests.get(key)
        if contest is None:
            contest = self._contests[key] = Contest(self._shares)
            if not is_own:
                self._of_source.setdefault(source, []).append(key)
        self._at[team] = key
        contest.enlist(team, late_minus_credits, job)
        known = self._keys.get(key)
        # Who entered may be the first there, which matters where another contest is level with it.
        if known is None or (known[4] and not is_own):
            self._list(key, ratio, ())

    def withdraw(self, team: int) -> bool:
        """Take `team` out; False when it is not on the agenda."""
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
        """The nodes on whose guarantees teams below them have drawn."""
        return self._of_source

    def refresh(self, source: int, ratio: int) -> None:
        """The ratio of a node changed on whose guarantee others may draw."""
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
        """The lowest ratio of those who draw on their own guarantees; None where nobody does."""
        if self._alone is not None:
            source, _, team = self._alone
            return self._standing(team, source).ratio if source == team else None
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
        """Take out the (source, team) that is served next; None when nobody is left."""
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
            # Nobody is level with those who draw on their own guarantees.
            if key[0] > 0 and first != listed[4]:
                listed = keys[key] = (*listed[:4], first, key)
                heapreplace(entries, listed)
                if entries[0] != listed:
                    continue
            team = first[2]
            self._contests[self._at.pop(team)].withdraw(team)
            return (key[1] if key[0] else team), team
        return None
