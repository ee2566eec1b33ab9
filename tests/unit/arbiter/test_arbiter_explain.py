"""Every reason as a person reads it (R-85)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import Code, Waiting
from arbiter.explain import sentences
from arbiter.explain.phrases import duration_text
from arbiter.explain.sentences import sentence
from builders.arbiter_builders import GPU, a_queued

NAMES = {"t": "ai/research/nlp", "d": "ai/research", "c": "hamburg"}
ONE = a_queued("j", "t", gpus=8)
GANG = a_queued("g", "t", gpus=8, nodes=25)


def told(code: Code, *, job=ONE, node=None, ahead=0, **numbers: int) -> str:
    gpus = {f"{name}_mgpu": gpus * GPU for name, gpus in numbers.pop("gpus", {}).items()}
    waiting = Waiting(job.id, code, {**gpus, **numbers}, node, ahead)
    return sentence(waiting, job, NAMES)


def test_the_guarantee_is_coming_back() -> None:
    gpus = {"need": 200, "within_guarantee": 200, "coming_back": 200, "earmarked": 0}
    assert told(Code.WAITING_FOR_RECLAIM, job=GANG, gpus=gpus, victims=4, grace_left_s=252) == (
        "Your team is entitled to these 200 GPUs. They are lent out and are being reclaimed,"
        " within 4 min 12 s."
    )


def test_one_gpu_is_coming_back() -> None:
    gpus = {"need": 1, "within_guarantee": 1, "coming_back": 1, "earmarked": 0}
    assert told(Code.WAITING_FOR_RECLAIM, gpus=gpus, victims=1, grace_left_s=30) == (
        "Your team is entitled to this GPU. It is lent out and is being reclaimed, within 30 s."
    )
    free = {"need": 1, "largest_free_on_a_cluster": 0}
    assert told(Code.WAITING_FOR_GUARANTEE, gpus=free).startswith(
        "Your team is entitled to this GPU. 0 are free"
    )


def test_what_is_taken_from_the_own_team_is_not_told_to_be_lent() -> None:
    """Planted: the team's own victims are not counted apart."""
    gpus = {"need": 8, "within_guarantee": 8, "coming_back": 8, "earmarked": 0}
    eight = replace(GANG, node_count=1, mgpu_per_node=8 * GPU)
    reason = Code.WAITING_FOR_RECLAIM
    numbers = {"gpus": gpus, "grace_left_s": 30}
    assert told(reason, job=eight, victims=1, victims_of_team=1, **numbers) == (
        "8 GPUs are being freed by a job of your team in a lower class, within 30 s."
    )
    assert told(reason, job=eight, victims=2, victims_of_team=2, **numbers).startswith(
        "8 GPUs are being freed by 2 jobs of your team in a lower class"
    )
    assert "lent out" in told(reason, job=eight, victims=2, victims_of_team=1, **numbers)


def test_a_part_is_back_already() -> None:
    gpus = {"need": 200, "guaranteed": 200, "within_guarantee": 0}
    gpus |= {"coming_back": 80, "earmarked": 120}
    assert (
        told(Code.WAITING_FOR_RECLAIM, job=GANG, gpus=gpus, victims=4, grace_left_s=0)
        == "200 GPUs are being reclaimed for it, within 0 s. 120 GPUs are already available."
    )


def test_what_is_overdue_is_not_promised() -> None:
    """Planted: "within 0 s", for ten minutes."""
    gpus = {"need": 2, "within_guarantee": 2, "coming_back": 2, "earmarked": 0}
    numbers = {"gpus": gpus, "victims": 1, "grace_left_s": 0}
    late = {"overdue_s": 90, "given_up_in_s": 510}
    assert told(Code.WAITING_FOR_RECLAIM, **numbers, **late) == (
        "Your team is entitled to these 2 GPUs. They are lent out and are being reclaimed. That"
        " was due 1 min 30 s ago. After another 8 min 30 s the job gives up its claim and waits as"
        " before."
    )


def test_what_is_all_here_waits_for_quota_alone() -> None:
    """Planted: "are being reclaimed", with nothing that comes back."""
    gpus = {"need": 16, "within_guarantee": 16, "coming_back": 0, "earmarked": 16}
    sixteen = replace(GANG, node_count=1, mgpu_per_node=16 * GPU)
    numbers = {"gpus": gpus, "victims": 0, "grace_left_s": 40}
    assert told(Code.WAITING_FOR_RECLAIM, job=sixteen, **numbers) == (
        "16 GPUs are free and kept for it. It starts once the jobs that are being stopped have"
        " freed quota, within 40 s."
    )


