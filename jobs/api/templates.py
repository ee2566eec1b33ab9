"""Templates of teams: list, creation, change and deletion."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.schedule_serializers import RunRequestField
from jobs.models import JobTemplate
from jobs.queue.reason_documents import iso
from jobs.submission.job_members import FIELDS
from jobs.template_models import DESCRIPTION_LENGTH_MAX, NAME_LENGTH_MAX
from jobs.templates.templates import (
    TemplateEdit,
    change_template,
    create_template,
    delete_template,
    listed_templates,
    may_manage_template,
    template_by_id,
)
from primitives.clock import SystemClock
from tenants.access import Actor
from tenants.api.authentication import actor_from
from webapi.idempotency import respond_once
from webapi.paging import page_body, page_by_id, refuse_unknown_parameters
from webapi.parameters import PageParameters, text
from webapi.preconditions import required_version, showing_current, tagged
from webapi.serializers import (
    IDEMPOTENCY_KEY,
    BoundedListField,
    StrictSerializer,
    TextField,
    answers,
    etag_header,
    if_match_header,
    page_of,
)

_IF_MATCH = if_match_header("The ETag of the version on which the change is based")
_ETAG = etag_header("Version")
_REQUEST_HELP = (
    "Members of the body of `POST /jobs`, without `team`, `template`, `begin_at` and `depends_on`"
)
_LOCKED_HELP = "Members of `request` that a submission may not change"


class JobTemplateSerializer(serializers.Serializer[Any]):
    """A template of a team."""

    id = serializers.UUIDField()
    team = serializers.CharField(help_text="Its path")
    name = serializers.CharField()
    description = serializers.CharField()
    request = serializers.DictField(help_text="Members of a request of `POST /jobs` but `team`")
    locked = serializers.ListField(child=serializers.CharField(), help_text=_LOCKED_HELP)
    version = serializers.IntegerField()
    changed_at = serializers.DateTimeField()
    can = serializers.ListField(
        child=serializers.ChoiceField(choices=["change", "delete"]),
        help_text="Actions that the caller may take",
    )


class JobTemplateUpdateSerializer(StrictSerializer):
    """A change of a template."""

    name = TextField(max_length=NAME_LENGTH_MAX, required=False)
    description = TextField(max_length=DESCRIPTION_LENGTH_MAX, required=False, allow_blank=True)
    request = RunRequestField(required=False, help_text=_REQUEST_HELP)
    locked = BoundedListField(
        child=serializers.CharField(max_length=64),
        max_length=len(FIELDS),
        required=False,
        help_text=_LOCKED_HELP,
    )

    def to_edit(self) -> TemplateEdit:
        """Return the settings of the body."""
        given = self.validated_data
        return TemplateEdit(**{name: given[name] for name in _SETTINGS if name in given})


class JobTemplateCreateSerializer(JobTemplateUpdateSerializer):
    """A new template."""

    team = TextField(max_length=1_000, help_text="Path of the team")
    name = TextField(max_length=NAME_LENGTH_MAX)
    request = RunRequestField(help_text=_REQUEST_HELP)


_SETTINGS = ("name", "description", "request", "locked")


class JobTemplateParameters(PageParameters):
    """The filters of the list of templates."""

    team: str | None = text("Path of a node: templates of the teams at and below it", most=1_000)


class JobTemplateList(APIView):
    """The templates that the caller may use."""

    @extend_schema(
        operation_id="list_job_templates",
        summary="Templates of jobs",
        description="Those of teams to which the caller may submit jobs.",
        parameters=JobTemplateParameters.in_openapi(),
        responses=answers({200: page_of(JobTemplateSerializer)}, 404),
    )
    def get(self, request: Request) -> Response:
        """Return a page of templates."""
        asked = JobTemplateParameters.read(request)
        actor = actor_from(request)
        page = page_by_id(asked, listed_templates(actor, team=asked.team))
        return Response(page_body(request, page, lambda one: _body(one, actor)))

    @extend_schema(
        operation_id="create_job_template",
        summary="Create a template of jobs",
        description="It needs the right manage_jobs on the team, which its leads have. Submissions "
        "name it as `template`.",
        request=JobTemplateCreateSerializer,
        parameters=[IDEMPOTENCY_KEY, _ETAG],
        responses=answers({201: JobTemplateSerializer}, 403, 404, 409, 422),
    )
    def post(self, request: Request) -> Response:
        """Create a template and return it."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        given = JobTemplateCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)

        def act() -> tuple[int, dict[str, Any]]:
            team = given.validated_data["team"]
            made = create_template(team, given.to_edit(), actor=actor, now=now)
            return 201, _body(made, actor)

        return tagged(respond_once(request, principal_id=actor.user.pk, now=now, act=act))


class JobTemplateDetail(APIView):
    """A template: read, change, delete."""

    @extend_schema(
        operation_id="get_job_template",
        summary="A template of jobs",
        parameters=[_ETAG],
        responses=answers({200: JobTemplateSerializer}, 404),
    )
    def get(self, request: Request, template_id: UUID) -> Response:
        """Return the template."""
        refuse_unknown_parameters(request, set())
        actor = actor_from(request)
        return tagged(Response(_body(template_by_id(template_id, actor=actor), actor)))

    @extend_schema(
        operation_id="change_job_template",
        summary="Change a template of jobs",
        description="Jobs that were submitted from it stay as they are.",
        request=JobTemplateUpdateSerializer,
        parameters=[_IF_MATCH, _ETAG],
        responses=answers({200: JobTemplateSerializer}, 403, 404, 409, 412, 428),
    )
    def patch(self, request: Request, template_id: UUID) -> Response:
        """Change the template and return it. A 412 has the `current` one."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        given = JobTemplateUpdateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        with showing_current(lambda: _body(template_by_id(template_id, actor=actor), actor)):
            changed = change_template(
                template_id,
                given.to_edit(),
                actor=actor,
                if_version=required_version(request),
                now=now,
            )
        return tagged(Response(_body(changed, actor)))

    @extend_schema(
        operation_id="delete_job_template",
        summary="Delete a template of jobs",
        parameters=[_IF_MATCH],
        responses=answers({204: None}, 403, 404, 412, 428),
    )
    def delete(self, request: Request, template_id: UUID) -> Response:
        """Delete the template."""
        refuse_unknown_parameters(request, set())
        actor, now = actor_from(request), SystemClock().now()
        with showing_current(lambda: _body(template_by_id(template_id, actor=actor), actor)):
            delete_template(template_id, actor=actor, if_version=required_version(request), now=now)
        return Response(status=204)


def _body(template: JobTemplate, actor: Actor) -> dict[str, Any]:
    return {
        "id": str(template.pk),
        "team": template.team.display_path,
        "name": template.name,
        "description": template.description,
        "request": template.request,
        "locked": template.locked,
        "version": template.version,
        "changed_at": iso(template.changed_at),
        "can": ["change", "delete"] if may_manage_template(template, actor) else [],
    }
