"""Templates of teams: list, create, change and delete. Leads of the team write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from audit.recording import record
from jobs.models import JobTemplate
from jobs.submission.problems import in_request
from jobs.submission.requests import read_job_request
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from tenants.access import Actor, require, under, visible, visible_node
from tenants.models import NodeKind
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale

#: Templates of a team. Parallel requests may exceed it by their own number.
TEMPLATES_PER_TEAM_MAX: Final = 100
#: Members that each submission gives itself.
_OF_SUBMISSIONS: Final = ("team", "template", "begin_at", "depends_on")
_TEXTS: Final = frozenset({"script", "sbatch", "manifest"})
_SIZES: Final = frozenset({"gpus", "gpus_per_node", "cpus_per_node", "manifest"})


@dataclass(frozen=True, slots=True)
class TemplateEdit:
    """The settings of a template. None leaves a setting as it is."""

    name: str | None = None
    description: str | None = None
    request: Mapping[str, Any] | None = None
    locked: Sequence[str] | None = None


def visible_templates(actor: Actor) -> QuerySet[JobTemplate]:
    """Templates of teams to which the actor may submit jobs. They have scripts."""
    rows = JobTemplate.objects.select_related("team", "team__organization")
    return visible(actor, rows, Permission.SUBMIT_JOBS, path_field="team__path")


def listed_templates(actor: Actor, *, team: str | None) -> QuerySet[JobTemplate]:
    """Return the visible templates of teams at or below the path `team`.

    Raises NotFound for a path that the actor cannot see.
    """
    found = visible_templates(actor)
    if team is None:
        return found
    return found.filter(under([visible_node(actor, team).path], "team__path"))


def template_by_id(template_id: UUID, *, actor: Actor) -> JobTemplate:
    """Return the template. Raises NotFound."""
    found = visible_templates(actor).filter(pk=template_id).first()
    if found is None:
        raise NotFound("There is no such template that you can see.")
    return found


def may_manage_template(template: JobTemplate, actor: Actor) -> bool:
    """Return whether the actor may change and delete the template."""
    return actor.holds(Permission.MANAGE_JOBS, template.team.path)


@transaction.atomic
def create_template(
    team_path: str, edit: TemplateEdit, *, actor: Actor, now: datetime
) -> JobTemplate:
    """Store a template of a team. `edit` has its name and request.

    Raises NotFound for an invisible team, Forbidden without the right to manage its jobs,
    InvalidRequest for a request that cannot be, and Conflict for a second template of the name.
    """
    team = visible_node(actor, team_path, Permission.MANAGE_JOBS)
    if team.kind != NodeKind.TEAM:
        detail = f"is not a team: templates belong to teams, and {team.display_path} is none"
        raise InvalidRequest(f"team {detail}.", errors=[FieldError("/team", detail)])
    if JobTemplate.objects.filter(team=team).count() >= TEMPLATES_PER_TEAM_MAX:
        raise Conflict(
            f"{team.display_path} has {TEMPLATES_PER_TEAM_MAX} templates, the most of a team. "
            "Delete one first."
        )
    template = JobTemplate(team=team, name=edit.name or "", request={}, changed_at=now)
    _set(template, edit)
    _save(template)
    _record("template_created", template, actor, now)
    return template


@transaction.atomic
def change_template(
    template_id: UUID, edit: TemplateEdit, *, actor: Actor, if_version: int, now: datetime
) -> JobTemplate:
    """Change the settings in `edit`. Jobs that were submitted stay as they are.

    Raises as `create_template`, and PreconditionFailed unless `if_version` is current.
    """
    template = _locked_template(template_id, actor, if_version)
    _set(template, edit)
    template.version += 1
    template.changed_at = now
    _save(template)
    _record("template_changed", template, actor, now)
    return template


@transaction.atomic
def delete_template(template_id: UUID, *, actor: Actor, if_version: int, now: datetime) -> None:
    """Delete a template. Raises as `change_template`."""
    template = _locked_template(template_id, actor, if_version)
    _record("template_deleted", template, actor, now)
    template.delete()


def _locked_template(template_id: UUID, actor: Actor, if_version: int) -> JobTemplate:
    require(actor, Permission.MANAGE_JOBS, template_by_id(template_id, actor=actor).team)
    rows = JobTemplate.objects.select_for_update(of=("self",)).select_related("team")
    found = rows.filter(pk=template_id).first()
    if found is None:
        raise NotFound("It was deleted meanwhile.")
    refuse_stale(if_version, found.version, body=None)
    return found


def _set(template: JobTemplate, edit: TemplateEdit) -> None:
    if edit.name is not None:
        template.name = edit.name
    if edit.description is not None:
        template.description = edit.description
    if edit.request is not None:
        template.request = {
            name: value for name, value in edit.request.items() if value is not None
        }
        _check_request(template.request)
    if edit.locked is not None:
        template.locked = sorted(set(edit.locked))
    missing = [name for name in template.locked if name not in template.request]
    if missing:
        detail = f"names {', '.join(missing)}, which the request does not give"
        raise InvalidRequest(f"locked {detail}.", errors=[FieldError("/locked", detail)])


def _check_request(request: Mapping[str, Any]) -> None:
    """Raise InvalidRequest unless a submission could complete the request."""
    errors = [
        FieldError(f"/request/{name}", "is given by each submission; leave it out")
        for name in _OF_SUBMISSIONS
        if name in request
    ]
    if errors:
        raise InvalidRequest(
            "; ".join(f"{one.pointer[1:]} {one.detail}" for one in errors), errors=errors
        )
    completed = {"team": "any", **request}
    if _TEXTS.isdisjoint(request):
        completed["script"] = "true\n"
    if _SIZES.isdisjoint(request):
        completed["gpus_per_node" if "nodes" in request else "gpus"] = 1
    with in_request():
        read_job_request(completed)


def _save(template: JobTemplate) -> None:
    try:
        with transaction.atomic():
            template.save()
    except IntegrityError:
        raise Conflict(
            f"{template.team.display_path} has a template named {template.name} already."
        ) from None


def _record(action: str, template: JobTemplate, actor: Actor, now: datetime) -> None:
    record(
        action=action,
        subject_kind="job_template",
        subject_id=template.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=template.team.organization_id,
        node_path=template.team.path,
        detail={
            "name": template.name,
            "members": sorted(template.request),
            "locked": template.locked,
        },
        request_id=current_request_id(),
    )
