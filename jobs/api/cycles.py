"""Recorded cycles, and the decisions of cycles about jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from arbiter.api.decisions import Kind, Right
from jobs.models import DECISIONS
from jobs.reading.decision_list import decision_line, list_decisions
from jobs.reading.decisions import CYCLES_MAX, cycle_body, decisions_about, list_cycles
from jobs.whatif.replaying import replay_cycle
from primitives.errors import FieldError, InvalidRequest
from tenants.api.authentication import actor_from
from webapi.paging import (
    page_body,
    page_by_id,
    refuse_unknown_filters,
    refuse_unknown_parameters,
    time_or_refuse,
)
from webapi.serializers import DEVICE_HELP, DEVICES, PAGE_PARAMETERS, answers, page_of

_LIMIT_DEFAULT = 5
_TIMES = (
    OpenApiParameter("decided_at__gte", OpenApiTypes.DATETIME),
    OpenApiParameter("decided_at__lt", OpenApiTypes.DATETIME),
)
KINDS: list[str] = [kind.value for kind in Kind]
_RIGHTS: list[str] = [right.value for right in Right]


class NamedJobSerializer(serializers.Serializer[Any]):
    """A job. Its members are null where the caller may not see it."""

    id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    user = serializers.CharField(allow_null=True)
    team = serializers.CharField(allow_null=True)


class StandingSerializer(serializers.Serializer[Any]):
    """Guarantee and use of a node of the tree in the job's pool, before the cycle."""

    node = serializers.CharField()
    guaranteed_mgpu = serializers.IntegerField()
    in_use_mgpu = serializers.IntegerField()


class VictimOfCycleSerializer(NamedJobSerializer):
    """A preempted job. Its members are null where the caller may not see it."""

    mgpu = serializers.IntegerField()
    grace_s = serializers.IntegerField()
    right = serializers.ChoiceField(
        choices=_RIGHTS, help_text="The rule that allowed the preemption"
    )
    guaranteed_mgpu = serializers.IntegerField(
        allow_null=True, help_text="The part inside its team's guarantee"
    )
    unsaved_s = serializers.IntegerField(
        allow_null=True, help_text="Run time since its last known checkpoint, or its start"
    )
    priority_class = serializers.CharField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)


class BeneficiarySerializer(NamedJobSerializer):
    """The job for which another job was preempted."""

    mgpu = serializers.IntegerField()
    standings = StandingSerializer(many=True)


class DecisionSerializer(serializers.Serializer[Any]):
    """The decision of a cycle about a job, with the numbers behind it."""

    cycle = serializers.UUIDField()
    decided_at = serializers.DateTimeField()
    decision = serializers.ChoiceField(choices=KINDS)
    sentence = serializers.CharField()
    job = NamedJobSerializer()
    pool = serializers.CharField(allow_null=True)
    device = serializers.ChoiceField(
        choices=DEVICES, help_text=f"{DEVICE_HELP}. `gpu` if the pool is not known"
    )
    cluster = serializers.CharField(allow_null=True)
    mgpu = serializers.IntegerField(allow_null=True)
    guaranteed_mgpu = serializers.IntegerField(
        allow_null=True, help_text="The part inside its team's guarantee"
    )
    grace_until = serializers.DateTimeField(allow_null=True)
    standings = StandingSerializer(
        many=True, help_text="The team of the job, and every node above it"
    )
    beneficiary = BeneficiarySerializer(allow_null=True)
    victims = VictimOfCycleSerializer(many=True)


class DecisionLineSerializer(serializers.Serializer[Any]):
    """The decision of a cycle about a job, in one line. `decision` says which members are set."""

    id = serializers.IntegerField()
    cycle = serializers.UUIDField()
    decided_at = serializers.DateTimeField()
    decision = serializers.ChoiceField(choices=DECISIONS)
    job = NamedJobSerializer()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    mgpu = serializers.IntegerField()
    guaranteed_mgpu = serializers.IntegerField(
        allow_null=True, help_text="Of `started` and `stopped`: the part inside the guarantee"
    )
    beneficiary = NamedJobSerializer(
        allow_null=True,
        help_text="Of `stopped`: the job that gets the GPUs; nulls: of another organization",
    )
    right = serializers.ChoiceField(choices=_RIGHTS, allow_null=True, help_text="Of `stopped`")
    unsaved_s = serializers.IntegerField(
        allow_null=True,
        help_text="Of `stopped`: run time since the last known checkpoint, or start",
    )
    at_risk_mgpu_s = serializers.IntegerField(
        allow_null=True, help_text="Of `stopped`: `unsaved_s` times the GPUs that it held"
    )
    grace_until = serializers.DateTimeField(
        allow_null=True, help_text="Of `claimed` and `stopped`: end of the grace"
    )
    victims = serializers.IntegerField(help_text="Of `claimed`: number of jobs preempted for it")
    victims_mgpu = serializers.IntegerField(help_text="Of `claimed`: GPUs that these held")


class JobDecisionsSerializer(serializers.Serializer[Any]):
    """Decisions about one job, newest first."""

    items = DecisionSerializer(many=True)


class CycleSerializer(serializers.Serializer[Any]):
    """A recorded cycle, in counts of jobs. `version` is the version of Tidegate that decided."""

    id = serializers.UUIDField()
    decided_at = serializers.DateTimeField()
    epoch = serializers.IntegerField()
    version = serializers.CharField()
    started = serializers.IntegerField()
    claimed = serializers.IntegerField()
    stopped = serializers.IntegerField()
    claims_dropped = serializers.IntegerField()
    bytes = serializers.IntegerField()


