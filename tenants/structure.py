"""The shape of an organization: its departments and teams are added, renamed and archived. They
are moved by `tenants.moving`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, connection, transaction

from live.publishing import publish
from live.waking import wake
from primitives.errors import Conflict, FieldError, InvalidRequest
from tenants.access import (
    Actor,
    get_visible,
    require,
    require_platform_admin,
    under,
    visible_node,
)
from tenants.audit_trail import record_act
from tenants.models import FormerPlace, Node, NodeKind
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
    _insert(actor, node)
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
    # Waits for whoever moves the parent at this moment.
    path = Node.objects.select_for_update(no_key=True).values_list("path").get(pk=parent.pk)
    if path != (parent.path,):
        raise Conflict(f"{parent.display_path} was moved at this moment; name its new path.")
    if parent.kind == NodeKind.TEAM:
        raise InvalidRequest(
            f"{parent.display_path} is a team, and nothing lies below a team.",
            errors=[FieldError("/parent", "must be an organization or a department")],
        )
    if parent.archived_at is not None:
        raise Conflict(f"{parent.display_path} is archived. Restore it first.")
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
    _insert(actor, node)
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


def node_to_archive(actor: Actor, node_id: UUID) -> Node:
    """The node, of any kind, for somebody who may archive it. Raises NotFound and Forbidden (an
    organization is archived by platform admins only)."""
    node = get_visible(
        actor, Node.objects.all(), Permission.VIEW_TREE, path_field="path", pk=node_id
    )
    if node.kind == NodeKind.ORGANIZATION:
        require_platform_admin(actor)
    else:
        require(actor, Permission.MANAGE_STRUCTURE, node)
    return node


def locked_node_to_archive(actor: Actor, node_id: UUID) -> Node:
    """As `node_to_archive`, in a tree that nobody else changes until the transaction ends: the
    node may have been moved while it waited, and then other people may archive it."""
    lock_tree(node_to_archive(actor, node_id).organization_id)
    return node_to_archive(actor, node_id)


def archive_node(*, actor: Actor, node: Node, now: datetime) -> Node:
    """Archive the node of `locked_node_to_archive` and all below it that is not archived yet;
    nothing new is submitted there from the commit on. What is archived already stays so. Must run
    in a transaction; `jobs` asks what becomes of its work."""
    found = locked_below(node)
    opened = [each.pk for each in found if each.archived_at is None]
    if node.pk in opened:
        Node.objects.filter(pk__in=opened).update(archived_at=now)
        _tell(actor, f"{node.kind}_archived", node, now, {"nodes": str(len(opened))})
    return Node.objects.get(pk=node.pk)


@transaction.atomic
def restore_node(*, actor: Actor, node_id: UUID, now: datetime) -> Node:
    """Undo an archiving: the node comes back with all that was archived together with it. What
    is not archived stays as it is.

    Raises NotFound, Forbidden, and Conflict below a node that is archived.
    """
    node = locked_node_to_archive(actor, node_id)
    found = {each.pk: each for each in locked_below(node)}
    archived_at = found[node.pk].archived_at
    if archived_at is None:
        return found[node.pk]
    if node.parent_id is not None:
        parent = Node.objects.select_for_update().get(pk=node.parent_id)
        if parent.archived_at is not None:
            raise Conflict(f"{parent.display_path} is archived. Restore it first.")
    together = [each.pk for each in found.values() if each.archived_at == archived_at]
    Node.objects.filter(pk__in=together).update(archived_at=None)
    _tell(actor, f"{node.kind}_restored", node, now, {"nodes": str(len(together))})
    wake("arbiter")
    return Node.objects.get(pk=node.pk)


def remove_node(node: Node) -> None:
    """Delete the row of a node, and where it lay before. That nothing refers to it any more the
    database asks at the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM tenants_node WHERE id = %s", [node.pk])
        cursor.execute("DELETE FROM tenants_formerplace WHERE node_id = %s", [node.pk])


def lock_tree(organization_id: UUID) -> None:
    """Let whoever else moves or archives a part of this organization wait for this transaction."""
    list(Node.objects.select_for_update(no_key=True).filter(pk=organization_id))


def locked_below(node: Node) -> list[Node]:
    """The node and all below it, parents first, locked; read anew once they are. The caller has
    locked the tree (`lock_tree`), and read the node after that."""
    below = Node.objects.filter(under([node.path], "path")).order_by("path")
    list(below.select_for_update())
    return list(below.all())


def refuse_taken(actor: Actor, wanted: Mapping[str, UUID]) -> None:
    """Raises Conflict where at one of the paths that nodes of these ids are to have another node
    lies, or lay before. Two queries."""
    told = next(_taken(actor, wanted), None)
    if told is not None:
        raise Conflict(told, errors=[FieldError("/slug", "is taken here", "taken")])


def _taken(actor: Actor, wanted: Mapping[str, UUID]) -> Iterator[str]:
    paths = list(wanted)
    for node in Node.objects.filter(path__in=paths).order_by("path"):
        if node.pk != wanted[node.path]:
            yield f"There is already a {node.display_path}."
    former = FormerPlace.objects.filter(path__in=paths).select_related("node").order_by("path")
    for place in former:
        if place.node_id != wanted[place.path]:
            was = (
                f"the path of what is {place.node.display_path} now"
                if actor.holds(Permission.VIEW_TREE, place.node.path)
                else "another node's path"
            )
            yield (
                f"{place.path.rstrip('/')} was {was}, and its bills still bear it. "
                "Take another slug."
            )


def _insert(actor: Actor, node: Node) -> None:
    try:
        with transaction.atomic():
            node.save(force_insert=True)
    except IntegrityError:
        refuse_taken(actor, {node.path: node.pk})
        raise


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
