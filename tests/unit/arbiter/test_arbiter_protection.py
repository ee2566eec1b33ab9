"""Who is protected where."""

from __future__ import annotations

from arbiter.protection import protect
from arbiter.quota_tree import tree_of
from arbiter.snapshot import TreeNode

TREE = tree_of([TreeNode("o", None), TreeNode("d", "o"), TreeNode("s", "d"), TreeNode("t", "d")])
ORG, D, S, T = (TREE.index[name] for name in ("o", "d", "s", "t"))


def classes(guaranteed: dict[int, int], *jobs: tuple[int, int]) -> tuple[list[int], list[str]]:
    found = protect(TREE, [guaranteed.get(node, 0) for node in range(4)], jobs)
    names = {0: "o", 1: "d", 2: "t"}
    levels = [
        "".join(name for bit, name in names.items() if level >> bit & 1) for level in found.levels
    ]
    return [found.used_mgpu[node] for node in (ORG, D, S, T)], levels


def test_jobs_fit_whole_or_not_at_all() -> None:
    assert classes({T: 10, D: 10, ORG: 10}, (T, 6), (T, 6), (T, 4)) == (
        [10, 10, 0, 10],
        ["odt", "", "odt"],
    )


def test_an_idle_sister_protects_at_the_department_only() -> None:
    assert classes({S: 5, T: 5, D: 10, ORG: 10}, (T, 5), (T, 5)) == (
        [10, 10, 0, 5],
        ["odt", "od"],
    )


def test_what_is_protected_below_goes_first_above() -> None:
    used, levels = classes({S: 5, T: 5, D: 10, ORG: 10}, (T, 5), (T, 5), (S, 5))
    assert levels == ["odt", "", "odt"]
    assert used == [10, 10, 5, 5]


def test_a_guarantee_above_that_was_lowered_protects_less() -> None:
    assert classes({T: 10, D: 4, ORG: 4}, (T, 4), (T, 6)) == ([4, 4, 0, 10], ["odt", "t"])


def test_nothing_guaranteed_protects_nothing() -> None:
    assert classes({}, (T, 1)) == ([0, 0, 0, 0], [""])
