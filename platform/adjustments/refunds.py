"""Refunds of accepted disputes: booked at once, and taken back where their charges fall later.

A fault that is known late lowers a charge that was refunded already. The closing of a month then
takes the excess of the refund back, so that the charge is credited once.
"""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

from django.db.models import F, Q
from django.db.models.functions import Coalesce

from adjustments.disputed_charges import Excess, excess_refunds, used_month_of
from adjustments.models import (
    REASON_LENGTH_MAX,
    Adjustment,
    AdjustmentStatus,
    Dispute,
    DisputeStatus,
)
from adjustments.months import first_day_of, moment_in, open_month
from adjustments.rights import note_act
from bank.settling import zone_of
from primitives.days import midnight
from tenants.access import Actor
from tenants.models import Node


def refund(dispute: Dispute, amount_nano: int, *, actor: Actor, now: datetime) -> None:
    """Credit the amount in the month of the use, or as a correction in the next open one."""
    zone = zone_of(dispute.organization_id)
    used_in = used_month_of(dispute, zone) or first_day_of(now, zone)
    month = open_month(dispute.organization_id, used_in, now)
    reason = f"Refund of {dispute.subject}"
    _book(dispute, -amount_nano, used_in, month, reason, actor=actor, now=now)


def take_back_excess(
    organization: Node, since: date, month: date, zone: ZoneInfo, *, actor: Actor, now: datetime
) -> None:
    """Charge in `month` what was refunded above the charges of now.

    The use is from the months since `since` until `month`. The caller holds the lock of the
    organization, and closes the month.
    """
    rows = Dispute.objects.filter(
        Q(month__gte=since) | Q(attempt__segments__end__gt=midnight(since, zone)),
        organization=organization,
        status=DisputeStatus.ACCEPTED,
    )
    where = rows.values_list("team", Coalesce(F("pool"), F("attempt__pool"))).distinct()
    for team, pool in where.order_by():
        for excess in excess_refunds(team, pool, since, zone):
            if excess.used_in <= month:
                _take_back(excess, month, actor=actor, now=now)


def _take_back(excess: Excess, month: date, *, actor: Actor, now: datetime) -> None:
    dispute = excess.dispute
    reason = f"The charge fell after the refund of {dispute.subject}"
    _book(dispute, excess.amount_nano, excess.used_in, month, reason, actor=actor, now=now)
    note_act(
        "dispute.taken_back",
        dispute,
        {
            "subject": dispute.subject,
            "taken_back_nano": excess.amount_nano,
            "month": f"{month:%Y-%m}",
        },
        amount_nano=excess.amount_nano,
        deadline=None,
        actor=actor,
        now=now,
    )


def _book(
    dispute: Dispute,
    amount_nano: int,
    used_in: date,
    month: date,
    reason: str,
    *,
    actor: Actor,
    now: datetime,
) -> None:
    attempt = dispute.attempt
    now = now.replace(microsecond=0)
    Adjustment.objects.create(
        organization_id=dispute.organization_id,
        team=dispute.team,
        user_id=None if attempt is None else attempt.user_id,
        pool_id=dispute.pool_id if attempt is None else attempt.pool_id,
        dispute=dispute,
        is_correction=month != used_in,
        month=month,
        effective_at=moment_in(dispute.organization_id, month, now),
        amount_nano=amount_nano,
        currency=dispute.currency,
        reason=reason[:REASON_LENGTH_MAX],
        status=AdjustmentStatus.DONE,
        asked_by=actor.user,
        asked_at=now,
        decided_at=now,
    )
