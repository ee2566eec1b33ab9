"""The tree and its lending and borrowing arithmetic (R-10 to R-14).

Tree nodes are numbered, parents first; -1 stands for the root of a pool: all
organizations together. A *path* runs from a node up to its organization.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arbiter.api.snapshot import Quota, TreeNode

ROOT = -1
#: Stands for "no limit"; above any sum of milli-GPU that a snapshot can hold.
UNLIMITED = 1 << 61
#: Weight for spare GPUs of a node that has no quota in a pool.
WEIGHT_DEFAULT = 100


@dataclass(frozen=True, slots=True)
class Tree:
    """The numbered tree.

    `given` are the nodes as in the snapshot. `children` are the nodes right below each node, or
    below ROOT, where there are any. `below` are all nodes of each organization, the lowest first
    and itself last.

    `ranks` are resolved: a node without one has its nearest ancestor's. A value is minus the number
    of ranks in its organization that come before the node's. So 0 is the first rank of every
    organization, and others are negative. Organizations choose their own numbers, and these give no
    advantage over another organization, neither for spare GPUs nor in the order of victims.
    """

    ids: tuple[str, ...]
    index: dict[str, int]
    parents: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]
    depths: tuple[int, ...]
    ranks: tuple[int, ...]
    given: tuple[TreeNode, ...]
    depth_max: int
    below: dict[int, list[int]]
    children: dict[int, list[int]]

    def level(self, node: int, team: int) -> int:
        """Return the position of `node` among the guarantees that `team` can draw on.

        0 is the team's own, then the deepest ancestor comes first, and the root last.
        """
        if node == team:
            return 0
        return self.depth_max + 2 if node == ROOT else self.depth_max + 1 - self.depths[node]

    def sides(self, team: int, other: int) -> tuple[int, int] | None:
        """Return the children of the lowest common ancestor of two nodes (or ROOT) on each side.

        Return None if one of the nodes is at or above the other.
        """
        both = zip(reversed(self.paths[team]), reversed(self.paths[other]), strict=False)
        return next((sides for sides in both if sides[0] != sides[1]), None)


def tree_of(nodes: Iterable[TreeNode]) -> Tree:
    """Number `nodes`, parents first and then by id, so that input order does not matter.

    Raises ValueError for a repeated id, an unknown parent or a cycle of parents.
    """
    children: dict[str | None, list[TreeNode]] = {}
    known: set[str] = set()
    for node in nodes:
        if node.id in known:
            raise ValueError(f"tree node {node.id!r} is listed twice")
        known.add(node.id)
        children.setdefault(node.parent, []).append(node)
    ids: list[str] = []
    index: dict[str, int] = {}
    parents: list[int] = []
    paths: list[tuple[int, ...]] = []
    ranks: list[int] = []
    given: list[TreeNode] = []
    layer = sorted(children.get(None, ()), key=lambda node: node.id)
    while layer:
        below: list[TreeNode] = []
        for node in layer:
            number = len(ids)
            parent = ROOT if node.parent is None else index[node.parent]
            ids.append(node.id)
            index[node.id] = number
            parents.append(parent)
            paths.append((number,) if parent == ROOT else (number, *paths[parent]))
            ranks.append(node.rank or (0 if parent == ROOT else ranks[parent]))
            given.append(node)
            below.extend(children.get(node.id, ()))
        layer = sorted(below, key=lambda node: node.id)
    if len(ids) < len(known):
        lost = min(known - index.keys())
        raise ValueError(f"tree node {lost!r} hangs below an unknown parent or below itself")
    depths = tuple(len(path) - 1 for path in paths)
    of_organization: dict[int, list[int]] = {}
    for path in reversed(paths):
        of_organization.setdefault(path[-1], []).append(path[0])
    children_of: dict[int, list[int]] = {}
    for number, parent in enumerate(parents):
        children_of.setdefault(parent, []).append(number)
    return Tree(
        tuple(ids),
        index,
        tuple(parents),
        tuple(paths),
        depths,
        _behind_the_first(paths, ranks),
        tuple(given),
        max(depths, default=0),
        of_organization,
        children_of,
    )


def _behind_the_first(paths: Sequence[tuple[int, ...]], ranks: Sequence[int]) -> tuple[int, ...]:
    """Return for each node minus the number of ranks in its organization before its own."""
    of_organization: dict[int, set[int]] = {}
    for path, rank in zip(paths, ranks, strict=True):
        of_organization.setdefault(path[-1], set()).add(rank)
    behind = {
        organization: {rank: -place for place, rank in enumerate(sorted(found, reverse=True))}
        for organization, found in of_organization.items()
    }
    return tuple(behind[path[-1]][rank] for path, rank in zip(paths, ranks, strict=True))


@dataclass(frozen=True, slots=True)
class PoolQuota:
    """All quotas of one pool by node number, in milli-GPU.

    `unlent` is the unlent guarantee, G minus the lend limit. `keeps_below` says whether any node
    below has some. `limits` is G plus the borrow limit, or UNLIMITED. `has_row` says which nodes
    have a quota. A node without one has no guarantee and no limits of its own. An organization
    without one may not use the pool at all. `weights` are for spare GPUs.
    """

    guaranteed: tuple[int, ...]
    unlent: tuple[int, ...]
    keeps_below: tuple[bool, ...]
    limits: tuple[int, ...]
    has_row: tuple[bool, ...]
    weights: tuple[int, ...]

    def admits(self, path: Sequence[int]) -> bool:
        """Return whether the organization at the end of `path` has a quota in this pool."""
        return self.has_row[path[-1]]


def pool_quota(tree: Tree, quotas: Iterable[Quota]) -> PoolQuota:
    """Arrange one pool's `quotas` by the nodes of `tree`; those of unknown nodes are ignored."""
    size = len(tree.ids)
    guaranteed, unlent = [0] * size, [0] * size
    limits, has_row = [UNLIMITED] * size, [False] * size
    weights = [WEIGHT_DEFAULT] * size
    for quota in quotas:
        node = tree.index.get(quota.node)
        if node is None:
            continue
        has_row[node] = True
        guaranteed[node] = quota.guaranteed_mgpu
        weights[node] = quota.weight
        if quota.lend_limit_mgpu is not None:
            unlent[node] = max(0, quota.guaranteed_mgpu - quota.lend_limit_mgpu)
        if quota.borrow_limit_mgpu is not None:
            limits[node] = quota.guaranteed_mgpu + quota.borrow_limit_mgpu
    keeps_below = [False] * size
    for node in range(size - 1, -1, -1):
        if (unlent[node] or keeps_below[node]) and tree.parents[node] != ROOT:
            keeps_below[tree.parents[node]] = True
    return PoolQuota(
        tuple(guaranteed),
        tuple(unlent),
        tuple(keeps_below),
        tuple(limits),
        tuple(has_row),
        tuple(weights),
    )
