"""Representations of deliveries and their schedules."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from exports.models import (
    Delivery,
    DeliveryFrequency,
    DeliverySchedule,
    DeliveryState,
    ExportDataset,
    ExportFormat,
)
from webapi.serializers import StrictSerializer, TextField

_FREQUENCY_HELP = (
    "monthly: once a month is closed; daily: after each day of the organization's time zone, the "
    "month until then"
)


class DeliveryTargetSerializer(serializers.Serializer[Any]):
    """A target that the operator named. Its address is for the operator only."""

    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=["folder", "s3"])


class DeliveryScheduleSerializer(serializers.Serializer[DeliverySchedule]):
    """An order to deliver files."""

    id = serializers.UUIDField()
    organization = serializers.CharField(source="organization.slug")
    dataset = serializers.ChoiceField(choices=ExportDataset.choices)
    format = serializers.ChoiceField(choices=ExportFormat.choices)
    frequency = serializers.ChoiceField(
        choices=DeliveryFrequency.choices, help_text=_FREQUENCY_HELP
    )
    target = serializers.CharField(help_text="Name of the target")
    created_by = serializers.CharField(
        source="created_by.login", help_text="The rights of this person count for each file"
    )
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class DeliveryScheduleCreateSerializer(StrictSerializer):
    """A new order to deliver files."""

    organization = TextField(max_length=63, help_text="Slug of the organization")
    dataset = serializers.ChoiceField(choices=ExportDataset.choices, default=ExportDataset.CHARGES)
    format = serializers.ChoiceField(choices=ExportFormat.choices)
    frequency = serializers.ChoiceField(
        choices=DeliveryFrequency.choices, help_text=_FREQUENCY_HELP
    )
    target = TextField(max_length=32, help_text="Name of a target")


class DeliverySerializer(serializers.Serializer[Delivery]):
    """A file that a schedule delivers."""

    id = serializers.UUIDField()
    schedule = DeliveryScheduleSerializer()
    due_on = serializers.DateField(help_text="First day of the month, or the last day in the file")
    state = serializers.ChoiceField(choices=DeliveryState.choices)
    message = serializers.CharField(help_text="The last error, in a sentence")
    tries = serializers.IntegerField(help_text="Failed attempts")
    next_at = serializers.DateTimeField(help_text="Time of the next attempt while it waits")
    delivered_at = serializers.DateTimeField(allow_null=True)
    file_name = serializers.SerializerMethodField(help_text="null before the file is requested")
    sha256 = serializers.CharField(help_text="That of the delivered file")

    def get_file_name(self, delivery: Delivery) -> str | None:
        """Return the name of the file at the target."""
        return None if delivery.export is None else delivery.export.file_name
