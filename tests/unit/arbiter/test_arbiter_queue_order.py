"""Exact ratios, the agenda and the merged order of service."""

from __future__ import annotations

from arbiter.queue_order import Agenda, ServiceOrder, Standing, exact_ratio


def test_ratios_order_exactly_where_floats_would_tie() -> None:
    large = 10**16
    assert exact_ratio(large, large + 1) < exact_ratio(large + 1, large + 2)
    assert large / (large + 1) == (large + 1) / (large + 2)
    assert exact_ratio(1, 3) == exact_ratio(2, 6)
    assert exact_ratio(5, 0) == 0


def drain(agenda: Agenda) -> list[tuple[int, int]]:
    found = []
    while (served := agenda.pop()) is not None:
        found.append(served)
    return found


def test_guaranteed_demand_goes_by_ratio_and_spare_by_rank_then_age() -> None:
    agenda = Agenda()
    agenda.enlist(-1, Standing(3, 0, -1), 0, 10)
    agenda.enlist(-1, Standing(3, 0, -2), 9, 11)
    agenda.enlist(12, Standing(0, 50, 0), 1, 12)
    agenda.enlist(13, Standing(0, 40, 0), 5, 13)
    agenda.enlist(14, Standing(0, 40, 0), 4, 14)
    assert drain(agenda) == [(14, 14), (13, 13), (12, 12), (-1, 11), (-1, 10)]


def test_a_group_moves_when_its_ratio_does() -> None:
    agenda = Agenda()
    agenda.enlist(5, Standing(2, 10, 0), 1, 20)
    agenda.enlist(5, Standing(2, 10, 0), 2, 21)
    agenda.enlist(6, Standing(2, 20, 0), 3, 22)
    assert agenda.pop() == (5, 20)
    agenda.refresh(5, 2, 30)
    assert drain(agenda) == [(6, 22), (5, 21)]


def test_lines_are_merged_without_overtaking_inside_a_team() -> None:
    order = ServiceOrder()
    order.standings = {(0, 0): Standing(0, 0, 0), (1, 0): Standing(1, 0, 0)}
    order.add(10, [4], (1, 0))
    order.add(1, [0], (0, 0))
    order.end_line()
    order.add(1, [2, 5], (1, 0))
    order.add(1, [1, 3], (0, 0))
    order.end_line()
    assert order.merged() == [1, 2, 3, 4, 0, 5]
