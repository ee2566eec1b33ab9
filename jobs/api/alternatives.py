"""What could be asked for instead of a waiting job."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.rendering import plan_body
from jobs.api.serializers import JobPlanSerializer, JobRequestSerializer
from jobs.queue.reason_documents import iso
from jobs.whatif.alternatives import alternatives_to
from jobs.whatif.variants import VARIANTS_MAX
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.paging import refuse_body, refuse_unknown_parameters
from webapi.serializers import answers


class JobAlternativeSerializer(serializers.Serializer[Any]):
    """The same work asked for otherwise, and what would become of it."""

    # The stubs know `label` as that of the serializer itself; here it is a member of the answer.
    label = serializers.CharField(  # type: ignore[assignment]
        help_text="What is different, in words"
    )
    changes = serializers.DictField(
        help_text="The members of the request that differ from those of the job; null: left out"
    )
    request = JobRequestSerializer(
        allow_null=True,
        help_text="The whole body for `POST /jobs`; null for who may not read the job's script",
    )
    plan = JobPlanSerializer(help_text="As a dry run of the request tells it")


class JobAlternativesSerializer(serializers.Serializer[Any]):
    """What could be asked for instead of a waiting job."""

    as_of = serializers.DateTimeField()
    sentence = serializers.CharField(help_text="All in one sentence, or why there is none")
    items = JobAlternativeSerializer(
        many=True,
        help_text=f"At most {VARIANTS_MAX}: the best outcome first, among equals the smallest "
        "concession",
    )
    untried = serializers.IntegerField(help_text="How many more there was no time for")


class JobAlternatives(APIView):
    """What could be asked for instead of a waiting job."""

    @extend_schema(
        operation_id="find_job_alternatives",
        summary="What to ask for instead of a waiting job",
        description="The same work in another shape or pool, shorter, with less: each is decided "
        "by the arbiter alone, at one moment, as if the caller sent it and the job were cancelled. "
        "Changes nothing. One answer is worked out at a time; 429 says when to come back. Needs "
        "the right to submit to the job's team. Where asking otherwise does not help there are no "
        "items, and `sentence` says why.",
        request=None,
        responses=answers({200: JobAlternativesSerializer}, 403, 404, 429),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """All of them, the best first."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        refuse_body(request)
        found = alternatives_to(job_id, actor=actor, now=SystemClock().now())
        return Response(
            {
                "as_of": iso(found.as_of),
                "sentence": found.sentence,
                "items": [
                    {
                        "label": one.variant.label,
                        "changes": one.variant.changes,
                        "request": one.request,
                        "plan": plan_body(one.preview),
                    }
                    for one in found.found
                ],
                "untried": found.untried,
            }
        )
