"""Rate cards and their prices."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.api.price_serializers import (
    PoolTermsCreateSerializer,
    PoolTermsSerializer,
    RateCardCreateSerializer,
    RateCardSerializer,
    RateLineCreateSerializer,
    RateLineSerializer,
    RuleEndSerializer,
)
from billing.models import RateCard, UsageClass
from billing.pricing import (
    Terms,
    add_rate_line,
    add_terms,
    cancel_rate_line,
    cancel_terms,
    create_rate_card,
    end_rate_line,
    end_terms,
    visible_cards,
)
from primitives.clock import SystemClock
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters
from webapi.serializers import answers, page_of


class RateCardList(APIView):
    """Rate cards and their lines."""

    @extend_schema(
        operation_id="list_rate_cards",
        summary="List the prices of organizations whose costs the caller may see",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(RateCardSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """List rate cards."""
        asked = PageParameters.read(request)
        actor = actor_from(request)
        page = page_by_id(asked, visible_cards(actor))
        return Response(page_body(request, page, lambda card: _shown(card, actor)))

    @extend_schema(
        operation_id="create_rate_card",
        summary="Create a rate card for an organization",
        request=RateCardCreateSerializer,
        responses=answers({201: RateCardSerializer}, 403, 404, 409),
    )
    def post(self, request: Request) -> Response:
        """Create a rate card without lines."""
        refuse_unknown_parameters(request, set())
        body = RateCardCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor = actor_from(request)
        card = create_rate_card(**body.validated_data, actor=actor, now=SystemClock().now())
        return Response(_shown(card, actor), status=201)


class RateLineList(APIView):
    """Prices on one card."""

    @extend_schema(
        operation_id="add_rate_line",
        summary="Add a price",
        description="A price that has applied never changes. With `ends_current`, a new price "
        "takes over from the current one. A price may start in the past where there was none; "
        "reports name it as a correction.",
        request=RateLineCreateSerializer,
        responses=answers({201: RateLineSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, card_id: UUID) -> Response:
        """Add a price. A 409 names the conflicting line in `conflicts_with`."""
        refuse_unknown_parameters(request, set())
        body = RateLineCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        line = add_rate_line(
            card_id,
            pool_name=body.validated_data["pool"],
            usage_class=UsageClass(body.validated_data["usage_class"]),
            price_nano=body.validated_data["price_nano"],
            start=body.validated_data["start"],
            end=body.validated_data["end"],
            ends_current=body.validated_data["ends_current"],
            actor=actor_from(request),
            now=SystemClock().now(),
        )
        return Response(RateLineSerializer(line).data, status=201)


class RateLineDetail(APIView):
    """A price, by its id."""

    @extend_schema(
        operation_id="end_rate_line",
        summary="End a price",
        description="The end cannot be in the past, so that no past report changes.",
        request=RuleEndSerializer,
        responses=answers({200: RateLineSerializer}, 403, 404, 409),
    )
    def patch(self, request: Request, card_id: UUID, line_id: UUID) -> Response:
        """End a price."""
        refuse_unknown_parameters(request, set())
        body = RuleEndSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        line = end_rate_line(
            card_id,
            line_id,
            body.validated_data["end"],
            actor=actor_from(request),
            now=SystemClock().now(),
        )
        return Response(RateLineSerializer(line).data)

    @extend_schema(
        operation_id="cancel_rate_line",
        summary="Cancel a scheduled price",
        description="A price that ends where this one starts lasts until the end of this one "
        "instead.",
        responses=answers({204: None}, 403, 404, 409),
    )
    def delete(self, request: Request, card_id: UUID, line_id: UUID) -> Response:
        """Delete a price that has not started."""
        refuse_unknown_parameters(request, set())
        cancel_rate_line(card_id, line_id, actor=actor_from(request), now=SystemClock().now())
        return Response(status=204)


class PoolTermsList(APIView):
    """Terms of the pools on one card."""

    @extend_schema(
        operation_id="add_pool_terms",
        summary="Add terms of a pool: mode, multipliers, minimum and increment",
        description="Terms are dated like prices: terms that have applied never change. They may "
        "start in the past where the pool had none, which is a correction.",
        request=PoolTermsCreateSerializer,
        responses=answers({201: PoolTermsSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, card_id: UUID) -> Response:
        """Add terms. A 409 names the conflicting terms in `conflicts_with`."""
        refuse_unknown_parameters(request, set())
        body = PoolTermsCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        values = body.validated_data
        terms = add_terms(
            card_id,
            pool_name=values["pool"],
            values=Terms(**{name: values[name] for name in Terms._fields}),
            start=values["start"],
            end=values["end"],
            ends_current=values["ends_current"],
            actor=actor_from(request),
            now=SystemClock().now(),
        )
        return Response(PoolTermsSerializer(terms).data, status=201)


class PoolTermsDetail(APIView):
    """Terms of a pool, by their id."""

    @extend_schema(
        operation_id="end_pool_terms",
        summary="End the terms of a pool",
        description="The end cannot be in the past, so that no past report changes.",
        request=RuleEndSerializer,
        responses=answers({200: PoolTermsSerializer}, 403, 404, 409),
    )
    def patch(self, request: Request, card_id: UUID, terms_id: UUID) -> Response:
        """End terms."""
        refuse_unknown_parameters(request, set())
        body = RuleEndSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        terms = end_terms(
            card_id,
            terms_id,
            body.validated_data["end"],
            actor=actor_from(request),
            now=SystemClock().now(),
        )
        return Response(PoolTermsSerializer(terms).data)

    @extend_schema(
        operation_id="cancel_pool_terms",
        summary="Cancel scheduled terms of a pool",
        description="Terms that end where these start last until the end of these instead.",
        responses=answers({204: None}, 403, 404, 409),
    )
    def delete(self, request: Request, card_id: UUID, terms_id: UUID) -> Response:
        """Delete terms that have not started."""
        refuse_unknown_parameters(request, set())
        cancel_terms(card_id, terms_id, actor=actor_from(request), now=SystemClock().now())
        return Response(status=204)


def _shown(card: RateCard, actor: Actor) -> Any:
    return RateCardSerializer(card, context={"actor": actor}).data
