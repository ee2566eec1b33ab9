"""The switch of an organization's credit bank."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from django.db import transaction

from audit.recording import record
from bank.models import CreditBank, CreditPool
from bank.settling import first_boundary, settle_rest
from live.publishing import publish
from quotas.policies import set_given, visible_organization
from tenants.access import Actor, require
from tenants.models import Node
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale


class BankEdit(TypedDict, total=False):
    """The settings to change; see `models.CreditBank`."""

    is_on: bool
    cap_s: int


def bank_of(actor: Actor, organization_id: UUID) -> CreditBank:
    """Return the organization's bank, or one that is off if none is stored.

    Raises NotFound for an invisible organization.
    """
    organization = visible_organization(actor, organization_id)
    found = CreditBank.objects.filter(organization=organization).first()
    return found or CreditBank(organization=organization, switched_at=organization.created_at)


@transaction.atomic
def change_bank(
    organization_id: UUID, edit: BankEdit, *, actor: Actor, if_version: int, now: datetime
) -> CreditBank:
    """Change the settings in `edit`, based on the version that the actor has seen.

    Use before the switch is never settled. Raises NotFound for an invisible organization, Forbidden
    without the right to manage its quotas, and PreconditionFailed unless `if_version` is current.
    """
    organization = visible_organization(actor, organization_id)
    require(actor, Permission.MANAGE_QUOTA, organization)
    bank = _locked(organization, now)
    refuse_stale(if_version, bank.version, body=None)
    set_bank(bank, edit, actor=actor, now=now)
    return bank


@transaction.atomic
def switch_on(organization: Node, *, actor: Actor, now: datetime) -> None:
    """Switch the bank on, whatever its version. The caller has checked the rights."""
    set_bank(_locked(organization, now), {"is_on": True}, actor=actor, now=now)


def set_bank(bank: CreditBank, edit: BankEdit, *, actor: Actor, now: datetime) -> None:
    """Store `edit` in a locked bank, with its audit event. Must run in a transaction."""
    was_on = bank.is_on
    if edit.get("is_on") and not was_on:
        settle_rest(bank, now)
    if not set_given(bank, edit):
        return
    bank.version += 1
    if bank.is_on != was_on:
        bank.switched_at = now
    bank.save()
    if bank.is_on and not was_on:
        # Nothing is posted for the time in which the bank was off.
        begin = first_boundary(now)
        CreditPool.objects.filter(organization=bank.organization_id).update(
            settled_since=begin, settled_until=begin
        )
    record(
        action="credit_bank.changed",
        subject_kind="credit_bank",
        subject_id=bank.organization_id,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=bank.organization_id,
        node_path=bank.organization.path,
        detail=dict(edit),
        request_id=current_request_id(),
    )
    publish("quotas", organization_id=bank.organization_id, wake="arbiter")


def _locked(organization: Node, now: datetime) -> CreditBank:
    CreditBank.objects.get_or_create(organization=organization, defaults={"switched_at": now})
    locked = CreditBank.objects.select_for_update().select_related("organization")
    return locked.get(organization=organization)
