"""The amount of a pool that each tree node holds, and what its limits allow."""

from __future__ import annotations

from collections.abc import Sequence

from arbiter.quota.tree import ROOT, PoolQuota, Tree


class Ledger:
    """The amount that every node of one pool holds, in milli-GPU, updated with each start.

    `base[x]` is the use of the jobs at x itself plus what x's children hold. `held[x] =
    max(base[x], unlent[x])`. `root_held` is what the organizations hold together, and `use` is what
    is really in use. `capacity` is never clamped to either.
    """

    __slots__ = ("base", "capacity", "held", "quota", "root_held", "tree", "use")

    def __init__(self, tree: Tree, quota: PoolQuota, capacity: int, direct: Sequence[int]) -> None:
        """Build it from `direct`: the use of the jobs at each node itself, one number per node."""
        self.tree = tree
        self.quota = quota
        self.capacity = capacity
        self.base = list(direct)
        self.held = [0] * len(direct)
        self.root_held = 0
        self.use = sum(direct)
        for node in range(len(direct) - 1, -1, -1):
            held = max(self.base[node], quota.unlent[node])
            self.held[node] = held
            parent = tree.parents[node]
            if parent == ROOT:
                self.root_held += held
            else:
                self.base[parent] += held

    def copy(self) -> Ledger:
        """Return an independent ledger with the same values."""
        twin = Ledger(self.tree, self.quota, self.capacity, ())
        twin.base, twin.held = self.base.copy(), self.held.copy()
        twin.root_held, twin.use = self.root_held, self.use
        return twin

    def charge(self, node: int, mgpu: int) -> None:
        """Add `mgpu` of use at `node`; a negative amount removes it. ROOT charges no node."""
        self.use += mgpu
        change = mgpu
        base, held, unlent, parents = self.base, self.held, self.quota.unlent, self.tree.parents
        while node != ROOT:
            holds = base[node] = base[node] + change
            if holds < unlent[node]:
                holds = unlent[node]
            change = holds - held[node]
            if change == 0:
                return
            held[node] = holds
            node = parents[node]
        self.root_held += change

    def blocker(self, node: int, mgpu: int) -> int | None:
        """Return the lowest node whose limit refuses a start of `mgpu` (above 0) at `node`.

        Return ROOT when it is the capacity of the pool. Return None when the start is allowed:
        after it every node on the path holds at most its limit or as much as before.
        """
        above = ROOT if self.use + mgpu > self.capacity else None
        change = mgpu
        base, held, unlent, limits = self.base, self.held, self.quota.unlent, self.quota.limits
        for at in self.tree.paths[node]:
            holds = base[at] + change
            if holds < unlent[at]:
                holds = unlent[at]
            change = holds - held[at]
            if change == 0:
                return above
            if holds > limits[at]:
                return at
        if self.root_held + change > self.capacity:
            return ROOT
        return above

    def holds_with(self, at: int, node: int, mgpu: int) -> int:
        """Return what `at`, on the path of `node`, holds after a start of `mgpu` at `node`."""
        change = mgpu
        base, held, unlent = self.base, self.held, self.quota.unlent
        for below in self.tree.paths[node]:
            change = max(base[below] + change, unlent[below]) - held[below]
            if below == at:
                break
        return held[at] + change

    def allows(self, node: int, mgpu: int) -> bool:
        """Return whether quota allows a start of `mgpu` (above 0) at `node`."""
        return self.blocker(node, mgpu) is None

    def available(self, node: int) -> int:
        """Return the most that quota lets start at `node` now; if negative, the excess of use.

        Exact: for every q above 0, `allows(node, q)` is `q <= available(node)`.
        """
        headroom = self.capacity - self.root_held
        limits, held, base = self.quota.limits, self.held, self.base
        for at in reversed(self.tree.paths[node]):
            headroom = min(headroom, limits[at] - held[at])
            own = held[at] - base[at]
            if own > 0:
                headroom = own + max(0, headroom)
        return min(headroom, self.capacity - self.use)

    def available_everywhere(self) -> list[int]:
        """Return the value of `available` for every node, computed from the root down."""
        limits, held, base, parents = self.quota.limits, self.held, self.base, self.tree.parents
        at_root, most = self.capacity - self.root_held, self.capacity - self.use
        headrooms: list[int] = []
        for node, parent in enumerate(parents):
            headroom = at_root if parent == ROOT else headrooms[parent]
            if headroom > limits[node] - held[node]:
                headroom = limits[node] - held[node]
            own = held[node] - base[node]
            if own > 0:
                headroom = own + max(0, headroom)
            headrooms.append(headroom)
        return [min(headroom, most) for headroom in headrooms]