class FateSerializer(serializers.Serializer[Any]):
    """The decision of a plan about a job. `waits` also stands for a job that runs on."""

    decision = serializers.ChoiceField(choices=KINDS)
    cluster = serializers.CharField(allow_null=True)
    nodes = serializers.ListField(child=serializers.CharField())
    other_jobs = NamedJobSerializer(many=True)
    code = serializers.CharField(allow_null=True)
    grace_s = serializers.IntegerField(allow_null=True)


class DifferenceSerializer(serializers.Serializer[Any]):
    """A job about which the decision would be another one today."""

    job = NamedJobSerializer()
    then = FateSerializer()
    today = FateSerializer()


class ReplayedCycleSerializer(CycleSerializer):
    """A recorded cycle, decided again by this version and today's policy."""

    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    decisions = DecisionSerializer(many=True)
    is_same_policy = serializers.BooleanField(
        help_text="Whether settings, ranks, rules and priority classes are unchanged"
    )
    difference_count = serializers.IntegerField()
    differences = DifferenceSerializer(many=True, help_text="The first 500")


class DecisionList(APIView):
    """Decisions of recorded cycles about the jobs that the caller may see."""

    @extend_schema(
        operation_id="list_decisions",
        summary="Starts and preemptions",
        description="Decisions about the jobs that the caller may see, newest first. Managers of a "
        "team see those about its jobs. Jobs of another organization are null. A line is deleted "
        "with the record of its cycle.",
        parameters=[
            OpenApiParameter("team", OpenApiTypes.STR, description="Only below this node (path)"),
            OpenApiParameter("pool", OpenApiTypes.STR, description="Only in this pool"),
            OpenApiParameter(
                "decision",
                OpenApiTypes.STR,
                description=f"Only these, comma-separated: {', '.join(DECISIONS)}",
            ),
            *_TIMES,
            *PAGE_PARAMETERS,
        ],
        responses=answers({200: page_of(DecisionLineSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """Return a page of decisions."""
        refuse_unknown_filters(
            request, {"team", "pool", "decision", "decided_at__gte", "decided_at__lt"}
        )
        actor = actor_from(request)
        since, until = _times(request)
        lines = list_decisions(
            actor=actor,
            team=request.query_params.get("team"),
            pool=request.query_params.get("pool"),
            kinds=_kinds(request),
            since=since,
            until=until,
        )
        page = page_by_id(request, lines, newest_first=True)
        return Response(page_body(request, page, lambda line: decision_line(line, actor=actor)))


class CycleList(APIView):
    """The recorded cycles."""

    @extend_schema(
        operation_id="list_cycles",
        summary="Recorded cycles",
        description="Cycles that decided something, newest first. For platform administrators.",
        parameters=[*_TIMES, *PAGE_PARAMETERS],
        responses=answers({200: page_of(CycleSerializer)}, 403),
    )
    def get(self, request: Request) -> Response:
        """Return a page of cycles."""
        refuse_unknown_filters(request, {"decided_at__gte", "decided_at__lt"})
        since, until = _times(request)
        cycles = list_cycles(actor=actor_from(request), since=since, until=until)
        page = page_by_id(request, cycles, newest_first=True)
        return Response(page_body(request, page, cycle_body))


class CycleDetail(APIView):
    """One recorded cycle."""

    @extend_schema(
        operation_id="replay_cycle",
        summary="Replay a cycle: its decisions then, and today's",
        description="Decides again on the recorded input of the cycle. For platform "
        "administrators. 409 for a record that cannot be read.",
        responses=answers({200: ReplayedCycleSerializer}, 403, 404, 409, 429),
    )
    def get(self, request: Request, cycle_id: UUID) -> Response:
        """Replay the cycle and return the differences."""
        refuse_unknown_parameters(request, set())
        return Response(replay_cycle(cycle_id, actor=actor_from(request)))


class JobDecisions(APIView):
    """Decisions of cycles about a job."""

    @extend_schema(
        operation_id="list_job_decisions",
        summary="Why a job was started or preempted",
        description="From recorded cycles, newest first, with the numbers of that moment. Other "
        "jobs are null where the caller may not see them.",
        parameters=[
            *_TIMES,
            OpenApiParameter(
                "limit",
                OpenApiTypes.INT,
                default=_LIMIT_DEFAULT,
                description=f"Maximum number of cycles, 1 to {CYCLES_MAX}",
            ),
        ],
        responses=answers({200: JobDecisionsSerializer}, 404, 409),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the decisions about the job, newest first."""
        refuse_unknown_parameters(request, {"decided_at__gte", "decided_at__lt", "limit"})
        since, until = _times(request)
        items = decisions_about(
            job_id, actor=actor_from(request), since=since, until=until, limit=_limit(request)
        )
        return Response({"items": items})


def _kinds(request: Request) -> list[Kind] | None:
    text = request.query_params.get("decision")
    if text is None:
        return None
    given = text.split(",")
    if not set(given) <= set(DECISIONS):
        known = f"must be some of {', '.join(DECISIONS)}"
        raise InvalidRequest(f"decision {known}.", errors=[FieldError("/decision", known)])
    return [Kind(one) for one in given]


def _times(request: Request) -> tuple[datetime | None, datetime | None]:
    names = ("decided_at__gte", "decided_at__lt")
    given = [request.query_params.get(name) for name in names]
    since, until = (
        None if text is None else time_or_refuse(text, name)
        for name, text in zip(names, given, strict=True)
    )
    return since, until


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(_LIMIT_DEFAULT))
    if text.isascii() and text.isdigit() and len(text) <= 2 and 1 <= int(text) <= CYCLES_MAX:
        return int(text)
    raise InvalidRequest(
        f"limit must be a whole number from 1 to {CYCLES_MAX}.",
        errors=[FieldError("/limit", f"must be from 1 to {CYCLES_MAX}")],
    )
