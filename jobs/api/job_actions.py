"""Actions on many jobs: their preview, and their effect."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.actions.bulk import (
    JOBS_MAX,
    STATES,
    BulkAction,
    BulkPlan,
    BulkResult,
    change_jobs,
    plan_of_action,
)
from jobs.api.job_parameters import JobFilterParameters
from jobs.reading.job_orders import Order
from jobs.reading.listing import JobFilter, page_of_jobs
from primitives.clock import SystemClock
from primitives.errors import Forbidden, InvalidRequest
from tenants.access import Actor
from tenants.api.authentication import actor_from
from tenants.roles import Permission
from webapi.idempotency import respond_once
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import IDEMPOTENCY_KEY, BoundedListField, StrictSerializer, answers

ACTIONS = [action.value for action in BulkAction]


class JobActionSerializer(StrictSerializer):
    """An action on chosen jobs."""

    action = serializers.ChoiceField(choices=ACTIONS)
    jobs = BoundedListField(
        child=serializers.UUIDField(), max_length=JOBS_MAX, allow_empty=False, help_text="Their ids"
    )


class JobActionPreviewRequestSerializer(StrictSerializer):
    """An action to preview: on chosen jobs, or on all jobs that the query parameters match."""

    action = serializers.ChoiceField(choices=ACTIONS)
    jobs = BoundedListField(
        child=serializers.UUIDField(),
        max_length=JOBS_MAX,
        allow_empty=False,
        required=False,
        allow_null=True,
        default=None,
        help_text="Their ids; null: all jobs that match, in a state that the action changes",
    )


class JobActionPreviewSerializer(serializers.Serializer[Any]):
    """The jobs that an action would change."""

    jobs = serializers.ListField(
        child=serializers.UUIDField(), help_text="Ids to send to `POST /job-actions`"
    )
    states = serializers.DictField(
        child=serializers.IntegerField(), help_text="Their number by state"
    )
    users = serializers.DictField(
        child=serializers.IntegerField(), help_text="Their number by username"
    )
    own = serializers.IntegerField(help_text="How many of them are the caller's own")
    forbidden = serializers.IntegerField(help_text="Other jobs that the caller may not change")
    unsuited = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Other jobs by state, which the action does not change",
    )


class JobActionProblemSerializer(serializers.Serializer[Any]):
    """The reason why the action on a job was refused."""

    code = serializers.CharField()
    detail = serializers.CharField()


class JobActionResultSerializer(serializers.Serializer[Any]):
    """The result of an action on one job."""

    job = serializers.UUIDField()
    state = serializers.CharField(
        allow_null=True, help_text="After the action; a job that is being stopped still runs"
    )
    problem = JobActionProblemSerializer(allow_null=True)


class JobActionResultsSerializer(serializers.Serializer[Any]):
    """The results of an action, one for each job."""

    items = JobActionResultSerializer(many=True)
    changed = serializers.IntegerField()
    refused = serializers.IntegerField()


class JobActionPreview(APIView):
    """The preview of an action on many jobs."""

    @extend_schema(
        operation_id="preview_job_action",
        summary="Preview an action on many jobs",
        description="Changes nothing. The query parameters are the filters of the list of jobs. "
        f"More than {JOBS_MAX:,} jobs are refused.",
        parameters=JobFilterParameters.in_openapi(),
        request=JobActionPreviewRequestSerializer,
        responses=answers({200: JobActionPreviewSerializer}, 403),
    )
    def post(self, request: Request) -> Response:
        """Return the jobs that the action would change."""
        asked = JobFilterParameters.read(request)
        body = JobActionPreviewRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor, action = _actor(request), BulkAction(body.validated_data["action"])
        chosen = body.validated_data["jobs"]
        ids = _matching(action, asked.filter, actor=actor) if chosen is None else chosen
        return Response(_plan_body(plan_of_action(action, ids, actor=actor)))


class JobActions(APIView):
    """Actions on many jobs."""

    @extend_schema(
        operation_id="create_job_action",
        summary="Cancel, hold, release or requeue many jobs",
        description=f"At most {JOBS_MAX:,} jobs. Each has a result of its own; a refusal of one "
        "leaves the others changed.",
        parameters=[IDEMPOTENCY_KEY],
        request=JobActionSerializer,
        responses=answers({200: JobActionResultsSerializer}, 403, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Do the action on each job, and return the results."""
        refuse_unknown_parameters(request, set())
        body = JobActionSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        actor, now = _actor(request), SystemClock().now()

        def act() -> tuple[int, dict[str, Any]]:
            results = change_jobs(
                BulkAction(body.validated_data["action"]),
                body.validated_data["jobs"],
                actor=actor,
                now=now,
            )
            return 200, _results_body(results)

        return respond_once(request, principal_id=actor.user.pk, now=now, act=act)


def _actor(request: Request) -> Actor:
    """Return the caller. Raises Forbidden for a token that changes no job at all."""
    actor = actor_from(request)
    if not actor.permits(Permission.SUBMIT_JOBS) and not actor.permits(Permission.MANAGE_JOBS):
        raise Forbidden("Changing jobs needs a token with the scope jobs.")
    return actor


def _matching(action: BulkAction, wanted: JobFilter, *, actor: Actor) -> list[Any]:
    """Return the ids of all matching jobs in a state that the action changes."""
    states = STATES[action] if wanted.states is None else STATES[action] & set(wanted.states)
    if not states:
        return []
    found = page_of_jobs(
        actor, wanted.in_states(states), order=Order(), after=None, limit=JOBS_MAX + 1
    )
    if len(found) > JOBS_MAX:
        raise InvalidRequest(
            f"More than {JOBS_MAX:,} jobs match. Narrow the list, and change one part after the "
            "other."
        )
    return [one.job_id for one in found]


def _plan_body(plan: BulkPlan) -> dict[str, Any]:
    return {
        "jobs": [str(job_id) for job_id in plan.jobs],
        "states": dict(plan.states),
        "users": dict(plan.users),
        "own": plan.own,
        "forbidden": plan.forbidden,
        "unsuited": dict(plan.unsuited),
    }


def _results_body(results: list[BulkResult]) -> dict[str, Any]:
    items = [
        {
            "job": str(one.job_id),
            "state": one.state,
            "problem": None
            if one.problem is None
            else {"code": one.problem.code, "detail": one.problem.detail},
        }
        for one in results
    ]
    refused = sum(one.problem is not None for one in results)
    return {"items": items, "changed": len(items) - refused, "refused": refused}
