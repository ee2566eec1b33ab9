"""The position of a blocked job in the order of service (R-23)."""

from __future__ import annotations

from arbiter.quota.entitlement import Guarantees
from arbiter.quota.tree import Tree


class BlockedOrder:
    """The guarantees that set the positions of blocked jobs in one pool.

    The part of a guarantee that teams leave is computed when first needed, and then stays for the
    cycle.
    """

    __slots__ = ("_guarantees", "_left", "_tree")

    def __init__(self, tree: Tree, guarantees: Guarantees) -> None:
        self._tree = tree
        self._guarantees = guarantees
        self._left: dict[int, int] = {}

    def source_of(self, team: int, mgpu: int, source: int) -> int:
        """Return the node whose guarantee sets the position of a blocked job that may reserve.

        It is the node in whose guarantee the job would fit if teams drew only on their own. With
        the position of `source`, on which it draws now, smaller jobs would pass it again and again.
        """
        if source == team:
            return source
        for node in self._tree.paths[team][1:]:
            if node == source or mgpu <= self._left_by_teams(node):
                return node
        return source

    def _left_by_teams(self, node: int) -> int:
        """Return the part of a node's guarantee that the teams below leave.

        It assumes that they use only their own guarantees.
        """
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
