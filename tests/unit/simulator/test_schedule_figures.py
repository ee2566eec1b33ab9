"""The figures of a schedule, worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbiter.api.policy import Policy
from builders.simulator_builders import PLAIN, a_job, a_scene, play
from simulator.comparison import compare
from simulator.decay import ONE, halving
from simulator.observer import Skyline, Team
from simulator.picture import averages
from simulator.quality import Spread, jain, judge, percentile, spread
from simulator.workload import Settings, fluid_bound_mgpu_s, prepare


def test_percentiles_are_by_nearest_rank() -> None:
    assert spread([4, 1, 3, 2]) == Spread(4, 2, 2, 4, 4, 4)
    assert percentile(list(range(1, 101)), 95) == 95
    assert percentile([7], 50) == 7
    assert spread([]) == Spread(0, None, None, None, None, None)


def test_jain_of_the_textbook() -> None:
    assert jain([Fraction(1), Fraction(1, 2)]) == 0.9
    assert jain([Fraction(1), Fraction(0)]) == 0.5
    assert jain([Fraction(0)]) is None
    assert jain([]) is None


def test_a_skyline_counts_what_lasts() -> None:
    """3 from 0, 5 from 10, 2 from 14, 0 from 40: with a tolerance of 6 the two highest units stand
    for 4 and do not count, one for 14 and two for 40."""
    line = Skyline(6)
    for at, height in ((0, 3), (10, 5), (14, 2), (40, 0)):
        line.set(height, at)
    assert line.total == 1 * (14 - 6) + 2 * (40 - 6)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 4))
def test_a_skyline_is_the_integral_of_the_least_in_the_window(
    heights: list[int], tolerance: int
) -> None:
    """Second by second: the least of the last `tolerance` + 1 seconds. Planted: blocks taken off
    the oldest first."""
    line = Skyline(tolerance)
    for at, height in enumerate(heights):
        line.set(height, at)
    line.set(0, len(heights))
    assert line.total == sum(
        min(heights[at - tolerance : at + 1]) for at in range(tolerance, len(heights))
    )


def test_the_bound_is_the_smaller_of_one_queue_and_no_queue() -> None:
    """Until 10. One queue on 3 GPUs: 20 GPU-s from 0 are done at 6 2/3 and the 40 from 5 on last:
    5 x 3 + 5 x 3. On 8 GPUs it does the first in 2 1/2 s and waits. No queue: 2 x 10 + 4 x 5."""
    jobs = [a_job("x", gpus=2), a_job("y", at=5, gpus=4), a_job("z", at=10)]
    assert fluid_bound_mgpu_s(jobs, 3_000, 10) == 30_000
    assert fluid_bound_mgpu_s(jobs, 8_000, 10) == 40_000
    slow = [a_job("x", runs=100), a_job("z", at=10)]
    assert fluid_bound_mgpu_s(slow, 8_000, 10) == 10_000


def test_every_figure_of_a_small_schedule() -> None:
    """Static quotas of 2 and 2 on 4 GPUs until 20.

    a1 (2 GPUs) runs 0-10, a2 (1) is due at 10 with a3 (1) and runs 10-40 like it. b1 (1) runs
    5-15, b2 (2) comes at 10, is larger than what is left and runs from 15 on, until 35. The last,
    a4, comes at 20 and waits for 20 s.
    """
    jobs = [
        a_job("a1", gpus=2),
        a_job("a2", runs=30),
        a_job("a3", runs=30),
        a_job("b1", at=5, team="b"),
        a_job("b2", at=10, runs=20, gpus=2, team="b"),
        a_job("a4", at=20),
    ]
    played = play("static", jobs, guarantees={"a": 2, "b": 2})
    assert played.starts() == {"a1": 0, "a2": 10, "a3": 10, "b1": 5, "b2": 15, "a4": 40}
    alone = dict.fromkeys(range(6), 20)
    bound = fluid_bound_mgpu_s(jobs, 4_000, 20)
    found = judge(played.outcome, capacity_mgpu=4_000, bound_mgpu_s=bound, alone=alone)

    # a: 2 x 20. b: 1 x 10 + 2 x 5.
    assert found.utilisation == found.goodput == 60 / 80
    # One queue: 80 GPU-s come at 0 and fill all of it.
    assert found.bound == 1.0
    assert found.of_bound == found.used_of_bound == 0.75
    # Entitled: a 2 x 20; b 1 from 5, 2 from 10. b is a GPU short from 10 to 15, for want of a
    # second one for b2: nothing that waits is small enough.
    assert found.shortfall == 5 / (40 + 25)
    assert found.shortfall_worst == 5 / 25
    assert found.lasted == found.divisible == 0.0
    # Satisfaction 1 and 20/25.
    assert found.jain == float((1 + Fraction(4, 5)) ** 2 / (2 * (1 + Fraction(16, 25))))
    # Waits 0, 10, 10, 0, 5, 20.
    assert found.waits == Spread(6, 7, 5, 20, 20, 20)
    assert found.gang_waits.count == 0
    # Completion 10, 40, 40, 10, 25, 30.
    assert found.completion == Spread(6, 25, 25, 40, 40, 40)
    assert found.slowdown == 1.0
    # All start in the very second in which they are due.
    assert found.due == Spread(6, 0, 0, 0, 0, 0)
    # a: 10, 40, 40, 30 over 20 s each; b: 10 and 25.
    assert found.rho_worst == 1.5
    assert found.rho_worst_by_work == (0.5 * 20 + 2.0 * 30 + 2.0 * 30 + 1.5 * 10) / 90
    assert (found.finished, found.unfinished, found.refused) == (6, 0, 0)
    assert (found.makespan_s, found.preemptions, found.waste) == (50, 0, 0.0)


def test_figures_of_nothing_are_unknown() -> None:
    """Static quotas of 1 and 0 refuse the gang and all jobs of b; a starts a job of its own when
    the last one comes, so that until then nobody was entitled to anything.

    Planted: waits of 0, no shortfall and a fairness of 1 where nothing was there to be judged.
    """
    jobs = [a_job("gang", nodes=2), a_job("b", team="b"), a_job("a", at=20)]
    found = judge(
        play("static", jobs, guarantees={"a": 1}, per_node=2).outcome,
        capacity_mgpu=4_000,
        bound_mgpu_s=30_000,
        alone=None,
    )
    assert (found.utilisation, found.goodput, found.of_bound) == (0.0, 0.0, 0.0)
    nothing = Spread(0, None, None, None, None, None)
    assert (found.waits, found.gang_waits) == (Spread(1, 0, 0, 0, 0, 0), nothing)
    assert (found.shortfall, found.lasted, found.divisible, found.jain) == (None,) * 4
    assert (found.shortfall_worst, found.lasted_worst, found.divisible_worst) == (None,) * 3
    found = judge(
        play("static", jobs).outcome, capacity_mgpu=4_000, bound_mgpu_s=30_000, alone=None
    )
    assert (found.waits, found.completion, found.due) == (nothing,) * 3
    assert (found.slowdown, found.due_max_s, found.waste, found.makespan_s) == (None,) * 4
    assert (found.refused, found.preemptions_p99) == (3, 0)


def test_what_is_done_again_is_no_more_of_the_bound() -> None:
    """Until 1,200 on 4 GPUs. b loses its 410 s to a, which runs 410-510, and does 500 anew: 1,010 s
    of 4 GPUs are held, and 600 of them were worth it, which is all that there was to do. No policy
    could do the job of 5 GPUs on a node.

    Planted: what was lost counted as done, so that more was done than could be; work in the bound
    for which there is no node.
    """
    knobs = Policy(grace_period_s_default=10, min_run_s=0)
    scene = a_scene({"a": 4, "b": 0}, gpus=4, per_node=4, policy=knobs)
    given = Settings(**PLAIN)
    jobs = [
        a_job("b", gpus=4, runs=500, team="b"),
        a_job("large", gpus=5, runs=900, team="b"),
        a_job("a", gpus=4, at=400, runs=100),
        a_job("end", at=1_200, team="b"),
    ]
    works = prepare(jobs, given)
    (ours,) = compare(works, scene, given, {"a": "a", "b": "b"}, ["tidegate"])
    assert ours.quality.utilisation == 1_010 / 1_200
    assert ours.quality.goodput == ours.quality.bound == 600 / 1_200
    assert (ours.quality.of_bound, ours.quality.used_of_bound) == (1.0, 1_010 / 600)


def test_shortfall_counts_what_outlasts_grace_and_cycle_apart() -> None:
    """b holds a's 2 GPUs until 1,000. Under FIFO a's job waits for all of that: 900 s short,
    of which 300 + 1 are tolerated; it is no gang too large."""
    jobs = [a_job("b", gpus=4, runs=1_000, team="b"), a_job("a", gpus=2, at=100)]
    jobs.append(a_job("end", at=2_000, team="b"))
    played = play("fifo", jobs, guarantees={"a": 2, "b": 2})
    found = judge(played.outcome, capacity_mgpu=4_000, bound_mgpu_s=1, alone=None)
    entitled = 2 * 910 + 2 * 1_000
    assert found.shortfall == 1_800 / entitled
    assert found.lasted == found.divisible == 2 * (900 - 301) / entitled
    assert found.shortfall_worst == 1_800 / 1_820
    assert (found.due.max_s, found.due_max_s) == (900, 900)
    assert found.rho_worst is None


def test_a_department_is_metered_like_one_team_with_all_its_jobs() -> None:
    """Department d is guaranteed 4, its team x 1 of them; b holds all 4 GPUs until 1,000. y asks
    for 3 at 100 and x for 1 at 400, all of which d is due; under FIFO they wait for b.

    Planted: what starts told to the team and not to the department.
    """
    jobs = [
        a_job("b", gpus=4, runs=1_000, team="b"),
        a_job("y", gpus=3, at=100, team="o/d/y"),
        a_job("x", at=400, team="o/d/x"),
        a_job("end", at=2_000, team="b"),
    ]
    guarantees = {"o": 4, "o/d": 4, "o/d/x": 1, "o/d/y": 0, "b": 0}
    played = play("fifo", jobs, guarantees=guarantees)
    found = judge(played.outcome, capacity_mgpu=4_000, bound_mgpu_s=1, alone=None)
    short, lasting = 3 * 900 + 600, 3 * (900 - 301) + 600 - 301
    for meter in played.outcome.observer.departments.values():
        assert (meter.used_mgpu_s, meter.short_mgpu_s) == (40_000, short * 1_000)
        assert meter.lasting.total == meter.divisible.total == lasting * 1_000
        assert meter.entitled_s == [900, 600]
    assert found.departments_shortfall_worst == short / (short + 40)
    assert found.departments_divisible_worst == lasting / (short + 40)
    assert found.departments_due_max_s == 900
    assert (found.shortfall, found.due_max_s) == (600 / 610, 600)

    ours = play("tidegate", jobs, guarantees=guarantees)
    assert ours.starts() == {"b": 0, "y": 400, "x": 400, "end": 2_000}
    found = judge(ours.outcome, capacity_mgpu=4_000, bound_mgpu_s=1, alone=None)
    assert (found.departments_due_max_s, found.departments_divisible_worst) == (300, 0.0)

    flat = play("fifo", jobs[:1])
    found = judge(flat.outcome, capacity_mgpu=4_000, bound_mgpu_s=1, alone=None)
    assert found.departments_shortfall_worst is None
    assert found.departments_due_max_s is None


@dataclass
class Gang:
    """A job as the meters see it."""

    number: int
    submit_s: int
    mgpu: int
    team: str = "a"


def test_a_job_that_its_own_team_passes_is_due_for_the_sum_of_its_turns() -> None:
    """A gang of the whole guarantee, which nobody serves, is passed by a small job of its team from
    100 to 110: due for 100 s, then for 90. Mutant: its second turn began from nothing."""
    team, gang = Team(4_000, 0), Gang(0, 0, 4_000)
    small = Gang(1, 100, 1_000)
    team.queued(gang)
    team.settle(0, 1_000)
    team.queued(small)
    team.started(small, 100)
    team.settle(100, 1_000)
    assert team.still_due_s(105) == [100]
    team.use -= small.mgpu
    team.settle(110, 1_000)
    assert team.still_due_s(200) == [190]
    team.started(gang, 200)
    assert (team.entitled_s, team.still_due_s(300)) == ([190], [])


def test_a_job_that_starts_while_it_is_not_due_keeps_what_it_has_waited() -> None:
    team, gang, small = Team(4_000, 0), Gang(0, 0, 4_000), Gang(1, 100, 1_000)
    team.queued(gang)
    team.settle(0, 1_000)
    team.queued(small)
    team.started(small, 100)
    team.settle(100, 1_000)
    team.started(gang, 150)
    assert team.entitled_s == [100]


def test_a_job_that_is_due_and_never_starts_counts_as_waiting_to_the_end() -> None:
    """The fleet has 4 GPUs on 2 nodes: a job of 4 on one node is refused, 2 x 2 is not. Under FIFO
    the borrower holds one of them until 50."""
    jobs = [a_job("b", runs=50, team="b"), a_job("a", gpus=2, nodes=2, at=10)]
    played = play("fifo", jobs, per_node=2, guarantees={"a": 4})
    found = judge(played.outcome, capacity_mgpu=4_000, bound_mgpu_s=1, alone=None)
    assert found.due.max_s == 40
    assert found.gang_waits == Spread(1, 40, 40, 40, 40, 40)


def test_halving_is_exact_where_powers_of_two_are() -> None:
    assert halving(0, 7) == ONE
    assert halving(7, 7) == ONE // 2
    assert halving(21, 7) == ONE // 8
    assert halving(64 * 7, 7) == 0
    assert abs(halving(1, 2) - 13043817825332782212) < 1 << 32


def test_finish_time_fairness_is_against_static_quotas_of_the_same_run() -> None:
    scene = a_scene({"a": 2, "b": 2}, gpus=4, per_node=4)
    given = Settings(cycle_s=1)
    works = prepare([a_job("a1", gpus=2), a_job("a2", gpus=2)], given)
    results = compare(works, scene, given, {"a": "a"}, ["fifo", "static"])
    assert [one.policy for one in results] == ["static", "fifo"]
    assert [one.quality.rho_worst for one in results] == [1.0, 0.75]


@pytest.mark.parametrize("count", [1, 3, 10])
def test_curves_keep_the_area(count: int) -> None:
    series = [(0, 4, 0), (5, 0, 2), (9, 3, 0)]
    use, wait = averages(series, 30, count)
    whole = [4 * 5 + 3 * 21, 2 * 4]
    assert [sum(use) * 30 // count, sum(wait) * 30 // count] == pytest.approx(whole, abs=30)
    assert averages(series, 30, 30)[0] == [4] * 5 + [0] * 4 + [3] * 21


@pytest.mark.parametrize("horizon", [7, 240, 4_000])
def test_what_is_constant_is_drawn_as_a_straight_line(horizon: int) -> None:
    """Planted: parts of whole seconds were divided by their mean length, which made waves."""
    assert averages([(0, 24_000, 8_000)], horizon, 240) == ([24_000] * 240, [8_000] * 240)
