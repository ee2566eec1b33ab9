"""What waits in a real Slurm as its owner reads it, and what is taken back from there."""

from __future__ import annotations

import os
import pwd
import subprocess
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from billing.models import UsageSegment
from builders.connector_builders import eventually
from builders.loop_builders import a_job
from builders.portal_builders import Company
from builders.slurm_loop import SlurmLoop
from jobs.execution import withdrawing
from jobs.execution.withdrawing import withdraw_changed, withdraw_stuck
from jobs.models import Attempt
from jobs.queue import avoided_clusters
from quotas.models import ClusterUser, QuotaPush
from slurm.hands_on_slurm import bob, company, field, frail_loop, loop, reopen, sbatch, told
from tenants.models import User

__all__ = ["bob", "company", "frail_loop", "loop"]

NO_NODES = (
    "Your team is entitled to this GPU, but only 0 GPUs of this pool work, and more than that are "
    "guaranteed. 0 are free on one cluster, and no jobs can be preempted now to free the rest."
)
NO_CLUSTER = "No cluster with such GPUs accepts jobs now."

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.timeout(400),
]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"account_prefix": "none-"},
            "Slurm refuses it: Invalid account or account/partition combination specified (Slurm "
            "error 2045). It was submitted as tg-ana for account none-ai-company_research_nlp, "
            "QoS g-none-ai-company_research_nlp and partition h100",
        ),
        (
            {"qos_prefix": "none-"},
            "Slurm refuses it: Invalid qos specification (Slurm error 2066). It was submitted as "
            "tg-ana for account ai-company_research_nlp, QoS none-ai-company_research_nlp and "
            "partition h100",
        ),
    ],
    ids=["account", "qos"],
)
def test_what_slurm_does_not_have_yet_keeps_the_job_waiting_with_a_reason(
    options: dict[str, Any], sentence: str, loop: SlurmLoop, company: Company, bob: User
) -> None:
    """Mutant: every job of a team or user that was not pushed yet failed, wherever else it could
    have run."""
    reopen(loop, **options)
    job = a_job(company.nlp, bob, company.pool)
    loop.until(job, "queued")
    attempt = job.attempts.get()
    assert (attempt.outcome, attempt.native_id) == ("not_started", None)
    assert attempt.message == (
        f"{sentence}; if these are new or were changed by hand, an administrator can push the "
        "quota to the cluster again."
    )
    loop.cycle()
    assert told(job, loop).startswith(
        f"{loop.cluster.name} did not start attempt 1. {attempt.message} {loop.cluster.name} is "
        "tried again from "
    )
    reopen(loop, account_prefix="", qos_prefix="g-")
    assert attempt.released_at is not None
    QuotaPush.objects.create(
        cluster=loop.cluster,
        kind="push",
        status="done",
        requested_at=attempt.released_at,
        done_at=attempt.released_at + timedelta(seconds=1),
    )
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.attempt_number) == ("succeeded", 2)


def test_who_has_no_token_waits_and_says_whom_to_ask(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    ClusterUser.objects.filter(user=bob).update(name="tg-nobody-here")
    job = a_job(company.nlp, bob, company.pool)
    loop.until(job, "queued")
    attempt = job.attempts.get()
    assert attempt.message == (
        "no token for tg-nobody-here: there is no such UNIX user where tokens are made; an "
        "administrator of the platform can map bob to another user on the cluster's page"
    )


@pytest.mark.parametrize(
    ("pool", "sentence", "state"),
    [
        ({"partition": "nowhere", "gres_type": "h100"}, NO_NODES, ", not in partition nowhere"),
        ({"partition": "h100", "gres_type": "h200"}, NO_CLUSTER, "gone"),
    ],
    ids=["partition", "gres"],
)
def test_a_pool_that_slurm_does_not_have_has_no_nodes_that_take_work(
    pool: dict[str, str], sentence: str, state: str, loop: SlurmLoop, company: Company, bob: User
) -> None:
    reopen(loop, pools={"h100": pool})
    job = a_job(company.nlp, bob, company.pool)
    loop.cycle()
    assert set(loop.cluster.nodes.values_list("is_schedulable", flat=True)) == {False}
    assert loop.cluster.nodes.filter(state__endswith=state).exists()
    assert told(job, loop) == sentence


@pytest.mark.chaos
def test_a_job_that_waits_in_slurm_says_for_what(
    frail_loop: SlurmLoop, company: Company, bob: User
) -> None:
    """The portal is not told of what others run, as in the moment before it sees it."""
    loop, bed = frail_loop, frail_loop.rig.bed
    nodes = bed.partitions["h100"].node_count
    native = sbatch(bed, "-p", "h100", f"-N{nodes}", "--gres=gpu:h100:8", "--exclusive")
    job = a_job(company.nlp, bob, company.pool, script="exit 0")
    name = loop.cluster.name
    loop.cycle()
    loop.deliver()
    loop.observe()
    assert told(job, loop) == (
        f"Its GPUs are reserved on {name}, where it waits. The cluster holds it until it "
        "is sure not to forget it; then it is released."
    )

    def is_waiting() -> bool:
        loop.turn()
        return "(Resources)" in told(job, loop)

    eventually(is_waiting)
    assert told(job, loop) == (
        f"Its GPUs are reserved on {name}, where it waits. It waits in the cluster's own "
        "queue: the nodes or GPUs that it needs are in use (Resources)."
    )
    bed.run(["scancel", native])
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.attempt_number) == ("succeeded", 1)
    assert job.attempts.get().message == ""


