"""The charges that disputes are about: of an attempt, or of a row of a month's report.

A row is the use of a pool by a team, with commitments and top-ups. Refunds of the same use by
another dispute are subtracted, so that no charge is refunded twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Q, Sum

from adjustments.models import Adjustment, Dispute, DisputeStatus
from adjustments.months import first_day_of
from bank.settling import zone_of
from billing.attempt_costs import costs_of_attempts
from billing.spending import Span, spent_in
from primitives.days import midnight, next_month
from tenants.places import path_at

_SECOND = timedelta(seconds=1)


class DisputedUse(NamedTuple):
    """The use that a dispute is about, the first days of its months in order, and its refund.

    The refund is what is booked by now, in nano-currency: without what was taken back.
    """

    dispute: Dispute
    months: Sequence[date]
    refunded_nano: int


class Excess(NamedTuple):
    """The part of a refund that is above the charge of now, and the month of the use."""

    dispute: Dispute
    used_in: date
    amount_nano: int


def charge_nano_of(dispute: Dispute) -> int:
    """Return the charge of now that no other dispute refunded, at least 0.

    It is 0 for an attempt that still runs.
    """
    zone = zone_of(dispute.organization_id)
    months = _months_of(dispute, zone)
    if not months:
        return 0
    pool = _pool_of(dispute)
    others = [each for each in _accepted(dispute.team_id, pool, zone) if each.dispute != dispute]
    linked = _linked(others, months)
    asked = DisputedUse(dispute, months, 0)
    room = _Room(dispute.team_id, pool, [*linked, asked], zone)
    for other in linked:
        room.take(other, other.refunded_nano)
    return room.take(asked, None)


def excess_refunds(team: UUID, pool: UUID, since: date, zone: ZoneInfo) -> list[Excess]:
    """Return what is refunded above the charges of now, of use since a month.

    Refunds of other months are among them where an attempt links both. The refund that was decided
    last has the excess, where two are about the same use.
    """
    accepted = _accepted(team, pool, zone)
    seed = {month for use in accepted for month in use.months if month >= since}
    linked = _linked(accepted, seed)
    room = _Room(team, pool, linked, zone)
    found = [
        Excess(
            *(use.dispute, use.months[-1]),
            use.refunded_nano - room.take(use, use.refunded_nano),
        )
        for use in linked
    ]
    return [excess for excess in found if excess.amount_nano]


def used_month_of(dispute: Dispute, zone: ZoneInfo) -> date | None:
    """Return the first day of the month of the use; None for an attempt without any.

    The month of an attempt is that of its last second.
    """
    last = _last_second_of(dispute, zone)
    return None if last is None else first_day_of(last, zone)


def adjusted_path(adjustment: Adjustment, zone: ZoneInfo) -> str:
    """Return the path of the adjusted team at that time. The time of a refund is that of its use.

    It is the last second of the use.
    """
    at = None
    if adjustment.dispute is not None:
        at = _last_second_of(adjustment.dispute, zone)
    return path_at(adjustment.team, at or adjustment.effective_at)


def _last_second_of(dispute: Dispute, zone: ZoneInfo) -> datetime | None:
    """Return the last second of the use; None for an attempt that has none or still runs."""
    if dispute.month is not None:
        return midnight(next_month(dispute.month), zone) - _SECOND
    used = _used(dispute)
    return None if used is None else used[1] - _SECOND


def _used(dispute: Dispute) -> tuple[datetime, datetime] | None:
    """Return the start and end of an attempt; None without use, or while it runs."""
    assert dispute.attempt is not None
    segments = sorted(dispute.attempt.segments.all(), key=lambda segment: segment.start)
    if not segments or segments[-1].end is None:
        return None
    return segments[0].start, segments[-1].end


def _months_of(dispute: Dispute, zone: ZoneInfo) -> list[date]:
    """Return the first days of the months with use; none for an attempt that still runs."""
    if dispute.month is not None:
        return [dispute.month]
    used = _used(dispute)
    if used is None:
        return []
    months, last = [first_day_of(used[0], zone)], first_day_of(used[1] - _SECOND, zone)
    while months[-1] < last:
        months.append(next_month(months[-1]))
    return months


def _pool_of(dispute: Dispute) -> UUID:
    pool = dispute.pool_id if dispute.attempt is None else dispute.attempt.pool_id
    assert pool is not None
    return pool


def _accepted(team: UUID, pool: UUID, zone: ZoneInfo) -> list[DisputedUse]:
    """Return the use of the team in the pool that was refunded, in the order of decision."""
    rows = Dispute.objects.filter(
        Q(pool=pool) | Q(attempt__pool=pool), team=team, status=DisputeStatus.ACCEPTED
    )
    rows = rows.select_related("attempt", "team", "organization", "pool")
    rows = rows.annotate(booked_nano=Sum("refunds__amount_nano", default=0))
    found = rows.prefetch_related("attempt__segments").order_by("decided_at", "pk")
    return [
        DisputedUse(dispute, _months_of(dispute, zone), -int(dispute.booked_nano))
        for dispute in found
    ]


def _linked(uses: Collection[DisputedUse], seed: Iterable[date]) -> list[DisputedUse]:
    """Return the use of these months, and of the months that its attempts have in common."""
    months, before = set(seed), -1
    while len(months) > before:
        before = len(months)
        found = [use for use in uses if not months.isdisjoint(use.months)]
        months.update(month for use in found for month in use.months)
    return found


class _Room:
    """The charges of a team for a pool, by month, that no refund took yet."""

    def __init__(
        self, team: UUID, pool: UUID, uses: Collection[DisputedUse], zone: ZoneInfo
    ) -> None:
        months = sorted({month for use in uses for month in use.months})
        spans = [Span(team, midnight(day, zone), midnight(next_month(day), zone)) for day in months]
        self._left = dict.fromkeys(months, 0)
        for spent in spent_in(spans, [pool]):
            self._left[months[spent.span]] += spent.cost_nano
        attempts = [use.dispute.attempt_id for use in uses if use.dispute.attempt_id is not None]
        self._of_attempts = {
            (attempt, months[span]): cost_nano
            for (attempt, span), cost_nano in costs_of_attempts(attempts, pool, spans).items()
        }

    def take(self, use: DisputedUse, wanted_nano: int | None) -> int:
        """Take an amount, or all, from the months of the use, the last first; return how much."""
        taken_nano = 0
        for month in reversed(use.months):
            room_nano = max(0, self._left[month])
            if use.dispute.attempt_id is not None:
                of_attempt = self._of_attempts.get((use.dispute.attempt_id, month), 0)
                room_nano = min(room_nano, of_attempt)
            if wanted_nano is not None:
                room_nano = min(room_nano, wanted_nano - taken_nano)
            self._left[month] -= room_nano
            taken_nano += room_nano
        return taken_nano
