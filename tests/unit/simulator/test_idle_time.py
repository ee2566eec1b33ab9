"""Why GPUs are idle while jobs wait, worked out by hand: milli-GPU-seconds until the last job."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Quota, TreeNode
from builders.simulator_builders import PLAIN, a_job, a_scene, play
from simulator.comparison import compare, simulate
from simulator.idle import Cause
from simulator.report import document, table
from simulator.scene import POOL, QuotaTree, stage, uniform_fleet
from simulator.workload import Settings, TraceJob, prepare

#: Two nodes of 2: x holds one until 30, the gang y waits for both, and z would run until 100.
BEHIND_A_GANG = (
    a_job("x", gpus=2, runs=30),
    a_job("y", gpus=2, nodes=2, runs=20),
    a_job("z", runs=100),
    a_job("last", at=30),
)


def idle(policy: str, jobs: Sequence[TraceJob], **world: object) -> dict[Cause, int]:
    """What was idle by which cause; those of nothing are left out."""
    found = play(policy, jobs, **world).outcome.idle_mgpu_s  # type: ignore[arg-type]
    return {cause: mgpu_s for cause, mgpu_s in found.items() if mgpu_s}


@pytest.mark.parametrize("policy", ["fifo", "tidegate"])
def test_nobody_waits(policy: str) -> None:
    """x leaves 1 of 4 GPUs until 10, then all are free until 20. Planted: what is idle counted on
    after the horizon."""
    jobs = [a_job("x", gpus=3), a_job("last", at=20)]
    assert idle(policy, jobs) == {Cause.NOBODY: 1_000 * 10 + 4_000 * 10}


@pytest.mark.parametrize("policy", ["fifo", "tidegate"])
def test_too_few_are_free(policy: str) -> None:
    """y wants 4, and 1 is free until 10."""
    jobs = [a_job("x", gpus=3), a_job("y", gpus=4), a_job("last", at=15)]
    assert idle(policy, jobs) == {Cause.LARGER: 1_000 * 10}


@pytest.mark.parametrize("policy", ["fifo", "tidegate"])
def test_enough_are_free_on_no_node(policy: str) -> None:
    """Each of two nodes of 2 has 1 free from 10 to 20; y wants 2 on one, z wants 4. Planted: jobs
    that fit in what is left not told from larger ones."""
    jobs = [
        *(a_job(name, runs=runs) for name, runs in (("a", 10), ("b", 20), ("c", 20), ("d", 10))),
        a_job("y", at=10, gpus=2),
        a_job("z", at=10, gpus=2, nodes=2),
        a_job("last", at=20),
    ]
    assert idle(policy, jobs, per_node=2) == {Cause.FRAGMENTATION: 2_000 * 10}


def test_what_a_baseline_refuses_is_its_own_affair() -> None:
    """`easy` keeps the second node for the gang until 30. z would take 1 of its GPUs; the other is
    too few for the gang. Planted: nothing placed in thought."""
    assert idle("easy", BEHIND_A_GANG, per_node=2) == {
        Cause.POLICY: 1_000 * 30,
        Cause.LARGER: 1_000 * 30,
    }


def test_what_is_kept_for_a_reservation() -> None:
    """The same with ours (R-75). Planted: the GPUs of jobs in thought not all given back; a cause
    noted for a job and not for its kind."""
    assert idle("tidegate", BEHIND_A_GANG, per_node=2) == {
        Cause.RESERVATION: 1_000 * 30,
        Cause.LARGER: 1_000 * 30,
    }


def test_jobs_that_come_later_wait_like_those_that_are_alike() -> None:
    """w comes at 10 and is like z, so that nobody decides anew: from then on both GPUs wait for
    the reservation. Planted: only the first job of its kind counted."""
    jobs = [*BEHIND_A_GANG, a_job("w", at=10, runs=100)]
    assert idle("tidegate", jobs, per_node=2) == {
        Cause.RESERVATION: 1_000 * 10 + 2_000 * 20,
        Cause.LARGER: 1_000 * 10,
    }


def test_a_place_in_the_guarantee() -> None:
    """Two nodes of 4. Until 100 b holds 3 of one, a's w 2 of the other. a's y fits in what is left
    of its guarantee and on no node; its z waits behind it (R-25), and 2 are too few for y. Planted:
    that code taken for the order of service; y compared with what was free before z."""
    jobs = [
        a_job("x", gpus=3, runs=100, team="b"),
        a_job("w", gpus=2, runs=100),
        a_job("y", at=1, gpus=3),
        a_job("z", at=1),
        a_job("last", at=100, team="b"),
    ]
    assert idle("tidegate", jobs, gpus=8, guarantees={"a": 5, "b": 3}) == {
        Cause.NOBODY: 3_000 * 1,
        Cause.PLACE: 1_000 * 99,
        Cause.LARGER: 2_000 * 99,
    }


def test_a_quota_that_allows_no_more() -> None:
    """a: 2 of 4 GPUs, which borrows nothing (R-13). Planted: limits taken for a want of GPUs."""
    tree = QuotaTree((TreeNode("a", None),), (Quota("a", POOL, 2_000, borrow_limit_mgpu=0),))
    scene, teams = stage(tree, uniform_fleet(4, 4), Policy(), ("a",), scale=False)
    given = Settings(**PLAIN)  # type: ignore[arg-type]
    works = prepare([a_job("x", gpus=2), a_job("y", gpus=1), a_job("last", at=10)], given)
    found = simulate(works, scene, given, teams, "tidegate").idle_mgpu_s
    assert {cause: mgpu_s for cause, mgpu_s in found.items() if mgpu_s} == {
        Cause.QUOTA: 1_000 * 10,
        Cause.NOBODY: 1_000 * 10,
    }


def test_what_is_claimed() -> None:
    """From 100 on a takes 2 of 4 GPUs back from b, who has a grace of 300 s; the 2 that are free
    are kept for a. b's job of 1 would fit. Planted: claims not asked for."""
    jobs = [
        a_job("b", gpus=2, runs=1_000, team="b"),
        a_job("a", at=100, gpus=4, runs=500),
        a_job("other", at=150, team="b"),
        a_job("last", at=500),
    ]
    assert idle("tidegate", jobs, guarantees={"a": 4, "b": 0}) == {
        Cause.NOBODY: 2_000 * 100,
        Cause.CLAIM: 2_000 * 300,
    }


