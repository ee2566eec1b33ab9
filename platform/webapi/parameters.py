"""The query parameters of an endpoint, declared once: read by the view, described in OpenAPI.

    class TideParameters(PageParameters):
        harbour: str | None = text("Only this harbour")
        since: datetime | None = time("Only from this time on")

`TideParameters.read(request)` returns the values, and `TideParameters.in_openapi()` goes into
`extend_schema`. An endpoint without parameters calls `refuse_unknown_parameters`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self, dataclass_transform

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from primitives.errors import FieldError, InvalidRequest
from webapi.paging import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    day_or_refuse,
    refuse_unknown_parameters,
    time_or_refuse,
    uuid_or_refuse,
)

_WHOLE = re.compile(r"-?[0-9]{1,16}")
_MARK = "parameter"


@dataclass(frozen=True, slots=True)
class _Parameter:
    """The reader of a parameter, by its text and its name, and its description in OpenAPI.

    `required` says what to give, for a parameter that must be given. `shown` is further words of
    OpenAPI.
    """

    kind: Any
    read: Callable[[str, str], Any]
    help: str
    default: Any = None
    required: str = ""
    shown: dict[str, Any] = field(default_factory=dict)


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Base of declarations, which are dataclasses: a field is one parameter of the same name."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def read(cls, request: Request) -> Self:
        """Return the parameters of a request.

        Raises InvalidRequest for the first that is unknown, repeated, missing or wrong. A misspelt
        filter must not silently show everything.
        """
        given = request.query_params
        refuse_unknown_parameters(request, {one.name for one in fields(cls)})
        values = {}
        for one in fields(cls):
            declared: _Parameter = one.metadata[_MARK]
            words = given.get(one.name)
            if declared.required and not words:
                raise InvalidRequest(
                    f"{one.name} is required: {declared.required}.",
                    errors=[FieldError(f"/{one.name}", "is required")],
                )
            if words is not None:
                values[one.name] = declared.read(words, one.name)
        return cls(**values)

    @classmethod
    def in_openapi(cls) -> list[OpenApiParameter]:
        """Return what `extend_schema` takes as parameters."""
        return [
            OpenApiParameter(
                one.name,
                declared.kind,
                description=declared.help,
                required=bool(declared.required),
                **declared.shown,
            )
            for one in fields(cls)
            for declared in [one.metadata[_MARK]]
        ]


def _declared(parameter: _Parameter) -> Any:
    return field(default=parameter.default, metadata={_MARK: parameter})


def text(help: str = "", *, most: int | None = None, required: str = "") -> Any:
    """Declare a text, of 1 to `most` characters if that is given."""

    def read(words: str, name: str) -> str:
        if most is not None and not 1 <= len(words) <= most:
            raise InvalidRequest(
                f"{name} must have 1 to {most} characters.",
                errors=[FieldError(f"/{name}", "is empty or too long")],
            )
        return words

    kind: Any = OpenApiTypes.STR
    if most is not None:
        kind = {"type": "string", "minLength": 1, "maxLength": most}
    return _declared(_Parameter(kind, read, help, required=required))


def choice(values: Iterable[str], help: str = "", *, default: str | None = None) -> Any:
    """Declare one of `values`."""
    allowed = [str(value) for value in values]

    def read(words: str, name: str) -> str:
        if words not in allowed:
            raise InvalidRequest(
                f"{name} must be one of {', '.join(allowed)}.",
                errors=[FieldError(f"/{name}", "is none of them")],
            )
        return words

    shown: dict[str, Any] = {"enum": allowed}
    if default is not None:
        shown["default"] = default
    return _declared(_Parameter(OpenApiTypes.STR, read, help, default, shown=shown))


def several(values: Iterable[str], help: str = "") -> Any:
    """Declare one or more of `values`, with commas between them: a frozenset."""
    return _some_of(values, help, frozenset, None)


def in_order(values: Iterable[str], help: str = "", *, default: Sequence[str]) -> Any:
    """Declare one or more of `values`, with commas between them, in their order: a tuple."""
    return _some_of(values, help, tuple, tuple(default))


def _some_of(
    values: Iterable[str], help: str, gather: Callable[[list[str]], Any], default: Any
) -> Any:
    allowed = [str(value) for value in values]

    def read(words: str, name: str) -> Any:
        given = words.split(",")
        if not set(given) <= set(allowed):
            raise InvalidRequest(
                f"{name} must be one or more of {', '.join(allowed)}, with commas between them.",
                errors=[FieldError(f"/{name}", f"must be some of {', '.join(allowed)}")],
            )
        return gather(given)

    kind = {"type": "array", "items": {"type": "string", "enum": allowed}}
    shown: dict[str, Any] = {"style": "form", "explode": False}
    if default is not None:
        shown["default"] = list(default)
    return _declared(_Parameter(kind, read, help, default, shown=shown))


def flag(help: str = "") -> Any:
    """Declare true or false; false if it is not given."""

    def read(words: str, name: str) -> bool:
        if words not in ("true", "false"):
            raise InvalidRequest(
                f"{name} must be one of true, false.",
                errors=[FieldError(f"/{name}", "is none of them")],
            )
        return words == "true"

    return _declared(_Parameter(OpenApiTypes.BOOL, read, help, False))


def whole(help: str = "", *, low: int, high: int, default: int | None = None) -> Any:
    """Declare a whole number from `low` to `high`."""

    def read(words: str, name: str) -> int:
        if not _WHOLE.fullmatch(words) or not low <= int(words) <= high:
            raise InvalidRequest(
                f"{name} must be a whole number from {low} to {high}.",
                errors=[FieldError(f"/{name}", f"must be from {low} to {high}")],
            )
        return int(words)

    shown = {} if default is None else {"default": default}
    kind = {"type": "integer", "minimum": low, "maximum": high}
    return _declared(_Parameter(kind, read, help, default, shown=shown))


def uuid(help: str = "") -> Any:
    """Declare an id."""
    return _declared(_Parameter(OpenApiTypes.UUID, uuid_or_refuse, help))


def day(help: str = "") -> Any:
    """Declare a day."""
    return _declared(_Parameter(OpenApiTypes.DATE, day_or_refuse, help))


def time(help: str = "", *, is_in_seconds: bool = False, required: str = "") -> Any:
    """Declare a time, read in UTC; with `is_in_seconds` it has no parts of a second."""

    def read(words: str, name: str) -> Any:
        moment = time_or_refuse(words, name)
        if is_in_seconds and moment.microsecond:
            raise InvalidRequest(
                f"{name} must be in whole seconds.",
                errors=[FieldError(f"/{name}", "is not in whole seconds")],
            )
        return moment

    return _declared(_Parameter(OpenApiTypes.DATETIME, read, help, required=required))


def day_or_time(help: str = "") -> Any:
    """Declare a day (a date), or a time in whole seconds as `time` reads it (a datetime)."""

    def read(words: str, name: str) -> Any:
        if "T" not in words:
            return day_or_refuse(words, name)
        moment = time_or_refuse(words, name)
        if moment.microsecond:
            raise InvalidRequest(
                f"{name} must be in whole seconds.",
                errors=[FieldError(f"/{name}", "is not in whole seconds")],
            )
        return moment

    return _declared(_Parameter(OpenApiTypes.STR, read, help))


class PageParameters(Parameters):
    """The parameters of a list page by page, to which a list adds its filters."""

    limit: int = whole(
        f"Items per page, 1 to {LIMIT_MAX}. Default: {LIMIT_DEFAULT}",
        low=1,
        high=LIMIT_MAX,
        default=LIMIT_DEFAULT,
    )
    cursor: str | None = text("Opaque position, from `next` of the previous page")
