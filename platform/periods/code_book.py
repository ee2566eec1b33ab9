"""Lookups of accounting codes, by the path of a team at the time of use and by month."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from adjustments.months import first_day_of
from bank.settling import zone_of
from periods.code_models import AccountingCode, CodeKind
from primitives.days import midnight, next_month
from tenants.places import Place, places_of


class Codes(NamedTuple):
    """The accounting codes of a team in a month, own or inherited. Empty: none."""

    cost_centre: str = ""
    project_code: str = ""


class _Span(NamedTuple):
    """A code during `[start, end)`, in first days of months. No end: for ever."""

    start: date
    end: date | None
    code: str


@dataclass(frozen=True, slots=True)
class CodeBook:
    """The accounting codes of some months, by the present and former paths of their nodes."""

    by_path: Mapping[tuple[str, str], Sequence[_Span]]

    def codes(self, path: str, month: date) -> Codes:
        """Return the codes of a node by its path (without the last slash) in a month.

        `month` is any day of it. Each kind of code is that of the nearest node upwards.
        """
        return Codes(*(self._code(kind, path, month) for kind in CodeKind.values))

    def _code(self, kind: str, path: str, month: date) -> str:
        while path:
            for start, end, code in self.by_path.get((kind, path), ()):
                if start <= month and (end is None or month < end):
                    return code
            path = path.rpartition("/")[0]
        return ""


def code_book(organizations: Collection[UUID], first: date, last: date) -> CodeBook:
    """Return the codes of organizations in the months of `first` to `last`. At most three queries.

    The days are those of the organizations' time zones.
    """
    rows = AccountingCode.objects.filter(
        Q(end=None) | Q(end__gt=first), node__organization__in=organizations, start__lte=last
    )
    by_node: dict[UUID, list[AccountingCode]] = {}
    for row in rows.order_by("start"):
        by_node.setdefault(row.node_id, []).append(row)
    by_path: dict[tuple[str, str], list[_Span]] = {}
    for path, node_id in {(p.node.display_path, p.node.pk) for p in places_of(list(by_node))}:
        for row in by_node[node_id]:
            spans = by_path.setdefault((row.kind, path), [])
            spans.append(_Span(row.start, row.end, row.code))
    return CodeBook(by_path)


class CodedPlace(NamedTuple):
    """A place of a team, cut to a time with the same accounting codes. Empty: no code."""

    place: Place
    codes: tuple[str, ...]


def coded_places(
    places: Iterable[Place], kinds: Sequence[CodeKind], start: datetime, end: datetime
) -> list[CodedPlace]:
    """Return the places during `[start, end)`, cut where their code of one of the kinds changes.

    The order is that of `places`, and then of time. Months are those of each organization's zone.
    """
    found = list(places)
    zones = {one: zone_of(one) for one in {place.node.organization_id for place in found}}
    firsts = [first_day_of(start, zone) for zone in zones.values()]
    lasts = [first_day_of(end, zone) for zone in zones.values()]
    book = code_book(list(zones), min(firsts, default=date.max), max(lasts, default=date.min))
    coded: list[CodedPlace] = []
    for place in found:
        zone = zones[place.node.organization_id]
        since = start if place.start is None else max(start, place.start)
        until = end if place.end is None else min(end, place.end)
        if since >= until:
            continue
        cuts, month = [since], next_month(first_day_of(since, zone))
        while (cut := midnight(month, zone)) < until:
            cuts.append(cut)
            month = next_month(month)
        before: CodedPlace | None = None
        for left, right in pairwise([*cuts, until]):
            known = book.codes(place.node.display_path, first_day_of(left, zone))._asdict()
            codes = tuple(str(known[kind]) for kind in kinds)
            if before is not None and before.codes == codes:
                coded.pop()
                left = before.place.start or left
            before = CodedPlace(Place(place.node, left, right), codes)
            coded.append(before)
    return coded
