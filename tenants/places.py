"""Where nodes of the tree lay when: what was used before a move stays where it was."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from primitives.errors import Forbidden
from tenants.access import Actor, require, under, visible_node
from tenants.models import FormerPlace, Node
from tenants.roles import Permission

#: Before every move.
_EVER = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """A node as it lay over `[start, end)`, with the path of that time. None: since ever, and to
    this day."""

    node: Node
    start: datetime | None
    end: datetime | None


def path_at(node: Node, at: datetime) -> str:
    """The node's path at a moment, as people write it. No query for a node that lay there as it
    does now."""
    if node.moved_at is None or node.moved_at <= at:
        return node.display_path
    former = FormerPlace.objects.filter(
        Q(start=None) | Q(start__lte=at), node_id=node.pk, end__gt=at
    ).get()
    return former.path.rstrip("/")


def nodes_by_path(paths: Collection[str], kind: str) -> Mapping[str, Node]:
    """The nodes of a kind that lie or lay at these paths, as people write them. Two queries.

    A path never is another node's, so what bears a former one is still known."""
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
    """The paths, as people write them, that nodes of a kind had before, each with its node. One
    query."""
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
    """Where the nodes lay over `[start, end)` of which the actor holds `permission`, by path; of
    those at or below the path `below` of `visible_place`. A node that was moved has several places.

    Who has a role on a node has it for all places of that node; who has one above it, for the
    time below theirs. Raises Forbidden for somebody who holds the permission nowhere.
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
    """The path, with its slash, of the node that is meant: as `visible_node` finds it, or a path
    at which a node lay once, for somebody who holds the permissions there. Raises NotFound and
    Forbidden."""
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
                "an administrator of what was above it.",
                permission=permission.value,
                node=wanted.rstrip("/"),
            )
    return wanted


def places_of(nodes: Collection[UUID]) -> list[Place]:
    """Where these nodes lie and lay, by path. At most two queries, none for none."""
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
    """Where the actor holds `permission`, and where the nodes of these roles lay before. Nothing
    else ever lies or lay at a node's former path, so this needs no times."""
    held = actor.prefixes(permission)
    if not held:
        return ()
    moved = FormerPlace.objects.filter(node__path__in=[path for path in held if path])
    return (*held, *moved.values_list("path", flat=True))


def _lying_at(node: Node, path: str) -> Node:
    """A copy of the node, to be read only, that lies at `path`."""
    placed = copy(node)
    placed.path = path
    return placed
