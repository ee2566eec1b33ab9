"""Views of the list of jobs: personal ones, and those shared with a team."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from audit.recording import record
from jobs.models import SavedView
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest, NotFound
from tenants.access import Actor, visible, visible_node
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: Views of a person, personal and shared. Parallel requests may exceed it by their own number.
VIEWS_PER_USER_MAX: Final = 100


def visible_views(actor: Actor) -> QuerySet[SavedView]:
    """Views of the actor, and those of teams whose jobs the actor may see or submit."""
    # A platform administrator sees every team, and no personal view of another person.
    own = Q(user=actor.user)
    rows = SavedView.objects.select_related("user", "node").filter(Q(node__isnull=False) | own)
    seen = visible(actor, rows, Permission.VIEW_JOBS, path_field="node__path", own=own)
    return seen | visible(actor, rows, Permission.SUBMIT_JOBS, path_field="node__path")


def view_by_id(view_id: UUID, *, actor: Actor) -> SavedView:
    """Return the view. Raises NotFound."""
    found = visible_views(actor).filter(pk=view_id).first()
    if found is None:
        raise NotFound("There is no such view that you can see.")
    return found


def may_delete_view(view: SavedView, actor: Actor) -> bool:
    """Return whether the actor may delete the view: an own one, or one shared with a node."""
    if view.user_id == actor.user.pk:
        return True
    return view.node is not None and actor.holds(Permission.MANAGE_JOBS, view.node.path)


@transaction.atomic
def save_view(
    name: str,
    parameters: Mapping[str, str],
    *,
    share_with: str | None,
    actor: Actor,
    now: datetime,
) -> SavedView:
    """Save a view, personal or shared with the team at the path `share_with`.

    Raises NotFound for an invisible team, InvalidRequest for another node, and Conflict for a name
    that is taken. Raises Forbidden without the right to submit jobs there, and for a token that may
    only read.
    """
    _require_scope(actor)
    node: Node | None = None
    if share_with is not None:
        node = visible_node(actor, share_with, Permission.SUBMIT_JOBS)
        if node.kind != NodeKind.TEAM:
            detail = f"{node.display_path} is no team; share the view with one of its teams"
            raise InvalidRequest(f"{detail}.", errors=[FieldError("/share_with", detail)])
    if SavedView.objects.filter(user=actor.user).count() >= VIEWS_PER_USER_MAX:
        raise Conflict(
            f"You have {VIEWS_PER_USER_MAX} saved views, the most of a person. Delete one first."
        )
    view = SavedView(
        user=actor.user, node=node, name=name, parameters=dict(parameters), created_at=now
    )
    try:
        with transaction.atomic():
            view.save(force_insert=True)
    except IntegrityError:
        whose = "You have" if node is None else f"{node.display_path} has"
        raise Conflict(f"{whose} a view named {name} already. Delete it first.") from None
    if node is not None:
        _record("view_shared", view, node, actor, now)
    return view


@transaction.atomic
def delete_view(view_id: UUID, *, actor: Actor, now: datetime) -> None:
    """Delete a view.

    Raises NotFound, and Forbidden for a shared view of another person or with a token that may only
    read.
    """
    _require_scope(actor)
    view = view_by_id(view_id, actor=actor)
    if not may_delete_view(view, actor):
        raise Forbidden("You can see this view but not delete it; its owner or a lead can.")
    if view.node is not None:
        _record("view_deleted", view, view.node, actor, now)
    view.delete()


def _require_scope(actor: Actor) -> None:
    if not actor.permits(Permission.SUBMIT_JOBS):
        raise Forbidden("This token may only read. Use one with the scope jobs.")


def _record(action: str, view: SavedView, node: Node, actor: Actor, now: datetime) -> None:
    record(
        action=action,
        subject_kind="saved_view",
        subject_id=view.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=node.organization_id,
        node_path=node.path,
        detail={"name": view.name, "parameters": view.parameters},
        request_id=current_request_id(),
    )
