"""Adjustments: asked for, approved by a second person above the threshold, and counted.

An adjustment is a charge (above 0) or a credit (below 0) of a month that is not closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Min, QuerySet, Sum
from django.db.models.functions import Abs

from adjustments.models import (
    AMOUNT_MAX_NANO,
    Adjustment,
    AdjustmentStatus,
)
from adjustments.months import is_closed, moment_in, wanted_month
from adjustments.rights import currency_of, may_decide, note_act, require_finance
from adjustments.thresholds import policy_of, threshold_nano_for
from clusters.models import Pool
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest
from tenants.access import Actor, get_visible, visible
from tenants.models import Node, NodeKind, User
from tenants.roles import Permission

#: A pending adjustment expires after this time.
EXPIRES_AFTER = timedelta(days=7)
#: The most pending adjustments of one organization.
PENDING_MAX = 100
#: The most expired adjustments that one call closes.
EXPIRED_MAX = 500
#: Rows of a stream that are in memory at once.
_BATCH = 2_000
_COUNTED = (AdjustmentStatus.DONE, AdjustmentStatus.APPROVED)


@dataclass(frozen=True, slots=True)
class NewAdjustment:
    """An adjustment that a person asks for. `month` is such as "2026-11", or None for now."""

    team: Node
    user: User | None
    pool: Pool | None
    amount_nano: int
    month: str | None
    reason: str


def adjustments_between(
    organization_id: UUID, start: datetime, end: datetime
) -> Iterator[Adjustment]:
    """Yield the adjustments that count in `[start, end)`, by moment and id."""
    rows = _counted(organization_id).filter(effective_at__gte=start, effective_at__lt=end)
    yield from rows.iterator(chunk_size=_BATCH)


def adjustments_in(organization_id: UUID, month: date) -> Iterator[Adjustment]:
    """Yield the adjustments that count in the month that begins on `month`, by moment and id.

    Adjustments of a closed month never change.
    """
    yield from _counted(organization_id).filter(month=month).iterator(chunk_size=_BATCH)


def first_adjusted_month(organization_id: UUID) -> date | None:
    """Return the first month in which an adjustment counts; None without any."""
    first: date | None = _counted(organization_id).aggregate(first=Min("month"))["first"]
    return first


def _counted(organization_id: UUID) -> QuerySet[Adjustment]:
    rows = Adjustment.objects.filter(organization=organization_id, status__in=_COUNTED)
    related = rows.select_related("team", "user", "pool", "dispute__attempt")
    return related.order_by("effective_at", "pk")


def visible_adjustments(actor: Actor) -> QuerySet[Adjustment]:
    """Return the adjustments of the teams whose costs the actor may see."""
    rows = Adjustment.objects.select_related(
        "organization", "team", "user", "pool", "asked_by", "decided_by", "dispute__attempt"
    )
    return visible(actor, rows, Permission.VIEW_COSTS, path_field="team__path")


@transaction.atomic
def ask_for_adjustment(asked: NewAdjustment, *, actor: Actor, now: datetime) -> Adjustment:
    """Adjust a team's charges at once up to the threshold, or ask for a second person above it.

    The threshold is that of all charges and credits that the person made alone for the team and
    month, without regard to their signs.
    Raises InvalidRequest, Forbidden without finance rights, and Conflict without a rate card, for a
    closed month, and for too many pending ones.
    """
    organization = lock_organization(asked.team.organization_id)
    require_finance(actor, organization)
    _refuse_odd(asked)
    now = now.replace(microsecond=0)
    month = wanted_month(organization.pk, asked.month, now)
    adjustment = Adjustment(
        organization=organization,
        team=asked.team,
        user=asked.user,
        pool=asked.pool,
        month=month,
        effective_at=moment_in(organization.pk, month, now),
        amount_nano=asked.amount_nano,
        currency=currency_of(organization),
        reason=asked.reason,
        asked_by=actor.user,
        asked_at=now,
    )
    alone_nano = abs(asked.amount_nano) + _adjusted_alone_nano(adjustment)
    if alone_nano <= threshold_nano_for(actor.user, policy_of(organization)):
        adjustment.status, adjustment.decided_at = AdjustmentStatus.DONE, now
    else:
        pending = Adjustment.objects.filter(
            organization=organization, status=AdjustmentStatus.PENDING
        )
        if pending.count() >= PENDING_MAX:
            raise Conflict(
                f"{PENDING_MAX} adjustments wait for a second person already. Decide some of them "
                "first."
            )
        adjustment.status = AdjustmentStatus.PENDING
        adjustment.expires_at = now + EXPIRES_AFTER
    adjustment.save(force_insert=True)
    is_done = adjustment.status == AdjustmentStatus.DONE
    _note(adjustment, "done" if is_done else "asked", actor=actor, now=now)
    return adjustment


def _adjusted_alone_nano(asked: Adjustment) -> int:
    """Return what the same person adjusted alone for the team and month, charges plus credits."""
    rows = Adjustment.objects.filter(
        organization=asked.organization,
        team=asked.team,
        month=asked.month,
        asked_by=asked.asked_by,
        status=AdjustmentStatus.DONE,
        dispute=None,
    )
    return int(rows.aggregate(sum_nano=Sum(Abs("amount_nano"), default=0))["sum_nano"])


def named_person(team: Node, login: str) -> User:
    """Return the person of the team's organization with this login. Raises InvalidRequest."""
    user = User.objects.filter(organization=team.organization_id, login=login).first()
    if user is None:
        raise InvalidRequest(
            f"Nobody of the organization has the login {login}.",
            errors=[FieldError("/user", "is not known")],
        )
    return user


