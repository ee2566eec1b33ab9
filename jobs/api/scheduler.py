"""The health of the scheduler, which every page shows to every user."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.reading.heartbeats import LATE_AFTER_S, loop_health
from primitives.clock import SystemClock
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import answers


class SchedulerSerializer(serializers.Serializer[Any]):
    """The last work of the arbiter and of the observer."""

    last_cycle_at = serializers.DateTimeField(
        allow_null=True, help_text="End of the last whole scheduling cycle"
    )
    is_late = serializers.BooleanField(
        help_text="Whether no cycle has ended for longer than `late_after_s`"
    )
    last_observation_at = serializers.DateTimeField(
        allow_null=True, help_text="When the observer last served its clusters"
    )
    is_observer_late = serializers.BooleanField(
        help_text="Whether no cluster was served for longer than `late_after_s`"
    )
    late_after_s = serializers.IntegerField()


class Scheduler(APIView):
    """The health of the arbiter and of the observer."""

    @extend_schema(
        operation_id="get_scheduler",
        summary="When the scheduler last decided",
        responses=answers({200: SchedulerSerializer}),
    )
    def get(self, request: Request) -> Response:
        """Return the times of the last cycle and of the last observation."""
        refuse_unknown_parameters(request, set())
        health = loop_health(SystemClock().now())
        arbiter, observer = health["arbiter"], health["observer"]
        shown = {
            "last_cycle_at": arbiter.worked_at,
            "is_late": arbiter.is_late,
            "last_observation_at": observer.worked_at,
            "is_observer_late": observer.is_late,
            "late_after_s": LATE_AFTER_S,
        }
        return Response(SchedulerSerializer(shown).data)
