"""The months of an organization: which are open, what blocks closing one, and its closing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain, islice
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import Min

from adjustments.adjusting import adjustments_in, first_adjusted_month, lock_organization
from adjustments.refunds import take_back_excess
from audit.recording import record
from bank.settling import zone_of
from billing.confirmations import UnconfirmedDay, unconfirmed_days
from billing.late_facts import first_late_use
from billing.models import RateCard, UsageSegment
from live.publishing import COSTS, publish
from periods.charges import (
    BATCH_ROWS,
    CORRECTED_MONTHS_MAX,
    charges_of,
    corrections_of,
    rows_of,
)
from periods.code_book import code_book
from periods.digests import PeriodDigest
from periods.models import BillingPeriod, ChargeRow
from periods.months import Month, first_day, month_in, month_of
from primitives.days import next_month
from primitives.errors import Conflict, Forbidden, NotFound
from tenants.access import Actor
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: Time after the end of a month in which late facts still change it.
GRACE = timedelta(hours=72)
#: Time before a closing in which a fact may have been recorded and not yet committed.
LATE_COMMIT = timedelta(hours=1)
#: The most months that a list shows, the latest.
MONTHS_MAX = 24
#: The most unconfirmed days that a month names.
BLOCKERS_MAX = 1_000


class PeriodState(StrEnum):
    """The state of a month."""

    #: It has not ended, or the month before it is not closed.
    OPEN = "open"
    #: It ended less than 72 hours ago.
    GRACE = "grace"
    #: Its grace is over, and a person may close it.
    DUE = "due"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class MonthView:
    """A month of an organization. `period` is None until it is closed."""

    organization: Node
    month: Month
    state: PeriodState
    unconfirmed: tuple[UnconfirmedDay, ...]
    period: BillingPeriod | None


def organization_of(actor: Actor, organization_id: UUID, permission: Permission) -> Node:
    """Return the organization. Raises NotFound, and Forbidden without the right on all of it."""
    node = Node.objects.filter(kind=NodeKind.ORGANIZATION, pk=organization_id).first()
    if node is None or not actor.holds(Permission.VIEW_COSTS, node.path):
        raise NotFound("There is no such organization, or you may not see its costs.")
    if not actor.holds(permission, node.path):
        raise Forbidden(
            "Only finance and administrators may close months, issue statements and set codes.",
            permission=permission.value,
        )
    return node


def months_of(organization: Node, *, now: datetime) -> list[MonthView]:
    """Return the months from the first use or adjustment on, newest first, at most 24."""
    closed = list(BillingPeriod.objects.filter(organization=organization).order_by("-start"))
    views = [_closed_view(organization, period) for period in closed[:MONTHS_MAX]]
    month = _next_month(organization, closed[0] if closed else None)
    is_first = True
    while month is not None and month.start <= now:
        views.insert(0, _view(organization, month, is_first=is_first, now=now))
        month, is_first = month_in(next_month(month.first), month.zone), False
    return views[:MONTHS_MAX]


def one_month(organization: Node, name: str, *, now: datetime) -> MonthView:
    """Return a month such as "2026-11". Raises NotFound, and InvalidRequest for a bad name."""
    first = first_day(name)
    period = BillingPeriod.objects.filter(organization=organization, month=first).first()
    if period is not None:
        return _closed_view(organization, period)
    for view in months_of(organization, now=now):
        if view.month.first == first:
            return view
    raise NotFound(f"{organization.display_path} has no month {name}: nothing was charged by then.")


def close_month(
    organization_id: UUID, name: str, reason: str, *, actor: Actor, now: datetime
) -> BillingPeriod:
    """Close a month for good, with its charges and adjustments as they are now.

    Late facts of closed months become corrections in it, and take refunds of their use back. Every
    day of every used cluster must be green or acknowledged. Otherwise a reason is needed. Raises
    Conflict, saying what to do.
    """
    organization = organization_of(actor, organization_id, Permission.MANAGE_PRICES)
    with transaction.atomic():
        # Closings and adjustments of one organization wait for each other.
        lock_organization(organization.pk)
        view = one_month(organization, name, now=now)
        _check(view, reason, now)
        period = BillingPeriod(
            organization=organization,
            month=view.month.first,
            start=view.month.start,
            end=view.month.end,
            time_zone=view.month.zone.key,
            currency=_currency_of(organization),
            closed_at=now,
            closed_by=actor.user.login,
            reason=reason if view.unconfirmed else "",
        )
        corrected = _corrected_months(organization)
        charges = chain(
            charges_of(view.month, organization.pk),
            corrections_of(corrected, organization.pk),
        )
        first = corrected[0].first if corrected else period.month
        zone = view.month.zone
        take_back_excess(organization, first, period.month, zone, actor=actor, now=now)
        book = code_book([organization.pk], first, period.month)
        digest = PeriodDigest(period)
        # The rows come first: the database accepts none for a period that exists.
        rows = rows_of(period, charges, book)
        while batch := list(islice(rows, BATCH_ROWS)):
            ChargeRow.objects.bulk_create(batch)
            digest.add(batch)
        digest.add_adjustments(adjustments_in(organization.pk, period.month))
        period.row_count, period.digest = digest.row_count, digest.hexdigest()
        period.save(force_insert=True)
        record(
            action="period.closed",
            subject_kind="period",
            subject_id=period.pk,
            now=now,
            actor_id=actor.user.pk,
            actor=actor.user.login,
            organization_id=organization.pk,
            detail={"month": name, "digest": period.digest, "reason": period.reason},
            request_id=current_request_id(),
        )
        publish("reports", organization_id=organization.pk, audience=COSTS)
    return period


def _corrected_months(organization: Node) -> list[Month]:
    """Return the months that a closing rates anew, in their order.

    They are the last 12 closed ones, and all since the earliest use with news since the last
    closing. So use before the first closed month is charged, too.
    """
    closed = list(BillingPeriod.objects.filter(organization=organization).order_by("start"))
    if not closed:
        return []
    recent = closed[-CORRECTED_MONTHS_MAX:]
    late = first_late_use(organization.pk, closed[-1].closed_at - LATE_COMMIT, recent[0].start)
    if late is None:
        return [month_of(period) for period in recent]
    months = [month_of(period) for period in closed if period.end > late]
    zone = ZoneInfo(closed[0].time_zone)
    first, before = late.astimezone(zone).date().replace(day=1), list[Month]()
    while first < closed[0].month:
        before.append(month_in(first, zone))
        first = next_month(first)
    return before + months


def _check(view: MonthView, reason: str, now: datetime) -> None:
    name = view.month.name
    if view.state is PeriodState.CLOSED:
        raise Conflict(f"{name} is closed already, and stays as it is.")
    if view.state is PeriodState.GRACE:
        until = view.month.end + GRACE
        raise Conflict(f"{name} may still change. Close it from {until:%Y-%m-%d %H:%M} UTC on.")
    if view.state is PeriodState.OPEN:
        if view.month.end > now:
            raise Conflict(f"{name} is not over. Close it 72 hours after its end.")
        raise Conflict(f"A month before {name} is not closed. Close that one first.")
    if view.unconfirmed and not reason:
        first = view.unconfirmed[0]
        raise Conflict(
            f"{len(view.unconfirmed)} days are not confirmed by their clusters, the first is "
            f"{first.day} of {first.cluster}. Acknowledge them, or give a reason.",
            unconfirmed=len(view.unconfirmed),
        )


def _closed_view(organization: Node, period: BillingPeriod) -> MonthView:
    return MonthView(organization, month_of(period), PeriodState.CLOSED, (), period)


def _view(organization: Node, month: Month, *, is_first: bool, now: datetime) -> MonthView:
    if now < month.end:
        state = PeriodState.OPEN
    elif now < month.end + GRACE:
        state = PeriodState.GRACE
    else:
        state = PeriodState.DUE if is_first else PeriodState.OPEN
    until = min(month.end, now)
    unconfirmed: list[UnconfirmedDay] = []
    for day in unconfirmed_days(organization.pk, month.start, until):
        if len(unconfirmed) == BLOCKERS_MAX:
            break
        unconfirmed.append(day)
    return MonthView(organization, month, state, tuple(unconfirmed), None)


def _next_month(organization: Node, last: BillingPeriod | None) -> Month | None:
    """Return the first month that is not closed; None before the first use and adjustment.

    It begins where the last closed one ended, also if the time zone was changed since.
    """
    zone = zone_of(organization.pk)
    if last is not None:
        month = month_in(next_month(last.month), zone)
        return Month(month.first, last.end, month.end, zone)
    used = UsageSegment.objects.filter(attempt__organization=organization)
    used_from: datetime | None = used.aggregate(first=Min("start"))["first"]
    firsts = [first_adjusted_month(organization.pk)]
    if used_from is not None:
        firsts.append(used_from.astimezone(zone).date().replace(day=1))
    known = [first for first in firsts if first is not None]
    return month_in(min(known), zone) if known else None


def _currency_of(organization: Node) -> str:
    card = RateCard.objects.filter(organization=organization).first()
    return "" if card is None else card.currency
