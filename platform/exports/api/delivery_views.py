"""Deliveries of files, their schedules and targets."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from exports.api.delivery_serializers import (
    DeliveryScheduleCreateSerializer,
    DeliveryScheduleSerializer,
    DeliverySerializer,
    DeliveryTargetSerializer,
)
from exports.schedules import (
    create_schedule,
    end_schedule,
    redeliver,
    visible_deliveries,
    visible_schedules,
)
from exports.targets import target_names
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_body, refuse_unknown_parameters
from webapi.parameters import PageParameters
from webapi.serializers import IDEMPOTENCY_KEY, answers, page_of


class DeliveryTargetList(APIView):
    """The targets of deliveries."""

    @extend_schema(
        operation_id="list_delivery_targets",
        summary="List the targets of deliveries",
        description="The operator names them in TIDEGATE_DELIVERY_TARGETS. Addresses and keys are "
        "not shown.",
        responses=answers({200: page_of(DeliveryTargetSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return all targets."""
        refuse_unknown_parameters(request, set())
        actor_from(request)
        items = [{"name": name, "kind": kind} for name, kind in target_names().items()]
        return Response({"items": items, "next": None})


class DeliveryScheduleList(APIView):
    """The list of schedules, and a new one."""

    @extend_schema(
        operation_id="list_delivery_schedules",
        summary="List schedules of deliveries",
        description="Those of organizations all of whose costs the caller may see, newest first.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(DeliveryScheduleSerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return a page of schedules."""
        asked = PageParameters.read(request)
        page = page_by_id(asked, visible_schedules(actor_from(request)), newest_first=True)
        return Response(page_body(request, page, DeliveryScheduleSerializer().to_representation))

    @extend_schema(
        operation_id="create_delivery_schedule",
        summary="Deliver files from now on",
        description="A worker writes each file and stores it at the target as "
        "ORGANIZATION/MONTH/FILE, and then its manifest beside it. It needs the right "
        "manage_prices on the organization.",
        request=DeliveryScheduleCreateSerializer,
        parameters=[IDEMPOTENCY_KEY],
        responses=answers({201: DeliveryScheduleSerializer}, 403, 404, 409),
    )
    def post(self, request: Request) -> Response:
        """Make a schedule."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        body = DeliveryScheduleCreateSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data

        def act() -> tuple[int, dict[str, Any]]:
            schedule = create_schedule(
                actor=actor,
                organization=asked["organization"],
                dataset=asked["dataset"],
                format_name=asked["format"],
                frequency=asked["frequency"],
                target=asked["target"],
                now=now,
            )
            return 201, dict(DeliveryScheduleSerializer(schedule).data)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


class DeliveryScheduleDetail(APIView):
    """A schedule of deliveries, by its id."""

    @extend_schema(
        operation_id="end_delivery_schedule",
        summary="End a schedule of deliveries",
        description="Delivered files stay. A second request changes nothing.",
        responses=answers({204: None}, 403, 404),
    )
    def delete(self, request: Request, delivery_schedule_id: UUID) -> Response:
        """End the schedule."""
        refuse_unknown_parameters(request, set())
        end_schedule(delivery_schedule_id, actor=actor_from(request), now=SystemClock().now())
        return Response(status=204)


class DeliveryList(APIView):
    """The list of deliveries."""

    @extend_schema(
        operation_id="list_deliveries",
        summary="List deliveries with their state",
        description="Those of organizations all of whose costs the caller may see, newest first.",
        parameters=PageParameters.in_openapi(),
        responses=answers({200: page_of(DeliverySerializer)}),
    )
    def get(self, request: Request) -> Response:
        """Return a page of deliveries."""
        asked = PageParameters.read(request)
        page = page_by_id(asked, visible_deliveries(actor_from(request)), newest_first=True)
        return Response(page_body(request, page, DeliverySerializer().to_representation))


class DeliveryRepetition(APIView):
    """The repetition of a delivery."""

    @extend_schema(
        operation_id="repeat_delivery",
        summary="Make a delivery again",
        description="The file at the target is replaced. A deleted file is written again first.",
        request=None,
        responses=answers({202: DeliverySerializer}, 403, 404, 409),
    )
    def post(self, request: Request, delivery_id: UUID) -> Response:
        """Repeat the delivery."""
        refuse_unknown_parameters(request, set())
        refuse_body(request)
        now = SystemClock().now()
        delivery = redeliver(delivery_id, actor=actor_from(request), now=now)
        return Response(DeliverySerializer(delivery).data, status=202)
