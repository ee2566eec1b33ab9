"""Checkpoints of running jobs, told by people and by the jobs themselves."""

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
    tell_checkpoint,
)
from primitives.clock import SystemClock
from primitives.errors import Forbidden, Unauthenticated
from tenants.api.authentication import (
    BrowserSessionAuthentication,
    TokenAuthentication,
    actor_from,
)
from webapi.paging import refuse_unknown_parameters
from webapi.serializers import StrictSerializer, UtcTimeField, WholeNumberField, answers


class CheckpointRequestSerializer(StrictSerializer):
    """When the job saved its work."""

    attempt = WholeNumberField(
        min_value=1,
        max_value=2**31 - 1,
        required=False,
        help_text="Refused unless it runs now; if absent, whichever runs",
    )
    at = UtcTimeField(required=False, help_text="Now if absent")


class CheckpointSerializer(serializers.Serializer[Any]):
    """The last known checkpoint of an attempt."""

    attempt = serializers.IntegerField()
    checkpoint_at = serializers.DateTimeField()


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """An attempt that speaks for itself. It is nobody's user and may do nothing else."""

    number: int
    is_authenticated: bool = True


class AttemptAuthentication(BaseAuthentication):
    """`Authorization: Bearer tgc_...`, which an attempt was started with.

    It comes first: a request with such a token is judged by it alone.
    """

    def authenticate(self, request: Request) -> tuple[RunningAttempt, RunningAttempt] | None:
        """The attempt. Raises Unauthenticated for the token of another job, and for none at all."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.startswith(TOKEN_PREFIX):
            return None
        number = attempt_of_token(token, request.parser_context["kwargs"]["job_id"])
        if number is None:
            raise Unauthenticated("This is not the checkpoint token of an attempt of this job.")
        attempt = RunningAttempt(number)
        return attempt, attempt

    def authenticate_header(self, request: Request) -> str:
        """Makes an anonymous request 401 instead of 403."""
        return "Bearer"


class JobCheckpoints(APIView):
    """What a running job tells of its checkpoints."""

    authentication_classes = (
        AttemptAuthentication,
        TokenAuthentication,
        BrowserSessionAuthentication,
    )

    @extend_schema(
        operation_id="tell_checkpoint",
        summary="Tell that a running job has saved its work",
        description="Stopping it is then known to lose only what it has done since. For who "
        "manages the job, and for the running attempt itself, by the token that it finds in "
        "`TIDEGATE_CHECKPOINT_TOKEN`. An earlier time than the known one changes nothing.",
        request=CheckpointRequestSerializer,
        responses=answers({200: CheckpointSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """The last checkpoint that is known now."""
        refuse_unknown_parameters(request, set())
        body = CheckpointRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        told: dict[str, Any] = body.validated_data
        attempt, at, now = told.get("attempt"), told.get("at"), SystemClock().now()
        own = request.auth
        if isinstance(own, RunningAttempt):
            if attempt not in (None, own.number):
                raise Forbidden(f"This token is that of attempt {own.number}.")
            known = record_checkpoint(job_id, attempt=own.number, at=at, now=now)
        else:
            known = tell_checkpoint(
                job_id, actor=actor_from(request), attempt=attempt, at=at, now=now
            )
        return Response(CheckpointSerializer(known).data)
