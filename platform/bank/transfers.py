"""Transfers of credits between teams of an organization (R-96).

Inside a department its administrator transfers at once. Across departments a transfer holds the
credits until a second person approves it. The oldest credits move first, and keep their expiry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from django.db import transaction
from django.db.models import QuerySet

from audit.recording import record as record_event
from bank.amounts import hours_text
from bank.models import CreditBank, CreditPool, CreditTransfer, TransferStatus
from bank.settling import TEAM, lots_of, store_lots
from clusters.models import Pool
from credits.settlement import Account, TransferKind, move
from ledger.accounts import open_account
from ledger.models import Account as LedgerAccount
from ledger.models import TransferState
from ledger.transfers import NewTransfer, find_transfers, is_pending, record, resolution_of
from live.publishing import publish
from notices.second_person import Request, tell_deciders, tell_requester
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest
from quotas.models import Quota
from tenants.access import Actor, get_visible, require, visible
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: A pending transfer expires after this time.
EXPIRES_AFTER = timedelta(days=7)
#: The most pending transfers of one organization in one pool.
PENDING_MAX = 100
#: The most expired transfers that one call closes.
EXPIRED_MAX = 500
_KEYS = UUID("0b6a2c7e-6f1d-5b36-9b0f-8f5e6d2a4c19")


@dataclass(frozen=True, slots=True)
class NewCredits:
    """A transfer that a person asks for. `amount` is in millionths of a GPU-second."""

    sender: Node
    recipient: Node
    pool: Pool
    amount: int
    reason: str


@transaction.atomic
def transfer_credits(asked: NewCredits, *, actor: Actor, now: datetime) -> CreditTransfer:
    """Transfer credits at once inside a department, or ask for approval across departments.

    The actor administers the common department, or else the department of the sender. Raises
    InvalidRequest, Forbidden, and Conflict where the sender has too little, the recipient would
    exceed its cap, or the bank is off.
    """
    _refuse_odd_teams(asked)
    common = _common_node(asked.sender, asked.recipient)
    is_immediate = common.kind == NodeKind.DEPARTMENT and actor.holds(
        Permission.MANAGE_QUOTA, common.path
    )
    assert asked.sender.parent is not None
    if not is_immediate:
        require(actor, Permission.MANAGE_QUOTA, asked.sender.parent)
    credit_pool = _locked_pool(asked.sender.organization, asked.pool)
    accounts = _accounts_of(credit_pool, asked.sender, asked.recipient)
    _refuse_too_much(credit_pool, asked, accounts)
    now = now.replace(microsecond=0)
    transfer = CreditTransfer(
        credit_pool=credit_pool,
        sender=asked.sender,
        recipient=asked.recipient,
        amount=asked.amount,
        reason=asked.reason,
        asked_by=actor.user,
        asked_at=now,
    )
    if is_immediate:
        transfer.status, transfer.decided_at = TransferStatus.DONE, now
        _post(transfer, accounts, now)
    else:
        pending = CreditTransfer.objects.filter(
            credit_pool=credit_pool, status=TransferStatus.PENDING
        )
        if pending.count() >= PENDING_MAX:
            raise Conflict(
                f"{PENDING_MAX} transfers of pool {asked.pool.name} wait for approval already. "
                "Decide some of them first."
            )
        transfer.status, transfer.expires_at = TransferStatus.PENDING, now + EXPIRES_AFTER
        record([_new_transfer(transfer, accounts, now)], now=now)
    transfer.save(force_insert=True)
    _note(transfer, "done" if is_immediate else "asked", actor=actor, now=now)
    return transfer


def visible_transfers(actor: Actor) -> QuerySet[CreditTransfer]:
    """Return the transfers of the organizations whose tree the actor may see."""
    rows = CreditTransfer.objects.select_related(
        "credit_pool__pool", "sender", "recipient", "asked_by", "decided_by", "recipient__parent"
    )
    return visible(actor, rows, Permission.VIEW_TREE, path_field="sender__path")


def may_approve(actor: Actor, transfer: CreditTransfer) -> bool:
    """Return whether the actor may approve or reject the transfer, were it pending.

    The actor administers the recipient's department, or the organization, and did not ask.
    """
    assert transfer.recipient.parent is not None
    return actor.user.pk != transfer.asked_by_id and actor.holds(
        Permission.MANAGE_QUOTA, transfer.recipient.parent.path
    )


@transaction.atomic
def approve_transfer(
    transfer_id: UUID, *, note: str, actor: Actor, now: datetime
) -> CreditTransfer:
    """Carry out a pending transfer. Repeating it changes nothing.

    Raises NotFound and Forbidden. Raises Conflict where it is not pending, where the sender has too
    little by now, or where the recipient is archived by now or would exceed its cap.
    """
    transfer = _locked_transfer(transfer_id, actor)
    _refuse_first_person(transfer, actor)
    if transfer.status == TransferStatus.APPROVED and transfer.decided_by_id == actor.user.pk:
        return transfer
    _refuse_decided(transfer, now)
    asked = NewCredits(
        transfer.sender,
        transfer.recipient,
        transfer.credit_pool.pool,
        transfer.amount,
        transfer.reason,
    )
    if transfer.recipient.archived_at is not None:
        raise Conflict(
            f"{transfer.recipient.display_path} is archived by now and receives no credits. Reject "
            "the transfer, so that its credits are free again."
        )
    accounts = _accounts_of(transfer.credit_pool, transfer.sender, transfer.recipient)
    _refuse_too_much(transfer.credit_pool, asked, accounts, pending=transfer.amount)
    now = now.replace(microsecond=0)
    _decide(transfer, TransferStatus.APPROVED, note=note, actor=actor, now=now)
    _post(transfer, accounts, now)
    _note(transfer, "approved", actor=actor, now=now)
    return transfer


@transaction.atomic
def reject_transfer(transfer_id: UUID, *, note: str, actor: Actor, now: datetime) -> CreditTransfer:
    """Reject a pending transfer with a note, or withdraw one's own. Repeating changes nothing.

    Raises NotFound, Forbidden, InvalidRequest without a note, and Conflict where it is not pending.
    """
    transfer = _locked_transfer(transfer_id, actor)
    is_own = transfer.asked_by_id == actor.user.pk
    if not is_own:
        _refuse_first_person(transfer, actor)
        if not note.strip():
            raise InvalidRequest(
                "Say in note why you reject it: the person who asked reads that.",
                errors=[FieldError("/note", "is needed")],
            )
    status = TransferStatus.WITHDRAWN if is_own else TransferStatus.REJECTED
    if transfer.status == status and transfer.decided_by_id == actor.user.pk:
        return transfer
    _refuse_decided(transfer, now)
    now = now.replace(microsecond=0)
    _decide(transfer, status, note=note, actor=actor, now=now)
    _release(transfer, now)
    _note(transfer, status.value, actor=actor, now=now)
    return transfer


def expire_transfers(now: datetime) -> int:
    """Close pending transfers that expired by `now`; return how many. At most `EXPIRED_MAX`."""
    now = now.replace(microsecond=0)
    due = CreditTransfer.objects.filter(status=TransferStatus.PENDING, expires_at__lte=now)
    ids = list(due.order_by("expires_at", "pk").values_list("pk", flat=True)[:EXPIRED_MAX])
    return sum(_expire(transfer_id, now) for transfer_id in ids)


@transaction.atomic
def _expire(transfer_id: UUID, now: datetime) -> int:
    transfer = _lock(transfer_id)
    if transfer.status != TransferStatus.PENDING:
        return 0
    transfer.status, transfer.decided_at = TransferStatus.EXPIRED, now
    transfer.save(update_fields=["status", "decided_at"])
    _release(transfer, now)
    _note(transfer, "expired", actor=None, now=now)
    return 1


# -- refusals -------------------------------------------------------------------------------


def _refuse_odd_teams(asked: NewCredits) -> None:
    sender, recipient = asked.sender, asked.recipient
    for name, node in (("sender", sender), ("recipient", recipient)):
        if node.kind != NodeKind.TEAM:
            raise InvalidRequest(
                f"{node.display_path} is no team, and only teams have credits.",
                errors=[FieldError(f"/{name}", "is no team")],
            )
    if sender.pk == recipient.pk or sender.organization_id != recipient.organization_id:
        raise InvalidRequest(
            "Credits move between two teams of one organization. Choose another recipient.",
            errors=[FieldError("/recipient", "must be another team of the organization")],
        )
    if recipient.archived_at is not None:
        raise InvalidRequest(
            f"{recipient.display_path} is archived and receives no credits. Ask for a transfer to "
            "another team.",
            errors=[FieldError("/recipient", "is archived")],
        )


def _refuse_too_much(
    credit_pool: CreditPool,
    asked: NewCredits,
    accounts: Mapping[UUID, LedgerAccount],
    *,
    pending: int = 0,
) -> None:
    """Refuse an amount beyond the sender's balance above 0, or beyond the recipient's cap.

    Pending transfers count as carried out. `pending` is the part of the transfer itself in them.
    """
    bank = _bank_of(asked.sender.organization)
    sender, recipient = asked.sender, asked.recipient
    room = max(0, accounts[sender.pk].available + pending)
    if asked.amount > room:
        raise Conflict(
            f"{sender.display_path} can transfer at most {hours_text(room)} GPU-hours of credits: "
            "only a balance above 0, less pending transfers. Lower the amount.",
            room=room,
        )
    quota = Quota.objects.filter(node=recipient, pool=asked.pool).first()
    guaranteed_mgpu = 0 if quota is None else quota.guaranteed_mgpu
    cap = bank.cap_s * guaranteed_mgpu * asked.pool.weight
    account = accounts[recipient.pk]
    room = max(0, cap - account.balance - account.pending_credits + pending)
    if asked.amount > room:
        raise Conflict(
            f"{recipient.display_path} can receive at most {hours_text(room)} GPU-hours of "
            f"credits: its cap is {hours_text(cap)}. Lower the amount.",
            room=room,
        )


def _refuse_first_person(transfer: CreditTransfer, actor: Actor) -> None:
    if transfer.asked_by_id == actor.user.pk:
        raise Forbidden(
            "You asked for this transfer, so another person decides. Ask an administrator of "
            f"{transfer.recipient.display_path} or of the organization."
        )
    assert transfer.recipient.parent is not None
    require(actor, Permission.MANAGE_QUOTA, transfer.recipient.parent)


def _refuse_decided(transfer: CreditTransfer, now: datetime) -> None:
    is_over = transfer.expires_at is not None and transfer.expires_at <= now
    if transfer.status != TransferStatus.PENDING or is_over:
        status = "expired" if transfer.status == TransferStatus.PENDING else transfer.status
        raise Conflict(f"This transfer is {status} and waits for nobody. Ask for a new one.")


# -- effects --------------------------------------------------------------------------------


def _post(transfer: CreditTransfer, accounts: Mapping[UUID, LedgerAccount], now: datetime) -> None:
    """Record the transfer in the ledger, and move its lots. The pool is locked."""
    recorded = find_transfers([transfer.pk]).get(transfer.pk)
    new = (
        _new_transfer(transfer, accounts, now)
        if recorded is None
        else resolution_of(
            recorded,
            key=uuid5(_KEYS, f"{transfer.pk} approved"),
            amount=transfer.amount,
            effective_at=now,
            reference=str(transfer.pk),
            reason=transfer.reason,
        )
    )
    record([new], now=now)
    lots = lots_of(transfer.credit_pool)
    sender, recipient = (
        Account(str(team), 0, accounts[team].balance, lots.get(str(team), ()))
        for team in (transfer.sender_id, transfer.recipient_id)
    )
    after = move(sender, recipient, transfer.amount)
    store_lots(transfer.credit_pool, lots, {one.team: one.earnings for one in after})


def _release(transfer: CreditTransfer, now: datetime) -> None:
    """Void the pending transfer in the ledger, unless the ledger has voided it by itself."""
    recorded = find_transfers([transfer.pk])[transfer.pk]
    if is_pending(recorded):
        key = uuid5(_KEYS, f"{transfer.pk} void")
        record([resolution_of(recorded, key=key, amount=None, effective_at=now)], now=now)


def _new_transfer(
    transfer: CreditTransfer, accounts: Mapping[UUID, LedgerAccount], now: datetime
) -> NewTransfer:
    is_pending = transfer.status == TransferStatus.PENDING
    return NewTransfer(
        key=transfer.pk,
        debit_id=accounts[transfer.sender_id].pk,
        credit_id=accounts[transfer.recipient_id].pk,
        amount=transfer.amount,
        code=TransferKind.TRANSFERRED.value,
        effective_at=now,
        state=TransferState.PENDING if is_pending else TransferState.POSTED,
        expires_at=transfer.expires_at,
        reference=str(transfer.pk),
        reason=transfer.reason,
    )


def _decide(
    transfer: CreditTransfer, status: TransferStatus, *, note: str, actor: Actor, now: datetime
) -> None:
    transfer.status, transfer.note = status, note
    transfer.decided_by, transfer.decided_at = actor.user, now
    transfer.save(update_fields=["status", "note", "decided_by", "decided_at"])


def _note(transfer: CreditTransfer, act: str, *, actor: Actor | None, now: datetime) -> None:
    """Count the change of balances, record the audit event, and give open pages a hint."""
    credit_pool = transfer.credit_pool
    credit_pool.epoch += 1
    credit_pool.save(update_fields=["epoch"])
    record_event(
        action=f"credit_transfer.{act}",
        subject_kind="credit_transfer",
        subject_id=transfer.pk,
        now=now,
        actor_id=None if actor is None else actor.user.pk,
        actor="system" if actor is None else actor.user.login,
        organization_id=credit_pool.organization_id,
        node_path=transfer.sender.path,
        detail={
            "pool": credit_pool.pool.name,
            "sender": transfer.sender.display_path,
            "recipient": transfer.recipient.display_path,
            "amount_ugpu_s": transfer.amount,
            "reason": transfer.reason,
            "note": transfer.note,
        },
        request_id=current_request_id(),
    )
    publish("quotas", organization_id=credit_pool.organization_id, wake="arbiter")
    request = Request(
        kind="credit_transfer",
        id=transfer.pk,
        called=f"The transfer of {hours_text(transfer.amount)} GPU-hours of credits from "
        f"{transfer.sender.display_path} to {transfer.recipient.display_path}",
        link=f"/credits?team={transfer.recipient.display_path}",
        asked_by_id=transfer.asked_by_id,
        node_path=transfer.recipient.path,
    )
    if act == "asked":
        assert transfer.recipient.parent is not None
        path = transfer.recipient.parent.path
        tell_deciders(request, Permission.MANAGE_QUOTA, path, at=now, deadline=transfer.expires_at)
    elif act != "done":
        by_id = None if actor is None else actor.user.pk
        tell_requester(request, act, transfer.note, by_id=by_id, at=now)


# -- rows -----------------------------------------------------------------------------------


def _common_node(one: Node, other: Node) -> Node:
    """Return the lowest node above both teams."""
    node = one
    while node.parent is not None:
        node = node.parent
        if other.path.startswith(node.path):
            break
    return node


def _locked_pool(organization: Node, pool: Pool) -> CreditPool:
    """Lock the credits of a pool, so that no settlement runs beside. Raises Conflict."""
    _bank_of(organization)
    locked = CreditPool.objects.select_for_update(of=("self",)).select_related("pool")
    credit_pool = locked.filter(organization=organization, pool=pool).first()
    if credit_pool is None:
        raise Conflict(f"Nobody has credits in pool {pool.name} yet. Wait for a settlement.")
    return credit_pool


def _bank_of(organization: Node) -> CreditBank:
    """Return the bank of the organization. Raises Conflict where it is off."""
    bank = CreditBank.objects.filter(organization=organization, is_on=True).first()
    if bank is None:
        raise Conflict(
            f"The credit bank of {organization.display_path} is off, so credits do not move. "
            "Switch it on first."
        )
    return bank


def _locked_transfer(transfer_id: UUID, actor: Actor) -> CreditTransfer:
    """Lock a visible transfer and the credits of its pool. Raises NotFound."""
    get_visible(
        actor,
        CreditTransfer.objects.all(),
        Permission.VIEW_TREE,
        path_field="sender__path",
        pk=transfer_id,
    )
    return _lock(transfer_id)


def _lock(transfer_id: UUID) -> CreditTransfer:
    """Lock the credits of the pool first, as a settlement and a new transfer do."""
    pool_id = CreditTransfer.objects.values_list("credit_pool_id", flat=True).get(pk=transfer_id)
    locked = CreditPool.objects.select_for_update(of=("self",)).select_related("pool")
    credit_pool = locked.get(pk=pool_id)
    rows = CreditTransfer.objects.select_related(
        "sender", "recipient__parent", "asked_by", "decided_by"
    )
    transfer = rows.select_for_update(of=("self",)).get(pk=transfer_id)
    transfer.credit_pool = credit_pool
    return transfer


def _accounts_of(credit_pool: CreditPool, *teams: Node) -> dict[UUID, LedgerAccount]:
    """Return the accounts of the teams, opened where they have none yet."""
    return {team.pk: open_account(credit_pool.ledger, str(team.pk), TEAM) for team in teams}
