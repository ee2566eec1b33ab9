"""Every baseline on cases that can be worked out by hand. 4 GPUs on one node unless said."""

from __future__ import annotations

import pytest

from builders.simulator_builders import a_job, play
from simulator.fleet import Fleet
from simulator.scene import uniform_fleet
from simulator.schedulers.karma import Karma
from simulator.schedulers.las import Las
from simulator.workload import Settings, prepare
from simulator.world import Task

DAY = 86_400


def test_static_quotas_leave_idle_what_another_team_could_use() -> None:
    jobs = [a_job("a1", gpus=2), a_job("a2", gpus=2), a_job("b1", gpus=3, team="b")]
    played = play("static", jobs, guarantees={"a": 2, "b": 2})
    assert played.starts() == {"a1": 0, "a2": 10, "b1": None}
    assert played.outcome.refused == 1


def test_fifo_passes_what_does_not_fit_until_it_has_waited_too_long() -> None:
    jobs = [
        a_job("long", runs=100, gpus=2),
        a_job("wide", at=1, gpus=4),
        a_job("early", at=2, runs=50, gpus=2),
        a_job("late", at=60, runs=5, gpus=1),
    ]
    assert play("fifo", jobs).starts() == {"long": 0, "wide": 100, "early": 2, "late": 60}
    # "wide" has waited for 51 s when "early" ends, so nobody passes it any more.
    strict = play("fifo", jobs, strict_after_s=50)
    assert strict.starts() == {"long": 0, "wide": 100, "early": 2, "late": 110}


def test_a_gang_is_placed_whole_on_as_many_nodes() -> None:
    """Two nodes of 2: one GPU free on each is no place for a job of 2 on one node."""
    jobs = [a_job("x", gpus=1, nodes=2), a_job("y", gpus=2), a_job("z", gpus=1, nodes=2)]
    played = play("fifo", jobs, per_node=2)
    assert played.starts() == {"x": 0, "y": 10, "z": 0}


def test_easy_backfills_only_what_does_not_delay_the_head() -> None:
    """The classic: a runs on 3 of 4 GPUs until 10, b needs 4 and is reserved second 10. c (1 GPU,
    10 s) is over in time, d (1 GPU, 11 s) would delay b by a second."""
    jobs = [
        a_job("a", gpus=3, runs=10),
        a_job("b", gpus=4, runs=10),
        a_job("d", gpus=1, runs=11),
        a_job("c", gpus=1, runs=10),
    ]
    assert play("easy", jobs).starts() == {"a": 0, "b": 10, "d": 20, "c": 0}


def test_easy_backfills_beside_the_head_what_its_reservation_does_not_need() -> None:
    """b needs 3 of the 4 GPUs that are there at 10: one is left over, for as long as d likes; e
    would be the second."""
    jobs = [
        a_job("a", gpus=2, runs=10),
        a_job("b", gpus=3, runs=10),
        a_job("d", gpus=1, runs=100),
        a_job("e", gpus=1, runs=100),
    ]
    assert play("easy", jobs).starts() == {"a": 0, "b": 10, "d": 0, "e": 20}


def test_easy_goes_by_limits_and_not_by_the_true_length() -> None:
    jobs = [
        a_job("a", gpus=3, runs=10),
        a_job("b", gpus=4, runs=10),
        a_job("c", gpus=1, runs=5, limit=11),
    ]
    assert play("easy", jobs).starts() == {"a": 0, "b": 10, "c": 20}
    # A generous limit of what runs moves the reservation, and c is over before it.
    jobs[0] = a_job("a", gpus=3, runs=10, limit=12)
    assert play("easy", jobs).starts() == {"a": 0, "b": 10, "c": 0}


