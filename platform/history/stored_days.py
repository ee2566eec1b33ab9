"""Integrals of past days, stored, so that the history of a month is read from a few rows.

A day may be stored once it has been over for `STORED_AFTER`. Each change of use that is older than
48 hours leaves a note in its own transaction, by a trigger. A stored day with a note on it is not
read, so use is exact at every moment. Waiting GPUs stay as they were when the day was stored: jobs
that are held or deleted later change nothing. A day on which a node moved is never stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from uuid import UUID

from django.db.models import Min

from bank.settling import zone_of
from billing.periods import Period
from billing.stored_charges import STORED_AFTER
from billing.usage_sql import rows_of
from bulk.alone import alone_with
from clusters.models import Pool
from history.integrals import (
    ELSEWHERE,
    NO_PARENT,
    OUTSIDE,
    RESERVE,
    Borrower,
    Exchange,
    Integrals,
    Lender,
    Level,
    integrate,
)
from history.levels import TreeOverTime, changes_between, tree_between
from history.models import ChangedHistory, StoredDay, StoredNode
from history.steps import Step, edges_of
from tenants.models import Node
from webapi.row_access import all_rows

#: The most pairs of who borrowed from whom on a stored day. A day with more is not stored.
PAIRS_MAX = 100_000
#: The numbers in stored pairs of those who are no node.
_NOBODY, _RESERVE = -1, -2


def focus_of(tree: TreeOverTime, node: int) -> set[int]:
    """Return the node and all above it, whose lending decides what the node lends."""
    focus = {NO_PARENT, node}
    while tree.parents[node] != NO_PARENT:
        node = tree.parents[node]
        focus.add(node)
    return focus


@all_rows()
def integrals_between(
    tree: TreeOverTime, pool: Pool, edges: Sequence[datetime], node: int
) -> Integrals:
    """Return the integrals of a node and its children between the edges.

    Use and quotas of all organizations count, as in the scheduler. Days whose hours are among the
    steps are read where they are stored. The rest is integrated.
    """
    numbers = {edge: number for number, edge in enumerate(edges)}
    focus = focus_of(tree, node)
    shown = [each for each, parent in enumerate(tree.parents) if node in (each, parent)]
    total = _Parts(node, {each: [] for each in shown})

    def integrated(first: int, last: int) -> None:
        if first < last:
            part = edges[first : last + 1]
            changes = changes_between(tree, pool, part[0], part[-1])
            seconds = [int(edge.timestamp()) for edge in part]
            total.add(integrate(tree.parents, changes, seconds, focus))

    done = 0
    for day in _stored_days(tree, pool, edges, node, shown):
        first, last = numbers.get(day.start), numbers.get(day.end)
        if first is None or last is None or last - first != len(day.integrals.capacity):
            continue
        if first < done:  # a day of an earlier time zone overlaps it
            continue
        integrated(done, first)
        total.add(day.integrals)
        done = last
    integrated(done, len(edges) - 1)
    return Integrals(total.steps, {node: total.exchange}, total.capacity)


@dataclass(slots=True)
class _Parts:
    """The integrals of parts of a period, one after the other."""

    node: int
    steps: dict[int, list[Sequence[int]]]
    exchange: dict[tuple[Borrower, Lender], int] = field(default_factory=lambda: defaultdict(int))
    capacity: list[int] = field(default_factory=list)

    def add(self, part: Integrals) -> None:
        """Append the steps of a part, and add what it exchanged."""
        for place, steps in self.steps.items():
            steps.extend(part.steps[place])
        for pair, mgpu_s in part.exchanges.get(self.node, {}).items():
            self.exchange[pair] += mgpu_s
        self.capacity.extend(part.capacity)


@dataclass(frozen=True, slots=True)
class _Day:
    start: datetime
    end: datetime
    integrals: Integrals


def _stored_days(
    tree: TreeOverTime, pool: Pool, edges: Sequence[datetime], node: int, shown: Collection[int]
) -> Iterator[_Day]:
    """Yield the days between the edges that can be read, the earliest first."""
    ids = [
        each for each, spans in tree.places.items() if any(number in shown for number, *_ in spans)
    ]
    named = [each for each in ids if any(number == node for number, *_ in tree.places[each])]
    rows = rows_of(
        _STORED,
        {
            "organization": tree.organization_id,
            "pool": pool.pk,
            "start": edges[0],
            "end": edges[-1],
            "shown": ids,
            "named": named,
        },
    )
    for (start, end, capacity), group in groupby(rows, key=lambda row: row[:3]):
        places = tree.places_at(int(start.timestamp()))
        steps = {each: [[0] * len(Level) for _ in capacity] for each in shown}
        exchange: Exchange | None = {}
        for each, levels, mgpu_s, pairs, nodes in (row[3:] for row in group):
            place = places.get(each)
            if place in steps:
                _fill(steps[place], levels, mgpu_s)
            if place == node:
                exchange = _exchange_of(pairs, nodes, places)
        if exchange is not None:
            yield _Day(start, end, Integrals(steps, {node: exchange}, capacity))


def _fill(steps: Sequence[list[int]], levels: Sequence[int], mgpu_s: Sequence[int]) -> None:
    values = iter(mgpu_s)
    for level in levels:
        for step in steps:
            step[level] = next(values)


def _exchange_of(
    pairs: Sequence[int], nodes: Sequence[UUID], places: Mapping[UUID, int]
) -> Exchange | None:
    """Return stored pairs by places, or None where a node exists no more."""

    def place_of(number: int) -> int:
        return places[nodes[number]]

    numbers = iter(pairs)
    try:
        return {
            (
                OUTSIDE if borrower == _NOBODY else Borrower(place_of(borrower)),
                {_NOBODY: ELSEWHERE, _RESERVE: RESERVE}.get(lender) or Lender(place_of(lender)),
            ): mgpu_s
            for borrower, lender, mgpu_s in zip(numbers, numbers, numbers, strict=True)
        }
    except KeyError:
        return None


# One statement, so that a day is read whole or not at all.
_STORED = """
SELECT d.start, d."end", d.capacity_mgpu_s, r.node_id, r.levels, r.mgpu_s,
       CASE WHEN r.node_id = ANY(%(named)s::uuid[]) THEN r.pairs END,
       CASE WHEN r.node_id = ANY(%(named)s::uuid[]) THEN d.nodes END
