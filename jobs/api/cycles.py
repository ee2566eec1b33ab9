"""Recorded cycles, and the decisions of cycles about jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from arbiter.api.decisions import Kind, Right
from jobs.models import DECISIONS
from jobs.reading.decision_list import decision_line, list_decisions
from jobs.reading.decisions import CYCLES_MAX, cycle_body, decisions_about, list_cycles
from jobs.whatif.replaying import replay_cycle
from tenants.api.authentication import actor_from
from webapi.paging import (
    page_body,
    page_by_id,
    refuse_unknown_parameters,
)
from webapi.parameters import PageParameters, Parameters, several, text, time, whole
from webapi.serializers import DEVICE_HELP, DEVICES, answers, page_of

_LIMIT_DEFAULT = 5
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


class DecidedParameters(Parameters):
    """The times between which something was decided."""

    decided_at__gte: datetime | None = time()
    decided_at__lt: datetime | None = time()


class CycleParameters(DecidedParameters, PageParameters):
    """The filters of the list of cycles."""


class DecisionParameters(CycleParameters):
    """The filters of the list of decisions."""

    team: str | None = text("Only below this node (path)")
    pool: str | None = text("Only in this pool")
    decision: frozenset[str] | None = several(DECISIONS, "Only these, comma-separated")


class JobDecisionParameters(DecidedParameters):
    """The decisions about one job that are shown."""

    limit: int = whole(
        f"Maximum number of cycles, 1 to {CYCLES_MAX}",
        low=1,
        high=CYCLES_MAX,
        default=_LIMIT_DEFAULT,
    )


class DecisionList(APIView):
    """Decisions of recorded cycles about the jobs that the caller may see."""

    @extend_schema(
        operation_id="list_decisions",
        summary="Starts and preemptions",
        description="Decisions about the jobs that the caller may see, newest first. Managers of a "
        "team see those about its jobs. Jobs of another organization are null. A line is deleted "
        "with the record of its cycle.",
        parameters=DecisionParameters.in_openapi(),
        responses=answers({200: page_of(DecisionLineSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """Return a page of decisions."""
        asked, actor = DecisionParameters.read(request), actor_from(request)
        lines = list_decisions(
            actor=actor,
            team=asked.team,
            pool=asked.pool,
            kinds=None if asked.decision is None else [Kind(one) for one in asked.decision],
            since=asked.decided_at__gte,
            until=asked.decided_at__lt,
        )
        page = page_by_id(asked, lines, newest_first=True)
        return Response(page_body(request, page, lambda line: decision_line(line, actor=actor)))


class CycleList(APIView):
    """The recorded cycles."""

    @extend_schema(
        operation_id="list_cycles",
        summary="Recorded cycles",
        description="Cycles that decided something, newest first. For platform administrators.",
        parameters=CycleParameters.in_openapi(),
        responses=answers({200: page_of(CycleSerializer)}, 403),
    )
    def get(self, request: Request) -> Response:
        """Return a page of cycles."""
        asked = CycleParameters.read(request)
        since, until = asked.decided_at__gte, asked.decided_at__lt
        cycles = list_cycles(actor=actor_from(request), since=since, until=until)
        page = page_by_id(asked, cycles, newest_first=True)
        return Response(page_body(request, page, cycle_body))


class CycleDetail(APIView):
    """One recorded cycle."""

    @extend_schema(
        operation_id="replay_cycle",
        summary="Replay a cycle: its decisions then, and today's",
        description="Decides again on the recorded input of the cycle. For platform "
        "administrators. 409 for a record that cannot be read.",
        responses=answers({200: ReplayedCycleSerializer}, 403, 404, 409),
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
        parameters=JobDecisionParameters.in_openapi(),
        responses=answers({200: JobDecisionsSerializer}, 404, 409),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the decisions about the job, newest first."""
        asked = JobDecisionParameters.read(request)
        items = decisions_about(
            job_id,
            actor=actor_from(request),
            since=asked.decided_at__gte,
            until=asked.decided_at__lt,
            limit=asked.limit,
        )
        return Response({"items": items})
