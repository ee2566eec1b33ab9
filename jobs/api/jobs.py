"""Jobs: list, submission, details, explanation, cancel, hold and release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, cast
from uuid import UUID

import orjson
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.actions.cancellation import cancel_job, hold_job, release_job, requeue_job
from jobs.api import serializers as shapes
from jobs.api.job_parameters import JobCsvParameters, JobListParameters, JobParameters
from jobs.api.job_tokens import WITH_JOBS
from jobs.api.rendering import (
    Rights,
    detail_body,
    job_body,
    plan_body,
    written,
)
from jobs.models import Job
from jobs.reading.explaining import explanation_of
from jobs.reading.job_csv import EXPORT_MAX, csv_of_jobs
from jobs.reading.queries import (
    JobView,
    get_job,
    list_jobs,
    row_of,
)
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from jobs.templates.applying import with_template
from jobs.whatif.manifest_trials import tried
from jobs.whatif.preview import preview_job
from primitives.clock import SystemClock
from tenants.api.authentication import (
    actor_from,
)
from webapi.deprecation import deprecated
from webapi.formats import CsvRenderer, NamedFormats
from webapi.idempotency import respond_once, was_answered
from webapi.paging import Page, page_body, refuse_body, refuse_unknown_parameters
from webapi.parameters import Parameters, flag
from webapi.renderers import FastJsonRenderer
from webapi.serializers import IDEMPOTENCY_KEY, answers, page_of

_CSV = (
    f"CSV has all matching jobs, at most {EXPORT_MAX:,}; more are refused. Its times are in UTC. "
    "Its `gpus` have three decimals, and are cores in pools of CPU cores."
)


class SubmissionParameters(Parameters):
    """The parameters of a submission."""

    dry_run: bool = flag("Only plan")


class JobList(APIView):
    """The list of jobs, and the submission of a job."""

    authentication_classes = WITH_JOBS
    renderer_classes = [FastJsonRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    def get_renderers(self) -> list[Any]:
        """Return the formats of an answer. Only the list is also CSV."""
        found: list[Any] = super().get_renderers()
        return found if self.request.method == "GET" else found[:1]

    @extend_schema(
        operation_id="list_jobs",
        summary="Jobs",
        description="The caller's own jobs, and those of teams whose jobs the caller may see. "
        f"Newest first, unless sorted otherwise. {_CSV}",
        parameters=JobListParameters.in_openapi(),
        responses=answers(
            {
                (200, "application/json"): page_of(shapes.JobSerializer),  # type: ignore[dict-item]
                (200, "text/csv"): OpenApiTypes.STR,  # type: ignore[dict-item]
            }
        ),
    )
    def get(self, request: Request) -> HttpResponse:
        """Return a page of jobs, or all of them as CSV."""
        if request.accepted_renderer.format == "csv":
            return _csv_answer(request)
        asked = JobParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        order = asked.order
        found = list_jobs(
            actor,
            asked.filter,
            order=order,
            after=None if asked.cursor is None else order.position_in(asked.cursor),
            limit=asked.limit,
            now=now,
        )
        rights = Rights(actor)
        following = None if found.following is None else order.cursor_of(found.following)
        page = Page(found.jobs, following)
        body = page_body(request, page, lambda view: job_body(view, rights=rights, now=now))
        return Response(written(body))

    @extend_schema(
        operation_id="submit_job",
        summary="Submit a job, or plan it without submitting",
        description="With `dry_run=true` nothing is changed and the answer is a plan (200). With "
        "`array` one request creates all tasks of an array, or none. The answer is then the first "
        "task; its `array` has the id of the array, and the header `Location` its address.",
        request=shapes.JobRequestSerializer,
        parameters=[*SubmissionParameters.in_openapi(), IDEMPOTENCY_KEY],
        responses=answers(
            {201: shapes.SubmittedJobSerializer, 200: shapes.JobPlanSerializer}, 403, 404, 422, 429
        ),
    )
    def post(self, request: Request) -> Response:
        """Submit the job and return it, or return the plan of a dry run."""
        asked = SubmissionParameters.read(request)
        actor, now = actor_from(request), SystemClock().now()
        body = with_template(cast(Mapping[str, Any], request.data), actor=actor)
        wanted = read_job_request(body)
        if asked.dry_run or not was_answered(request, principal_id=actor.user.pk):
            wanted = tried(wanted, actor=actor)
        if asked.dry_run:
            return Response(plan_body(preview_job(wanted, actor=actor, now=now)))

        def act() -> tuple[int, dict[str, Any]]:
            job = submit_job_here(wanted, actor=actor, now=now)
            view = JobView(row_of(job), None, (), 0, 0)
            body = {**job_body(view, rights=Rights(actor), now=now), "notes": job.notes}
            return 201, orjson.loads(orjson.dumps(written(body)))

        answer = respond_once(request, principal_id=actor.user.pk, now=now, act=act)
        # An answer that was stored by a version without arrays has no such member.
        if answer.data.get("array") is not None:
            answer["Location"] = f"/api/v1/job-arrays/{answer.data['array']['id']}"
        return answer


class JobExport(APIView):
    """The list of jobs as CSV, at its old address."""

    renderer_classes = [JSONRenderer, CsvRenderer]
    content_negotiation_class = NamedFormats

    @deprecated(
        since=date(2026, 12, 1), sunset=date(2027, 6, 1), successor="/api/v1/jobs?format=csv"
    )
    @extend_schema(
        operation_id="export_jobs",
        summary="Export jobs as CSV",
        description=_CSV,
        parameters=JobCsvParameters.in_openapi(),
        responses=answers({(200, "text/csv"): OpenApiTypes.STR}),  # type: ignore[dict-item]
    )
    def get(self, request: Request) -> HttpResponse:
        """Return the jobs as lines of CSV."""
        return _csv_answer(request)


def _csv_answer(request: Request) -> HttpResponse:
    """Return all matching jobs as lines of CSV. Raises InvalidRequest for too many."""
    asked = JobCsvParameters.read(request)
    actor, now = actor_from(request), SystemClock().now()
    lines = csv_of_jobs(actor, asked.filter, order=asked.order, columns=asked.columns, now=now)
    return HttpResponse(
        "".join(lines),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="jobs-{now:%Y%m%d-%H%M%S}.csv"'},
    )


class JobDetail(APIView):
    """One job."""

    authentication_classes = WITH_JOBS

    @extend_schema(
        operation_id="get_job",
        summary="One job",
        description="Script and environment are null, and the texts of notes empty, if the caller "
        "may only see the job.",
        responses=answers({200: shapes.JobDetailSerializer}, 404),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the job with its script, environment and dependencies."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        return Response(written(detail_body(job_id, actor=actor, now=now)))


class JobExplanation(APIView):
    """The reason why a job waits."""

    authentication_classes = WITH_JOBS

    @extend_schema(
        operation_id="get_job_explanation",
        summary="Why a job waits",
        description="The code is `not_waiting` if the job does not wait.",
        responses=answers({200: shapes.ExplanationSerializer}, 404),
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the explanation."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        return Response(explanation_of(get_job(job_id, actor=actor, now=now), actor=actor, now=now))


class JobCancel(APIView):
    """The cancellation of a job."""

    authentication_classes = WITH_JOBS

    @extend_schema(
        operation_id="cancel_job",
        summary="Cancel a job",
        description="A running job gets its notice signal, and is killed 30 s later.",
        request=None,
        responses=answers({200: shapes.JobDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Cancel the job and return it."""
        return _changed(request, job_id, cancel_job)


