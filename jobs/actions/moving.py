"""Move a part of the tree to another parent, and preview the effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from clusters.models import Cluster
from connectors.registry import kinds_where
from jobs.actions.archiving import OpenWork, open_work_below
from primitives.clock import Clock
from quotas.guarding import Write, guarded
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
    """The effects of a move.

    `clusters` are the names of clusters with limits of their own. Jobs of the moved teams start
    there only after a quota push.
    """

    work: OpenWork
    parent: Node
    path: str
    guarantees: Sequence[MovedGuarantee]
    roles: InheritedRoles
    clusters: Sequence[str]

    @property
    def problem(self) -> str:
        """The reason why the move would be refused now, or ""."""
        return next((each.problem for each in self.guarantees if each.problem), "")


def preview_move(node_id: UUID, parent_path: str, *, actor: Actor) -> MovePreview:
    """Return the effects that `move` would have now.

    Raises the errors of `move`, except for guarantees that do not fit: they become the preview's
    `problem`.
    """
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
    """Return the names of the clusters with limits of their own.

    They refuse jobs of moved teams until quotas are pushed. A move does not push by itself, because
    a push also changes other differences.
    """
    kinds = kinds_where(lambda kind: kind.control_entitlements)
    limited = Cluster.objects.filter(kind__in=kinds, is_enabled=True)
    return list(limited.order_by("name").values_list("name", flat=True))


@transaction.atomic
def move(node_id: UUID, parent_path: str, *, actor: Actor, clock: Clock) -> Node:
    """Move a team, or a department with all below it, to another parent of its organization.

    From now on it counts there: for quotas, fair-share, rights and bills. Earlier use stays with
    the former parent. Its jobs go on. Raises NotFound, Forbidden without manage_structure on both
    parents, InvalidRequest, Conflict, EnvelopeBroken if its guarantees do not fit, and
    SecondPersonNeeded.
    """
    lock_tree(node_to_move(actor, node_id).organization_id)
    # Read the clock only now: use and actions during the wait for the lock belong to the former
    # place.
    now = clock.now()
    node = node_to_move(actor, node_id)
    parent = parent_to_move_to(actor, node, parent_path)
    planned = locked_open_changes(node)
    guarantees = moved_guarantees(node, parent, is_locked=True)
    refuse_overfull(guarantees)
    arguments = {"node": str(node_id), "parent": parent_path}
    with guarded(node.organization, Write("node.move", arguments), actor=actor, now=now):
        write_as_devices(guarantees, actor=actor, now=now)
        moved = move_node(actor=actor, node=node, parent=parent, now=now)
        follow(moved, node.path, planned, actor=actor, now=now)
    return moved
