"""Creates, renames, archives and restores organizations, departments and teams.

`tenants.moving` moves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from tenants.models import FormerArchiving, FormerPlace, Node, NodeKind
from tenants.names import check_slug, clean_name
from tenants.roles import Permission
from webapi.row_access import all_rows

#: Number of levels below the organization.
DEPTH_MAX = 12

#: An act in the transaction that made a team, by this actor at this time.
NewTeamAct = Callable[[Node, Actor, datetime], None]

_new_team_acts: list[NewTeamAct] = []


def on_new_team(act: NewTeamAct) -> None:
    """Set the act that follows each new team. The package of budgets calls it once, at its start.

    Errors of the act undo the team.
    """
    _new_team_acts[:] = [act]


@transaction.atomic
def create_organization(*, actor: Actor, slug: str, name: str, now: datetime) -> Node:
    """Create an organization.

    Raises Forbidden unless the actor is a platform admin, InvalidRequest for an invalid slug or
    name, and Conflict for a taken slug.
    """
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
    """Create a department or team below the node at `parent_path`.

    Raises NotFound for a parent that the actor may not see, and Forbidden without manage_structure
    on it. Raises InvalidRequest for an invalid slug or name, below a team, or deeper than 12
    levels. Raises Conflict when the slug is taken there.
    """
    parent = visible_node(actor, parent_path, Permission.MANAGE_STRUCTURE)
    # Waits for a move of the parent that is under way.
    path = Node.objects.select_for_update(no_key=True).values_list("path").get(pk=parent.pk)
    if path != (parent.path,):
        raise Conflict(f"{parent.display_path} was moved at this moment. Give its new path.")
    refuse_below(parent)
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
    if kind == NodeKind.TEAM:
        run_new_team_acts(node, actor, now)
    return node


def refuse_below(parent: Node) -> None:
    """Raise InvalidRequest or Conflict where no node can be created below `parent`."""
    if parent.kind == NodeKind.TEAM:
        raise InvalidRequest(
            f"{parent.display_path} is a team, and a team cannot have children.",
            errors=[FieldError("/parent", "must be an organization or a department")],
        )
    if parent.archived_at is not None:
        raise Conflict(f"{parent.display_path} is archived. Restore it first.")
    if parent.depth >= DEPTH_MAX:
        raise InvalidRequest(
            f"An organization has at most {DEPTH_MAX} levels.",
            errors=[FieldError("/parent", f"is at level {parent.depth} of {DEPTH_MAX}")],
        )


def run_new_team_acts(team: Node, actor: Actor, now: datetime) -> None:
    """Run the acts that `on_new_team` registered, in the transaction that created the team."""
    for act in _new_team_acts:
        act(team, actor, now)


@transaction.atomic
def rename_node(*, actor: Actor, node_id: UUID, kind: NodeKind, name: str, now: datetime) -> Node:
    """Change the display name. The path stays. The same name changes nothing.

    Raises NotFound, InvalidRequest and Forbidden. Only platform admins rename an organization.
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
    """Return the node, of any kind, if the actor may archive it.

    Raises NotFound and Forbidden. Only platform admins archive an organization.
    """
    node = get_visible(
        actor, Node.objects.all(), Permission.VIEW_TREE, path_field="path", pk=node_id
    )
    if node.kind == NodeKind.ORGANIZATION:
        require_platform_admin(actor)
    else:
        require(actor, Permission.MANAGE_STRUCTURE, node)
    return node


def locked_node_to_archive(actor: Actor, node_id: UUID) -> Node:
    """Do as `node_to_archive`, and lock the tree until the transaction ends.

    The rights are checked again after the lock, because the node may have been moved meanwhile.
    """
    lock_tree(node_to_archive(actor, node_id).organization_id)
    return node_to_archive(actor, node_id)


def archive_node(*, actor: Actor, node: Node, now: datetime) -> Node:
    """Archive the node of `locked_node_to_archive` and all below it.

    No new jobs are submitted there after the commit. Nodes that are archived already stay
    unchanged. Must run in a transaction. `jobs` handles the open jobs.
    """
    found = locked_below(node)
    opened = [each.pk for each in found if each.archived_at is None]
    if node.pk in opened:
        Node.objects.filter(pk__in=opened).update(archived_at=now)
        _tell(actor, f"{node.kind}_archived", node, now, {"nodes": str(len(opened))})
    return Node.objects.get(pk=node.pk)


@transaction.atomic
def restore_node(*, actor: Actor, node_id: UUID, now: datetime) -> Node:
    """Restore a node with all that was archived together with it.

    A node that is not archived stays unchanged. Raises NotFound and Forbidden, and Conflict below
    an archived node.
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
    end = max(archived_at, now)
    FormerArchiving.objects.bulk_create(
        FormerArchiving(node_id=each, start=archived_at, end=end) for each in together
    )
    Node.objects.filter(pk__in=together).update(archived_at=None)
    _tell(actor, f"{node.kind}_restored", node, now, {"nodes": str(len(together))})
    wake("arbiter")
    return Node.objects.get(pk=node.pk)


@all_rows()
def remove_node(node: Node) -> None:
    """Delete the row of a node, with its former places and archivings.

    Without the row of the node, row-level security would hide the others.

    The database checks at the end of the transaction that no other row refers to it.
    """
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM tenants_node WHERE id = %s", [node.pk])
        cursor.execute("DELETE FROM tenants_formerplace WHERE node_id = %s", [node.pk])
        cursor.execute("DELETE FROM tenants_formerarchiving WHERE node_id = %s", [node.pk])


def lock_tree(organization_id: UUID) -> None:
    """Make other moves and archivings in this organization wait for this transaction."""
    list(Node.objects.select_for_update(no_key=True).filter(pk=organization_id))


def locked_below(node: Node) -> list[Node]:
    """Return the node and all below it, parents first, locked, and read after the lock.

    The caller must have locked the tree (`lock_tree`) before it read the node.
    """
    below = Node.objects.filter(under([node.path], "path")).order_by("path")
    list(below.select_for_update())
    return list(below.all())


def refuse_taken(actor: Actor, wanted: Mapping[str, UUID]) -> None:
    """Raise Conflict where another node has, or had, one of the wanted paths. Two queries.

    `wanted` maps each path to the id of the node that is to get it.
    """
    for refusal in taken(actor, wanted).values():
        raise refusal


def taken(actor: Actor, wanted: Mapping[str, UUID]) -> dict[str, Conflict]:
    """Return the refusal of `refuse_taken` for each taken path. Two queries."""
    return {
        path: Conflict(sentence, errors=[FieldError("/slug", "is taken here", "taken")])
        for path, sentence in _taken(actor, wanted)
    }


def _taken(actor: Actor, wanted: Mapping[str, UUID]) -> Iterator[tuple[str, str]]:
    """Yield taken paths, each with a sentence, first those of present nodes."""
    paths = list(wanted)
    for node in Node.objects.filter(path__in=paths).order_by("path"):
        if node.pk != wanted[node.path]:
            yield node.path, f"There is already a {node.display_path}."
    former = FormerPlace.objects.filter(path__in=paths).select_related("node").order_by("path")
    for place in former:
        if place.node_id != wanted[place.path]:
            was = (
                f"the former path of {place.node.display_path}"
                if actor.holds(Permission.VIEW_TREE, place.node.path)
                else "the former path of another node"
            )
            path = place.path.rstrip("/")
            sentence = f"{path} is {was}, and bills still use it. Choose another slug."
            yield place.path, sentence


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
