"""A submission from a template: its own members, completed by those of the template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from jobs.models import JobTemplate
from jobs.templates.templates import visible_templates
from primitives.errors import FieldError, InvalidRequest
from tenants.access import Actor, visible_node
from tenants.roles import Permission

#: Members of a template that a member of the submission replaces.
_REPLACED: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(others.split())
    for name, others in {
        "gpus": "gpus_per_node gpus_min nodes_min",
        "gpus_per_node": "gpus gpus_min",
        "gpus_min": "nodes_min",
        "nodes": "nodes_min",
        "nodes_min": "gpus_min",
        "pool": "pools",
        "pools": "pool",
        "script": "sbatch manifest script_file",
        "sbatch": "script manifest",
        "manifest": "script sbatch script_file",
        "time_limit": "time_limit_s",
        "time_limit_s": "time_limit",
        "required_topology": "preferred_topology",
        "preferred_topology": "required_topology",
    }.items()
}


def with_template(body: Mapping[str, Any], *, actor: Actor) -> Mapping[str, Any]:
    """Return the body with the members of its template; `body` itself if it names none.

    Raises InvalidRequest for an unknown template, for the template of another team, and for a
    member that the template locks.
    """
    if body.get("template") is None:
        return body
    template = _template(body["template"], actor)
    given = {name: value for name, value in body.items() if value is not None}
    del given["template"]
    errors = [*_wrong_team(given.get("team"), template, actor), *_locked(given, template)]
    if errors:
        raise InvalidRequest(
            "; ".join(f"{one.pointer[1:]} {one.detail}" for one in errors), errors=errors
        )
    replaced = {other for name in given for other in _REPLACED.get(name, ())}
    own = {name: value for name, value in template.request.items() if name not in replaced}
    merged = {"team": template.team.display_path, **own, **given}
    environment = given.get("environment")
    if isinstance(environment, dict) and "environment" in own:
        merged["environment"] = {**own["environment"], **environment}
    return merged


def _template(given: Any, actor: Actor) -> JobTemplate:
    found = None
    # UUID fails with any of these for values of other types.
    with suppress(AttributeError, TypeError, ValueError):
        found = visible_templates(actor).filter(pk=UUID(given)).first()
    if found is None:
        detail = "there is no such template that you may use, or it was deleted"
        raise InvalidRequest(
            f"template: {detail}.", errors=[FieldError("/template", detail, "not_found")]
        )
    return found


def _wrong_team(given: Any, template: JobTemplate, actor: Actor) -> Iterator[FieldError]:
    # A value of another type is refused with the other members.
    if not isinstance(given, str):
        return
    if visible_node(actor, given, Permission.SUBMIT_JOBS).pk != template.team_id:
        yield FieldError(
            "/team", f"must be {template.team.display_path}, the team of the template, or be absent"
        )


def _locked(given: Mapping[str, Any], template: JobTemplate) -> Iterator[FieldError]:
    """Yield an error for each member that would change a locked one."""
    for name, value in given.items():
        for locked in template.locked:
            related = _REPLACED.get(name, frozenset()) | {
                other for other, replaced in _REPLACED.items() if name in replaced
            }
            is_changed = name == locked and value != template.request[locked]
            if is_changed or locked in related:
                yield FieldError(
                    f"/{name}",
                    f"is set by the template {template.name}, which locks {locked}; leave it out",
                    "locked",
                )
                break