def may_approve(actor: Actor, adjustment: Adjustment) -> bool:
    """Return whether the actor may approve or reject the adjustment, were it pending."""
    return actor.user.pk != adjustment.asked_by_id and may_decide(actor, adjustment.organization)


@transaction.atomic
def approve_adjustment(
    adjustment_id: UUID, *, note: str, actor: Actor, now: datetime
) -> Adjustment:
    """Approve a pending adjustment. Repeating it changes nothing.

    Raises NotFound, Forbidden for the person who asked and without finance rights, and Conflict
    where it is not pending or its month is closed by now.
    """
    adjustment = _locked(adjustment_id, actor)
    _refuse_first_person(adjustment, actor)
    if adjustment.status == AdjustmentStatus.APPROVED and adjustment.decided_by_id == actor.user.pk:
        return adjustment
    _refuse_decided(adjustment, now)
    if is_closed(adjustment.organization_id, adjustment.month):
        raise Conflict(
            f"The month {adjustment.month:%Y-%m} is closed by now and never changes. Reject the "
            "adjustment, and ask for one in an open month."
        )
    _decide(adjustment, AdjustmentStatus.APPROVED, note=note, actor=actor, now=now)
    return adjustment


@transaction.atomic
def reject_adjustment(adjustment_id: UUID, *, note: str, actor: Actor, now: datetime) -> Adjustment:
    """Reject a pending adjustment with a note, or withdraw one's own. Repeating changes nothing.

    Raises NotFound, Forbidden, InvalidRequest without a note, and Conflict where it is not pending.
    """
    adjustment = _locked(adjustment_id, actor)
    is_own = adjustment.asked_by_id == actor.user.pk
    if not is_own:
        _refuse_first_person(adjustment, actor)
        refuse_without_note(note)
    status = AdjustmentStatus.WITHDRAWN if is_own else AdjustmentStatus.REJECTED
    if adjustment.status == status and adjustment.decided_by_id == actor.user.pk:
        return adjustment
    _refuse_decided(adjustment, now)
    _decide(adjustment, status, note=note, actor=actor, now=now)
    return adjustment


def expire_adjustments(now: datetime) -> int:
    """Close pending adjustments that expired by `now`; return how many, at most `EXPIRED_MAX`."""
    due = Adjustment.objects.filter(status=AdjustmentStatus.PENDING, expires_at__lte=now)
    ids = list(due.order_by("expires_at", "pk").values_list("pk", flat=True)[:EXPIRED_MAX])
    return sum(_expire(adjustment_id, now) for adjustment_id in ids)


