"""The resource `today`: lost work, ended attempts and changes of quotas."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.reading.recent_ends import CHANGES_MAX, ENDS_MAX, REACH_MAX, WASTE_MAX, recent_ends
from primitives.clock import SystemClock
from quotas.api.serializers import QuotaChangeSerializer
from quotas.models import QuotaChange
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters, time_or_refuse
from webapi.serializers import DEVICE_HELP, DEVICES, answers

_DAY = timedelta(days=1)
_LOST = ["failed", "timed_out", "preempted", "withdrawn", "node_lost"]
_ENDS = ["succeeded", "cancelled", *_LOST, "unknown"]
_WITHDRAWN_HELP = (
    "`withdrawn`: its cluster requeued it, or somebody changed it there, so Tidegate took it back"
)


class EndedTotalSerializer(serializers.Serializer[Any]):
    """All attempts that ended, on devices of one kind."""

    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    attempts = serializers.IntegerField()
    used_mgpu_s = serializers.IntegerField(help_text="From their starts to their ends")
    lost_mgpu_s = serializers.IntegerField(
        help_text="Of that, work without a checkpoint of those that failed, timed out, were "
        "preempted, were withdrawn or lost their node"
    )


class EndedJobSerializer(serializers.Serializer[Any]):
    """A job of which an attempt ended."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    user = serializers.CharField()
    team = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)


class WasteSerializer(EndedJobSerializer):
    """Work of a job that was lost in one way."""

    how = serializers.ChoiceField(choices=_LOST, help_text=_WITHDRAWN_HELP)
    attempts = serializers.IntegerField(help_text="How many ended so")
    has_checkpoint = serializers.BooleanField(help_text="Whether one of them reported a checkpoint")
    lost_mgpu_s = serializers.IntegerField()


class EndedAttemptSerializer(EndedJobSerializer):
    """An attempt that ended."""

    how = serializers.ChoiceField(
        choices=_ENDS,
        help_text=f"{_WITHDRAWN_HELP}; `unknown`: its cluster does not say how it ended",
    )
    attempt = serializers.IntegerField()
    mgpu = serializers.IntegerField()
    ended_at = serializers.DateTimeField()
    used_mgpu_s = serializers.IntegerField()
    end_reason = serializers.CharField(allow_null=True, help_text="Of the job, once it has ended")
    exit_code = serializers.IntegerField(allow_null=True)


class NamedQuotaChangeSerializer(QuotaChangeSerializer):
    """A change of a quota, with the quota that it changed."""

    node = serializers.CharField(source="quota.node.display_path")
    pool = serializers.CharField(source="quota.pool.name")

    class Meta:
        model = QuotaChange
        fields = [*QuotaChangeSerializer.Meta.fields, "node", "pool"]


class TodaySerializer(serializers.Serializer[Any]):
    """Lost work, ended attempts and changes of quotas in [since, until)."""

    team = serializers.CharField(allow_null=True)
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    totals = EndedTotalSerializer(many=True)
    waste = WasteSerializer(many=True, help_text=f"The {WASTE_MAX} with the most, that first")
    ends = EndedAttemptSerializer(many=True, help_text=f"The latest {ENDS_MAX}, newest first")
    quota_changes = NamedQuotaChangeSerializer(
        many=True, help_text=f"The latest {CHANGES_MAX}, newest first"
    )


class TodayView(APIView):
    """The latest lost work, ended attempts and changes of quotas."""

    @extend_schema(
        operation_id="get_today",
        summary="Lost work, ended attempts and changes of quotas since yesterday",
        description="Of the jobs that the caller may see, and of the quotas of the nodes whose "
        "jobs they may see.",
        parameters=[
            OpenApiParameter("team", OpenApiTypes.STR, description="Only below this node (path)"),
            OpenApiParameter(
                "since",
                OpenApiTypes.DATETIME,
                description=f"At most {REACH_MAX.days} days ago; 24 hours ago if absent",
            ),
        ],
        responses=answers({200: TodaySerializer}, 404),
    )
    def get(self, request: Request) -> Response:
        """The latest."""
        refuse_unknown_parameters(request, {"team", "since"})
        now = SystemClock().now()
        since = request.query_params.get("since")
        found = recent_ends(
            actor=actor_from(request),
            team=request.query_params.get("team"),
            since=now - _DAY if since is None else time_or_refuse(since, "since"),
            now=now,
        )
        return Response(TodaySerializer(found).data)