FREE = {"need": 8, "free": 3, "largest_free_on_a_cluster": 3, "available_by_quota": 100}


@pytest.mark.parametrize(
    ("code", "more", "expected"),
    [
        (Code.WAITING_FOR_FREE_GPUS, {"gpus": FREE}, "It needs 8 GPUs; 3 are free."),
        (
            Code.WAITING_FOR_FREE_GPUS,
            {"gpus": FREE, "ahead": 1},
            "It needs 8 GPUs; 3 are free. 1 job is ahead of it.",
        ),
        (
            Code.WAITING_FOR_FREE_GPUS,
            {"gpus": {**FREE, "free": 1}, "ahead": 1200},
            "It needs 8 GPUs; 1 is free. 1,200 jobs are ahead of it.",
        ),
        (
            Code.WAITING_FOR_FREE_GPUS,
            {"gpus": {**FREE, "free": 12, "largest_free_on_a_cluster": 6}},
            "It needs 8 GPUs on one cluster; 12 are free in all, but at most 6 on one.",
        ),
        (
            Code.WAITING_FOR_FREE_GPUS,
            {
                "gpus": {
                    **FREE,
                    "free": 12,
                    "largest_free_on_a_cluster": 12,
                    "available_by_quota": -4,
                }
            },
            "It needs 8 GPUs. 12 are free but kept for other teams; quota leaves 0 for yours.",
        ),
        (
            Code.WAITING_FOR_GUARANTEE,
            {"gpus": FREE},
            "Your team is entitled to these 8 GPUs. 3 are free on one cluster, and no jobs can"
            " be preempted now to free the rest.",
        ),
        (
            Code.WAITING_FOR_GUARANTEE,
            {"gpus": {**FREE, "capacity": 96}},
            "Your team is entitled to these 8 GPUs, but only 96 GPUs of this pool work, and more"
            " than that are guaranteed. 3 are free on one cluster, and no jobs can be preempted"
            " now to free the rest.",
        ),
        (
            Code.WAITING_FOR_GUARANTEE,
            {"gpus": {**FREE, "limit": 40, "held": 38}, "node": "d"},
            "Your team is entitled to these 8 GPUs, but ai/research uses 38 of the 40 GPUs that it"
            " may use, and no jobs there can be preempted now.",
        ),
        (
            Code.BORROW_LIMIT_REACHED,
            {"gpus": {"need": 8, "limit": 20, "held": 16}, "node": "t"},
            "Your team may use at most 20 GPUs and uses 16; this job needs 8 GPUs.",
        ),
        (
            Code.BORROW_LIMIT_REACHED,
            {"gpus": {"need": 8, "limit": 20, "held": 26, "leaving": 6}, "node": "t"},
            "Your team may use at most 20 GPUs and uses 26 (6 in jobs that are being stopped);"
            " this job needs 8 GPUs.",
        ),
        (
            Code.PARENT_LIMIT_REACHED,
            {"gpus": {"need": 8, "limit": 20, "held": 16}, "node": "d"},
            "ai/research may use at most 20 GPUs and uses 16; this job needs 8 GPUs.",
        ),
        (
            Code.PARENT_LIMIT_REACHED,
            {"gpus": {"need": 8, "limit": 20, "held": 16}, "node": "hidden"},
            "A node above your team may use at most 20 GPUs and uses 16; this job needs 8 GPUs.",
        ),
        (
            Code.TOPOLOGY_FRAGMENTED,
            {
                "gpus": {"largest_free_on_a_cluster": 12, "mgpu_per_node": 8},
                "job": ONE,
                "nodes_needed": 1,
                "nodes_fitting": 0,
                "mgpu_per_node": 8 * GPU,
            },
            "12 GPUs are free on one cluster, but scattered:"
            " it needs 1 node with 8 free, and none has.",
        ),
        (
            Code.TOPOLOGY_FRAGMENTED,
            {
                "gpus": {"largest_free_on_a_cluster": 300},
                "job": GANG,
                "nodes_needed": 25,
                "nodes_fitting": 7,
                "mgpu_per_node": 8 * GPU,
            },
            "300 GPUs are free on one cluster, but scattered: it needs 25 nodes of one cluster with"
            " 8 free each, and at most 7 have.",
        ),
        (
            Code.CLASS_CAP_REACHED,
            {"gpus": {"need": 8, "class_cap": 16, "class_in_use": 12}},
            "In this priority class your team may use 16 GPUs at once and uses 12;"
            " this job needs 8 GPUs.",
        ),
        (
            Code.NEVER_FITS,
            {"job": GANG, "gpus": {"need": 200, "could_ever": 120}},
            "This job asks for 200 GPUs (25 nodes with 8 each) and will never start as it is:"
            " the most your team can ever get for such a job is 120 GPUs.",
        ),
        (
            Code.NEVER_FITS,
            {"gpus": {"need": 8, "could_ever": 0}},
            "This job asks for 8 GPUs and will never start as it is:"
            " your team can get no such GPUs in this pool.",
        ),
        (
            Code.BEHIND_HIGHER_PRIORITY,
            {"gpus": {"need": 8}},
            "It needs 8 GPUs, but another job of your team comes first and waits itself.",
        ),
        (
            Code.BEHIND_FAIR_SHARE,
            {"ahead": 7, "starts_max": 9},
            "It could start, but this cycle reached its limit of starts;"
            " 7 waiting jobs come before it in the next.",
        ),
        (
            Code.BEHIND_FAIR_SHARE,
            {"starts_max": 9},
            "It could start, but this cycle reached its limit of starts;"
            " it comes first in the next.",
        ),
        (Code.CLUSTER_UNAVAILABLE, {}, "No cluster with such GPUs accepts jobs now."),
        (
            Code.CLUSTER_UNAVAILABLE,
            {"job": a_queued("p", "t", cluster="c")},
            "hamburg, where it must run, does not accept jobs now.",
        ),
        (
            Code.CLUSTER_UNAVAILABLE,
            {"job": a_queued("p", "t", cluster="x")},
            "The cluster it is pinned to does not accept jobs now.",
        ),
    ],
)
def test_a_reason_as_a_sentence(code: Code, more: dict, expected: str) -> None:
    assert told(code, **more) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59, "59 s"),
        (252, "4 min 12 s"),
        (300, "5 min"),
        (7_500, "2 h 5 min"),
        (3_601, "1 h"),
        (97_200, "1 d 3 h"),
    ],
)
def test_a_duration_names_two_units_at_most(seconds: int, text: str) -> None:
    assert duration_text(seconds) == text


