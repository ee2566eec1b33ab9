"""Exact ratios, the contest by fair-share, the agenda and the merged order of service
(R-18 to R-24)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from arbiter.fairshare.fair_tree import FairShares, FairUse
from arbiter.queue.order import Agenda, Contest, Position
from arbiter.queue.service_order import ServiceOrder
from arbiter.quota.ratio import exact_ratio
from arbiter.quota.tree import ROOT, tree_of
from builders.arbiter_builders import a_node

PATHS = ("o", "o/a", "o/a/x", "o/a/y", "o/b", "o/b/z", "o/t")


def shares(used: Mapping[str, int] | None = None) -> FairShares:
    """Equal weights; what each node has used itself."""
    tree = tree_of([a_node(path) for path in PATHS])
    total = [0] * len(PATHS)
    for path, amount in (used or {}).items():
        for node in tree.paths[tree.index[path]]:
            total[node] += amount
    use = FairUse(total, defaultdict(dict), [1 << 32] * len(PATHS), (1,) * len(PATHS))
    return FairShares(tree, [100] * len(PATHS), use, pool_weight=1)


A, B, T, X, Y, Z = (
    tree_of([a_node(path) for path in PATHS]).index[path]
    for path in ("o/a", "o/b", "o/t", "o/a/x", "o/a/y", "o/b/z")
)


def test_ratios_order_exactly_where_floats_would_tie() -> None:
    large = 10**16
    assert exact_ratio(large, large + 1) < exact_ratio(large + 1, large + 2)
    assert large / (large + 1) == (large + 1) / (large + 2)
    assert exact_ratio(1, 3) == exact_ratio(2, 6)
    assert exact_ratio(5, 0) == 0


def order_of(contest: Contest) -> list[int]:
    found = []
    while (first := contest.first()) is not None:
        found.append(first[-1])
        contest.withdraw(first[-1])
    return found


def test_a_contest_goes_down_the_tree_by_fair_share() -> None:
    contest = Contest(shares({"o/a/x": 10, "o/a/y": 20, "o/b/z": 40}))
    for team in (X, Y, Z):
        contest.enlist(team, 0, (team, ""))
    assert order_of(contest) == [X, Y, Z]


def test_what_is_tied_goes_by_what_comes_after_and_a_team_before_a_department() -> None:
    contest = Contest(shares())
    for job, team in enumerate((Z, Y, X, T)):
        contest.enlist(team, 0, (job, ""))
    assert order_of(contest) == [T, Z, Y, X]


def test_children_of_tied_departments_are_compared_with_each_other() -> None:
    """a and b have used as much; b's only team all of it, which is what its share is."""
    contest = Contest(shares({"o/a/x": 10, "o/a/y": 30, "o/b/z": 40}))
    for team in (Z, Y, X):
        contest.enlist(team, 0, (0, ""))
    assert order_of(contest) == [X, Z, Y]


def test_a_charge_moves_all_below_its_path() -> None:
    fair_shares = shares({"o/a/x": 10, "o/b/z": 40})
    contest = Contest(fair_shares)
    for team in (X, Y, Z):
        contest.enlist(team, 0, (0, ""))
    first = contest.first()
    assert first is not None
    assert first[-1] == Y
    fair_shares.charge_start(Y, "alice", 35)
    contest.withdraw(Y)
    contest.enlist(Y, 0, (0, ""))
    assert order_of(contest) == [Z, X, Y]


def test_an_earlier_job_of_a_team_counts_once_it_is_enlisted_again() -> None:
    contest = Contest(shares())
    contest.enlist(X, 0, (5, ""))
    contest.enlist(Z, 0, (3, ""))
    contest.withdraw(X)
    contest.enlist(X, 0, (1, ""))
    assert order_of(contest) == [X, Z]
    contest.enlist(Z, 0, (7, ""))
    assert order_of(contest) == [Z]