FROM history_storedday d
LEFT JOIN history_storednode r ON r.day_id = d.id AND r.node_id = ANY(%(shown)s::uuid[])
WHERE d.organization_id = %(organization)s AND d.pool_id = %(pool)s
  AND d.start >= %(start)s AND d."end" <= %(end)s
  AND NOT EXISTS (SELECT FROM history_changedhistory c WHERE c.start < d."end")
ORDER BY d.start, d.id
"""


def forget_changed_days() -> None:
    """Delete the stored days of all organizations that notes touch, and these notes."""
    with alone_with(StoredDay._meta.db_table):
        first = ChangedHistory.objects.aggregate(at=Min("start"))["at"]
        if first is not None:
            StoredDay.objects.filter(end__gt=first).delete()
            ChangedHistory.objects.all().delete()


def store_day(
    organization: Node, pool: Pool, start: datetime, end: datetime, *, now: datetime
) -> bool:
    """Store a day of the organization's time zone, and return whether that was possible.

    It was not within `STORED_AFTER` of its end, on a day on which a node moved, for a day that is
    stored, and for more than `PAIRS_MAX` pairs.
    """
    if now < end + STORED_AFTER:
        return False
    with alone_with(StoredDay._meta.db_table):
        known = {"organization": organization, "pool": pool, "start": start, "end": end}
        tree = tree_between(organization, start, end)
        start_s, end_s = int(start.timestamp()), int(end.timestamp())
        is_still = all(
            [span[1:] for span in spans] == [(start_s, end_s)] for spans in tree.places.values()
        )
        if not is_still or StoredDay.objects.filter(**known).exists():
            return False
        edges = edges_of(Period(start, end, end), Step.HOUR, zone_of(organization.pk))
        found = integrate(
            tree.parents,
            changes_between(tree, pool, start, end),
            [int(edge.timestamp()) for edge in edges],
            range(NO_PARENT, len(tree.parents)),
        )
        if sum(map(len, found.exchanges.values())) > PAIRS_MAX:
            return False
        ids = {spans[0][0]: node for node, spans in tree.places.items()}
        nodes = [ids[place] for place in range(len(tree.parents))]
        day = StoredDay.objects.create(**known, capacity_mgpu_s=list(found.capacity), nodes=nodes)
        StoredNode.objects.bulk_create(_rows(day, found), batch_size=500)
    return True


def _rows(day: StoredDay, found: Integrals) -> Iterator[StoredNode]:
    """Yield the rows of all nodes with an integral; places are numbers of the day's nodes."""
    for place, steps in found.steps.items():
        by_level = list(zip(*steps, strict=True))
        levels = [level for level in Level if any(by_level[level])]
        pairs = [
            number
            for pair, mgpu_s in found.exchanges.get(place, {}).items()
            for number in (*_numbers_of(*pair), mgpu_s)
        ]
        if levels or pairs:
            yield StoredNode(
                day=day,
                node_id=day.nodes[place],
                levels=[int(level) for level in levels],
                mgpu_s=[value for level in levels for value in by_level[level]],
                pairs=pairs,
            )


def _numbers_of(borrower: Borrower, lender: Lender) -> tuple[int, int]:
    of_lender = _NOBODY if lender.node is None else lender.node
    return (
        _NOBODY if borrower.node is None else borrower.node,
        _RESERVE if lender.is_reserve else of_lender,
    )
