"""Laws of how guarantees are cut among clusters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quotas.entitlements import split_guarantees

GPUS = st.integers(min_value=0, max_value=300)
TEAMS = st.dictionaries(st.text("abcdefgh/", min_size=1, max_size=4), GPUS, max_size=12)
CLUSTERS = st.dictionaries(st.sampled_from(["c1", "c2", "c3", "c4"]), GPUS, max_size=4)


@given(TEAMS, CLUSTERS)
def test_no_team_and_no_cluster_is_given_more_than_it_has(
    guaranteed: dict[str, int], capacity: dict[str, int]
) -> None:
    """Mutants that died: the remainder given to the first cluster whether or not it has room; no
    scaling when more is guaranteed than there is; shares rounded up; the room not reduced by
    what was just given."""
    cut = split_guarantees(guaranteed, capacity)
    assert set(cut) == set(guaranteed)
    for team, shares in cut.items():
        assert all(share >= 0 for share in shares.values())
        assert sum(shares.values()) <= guaranteed[team]
    for cluster, size in capacity.items():
        assert sum(shares.get(cluster, 0) for shares in cut.values()) <= size


@given(TEAMS, CLUSTERS)
def test_nothing_is_left_over_that_could_be_given(
    guaranteed: dict[str, int], capacity: dict[str, int]
) -> None:
    """Mutants that died: remainders dropped; teams scaled down although all fit."""
    cut = split_guarantees(guaranteed, capacity)
    given_away = sum(sum(shares.values()) for shares in cut.values())
    whole = sum(capacity.values())
    assert given_away == min(sum(guaranteed.values()), whole)
    if sum(guaranteed.values()) <= whole:
        assert {team: sum(shares.values()) for team, shares in cut.items()} == guaranteed


@given(TEAMS, CLUSTERS, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    guaranteed: dict[str, int], capacity: dict[str, int], random: object
) -> None:
    """Mutants that died: teams served in the order of the input; ties between clusters by it."""
    teams, clusters = list(guaranteed.items()), list(capacity.items())
    random.shuffle(teams)  # type: ignore[attr-defined]
    random.shuffle(clusters)  # type: ignore[attr-defined]
    assert split_guarantees(dict(teams), dict(clusters)) == split_guarantees(guaranteed, capacity)


def test_a_team_on_two_clusters() -> None:
    """By hand: 10 GPUs by 24 : 8 are 7.5 and 2.5; the first of the two has the larger room."""
    assert split_guarantees({"a": 10, "b": 4}, {"big": 24, "small": 8}) == {
        "a": {"big": 8, "small": 2},
        "b": {"big": 3, "small": 1},
    }
    assert split_guarantees({"a": 30, "b": 10}, {"only": 20}) == {
        "a": {"only": 15},
        "b": {"only": 5},
    }
    assert split_guarantees({"a": 3}, {}) == {"a": {}}