class Told:
    """An agenda that is told where teams stand."""

    def __init__(self, fair_shares: FairShares) -> None:
        self.positions: dict[tuple[int, int], Position] = {}
        self.asked: list[int] = []
        self.agenda = Agenda(fair_shares, self._position_of)
        self.pop, self.refresh = self.agenda.pop, self.agenda.refresh
        self.withdraw = self.agenda.withdraw

    def enlist(self, source: int, position: Position, job: int, team: int) -> None:
        self.positions[team, source] = position
        self.agenda.enlist(source, (job, ""), team)

    def _position_of(self, team: int, source: int) -> Position:
        self.asked.append(team)
        return self.positions[team, source]


def drain(agenda: Told) -> list[tuple[int, int]]:
    found = []
    while (served := agenda.pop()) is not None:
        found.append(served)
    return found


def test_guaranteed_demand_goes_by_ratio_then_fair_share_and_spare_by_rank_first() -> None:
    agenda = Told(shares({"o/a/x": 1}))
    agenda.enlist(ROOT, Position(3, 0, -1), 0, T)
    agenda.enlist(ROOT, Position(3, 0, -2), 9, Z)
    agenda.enlist(X, Position(0, 40), 1, X)
    agenda.enlist(Y, Position(0, 40), 5, Y)
    agenda.enlist(A, Position(0, 50), 0, A)
    assert drain(agenda) == [(Y, Y), (X, X), (A, A), (ROOT, Z), (ROOT, T)]


def test_credits_come_before_fair_share_or_after_it() -> None:
    """z has used nothing; x is rich."""
    used = {"o/a/x": 1}
    agenda = Told(shares(used))
    agenda.enlist(ROOT, Position(3, 0, 0, -5), 1, X)
    agenda.enlist(ROOT, Position(3, 0, 0, 2), 0, Z)
    assert drain(agenda) == [(ROOT, X), (ROOT, Z)]
    agenda.enlist(ROOT, Position(3, 0, 0, 0, -5), 1, X)
    agenda.enlist(ROOT, Position(3, 0, 0, 0, 2), 0, Z)
    assert drain(agenda) == [(ROOT, Z), (ROOT, X)]
    tied = Told(shares())
    tied.enlist(ROOT, Position(3, 0, 0, 0, 2), 0, Z)
    tied.enlist(ROOT, Position(3, 0, 0, 0, -5), 1, X)
    assert drain(tied) == [(ROOT, X), (ROOT, Z)]


def test_all_who_draw_on_a_guarantee_move_when_its_ratio_does() -> None:
    agenda = Told(shares())
    agenda.enlist(A, Position(2, 10), 1, X)
    agenda.enlist(A, Position(2, 10), 2, Y)
    agenda.enlist(B, Position(2, 20), 3, Z)
    assert agenda.pop() == (A, X)
    agenda.refresh(A, 30)
    assert drain(agenda) == [(B, Z), (A, Y)]
    agenda.enlist(A, Position(2, 30), 2, Y)
    agenda.enlist(B, Position(2, 20), 3, Z)
    agenda.refresh(A, 10)
    assert drain(agenda) == [(A, Y), (B, Z)]


def test_who_enters_a_contest_in_which_somebody_was_first_may_be_first_too() -> None:
    """Planted bugs that died of it: who entered after somebody was asked for is not looked at; a
    team that has only entered cannot be taken out."""
    agenda = Told(shares({"o/a/x": 10, "o/a/y": 20}))
    for job, team in enumerate((X, Y, Z)):
        agenda.enlist(team, Position(0, 7), job, team)
    assert agenda.withdraw(Z)
    assert agenda.pop() == (X, X)
    agenda.enlist(Z, Position(0, 7), 3, Z)
    agenda.enlist(X, Position(0, 9), 4, X)
    assert drain(agenda) == [(Z, Z), (Y, Y), (X, X)]


def test_where_a_team_stands_is_asked_once_there_is_another_one() -> None:
    """Planted: where the first stands is asked as it comes; who is alone cannot be withdrawn; who
    was alone is forgotten when another one comes."""
    agenda = Told(shares())
    agenda.enlist(X, Position(0, 40), 1, X)
    assert drain(agenda) == [(X, X)]
    agenda.enlist(X, Position(0, 40), 1, X)
    assert (agenda.withdraw(X), agenda.withdraw(X), drain(agenda)) == (True, False, [])
    agenda.enlist(X, Position(0, 40), 1, X)
    agenda.positions[X, X] = Position(0, 60)
    assert agenda.asked == []
    agenda.enlist(Y, Position(0, 50), 2, Y)
    assert agenda.asked == [X, Y]
    assert drain(agenda) == [(Y, Y), (X, X)]


