"""Moves a team, or a department with all below it, to another parent of its organization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Concat, Substr

from live.publishing import publish, publish_rights
from live.waking import wake
from primitives.errors import Conflict, FieldError, InvalidRequest
from tenants.access import Actor, get_visible, require, under, visible_node
from tenants.audit_trail import record_act
from tenants.granting import visible_grants
from tenants.models import GRANT_IN_FORCE, Node, NodeKind, RoleGrant, User
from tenants.roles import Permission
from tenants.structure import DEPTH_MAX, locked_below, refuse_taken


@dataclass(frozen=True, slots=True)
class InheritedRole:
    """A role on a node that a user has by a grant on `given_on`, above the node."""

    user: User
    role: str
    given_on: Node


@dataclass(frozen=True, slots=True)
class InheritedRoles:
    """Roles on the moved node that users gain or lose.

    The counts include all users. The lists have only those that the actor may see.
    """

    gained_count: int
    gained: Sequence[InheritedRole]
    lost_count: int
    lost: Sequence[InheritedRole]


def node_to_move(actor: Actor, node_id: UUID) -> Node:
    """Return the node with its parent, if the actor may move it away from there.

    Raises NotFound, Forbidden without manage_structure on its parent, and InvalidRequest for an
    organization.
    """
    node = get_visible(
        actor,
        Node.objects.select_related("parent", "organization"),
        Permission.VIEW_TREE,
        path_field="path",
        pk=node_id,
    )
    if node.parent is None:
        raise InvalidRequest(
            f"{node.display_path} is an organization. Only teams and departments can be moved."
        )
    require(actor, Permission.MANAGE_STRUCTURE, node.parent)
    return node


def parent_to_move_to(actor: Actor, node: Node, parent_path: str) -> Node:
    """Return the node at `parent_path`, if the actor may move `node` below it.

    Raises NotFound, and Forbidden without manage_structure on it. Raises InvalidRequest where nodes
    of this kind are not allowed, or the node is there already. Raises Conflict for an archived node
    or a tree that gets too deep.
    """
    parent = visible_node(actor, parent_path, Permission.MANAGE_STRUCTURE)
    if problem := _misplaced(node, parent):
        raise InvalidRequest(problem, errors=[FieldError("/parent", "is not a possible parent")])
    for each in (node, parent):
        if each.archived_at is not None:
            raise Conflict(f"{each.display_path} is archived. Restore it first.")
    below = dict(Node.objects.filter(under([node.path], "path")).values_list("path", "pk"))
    levels = max(path.count("/") for path in below) - node.path.count("/") + 1
    if parent.depth + levels > DEPTH_MAX:
        raise Conflict(
            f"An organization has at most {DEPTH_MAX} levels. {node.display_path} and its "
            f"descendants have {levels}, and {parent.display_path} is at level {parent.depth}."
        )
    refuse_taken(actor, _paths_after(node, parent, below))
    return parent


def _misplaced(node: Node, parent: Node) -> str:
    """Return why `node` cannot be below `parent`, or ""."""
    if parent.organization_id != node.organization_id:
        return f"{node.display_path} must stay in its organization. Give a parent in it."
    if parent.kind == NodeKind.TEAM:
        return f"{parent.display_path} is a team, and a team cannot have children."
    if parent.pk == node.parent_id:
        return f"{node.display_path} is below {parent.display_path} already."
    if parent.path.startswith(node.path):
        return f"{parent.display_path} is {node.display_path} itself, or below it."
    return ""


def inherited_roles(actor: Actor, node: Node, parent: Node) -> InheritedRoles:
    """Return the roles on `node` that users gain or lose when it moves below `parent`.

    Two queries.
    """
    before = {*_above(node.path), node.path}
    after = {*_above(path_below(parent, node)), node.path}
    grants = (
        RoleGrant.objects.filter(
            GRANT_IN_FORCE, node__path__in=before | after, user__is_active=True
        )
        .select_related("user", "node")
        .order_by("user__login", "role", "node__path")
    )
    seen = set(visible_grants(actor).filter(node__path__in=before | after).values_list("pk"))
    had: dict[tuple[UUID, str], RoleGrant] = {}
    has: dict[tuple[UUID, str], RoleGrant] = {}
    for grant in grants:
        assert grant.node is not None
        for paths, roles in ((before, had), (after, has)):
            if grant.node.path in paths:
                roles[grant.user_id, grant.role] = grant
    gained = [grant for key, grant in has.items() if key not in had]
    lost = [grant for key, grant in had.items() if key not in has]
    return InheritedRoles(
        gained_count=len(gained),
        gained=[_role_of(grant) for grant in gained if (grant.pk,) in seen],
        lost_count=len(lost),
        lost=[_role_of(grant) for grant in lost if (grant.pk,) in seen],
    )


def _role_of(grant: RoleGrant) -> InheritedRole:
    assert grant.node is not None
    return InheritedRole(grant.user, grant.role, grant.node)


def move_node(*, actor: Actor, node: Node, parent: Node, now: datetime) -> Node:
    """Move a node with all below it. `tenants.places` keeps its former place.

    The caller has checked the actor's rights, and locked the tree. Must run in a transaction.
    Raises Conflict where a node there was moved in this second, and for a taken path.
    """
    found = locked_below(node)
    if any(each.moved_at is not None and each.moved_at >= now for each in found):
        raise Conflict(f"{node.display_path} was moved just now. Try again in a second.")
    people = _affected(node, parent)
    old, new = node.path, path_below(parent, node)
    try:
        with transaction.atomic():
            Node.objects.filter(pk__in=[each.pk for each in found]).update(
                path=Concat(Value(new), Substr("path", len(old) + 1)),
                parent=Case(When(pk=node.pk, then=Value(parent.pk)), default=F("parent")),
                moved_at=now,
            )
    except IntegrityError as error:
        refuse_taken(actor, _paths_after(node, parent, {each.path: each.pk for each in found}))
        raise Conflict(
            f"Somebody changed {new.rstrip('/')} at the same moment. Try again."
        ) from error
    moved = Node.objects.select_related("parent", "organization").get(pk=node.pk)
    places = {"from": old.rstrip("/"), "to": new.rstrip("/")}
    # Auditors of both places see the move.
    for action, placed in ((f"{node.kind}_moved_away", node), (f"{node.kind}_moved", moved)):
        record_act(
            actor=actor,
            action=action,
            subject_kind=node.kind,
            subject_id=node.pk,
            node=placed,
            now=now,
            detail={**places, "nodes": len(found)},
        )
    for user_id in people:
        publish_rights(user_id)
    publish("quotas", ids=[node.pk], organization_id=node.organization_id)
    wake("arbiter")
    return moved


def _affected(node: Node, parent: Node) -> list[UUID]:
    """Return the users with a role that covers the node, or a node below it, before or after.

    The rights of their open pages are checked again.
    """
    above = _above(node.path) | _above(path_below(parent, node))
    grants = RoleGrant.objects.filter(Q(node__path__in=above) | under([node.path], "node__path"))
    return list(grants.order_by().values_list("user_id", flat=True).distinct())


def path_below(parent: Node, node: Node) -> str:
    """Return the path that `node` has below `parent`, with its slash."""
    return f"{parent.path}{node.slug}/"


def _paths_after(node: Node, parent: Node, below: Mapping[str, UUID]) -> dict[str, UUID]:
    """Return the paths of `node` and its descendants below `parent`, by their present paths."""
    new = path_below(parent, node)
    return {new + path.removeprefix(node.path): pk for path, pk in below.items()}


def _above(path: str) -> set[str]:
    """Return the paths of all nodes above the one at `path`."""
    steps = path.rstrip("/").split("/")
    return {"/".join(steps[:depth]) + "/" for depth in range(1, len(steps))}
