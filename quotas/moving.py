"""Quotas of a tree node that is moved to another parent.

The node keeps its guarantees, in devices, because a percentage referred to the former parent. So
the new parent must have room for them in every pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from primitives.errors import Conflict
from quotas.administration import change_together, named_refusals
from quotas.envelope import EnvelopeBroken, Family
from quotas.locks import lock_quotas
from quotas.models import PlannedChange, Quota
from quotas.planned_changes import follow_move
from quotas.policies import rename_in_rank
from quotas.quota_store import let_the_database_check
from tenants.access import Actor, under
from tenants.models import Node


@dataclass(frozen=True, slots=True)
class ParentsShare:
    """A parent's guarantee in a pool, and its reserve before and after the move."""

    guaranteed_mgpu: int
    reserve_before_mgpu: int
    reserve_after_mgpu: int


@dataclass(frozen=True, slots=True)
class MovedGuarantee:
    """A moved node's guarantee in one pool.

    A percentage `guaranteed_bp` of the former parent becomes its present devices. `problem` is why
    it does not fit, or "".
    """

    quota: Quota
    leaves: ParentsShare | None
    joins: ParentsShare | None
    problem: str


def moved_guarantees(node: Node, parent: Node, *, is_locked: bool) -> list[MovedGuarantee]:
    """Return the guarantees of `node` in each pool on a move to `parent`, by the pool's name.

    Nothing is written.
    """
    # The same order of locks as for planned changes in several pools.
    quotas = Quota.objects.filter(node=node).select_related("pool").order_by("pool_id")
    found = [_moved(node, parent, quota, is_locked=is_locked) for quota in quotas]
    return sorted(found, key=lambda moved: moved.quota.pool.name)


def refuse_overfull(guarantees: Sequence[MovedGuarantee]) -> None:
    """Raise EnvelopeBroken, or Conflict for a parent without a quota, with the first problem."""
    for each in guarantees:
        if each.problem and each.joins is None:
            raise Conflict(each.problem, pool=each.quota.pool.name)
        if each.problem:
            raise EnvelopeBroken(each.problem, pool=each.quota.pool.name)


def write_as_devices(guarantees: Sequence[MovedGuarantee], *, actor: Actor, now: datetime) -> None:
    """Replace percentages by their present devices, before their node leaves the parent.

    The percentages of the parent's other children are resolved again.
    """
    for each in guarantees:
        if each.quota.guaranteed_bp is not None:
            node = each.quota.node
            with named_refusals():
                change_together(
                    {each.quota.pk: {"guaranteed_mgpu": each.quota.guaranteed_mgpu}},
                    Family(lock_quotas(node.parent or node, each.quota.pool_id)),
                    actor=actor,
                    reason=f"Moved away from {node.display_parent}",
                    now=now,
                )


def follow(
    node: Node,
    former_path: str,
    planned: Sequence[PlannedChange],
    *,
    actor: Actor,
    now: datetime,
) -> None:
    """Update the rank and these planned changes after a move from `former_path`.

    Also makes the database check the guarantees. Must run in the transaction of the move.
    """
    rename_in_rank(node, former_path, actor=actor, now=now)
    follow_move(planned)
    with named_refusals():
        let_the_database_check()


def _moved(node: Node, parent: Node, quota: Quota, *, is_locked: bool) -> MovedGuarantee:
    rows = _rows(node, quota, is_locked=is_locked)
    before = Family(rows)
    # Read again after the lock, because it may have changed until then.
    own = before.by_node[node.pk]
    leaves, joins = before.parent(own), before.by_node.get(parent.pk)
    reserves = {each.pk: _reserve_mgpu(before, each) for each in (leaves, joins) if each}
    if joins is None:
        return MovedGuarantee(
            own,
            _share(leaves, reserves, own.guaranteed_mgpu),
            None,
            f"{parent.display_path} has no quota in {own.pool.name}. Give it one first, of at "
            f"least the {own.pool.kind.text(own.guaranteed_mgpu)} that {node.slug} is guaranteed.",
        )
    now_at, written = own.node.parent_id, own.guaranteed_bp
    own.node.parent_id, own.guaranteed_bp = parent.pk, None
    after, problem = Family(rows), ""
    try:
        after.check_room_for(own)
    except EnvelopeBroken as refusal:
        problem = f"{refusal.detail} Lower {_who_could_give(after, joins)} first."
    own.node.parent_id, own.guaranteed_bp = now_at, written
    return MovedGuarantee(
        own,
        _share(leaves, reserves, own.guaranteed_mgpu),
        _share(joins, reserves, -own.guaranteed_mgpu),
        problem,
    )


def _rows(node: Node, quota: Quota, *, is_locked: bool) -> list[Quota]:
    """Return all quotas of the organization in the pool, which include those of both parents."""
    if is_locked:
        return lock_quotas(node.organization, quota.pool_id)
    return list(
        Quota.objects.select_related("node", "pool").filter(
            under([node.organization.path], "node__path"), pool=quota.pool_id
        )
    )


def _reserve_mgpu(family: Family, quota: Quota) -> int:
    return quota.guaranteed_mgpu - sum(child.guaranteed_mgpu for child in family.children(quota))


def _share(
    quota: Quota | None, reserves: Mapping[UUID, int], change_mgpu: int
) -> ParentsShare | None:
    if quota is None:
        return None
    before_mgpu = reserves[quota.pk]
    return ParentsShare(quota.guaranteed_mgpu, before_mgpu, before_mgpu + change_mgpu)


def _who_could_give(family: Family, parent: Quota) -> str:
    """Return the children with the largest guarantees: "nlp", or "nlp or inference"."""
    children = sorted(
        family.children(parent), key=lambda quota: (-quota.guaranteed_mgpu, quota.node.path)
    )
    return " or ".join(child.node.slug for child in children[:2])
