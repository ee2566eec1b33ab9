"""Shapes of statements."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from periods.api.month_field import MonthField
from periods.statement_models import (
    STATEMENT_REASON_LENGTH_MAX,
    TERMS_LENGTH_MAX,
    StatementKind,
)
from periods.statements import Unit
from webapi.serializers import DEVICE_HELP, DEVICES, StrictSerializer, TextField


class IssuedStatementSerializer(serializers.Serializer[Any]):
    """A statement or a credit note."""

    id = serializers.UUIDField()
    number = serializers.CharField(help_text='Such as "2026-00012"')
    kind = serializers.ChoiceField(choices=StatementKind.values)
    month = MonthField(source="period.month", help_text="Closed month")
    unit = serializers.CharField(source="unit_path", help_text="Path of the department or team")
    unit_name = serializers.CharField(help_text="At the issuing, as all names")
    organization_name = serializers.CharField()
    provider = serializers.CharField()
    currency = serializers.CharField()
    total_cents = serializers.IntegerField(help_text="Hundredths of the currency")
    line_count = serializers.IntegerField()
    issued_at = serializers.DateTimeField()
    issued_by = serializers.CharField(help_text="Login")
    due_on = serializers.DateField(allow_null=True)
    terms = serializers.CharField()
    credits = serializers.CharField(
        source="credits.number",
        default=None,
        allow_null=True,
        help_text="Number of the credited statement",
    )
    credited_by = serializers.CharField(
        source="credit_note.number",
        default=None,
        allow_null=True,
        help_text="Number of its credit note",
    )
    reason = serializers.CharField(help_text="Why it was credited; empty for statements")


class IssuedStatementLineSerializer(serializers.Serializer[Any]):
    """The use of a pool by a team in one class, in one month, or an adjustment."""

    number = serializers.IntegerField()
    month = MonthField(help_text="Month of the use")
    is_correction = serializers.BooleanField(help_text="It changes the charges of that month")
    team = serializers.CharField(source="team_path", help_text="Path at the time of use")
    pool = serializers.CharField(help_text="Empty for an adjustment without a pool")
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    usage_class = serializers.CharField(
        help_text="A usage class, commitment or top_up, or adjustment or refund"
    )
    cost_centre = serializers.CharField(help_text="Of the team in that month, or empty")
    project_code = serializers.CharField(help_text="Of the team in that month, or empty")
    adjustment = serializers.UUIDField(source="adjustment_id", allow_null=True)
    reason = serializers.CharField(
        source="adjustment.reason", default=None, allow_null=True, help_text="Of an adjustment"
    )
    mgpu_s = serializers.IntegerField()
    cost_nano = serializers.IntegerField(help_text="Before it was rounded to cents")
    amount_cents = serializers.IntegerField()


class IssuedStatementDetailSerializer(IssuedStatementSerializer):
    """A statement with its lines, which sum to it."""

    digest = serializers.CharField(source="period.digest", help_text="Digest of the closed month")
    lines = IssuedStatementLineSerializer(many=True, source="lines_in_order")


class StatementsIssueSerializer(StrictSerializer):
    """The units that get a statement each, and the terms of payment."""

    unit = serializers.ChoiceField(
        choices=[unit.value for unit in Unit],
        default=Unit.DEPARTMENT.value,
        help_text="A department is one right below the organization.",
    )
    due_on = serializers.DateField(required=False, allow_null=True, default=None)
    terms = TextField(max_length=TERMS_LENGTH_MAX, required=False, allow_blank=True, default="")


class StatementCreditSerializer(StrictSerializer):
    """The reason of a credit note."""

    reason = TextField(max_length=STATEMENT_REASON_LENGTH_MAX)
