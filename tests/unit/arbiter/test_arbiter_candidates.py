"""Candidates stand in order, however far somebody looks."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from arbiter.cache.running import Borrowed, Holding
from arbiter.cache.victim_order import PAID, SPARED
from arbiter.preemption.candidates import Asked, Candidate, Group, InOrder, Seen
from builders.arbiter_builders import GPU, a_running, slots


def a_holding(
    name: str, *, nodes: int = 1, protected: int = 0, preemptible: bool = False
) -> Holding:
    run = a_running(name, "o/t", slots(0, nodes), is_preemptible=preemptible)
    return Holding(run, 3, run.mgpu, 10, everywhere=7, protected=protected)


def some(count: int, seed: int = 1) -> list[Candidate]:
    """Candidates in any order, of two kinds, many of which cost the same."""
    dice = random.Random(seed)
    found = []
    for number in range(count):
        kind = dice.choice([PAID, SPARED]), 0, 0, 10
        key = kind, dice.randrange(count), -dice.randrange(5), f"{seed}-{number:05d}"
        found.append(Candidate(key, 0, 1, a_holding(key[-1])))
    return found


@pytest.mark.parametrize("count", [0, 1, 200, 201, 265, 3_000])
def test_all_of_them_come_in_order(count: int) -> None:
    """Planted: whom a part is parted by comes twice."""
    every = some(count)
    in_order = InOrder(every)
    assert list(islice(in_order, 3)) == sorted(every)[:3]
    assert list(in_order) == sorted(every)
    assert list(in_order) == sorted(every)


def test_two_who_look_at_the_same_time_see_the_same() -> None:
    """Planted: what was sorted meanwhile is passed over."""
    every = some(1_000)
    for source in (InOrder(every), Seen(sorted(every))):
        first, second = iter(source), iter(source)
        seen = list(islice(first, 400))
        assert seen == list(islice(second, 400)) == sorted(every)[:400]
        assert list(second) == list(first) == sorted(every)[400:]


def test_groups_are_merged_and_one_can_be_spared() -> None:
    groups = {above: Group.of(sorted(some(300, seed=above + 9))) for above in (-1, 0, 4)}
    asked = Asked(groups)
    every = sorted(one for group in groups.values() for one in group.everybody)
    assert list(asked.near) == list(asked.everybody()) == every
    spared = every[17]
    but_one = [one for one in every if one is not spared]
    assert (
        list(asked.excluding(spared).near) == list(asked.excluding(spared).everybody()) == but_one
    )
    assert list(asked.without([0, 4]).near) == list(groups[-1].near)
    assert list(asked.everybody([-1])) == list(groups[-1].everybody)


def test_how_many_are_asked_is_told_where_gangs_are_among_them_and_they_are_few() -> None:
    lone, (gang, *_) = some(5), some(1, seed=2)
    gang = gang._replace(holding=a_holding("gang", nodes=3))
    with_gang = Asked({0: Group.of(lone), 1: Group.of([gang])})
    assert with_gang.gangs_among(6) == 6
    assert with_gang.gangs_among(5) is None
    assert Asked({0: Group.of(lone)}).gangs_among(6) is None


def test_who_borrows_and_what_that_is_by_node_follows_every_change() -> None:
    """Bit 2 is the team's. Planted: a node keeps what an earlier borrower held."""
    nowhere, above, home = a_holding("a", nodes=2), a_holding("b", protected=4), a_holding("c")
    borrowed = Borrowed([nowhere, above, home])
    assert list(borrowed.alike) == [(3, 0)]
    assert list(borrowed.alike[3, 0]) == [nowhere, home]
    on = "alpha", "alpha-000", "alpha-001"
    assert borrowed.by_node[on[0]] == {on[1]: 16 * GPU, on[2]: 8 * GPU}
    home.protected = 7
    borrowed.note(home)
    nowhere.protected = 3
    borrowed.note(nowhere)
    assert borrowed.alike == {(3, 3): {nowhere: None}}
    assert borrowed.by_node[on[0]] == {on[1]: 8 * GPU, on[2]: 8 * GPU}
    nowhere.protected = 7
    borrowed.note(nowhere)
    borrowed.note(nowhere)
    assert not borrowed.alike
    assert set(borrowed.by_node[on[0]].values()) == {0}


def test_who_is_protected_at_home_but_not_above_may_be_asked_if_it_is_preemptible() -> None:
    assert not Borrowed([a_holding("a", protected=4)]).alike
    assert (3, 4) in Borrowed([a_holding("a", protected=4, preemptible=True)]).alike
