"""The charges that disputes are about: of an attempt, or of a row of a month's report.

A row is the use of a pool by a team, with commitments and top-ups. Refunds of the same use by
another dispute are subtracted, so that no charge is refunded twice.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Max, Sum

from adjustments.models import Dispute, DisputeStatus
from adjustments.months import first_day_of
from bank.settling import zone_of
from billing.attempt_costs import cost_of_attempt
from billing.models import MeteredAttempt
from billing.spending import Span, spent_in
from primitives.days import midnight, next_month


def charge_nano_of(dispute: Dispute) -> int:
    """Return the charge of now that no other dispute refunded, at least 0.

    It is 0 for an attempt that still runs.
    """
    team, attempt, zone = dispute.team_id, dispute.attempt, zone_of(dispute.organization_id)
    month = used_month_of(dispute, zone)
    if month is None:
        return 0
    if dispute.pool_id is not None:
        return max(0, _row_nano(team, dispute.pool_id, month, zone))
    cost = None if attempt is None else cost_of_attempt(attempt)
    if attempt is None or cost is None:
        return 0
    rows = Dispute.objects.filter(
        team=team, pool=attempt.pool_id, month=month, status=DisputeStatus.ACCEPTED
    )
    refunded_nano = rows.values_list("refund_nano", flat=True).first()
    if refunded_nano is None:
        return max(0, cost.cost_nano)
    left_nano = _row_nano(team, attempt.pool_id, month, zone) - refunded_nano
    return max(0, min(cost.cost_nano, left_nano))


def used_month_of(dispute: Dispute, zone: ZoneInfo) -> date | None:
    """Return the first day of the month of the use; None for an attempt without any.

    The month of an attempt is that of its last second.
    """
    if dispute.attempt is None:
        return dispute.month
    end = _end_of(dispute.attempt)
    return None if end is None else first_day_of(end - timedelta(seconds=1), zone)


def _end_of(attempt: MeteredAttempt) -> datetime | None:
    return attempt.segments.order_by("-start").values_list("end", flat=True).first()


def _row_nano(team: UUID, pool: UUID, month: date, zone: ZoneInfo) -> int:
    """Return the charge of a row, less the refunds of attempts that ended in its month."""
    start, end = midnight(month, zone), midnight(next_month(month), zone)
    spent = spent_in([Span(team, start, end)], [pool])
    refunded = (
        Dispute.objects.filter(status=DisputeStatus.ACCEPTED, team=team, attempt__pool=pool)
        .annotate(ended=Max("attempt__segments__end"))
        .filter(ended__gt=start, ended__lte=end)
        .aggregate(sum_nano=Sum("refund_nano", default=0))
    )
    return sum(each.cost_nano for each in spent) - int(refunded["sum_nano"])
