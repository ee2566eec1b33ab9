"""The shape of an organization: its departments and teams are added and renamed, never moved."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from live.publishing import publish
from primitives.errors import Conflict, FieldError, InvalidRequest
from tenants.access import Actor, get_visible, require, require_platform_admin, visible_node
from tenants.audit_trail import record_act
from tenants.models import Node, NodeKind
from tenants.names import check_slug, clean_name
from tenants.roles import Permission

#: Levels below the organization.
DEPTH_MAX = 12


@transaction.atomic
def create_organization(*, actor: Actor, slug: str, name: str, now: datetime) -> Node:
    """A new organization. Raises Forbidden for all but platform admins, InvalidRequest for a
    bad slug or name, and Conflict for a taken slug."""
    require_platform_admin(actor)
    node = Node(
        kind=NodeKind.ORGANIZATION,
        slug=check_slug(slug),
        name=clean_name(name),
        path=f"{slug}/",
        created_at=now,
    )
    node.organization = node
    _insert(node)
    _tell(actor, "organization_created", node, now, {"slug": node.slug, "name": node.name})
    return node


@transaction.atomic
def create_below(
    *, actor: Actor, kind: NodeKind, parent_path: str, slug: str, name: str, now: datetime
) -> Node:
    """A new department or team below the node at `parent_path`.

    Raises NotFound for a parent that the actor may not see, Forbidden without manage_structure
    on it, InvalidRequest for a bad slug or name, below a team, or deeper than 12 levels, and
    Conflict when the slug is taken there.
    """
    parent = visible_node(actor, parent_path, Permission.MANAGE_STRUCTURE)
    if parent.kind == NodeKind.TEAM:
        raise InvalidRequest(
            f"{parent.display_path} is a team, and nothing lies below a team.",
            errors=[FieldError("/parent", "must be an organization or a department")],
        )
    if parent.depth >= DEPTH_MAX:
        raise InvalidRequest(
            f"An organization has at most {DEPTH_MAX} levels.",
            errors=[FieldError("/parent", f"lies at level {parent.depth} of {DEPTH_MAX}")],
        )
    node = Node(
        kind=kind,
        parent=parent,
        organization_id=parent.organization_id,
        slug=check_slug(slug),
        name=clean_name(name),
        path=f"{parent.path}{slug}/",
        created_at=now,
    )
    _insert(node)
    _tell(actor, f"{kind.value}_created", node, now, {"slug": node.slug, "name": node.name})
    return node


@transaction.atomic
def rename_node(*, actor: Actor, node_id: UUID, kind: NodeKind, name: str, now: datetime) -> Node:
    """Change what people read; the path stays. Renaming to the same name changes nothing.

    Raises NotFound, Forbidden (an organization is renamed by platform admins only) and
    InvalidRequest.
    """
    node = get_visible(
        actor,
        Node.objects.filter(kind=kind).select_for_update(),
        Permission.VIEW_TREE,
        path_field="path",
        pk=node_id,
    )
    if kind is NodeKind.ORGANIZATION:
        require_platform_admin(actor)
    else:
        require(actor, Permission.MANAGE_STRUCTURE, node)
    before, node.name = node.name, clean_name(name)
    if node.name != before:
        node.save(update_fields=["name"])
        _tell(actor, f"{kind.value}_renamed", node, now, {"before": before, "after": node.name})
    return node


def _insert(node: Node) -> None:
    try:
        with transaction.atomic():
            node.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(
            f"There is already a {node.display_path}.",
            errors=[FieldError("/slug", "is taken here", "taken")],
        ) from error


def _tell(actor: Actor, action: str, node: Node, now: datetime, detail: dict[str, str]) -> None:
    record_act(
        actor=actor,
        action=action,
        subject_kind=node.kind,
        subject_id=node.pk,
        node=node,
        now=now,
        detail=detail,
    )
    publish("quotas", ids=[node.pk], organization_id=node.organization_id)
