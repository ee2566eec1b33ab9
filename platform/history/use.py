"""The history of a tree node in a pool: use, guarantee, lent and waiting GPUs, step by step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

from chargeback.reports import Asked
from clusters.models import Pool
from history.integrals import ELSEWHERE, OUTSIDE, Integrals, Lender, Level
from history.levels import TreeOverTime
from history.scope import Scope, scope_of
from history.steps import Step, default_step, edges_of
from history.stored_days import focus_of, integrals_between
from primitives.errors import FieldError, InvalidRequest
from tenants.access import Actor

#: The most steps of one history.
STEPS_MAX = 1_500
#: The most integrals, by node and step, that are held in memory for one history. Steps of days are
#: integrated by the hour, because the week of the history needs hours.
INTEGRALS_MAX = 1_000_000
#: The children that are shown step by step: those with the most use.
CHILDREN_MAX = 12
#: The most pairs of who borrowed from whom, the largest first.
PAIRS_MAX = 1_000
#: Names in pairs for what is not a child: others outside the node, and the node's own reserve.
OUTSIDE_NAME, RESERVE_NAME = "(outside)", "(reserve)"


@dataclass(frozen=True, slots=True)
class Series:
    """The integrals of a node in milli-GPU-seconds, by `Level`: their sums, and of each step."""

    node: str
    sums: Sequence[int]
    steps: Sequence[Sequence[int]]

    @property
    def used_mgpu_s(self) -> int:
        """Return the use in all classes."""
        return sum(self.sums[: Level.WAITING])


@dataclass(frozen=True, slots=True)
class Pair:
    """The use of a child above its guarantee, as far as a lender made it possible."""

    borrower: str
    lender: str
    mgpu_s: int


@dataclass(frozen=True, slots=True)
class WeekHour:
    """Use and guarantee in one hour of the week (Monday is 0), in milli-GPU-seconds."""

    weekday: int
    hour: int
    used_mgpu_s: int
    guarantee_mgpu_s: int


@dataclass(frozen=True, slots=True)
class History:
    """The history of a node in a pool. All of it is exact to the second.

    `edges` are the start of each step, and the end of the last one. `children` are all nodes below,
    the ones with the most use first; only `CHILDREN_MAX` of them have steps. `capacity` is that of
    the whole pool in each step, in milli-GPU-seconds.
    """

    scope: Scope
    step: Step
    edges: Sequence[datetime]
    series: Series
    children: Sequence[Series]
    pairs: Sequence[Pair]
    week: Sequence[WeekHour]
    capacity: Sequence[int]


def history_of(
    path: str, pool: Pool, *, actor: Actor, asked: Asked, step: Step | None = None, now: datetime
) -> History:
    """Return the history of a node.

    Raises as `scope_of`, and InvalidRequest for more than `STEPS_MAX` steps or `INTEGRALS_MAX`.
    """
    scope = scope_of(path, pool, actor=actor, asked=asked, now=now)
    tree, node, period, zone = scope.tree, scope.node, scope.period, scope.zone
    step = step or default_step(period)
    edges = edges_of(period, step, zone)
    if len(edges) - 1 > STEPS_MAX:
        raise _too_many(f"The period has more than {STEPS_MAX} steps.")
    fine = edges if step is not Step.DAY else edges_of(period, Step.HOUR, zone)
    found = _integrals(tree, pool, fine, node)
    below = [each for each, parent in enumerate(tree.parents) if parent == node]
    children = sorted(
        (_series(tree, each, found, fine, edges) for each in below),
        key=lambda series: (-series.used_mgpu_s, series.node),
    )
    return History(
        scope=scope,
        step=step,
        edges=edges,
        series=_series(tree, node, found, fine, edges),
        children=[
            child if place < CHILDREN_MAX else Series(child.node, child.sums, ())
            for place, child in enumerate(children)
        ],
        pairs=_pairs(tree, node, found)[:PAIRS_MAX],
        week=_week(found.steps[node], fine, zone),
        capacity=_summed(found.capacity, fine, edges),
    )


def _too_many(problem: str) -> InvalidRequest:
    return InvalidRequest(
        f"{problem} Ask for a longer step or a shorter period.",
        errors=[FieldError("/step", "makes too many steps")],
    )


def _integrals(tree: TreeOverTime, pool: Pool, edges: Sequence[datetime], node: int) -> Integrals:
    focus = focus_of(tree, node)
    nodes = sum(not focus.isdisjoint(pair) for pair in enumerate(tree.parents))
    if nodes * (len(edges) - 1) > INTEGRALS_MAX:
        raise _too_many(f"The period has too many steps for {nodes} nodes.")
    return integrals_between(tree, pool, edges, node)


def _series(
    tree: TreeOverTime,
    node: int,
    found: Integrals,
    fine: Sequence[datetime],
    edges: Sequence[datetime],
) -> Series:
    """Return a node's integrals, summed from the fine steps to those between `edges`."""
    steps = [[0] * len(Level) for _ in range(len(edges) - 1)]
    for start, values in zip(fine, found.steps[node], strict=False):
        into = steps[bisect_right(edges, start) - 1]
        for level, value in enumerate(values):
            into[level] += value
    sums = [sum(values) for values in zip(*steps, strict=True)]
    return Series(tree.name_of(node), sums, steps)


def _summed(
    values: Sequence[int], fine: Sequence[datetime], edges: Sequence[datetime]
) -> list[int]:
    """Return values of fine steps, summed to those between `edges`."""
    sums = [0] * (len(edges) - 1)
    for start, value in zip(fine, values, strict=False):
        sums[bisect_right(edges, start) - 1] += value
    return sums


def _pairs(tree: TreeOverTime, node: int, found: Integrals) -> list[Pair]:
    def name_of(number: int | None) -> str:
        return OUTSIDE_NAME if number is None else tree.name_of(number)

    def lender_name(lender: Lender) -> str:
        return RESERVE_NAME if lender.is_reserve else name_of(lender.node)

    pairs = [
        Pair(name_of(borrower.node), lender_name(lender), mgpu_s)
        for (borrower, lender), mgpu_s in found.exchanges.get(node, {}).items()
        if (borrower, lender) != (OUTSIDE, ELSEWHERE)
    ]
    return sorted(pairs, key=lambda pair: (-pair.mgpu_s, pair.borrower, pair.lender))


def _week(
    steps: Sequence[Sequence[int]], edges: Sequence[datetime], zone: ZoneInfo
) -> list[WeekHour]:
    """Return use and guarantee by weekday and hour of the zone, as the clock showed it then."""
    sums: dict[tuple[int, int], list[int]] = {}
    for (start, _), values in zip(pairwise(edges), steps, strict=True):
        local = start.astimezone(zone)
        into = sums.setdefault((local.weekday(), local.hour), [0, 0])
        into[0] += sum(values[: Level.WAITING])
        into[1] += values[Level.GUARANTEE]
    return [WeekHour(*key, *values) for key, values in sorted(sums.items())]
