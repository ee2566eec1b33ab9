"""The order in which jobs of several teams wait, as reasons report it (R-18 to R-27)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby

from arbiter.queue.order import Age

#: A batch of jobs: its number, its position, and its jobs, the oldest first.
_Batch = tuple[int, tuple[int, ...], Sequence[Age]]
#: Consecutive jobs of a team, the number of the batch of each, and whether they are ordered by
#: their own ages. Otherwise the age of the youngest job before them counts.
_Run = tuple[Sequence[Age], Sequence[int], bool]


class ServiceOrder:
    """Merges the waiting jobs of all teams into the one order in which they are served.

    At every step the team whose next job has the smallest (position, age) is served. No job passes
    an earlier one of its team. So the order is by the largest of these up to and including each
    job.

    Positions include fair-share as of now; charges of future starts are not predicted. Ages are
    compared only where they decide, because few teams have equal positions.
    """

    __slots__ = ("_count", "_of_team", "_runs")

    def __init__(self) -> None:
        self._count = 0
        self._of_team: dict[tuple[int, int], list[_Batch]] = {}
        #: By position, the runs of each team that reaches it.
        self._runs: dict[tuple[int, ...], list[list[_Run]]] = {}

    def add(self, priority: int, used: int, jobs: Sequence[Age], position: tuple[int, ...]) -> None:
        """Add a batch of jobs, the oldest first, to those of the current team.

        All its jobs have one priority, use of their user, and position. Batches are numbered
        from 0 in the order in which they are added.
        """
        batch = self._count, position, jobs
        self._count += 1
        self._of_team.setdefault((-priority, used), []).append(batch)

    def end_team(self) -> None:
        """Complete the batches of the current team."""
        of_team, self._of_team = self._of_team, {}
        highest: tuple[int, ...] = ()
        runs: list[_Run] = []
        for group in sorted(of_team):
            for position, jobs, batches in _by_age(of_team[group]):
                if position > highest:
                    highest, runs = position, []
                    self._runs.setdefault(highest, []).append(runs)
                runs.append((jobs, batches, position == highest))

    def merged(self) -> tuple[list[Age], list[int]]:
        """Return all jobs in the order of service, and the number of the batch of each."""
        found: list[_Run] = []
        for position in sorted(self._runs):
            of_teams = self._runs[position]
            found += of_teams[0] if len(of_teams) == 1 else [_merged(of_teams)]
        return (
            list(chain.from_iterable([jobs for jobs, _, _ in found])),
            list(chain.from_iterable([batches for _, batches, _ in found])),
        )


def _merged(of_teams: Iterable[Iterable[_Run]]) -> _Run:
    """Merge the jobs of teams with equal positions."""
    all_jobs: list[Age] = []
    all_batches: list[int] = []
    ages: list[Age] = []
    for runs in of_teams:
        youngest = (-1, "")
        for jobs, batches, is_by_age in runs:
            all_jobs += jobs
            all_batches += batches
            for job in jobs:
                if is_by_age and job > youngest:
                    youngest = job
                ages.append(youngest)
    order = sorted(range(len(ages)), key=ages.__getitem__)
    return [all_jobs[at] for at in order], [all_batches[at] for at in order], True


def _by_age(
    batches: Sequence[_Batch],
) -> Iterable[tuple[tuple[int, ...], Sequence[Age], Sequence[int]]]:
    """Return the jobs of all `batches`, the oldest first, split where the position changes.

    Each part has the position, the jobs, and the number of the batch of each job.
    """
    number, position, jobs = batches[0]
    if len(batches) == 1:
        return ((position, jobs, [number] * len(jobs)),)
    jobs = [job for _, _, of_batch in batches for job in of_batch]
    of = [batch for batch in batches for _ in batch[2]]
    order = sorted(range(len(jobs)), key=jobs.__getitem__)
    if all(batch[1] == position for batch in batches):
        return ((position, [jobs[at] for at in order], [of[at][0] for at in order]),)
    return [
        (position, [jobs[at] for at in run], [of[at][0] for at in run])
        for position, found in groupby(order, key=lambda at: of[at][1])
        for run in (list(found),)
    ]
