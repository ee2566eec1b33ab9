"""Parts that every endpoint's OpenAPI description shares: problems, pages, their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from webapi.paging import LIMIT_DEFAULT, LIMIT_MAX


class ProblemFieldSerializer(serializers.Serializer[Any]):
    """One thing wrong with one field."""

    pointer = serializers.CharField(help_text="RFC 6901 JSON pointer into the request")
    detail = serializers.CharField()
    code = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """RFC 9457 problem details; further members hold the numbers behind the sentence."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField(help_text="Stable, for programs")
    request_id = serializers.CharField()
    errors = ProblemFieldSerializer(many=True, required=False)


_DESCRIPTIONS: Mapping[int, str] = {
    400: "The request is not valid; nothing was changed",
    401: "No valid session or token",
    403: "The right to do this is lacking",
    404: "It does not exist, or the caller may not see it",
    409: "The current state does not allow this",
    412: "Somebody else changed it first",
    422: "The Idempotency-Key came before with another body",
    428: "If-Match is required",
}


def problems(*statuses: int) -> dict[Any, Any]:
    """Responses for `extend_schema`: 400 and 401, which every endpoint has, and `statuses`."""
    return {
        (status, "application/problem+json"): OpenApiResponse(
            ProblemSerializer, description=_DESCRIPTIONS[status]
        )
        for status in sorted({400, 401, *statuses})
    }


def page_of(
    item: type[serializers.BaseSerializer[Any]], name: str
) -> type[serializers.Serializer[Any]]:
    """Serializer of one page of `item`, as the component `name`."""
    return type(
        f"{name}Serializer",
        (serializers.Serializer,),
        {
            "__doc__": "One page: its items and the address of the next.",
            "items": item(many=True),
            "next": serializers.CharField(
                allow_null=True, help_text="Path of the next page, null at the end"
            ),
        },
    )


PAGE_PARAMETERS = [
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
        description="Most items of one page",
    ),
    OpenApiParameter("cursor", str, description="From the `next` of the page before"),
]
