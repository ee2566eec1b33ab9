"""The quota arithmetic against the contract's own words, written out the slow way."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from arbiter.api.snapshot import Quota, TreeNode
from arbiter.quota.ledger import Ledger
from arbiter.quota.tree import ROOT, pool_quota, tree_of
from builders.protecting import protect

small = st.integers(0, 6)


@dataclass
class SlowTree:
    """held(), "a start of q is allowed" and "protected at a node" as R-10, R-11 and R-15 say
    them, recursively."""

    parents: dict[str, str | None]
    quotas: dict[str, Quota]
    use: dict[str, int]
    capacity: int

    def children(self, node: str | None) -> list[str]:
        return [child for child, parent in self.parents.items() if parent == node]

    def held(self, node: str | None) -> int:
        own = self.use.get(node, 0) if node is not None else 0
        below = own + sum(self.held(child) for child in self.children(node))
        quota = None if node is None else self.quotas.get(node)
        if quota is None:
            return below
        lend = quota.lend_limit_mgpu
        kept = 0 if lend is None else quota.guaranteed_mgpu - lend
        return max(below, kept)

    def limit(self, node: str) -> int | None:
        quota = self.quotas.get(node)
        if quota is None or quota.borrow_limit_mgpu is None:
            return None
        return quota.guaranteed_mgpu + quota.borrow_limit_mgpu

    def path(self, node: str) -> list[str]:
        parent = self.parents[node]
        return [node] if parent is None else [node, *self.path(parent)]

    def after(self, node: str, q: int) -> SlowTree:
        use = dict(self.use)
        use[node] = use.get(node, 0) + q
        return SlowTree(self.parents, self.quotas, use, self.capacity)

    def allows(self, node: str, q: int) -> bool:
        then = self.after(node, q)
        for at in self.path(node):
            limit = self.limit(at)
            if limit is not None and then.held(at) > limit and then.held(at) != self.held(at):
                return False
        if then.held(None) > self.capacity and then.held(None) != self.held(None):
            return False
        return sum(then.use.values()) <= self.capacity

    def protects(self, node: str, team: str, q: int) -> bool:
        """Whether one more job fits whole in G of `node`, if all use is of jobs protected there."""
        quota, then = self.quotas.get(node), self.after(team, q)
        guaranteed = 0 if quota is None else quota.guaranteed_mgpu
        return sum(then.use.values()) <= guaranteed and (
            then.held(node) <= guaranteed or then.held(node) == self.held(node)
        )

    def protected(self, node: str, jobs: list[tuple[str, int]]) -> tuple[SlowTree, set[int]]:
        """The tree with only those of `jobs` that are protected at `node`, and which they are."""
        lower = [i for child in self.children(node) for i in self.protected(child, jobs)[1]]
        below = [i for i, (team, _) in enumerate(jobs) if node in self.path(team)]
        alone, chosen = SlowTree(self.parents, self.quotas, {}, 0), set[int]()
        for i in sorted(below, key=lambda i: (i not in lower, i)):
            if alone.protects(node, *jobs[i]):
                alone = alone.after(*jobs[i])
                chosen.add(i)
        return alone, chosen


@st.composite
def slow_trees(draw: st.DrawFn) -> SlowTree:
    parents: dict[str, str | None] = {}
    quotas: dict[str, Quota] = {}
    for i in range(draw(st.integers(1, 7))):
        name = f"n{i}"
        parents[name] = draw(st.sampled_from([None, *parents])) if parents else None
        if draw(st.booleans()) or parents[name] is None:
            quotas[name] = Quota(
                name,
                "p",
                draw(small),
                draw(st.none() | small),
                draw(st.none() | small),
            )
    leaves = [name for name in parents if name not in parents.values()]
    use = {leaf: draw(small) for leaf in leaves}
    return SlowTree(parents, quotas, use, draw(st.integers(0, 20)))


def fast(slow: SlowTree) -> tuple[Ledger, dict[str, int]]:
    tree = tree_of([TreeNode(name, parent) for name, parent in slow.parents.items()])
    quota = pool_quota(tree, slow.quotas.values())
    direct = [slow.use.get(name, 0) for name in tree.ids]
    return Ledger(tree, quota, slow.capacity, direct), tree.index


def same(ledger: Ledger, index: dict[str, int], slow: SlowTree) -> None:
    assert {name: ledger.held[i] for name, i in index.items()} == {
        name: slow.held(name) for name in index
    }
    assert ledger.root_held == slow.held(None)
    assert ledger.use == sum(slow.use.values())


@given(slow_trees(), st.data())
@settings(max_examples=400)
def test_held_and_allowed_are_what_the_contract_says(slow: SlowTree, data: st.DataObject) -> None:
    """Ledger = the recursive words, for held, allowed and available, through charges and refunds.

    Mutants that die here: no "or leaves held as it was" half (blocker goes on when change is
    0); lend limit taken as kept; `holds >= limits[at]`; capacity checked before the tree only;
    available without the unlent part; charge that stops one level early; everywhere at least 0.
    """
    ledger, index = fast(slow)
    same(ledger, index, slow)
    teams = list(slow.use)
    for _ in range(4):
        team = data.draw(st.sampled_from(teams))
        q = data.draw(st.integers(1, 6))
        allowed = slow.allows(team, q)
        assert ledger.allows(index[team], q) == allowed
        assert (q <= ledger.available(index[team])) == allowed
        everywhere = [ledger.available(node) for node in range(len(index))]
        assert ledger.available_everywhere() == everywhere
        then = slow.after(team, q)
        for at in slow.path(team):
            assert ledger.holds_with(index[at], index[team], q) == then.held(at)
        moved = q if data.draw(st.booleans()) else -slow.use[team]
        slow = slow.after(team, moved)
        ledger.charge(index[team], moved)
        same(ledger, index, slow)


@given(slow_trees(), st.data())
@settings(max_examples=300)
def test_protected_is_what_the_contract_says(slow: SlowTree, data: st.DataObject) -> None:
    """Who is protected where, and what fits there then and with one of them gone, also where
    guarantees are lowered below what is kept or protected under them.

    Mutants that die here: sums of use alone; what a node keeps itself taken for what is kept below
    it; what is protected one level lower not tried again where G is too small for it; a job
    within what is kept not protected there; a job that goes counted out of another depth.
    """
    tree = tree_of([TreeNode(name, parent) for name, parent in slow.parents.items()])
    teams = st.sampled_from(list(slow.use))
    jobs = data.draw(st.lists(st.tuples(teams, st.integers(1, 4)), max_size=8))
    quota = pool_quota(tree, slow.quotas.values())
    found = protect(tree, quota, [(tree.index[team], q) for team, q in jobs])
    for node, at in tree.index.items():
        alone, chosen = slow.protected(node, jobs)
        assert found.taken.used_mgpu[at] == sum(alone.use.values())
        for i, (team, _) in enumerate(jobs):
            if node in slow.path(team):
                assert bool(found.levels[i] >> tree.depths[at] & 1) == (i in chosen)
        for _ in range(2):
            for team in slow.use:
                if node in slow.path(team):
                    q = data.draw(st.integers(1, 6))
                    fits = found.taken.fits(at, tree.index[team], q)
                    assert fits == alone.protects(node, team, q)
            if chosen:
                team, q = jobs[chosen.pop()]
                alone = alone.after(team, -q)
                found.taken.take(at, tree.index[team], -q)


@given(slow_trees(), st.data())
@settings(max_examples=200)
def test_the_blocker_is_the_lowest_node_that_refuses(slow: SlowTree, data: st.DataObject) -> None:
    """Mutant that dies here: the highest refusing node is named instead."""
    ledger, index = fast(slow)
    team = data.draw(st.sampled_from(list(slow.use)))
    q = data.draw(st.integers(1, 6))
    then = slow.after(team, q)
    refusing = [
        at
        for at in slow.path(team)
        if (limit := slow.limit(at)) is not None
        and then.held(at) > limit
        and then.held(at) != slow.held(at)
    ]
    blocker = ledger.blocker(index[team], q)
    if refusing:
        assert blocker == index[refusing[0]]
    else:
        assert blocker == (None if slow.allows(team, q) else ROOT)


@given(slow_trees())
@settings(max_examples=200)
def test_room_is_never_clamped(slow: SlowTree) -> None:
    """A team that keeps nothing unlent sees by how much its path is over.

    Mutant that dies here: available() floors at 0.
    """
    ledger, index = fast(slow)
    for team in slow.use:
        path = slow.path(team)
        if any(ledger.held[index[at]] > ledger.base[index[at]] for at in path):
            continue
        rooms = [slow.capacity - slow.held(None), slow.capacity - sum(slow.use.values())]
        for at in path:
            limit = slow.limit(at)
            if limit is not None:
                rooms.append(limit - slow.held(at))
        assert ledger.available(index[team]) == min(rooms)