@pytest.mark.chaos
def test_what_slurm_will_not_start_is_taken_back_and_tried_again(
    frail_loop: SlurmLoop, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, bed = frail_loop, frail_loop.rig.bed
    job = a_job(company.nlp, bob, company.pool, script="sleep 2")
    loop.cycle()
    loop.deliver()
    bed.run(["scontrol", "update", "partition=h100", "state=DOWN"])

    def is_stuck() -> bool:
        loop.observe()
        return "does not start it" in told(job, loop)

    eventually(is_stuck)
    why = "The cluster does not start it: its partition is down (PartitionDown)."
    name = loop.cluster.name
    assert told(job, loop) == (f"Its GPUs are reserved on {name}, where it waits. {why}")
    observer: Any = loop.observer

    def withdraw() -> int:
        listing = loop.connector.observe()
        now = loop.clock.now()
        return withdraw_stuck(loop.cluster, listing, leadership=observer, now=now)

    assert withdraw() == 0
    Attempt.objects.update(release_sent_at=F("release_sent_at") - withdrawing.START_WITHIN)
    assert eventually(withdraw) == 1
    loop.until(job, "queued")
    first = job.attempts.get()
    assert (first.outcome, first.message) == ("not_started", f"Withdrawn after 5 minutes. {why}")
    assert first.started_at is None
    loop.cycle()
    assert told(job, loop).startswith(f"{name} did not start attempt 1. Withdrawn after ")
    bed.run(["scontrol", "update", "partition=h100", "state=UP"])
    loop.turn()
    assert Attempt.objects.count() == 1
    monkeypatch.setattr(avoided_clusters, "AVOIDED_FOR", timedelta(0))
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.attempt_number) == ("succeeded", 2)
    assert UsageSegment.objects.values_list("attempt_id", flat=True).distinct().get() != first.id


@pytest.mark.chaos
@pytest.mark.parametrize("how", ["requeue", "requeuehold"])
def test_what_somebody_queues_anew_on_slurm_is_taken_back_and_is_the_next_attempt(
    frail_loop: SlurmLoop, company: Company, bob: User, how: str
) -> None:
    loop, bed = frail_loop, frail_loop.rig.bed
    job = a_job(company.nlp, bob, company.pool, script='[ "$TIDEGATE_ATTEMPT" = 2 ] || sleep 600')
    loop.until(job, "running")
    first = job.attempts.get()
    # Also in the second of its start.
    assert first.native_id is not None
    bed.run(["scontrol", "update", f"jobid={first.native_id}", "requeue=1"])
    bed.run(["scontrol", how, first.native_id])
    observer: Any = loop.observer

    def withdraw() -> int:
        loop.observe()
        listing = loop.connector.observe()
        return withdraw_changed(loop.cluster, listing, leadership=observer, now=loop.clock.now())

    assert eventually(withdraw) == 1
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.attempt_number) == ("succeeded", 2)
    first.refresh_from_db()
    assert (first.outcome, first.stop_reason) == ("stopped", "withdrawn")
    state = ["squeue", "-h", "-t", "all", "-j", first.native_id, "-o", "%T"]
    assert bed.run(state).strip() == "CANCELLED"
    used = UsageSegment.objects.filter(attempt_id=first.id).values_list("start", "end")
    assert first.released_at is not None
    assert first.started_at is not None
    seconds = sum((end - start for start, end in used), timedelta())
    assert seconds == first.released_at - first.started_at


