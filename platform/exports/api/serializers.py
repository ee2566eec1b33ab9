"""Representations of exports."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from exports.models import (
    DIFFERENCES_MAX,
    ChargeAudit,
    Export,
    ExportDataset,
    ExportFormat,
    ExportState,
    UserNaming,
)
from periods.api.month_field import MonthField
from webapi.serializers import StrictSerializer, TextField, UtcTimeField


class ExportSumsSerializer(serializers.Serializer[Any]):
    """The sums of the rows with one currency and one kind of devices."""

    currency = serializers.CharField(allow_null=True)
    device = serializers.CharField()
    rows = serializers.IntegerField()
    mgpu_s = serializers.IntegerField()
    list_cost_nano = serializers.IntegerField()
    contracted_cost_nano = serializers.IntegerField()
    billed_cost_nano = serializers.IntegerField()
    effective_cost_nano = serializers.IntegerField()


class ExportPeriodSerializer(serializers.Serializer[Any]):
    """The period of a file."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField()


class ExportManifestSerializer(serializers.Serializer[Any]):
    """The manifest of a file, with its sums and its hash."""

    manifest_version = serializers.IntegerField()
    export = serializers.UUIDField()
    dataset = serializers.CharField()
    format = serializers.CharField()
    file = serializers.CharField(help_text="Name of the file")
    size_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    rows = serializers.IntegerField()
    sums = ExportSumsSerializer(many=True)
    columns = serializers.ListField(child=serializers.CharField())
    node = serializers.CharField()
    pool = serializers.CharField(allow_null=True)
    period = ExportPeriodSerializer()
    users = serializers.ChoiceField(
        choices=UserNaming.choices, allow_null=True, help_text="null: the file has no users"
    )
    correction_style = serializers.CharField(
        help_text="accounting: a correction of a closed period is a reversal and a new row, both "
        "in a later period"
    )
    created_at = serializers.DateTimeField()


class ExportSerializer(serializers.Serializer[Export]):
    """A requested file."""

    id = serializers.UUIDField()
    dataset = serializers.ChoiceField(choices=ExportDataset.choices)
    format = serializers.ChoiceField(choices=ExportFormat.choices)
    node = serializers.SerializerMethodField(help_text="Path of the node")
    pool = serializers.SerializerMethodField(help_text="null: all pools")
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField(help_text="Running jobs count until then")
    state = serializers.ChoiceField(choices=ExportState.choices)
    progress_permille = serializers.IntegerField(help_text="Written part, in thousandths")
    message = serializers.CharField(help_text="Why it failed")
    requested_by = serializers.CharField(source="requested_by.login")
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    removed_at = serializers.DateTimeField(
        allow_null=True, help_text="When the file was deleted; it can be made again"
    )
    file_name = serializers.CharField()
    manifest = ExportManifestSerializer(allow_null=True, help_text="null until it is done")

    def get_node(self, export: Export) -> str:
        """Return the path."""
        return export.node_path.rstrip("/")

    def get_pool(self, export: Export) -> str | None:
        """Return the name of the pool."""
        return export.pool or None


class AuditedLineSerializer(serializers.Serializer[Any]):
    """Use and cost that differ, of a pool and usage class."""

    pool = serializers.CharField()
    usage_class = serializers.CharField()
    charged_mgpu_s = serializers.IntegerField()
    audited_mgpu_s = serializers.IntegerField()
    charged_nano = serializers.IntegerField()
    audited_nano = serializers.IntegerField()


class ChargeAuditSerializer(serializers.Serializer[ChargeAudit]):
    """The latest audit of an organization's month."""

    id = serializers.UUIDField()
    organization = serializers.CharField(source="organization.slug")
    month = MonthField(help_text='Such as "2026-11"')
    audited_at = serializers.DateTimeField()
    line_count = serializers.IntegerField(help_text="Compared sums, by pool and usage class")
    difference_count = serializers.IntegerField(help_text="0: all agree to the unit")
    difference_mgpu_s = serializers.IntegerField(help_text="Sum of all differences without signs")
    difference_nano = serializers.IntegerField(help_text="Sum of all differences without signs")
    differences = AuditedLineSerializer(many=True, help_text=f"At most {DIFFERENCES_MAX}")


class ExportCreateSerializer(StrictSerializer):
    """A request of a file."""

    dataset = serializers.ChoiceField(
        choices=ExportDataset.choices,
        default=ExportDataset.CHARGES,
        help_text="charges: use and cost of each attempt, usage class and UTC day. "
        "closed_charges: charges of closed months as they were billed, with corrections; the file "
        "never changes. focus_...: a dataset of FOCUS 1.4, of one month of the organization's time "
        "zone; users are pseudonyms, unless the organization chose names. focus_invoice_detail: "
        "lines of the statements and credit notes issued until as_of",
    )
    format = serializers.ChoiceField(
        choices=ExportFormat.choices,
        help_text="CSV and Parquet are exact; XLSX has 15 digits of a number",
    )
    node = TextField(max_length=1_000, help_text="Path of the node: it and all below it")
    start = UtcTimeField(help_text="In whole seconds")
    end = UtcTimeField(help_text="Excluded; at most 400 days after start")
    as_of = UtcTimeField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Count running jobs until this time. Default: now",
    )
    pool = TextField(required=False, allow_null=True, default=None, max_length=63)
