"""The figures by which a schedule is judged, from the outcome of a run.

Ratios are quotients of exact integers, taken at the very end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum

from simulator.idle import REFUSALS
from simulator.observer import Team
from simulator.world import Outcome, Task

#: In the bounded slowdown, a shorter job counts as this long.
SHORT_JOB_S = 600


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles (nearest rank) of durations in seconds; all None if there is none."""

    count: int
    mean_s: int | None
    p50_s: int | None
    p95_s: int | None
    p99_s: int | None
    max_s: int | None


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality figures of a schedule; a figure without data is None.

    Shares of GPU time until the horizon, which is the last submission:

    - `utilisation` is use over capacity; `goodput` is saved work over capacity.
    - `bound` is the most work that any policy could do, over capacity.
    - `of_bound` = goodput / bound, at most 1. `used_of_bound` = utilisation / bound also counts
      lost work and restarts.
    - `idle` is the idle share by cause (see `simulator.idle`). `idle_fitting` is the part in which
      a job waited that the free nodes could hold.
    - All are None if all jobs come at once, because the horizon is 0.

    Guarantee shortfall, as a share of the entitlement of all teams and of the worst team:

    - `shortfall` is the whole; `lasted` is the part beyond grace and one cycle.
    - `divisible` is the part of `lasted` that the size of no waiting gang excuses.
    - The figures of departments are of the worst one. `departments_due_max_s` is the longest time
      that a job fitted in the unused guarantee of its department. They are None without
      departments.
    - `jain` is the index over the teams' satisfaction, each at most 1.

    Times in seconds:

    - `waits` is from submission to the first start, `gang_waits` the same of jobs on several nodes.
    - `due` is how long in all a job fitted in its team's unused guarantee before its start.
      `due_max_s` is the longest, including jobs that never started.
    - `rho` is completion time over that under static quotas: the mean of the worst team, and the
      same weighted by work. It is None without a reference.

    `waste` is GPU time redone or spent on restarts over useful GPU time, of the whole run. It is
    None if no GPU time was useful.
    """

    utilisation: float | None
    goodput: float | None
    bound: float | None
    of_bound: float | None
    used_of_bound: float | None
    idle_fitting: float | None
    idle: Mapping[str, float | None]
    shortfall: float | None
    shortfall_worst: float | None
    lasted: float | None
    lasted_worst: float | None
    divisible: float | None
    divisible_worst: float | None
    departments_shortfall_worst: float | None
    departments_divisible_worst: float | None
    departments_due_max_s: int | None
    jain: float | None
    waits: Spread
    gang_waits: Spread
    completion: Spread
    slowdown: float | None
    due: Spread
    due_max_s: int | None
    rho_worst: float | None
    rho_worst_by_work: float | None
    waste: float | None
    lost_mgpu_s: int
    overhead_mgpu_s: int
    preemptions: int
    preemptions_p99: int
    preemptions_max: int
    failures: int
    finished: int
    refused: int
    unfinished: int
    makespan_s: int | None


def spread(seconds: Iterable[int]) -> Spread:
    """Return the mean, rounded down, and the percentiles."""
    ordered = sorted(seconds)
    if not ordered:
        return Spread(0, None, None, None, None, None)
    count = len(ordered)
    return Spread(
        count,
        sum(ordered) // count,
        percentile(ordered, 50),
        percentile(ordered, 95),
        percentile(ordered, 99),
        ordered[-1],
    )


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the smallest value that is not below `percent` % of all values (nearest rank).

    `ordered` is sorted and not empty.
    """
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def judge(
    outcome: Outcome, *, capacity_mgpu: int, bound_mgpu_s: int, alone: Mapping[int, int] | None
) -> Quality:
    """Return the figures of one run. `alone`: completion time by job number under static quotas."""
    tasks = outcome.tasks
    teams = outcome.observer.teams.values()
    capacity_mgpu_s = capacity_mgpu * outcome.horizon_s
    used = sum(team.used_mgpu_s for team in teams)
    entitled = [team for team in teams if team.entitled_mgpu_s]
    finished = [task for task in tasks if task.finish_s is not None]
    started = [task for task in tasks if task.first_start_s is not None]
    waits = [(task, (task.first_start_s or 0) - task.submit_s) for task in started]
    completion = {task.number: (task.finish_s or 0) - task.submit_s for task in finished}
    due = [seconds for team in teams for seconds in team.entitled_s]
    stops = sorted(task.preemptions for task in tasks)
    rho = _rho(finished, completion, alone)
    lasted = [(team.lasting.total, team.entitled_mgpu_s) for team in entitled]
    short, divisible = _short(teams), _divisible(teams)
    departments = outcome.observer.departments.values()
    return Quality(
        utilisation=_quotient(used, capacity_mgpu_s),
        goodput=_quotient(outcome.saved_mgpu_s, capacity_mgpu_s),
        bound=_quotient(bound_mgpu_s, capacity_mgpu_s),
        of_bound=_quotient(outcome.saved_mgpu_s, bound_mgpu_s),
        used_of_bound=_quotient(used, bound_mgpu_s),
        idle_fitting=_quotient(
            sum(outcome.idle_mgpu_s[cause] for cause in REFUSALS), capacity_mgpu_s
        ),
        idle={
            cause.value: _quotient(mgpu_s, capacity_mgpu_s)
            for cause, mgpu_s in outcome.idle_mgpu_s.items()
        },
        shortfall=_overall(short),
        shortfall_worst=_worst(short),
        lasted=_overall(lasted),
        lasted_worst=_worst(lasted),
        divisible=_overall(divisible),
        divisible_worst=_worst(divisible),
        departments_shortfall_worst=_worst(_short(departments)),
        departments_divisible_worst=_worst(_divisible(departments)),
        departments_due_max_s=due_max_s_of(departments, outcome.ended_s),
        jain=jain([min(Fraction(1), Fraction(t.used_mgpu_s, t.entitled_mgpu_s)) for t in entitled]),
        waits=spread(wait for _, wait in waits),
        gang_waits=spread(wait for task, wait in waits if task.work.job.node_count > 1),
        completion=spread(completion.values()),
        slowdown=_mean(
            [
                max(1.0, completion[task.number] / max(SHORT_JOB_S, task.work.job.duration_s))
                for task in finished
            ]
        ),
        due=spread(due),
        due_max_s=due_max_s_of(teams, outcome.ended_s),
        rho_worst=None if rho is None else rho[0],
        rho_worst_by_work=None if rho is None else rho[1],
        waste=_quotient(outcome.lost_mgpu_s + outcome.overhead_mgpu_s, outcome.useful_mgpu_s),
        lost_mgpu_s=outcome.lost_mgpu_s,
        overhead_mgpu_s=outcome.overhead_mgpu_s,
        preemptions=outcome.preemptions,
        preemptions_p99=percentile(stops, 99) if stops else 0,
        preemptions_max=stops[-1] if stops else 0,
        failures=outcome.failures,
        finished=len(finished),
        refused=outcome.refused,
        unfinished=len(tasks) - len(finished) - outcome.refused,
        makespan_s=max((task.finish_s or 0 for task in finished), default=None),
    )


