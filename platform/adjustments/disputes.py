"""Disputes about the charge of an attempt or of a row of a month's report, and their refunds.

A refund is a negative adjustment that names its dispute. It counts in the month of the use, or as a
correction in the next open month if that one is closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from adjustments.adjusting import lock_organization, refuse_without_note
from adjustments.disputed_charges import charge_nano_of
from adjustments.models import Dispute, DisputeStatus
from adjustments.months import past_month
from adjustments.refunds import refund
from adjustments.rights import currency_of, may_decide, note_act, require_finance
from billing.models import MeteredAttempt
from clusters.models import Pool
from primitives.currencies import money_text
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest
from tenants.access import Actor, get_visible, visible
from tenants.models import Node, NodeKind
from tenants.roles import Permission

#: The most open disputes of one organization.
OPEN_MAX = 1_000


@dataclass(frozen=True, slots=True)
class DisputedRow:
    """The charge of a team for a pool in a month such as "2026-11"."""

    team: Node
    pool: Pool
    month: str


def visible_disputes(actor: Actor) -> QuerySet[Dispute]:
    """Return the disputes of teams whose costs the actor may see, and the actor's own ones."""
    rows = Dispute.objects.select_related(
        "organization", "team", "attempt", "pool", "asked_by", "decided_by"
    )
    return visible(
        actor, rows, Permission.VIEW_COSTS, path_field="team__path", own=Q(asked_by=actor.user)
    )


def disputable_attempt(actor: Actor, attempt_id: UUID) -> MeteredAttempt:
    """Return an attempt whose charge the actor may dispute: a person's own, or of a managed team.

    Raises NotFound for other attempts.
    """
    rows = MeteredAttempt.objects.select_related("team", "organization", "user")
    return get_visible(
        actor,
        rows,
        Permission.MANAGE_JOBS,
        path_field="team__path",
        pk=attempt_id,
        own=Q(user=actor.user),
    )


@transaction.atomic
def open_dispute(attempt_id: UUID, reason: str, *, actor: Actor, now: datetime) -> Dispute:
    """Dispute the charge of an attempt that has ended.

    Raises NotFound, and Conflict while it runs, where it costs nothing, and where it is disputed or
    refunded already.
    """
    attempt = disputable_attempt(actor, attempt_id)
    dispute = Dispute(organization=attempt.organization, team=attempt.team, attempt=attempt)
    return _open(dispute, reason, actor=actor, now=now)


@transaction.atomic
def open_row_dispute(row: DisputedRow, reason: str, *, actor: Actor, now: datetime) -> Dispute:
    """Dispute what a team was charged for a pool in a month that is over.

    Raises InvalidRequest for another month. Raises Forbidden without the rights to manage the
    team's jobs and to see its costs. Raises Conflict where it costs nothing, and where it is
    disputed or refunded already.
    """
    if row.team.kind != NodeKind.TEAM:
        raise InvalidRequest(
            f"{row.team.display_path} is no team, and only teams are charged.",
            errors=[FieldError("/team", "is no team")],
        )
    if not actor.holds(Permission.MANAGE_JOBS, row.team.path):
        raise Forbidden(
            f"Only people who manage the jobs of {row.team.display_path} dispute its charges.",
            permission=Permission.MANAGE_JOBS.value,
        )
    if not actor.holds(Permission.VIEW_COSTS, row.team.path):
        raise Forbidden(
            f"Only people and tokens that see the costs of {row.team.display_path} dispute what it "
            "was charged in a month.",
            permission=Permission.VIEW_COSTS.value,
        )
    month = past_month(row.team.organization_id, row.month, now)
    dispute = Dispute(
        organization_id=row.team.organization_id, team=row.team, pool=row.pool, month=month
    )
    return _open(dispute, reason, actor=actor, now=now)


def _open(dispute: Dispute, reason: str, *, actor: Actor, now: datetime) -> Dispute:
    organization = lock_organization(dispute.organization_id)
    known = Dispute.objects.filter(
        team=dispute.team,
        attempt=dispute.attempt,
        pool=dispute.pool,
        month=dispute.month,
        status__in=(DisputeStatus.OPEN, DisputeStatus.ACCEPTED),
    ).first()
    if known is not None:
        is_open = known.status == DisputeStatus.OPEN
        raise Conflict(
            "A dispute about this charge is open already. Wait for its decision."
            if is_open
            else "This charge was refunded already, and a charge is refunded once."
        )
    dispute.charged_nano = charge_nano_of(dispute)
    if dispute.charged_nano == 0:
        raise Conflict(
            "There is no charge to dispute: the attempt still runs, or its use costs nothing."
            if dispute.month is None
            else f"There is no charge to dispute: {dispute.team.display_path} was charged nothing "
            f"in {dispute.month:%Y-%m} there, or all of it was refunded."
        )
    if _open_disputes(organization.pk).count() >= OPEN_MAX:
        raise Conflict(f"{OPEN_MAX} disputes are open already. Finance decides some of them first.")
    dispute.currency, dispute.reason = currency_of(organization), reason
    dispute.status = DisputeStatus.OPEN
    dispute.asked_by, dispute.asked_at = actor.user, now.replace(microsecond=0)
    dispute.save(force_insert=True)
    _note(dispute, "opened", actor=actor, now=now)
    return dispute