def test_who_draws_on_others_guarantees_is_asked_about_when_nobody_draws_on_his_own() -> None:
    """Planted: who waits for that cannot be taken out; he comes before the last of the others."""
    agenda = Told(shares())
    agenda.enlist(A, Position(2, 1), 1, X)
    agenda.enlist(A, Position(2, 1), 2, Y)
    agenda.enlist(Z, Position(0, 50), 3, Z)
    agenda.enlist(T, Position(0, 60), 4, T)
    assert (agenda.withdraw(X), agenda.withdraw(X)) == (True, False)
    assert agenda.agenda.lowest_ratio() == 50
    assert (agenda.pop(), agenda.asked) == ((Z, Z), [Z, T])
    assert agenda.agenda.lowest_ratio() == 60
    assert (agenda.pop(), agenda.agenda.lowest_ratio()) == ((T, T), None)
    assert agenda.asked == [Z, T]
    assert drain(agenda) == [(A, Y)]


def test_the_lowest_ratio_is_that_of_somebody_who_is_there() -> None:
    """Planted: a contest that everybody has left is counted; who is alone is not."""
    agenda = Told(shares())
    agenda.enlist(X, Position(0, 10), 1, X)
    assert agenda.agenda.lowest_ratio() == 10
    agenda.enlist(Y, Position(0, 20), 2, Y)
    assert agenda.withdraw(X)
    assert agenda.agenda.lowest_ratio() == 20
    agenda.enlist(X, Position(0, 10), 1, X)
    assert agenda.agenda.lowest_ratio() == 10
    assert drain(agenda) == [(X, X), (Y, Y)]
    agenda.enlist(A, Position(2, 5), 1, X)
    assert agenda.agenda.lowest_ratio() is None


def test_a_team_is_taken_out_once() -> None:
    agenda = Told(shares())
    agenda.enlist(X, Position(0, 0), 1, X)
    assert (agenda.withdraw(X), agenda.withdraw(X)) == (True, False)
    assert agenda.pop() is None


def in_order(order: ServiceOrder) -> list[tuple[int, int]]:
    """When each job was submitted, and its lot."""
    jobs, batches = order.merged()
    return [(at, batch) for (at, _), batch in zip(jobs, batches, strict=True)]


def aged(*ages: int) -> list[tuple[int, str]]:
    return [(age, f"j{age}") for age in ages]


def test_lines_are_merged_without_overtaking_inside_a_team() -> None:
    order = ServiceOrder()
    order.add(10, 0, aged(4), (1,))
    order.add(1, 0, aged(0), (0,))
    order.end_team()
    order.add(1, 0, aged(2, 5), (1,))
    order.add(1, 0, aged(1, 3), (0,))
    order.end_team()
    assert in_order(order) == [(1, 3), (2, 2), (3, 3), (4, 0), (0, 1), (5, 2)]


def test_teams_that_stand_level_are_merged_by_age() -> None:
    """Planted bugs that died of it: the teams' jobs stay one team's after the other's; a younger
    job of a better standing has those behind it wait for its age."""
    order = ServiceOrder()
    order.add(10, 0, aged(3), (1,))
    order.add(5, 0, aged(7), (0,))
    order.add(1, 0, aged(1, 6), (1,))
    order.end_team()
    order.add(1, 0, aged(2, 4, 5), (1,))
    order.end_team()
    assert in_order(order) == [(2, 3), (3, 0), (7, 1), (1, 2), (4, 3), (5, 3), (6, 2)]


def test_inside_a_team_the_user_who_has_used_less_goes_first_within_a_priority() -> None:
    order = ServiceOrder()
    order.add(1, 7, aged(0, 3), (0,))
    order.add(1, 2, aged(1, 4), (0,))
    order.add(1, 2, aged(2), (0,))
    order.add(5, 9, aged(6), (0,))
    order.end_team()
    assert in_order(order) == [(6, 3), (1, 1), (2, 2), (4, 1), (0, 0), (3, 0)]