def test_easy_reserves_nodes_and_backfills_beside_them() -> None:
    """Nodes of 2. x holds one GPU of the first node for long, so y (2 GPUs on one node) is
    reserved the second, which w leaves at 10; z may take the GPU beside x for any time."""
    jobs = [
        a_job("w", gpus=2, runs=10),
        a_job("x", gpus=1, runs=1_000),
        a_job("y", gpus=2, runs=10),
        a_job("z", gpus=1, runs=1_000),
    ]
    assert play("easy", jobs, per_node=2).starts() == {"w": 0, "x": 0, "y": 10, "z": 0}


def test_drf_gives_to_the_team_with_the_least_use_of_its_weight() -> None:
    """Weights 3 and 1: of 4 GPUs team d gets 3, though all of c's jobs came first."""
    jobs = [a_job(f"c{i}", team="c") for i in range(4)]
    jobs += [a_job(f"d{i}", team="d") for i in range(4)]
    starts = play("drf", jobs, guarantees={"d": 3, "c": 1}).starts()
    assert [id for id, at in starts.items() if at == 0] == ["c0", "d0", "d1", "d2"]


def test_multifactor_serves_who_used_less_before() -> None:
    """Both have half of the shares. a used 4 GPUs for an hour, so b is next; after b's hour a's is
    an hour older and has decayed by more."""
    jobs = [a_job(f"a{i}", gpus=4, runs=3_600) for i in range(2)]
    jobs += [a_job(f"b{i}", gpus=4, runs=3_600, team="b", at=60) for i in range(2)]
    starts = play("multifactor", jobs, guarantees={"a": 2, "b": 2}).starts()
    assert starts == {"a0": 0, "a1": 7_200, "b0": 3_600, "b1": 10_800}


def test_multifactor_counts_age_for_a_tenth_of_fair_share() -> None:
    """Team a has all of the usage: 2^-2 of 10,000 against b's 10,000. Seven days of age make up for
    1,000 of the 7,500 between them and no more."""
    jobs = [a_job("a0", gpus=4, runs=8 * DAY), a_job("a1", gpus=4), a_job("b", at=DAY, team="b")]
    starts = play("multifactor", jobs, guarantees={"a": 2, "b": 2}).starts()
    assert starts == {"a0": 0, "a1": 8 * DAY + 10, "b": 8 * DAY}


def test_cohorts_take_one_head_of_each_queue_a_round_and_lend_last() -> None:
    """a is guaranteed 1 and came first with four; b and c come with one each. Round one starts a0
    (within), b0 and c0 (borrowed); of the last GPU a1 is the only head left."""
    jobs = [a_job(f"a{i}") for i in range(4)]
    jobs += [a_job("b0", team="b"), a_job("c0", team="c")]
    starts = play("cohorts", jobs, guarantees={"a": 1}).starts()
    assert starts == {"a0": 0, "a1": 0, "a2": 10, "a3": 10, "b0": 0, "c0": 0}


def test_cohorts_put_a_head_that_fits_in_its_quota_before_one_that_borrows() -> None:
    jobs = [a_job("b0", gpus=4, team="b"), a_job("a0", gpus=4)]
    starts = play("cohorts", jobs, guarantees={"a": 4}).starts()
    assert starts == {"b0": 10, "a0": 0}


def test_las_stops_what_has_had_its_share_for_what_is_new() -> None:
    """a has 4 GPUs and is above one GPU-hour from second 900 on. b comes at 1,000, waits for the
    grace and runs; a begins anew when b is done, since nothing saved its work."""
    jobs = [a_job("a", gpus=4, runs=2_000), a_job("b", gpus=1, runs=50, at=1_000)]
    played = play("las", jobs)
    assert played.starts() == {"a": 0, "b": 1_300}
    assert played.ends() == {"a": 3_350, "b": 1_350}
    assert played.outcome.lost_mgpu_s == 4_000 * 1_300


def test_las_stops_nobody_of_the_same_level() -> None:
    jobs = [a_job("a", gpus=4, runs=800), a_job("b", gpus=1, runs=50, at=100)]
    assert play("las", jobs).starts() == {"a": 0, "b": 800}


