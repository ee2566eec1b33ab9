"""Histories as CSV, exact and safe in a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from chargeback.group_csv import gpu_hours_text
from history.integrals import Level
from history.preemptions import PreemptionHistory
from history.scope import Scope
from history.use import History
from history.waits import WaitHistory
from primitives.csv_text import csv_line, plain_text

#: New columns are added at the end. A column never changes its meaning.
COLUMNS = (
    "node",
    "pool",
    "device",
    "start",
    "end",
    "seconds",
    "gpu_hours",
    "guaranteed_gpu_hours",
    "borrowed_gpu_hours",
    "unpaid_gpu_hours",
    "fault_gpu_hours",
    "guarantee_gpu_hours",
    "within_guarantee_gpu_hours",
    "above_guarantee_gpu_hours",
    "lent_gpu_hours",
    "idle_gpu_hours",
    "waiting_gpu_hours",
    "mgpu_seconds",
    "pool_capacity_gpu_hours",
)
PAIR_COLUMNS = ("pool", "device", "borrower", "lender", "gpu_hours", "mgpu_seconds")
WEEK_COLUMNS = (
    *("node", "pool", "device", "weekday", "hour"),
    *("gpu_hours", "guarantee_gpu_hours", "used_mgpu_seconds", "guarantee_mgpu_seconds"),
)
WAIT_COLUMNS = (
    *("node", "pool", "team", "usage_class", "start", "end", "jobs", "p50_seconds", "p95_seconds"),
)
PREEMPTION_COLUMNS = (
    *("node", "pool", "device", "team", "for_team", "preemptions", "jobs"),
    *("lost_gpu_hours", "lost_mgpu_seconds"),
)


def file_name(scope: Scope, kind: str = "history") -> str:
    """Return the name of a history's file."""
    start, end = (
        f"{each.astimezone(scope.zone):%Y%m%d}" for each in (scope.period.start, scope.period.until)
    )
    name = scope.path.rpartition("/")[2]
    return f"{kind}-{name}-{scope.pool.name}-{start}-{end}.csv"


def csv_lines(history: History) -> Iterator[str]:
    """Yield the header, then the steps of the node and of each child that has steps.

    GPU-hours are rounded half to even at six decimals; `mgpu_seconds` is the exact use. The
    guarantee is the sum of what was used within, lent and idle. The capacity is that of the whole
    pool.
    """
    scope = history.scope
    yield csv_line(COLUMNS)
    for series in (history.series, *history.children):
        for (start, end), values, capacity in zip(
            pairwise(history.edges), series.steps, history.capacity, strict=False
        ):
            used = sum(values[: Level.WAITING])
            guarantee, within, lent = values[Level.GUARANTEE : Level.LENT + 1]
            hours = (used, *values[: Level.WAITING], guarantee, within, used - within, lent)
            yield csv_line(
                [
                    plain_text(series.node),
                    plain_text(scope.pool.name),
                    scope.pool.device,
                    start.astimezone(scope.zone).isoformat(),
                    end.astimezone(scope.zone).isoformat(),
                    str(int((end - start).total_seconds())),
                    *map(gpu_hours_text, hours),
                    gpu_hours_text(guarantee - within - lent),
                    gpu_hours_text(values[Level.WAITING]),
                    str(used),
                    gpu_hours_text(capacity),
                ]
            )


def pair_lines(history: History) -> Iterator[str]:
    """Yield the header, then a line for each borrower and lender, the most first."""
    scope = history.scope
    yield csv_line(PAIR_COLUMNS)
    for pair in history.pairs:
        yield csv_line(
            [
                plain_text(scope.pool.name),
                scope.pool.device,
                plain_text(pair.borrower),
                plain_text(pair.lender),
                gpu_hours_text(pair.mgpu_s),
                str(pair.mgpu_s),
            ]
        )


def week_lines(history: History) -> Iterator[str]:
    """Yield the header, then a line for each weekday (Monday is 0) and hour."""
    scope = history.scope
    yield csv_line(WEEK_COLUMNS)
    for each in history.week:
        yield csv_line(
            [
                plain_text(scope.path),
                plain_text(scope.pool.name),
                scope.pool.device,
                str(each.weekday),
                str(each.hour),
                gpu_hours_text(each.used_mgpu_s),
                gpu_hours_text(each.guarantee_mgpu_s),
                str(each.used_mgpu_s),
                str(each.guarantee_mgpu_s),
            ]
        )


def wait_lines(history: WaitHistory) -> Iterator[str]:
    """Yield the header, then a line for each class: of all jobs, of each team, and of each step.

    Lines without a team are of all teams. Lines of steps have the times of the step.
    """
    scope = history.scope
    yield csv_line(WAIT_COLUMNS)
    for group in history.groups:
        start, end = scope.period.start, scope.period.until
        if group.step is not None:
            start, end = history.edges[group.step], history.edges[group.step + 1]
        yield csv_line(
            [
                plain_text(scope.path),
                plain_text(scope.pool.name),
                plain_text(group.team or ""),
                group.usage_class.value,
                start.astimezone(scope.zone).isoformat(),
                end.astimezone(scope.zone).isoformat(),
                str(group.waits.jobs),
                str(group.waits.p50_s),
                str(group.waits.p95_s),
            ]
        )


def preemption_lines(history: PreemptionHistory) -> Iterator[str]:
    """Yield the header, then a line for each pair of teams, the most work lost first."""
    scope = history.scope
    yield csv_line(PREEMPTION_COLUMNS)
    for row in history.rows:
        yield csv_line(
            [
                plain_text(scope.path),
                plain_text(scope.pool.name),
                scope.pool.device,
                plain_text(row.team),
                plain_text(row.for_team),
                str(row.preemptions),
                str(row.jobs),
                gpu_hours_text(row.lost_mgpu_s),
                str(row.lost_mgpu_s),
            ]
        )
