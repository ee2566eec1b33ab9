"""Checkpoints of running jobs, reported by people and by the jobs themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.actions.checkpoints import (
    TOKEN_PREFIX,
    attempt_of_token,
    record_checkpoint,
    report_checkpoint,
)
from jobs.models import Job
from primitives.clock import SystemClock
from primitives.errors import Forbidden, Unauthenticated
from tenants.api.authentication import (
    BrowserSessionAuthentication,
    TokenAuthentication,
    actor_from,
)
from webapi.paging import refuse_unknown_parameters
from webapi.row_access import limit_to
from webapi.serializers import StrictSerializer, UtcTimeField, WholeNumberField, answers


class CheckpointRequestSerializer(StrictSerializer):
    """The attempt that saved its work, and the time."""

    attempt = WholeNumberField(
        min_value=1,
        max_value=2**31 - 1,
        required=False,
        help_text="Must be the attempt that runs now, which is also the default",
    )
    at = UtcTimeField(required=False, help_text="Default: now")


class CheckpointSerializer(serializers.Serializer[Any]):
    """The last known checkpoint of an attempt."""

    attempt = serializers.IntegerField()
    checkpoint_at = serializers.DateTimeField()


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """An attempt that authenticated with its own token. It is no user and has no other right."""

    number: int
    is_authenticated: bool = True


class AttemptAuthentication(BaseAuthentication):
    """Authentication by `Authorization: Bearer tgc_...`, the token in an attempt's environment.

    It is tried first. No other authentication is tried for a request with such a token.
    """

    def authenticate(self, request: Request) -> tuple[RunningAttempt, RunningAttempt] | None:
        """Return the attempt, or None if the request has no such token.

        Raises Unauthenticated for an invalid token and for that of another job.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.startswith(TOKEN_PREFIX):
            return None
        number = attempt_of_token(token, request.parser_context["kwargs"]["job_id"])
        if number is None:
            raise Unauthenticated("This is not the checkpoint token of an attempt of this job.")
        job = Job.objects.filter(pk=request.parser_context["kwargs"]["job_id"])
        limit_to(job.values_list("organization", flat=True))
        attempt = RunningAttempt(number)
        return attempt, attempt

    def authenticate_header(self, request: Request) -> str:
        """Return a scheme, so that an anonymous request gets 401 instead of 403."""
        return "Bearer"


class JobCheckpoints(APIView):
    """Reports of checkpoints of a running job."""

    authentication_classes = (
        AttemptAuthentication,
        TokenAuthentication,
        BrowserSessionAuthentication,
    )

    @extend_schema(
        operation_id="tell_checkpoint",
        summary="Report that a running job has saved its work",
        description="A preemption then loses only the work since that time. Allowed for users who "
        "may manage the job, and for the running attempt itself with its token in "
        "`TIDEGATE_CHECKPOINT_TOKEN`. A time before the last known checkpoint changes nothing.",
        request=CheckpointRequestSerializer,
        responses=answers({200: CheckpointSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Record the checkpoint and return the last known one."""
        refuse_unknown_parameters(request, set())
        body = CheckpointRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        validated: dict[str, Any] = body.validated_data
        attempt, at, now = validated.get("attempt"), validated.get("at"), SystemClock().now()
        own = request.auth
        if isinstance(own, RunningAttempt):
            if attempt not in (None, own.number):
                raise Forbidden(f"This token is that of attempt {own.number}.")
            known = record_checkpoint(job_id, attempt=own.number, at=at, now=now, is_own=True)
        else:
            known = report_checkpoint(
                job_id, actor=actor_from(request), attempt=attempt, at=at, now=now
            )
        return Response(CheckpointSerializer(known).data)
