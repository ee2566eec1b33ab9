"""Shapes of accounting codes."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from periods.api.month_field import MonthField
from periods.code_models import CODE_LENGTH_MAX, CodeKind
from periods.codes import SET_MAX
from webapi.serializers import BoundedListField, StrictSerializer, TextField


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
