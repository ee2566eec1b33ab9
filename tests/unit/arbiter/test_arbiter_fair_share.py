"""Decay in closed form, level values and the Fair Tree order, against worked-out figures
(R-30 to R-33)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import NamedTuple

import pytest

from arbiter.api.snapshot import Phase, RunningJob, TreeNode, Usage
from arbiter.fairshare.decay import Decay
from arbiter.fairshare.fair_tree import FairShares, FairUse, Starts, fair_use, half_lives_of
from arbiter.quota.tree import Tree, tree_of
from builders.arbiter_builders import NOW, a_node, a_running, slots

DAY = 86_400
WEEK = 7 * DAY

#: Oracle 1: what stands below each node, as (shares, use); users are the leaves.
THREE_DEPARTMENTS = {
    "A": (40, 0),
    "A/a1": (1, 300),
    "A/a2": (1, 100),
    "B": (30, 0),
    "B/B1": (1, 0),
    "B/B1/b1": (1, 0),
    "B/B1/b2": (1, 60),
    "B/B2": (2, 0),
    "B/B2/b3": (1, 140),
    "C": (30, 0),
    "C/c1": (3, 300),
    "C/c2": (1, 100),
}
#: Oracle 2: two accounts with the same level value beside a user.
TIED_ACCOUNTS = {
    "P": (1, 0),
    "P/p1": (1, 100),
    "P/p2": (1, 300),
    "Q": (1, 0),
    "Q/q1": (1, 50),
    "Q/q2": (1, 350),
    "u": (1, 0),
}


#: SchedMD's example of the classic fair-share, in hundredths; what is not used has no shares.
CLASSIC = {
    "A": (40, 0),
    "A/B": (30, 0),
    "A/B/u1": (1, 20),
    "A/C": (10, 0),
    "A/C/u2": (1, 25),
    "A/C/u3": (1, 0),
    "D": (60, 0),
    "D/E": (25, 0),
    "D/E/u4": (1, 25),
    "D/F": (35, 0),
    "D/F/u5": (1, 0),
    "idle": (0, 30),
}


def shares_of(rows: Mapping[str, tuple[int, int]]) -> tuple[Tree, FairShares]:
    """Fair-share of a tree whose paths are ids, below one organization."""
    tree = tree_of([a_node("o"), *(a_node(f"o/{path}") for path in rows)])
    weights, used = [1] * len(tree.ids), [0] * len(tree.ids)
    for path, (weight, use) in rows.items():
        node = tree.index[f"o/{path}"]
        weights[node] = weight
        for above in tree.paths[node]:
            used[above] += use
    use_of_all = FairUse(used, defaultdict(dict), [0] * len(used), (WEEK,) * len(used))
    return tree, FairShares(tree, weights, use_of_all)


def ranking(rows: Mapping[str, tuple[int, int]]) -> list[list[str]]:
    """The leaves in the order of service, equal ones together."""
    tree, shares = shares_of(rows)
    inner = {path.rpartition("/")[0] for path in rows}
    leaves = [path for path in rows if path not in inner]
    orders = {path: shares.order(tree.index[f"o/{path}"]) for path in leaves}
    return [
        [path.rpartition("/")[2] for path in leaves if orders[path] == order]
        for order in sorted(set(orders.values()))
    ]


def test_a_factor_is_the_power_of_two_to_the_last_unit() -> None:
    assert [Decay(WEEK).factor(n * WEEK) for n in (0, 1, 2, 64)] == [1 << 64, 1 << 63, 1 << 62, 1]
    assert Decay(WEEK).factor(-5) == 1 << 64
    with localcontext() as context:
        context.prec = 60
        for half_life_s, age_s in ((WEEK, 1), (WEEK, 300), (WEEK, 10 * WEEK - 1), (3, 1), (1, 40)):
            exact = Decimal(2) ** (Decimal(-age_s) / half_life_s) * 2**64
            assert abs(Decay(half_life_s).factor(age_s) - exact) <= 1, (half_life_s, age_s)


def test_eight_gpus_for_ever_come_to_eight_half_lives_over_ln_two() -> None:
    """Slurm, which samples every five minutes with 1 - 0.693 / half-life, comes to 6,980,614."""
    assert Decay(WEEK).used([(NOW - 1_000 * WEEK, NOW, 8)], NOW) == 6_980_336


def test_an_interval_counts_what_its_integral_is() -> None:
    with localcontext() as context:
        context.prec = 60
        rate = WEEK / Decimal(2).ln()
        aged = [Decimal(2) ** (Decimal(-age) / WEEK) for age in (2 * DAY, 5 * DAY)]
        exact = 40_000 * rate * (aged[0] - aged[1])
        assert abs(Decay(WEEK).used([(NOW - 5 * DAY, NOW - 2 * DAY, 40_000)], NOW) - exact) < 1


def test_what_lies_ahead_counts_nothing_yet() -> None:
    decay = Decay(WEEK)
    assert decay.used([(NOW + 10, NOW + 20, 8_000)], NOW) == 0
    assert decay.used([(NOW - 60, NOW + 60, 8_000)], NOW) == decay.used(
        [(NOW - 60, NOW, 8_000)], NOW
    )


def test_there_is_no_half_life_of_nothing() -> None:
    with pytest.raises(ValueError, match="a half-life is 0 s; choose 1 s or more"):
        Decay(0)


class Level(NamedTuple):
    """A node among its siblings: its weight and theirs, its use and theirs, itself included."""

    weight: int
    weight_of_all: int
    used: int
    used_by_all: int


def level_of(shares: FairShares, node: int) -> Level:
    weight_of_all, used_by_all = shares.of_children(shares.tree.parents[node])
    return Level(shares.weights[node], weight_of_all, shares.used(node), used_by_all)


@pytest.mark.parametrize(
    ("node", "share", "use", "level_value"),
    [
        ("A", Fraction(2, 5), Fraction(2, 5), Fraction(1)),
        ("B", Fraction(3, 10), Fraction(1, 5), Fraction(3, 2)),
        ("C", Fraction(3, 10), Fraction(2, 5), Fraction(3, 4)),
        ("B/B1", Fraction(1, 3), Fraction(3, 10), Fraction(10, 9)),
        ("B/B2", Fraction(2, 3), Fraction(7, 10), Fraction(20, 21)),
        ("A/a1", Fraction(1, 2), Fraction(3, 4), Fraction(2, 3)),
        ("A/a2", Fraction(1, 2), Fraction(1, 4), Fraction(2)),
        ("C/c1", Fraction(3, 4), Fraction(3, 4), Fraction(1)),
        ("C/c2", Fraction(1, 4), Fraction(1, 4), Fraction(1)),
        ("B/B1/b2", Fraction(1, 2), Fraction(1), Fraction(1, 2)),
        ("B/B2/b3", Fraction(1), Fraction(1), Fraction(1)),
    ],
)
def test_the_level_values_of_three_departments(
    node: str, share: Fraction, use: Fraction, level_value: Fraction
) -> None:
    tree, shares = shares_of(THREE_DEPARTMENTS)
    level = level_of(shares, tree.index[f"o/{node}"])
    assert Fraction(level.weight, level.weight_of_all) == share
    assert Fraction(level.used, level.used_by_all) == use
    assert share / use == level_value


def classic(rows: Mapping[str, tuple[int, int]], leaf: str) -> str:
    """2^(-UE / S) of a leaf, worked out by Slurm's classic formula from our levels; S is the
    leaf's part of all shares, and UE adds to its use what its share is of its parent's."""
    tree, shares = shares_of(rows)
    share, effective = Fraction(1), Fraction(0)
    for node in reversed(tree.paths[tree.index[f"o/{leaf}"]][:-1]):
        level = level_of(shares, node)
        actual = Fraction(level.used, shares.used(0))
        part = Fraction(level.weight, level.weight_of_all)
        is_top = tree.parents[tree.parents[node]] < 0
        effective = actual if is_top else actual + (effective - actual) * part
        share *= part
    return f"{2 ** float(-effective / share):.6f}"


def test_shares_and_use_come_to_the_classic_figures() -> None:
    """The product orders by Fair Tree only; the classic formula checks the sums under it."""
    expected = {
        "B/B1/b1": "0.477421",
        "B/B1/b2": "0.314980",
        "B/B2/b3": "0.535887",
        "A/a2": "0.420448",
        "A/a1": "0.297302",
        "C/c1": "0.314980",
        "C/c2": "0.198425",
    }
    assert {user: classic(THREE_DEPARTMENTS, user) for user in expected} == expected
    users = ["A/B/u1", "A/C/u2", "A/C/u3", "D/E/u4", "D/F/u5"]
    assert [classic(CLASSIC, user) for user in users] == [
        "0.408479",
        "0.022097",
        "0.125000",
        "0.500000",
        "0.749154",
    ]


def test_fair_tree_ranks_three_departments() -> None:
    """7/7, 6/7, ... 3/7 and, for two users of one level value, 2/7 both."""
    assert ranking(THREE_DEPARTMENTS) == [["b1"], ["b2"], ["b3"], ["a2"], ["a1"], ["c1", "c2"]]


def test_tied_accounts_have_their_children_merged() -> None:
    """As Slurm documents it; its code does not merge, and puts p1, p2 before q1."""
    assert ranking(TIED_ACCOUNTS) == [["u"], ["q1"], ["p1"], ["p2"], ["q2"]]


def test_ties_are_merged_where_the_tied_have_different_weights_and_numbers_of_children() -> None:
    """P has twice the weight and the use of Q, so 2/3 and 4/3 of their children's level values
    compare with each other, not what the children used."""
    rows = {
        "P": (2, 0),
        "P/p1": (1, 600),
        "P/p2": (1, 200),
        "Q": (1, 0),
        "Q/q1": (1, 300),
        "Q/q2": (2, 100),
    }
    assert ranking(rows) == [["q2"], ["p2"], ["p1"], ["q1"]]


def test_nodes_without_weight_come_last() -> None:
    rows = {"a": (0, 0), "b": (1, 10**15), "c": (0, 5), "d": (3, 0)}
    assert ranking(rows) == [["d"], ["b"], ["a", "c"]]
    assert ranking({"a": (0, 0), "b": (0, 1)}) == [["a", "b"]]


def test_loads_that_floats_would_tie_are_told_apart() -> None:
    large = 10**17 + 3
    rows = {"a": (large, large - 1), "b": (large + 1, large), "c": (2 * large, 2 * large - 2)}
    assert ranking(rows) == [["a", "c"], ["b"]]


USERS = ("alice", "bob")


TREE = tree_of([a_node("x"), a_node("x/t"), TreeNode("y", None, half_life_s=DAY)])


def use_of(**given: object) -> FairUse:
    fields: dict[str, object] = {
        "usage": by_team(()),
        "starts": started(),
        "weights": {},
        "half_lives_s": half_lives_of(TREE, WEEK),
        "at": NOW,
        **given,
    }
    return fair_use(TREE, **fields)  # type: ignore[arg-type]


def started(*running: RunningJob, tree: Tree = TREE) -> Starts:
    return Starts(tree, half_lives_of(tree, WEEK), {}, running)


def by_team(rows: Iterable[Usage]) -> Callable[[str], list[Usage]]:
    return lambda team: [row for row in rows if row.team == team]


def test_use_is_summed_by_user_and_up_the_tree_weighted_by_pool_and_decayed() -> None:
    rows = [
        Usage("x/t", "alice", "h100", 1_000, NOW),
        Usage("x/t", "bob", "a100", 1_000, NOW - WEEK),
        Usage("x", "alice", "h100", 7, NOW),
        Usage("y", "alice", "h100", 4_000, NOW - WEEK),
        Usage("gone", "alice", "h100", 9_000, NOW),
    ]
    use = use_of(usage=by_team(rows), weights={"a100": 400})
    assert use.by_user[2] == {"alice": 1_000_000, "bob": 200_000}
    assert use.by_user[0] == {"alice": 7_000}
    assert use.by_user[1] == {"alice": 31_250}
    assert [use.by_node[node] for node in range(3)] == [1_207_000, 31_250, 1_200_000]
    assert use.half_lives_s == (WEEK, DAY, WEEK)


def test_what_started_is_charged_an_hour_at_once_and_no_more_until_it_is_over() -> None:
    """Of an hour from now back: what really was held of it is in the usage already."""
    hour = Decay(WEEK).used([(NOW - 3_600, NOW, 8_000_000)], NOW)
    assert hour == 28_740_669_010
    for age_s in (0, 600, 3_599, 3_600, 9_000):
        run = a_running("r", "x/t", slots(0, 1), started_at=NOW - age_s)
        held = Decay(WEEK).used([(NOW - min(age_s, 3_600), NOW, 8_000_000)], NOW)
        assert abs(use_of(starts=started(run)).by_node[0] - (hour - held)) <= 1, age_s
    starting = a_running("r", "x/t", slots(0, 1), started_at=NOW - 600, phase=Phase.STARTING)
    assert abs(use_of(starts=started(starting)).by_user[2]["alice"] - hour) <= 1
    assert use_of(starts=started(a_running("r", "gone", slots(0, 1)))).by_node[0] == 0


def test_those_who_started_together_are_charged_one_by_one() -> None:
    """Two of three in one second, less the one that is gone; the third is of another one.

    Planted: as many are charged as there were; one that goes takes all with it.
    """
    runs = [
        a_running(f"r{i}", "x/t", slots(i, 1), started_at=NOW - age_s)
        for i, age_s in enumerate((600, 600, 60))
    ]
    alone = [use_of(starts=started(run)).by_user[2]["alice"] for run in runs]
    starts = started(*runs)
    assert abs(use_of(starts=starts).by_user[2]["alice"] - sum(alone)) <= 2
    starts.remove(runs[1])
    assert abs(use_of(starts=starts).by_user[2]["alice"] - alone[0] - alone[2]) <= 1
    starts.remove(runs[0])
    assert use_of(starts=starts).by_user[2] == {"alice": alone[2]}


def test_organizations_are_compared_by_their_average_over_their_own_memory() -> None:
    """8 GPUs held for ever weigh the same whatever the half-life; without that a short one
    would make its organization look lighter than it is."""
    tree = tree_of([TreeNode("x", None), TreeNode("y", None, half_life_s=DAY)])
    rows = [
        Usage(name, "u", "h100", Decay(half_life_s).used([(0, 10**9, 8_000)], 10**9), 10**9)
        for name, half_life_s in (("x", WEEK), ("y", DAY))
    ]
    use = fair_use(
        tree,
        usage=by_team(rows),
        starts=started(tree=tree),
        weights={},
        half_lives_s=half_lives_of(tree, WEEK),
        at=10**9,
    )
    shares = FairShares(tree, [100, 100], use)
    assert use.by_node[0] > 6 * use.by_node[1]
    x, y = shares.loads[0], shares.loads[1]
    assert abs(x - y) * 10**9 < x


def test_use_counts_at_every_level_above_whoever_is_asked_first() -> None:
    """Planted: a department that nobody has asked for yet counts like a team."""
    names = ("x", "x/d", "x/u", "x/d/s", "x/d/t")
    tree = tree_of([a_node(name) for name in names])
    rows = [Usage(f"x/{at}", "u", "h100", mgpu_s, NOW) for at, mgpu_s in
            (("u", 1_000), ("d/s", 20_000), ("d/t", 300_000))]  # fmt: skip
    for first in names:
        use = fair_use(
            tree,
            usage=by_team(rows),
            starts=started(tree=tree),
            weights={},
            half_lives_s=half_lives_of(tree, WEEK),
            at=NOW,
        )
        assert use.by_node[tree.index[first]] > 0
        found = [use.by_node[tree.index[name]] // 1_000_000 for name in names]
        assert found == [321, 320, 1, 20, 300]


def test_the_first_hour_counts_by_the_half_life_of_each_one_s_organization() -> None:
    """Planted: by that of the first of all nodes."""
    tree = tree_of([a_node("x"), a_node("y")])
    half_lives_s = (WEEK, 3_600)
    use = fair_use(
        tree,
        usage=by_team(()),
        starts=Starts(tree, half_lives_s, {}),
        weights={},
        half_lives_s=half_lives_s,
        at=NOW,
    )
    hours = [Decay(half_life_s).at_start() for half_life_s in half_lives_s]
    assert [use.hour[node] for node in (1, 0)] == hours[::-1]
    assert hours[0] > hours[1]


def test_a_start_is_charged_to_its_user_its_team_and_all_above() -> None:
    tree = tree_of([a_node("x"), a_node("x/s"), a_node("x/t")])
    use = fair_use(
        tree,
        usage=by_team(()),
        starts=started(tree=tree),
        weights={},
        half_lives_s=half_lives_of(tree, WEEK),
        at=NOW,
    )
    shares = FairShares(tree, [100] * 3, use, pool_weight=500)
    shares.charge_start(2, "alice", 8_000)
    hour = Decay(WEEK).used([(NOW - 3_600, NOW, 4_000_000)], NOW)
    assert abs(shares.of_user(2, "alice") - hour) <= 1
    assert (shares.of_user(2, "bob"), shares.of_user(1, "alice")) == (0, 0)
    assert [shares.used(node) for node in range(3)] == [shares.used(2), 0, shares.used(2)]
    assert shares.order(1) < shares.order(2)
