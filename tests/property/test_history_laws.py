"""Laws of the integrals of a tree over time (R-98), against a sum over every second.

Planted, each of which died here: the levels before the first edge are dropped; a step ends without
its last second; what a department lends is not handed on to its teams; a guarantee that falls keeps
the use inside of it; an exchange goes on with the shares of the change before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from arbiter.api.snapshot import TreeNode
from arbiter.explain.usage import lent_out
from arbiter.quota.tree import tree_of
from history.integrals import (
    ELSEWHERE,
    NO_PARENT,
    OUTSIDE,
    SUMMED,
    Borrower,
    Change,
    Integrals,
    Lender,
    Level,
    exchange_at,
    integrate,
)

#: An organization (0) with two departments, of two teams and of one, beside another organization.
PARENTS = (NO_PARENT, 0, 0, 1, 1, 2, NO_PARENT)
TEAMS = (3, 4, 5, 6)
EDGES_S = (10, 14, 15, 22)
CLASSES = tuple(level for level in SUMMED if level is not Level.WAITING)


@st.composite
def spans(draw: st.DrawFn) -> list[Change]:
    """Levels that begin and end at some second between 0 and 30."""
    changes = []
    for _ in range(draw(st.integers(1, 10))):
        start, end = sorted((draw(st.integers(0, 30)), draw(st.integers(0, 30))))
        mgpu = draw(st.integers(1, 9))
        level = draw(st.sampled_from([*SUMMED, Level.GUARANTEE, Level.GUARANTEE]))
        node = draw(st.sampled_from(TEAMS if level in SUMMED else range(len(PARENTS))))
        lendable = draw(st.integers(0, mgpu)) if level is Level.GUARANTEE else 0
        changes.append(Change(start, node, level, mgpu, lendable))
        changes.append(Change(end, node, level, -mgpu, -lendable))
    capacity = draw(st.integers(0, 20))
    return [*changes, Change(draw(st.integers(0, 20)), None, Level.GUARANTEE, capacity)]


def levels_at(changes: Sequence[Change], second: int) -> tuple[list[list[int]], list[int]]:
    """The levels of each node in a second, and what it lends by the arbiter's own rule."""
    levels = [[0] * len(Level) for _ in PARENTS]
    lendable, capacity = [0] * len(PARENTS), 0
    for change in changes:
        if change.at_s > second:
            continue
        if change.node is None:
            capacity += change.mgpu
        elif change.level is Level.GUARANTEE:
            levels[change.node][Level.GUARANTEE] += change.mgpu
            lendable[change.node] += change.lendable_mgpu
        else:
            node = change.node
            while node != NO_PARENT:
                levels[node][change.level] += change.mgpu
                node = PARENTS[node]
    used = [sum(values[level] for level in CLASSES) for values in levels]
    guaranteed = [values[Level.GUARANTEE] for values in levels]
    tree = tree_of(
        tuple(
            TreeNode(str(node), None if parent == NO_PARENT else str(parent))
            for node, parent in enumerate(PARENTS)
        )
    )
    order = [tree.index[str(node)] for node in range(len(PARENTS))]

    def in_order(values: Sequence[int]) -> list[int]:
        moved = [0] * len(tree.ids)
        for node, place in enumerate(order):
            moved[place] = values[node]
        return moved

    lent = lent_out(tree, *(in_order(each) for each in (guaranteed, lendable, used)), capacity)
    for node, values in enumerate(levels):
        values[Level.WITHIN] = min(used[node], guaranteed[node])
        values[Level.LENT] = lent[order[node]]
    return levels, used


def found_in(changes: Sequence[Change]) -> Integrals:
    return integrate(PARENTS, changes, EDGES_S, {0, 1, 2})


@given(spans())
def test_integrals_are_the_sum_over_every_second(changes: list[Change]) -> None:
    found = found_in(changes)
    for step, (start, end) in enumerate(pairwise(EDGES_S)):
        expected = [[0] * len(Level) for _ in PARENTS]
        for second in range(start, end):
            for node, values in enumerate(levels_at(changes, second)[0]):
                expected[node] = [a + b for a, b in zip(expected[node], values, strict=True)]
        assert [found.steps[node][step] for node in range(len(PARENTS))] == expected


@given(spans())
def test_children_sum_to_their_node(changes: list[Change]) -> None:
    """Use of each class and waiting GPUs; and use is what is within and above the guarantee."""
    found = found_in(changes)
    for step in range(len(EDGES_S) - 1):
        for node, below in {0: (1, 2), 1: (3, 4), 2: (5,)}.items():
            for level in SUMMED:
                whole = found.steps[node][step][level]
                assert whole == sum(found.steps[child][step][level] for child in below)


@given(spans())
def test_an_exchange_adds_up_on_both_sides(changes: list[Change]) -> None:
    """A child borrows its use above its guarantee, and lends what it lends, to the last second."""
    found = found_in(changes)
    for node, below in {0: (1, 2), 1: (3, 4), 2: (5,)}.items():
        borrowed: dict[Borrower, int] = defaultdict(int)
        lent: dict[Lender, int] = defaultdict(int)
        for (borrower, lender), mgpu_s in found.exchanges.get(node, {}).items():
            assert mgpu_s > 0
            borrowed[borrower] += mgpu_s
            lent[lender] += mgpu_s
        for child in below:
            steps = found.steps[child]
            above = sum(
                sum(step[level] for level in CLASSES) - step[Level.WITHIN] for step in steps
            )
            assert borrowed[Borrower(child)] == above
            assert lent[Lender(child)] == sum(step[Level.LENT] for step in steps)
        assert borrowed[OUTSIDE] == sum(step[Level.LENT] for step in found.steps[node])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5), st.data())
def test_each_borrower_borrows_from_all_lenders_in_proportion(
    lent: list[int], data: st.DataObject
) -> None:
    """Planted: the first lender lends until it has nothing left."""
    total = sum(lent)
    first = data.draw(st.integers(0, total))
    lenders = {Lender(node): mgpu for node, mgpu in enumerate(lent)} | {ELSEWHERE: 0}
    found = exchange_at({Borrower(1): first, Borrower(2): total - first}, lenders)
    for (borrower, lender), mgpu in found.items():
        whole = first if borrower == Borrower(1) else total - first
        assert abs(mgpu * total - whole * lenders[lender]) < 2 * total
