"""The tree, held GPUs, limits and room, with exact numbers (R-10 to R-14)."""

from __future__ import annotations

import pytest

from arbiter.api.snapshot import Quota, TreeNode
from arbiter.quota.ledger import Ledger
from arbiter.quota.tree import ROOT, UNLIMITED, pool_quota, tree_of

NODES = [TreeNode("o", None, 5), TreeNode("d", "o"), TreeNode("t", "d", 7), TreeNode("s", "d")]


def a_ledger(*quotas: Quota, capacity: int = 100, **use: int) -> Ledger:
    tree = tree_of(NODES)
    direct = [use.get(name, 0) for name in tree.ids]
    return Ledger(tree, pool_quota(tree, quotas), capacity, direct)


def q(node: str, guaranteed: int, *, lend: int | None = None, borrow: int | None = None) -> Quota:
    return Quota(node, "p", guaranteed, lend, borrow)


def test_nodes_are_numbered_parents_first_whatever_the_order() -> None:
    tree = tree_of(reversed(NODES))
    assert tree == tree_of(NODES)
    assert tree.ids == ("o", "d", "s", "t")
    assert tree.paths == ((0,), (1, 0), (2, 1, 0), (3, 1, 0))
    assert tree.depths == (0, 1, 2, 2)


def test_a_rank_is_inherited_from_the_nearest_ranked_ancestor() -> None:
    """It says how many ranks of the organization go before it, whatever the numbers are."""
    other = TreeNode("x", None), TreeNode("x/a", "x", 900), TreeNode("x/b", "x", 1)
    tree = tree_of([*NODES, *other])
    ranks = dict(zip(tree.ids, tree.ranks, strict=True))
    assert ranks == {"o": -1, "d": -1, "s": -1, "t": 0, "x": -2, "x/a": 0, "x/b": -1}


def test_levels_start_at_the_team_and_end_at_the_root() -> None:
    tree = tree_of(NODES)
    assert [tree.level(node, 3) for node in (3, 1, 0, ROOT)] == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([TreeNode("a", None), TreeNode("a", None)], "tree node 'a' is listed twice"),
        ([TreeNode("a", "gone")], "tree node 'a' hangs below an unknown parent or below itself"),
        (
            [TreeNode("b", "c"), TreeNode("c", "b"), TreeNode("r", None)],
            "tree node 'b' hangs below an unknown parent or below itself",
        ),
    ],
)
def test_a_broken_tree_is_refused(nodes: list[TreeNode], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        tree_of(nodes)


def test_an_empty_tree_is_a_tree() -> None:
    assert tree_of([]).ids == ()


def test_what_is_not_lent_is_held_although_idle() -> None:
    ledger = a_ledger(q("o", 40), q("d", 20), q("t", 10, lend=4), q("s", 5), s=3)
    held = dict(zip(ledger.tree.ids, ledger.held, strict=True))
    assert held == {"t": 6, "s": 3, "d": 9, "o": 9}
    assert ledger.root_held == 9
    assert ledger.use == 3


def test_a_start_inside_the_unlent_guarantee_changes_nothing_above() -> None:
    ledger = a_ledger(q("o", 10, borrow=0), q("t", 6, lend=0), s=8)
    assert ledger.held[ledger.tree.index["o"]] == 14
    t, s = ledger.tree.index["t"], ledger.tree.index["s"]
    assert ledger.available(t) == 6
    assert ledger.allows(t, 6)
    assert ledger.blocker(t, 7) == ledger.tree.index["o"]
    assert ledger.available(s) == -4
    assert ledger.blocker(s, 1) == ledger.tree.index["o"]


def test_the_reserve_of_a_parent_is_used_before_anything_is_borrowed() -> None:
    ledger = a_ledger(q("o", 30), q("d", 20, borrow=0), q("t", 5), q("s", 5), s=5, t=5)
    t = ledger.tree.index["t"]
    assert ledger.available(t) == 10
    ledger.charge(t, 10)
    assert ledger.available(t) == 0
    assert ledger.blocker(t, 1) == ledger.tree.index["d"]


def test_a_borrow_limit_of_zero_is_never_and_none_is_no_limit() -> None:
    ledger = a_ledger(q("o", 100), q("t", 5, borrow=0), q("s", 5))
    assert ledger.available(ledger.tree.index["t"]) == 5
    assert ledger.available(ledger.tree.index["s"]) == 100
    assert ledger.quota.limits[ledger.tree.index["s"]] == UNLIMITED


def test_the_capacity_bounds_all_organizations_together() -> None:
    ledger = a_ledger(q("o", 100), capacity=7, t=5)
    s = ledger.tree.index["s"]
    assert (ledger.available(s), ledger.blocker(s, 3)) == (2, ROOT)
    ledger = a_ledger(q("o", 100), q("t", 6, lend=0), capacity=7)
    assert ledger.available(s) == 1
    assert ledger.available(ledger.tree.index["t"]) == 7


def test_over_admission_shows_as_negative_room() -> None:
    ledger = a_ledger(q("o", 100), q("t", 2, borrow=1), capacity=50, t=9)
    assert ledger.available(ledger.tree.index["t"]) == -6
    assert a_ledger(q("o", 100), capacity=5, t=9).available(3) == -4


def test_devices_in_use_never_exceed_the_capacity_even_inside_a_guarantee() -> None:
    ledger = a_ledger(q("o", 100), q("t", 6, lend=0), capacity=7, s=5)
    t = ledger.tree.index["t"]
    assert ledger.available(t) == 2
    assert ledger.allows(t, 2)
    assert ledger.blocker(t, 3) == ROOT


def test_a_refund_undoes_a_charge() -> None:
    ledger = a_ledger(q("o", 30), q("d", 20), q("t", 10, lend=4))
    before = (ledger.base.copy(), ledger.held.copy(), ledger.root_held, ledger.use)
    twin = ledger.copy()
    ledger.charge(3, 9)
    ledger.charge(3, -9)
    assert (ledger.base, ledger.held, ledger.root_held, ledger.use) == before
    assert (twin.base, twin.held, twin.root_held, twin.use) == before


def test_use_outside_the_tree_takes_capacity() -> None:
    ledger = a_ledger(q("o", 30), capacity=10)
    ledger.charge(ROOT, 4)
    assert ledger.available(3) == 6
