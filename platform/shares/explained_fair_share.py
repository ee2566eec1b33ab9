"""The fair-share of a node and of the nodes below it, explained: place, reason and outlook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from arbiter.explain.fair_shares import NodeFairShare
from arbiter.explain.phrases import percent_text
from arbiter.fairshare.decay import FACTOR_BITS, decay_of
from clusters.models import Pool
from quotas.models import NodeUse
from shares.fair_shares import FairShareReading, alone
from tenants.access import Actor, visible_node
from tenants.models import Node

#: The outlook covers so many half-lives, each in so many steps.
HALF_LIVES = 4
STEPS_PER_HALF_LIFE = 7
_NAMED_MAX = 2


@dataclass(frozen=True, slots=True)
class OutlookPoint:
    """The decayed use of a node after `after_s`, in milli-GPU-seconds of the reference GPU.

    `idle_mgpu_s` is without further use, `steady_mgpu_s` with the use of now going on.
    """

    after_s: int
    idle_mgpu_s: int
    steady_mgpu_s: int


@dataclass(frozen=True, slots=True)
class FairShareRow:
    """A node with its fair-share, and a sentence on its place."""

    node: Node
    share: NodeFairShare
    sentence: str


@dataclass(frozen=True, slots=True)
class ExplainedFairShare:
    """The fair-share of a node, of its ancestors (outermost first), and of its children by place.

    `in_use_mgpu` is what the node uses now, of all pools and weighted by them.
    """

    pool: Pool
    as_of: datetime
    row: FairShareRow
    above: Sequence[FairShareRow]
    below: Sequence[FairShareRow]
    in_use_mgpu: int
    outlook: Sequence[OutlookPoint]


def explained_fair_share(
    path: str, pool: Pool, *, actor: Actor, now: datetime
) -> ExplainedFairShare:
    """Return the fair-share of the visible node at `path` in `pool`.

    Must be outside of transactions. Raises NotFound for an invisible node.
    """
    node = visible_node(actor, path)
    shares = FairShareReading(now).of(pool)
    nodes = {
        str(each.pk): each
        for each in Node.objects.filter(organization=node.organization_id).order_by("path")
    }
    above = [each for each in nodes.values() if node.path.startswith(each.path) and each != node]
    siblings: dict[str | None, list[NodeFairShare]] = {}
    for each in sorted(shares.values(), key=lambda one: (one.place, one.node)):
        siblings.setdefault(each.parent, []).append(each)

    def row(key: str) -> FairShareRow:
        share = shares[key] if shares[key].parent is not None else alone(shares[key])
        return FairShareRow(nodes[key], share, _sentence(share, siblings[share.parent], nodes))

    in_use_mgpu = _in_use_mgpu(node)
    return ExplainedFairShare(
        pool=pool,
        as_of=now,
        row=row(str(node.pk)),
        above=[row(str(each.pk)) for each in above],
        below=[row(each.node) for each in siblings.get(str(node.pk), ())],
        in_use_mgpu=in_use_mgpu,
        outlook=outlook(shares[str(node.pk)], in_use_mgpu),
    )


def outlook(share: NodeFairShare, in_use_mgpu: int) -> list[OutlookPoint]:
    """Return how the decayed use of a node goes on, by the decay of the scheduler."""
    decay = decay_of(share.half_life_s)
    points = []
    for step in range(HALF_LIVES * STEPS_PER_HALF_LIFE + 1):
        after_s = share.half_life_s * step // STEPS_PER_HALF_LIFE
        idle = share.used_mgpu_s * decay.factor(after_s) >> FACTOR_BITS
        points.append(OutlookPoint(after_s, idle, idle + decay.use_of(in_use_mgpu, after_s)))
    return points


def _in_use_mgpu(node: Node) -> int:
    """Return the use of a node after the last cycle, each pool times its weight per mille."""
    rows = NodeUse.objects.filter(node=node).values_list("in_use_mgpu", "pool__weight")
    return sum(mgpu * weight for mgpu, weight in rows) // 1_000


def _sentence(
    share: NodeFairShare, siblings: Sequence[NodeFairShare], nodes: Mapping[str, Node]
) -> str:
    """Return the place of a node among its `siblings` in words, with the numbers behind it."""
    name = nodes[share.node].slug
    if share.parent is None:
        return f"{name} is an organization."
    parent = nodes[share.parent].slug
    if share.siblings == 1:
        return f"{name} has no siblings in {parent}."
    numbers = (
        f"it has {percent_text(share.weight_permille)} of the weight and "
        f"{percent_text(share.used_permille)} of the recent use in {parent}"
    )
    ahead = [nodes[one.node].slug for one in siblings if one.place < share.place]
    if not ahead:
        return f"{name} comes first: {numbers}."
    named = ahead[:_NAMED_MAX]
    if len(ahead) > len(named):
        named.append(f"{len(ahead) - len(named):,} more")
    text = " and ".join(part for part in (", ".join(named[:-1]), named[-1]) if part)
    return f"{name} comes after {text}: {numbers}."
