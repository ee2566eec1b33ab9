"""Representations of adjustments and disputes. Amounts are billionths of the currency."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from adjustments.adjusting import may_approve
from adjustments.disputes import may_be_decided_by
from adjustments.models import (
    AMOUNT_MAX_NANO,
    REASON_LENGTH_MAX,
    Adjustment,
    AdjustmentPolicy,
    AdjustmentStatus,
    Dispute,
    DisputeStatus,
)
from adjustments.thresholds import threshold_nano_for
from tenants.access import Actor
from webapi.serializers import StrictSerializer, TextField, UtcTimeField, WholeNumberField


class AdjustmentPolicySerializer(serializers.Serializer[Any]):
    """The amount above which adjustments need a second person."""

    organization = serializers.CharField(help_text="Slug of the organization")
    threshold_nano = serializers.IntegerField(
        help_text="For all adjustments that a person makes alone for a team and month"
    )
    your_threshold_nano = serializers.IntegerField(
        help_text="For your adjustments. Your own raise counts for other persons only"
    )
    changed_by = serializers.CharField(allow_null=True, help_text="Login of who changed it last")
    changed_at = UtcTimeField(allow_null=True)
    version = serializers.IntegerField()


class AdjustmentPolicyUpdateSerializer(StrictSerializer):
    """A change of the threshold."""

    threshold_nano = WholeNumberField(
        min_value=0, max_value=AMOUNT_MAX_NANO, help_text="0: every adjustment needs two persons"
    )


class NewAdjustmentSerializer(StrictSerializer):
    """An adjustment to make, or to ask a second person for."""

    team = TextField(max_length=512, help_text="Path of the team")
    user = TextField(
        max_length=200, required=False, allow_null=True, help_text="Login of a person of the team"
    )
    pool = TextField(max_length=200, required=False, allow_null=True, help_text="Name of a pool")
    amount_nano = WholeNumberField(
        min_value=-AMOUNT_MAX_NANO,
        max_value=AMOUNT_MAX_NANO,
        help_text="Above 0: a charge. Below 0: a credit",
    )
    month = TextField(
        max_length=7,
        required=False,
        allow_null=True,
        help_text="Such as 2026-11, not closed. Default: the present one",
    )
    reason = TextField(max_length=REASON_LENGTH_MAX, help_text="Why, for the statement")


class AdjustmentDecisionSerializer(StrictSerializer):
    """A decision about an adjustment or a dispute."""

    note = TextField(
        max_length=REASON_LENGTH_MAX,
        allow_blank=True,
        default="",
        help_text="Why. Required against the request of another person",
    )


class AdjustmentSerializer(serializers.Serializer[Any]):
    """An amount that is charged to a team beside its use."""

    id = serializers.UUIDField()
    organization = serializers.CharField(help_text="Slug of the organization")
    team = serializers.CharField(help_text="Path of the team")
    user = serializers.CharField(allow_null=True, help_text="Login of the person, if any")
    pool = serializers.CharField(allow_null=True)
    month = serializers.CharField(help_text="Month in which it counts, such as 2026-11")
    effective_at = UtcTimeField(help_text="Moment of the month at which it counts")
    amount_nano = serializers.IntegerField(help_text="Above 0: a charge. Below 0: a credit")
    currency = serializers.CharField()
    reason = serializers.CharField()
    dispute = serializers.UUIDField(
        source="dispute_id",
        allow_null=True,
        help_text="The dispute that it refunds, or whose refund it takes back",
    )
    is_correction = serializers.BooleanField(
        help_text="Whether it refunds use of a month that is closed"
    )
    status = serializers.ChoiceField(choices=AdjustmentStatus.choices)
    asked_by = serializers.CharField(help_text="Login of the person who asked")
    asked_at = UtcTimeField()
    expires_at = UtcTimeField(allow_null=True, help_text="When it expires while it is pending")
    decided_by = serializers.CharField(allow_null=True, help_text="Login of the second person")
    decided_at = UtcTimeField(allow_null=True)
    note = serializers.CharField(help_text="What that person says of the decision")
    may_approve = serializers.BooleanField(help_text="Whether you may approve or reject it")
    may_withdraw = serializers.BooleanField(help_text="Whether you asked for it, and it waits")


class NewDisputeSerializer(StrictSerializer):
    """A dispute to open."""

    attempt = serializers.UUIDField(
        required=False, allow_null=True, help_text="Id of the attempt, which has ended"
    )
    team = TextField(
        max_length=512,
        required=False,
        allow_null=True,
        help_text="Path of the team, for all that it was charged for a pool in a month",
    )
    pool = TextField(max_length=200, required=False, allow_null=True, help_text="Name of the pool")
    month = TextField(
        max_length=7, required=False, allow_null=True, help_text="Such as 2026-10, which is over"
    )
    reason = TextField(max_length=REASON_LENGTH_MAX, help_text="Why its charge is wrong")


class DisputeAcceptanceSerializer(StrictSerializer):
    """A refund of a disputed charge."""

    refund_nano = WholeNumberField(
        min_value=1,
        max_value=AMOUNT_MAX_NANO,
        required=False,
        allow_null=True,
        help_text="At most the charge. Default: all of it",
    )
    note = TextField(max_length=REASON_LENGTH_MAX, allow_blank=True, default="")


class DisputeSerializer(serializers.Serializer[Any]):
    """A person's claim that the charge of an attempt, or of a pool in a month, is wrong."""

    id = serializers.UUIDField()
    organization = serializers.CharField(help_text="Slug of the organization")
    team = serializers.CharField(help_text="Path of the team")
    subject = serializers.CharField(help_text="Such as: bert, attempt 1; or: h100 in 2026-10")
    job = serializers.UUIDField(allow_null=True, help_text="Id of the job of the attempt")
    attempt = serializers.UUIDField(allow_null=True, help_text="Id of the attempt")
    pool = serializers.CharField(allow_null=True, help_text="Pool of the row")
    month = serializers.CharField(allow_null=True, help_text="Month of the row, such as 2026-10")
    charged_nano = serializers.IntegerField(help_text="Charge when it was disputed")
    refund_nano = serializers.IntegerField(allow_null=True, help_text="What was refunded")
    currency = serializers.CharField()
    reason = serializers.CharField()
    status = serializers.ChoiceField(choices=DisputeStatus.choices)
    asked_by = serializers.CharField(help_text="Login of the person who opened it")
    asked_at = UtcTimeField()
    decided_by = serializers.CharField(allow_null=True)
    decided_at = UtcTimeField(allow_null=True)
    note = serializers.CharField(help_text="What finance says of the decision")
    may_decide = serializers.BooleanField(help_text="Whether you may accept or decline it")
    may_withdraw = serializers.BooleanField(help_text="Whether you opened it, and it is open")