def test_las_wakes_up_when_a_job_falls_a_level() -> None:
    """b waits since 100, but a falls at 900 only: the victim's notice is then."""
    jobs = [a_job("a", gpus=4, runs=5_000), a_job("b", gpus=1, runs=50, at=100)]
    assert play("las", jobs).starts() == {"a": 0, "b": 1_200}
    assert Las.steps_mgpu_s == (3_600_000, 36_000_000)


def test_karma_takes_back_what_a_guarantee_lent() -> None:
    """b borrows a's half. When a comes, b's youngest borrowed job gets notice and no other."""
    jobs = [a_job(f"b{i}", runs=1_000, team="b", at=i) for i in range(4)]
    jobs.append(a_job("a0", at=100))
    played = play("karma", jobs, guarantees={"a": 2, "b": 2})
    assert played.starts()["a0"] == 400
    assert [task.preemptions for task in played.tasks.values()] == [0, 0, 0, 1, 0]
    assert played.ends()["b3"] == 410 + 1_000


def test_karma_takes_nothing_from_a_team_within_its_guarantee() -> None:
    jobs = [a_job(f"b{i}", runs=1_000, team="b") for i in range(3)]
    jobs += [a_job("c0", runs=1_000, team="c"), a_job("a0", at=100)]
    played = play("karma", jobs, guarantees={"a": 1, "b": 3})
    assert played.starts()["a0"] == 400
    assert {id for id, task in played.tasks.items() if task.preemptions} == {"c0"}


def test_karma_lends_to_the_richest_first() -> None:
    """b borrowed 4 GPUs for 1,800 s, of which c lent one: b owes a tenth of a day of its guarantee
    and c does not. Then only one of two borrowers fits, and b's came first."""
    jobs = [a_job("b0", gpus=5, runs=1_800, team="b")]
    jobs += [a_job("b1", gpus=3, runs=50, team="b", at=1_700)]
    jobs += [a_job("c1", gpus=3, runs=50, team="c", at=1_701)]
    starts = play("karma", jobs, guarantees={"a": 2, "b": 1, "c": 1}, gpus=5, per_node=5).starts()
    assert starts == {"b0": 0, "b1": 1_850, "c1": 1_800}


def test_karma_moves_credits_from_borrower_to_lender_every_quarter_of_an_hour() -> None:
    """3 borrowed GPUs for 900 s are 2,700 credits: a lent them all and has 2,700, b owes them."""
    karma = Karma(Fleet(uniform_fleet(4, 4)), Settings(), {"a": 3_000, "b": 1_000}, 300)
    (work,) = prepare([a_job("x", gpus=4, team="b")], Settings())
    task = Task(work, "b", 4_000)
    karma.use["b"] += 4_000
    karma.note_start(task)
    karma.leave(task, (), 1_799)
    assert karma.credits == {"a": 2_700, "b": -2_700}


def test_karma_pays_the_poorest_lender_first() -> None:
    """b pays 2,700 for 3 borrowed GPUs. c, which has nothing, is paid for all 2 that it lent, and
    the richer a for the third only. Mutant: the richest lender was paid first."""
    karma = Karma(Fleet(uniform_fleet(6, 6)), Settings(), {"a": 3_000, "b": 1_000, "c": 2_000}, 300)
    karma.credits["a"] = 300
    (work,) = prepare([a_job("x", gpus=4, team="b")], Settings())
    task = Task(work, "b", 4_000)
    karma.use["b"] += 4_000
    karma.note_start(task)
    karma.leave(task, (), 1_799)
    assert karma.credits == {"a": 300 + 900, "b": -2_700, "c": 1_800}


@pytest.mark.parametrize("policy", ["static", "fifo", "easy", "drf", "multifactor", "cohorts"])
def test_policies_without_reclaim_stop_nobody(policy: str) -> None:
    jobs = [a_job(f"j{i}", at=i, gpus=1 + i % 4, team="ab"[i % 2]) for i in range(12)]
    played = play(policy, jobs, guarantees={"a": 4, "b": 0} if policy != "static" else {"a": 4})
    assert played.outcome.preemptions == 0