def test_behind_others_in_the_order() -> None:
    """A cycle starts one job. Planted: nothing placed in thought."""
    jobs = [a_job("x", gpus=2), a_job("y", gpus=2), a_job("last", at=5)]
    assert idle("tidegate", jobs, knobs=Policy(starts_max=1)) == {Cause.ORDER: 2_000}


def test_until_the_next_cycle() -> None:
    """Cycles come each 60 s. x waits from 61 to 120 although all is free. From 150 on, when x has
    ended, y has the room that it lacked when it came. Planted: jobs
    left out of which the latest cycle said nothing."""
    jobs = [
        a_job("x", at=61, gpus=3, runs=30),
        a_job("y", at=110, gpus=2),
        a_job("first"),
        a_job("last", at=180),
    ]
    assert idle("tidegate", jobs, cycle_s=60) == {
        Cause.NOBODY: 3_000 * 10 + 4_000 * 51 + 1_000 * 49 + 2_000 * 30,
        Cause.CYCLE: 3_000 * 49 + 3_000 * 10 + 2_000 * 30,
        Cause.LARGER: 1_000 * 10 + 1_000 * 30,
    }


def test_the_table_and_the_document_tell_it() -> None:
    """Of 4 GPUs until 30 half are idle, each by half of that. Planted: what is too few
    counted among what fits."""
    scene = a_scene({"a": 0}, gpus=4, per_node=2)
    given = Settings(**PLAIN)  # type: ignore[arg-type]
    works = prepare(BEHIND_A_GANG, given)
    results = compare(works, scene, given, {"a": "a"}, ["easy", "tidegate"])
    rows = {name: cells for name, *cells in table(results)}
    assert rows["idle, a fitting job waits"] == ["0.2500", "0.2500"]
    assert rows["  reservation"] == ["0.0000", "0.2500"]
    assert rows["  a baseline's rules"] == ["0.2500", "0.0000"]
    assert rows["idle, too few for a job"] == ["0.2500", "0.2500"]
    assert rows["idle, fits on no nodes"] == ["0.0000", "0.0000"]
    easy, ours = (one["quality"] for one in document(results, works, scene, given)["results"])
    assert (easy["idle_fitting"], easy["idle"]["policy"]) == (0.25, 0.25)
    assert ours["idle"] == dict.fromkeys(Cause, 0.0) | {"reservation": 0.25, "larger": 0.25}