class JobRequeue(APIView):
    """The stop of a running job that is queued again."""

    authentication_classes = WITH_JOBS

    @extend_schema(
        operation_id="requeue_job",
        summary="Stop a running job and queue it again",
        description="The job gets its notice signal, and its grace period to end. Then it is "
        "queued again at its old place, whatever its exit code.",
        request=None,
        responses=answers({200: shapes.JobDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Requeue the job and return it."""
        return _changed(request, job_id, requeue_job)


class JobHold(APIView):
    """The hold of a queued job."""

    @extend_schema(
        operation_id="hold_job",
        summary="Hold a queued job",
        request=None,
        responses=answers({200: shapes.JobDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Hold the job and return it."""
        return _changed(request, job_id, hold_job)


class JobRelease(APIView):
    """The release of a held job."""

    @extend_schema(
        operation_id="release_job",
        summary="Release a held job",
        request=None,
        responses=answers({200: shapes.JobDetailSerializer}, 403, 404, 409),
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Release the job and return it."""
        return _changed(request, job_id, release_job)


def _changed(request: Request, job_id: UUID, change: Callable[..., Job]) -> Response:
    refuse_unknown_parameters(request, set())
    actor, now = actor_from(request), SystemClock().now()
    refuse_body(request)
    change(job_id, actor=actor, now=now)
    return Response(written(detail_body(job_id, actor=actor, now=now)))
