"""The comparison of the prices of two moments."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.periods import Period, period_of
from chargeback.api.comparison_serializers import PriceComparisonSerializer
from chargeback.price_comparison import compare_prices
from primitives.clock import SystemClock
from primitives.errors import FieldError, InvalidRequest
from tenants.api.authentication import actor_from
from webapi.parameters import Parameters, time
from webapi.serializers import answers


class ComparisonParameters(Parameters):
    """The two moments of a comparison, and its period."""

    first: datetime = time("Moment of the first prices", is_in_seconds=True, required="give a time")
    second: datetime = time(
        "Moment of the second prices", is_in_seconds=True, required="give a time"
    )
    start: datetime | None = time(
        "Start of the period. Default: the last month in the organization's zone",
        is_in_seconds=True,
    )
    end: datetime | None = time("End of the period, excluded", is_in_seconds=True)

    def period(self, now: datetime) -> Period | None:
        """Return the period, or None for the default. Raises InvalidRequest for a half one."""
        if self.start is None and self.end is None:
            return None
        if self.start is None or self.end is None:
            raise InvalidRequest(
                "Give both start and end, or neither for the last month.",
                errors=[FieldError("/start" if self.start is None else "/end", "is missing")],
            )
        return period_of(self.start, self.end, as_of=None, now=now)


class RateCardComparison(APIView):
    """The prices of two moments."""

    @extend_schema(
        operation_id="compare_prices",
        summary="Compare the prices of two moments, and what a period would cost under each",
        parameters=ComparisonParameters.in_openapi(),
        responses=answers({200: PriceComparisonSerializer}, 403, 404),
    )
    def get(self, request: Request, card_id: UUID) -> Response:
        """Compare prices."""
        asked = ComparisonParameters.read(request)
        now = SystemClock().now()
        found = compare_prices(
            card_id,
            first=asked.first,
            second=asked.second,
            period=asked.period(now),
            actor=actor_from(request),
            now=now,
        )
        return Response(PriceComparisonSerializer(found).data)
