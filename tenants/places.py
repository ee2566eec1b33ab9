"""Past and present places of nodes in the tree. Use before a move stays with the former place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from primitives.errors import Forbidden
from tenants.access import Actor, Row, require, under, visible_node
from tenants.models import FormerPlace, Node
from tenants.roles import Permission

#: Before every move.
_EVER = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """A node with its path during `[start, end)`. None: from the beginning, and until now."""

    node: Node
    start: datetime | None
    end: datetime | None


def path_at(node: Node, at: datetime) -> str:
    """Return the node's path at a moment, without the last slash.

    Takes no query for a node that has not moved since.
    """
    if node.moved_at is None or node.moved_at <= at:
        return node.display_path
    former = FormerPlace.objects.filter(
        Q(start=None) | Q(start__lte=at), node_id=node.pk, end__gt=at
    ).get()
    return former.path.rstrip("/")


def nodes_by_path(paths: Collection[str], kind: str) -> Mapping[str, Node]:
    """Return the nodes of a kind that have or had these paths (without the last slash).

    Two queries. No two nodes ever share a path, so objects named after a former path can still be
    assigned.
    """
    wanted = [f"{path}/" for path in paths]
    found = {
        former.path.rstrip("/"): former.node
        for former in FormerPlace.objects.filter(path__in=wanted, node__kind=kind).select_related(
            "node"
        )
    }
    now = Node.objects.filter(kind=kind, path__in=wanted)
    return found | {node.display_path: node for node in now}


def former_paths(kind: str) -> list[tuple[UUID, str]]:
    """Return the former paths of nodes of a kind (without the last slash), with the nodes.

    One query.
    """
    found = FormerPlace.objects.filter(node__kind=kind).order_by("pk")
    return [(pk, path.rstrip("/")) for pk, path in found.values_list("node", "path")]


def placed_between(
    actor: Actor,
    permission: Permission,
    start: datetime,
    end: datetime,
    *,
    below: str | None = None,
) -> list[Place]:
    """Return the places during `[start, end)` of nodes where the actor has `permission`, by path.

    With `below`, a path of `visible_place`, return only places at or below it. A moved node has
    several places. A role on a node covers all places of that node. A role above it covers the time
    below its node. Raises Forbidden for an actor who has the permission nowhere.
    """
    prefixes = _prefixes_ever(actor, permission)
    if not prefixes:
        raise Forbidden(
            f"You need the right {permission.value} on a team, department or organization; ask "
            "an administrator of it.",
            permission=permission.value,
        )
    asked = under(prefixes, "path")
    if below is not None:
        asked &= under([below], "path")
    here = Node.objects.filter(asked, Q(moved_at=None) | Q(moved_at__lt=end))
    former = FormerPlace.objects.filter(asked, Q(start=None) | Q(start__lt=end), end__gt=start)
    return _sorted_places(here, former)


def visible_place(actor: Actor, path: str, *permissions: Permission) -> str:
    """Return the path, with its slash, of the node that `path` names, at present or in the past.

    Present nodes are found as by `visible_node`. A former path needs the permissions on that path.
    Raises NotFound and Forbidden.
    """
    wanted = path.rstrip("/") + "/"
    if (
        not actor.holds(Permission.VIEW_TREE, wanted)
        or Node.objects.filter(path=wanted).exists()
        or not FormerPlace.objects.filter(path=wanted).exists()
    ):
        node = visible_node(actor, path, permissions[0])
        for permission in permissions[1:]:
            require(actor, permission, node)
        return node.path
    for permission in permissions:
        if not wanted.startswith(_prefixes_ever(actor, permission)):
            raise Forbidden(
                f"You need the right {permission.value} on {wanted.rstrip('/')}, as it was; ask "
                "an administrator of its former parent.",
                permission=permission.value,
                node=wanted.rstrip("/"),
            )
    return wanted


def visible_ever(
    actor: Actor, rows: QuerySet[Row], *permissions: Permission, path_field: str
) -> QuerySet[Row]:
    """Return those of `rows` whose path, of the present or the past, `visible_place` admits."""
    for permission in permissions:
        rows = rows.filter(under(_prefixes_ever(actor, permission), path_field))
    return rows


def places_of(nodes: Collection[UUID]) -> list[Place]:
    """Return the past and present places of these nodes, by path. Two queries at most."""
    if not nodes:
        return []
    return _sorted_places(
        Node.objects.filter(pk__in=nodes), FormerPlace.objects.filter(node__in=nodes)
    )


def _sorted_places(here: QuerySet[Node], former: QuerySet[FormerPlace]) -> list[Place]:
    places = [Place(node, node.moved_at, None) for node in here]
    places += [
        Place(_lying_at(each.node, each.path), each.start, each.end)
        for each in former.select_related("node")
    ]
    return sorted(places, key=lambda place: (place.node.path, place.start or _EVER))


def _prefixes_ever(actor: Actor, permission: Permission) -> tuple[str, ...]:
    """Return where the actor has `permission`, and the former paths of these nodes.

    No other node ever has a node's former path, so times do not matter here.
    """
    held = actor.prefixes(permission)
    if not held:
        return ()
    moved = FormerPlace.objects.filter(node__path__in=[path for path in held if path])
    return (*held, *moved.values_list("path", flat=True))


def _lying_at(node: Node, path: str) -> Node:
    """Return a read-only copy of the node with another `path`."""
    placed = copy(node)
    placed.path = path
    return placed
