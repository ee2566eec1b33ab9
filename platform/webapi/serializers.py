"""Shapes that all resources share: strict bodies, problems, pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers

from primitives.errors import InvalidRequest
from primitives.units import DeviceKind
from webapi.paging import time_or_refuse
from webapi.problems import CONTENT_TYPE

#: The kinds of devices that a pool may have.
DEVICES = [kind.value for kind in DeviceKind]
DEVICE_HELP = (
    "Kind of the pool's devices. With cpu, all fields that name GPUs or mgpu count CPU cores or "
    "thousandths of cores"
)
#: The number of unknown fields that an error names at most.
_UNKNOWN_NAMED_MAX = 20


class StrictSerializer(serializers.Serializer[Any]):
    """A body that refuses unknown fields, so that a misspelt field does not pass as success."""

    def to_internal_value(self, data: Any) -> Any:
        """Return the validated fields. Raises ValidationError, also for unknown fields."""
        if isinstance(data, Mapping):
            known = {name for name, field in self.fields.items() if not field.read_only}
            unknown = sorted(str(name)[:60] for name in data if name not in known)
            if unknown:
                raise serializers.ValidationError(
                    {
                        name: [f"is not a field here; known are {', '.join(sorted(known))}"]
                        for name in unknown[:_UNKNOWN_NAMED_MAX]
                    },
                    code="unknown_field",
                )
        return super().to_internal_value(data)


class TextField(serializers.CharField):
    """A JSON string, unchanged. Numbers are refused, and outer white space is kept."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **options})

    def to_internal_value(self, data: Any) -> str:
        """Return the string. Raises ValidationError for any other JSON value."""
        if not isinstance(data, str):
            raise serializers.ValidationError("must be a string", code="invalid")
        return str(super().to_internal_value(data))


class BoundedListField(serializers.ListField):
    """A JSON array of at most `max_length` elements.

    The elements of a longer array are not validated: a million error messages would take half a
    minute and a gigabyte.
    """

    def __init__(self, *, max_length: int, **options: Any) -> None:
        super().__init__(max_length=max_length, **options)
        self._most = max_length

    def to_internal_value(self, data: Any) -> list[Any]:
        """Return the validated elements. Raises ValidationError."""
        if isinstance(data, list) and len(data) > self._most:
            self.fail("max_length", max_length=self._most)
        return list(super().to_internal_value(data))


class WholeNumberField(serializers.IntegerField):
    """A JSON integer. Strings, 1.0 and true are refused."""

    default_error_messages = {
        "min_value": "must be at least {min_value}",
        "max_value": "must be at most {max_value}",
    }

    def to_internal_value(self, data: Any) -> int:
        """Return the integer. Raises ValidationError for any other JSON value."""
        if not isinstance(data, int) or isinstance(data, bool):
            raise serializers.ValidationError("must be a whole number", code="invalid")
        return int(super().to_internal_value(data))


class YesOrNoField(serializers.BooleanField):
    """A JSON true or false. "yes" and 1 are refused."""

    def to_internal_value(self, data: Any) -> bool:
        """Return the boolean. Raises ValidationError for any other JSON value."""
        if not isinstance(data, bool):
            raise serializers.ValidationError("must be true or false", code="invalid")
        return data


class UtcTimeField(serializers.DateTimeField):
    """A time with an offset, in whole seconds, converted to UTC."""

    def to_internal_value(self, value: Any) -> Any:
        """Return the time. Raises ValidationError unless it is a text like 2026-11-21T12:00:00Z."""
        try:
            moment = (
                time_or_refuse(value, self.field_name or "") if isinstance(value, str) else None
            )
        except InvalidRequest:
            moment = None
        if moment is None or moment.microsecond:
            raise serializers.ValidationError(
                "must be a time in whole seconds such as 2026-11-21T12:00:00Z", code="invalid"
            )
        return moment


class FieldProblemSerializer(serializers.Serializer[Any]):
    """An error in one field; `pointer` is an RFC 6901 JSON pointer."""

    pointer = serializers.CharField()
    detail = serializers.CharField()
    code = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """An error (RFC 9457). `detail` is for people, `code` for programs.

    An error may have more members with the numbers that the sentence mentions.
    """

    type = serializers.CharField(help_text="`urn:tidegate:problem:` and the code")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What is wrong and what to do about it")
    code = serializers.CharField(help_text="Stable, for programs")
    request_id = serializers.CharField(help_text="Identifies the request in the logs")
    # In the type stubs, `errors` are a serializer's errors. Here it is a member of the document.
    errors = FieldProblemSerializer(many=True, required=False)  # type: ignore[assignment]


class WaitingWriteSerializer(serializers.Serializer[Any]):
    """A write that waits for a second person. Nothing has changed yet."""

    request = serializers.UUIDField(help_text="Id of the request about it")
    url = serializers.CharField(help_text="Address of the request")
    detail = serializers.CharField(help_text="Why it waits, and until when")
    expires_at = UtcTimeField()


def answers(
    success: Mapping[int, Any], *refusals: int
) -> dict[int | tuple[int, str], Any]:  # what extend_schema(responses=...) takes
    """Return `success` by status, and a problem for each status in `refusals`.

    400, 401 and 429 need not be named, because each endpoint has them.
    """
    found: dict[int | tuple[int, str], Any] = {}
    found.update(success.items())
    for status in sorted({400, 401, 429, *refusals}):
        found[(status, CONTENT_TYPE)] = ProblemSerializer
    return found


@cache
def page_of(item: type[serializers.BaseSerializer[Any]]) -> serializers.Serializer[Any]:
    """Return the shape of one page of `item`s.

    It is the same object each time, so that OpenAPI describes it once.
    """
    name = item.__name__.removesuffix("Serializer")
    page: serializers.Serializer[Any] = inline_serializer(
        name=f"{name}Page",
        fields={
            "items": item(many=True),
            "next": serializers.CharField(
                allow_null=True, help_text="Path and query of the next page, null on the last"
            ),
        },
    )
    return page


#: Header of all POST requests that create something.
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="1 to 255 printable ASCII characters. A repeat with the same key and body has no "
    "further effect and gets the same answer for at least 24 hours. Another body is refused (422).",
)


def if_match_header(description: str, *, is_required: bool = True) -> OpenApiParameter:
    """Return the header `If-Match`."""
    return OpenApiParameter(
        "If-Match",
        OpenApiTypes.STR,
        OpenApiParameter.HEADER,
        required=is_required,
        description=description,
    )


def etag_header(description: str, *, of: Sequence[int] = (200, 201)) -> OpenApiParameter:
    """Return the header `ETag` of the answers with the statuses `of`."""
    return OpenApiParameter(
        "ETag",
        OpenApiTypes.STR,
        OpenApiParameter.HEADER,
        response=list(of),
        description=description,
    )
