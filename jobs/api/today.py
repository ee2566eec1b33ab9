"""The resource `today`: lost work, ended attempts and changes of quotas."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.serializers import WorkCostSerializer
from jobs.reading.recent_ends import CHANGES_MAX, ENDS_MAX, REACH_MAX, WASTE_MAX, recent_ends
from primitives.clock import SystemClock
from quotas.api.serializers import QuotaChangeSerializer
from quotas.models import QuotaChange
from tenants.api.authentication import actor_from
from webapi.parameters import Parameters, text, time
from webapi.serializers import DEVICE_HELP, DEVICES, answers

_DAY = timedelta(days=1)
_LOST = ["failed", "timed_out", "preempted", "withdrawn", "node_lost"]
_ENDS = ["succeeded", "cancelled", "requeued", *_LOST, "unknown"]
_WITHDRAWN_HELP = (
    "`withdrawn`: Tidegate requeued it, because its cluster requeued it or it was changed there"
)


class EndedTotalSerializer(serializers.Serializer[Any]):
    """The sum of all ended attempts on devices of one kind."""

    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    attempts = serializers.IntegerField()
    used_mgpu_s = serializers.IntegerField(help_text="Device time from start to end")
    lost_mgpu_s = serializers.IntegerField(
        help_text="The part after the last checkpoint of attempts that failed, timed out, were "
        "preempted, were withdrawn or lost their node"
    )


class EndedJobSerializer(serializers.Serializer[Any]):
    """A job with an ended attempt."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    user = serializers.CharField()
    team = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)


_COST_HELP = "null: the caller may not see the cost of the job, or a price is missing"


class WasteSerializer(EndedJobSerializer):
    """Lost work of a job, for one kind of end."""

    how = serializers.ChoiceField(choices=_LOST, help_text=_WITHDRAWN_HELP)
    attempts = serializers.IntegerField(help_text="Number of attempts with this end")
    has_checkpoint = serializers.BooleanField(
        help_text="Whether one of these attempts reported a checkpoint"
    )
    lost_mgpu_s = serializers.IntegerField()
    cost = WorkCostSerializer(allow_null=True, help_text=_COST_HELP)


class EndedAttemptSerializer(EndedJobSerializer):
    """An ended attempt."""

    how = serializers.ChoiceField(
        choices=_ENDS,
        help_text=f"{_WITHDRAWN_HELP}; `unknown`: its cluster does not report how it ended",
    )
    attempt = serializers.IntegerField()
    mgpu = serializers.IntegerField()
    ended_at = serializers.DateTimeField()
    used_mgpu_s = serializers.IntegerField()
    end_reason = serializers.CharField(
        allow_null=True, help_text="End reason of the job, once it has ended"
    )
    exit_code = serializers.IntegerField(allow_null=True)
    cost = WorkCostSerializer(allow_null=True, help_text=_COST_HELP)


class NamedQuotaChangeSerializer(QuotaChangeSerializer):
    """A change of a quota, with the node and the pool of the quota."""

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
    waste = WasteSerializer(many=True, help_text=f"The {WASTE_MAX} largest losses, largest first")
    ends = EndedAttemptSerializer(many=True, help_text=f"The latest {ENDS_MAX}, newest first")
    quota_changes = NamedQuotaChangeSerializer(
        many=True, help_text=f"The latest {CHANGES_MAX}, newest first"
    )


class TodayParameters(Parameters):
    """The team and the time of the page of today."""

    team: str | None = text("Only below this node (path)")
    since: datetime | None = time(f"At most {REACH_MAX.days} days ago. Default: 24 hours ago")


class TodayView(APIView):
    """The latest lost work, ended attempts and changes of quotas."""

    @extend_schema(
        operation_id="get_today",
        summary="Lost work, ended attempts and changes of quotas since yesterday",
        description="Covers the jobs that the caller may see, and the quotas of nodes whose jobs "
        "the caller may see.",
        parameters=TodayParameters.in_openapi(),
        responses=answers({200: TodaySerializer}, 404),
    )
    def get(self, request: Request) -> Response:
        """Return lost work, ended attempts and changes of quotas."""
        asked, now = TodayParameters.read(request), SystemClock().now()
        found = recent_ends(
            actor=actor_from(request),
            team=asked.team,
            since=asked.since or now - _DAY,
            now=now,
        )
        return Response(TodaySerializer(found).data)