def shown_policy(policy: AdjustmentPolicy, *, actor: Actor) -> dict[str, Any]:
    """Return a threshold as `actor` may read it."""
    return dict(
        AdjustmentPolicySerializer(
            {
                "organization": policy.organization.slug,
                "threshold_nano": policy.threshold_nano,
                "your_threshold_nano": threshold_nano_for(actor.user, policy),
                "changed_by": None if policy.changed_by is None else policy.changed_by.login,
                "changed_at": policy.changed_at,
                "version": policy.version,
            }
        ).data
    )


def shown_adjustment(adjustment: Adjustment, *, actor: Actor) -> dict[str, Any]:
    """Return an adjustment as `actor` may read it."""
    is_pending = adjustment.status == AdjustmentStatus.PENDING
    names = ("id", "effective_at", "amount_nano", "currency", "reason", "dispute_id", "status")
    more = ("is_correction", "asked_at", "expires_at", "decided_at", "note")
    return dict(
        AdjustmentSerializer(
            {
                **{name: getattr(adjustment, name) for name in (*names, *more)},
                "organization": adjustment.organization.slug,
                "team": adjustment.team.display_path,
                "user": None if adjustment.user is None else adjustment.user.login,
                "pool": None if adjustment.pool is None else adjustment.pool.name,
                "month": f"{adjustment.month:%Y-%m}",
                "asked_by": adjustment.asked_by.login,
                "decided_by": None
                if adjustment.decided_by is None
                else adjustment.decided_by.login,
                "may_approve": is_pending and may_approve(actor, adjustment),
                "may_withdraw": is_pending and adjustment.asked_by_id == actor.user.pk,
            }
        ).data
    )


def shown_dispute(dispute: Dispute, *, actor: Actor) -> dict[str, Any]:
    """Return a dispute as `actor` may read it."""
    is_open = dispute.status == DisputeStatus.OPEN
    attempt = dispute.attempt
    names = ("id", "charged_nano", "refund_nano", "currency", "reason", "status", "asked_at")
    return dict(
        DisputeSerializer(
            {
                **{name: getattr(dispute, name) for name in (*names, "decided_at", "note")},
                "organization": dispute.organization.slug,
                "team": dispute.team.display_path,
                "subject": dispute.subject,
                "job": None if attempt is None else attempt.job_id,
                "attempt": dispute.attempt_id,
                "pool": None if dispute.pool is None else dispute.pool.name,
                "month": None if dispute.month is None else f"{dispute.month:%Y-%m}",
                "asked_by": dispute.asked_by.login,
                "decided_by": None if dispute.decided_by is None else dispute.decided_by.login,
                "may_decide": is_open and may_be_decided_by(actor, dispute),
                "may_withdraw": is_open and dispute.asked_by_id == actor.user.pk,
            }
        ).data
    )
