"""Shapes that every resource shares: strict bodies, problems, pages."""

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

#: What the devices of a pool may be.
DEVICES = [kind.value for kind in DeviceKind]
DEVICE_HELP = (
    "What its devices are. cpu: CPU cores, and all that is called GPUs or mgpu counts cores and "
    "thousandths of cores"
)
#: Bodies name at most this many unknown fields back.
_UNKNOWN_NAMED_MAX = 20


class StrictSerializer(serializers.Serializer[Any]):
    """A body in which a field that nobody reads is an error: a typo must not pass as success."""

    def to_internal_value(self, data: Any) -> Any:
        """The validated fields. Raises ValidationError for unknown ones too."""
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
    """A JSON string, as it came: numbers are refused instead of being written out as text, and
    outer white space is not taken away unasked."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **options})

    def to_internal_value(self, data: Any) -> str:
        """The string. Raises ValidationError for any other JSON value."""
        if not isinstance(data, str):
            raise serializers.ValidationError("must be a string", code="invalid")
        return str(super().to_internal_value(data))


class BoundedListField(serializers.ListField):
    """A JSON array of at most `max_length` elements, of which none is looked at in a longer one:
    to tell what is wrong with each of a million takes half a minute and a gigabyte."""

    def __init__(self, *, max_length: int, **options: Any) -> None:
        super().__init__(max_length=max_length, **options)
        self._most = max_length

    def to_internal_value(self, data: Any) -> list[Any]:
        """The validated elements. Raises ValidationError."""
        if isinstance(data, list) and len(data) > self._most:
            self.fail("max_length", max_length=self._most)
        return list(super().to_internal_value(data))


class WholeNumberField(serializers.IntegerField):
    """A JSON integer: no strings, no 1.0, no true."""

    default_error_messages = {
        "min_value": "must be at least {min_value}",
        "max_value": "must be at most {max_value}",
    }

    def to_internal_value(self, data: Any) -> int:
        """The integer. Raises ValidationError for any other JSON value."""
        if not isinstance(data, int) or isinstance(data, bool):
            raise serializers.ValidationError("must be a whole number", code="invalid")
        return int(super().to_internal_value(data))


class YesOrNoField(serializers.BooleanField):
    """A JSON true or false, not "yes" or 1."""

    def to_internal_value(self, data: Any) -> bool:
        """The boolean. Raises ValidationError for any other JSON value."""
        if not isinstance(data, bool):
            raise serializers.ValidationError("must be true or false", code="invalid")
        return data


class UtcTimeField(serializers.DateTimeField):
    """A time with an offset, whole seconds, in UTC."""

    def to_internal_value(self, value: Any) -> Any:
        """The time. Raises ValidationError for anything but a text like 2026-11-21T12:00:00Z."""
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
    """One thing wrong with one field; `pointer` is an RFC 6901 JSON pointer."""

    pointer = serializers.CharField()
    detail = serializers.CharField()
    code = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """A refusal (RFC 9457). `detail` is for people, `code` for programs; refusals may carry
    further members with the numbers behind the sentence."""

    type = serializers.CharField(help_text="`urn:tidegate:problem:` and the code")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What is wrong and what to do about it")
    code = serializers.CharField(help_text="Stable, for programs")
    request_id = serializers.CharField(help_text="To find the request in the logs by")
    # The stubs know `errors` as what a serializer found; here it is a member of the document.
    errors = FieldProblemSerializer(many=True, required=False)  # type: ignore[assignment]


def answers(
    success: Mapping[int, Any], *refusals: int
) -> dict[int | tuple[int, str], Any]:  # what extend_schema(responses=...) takes
    """`success` by status, and a problem for 401, for 400 and for each status in `refusals`."""
    found: dict[int | tuple[int, str], Any] = {}
    found.update(success.items())
    for status in sorted({400, 401, *refusals}):
        found[(status, CONTENT_TYPE)] = ProblemSerializer
    return found


@cache
def page_of(item: type[serializers.BaseSerializer[Any]]) -> serializers.Serializer[Any]:
    """The shape of one page of `item`s, the same object each time: OpenAPI has it once."""
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


#: Query parameters of every list.
PAGE_PARAMETERS = [
    OpenApiParameter("limit", OpenApiTypes.INT, description="Items a page, 1 to 500; 50 if absent"),
    OpenApiParameter("cursor", OpenApiTypes.STR, description="Opaque, from `next` of a page"),
]

#: Header of every POST that makes something.
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="1 to 255 printable ASCII characters. The same key with the same body has one "
    "effect and one answer for at least 24 hours; with another body it is refused (422).",
)


def if_match_header(description: str) -> OpenApiParameter:
    """The required header `If-Match`."""
    return OpenApiParameter(
        "If-Match",
        OpenApiTypes.STR,
        OpenApiParameter.HEADER,
        required=True,
        description=description,
    )


def etag_header(description: str, *, of: Sequence[int] = (200, 201)) -> OpenApiParameter:
    """The header `ETag` of the answers with the statuses `of`."""
    return OpenApiParameter(
        "ETag",
        OpenApiTypes.STR,
        OpenApiParameter.HEADER,
        response=list(of),
        description=description,
    )
