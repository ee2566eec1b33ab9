"""Move a part of the tree to another parent, and say before what that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from clusters.models import Cluster
from connectors.registry import kinds_where
from jobs.actions.archiving import OpenWork, open_work_below
from primitives.clock import Clock
from quotas.moving import (
    MovedGuarantee,
    follow,
    moved_guarantees,
    refuse_overfull,
    write_as_devices,
)
from quotas.planned_changes import locked_open_changes
from tenants.access import Actor
from tenants.models import Node
from tenants.moving import (
    InheritedRoles,
    inherited_roles,
    move_node,
    node_to_move,
    parent_to_move_to,
    path_below,
)
from tenants.structure import lock_tree


@dataclass(frozen=True, slots=True)
class MovePreview:
    """What a move changes. `clusters` are the names of those that keep limits of their own, to
    which quotas must be pushed before jobs of the moved teams start there."""

    work: OpenWork
    parent: Node
    path: str
    guarantees: Sequence[MovedGuarantee]
    roles: InheritedRoles
    clusters: Sequence[str]

    @property
    def problem(self) -> str:
        """Why the move is refused as things stand, or ""."""
        return next((each.problem for each in self.guarantees if each.problem), "")


def preview_move(node_id: UUID, parent_path: str, *, actor: Actor) -> MovePreview:
    """What `move` would change now. Raises what it does but for guarantees that do not fit: these
    are the preview's `problem`."""
    node = node_to_move(actor, node_id)
    parent = parent_to_move_to(actor, node, parent_path)
    return MovePreview(
        work=open_work_below(node),
        parent=parent,
        path=path_below(parent, node).rstrip("/"),
        guarantees=moved_guarantees(node, parent, is_locked=False),
        roles=inherited_roles(actor, node, parent),
        clusters=clusters_to_push(),
    )


def clusters_to_push() -> list[str]:
    """The names of clusters with limits of their own. They refuse jobs of what was moved, until
    somebody pushes quotas to them: a push also changes what else differs there, so a move makes
    none by itself."""
    kinds = kinds_where(lambda kind: kind.control_entitlements)
    limited = Cluster.objects.filter(kind__in=kinds, is_enabled=True)
    return list(limited.order_by("name").values_list("name", flat=True))


@transaction.atomic
def move(node_id: UUID, parent_path: str, *, actor: Actor, clock: Clock) -> Node:
    """Move a team, or a department with all below it, to another parent of its organization.

    It counts there from now on: for quotas, fair-share, rights and bills. What was used before
    stays with the former parent. Jobs run and wait on. Raises NotFound, Forbidden without
    manage_structure on both parents, InvalidRequest, Conflict, and EnvelopeBroken where its
    guarantees do not fit.
    """
    lock_tree(node_to_move(actor, node_id).organization_id)
    # Only now: what was used, and done, while this waited was at the former place.
    now = clock.now()
    node = node_to_move(actor, node_id)
    parent = parent_to_move_to(actor, node, parent_path)
    planned = locked_open_changes(node)
    guarantees = moved_guarantees(node, parent, is_locked=True)
    refuse_overfull(guarantees)
    write_as_devices(guarantees, actor=actor, now=now)
    moved = move_node(actor=actor, node=node, parent=parent, now=now)
    follow(moved, node.path, planned, actor=actor, now=now)
    return moved
