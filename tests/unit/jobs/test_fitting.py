"""How GPUs are laid out on nodes, and what a fleet could hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.submission.fitting import Fleet, lay_out, lay_out_elastic


@pytest.mark.parametrize(
    ("mgpu", "largest", "expected"),
    [
        (500, 8_000, (500, 1)),
        (8_000, 8_000, (8_000, 1)),
        (9_000, 8_000, (3_000, 3)),
        (16_000, 8_000, (8_000, 2)),
        (13_000, 8_000, (1_000, 13)),
        (100_000, 8_000, (4_000, 25)),
        (1_000, 500, None),
        (4_097_000, 1_000, None),
        (64_000, None, (64_000, 1)),
    ],
)
def test_layouts(mgpu: int, largest: int | None, expected: tuple[int, int] | None) -> None:
    assert lay_out(mgpu, largest, lambda mgpu: 10_000) == expected


def test_parts_that_are_too_many_for_the_nodes_are_taken_only_if_all_are() -> None:
    """700 GPUs on 125 nodes of 8: 100 x 7 fit, 175 x 4 would leave nothing over and never run.
    Mutants that died: parts taken whatever the nodes; nothing found where no parts fit; as many
    nodes asked for as the most of an elastic job takes, or only as what goes into least and most.
    """

    def of_sizes(*sizes: int) -> Callable[[int], int]:
        return lambda mgpu: sum(size * 1_000 >= mgpu for size in sizes)

    assert lay_out(700_000, 8_000, of_sizes(*[8] * 125)) == (7_000, 100)
    assert lay_out(700_000, 8_000, of_sizes(*[8] * 175)) == (4_000, 175)
    assert lay_out(700_000, 8_000, of_sizes(*[8] * 99)) == (4_000, 175)
    assert lay_out(24_000, 8_000, of_sizes(8, 8, 6, 6, 6, 6)) == (4_000, 6)
    nodes = of_sizes(*[8] * 125)
    assert lay_out_elastic(700_000, 1_400_000, 8_000, nodes) == (7_000, 100, 200)
    assert lay_out_elastic(840_000, 980_000, 8_000, nodes) == (7_000, 120, 140)


@given(gpus=st.integers(1, 64), largest=st.integers(1, 9))
def test_parts_are_equal_whole_and_as_large_as_a_node_holds(gpus: int, largest: int) -> None:
    """Mutants that died: rounding the first number of nodes down, taking the smallest parts,
    forgetting that parts are whole GPUs (with gpus=3, largest=2: 1.5 each)."""
    laid_out = lay_out(gpus * 1_000, largest * 1_000, lambda mgpu: gpus)
    assert laid_out is not None
    mgpu_per_node, nodes = laid_out
    assert mgpu_per_node * nodes == gpus * 1_000
    assert mgpu_per_node % 1_000 == 0
    assert mgpu_per_node <= largest * 1_000
    parts = [part for part in range(1, largest + 1) if gpus % part == 0]
    part = mgpu_per_node // 1_000
    if part != max(parts):
        # A smaller part is taken only to leave no rest on the nodes, and is not tiny.
        assert largest % part == 0
        assert largest % max(parts) != 0
        assert part * 2 >= max(parts)


def test_a_drained_node_counts_as_the_largest_known() -> None:
    fleet = Fleet({"a": {8_000: 2, 0: 3}, "b": {4_000: 10}})
    assert fleet.largest_node_mgpu() == 8_000
    assert fleet.largest_node_mgpu("b") == 4_000
    assert fleet.nodes_with(8_000) == 5
    assert fleet.nodes_with(4_000) == 10
    assert fleet.nodes_with(8_000, "b") == 0
    assert fleet.nodes_with(9_000) == 0


def test_a_fleet_of_which_nothing_is_known() -> None:
    assert Fleet({}).largest_node_mgpu() is None
    assert Fleet({}).nodes_with(1) == 0
    assert Fleet({"a": {0: 2}}).nodes_with(64_000) == 2
