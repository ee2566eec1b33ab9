"""Representations of transfers of credits. Amounts are millionths of a GPU-second."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from bank.models import CreditTransfer, TransferStatus
from bank.transfers import may_approve
from ledger.models import AMOUNT_MAX, REASON_LENGTH_MAX
from tenants.access import Actor
from webapi.serializers import StrictSerializer, TextField, UtcTimeField, WholeNumberField


class NewTransferSerializer(StrictSerializer):
    """A transfer to carry out, or to ask approval for."""

    sender = TextField(max_length=512, help_text="Path of the team that pays")
    recipient = TextField(max_length=512, help_text="Path of another team of the organization")
    pool = TextField(max_length=200, help_text="Name of the pool")
    amount_ugpu_s = WholeNumberField(
        min_value=1, max_value=AMOUNT_MAX, help_text="At most the sender's transferable credits"
    )
    reason = TextField(max_length=REASON_LENGTH_MAX, help_text="Why, for the statements of both")


class DecisionSerializer(StrictSerializer):
    """A decision about a transfer."""

    note = TextField(
        max_length=REASON_LENGTH_MAX,
        allow_blank=True,
        default="",
        help_text="Why. Required for rejecting another person's transfer",
    )


class CreditTransferSerializer(serializers.Serializer[Any]):
    """Credits that a person transferred from one team to another, or asked to."""

    id = serializers.UUIDField()
    pool = serializers.CharField(help_text="Name of the pool")
    sender = serializers.CharField(help_text="Path of the team that pays")
    recipient = serializers.CharField(help_text="Path of the team that is paid")
    amount_ugpu_s = serializers.IntegerField()
    reason = serializers.CharField()
    status = serializers.ChoiceField(choices=TransferStatus.choices)
    asked_by = serializers.CharField(help_text="Login of the person who asked")
    asked_at = UtcTimeField()
    expires_at = UtcTimeField(
        allow_null=True, help_text="When it expires by itself while it is pending"
    )
    decided_by = serializers.CharField(allow_null=True, help_text="Login of the second person")
    decided_at = UtcTimeField(allow_null=True)
    note = serializers.CharField(help_text="What that person says of the decision")
    may_approve = serializers.BooleanField(help_text="Whether you may approve or reject it")
    may_withdraw = serializers.BooleanField(help_text="Whether you asked for it")


def shown_transfer(transfer: CreditTransfer, *, actor: Actor) -> dict[str, Any]:
    """Return a transfer as `actor` may read it."""
    is_pending = transfer.status == TransferStatus.PENDING
    decided_by = transfer.decided_by
    return dict(
        CreditTransferSerializer(
            {
                "id": transfer.pk,
                "pool": transfer.credit_pool.pool.name,
                "sender": transfer.sender.display_path,
                "recipient": transfer.recipient.display_path,
                "amount_ugpu_s": transfer.amount,
                "reason": transfer.reason,
                "status": transfer.status,
                "asked_by": transfer.asked_by.login,
                "asked_at": transfer.asked_at,
                "expires_at": transfer.expires_at,
                "decided_by": None if decided_by is None else decided_by.login,
                "decided_at": transfer.decided_at,
                "note": transfer.note,
                "may_approve": is_pending and may_approve(actor, transfer),
                "may_withdraw": is_pending and transfer.asked_by_id == actor.user.pk,
            }
        ).data
    )