def completion_times(outcome: Outcome) -> dict[int, int]:
    """Return the seconds from submission to end of every finished job, by number."""
    return {
        task.number: task.finish_s - task.submit_s
        for task in outcome.tasks
        if task.finish_s is not None
    }


def jain(values: Sequence[Fraction]) -> float | None:
    """Return Jain's index of fairness: (sum x)^2 / (n sum x^2).

    It is undefined, and None here, for no value or only zeros.
    """
    squares = sum((value * value for value in values), Fraction(0))
    if not squares:
        return None
    total = sum(values, Fraction(0))
    return float(total * total / (len(values) * squares))


def _rho(
    finished: Sequence[Task], completion: Mapping[int, int], alone: Mapping[int, int] | None
) -> tuple[float, float] | None:
    """Return (worst mean of a team, worst mean weighted by work) of completion over `alone`."""
    if alone is None:
        return None
    by_team: dict[str, list[tuple[float, int]]] = {}
    for task in finished:
        if task.number in alone:
            rho = completion[task.number] / alone[task.number]
            weight = task.mgpu * task.work.job.duration_s
            by_team.setdefault(task.team, []).append((rho, weight))
    if not by_team:
        return None
    plain = [fsum(rho for rho, _ in found) / len(found) for found in by_team.values()]
    weighted = [
        fsum(rho * weight for rho, weight in found) / sum(weight for _, weight in found)
        for found in by_team.values()
    ]
    return max(plain), max(weighted)


def _short(meters: Iterable[Team]) -> list[tuple[int, int]]:
    """Return shortfall and entitlement of each meter with any entitlement."""
    return [(one.short_mgpu_s, one.entitled_mgpu_s) for one in meters if one.entitled_mgpu_s]


def _divisible(meters: Iterable[Team]) -> list[tuple[int, int]]:
    """Return the `divisible` shortfall and the entitlement of each meter with any entitlement."""
    return [(one.divisible.total, one.entitled_mgpu_s) for one in meters if one.entitled_mgpu_s]


def due_max_s_of(meters: Iterable[Team], now: int) -> int | None:
    """Return the longest time that a job was due, including jobs not started by `now`."""
    due = (seconds for one in meters for seconds in one.entitled_s + one.still_due_s(now))
    return max(due, default=None)


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _overall(parts: Sequence[tuple[int, int]]) -> float | None:
    return _quotient(sum(part for part, _ in parts), sum(whole for _, whole in parts))


def _worst(parts: Sequence[tuple[int, int]]) -> float | None:
    """Return the largest ratio of part to whole, or None."""
    return max((part / whole for part, whole in parts), default=None)


def _quotient(part: int, whole: int) -> float | None:
    return part / whole if whole else None
