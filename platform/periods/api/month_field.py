"""The field of a month."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from periods.months import first_day
from primitives.errors import InvalidRequest


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
