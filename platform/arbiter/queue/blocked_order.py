"""Where a blocked job stands in the order of service (R-23)."""

from __future__ import annotations

from arbiter.quota.entitlement import Guarantees
from arbiter.quota.tree import Tree


class BlockedOrder:
    """The guarantees on which blocked jobs of one pool have their turns.

    What teams leave of a guarantee is counted when somebody first asks, and stays so for the cycle.
    """

    __slots__ = ("_guarantees", "_left", "_tree")

    def __init__(self, tree: Tree, guarantees: Guarantees) -> None:
        self._tree = tree
        self._guarantees = guarantees
        self._left: dict[int, int] = {}

    def source_of(self, team: int, mgpu: int, source: int) -> int:
        """Return the node on whose guarantee a blocked job has its turn if it may reserve.

        That is where it would fit if only teams drew on their own guarantees. By `source`, on which
        it draws now, smaller jobs would go before it again and again.
        """
        if source == team:
            return source
        for node in self._tree.paths[team][1:]:
            if node == source or mgpu <= self._left_by_teams(node):
                return node
        return source

    def _left_by_teams(self, node: int) -> int:
        """Return what teams leave of the guarantee of a node above them, drawing on their own."""
        left = self._left.get(node)
        if left is None:
            tree = self._tree
            left, below = self._guarantees.quota.guaranteed[node], [*tree.children.get(node, ())]
            for one in below:
                children = tree.children.get(one, ())
                below.extend(children)
                if not children:
                    left -= self._guarantees.used_mgpu[one]
            self._left[node] = left
        return left