@pytest.mark.chaos
def test_a_time_limit_that_the_partition_does_not_allow_holds_no_gpus(
    frail_loop: SlurmLoop, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition is given a limit when the job is there already, and has it when the job queues
    again."""
    loop, bed = frail_loop, frail_loop.rig.bed
    job = a_job(company.nlp, bob, company.pool, script="exit 0", time_limit_s=7_200)
    name = loop.cluster.name
    loop.cycle()
    loop.deliver()
    observer: Any = loop.observer

    def limit(minutes: str) -> None:
        bed.run(["scontrol", "update", "partition=h100", f"MaxTime={minutes}"])

    def withdraw() -> int:
        loop.turn()
        listing = loop.connector.observe()
        now = loop.clock.now()
        return withdraw_stuck(loop.cluster, listing, leadership=observer, now=now)

    try:
        limit("60")
        eventually(lambda: loop.turn() or "PartitionTimeLimit" in told(job, loop))
        Attempt.objects.update(release_sent_at=F("release_sent_at") - withdrawing.NEVER_WITHIN)
        assert eventually(withdraw) == 1
        loop.until(job, "queued")
        first = job.attempts.get()
        assert (first.outcome, first.started_at, first.message) == (
            "not_started",
            None,
            "Withdrawn. The cluster does not start it: its time limit is longer than its "
            "partition allows (PartitionTimeLimit).",
        )
        monkeypatch.setattr(avoided_clusters, "AVOIDED_FOR", timedelta(0))
        assert loop.cluster.time_limits["h100"] == 3_600
        loop.turn()
        assert Attempt.objects.count() == 1
        assert told(job, loop).endswith(
            f"{name} lets no job run for longer than 1 h, and this one asks for 2 h."
        )
    finally:
        limit("7-00:00:00")
    loop.take_inventory()
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.attempt_number) == ("succeeded", 2)


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("change", "now"),
    [
        (["gres=gpu:h100:8"], "8 h100 on 1 node of partition h100"),
        (["partition=a100", "gres=gpu:a100:1"], "1 a100 and 1 h100 on 1 node of partition a100"),
    ],
    ids=["gpus", "partition"],
)
def test_what_its_user_changes_before_its_release_is_taken_back(
    frail_loop: SlurmLoop,
    company: Company,
    bob: User,
    change: list[str],
    now: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, bed = frail_loop, frail_loop.rig.bed
    job = a_job(company.nlp, bob, company.pool, script="exit 0")
    loop.cycle()
    loop.deliver()
    loop.observe()
    first = job.attempts.get()
    assert first.native_id is not None
    assert not loop.connector.observe().observations[first.key].is_altered
    entry = pwd.getpwnam(bed.users[0])
    subprocess.run(
        ["scontrol", "update", f"jobid={first.native_id}", *change],
        env={"PATH": os.environ["PATH"], "SLURM_CONF": str(bed.slurm_conf)},
        cwd="/tmp",
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=[],
        check=True,
        timeout=60,
    )
    observer: Any = loop.observer
    listing = eventually(
        lambda: (seen := loop.connector.observe()).observations[first.key].is_altered and seen
    )
    loop.connector.release(first.key, first.native_id)
    assert withdraw_changed(loop.cluster, listing, leadership=observer, now=loop.clock.now()) == 1
    loop.until(job, "queued")
    first.refresh_from_db()
    assert (first.outcome, first.started_at) == ("not_started", None)
    assert first.message == (
        f"Somebody changed it on the cluster before it began: it asks for {now} now, for account "
        "ai-company_research_nlp with QoS g-ai-company_research_nlp."
    )
    assert field(bed, first.native_id, "JobState") == "CANCELLED"
    monkeypatch.setattr(avoided_clusters, "AVOIDED_FOR", timedelta(0))
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.attempt_number) == ("succeeded", 2)
