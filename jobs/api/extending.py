"""A longer time limit of a job: its plan, and the extension itself."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.models import PriceMode
from jobs.actions.extending import LONGEST_S, extend_job
from jobs.api import serializers as shapes
from jobs.api.rendering import detail_body, extension_body, written
from jobs.whatif.extension import ExtensionPlan, plan_extension
from primitives.clock import SystemClock
from primitives.errors import Conflict
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import StrictSerializer, WholeNumberField, answers


class ExtensionRequestSerializer(StrictSerializer):
    """A longer time limit in seconds: exactly one of the two. Whole minutes, rounded up."""

    by_s = WholeNumberField(
        min_value=1, max_value=LONGEST_S, required=False, help_text="How much longer"
    )
    time_limit_s = WholeNumberField(
        min_value=1, max_value=LONGEST_S, required=False, help_text="The whole new limit"
    )


class DelaySerializer(serializers.Serializer[Any]):
    """A waiting job that would start later."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField()
    user = serializers.CharField()
    before = serializers.DateTimeField(allow_null=True)
    after = serializers.DateTimeField(
        allow_null=True, help_text="Null if it does not start before `until`"
    )
    later_s = serializers.IntegerField()
    is_at_least = serializers.BooleanField(help_text="It may be later than by `later_s`")


class ExtensionPlanSerializer(serializers.Serializer[Any]):
    """The effect of a longer time limit. Times are null for a job that waits.

    The look-ahead assumes that running jobs use their full time limit and that no new jobs are
    submitted.
    """

    job = serializers.UUIDField()
    before_s = serializers.IntegerField(help_text="The present time limit")
    time_limit_s = serializers.IntegerField(help_text="The new time limit")
    ends_before = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)
    notice_at = serializers.DateTimeField(allow_null=True)
    mgpu = serializers.IntegerField()
    cost_nano = serializers.IntegerField(
        allow_null=True,
        help_text="What the longer run is billed at most, at present prices; null without a price",
    )
    unbilled_nano = serializers.IntegerField(
        allow_null=True,
        help_text="What it would cost beside it: showback, or guaranteed use that the team's "
        "commitment pays. It is not billed",
    )
    price_mode = serializers.ChoiceField(choices=PriceMode.choices, allow_null=True)
    currency = serializers.CharField(allow_null=True)
    budgets = shapes.BudgetEffectSerializer(
        many=True,
        help_text="Those of them that you may see. Of a running job `needed` is what the longer "
        "limit adds, of a waiting one all that it may use",
    )
    delays = DelaySerializer(many=True)
    delayed_jobs = serializers.IntegerField(help_text="All, also those that you may not see")
    until = serializers.DateTimeField(help_text="End of the look-ahead")
    is_cut = serializers.BooleanField(help_text="The look-ahead ended early, to limit the work")
    notes = serializers.ListField(
        child=serializers.CharField(),
        help_text="Budgets that have too little left, and a cost cap that ends the job earlier",
    )
    unseen = serializers.CharField(
        help_text="Why it may delay more jobs than these; empty if the look-ahead saw the new end"
    )
    refusal = serializers.CharField(help_text="Why you may not extend it so; empty if you may")


class JobExtensionPlan(APIView):
    """The plan of an extension."""

    @extend_schema(
        operation_id="plan_job_extension",
        summary="Plan a longer time limit of a job",
        description="The plan has the new end, the most that it costs, what budgets have left "
        "after it, and the waiting jobs that would start later. It changes nothing. The server "
        "works on one look-ahead at a time; 429 says when to try again.",
        request=ExtensionRequestSerializer,
        responses=answers({200: ExtensionPlanSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Return the plan."""
        plan = _plan(request, job_id, actor_from(request), SystemClock().now())
        return Response(written(extension_body(plan)))


class JobExtend(APIView):
    """The extension of a job's time limit."""

    @extend_schema(
        operation_id="extend_job",
        summary="Make the time limit of a job longer",
        description="A running job's cluster gets the new limit at once. 409 for a job that has "
        "had the notice of its limit, or will soon have it on a cluster that tells its jobs late. "
        "409 also if waiting jobs that you may not manage would start later, or might, after the "
        "look-ahead, and if a budget that stops starts has too little left. The server works "
        "on one look-ahead at a time; 429 says when to try again.",
        request=ExtensionRequestSerializer,
        responses=answers({200: shapes.JobDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Extend the job and return it."""
        actor, now = actor_from(request), SystemClock().now()
        plan = _plan(request, job_id, actor, now)
        if plan.refusal:
            raise Conflict(plan.refusal)
        extend_job(job_id, plan.limit_s, before_s=plan.before_s, actor=actor, now=now)
        return Response(written(detail_body(job_id, actor=actor, now=now)))


def _plan(request: Request, job_id: UUID, actor: Actor, now: datetime) -> ExtensionPlan:
    refuse_unknown_parameters(request, set())
    body = ExtensionRequestSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    return plan_extension(
        job_id,
        by_s=body.validated_data.get("by_s"),
        to_s=body.validated_data.get("time_limit_s"),
        actor=actor,
        now=now,
    )