@transaction.atomic
def _expire(adjustment_id: UUID, now: datetime) -> int:
    adjustment = _lock(adjustment_id)
    if adjustment.status != AdjustmentStatus.PENDING:
        return 0
    adjustment.status, adjustment.decided_at = AdjustmentStatus.EXPIRED, now
    adjustment.save(update_fields=["status", "decided_at"])
    _note(adjustment, "expired", actor=None, now=now)
    return 1


# -- refusals and rows ----------------------------------------------------------------------


def refuse_without_note(note: str) -> None:
    """Raise InvalidRequest where a decision against a person's request says no reason."""
    if not note.strip():
        raise InvalidRequest(
            "Say in note why you decide so: the person who asked reads that.",
            errors=[FieldError("/note", "is needed")],
        )


def lock_organization(organization_id: UUID) -> Node:
    """Lock the organization, as the closing of a month does, so that neither misses the other."""
    return Node.objects.select_for_update(no_key=True).get(pk=organization_id)


def _refuse_odd(asked: NewAdjustment) -> None:
    if asked.team.kind != NodeKind.TEAM:
        raise InvalidRequest(
            f"{asked.team.display_path} is no team, and only teams are charged.",
            errors=[FieldError("/team", "is no team")],
        )
    if asked.amount_nano == 0 or abs(asked.amount_nano) > AMOUNT_MAX_NANO:
        raise InvalidRequest(
            "Give an amount above 0 for a charge, or below 0 for a credit.",
            errors=[FieldError("/amount_nano", "is 0 or too large")],
        )


def _refuse_first_person(adjustment: Adjustment, actor: Actor) -> None:
    require_finance(actor, adjustment.organization)
    if adjustment.asked_by_id == actor.user.pk:
        raise Forbidden(
            "You asked for this adjustment, so another person with finance rights decides."
        )


def _refuse_decided(adjustment: Adjustment, now: datetime) -> None:
    is_over = adjustment.expires_at is not None and adjustment.expires_at <= now
    if adjustment.status != AdjustmentStatus.PENDING or is_over:
        status = "expired" if adjustment.status == AdjustmentStatus.PENDING else adjustment.status
        raise Conflict(f"This adjustment is {status} and waits for nobody. Ask for a new one.")


def _decide(
    adjustment: Adjustment, status: AdjustmentStatus, *, note: str, actor: Actor, now: datetime
) -> None:
    now = now.replace(microsecond=0)
    adjustment.status, adjustment.note = status, note
    adjustment.decided_by, adjustment.decided_at = actor.user, now
    adjustment.save(update_fields=["status", "note", "decided_by", "decided_at"])
    _note(adjustment, status.value, actor=actor, now=now)


def _locked(adjustment_id: UUID, actor: Actor) -> Adjustment:
    """Lock a visible adjustment and its organization. Raises NotFound."""
    get_visible(
        actor,
        Adjustment.objects.all(),
        Permission.VIEW_COSTS,
        path_field="team__path",
        pk=adjustment_id,
    )
    return _lock(adjustment_id)


def _lock(adjustment_id: UUID) -> Adjustment:
    """Lock the organization first, as a closing does."""
    found = Adjustment.objects.values_list("organization_id", flat=True)
    lock_organization(found.get(pk=adjustment_id))
    rows = Adjustment.objects.select_related(
        "organization", "team", "user", "pool", "asked_by", "decided_by", "dispute"
    )
    return rows.select_for_update(of=("self",)).get(pk=adjustment_id)


def _note(adjustment: Adjustment, act: str, *, actor: Actor | None, now: datetime) -> None:
    note_act(
        f"adjustment.{act}",
        adjustment,
        {
            "amount_nano": adjustment.amount_nano,
            "month": f"{adjustment.month:%Y-%m}",
            "reason": adjustment.reason,
            "note": adjustment.note,
        },
        amount_nano=adjustment.amount_nano,
        deadline=adjustment.expires_at,
        actor=actor,
        now=now,
    )
