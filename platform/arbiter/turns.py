"""On whose guarantee a job has its turn that cannot start and would hold a reservation (R-23)."""

from __future__ import annotations

from arbiter.pool import Pool


class Turns:
    """The turns in one pool: by what is left of guarantees when somebody first asks."""

    __slots__ = ("_left", "_pool")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._left: dict[int, int] = {}

    def of_reserving(self, team: int, mgpu: int, source: int) -> int:
        """On whose guarantee a job has its turn that cannot start, and would hold a reservation:
        where it would fit if nobody drew on the guarantee but teams on their own. Else those that
        do would go before it again and again."""
        if source == team:
            return source
        for node in self._pool.tree.paths[team][1:]:
            if node == source or mgpu <= self._left_by_teams(node):
                return node
        return source

    def _left_by_teams(self, node: int) -> int:
        """What teams that draw on their own guarantees leave of that of a node above them, as it
        was when first asked."""
        left = self._left.get(node)
        if left is None:
            guarantees, tree = self._pool.guarantees, self._pool.tree
            left, below = guarantees.quota.guaranteed[node], [*tree.children.get(node, ())]
            for one in below:
                children = tree.children.get(one, ())
                below.extend(children)
                if not children:
                    left -= guarantees.used_mgpu[one]
            self._left[node] = left
        return left