def _open_disputes(organization_id: UUID) -> QuerySet[Dispute]:
    return Dispute.objects.filter(organization=organization_id, status=DisputeStatus.OPEN)


def may_be_decided_by(actor: Actor, dispute: Dispute) -> bool:
    """Return whether the actor may accept or decline the dispute, were it open."""
    return actor.user.pk != dispute.asked_by_id and may_decide(actor, dispute.organization)


@transaction.atomic
def accept_dispute(
    dispute_id: UUID, refund_nano: int | None, *, note: str, actor: Actor, now: datetime
) -> Dispute:
    """Refund the charge, in full or in part, by an adjustment. Repeating it changes nothing.

    Raises NotFound, Forbidden, InvalidRequest for a refund above the disputed charge, and Conflict
    where the dispute is not open or the charge has become less than the refund.
    """
    dispute = _locked(dispute_id, actor)
    _refuse_first_person(dispute, actor)
    amount = dispute.charged_nano if refund_nano is None else refund_nano
    if (dispute.status, dispute.decided_by_id, dispute.refund_nano) == (
        DisputeStatus.ACCEPTED,
        actor.user.pk,
        amount,
    ):
        return dispute
    _refuse_decided(dispute)
    if not 0 < amount <= dispute.charged_nano:
        raise InvalidRequest(
            "Refund more than 0, and at most the charge.",
            errors=[FieldError("/refund_nano", "is not between 0 and the charge")],
        )
    _refuse_above_present_charge(dispute, amount)
    now = now.replace(microsecond=0)
    dispute.refund_nano = amount
    _decide(dispute, DisputeStatus.ACCEPTED, note=note, actor=actor, now=now)
    refund(dispute, amount, actor=actor, now=now)
    return dispute


@transaction.atomic
def decline_dispute(dispute_id: UUID, *, note: str, actor: Actor, now: datetime) -> Dispute:
    """Decline a dispute with a note, or withdraw one's own. Repeating it changes nothing.

    Raises NotFound, Forbidden, InvalidRequest without a note, and Conflict where it is not open.
    """
    dispute = _locked(dispute_id, actor)
    is_own = dispute.asked_by_id == actor.user.pk
    if not is_own:
        _refuse_first_person(dispute, actor)
        refuse_without_note(note)
    status = DisputeStatus.WITHDRAWN if is_own else DisputeStatus.DECLINED
    if dispute.status == status and dispute.decided_by_id == actor.user.pk:
        return dispute
    _refuse_decided(dispute)
    _decide(dispute, status, note=note, actor=actor, now=now.replace(microsecond=0))
    return dispute


def _refuse_first_person(dispute: Dispute, actor: Actor) -> None:
    require_finance(actor, dispute.organization)
    if dispute.asked_by_id == actor.user.pk:
        raise Forbidden("You opened this dispute, so another person with finance rights decides.")


def _refuse_decided(dispute: Dispute) -> None:
    if dispute.status != DisputeStatus.OPEN:
        raise Conflict(f"This dispute is {dispute.status} already, and is decided once.")


def _refuse_above_present_charge(dispute: Dispute, amount_nano: int) -> None:
    """Raise Conflict for a refund above the charge of now: a fault may have lowered it."""
    present_nano = charge_nano_of(dispute)
    if amount_nano > present_nano:
        shown = money_text(present_nano, dispute.currency)
        raise Conflict(
            f"The charge is now {shown} {dispute.currency}. Refund at most that, or decline.",
            present_nano=present_nano,
        )


def _decide(
    dispute: Dispute, status: DisputeStatus, *, note: str, actor: Actor, now: datetime
) -> None:
    dispute.status, dispute.note = status, note
    dispute.decided_by, dispute.decided_at = actor.user, now
    dispute.save(update_fields=["status", "note", "decided_by", "decided_at", "refund_nano"])
    _note(dispute, status.value, actor=actor, now=now)


def _locked(dispute_id: UUID, actor: Actor) -> Dispute:
    """Lock a visible dispute and its organization, as a closing does. Raises NotFound."""
    found = visible_disputes(actor).filter(pk=dispute_id)
    known = get_visible(
        actor,
        Dispute.objects.all(),
        Permission.VIEW_COSTS,
        path_field="team__path",
        pk=dispute_id,
        own=Q(asked_by=actor.user),
    )
    lock_organization(known.organization_id)
    return found.select_for_update(of=("self",)).get()


def _note(dispute: Dispute, act: str, *, actor: Actor, now: datetime) -> None:
    note_act(
        f"dispute.{act}",
        dispute,
        {
            "subject": dispute.subject,
            "job": None if dispute.attempt is None else str(dispute.attempt.job_id),
            "charged_nano": dispute.charged_nano,
            "refund_nano": dispute.refund_nano,
            "reason": dispute.reason,
            "note": dispute.note,
        },
        amount_nano=dispute.charged_nano,
        deadline=None,
        actor=actor,
        now=now,
    )
