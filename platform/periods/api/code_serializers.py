"""Shapes of accounting codes."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from periods.code_models import CODE_LENGTH_MAX, CodeKind
from periods.codes import SET_MAX
from periods.months import first_day
from primitives.errors import InvalidRequest
from webapi.serializers import BoundedListField, StrictSerializer, TextField


class MonthField(serializers.CharField):
    """A month such as "2026-11", as its first day."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the first day. Raises ValidationError."""
        try:
            return first_day(data if isinstance(data, str) else "")
        except InvalidRequest as error:
            raise serializers.ValidationError(
                "must be a month such as 2026-11", code="invalid"
            ) from error

    def to_representation(self, value: Any) -> str:
        """Return the month of its first day."""
        return f"{value:%Y-%m}"


class AccountingCodeSerializer(serializers.Serializer[Any]):
    """A cost centre or a project code of a node, and of the nodes below without their own."""

    id = serializers.UUIDField()
    node = serializers.CharField(source="node.display_path", help_text="Path")
    kind = serializers.ChoiceField(choices=CodeKind.values)
    code = serializers.CharField()
    start = MonthField(help_text="First month")
    end = MonthField(allow_null=True, help_text="Excluded; null: no end yet")
    set_at = serializers.DateTimeField()
    set_by = serializers.CharField(help_text="Login")


class NewCodeSerializer(StrictSerializer):
    """A code of a node."""

    node = TextField(max_length=1024, help_text="Path")
    kind = serializers.ChoiceField(choices=CodeKind.values)
    code = TextField(max_length=CODE_LENGTH_MAX)
    start = MonthField(help_text="First month. It ends the code before it")
    end = MonthField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Excluded; null: until the next code",
    )


class CodesSetSerializer(StrictSerializer):
    """Codes of nodes that are set together."""

    codes = BoundedListField(child=NewCodeSerializer(), min_length=1, max_length=SET_MAX)


class CodeEndSerializer(StrictSerializer):
    """The end of a code."""

    end = MonthField(help_text="First month without it")
