"""Alternatives to a waiting job: other requests for the same work."""

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
    """Another request for the same work, and its plan."""

    # The stubs know `label` as that of the serializer itself; here it is a member of the answer.
    label = serializers.CharField(  # type: ignore[assignment]
        help_text="The difference to the job, in words"
    )
    changes = serializers.DictField(
        help_text="Members of the request that differ from the job's; null: left out"
    )
    request = JobRequestSerializer(
        allow_null=True,
        help_text="The body for `POST /jobs`; null if the caller may not read the job's script",
    )
    plan = JobPlanSerializer(help_text="The answer to a dry run of the request")


class JobAlternativesSerializer(serializers.Serializer[Any]):
    """The alternatives to a waiting job."""

    as_of = serializers.DateTimeField()
    sentence = serializers.CharField(help_text="A summary, or why there are no alternatives")
    items = JobAlternativeSerializer(
        many=True,
        help_text=f"At most {VARIANTS_MAX}: the best outcome first, then the smallest concession",
    )
    untried = serializers.IntegerField(
        help_text="Alternatives that were not tried for lack of time"
    )


class JobAlternatives(APIView):
    """The alternatives to a waiting job."""

    @extend_schema(
        operation_id="find_job_alternatives",
        summary="Find alternatives to a waiting job",
        description="Tests the same work in other shapes and pools, with shorter time limits and "
        "with fewer GPUs. The arbiter decides each alternative on its own, as if "
        "the caller submitted it and the job were cancelled. Changes nothing. The server works on "
        "one answer at a time; 429 says when to try again. Needs the right to submit to the job's "
        "team. If no alternative helps, `items` is empty and `sentence` says why.",
        request=None,
        responses=answers({200: JobAlternativesSerializer}, 403, 404),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Return the alternatives, the best first."""
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