def test_it_would_delay_a_job_that_comes_first() -> None:
    numbers = {"reserved_start_at": 1_000_000}
    gpus = {"need": 8, "free": 16, "reserved": 32}
    told_to_all = (
        "It needs 8 GPUs and would delay a job that comes first. 32 GPUs are reserved for that job"
        " from 1970-01-12 13:46 UTC. With a "
    )
    endless = told(Code.RESERVED_FOR_LARGER_JOB, gpus=gpus, **numbers)
    assert endless == f"{told_to_all}time limit that ends before then, it could start sooner."
    long = a_queued("j", "t", gpus=8, time_limit_s=9_000)
    assert told(Code.RESERVED_FOR_LARGER_JOB, job=long, gpus=gpus, **numbers) == (
        f"{told_to_all}shorter time limit that ends before then, it could start sooner."
    )


def test_every_code_has_a_sentence() -> None:
    """Planted: a new code in the plan, and in nothing else."""
    assert set(sentences._WRITERS) == set(Code)


@pytest.mark.parametrize(
    ("jobs", "held", "more"),
    [
        (
            3,
            16,
            " 3 jobs without a time limit hold 16 GPUs; one of them has to end first, so no latest"
            " start is known.",
        ),
        (
            1,
            1,
            " 1 job without a time limit holds 1 GPU; it has to end first, so no latest start is"
            " known.",
        ),
        (0, 0, ""),
    ],
)
def test_jobs_without_a_time_limit_are_named(jobs: int, held: int, more: str) -> None:
    """Planted: told where there are none."""
    numbers = {"unlimited_jobs": jobs} if jobs else {}
    gpus = {**FREE, "unlimited": held} if jobs else FREE
    told_free = told(Code.WAITING_FOR_FREE_GPUS, gpus=gpus, **numbers)
    assert told_free == f"It needs 8 GPUs; 3 are free.{more}"
    scattered = {"nodes_needed": 25, "nodes_fitting": 1}
    text = told(
        Code.TOPOLOGY_FRAGMENTED,
        job=GANG,
        **scattered,
        **numbers,
        mgpu_per_node=8 * GPU,
        gpus={"largest_free_on_a_cluster": 200, **({"unlimited": held} if jobs else {})},
    )
    assert text.endswith(f"and 1 has.{more}")
