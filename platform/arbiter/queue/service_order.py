"""The order in which jobs of several teams wait, as reasons report it (R-18 to R-27)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby

from arbiter.queue.order import Age

#: A lot of jobs: its number, its position, and its jobs, the oldest first.
_Lot = tuple[int, tuple[int, ...], Sequence[Age]]
#: Consecutive jobs of a team, the number of the lot of each, and whether they are ordered by their
#: own ages. Otherwise the age of the youngest job before them counts.
_Run = tuple[Sequence[Age], Sequence[int], bool]


class ServiceOrder:
    """Merges the waiting jobs of all teams into the one order in which they are served.

    At every step the team whose next job has the smallest (position, age) is served. No job passes
    an earlier one of its team. So the order is by the largest of these up to and including each
    job.

    Positions include fair-share as of now; charges of future starts are not predicted. Ages are
    compared only where they decide, because few teams have equal positions.
    """

    __slots__ = ("_count", "_line", "_runs")

    def __init__(self) -> None:
        self._count = 0
        self._line: dict[tuple[int, int], list[_Lot]] = {}
        #: By position, the runs of each team that reaches it.
        self._runs: dict[tuple[int, ...], list[list[_Run]]] = {}

    def add(self, priority: int, used: int, jobs: Sequence[Age], standing: tuple[int, ...]) -> None:
        """Add a lot of jobs, the oldest first, to the current team's line.

        All its jobs have one priority, use of their user, and position. Lots are numbered from 0 in
        the order in which they are added.
        """
        lot = self._count, standing, jobs
        self._count += 1
        self._line.setdefault((-priority, used), []).append(lot)

    def end_line(self) -> None:
        """Complete the current team's line."""
        line, self._line = self._line, {}
        highest: tuple[int, ...] = ()
        runs: list[_Run] = []
        for group in sorted(line):
            for standing, jobs, lots in _by_age(line[group]):
                if standing > highest:
                    highest, runs = standing, []
                    self._runs.setdefault(highest, []).append(runs)
                runs.append((jobs, lots, standing == highest))

    def merged(self) -> tuple[list[Age], list[int]]:
        """Return all jobs in the order of service, and the number of the lot of each."""
        found: list[_Run] = []
        for standing in sorted(self._runs):
            of_teams = self._runs[standing]
            found += of_teams[0] if len(of_teams) == 1 else [_merged(of_teams)]
        return (
            list(chain.from_iterable([jobs for jobs, _, _ in found])),
            list(chain.from_iterable([lots for _, lots, _ in found])),
        )


def _merged(of_teams: Iterable[Iterable[_Run]]) -> _Run:
    """Merge the jobs of teams with equal positions."""
    all_jobs: list[Age] = []
    all_lots: list[int] = []
    ages: list[Age] = []
    for runs in of_teams:
        youngest = (-1, "")
        for jobs, lots, is_by_age in runs:
            all_jobs += jobs
            all_lots += lots
            for job in jobs:
                if is_by_age and job > youngest:
                    youngest = job
                ages.append(youngest)
    turn = sorted(range(len(ages)), key=ages.__getitem__)
    return [all_jobs[at] for at in turn], [all_lots[at] for at in turn], True


def _by_age(lots: Sequence[_Lot]) -> Iterable[tuple[tuple[int, ...], Sequence[Age], Sequence[int]]]:
    """Return the jobs of all `lots`, the oldest first, split where the position changes.

    Each part has the position, the jobs, and the number of the lot of each job.
    """
    number, standing, jobs = lots[0]
    if len(lots) == 1:
        return ((standing, jobs, [number] * len(jobs)),)
    jobs = [job for _, _, of_lot in lots for job in of_lot]
    of = [lot for lot in lots for _ in lot[2]]
    turn = sorted(range(len(jobs)), key=jobs.__getitem__)
    if all(lot[1] == standing for lot in lots):
        return ((standing, [jobs[at] for at in turn], [of[at][0] for at in turn]),)
    return [
        (standing, [jobs[at] for at in run], [of[at][0] for at in run])
        for standing, found in groupby(turn, key=lambda at: of[at][1])
        for run in (list(found),)
    ]
