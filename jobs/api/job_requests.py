"""The request of a stored job, for `POST /jobs`, a YAML file or the form."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.serializers import JobRequestSerializer
from jobs.reading.stored_requests import request_of_job
from manifests.writing import yaml_text
from primitives.clock import SystemClock
from tenants.api.authentication import actor_from
from webapi.formats import NamedFormats, YamlRenderer
from webapi.parameters import Parameters, choice
from webapi.serializers import answers


class JobRequestParameters(Parameters):
    """The parameters of the request of a stored job."""

    format: str = choice(("json", "yaml"), "`yaml`: a file for `tidegate submit`", default="json")


class StoredJobRequest(APIView):
    """The request of a stored job."""

    renderer_classes = [JSONRenderer, YamlRenderer]
    content_negotiation_class = NamedFormats

    @extend_schema(
        operation_id="get_job_request",
        summary="The request that submits a job again",
        description="The body for `POST /jobs`, without members that have their default. A task of "
        "an array is requested alone. 409 for a job that was submitted directly to its cluster.",
        parameters=JobRequestParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): JobRequestSerializer,  # type: ignore[dict-item]
                (200, "application/yaml"): OpenApiTypes.OBJECT,  # type: ignore[dict-item]
            },
            403,
            404,
            409,
        ),
    )
    def get(self, request: Request, job_id: UUID) -> Response | HttpResponse:
        """Return the body of the request, as JSON or YAML."""
        JobRequestParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        body = request_of_job(job_id, actor=actor, now=now)
        if request.accepted_renderer.format != YamlRenderer.format:
            return Response(body)
        return HttpResponse(
            yaml_text(body),
            content_type=f"{YamlRenderer.media_type}; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="job-{job_id}.yaml"'},
        )
