"""The fair-share of every tree node in a pool, in the numbers by which a cycle orders nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from arbiter.api.policy import Policy
from arbiter.api.snapshot import PoolWeight, PriorityClass, Quota, RunningJob, TreeNode, Usage
from arbiter.fairshare.fair_tree import (
    WEIGHT_OF_REFERENCE,
    FairShares,
    Starts,
    fair_use,
    half_lives_of,
    permille,
)
from arbiter.quota.tree import pool_quota, tree_of


@dataclass(frozen=True, slots=True)
class NodeFairShare:
    """The weight and the decayed use of a node, and the sums over it and its siblings.

    `used` counts all pools, in millionths of a GPU-second of the reference GPU. `place` is the
    position among the `siblings` in the order of fair-share, from 1. Equal nodes share a place.
    """

    node: str
    parent: str | None
    half_life_s: int
    weight: int
    weight_of_siblings: int
    used: int
    used_of_siblings: int
    place: int
    siblings: int

    @property
    def weight_permille(self) -> int:
        """The part of the node in the weight of its siblings, rounded down."""
        return permille(self.weight, self.weight_of_siblings)

    @property
    def used_permille(self) -> int:
        """The part of the node in the use of its siblings, rounded down."""
        return permille(self.used, self.used_of_siblings)

    @property
    def level_permille(self) -> int | None:
        """The level value: part of the weight over part of the use. None without use."""
        if self.used == 0:
            return None
        return permille(
            self.weight * self.used_of_siblings, (self.weight_of_siblings or 1) * self.used
        )

    @property
    def used_mgpu_s(self) -> int:
        """The use in milli-GPU-seconds of the reference GPU, rounded down."""
        return self.used // WEIGHT_OF_REFERENCE


def fair_shares(
    pool: str,
    *,
    nodes: Iterable[TreeNode],
    quotas: Iterable[Quota],
    priority_classes: Iterable[PriorityClass],
    pool_weights: Iterable[PoolWeight],
    usage: Sequence[Usage],
    running: Iterable[RunningJob],
    policy: Policy,
    at: int,
) -> Mapping[str, NodeFairShare]:
    """Return the fair-share of all nodes in `pool` at `at` (epoch seconds), by node.

    The arguments are as in a snapshot. Raises ValueError for an invalid tree.
    """
    tree = tree_of(nodes)
    half_lives_s = half_lives_of(tree, policy.fair_share_half_life_s)
    weights = {one.pool: one.permille for one in pool_weights}
    by_team: dict[str, list[Usage]] = {}
    for row in usage:
        by_team.setdefault(row.team, []).append(row)
    use = fair_use(
        tree,
        usage=lambda team: by_team.get(team, ()),
        starts=Starts(
            tree, half_lives_s, weights, running, {cls.id: cls for cls in priority_classes}
        ),
        weights=weights,
        half_lives_s=half_lives_s,
        at=at,
    )
    quota = pool_quota(tree, [one for one in quotas if one.pool == pool])
    shares = FairShares(
        tree, quota.weights, use, pool_weight=weights.get(pool, WEIGHT_OF_REFERENCE)
    )
    found: dict[str, NodeFairShare] = {}
    for parent, children in tree.children.items():
        weight, used = shares.of_children(parent)
        loads = sorted(shares.loads[child] for child in children)
        places = {load: place for place, load in reversed(list(enumerate(loads, start=1)))}
        for child in children:
            name = tree.ids[child]
            found[name] = NodeFairShare(
                node=name,
                parent=tree.given[child].parent,
                half_life_s=half_lives_s[child],
                weight=shares.weights[child],
                weight_of_siblings=weight,
                used=shares.used(child),
                used_of_siblings=used,
                place=places[shares.loads[child]],
                siblings=len(children),
            )
    return found
