"""Who is protected where (R-15, R-16)."""

from __future__ import annotations

from arbiter.api.plan import Classed
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Quota, TreeNode
from arbiter.cycle.decide import decide
from arbiter.quota.tree import pool_quota, tree_of
from builders.arbiter_builders import (
    GPU,
    a_claim,
    a_queued,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)
from builders.protecting import protect

TREE = tree_of([TreeNode("o", None), TreeNode("d", "o"), TreeNode("s", "d"), TreeNode("t", "d")])
ORG, D, S, T = (TREE.index[name] for name in ("o", "d", "s", "t"))


def classes(
    guaranteed: dict[int, int], *jobs: tuple[int, int], lend: dict[int, int] | None = None
) -> tuple[list[int], list[str]]:
    quotas = [
        Quota(TREE.ids[node], "p", mgpu, lend_limit_mgpu=(lend or {}).get(node))
        for node, mgpu in guaranteed.items()
    ]
    found = protect(TREE, pool_quota(TREE, quotas), jobs)
    names = {0: "o", 1: "d", 2: "t"}
    levels = [
        "".join(name for bit, name in names.items() if level >> bit & 1) for level in found.levels
    ]
    return [found.taken.used_mgpu[node] for node in (ORG, D, S, T)], levels


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


def test_jobs_of_sisters_are_taken_in_one_order_where_not_all_fit() -> None:
    """Planted: jobs that are protected nowhere below are taken team by team."""
    assert classes({D: 10, ORG: 10}, (T, 6), (S, 6), (T, 4)) == (
        [10, 10, 0, 0],
        ["od", "", "od"],
    )
    assert classes({D: 16, ORG: 16}, (T, 6), (S, 6), (T, 4)) == (
        [16, 16, 0, 0],
        ["od", "od", "od"],
    )


def test_what_is_protected_below_goes_first_above() -> None:
    used, levels = classes({S: 5, T: 5, D: 10, ORG: 10}, (T, 5), (T, 5), (S, 5))
    assert levels == ["odt", "", "odt"]
    assert used == [10, 10, 5, 5]


def test_a_guarantee_above_that_was_lowered_protects_less() -> None:
    assert classes({T: 10, D: 4, ORG: 4}, (T, 4), (T, 6)) == ([4, 4, 0, 10], ["odt", "t"])


def test_nothing_guaranteed_protects_nothing() -> None:
    assert classes({}, (T, 1)) == ([0, 0, 0, 0], [""])


def test_what_a_sister_keeps_protects_nobody_but_herself() -> None:
    """s lends 2 of her 5, so t has 7 of d's 10: as many when s uses what she keeps."""
    quota, borrowing = {S: 5, T: 5, D: 10, ORG: 10}, ((T, 4), (T, 4), (T, 3))
    assert classes(quota, *borrowing, lend={S: 2}) == ([7, 7, 0, 4], ["odt", "", "od"])
    assert classes(quota, *borrowing, (S, 3), lend={S: 2}) == (
        [10, 10, 3, 4],
        ["odt", "", "od", "odt"],
    )


def test_what_a_department_keeps_is_counted_once_with_what_its_teams_keep() -> None:
    """s keeps 3, which with the 5 of t are the 8 that d keeps: o has 6 left, not 3 and not 9."""
    quota = {S: 5, T: 5, D: 10, ORG: 14}
    assert classes(quota, (T, 7), (T, 6), (T, 5), lend={S: 2, D: 2}) == (
        [11, 5, 0, 5],
        ["", "o", "odt"],
    )


def test_what_is_kept_stays_protected_where_the_guarantee_above_is_less() -> None:
    """d was lowered below what its teams keep: they are protected in it as far as it goes."""
    assert classes({S: 5, T: 5, D: 6, ORG: 6}, (S, 3), (T, 4), (T, 2), lend={S: 0, T: 0}) == (
        [5, 5, 3, 4],
        ["odt", "t", "od"],
    )


def test_what_is_protected_further_up_only_takes_nothing_of_the_department() -> None:
    quota = pool_quota(TREE, [Quota("o", "p", 20), Quota("d", "p", 10), Quota("s", "p", 5, 2)])
    taken = protect(TREE, quota, [(T, 8)]).taken
    assert taken.used_mgpu[ORG] == 8
    assert [taken.fits(D, T, mgpu) for mgpu in (7, 8)] == [True, False]
    assert [taken.fits(ORG, T, mgpu) for mgpu in (9, 10)] == [True, False]


def test_what_a_team_is_guaranteed_beside_those_below_it_goes_by_what_is_protected_there() -> None:
    """Of its 8 t below has 4, so the first of its own jobs does not fit, and gets what is left.

    Planted: who has others below is classed as if nobody were there.
    """
    plan = decide(
        a_snapshot(
            quotas={"o": 16, "o/d": 8, "o/d/t": 4},
            devices=devices(2),
            running=[
                a_running("below", "o/d/t", slots(1, 1, gpus=4), started_at=30),
                a_running("first", "o/d", slots(0, 1, gpus=6), started_at=10),
                a_running("second", "o/d", slots(1, 1, gpus=4), started_at=20),
            ],
        ),
        Policy(),
    )
    assert plan.classed == tuple(
        Classed(attempt, 4 * GPU) for attempt in ("below.1", "first.1", "second.1")
    )


def test_a_claim_is_no_protected_use_before_its_job_starts() -> None:
    """Planted: a team with a claim is not classed again without it when its use is told."""
    plan = decide(
        a_snapshot(
            quotas={"o": 16, "o/s": 8, "o/t": 8},
            devices=devices(2),
            running=[
                a_running("r", "o/s", slots(0, 1)),
                a_victim("v", "o/s", slots(1, 1), of="j"),
            ],
            queued=[a_queued("j", "o/t", gpus=8)],
            claims=[a_claim("j", slots(1, 1))],
        ),
        Policy(),
    )
    assert {use.node: use.protected_mgpu for use in plan.use} == {
        "o": 8 * GPU,
        "o/s": 8 * GPU,
        "o/t": 0,
    }
