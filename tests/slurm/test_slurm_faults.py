"""Bad input and faults of a real Slurm, as people meet them in the portal: what a job, its attempt
and the cluster's page say, and that nothing runs beside its successor or touches a stranger."""

from __future__ import annotations

import http.server
import json
import os
import pwd
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from billing.models import UsageSegment
from builders.api_callers import by_token
from builders.connector_builders import eventually
from builders.job_builders import a_body
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_cluster, a_company, a_grant, a_user, an_actor
from builders.slurm_loop import SlurmLoop
from clusters.models import Cluster
from conformance.rigs import ACCOUNT, SlurmRig
from connectors.registry import open_connector
from connectors.slurm.minter import Minter, Policy
from jobs import withdrawing
from jobs.explaining import explanation_of
from jobs.models import Attempt, Job
from jobs.queries import get_job
from jobs.withdrawing import withdraw_changed, withdraw_stuck
from outbox.models import Message
from quotas.fleet import cluster_message
from quotas.models import ClusterUser, QuotaPush
from slurm.company_on_slurm import poll
from slurm.own_bed import a_bed_beside
from slurm.portal_processes import portal_processes
from slurm_bed import SlurmBed
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

#: Seconds of silence after which a node of the frail bed is down.
NODE_TIMEOUT_S = 10
NO_NODES = (
    "Your team is entitled to this GPU; 0 are free on one cluster, and nothing that is lent "
    "out can be taken back to make room for the rest."
)
BEHIND = (
    "statistics: request failed: Unspecified error (Slurm error -1); slurmrestd answers, is "
    "slurmctld (for accounting: slurmdbd) down behind it?"
)
SAID = {
    "slurmrestd is down": "no connection to the cluster: [Errno 111] Connection refused",
    "slurmctld is down": BEHIND,
    "slurmrestd hangs": "the cluster did not answer within 30 s",
    "slurmctld hangs": BEHIND,
    "a forged token": (
        "the cluster refuses the token of tidegate (statistics); does the minter have this "
        "cluster's key, and do the clocks agree?"
    ),
    "no minter of ours": (
        "The options of local are wrong: option token_socket names /nowhere/minter, which is none "
        "of the minters that may be asked; whoever runs this installation can add it to "
        "TIDEGATE_SLURM_MINTERS and restart it."
    ),
    "not JSON": ("statistics: the answer is no statistics (HTTP status 200); is this slurmrestd?"),
    "errors and 200": "statistics: no database (Slurm error 7000)",
    "not found": (
        "the cluster offers none of the API versions v0.0.45, v0.0.44, v0.0.43, v0.0.42, "
        "v0.0.41, v0.0.40, v0.0.38; is this slurmrestd's address?"
    ),
    "an option is wrong": (
        "The options of local are wrong: option settle_s must be a whole number from 0 to 600."
    ),
    "slurmdbd is down": "",
}
NO_CLUSTER = "No cluster with such GPUs accepts jobs now."

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.timeout(400),
]


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(company: Company, slurm_rig: SlurmRig, bob: User) -> SlurmLoop:
    loop = SlurmLoop(company.cluster, slurm_rig)
    loop.let_in(bob, company.nlp)
    return loop


@pytest.fixture(scope="session")
def frail_bed(slurm_bed: SlurmBed) -> Iterator[SlurmBed]:
    """A bed that soon calls a silent node down, for this worker's tests alone."""
    if slurm_bed.node_timeout_s <= NODE_TIMEOUT_S:
        yield slurm_bed
        return
    with a_bed_beside("frail", NODE_TIMEOUT_S=str(NODE_TIMEOUT_S)) as bed:
        yield bed


@pytest.fixture
def empty_bed(frail_bed: SlurmBed) -> SlurmBed:
    """The frail bed, whole and without jobs: a crashed controller forgets that it cancelled one."""
    frail_bed.start("ctld", "rest", "dbd", *node_names(frail_bed))
    frail_bed.run(["scontrol", "update", "partition=h100", "state=UP"])
    frail_bed.empty()
    return frail_bed


@pytest.fixture
def frail_rig(empty_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(empty_bed)
    yield opened
    empty_bed.start("ctld", "rest", "dbd", *node_names(empty_bed))
    opened.close()


@pytest.fixture
def frail_loop(company: Company, frail_rig: SlurmRig, bob: User) -> SlurmLoop:
    loop = SlurmLoop(company.cluster, frail_rig)
    loop.let_in(bob, company.nlp)
    return loop


def node_names(bed: SlurmBed) -> list[str]:
    """The nodes with H100."""
    return [f"h{number:03d}" for number in range(1, bed.partitions["h100"].node_count + 1)]


def wait_for_a_save(bed: SlurmBed) -> None:
    """Until the controller has written down what it knows now; it does so when a job changes."""
    location = bed.run(["scontrol", "show", "config"]).partition("StateSaveLocation")[2]
    path = Path(location.partition("=")[2].split()[0]) / "job_state"

    def written_at() -> int:
        return path.stat().st_mtime_ns if path.exists() else 0

    before = written_at()
    bed.run(["scancel", sbatch(bed, "-p", "h100", "--hold")])
    eventually(lambda: written_at() > before)


def told(job: Job, loop: SlurmLoop) -> str:
    """What its owner reads of why the job waits."""
    actor, now = actor_of(job.user), loop.clock.now()
    view = get_job(job.id, actor=actor, now=now)
    sentence: str = explanation_of(view, actor=actor, now=now)["sentence"]
    return sentence


def reopen(loop: SlurmLoop, **options: Any) -> None:
    """The cluster with other options, as an administrator may give it."""
    loop.rig.options |= options
    loop.rig.connector = loop.rig.open()
    loop.cluster.options = loop.rig.options
    loop.cluster.save()
    loop.take_inventory()


def sbatch(bed: SlurmBed, *options: str, user: str | None = None) -> str:
    """Submit beside the portal; returns the number."""
    entry = pwd.getpwnam(user or bed.users[1])
    done = subprocess.run(
        ["sbatch", "--parsable", "-A", ACCOUNT, "-o", "/dev/null", "-D", "/tmp", *options],
        input="#!/bin/bash\nexec sleep 1000\n",
        env={"PATH": os.environ["PATH"], "SLURM_CONF": str(bed.slurm_conf)},
        cwd="/tmp",
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def field(bed: SlurmBed, job_id: str, name: str) -> str:
    """One field of a job as Slurm's own command prints it."""
    words = bed.run(["scontrol", "--oneliner", "show", "job", job_id]).split()
    return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))


# What Slurm does not have


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
        f"Its GPUs are reserved and it is being started on {name}. The cluster holds it until it "
        "is sure not to forget it; then it is released."
    )

    def is_waiting() -> bool:
        loop.turn()
        return "(Resources)" in told(job, loop)

    eventually(is_waiting)
    assert told(job, loop) == (
        f"Its GPUs are reserved and it is being started on {name}. It waits in the cluster's own "
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
    assert told(job, loop) == (f"Its GPUs are reserved and it is being started on {name}. {why}")
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
    assert (first.outcome, first.message) == ("not_started", f"Taken back after 5 minutes. {why}")
    assert first.started_at is None
    loop.cycle()
    assert told(job, loop).startswith(f"{name} did not start attempt 1. Taken back after ")
    bed.run(["scontrol", "update", "partition=h100", "state=UP"])
    loop.turn()
    assert Attempt.objects.count() == 1
    monkeypatch.setattr(withdrawing, "AVOIDED_FOR", timedelta(0))
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
            "Taken back. The cluster does not start it: its time limit is longer than its "
            "partition allows (PartitionTimeLimit).",
        )
        monkeypatch.setattr(withdrawing, "AVOIDED_FOR", timedelta(0))
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
    monkeypatch.setattr(withdrawing, "AVOIDED_FOR", timedelta(0))
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.attempt_number) == ("succeeded", 2)


# A node that vanishes


@pytest.mark.chaos
def test_a_node_that_vanishes_is_waited_for_until_slurm_says_that_it_is_gone(
    frail_loop: SlurmLoop, company: Company, bob: User
) -> None:
    """slurmd is killed, the job's processes live on. Nothing starts before Slurm's own verdict."""
    loop, bed = frail_loop, frail_loop.rig.bed
    proof = loop.rig.scratch / "proof"
    script = (
        f'echo "$TIDEGATE_ATTEMPT $SLURM_JOB_ID" >> {proof}; '
        '[ "$TIDEGATE_ATTEMPT" = 1 ] && exec sleep 90; sleep 2'
    )
    job = a_job(company.nlp, bob, company.pool, script=script)
    loop.until(job, "running")
    first = job.attempts.get()
    eventually(proof.exists)
    assert first.native_id is not None
    node = field(bed, first.native_id, "NodeList")
    bed.kill9(node)
    seen: list[tuple[str, int]] = []

    def is_over() -> bool:
        loop.turn()
        state = field(bed, first.native_id or "", "JobState")
        seen.append((state, Attempt.objects.count()))
        job.refresh_from_db()
        return job.state == "succeeded"

    deadline = time.monotonic() + 120
    while not is_over():
        assert time.monotonic() < deadline, seen[-3:]
        time.sleep(0.5)
    assert {count for state, count in seen if state == "RUNNING"} == {1}
    first, second = job.attempts.order_by("number")
    assert (first.outcome, first.message) == ("node_failed", "One of its nodes failed.")
    assert (second.outcome, job.attempt_number) == ("succeeded", 2)
    assert proof.read_text().splitlines() == [f"1 {first.native_id}", f"2 {second.native_id}"]
    assert second.slots[0]["node"] != node
    # Both are metered by the cluster's own times.
    metered = {}
    for attempt, state in ((first, "NODE_FAIL"), (second, "COMPLETED")):
        segment = UsageSegment.objects.get(attempt_id=attempt.id)
        assert segment.end is not None
        times = [str(int(at.timestamp())) for at in (segment.start, segment.end)]
        metered[attempt.native_id] = [state, *times]
    asked = [
        *("env", "SLURM_TIME_FORMAT=%s", "sacct", "-nPXDa", "-S", "now-10minutes"),
        *("-j", f"{first.native_id},{second.native_id}", "--format=JobIDRaw,State,Start,End"),
    ]

    def account() -> dict[str, list[str]]:
        lines = [line.split("|") for line in bed.run(asked).splitlines()]
        return {line[0]: line[1:] for line in lines}

    # The accounting hears of an end after the controller has said it.
    eventually(lambda: account() == metered, told=lambda: (account(), metered))
    ends = UsageSegment.objects.get(attempt_id=first.id).end
    assert ends is not None
    assert ends <= UsageSegment.objects.get(attempt_id=second.id).start


# A number that is given anew


def test_a_number_that_a_crashed_controller_gives_to_another_is_never_touched(
    company: Company, empty_bed: SlurmBed, bob: User
) -> None:
    rig = SlurmRig(empty_bed, settle_s=7)
    try:
        loop, bed = SlurmLoop(company.cluster, rig), empty_bed
        wait_for_a_save(bed)
        loop.let_in(bob, company.nlp)
        job = a_job(company.nlp, bob, company.pool, script="exit 0")
        loop.cycle()
        # The controller saves what it accepted every 5 s: its number is safe after a save.
        first: Attempt | None = None
        stranger = ""
        for _ in range(5):
            loop.deliver()
            first = job.attempts.get()
            assert first.native_id is not None
            bed.kill9("ctld")
            bed.start("ctld")
            stranger = sbatch(bed, "-p", "h100", "--gres=gpu:h100:1", "-J", "stranger")
            if stranger == first.native_id:
                break
            bed.run(["scancel", stranger])
            Attempt.objects.update(native_id=None, state="reserved")
            Message.objects.filter(kind="start_attempt").update(
                done_at=None, due_at=first.granted_at, sends=0
            )
        assert first is not None
        assert stranger == first.native_id, "no controller forgot what it had accepted"
        eventually(lambda: field(bed, stranger, "JobState") == "RUNNING")
        # Whatever is wanted of the old number: release, notice, stop, and a new attempt.
        loop.connector.release(first.key, stranger)
        loop.connector.notify(first.key, native_id=stranger)
        loop.connector.stop(first.key, native_id=stranger)
        loop.until(job, "succeeded", "failed")
        assert (job.state, job.attempt_number) == ("succeeded", 2)
        lost = job.attempts.get(number=1)
        assert (lost.outcome, lost.started_at, lost.release_sent_at) == ("lost", None, None)
        assert field(bed, stranger, "JobState") == "RUNNING"
        assert field(bed, stranger, "JobName") == "stranger"
        bed.run(["scancel", stranger])
    finally:
        rig.close()


def test_tricks_in_a_script_change_neither_account_nor_partition(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    script = (
        "#!/bin/bash\n#SBATCH -A root -p a100 --gres=gpu:a100:8 --uid=0\nTIDEGATE_PAYLOAD\n"
        "$(scontrol update jobid=$SLURM_JOB_ID account=root) `id`\necho done\n"
    )
    job = a_job(company.nlp, bob, company.pool, script=script, name="x\n#SBATCH -A root")
    loop.until(job, "succeeded", "failed")
    native_id = job.attempts.get().native_id
    assert job.state == "succeeded"
    assert native_id is not None
    told = [
        field(loop.rig.bed, native_id, name) for name in ("Account", "Partition", "TresPerNode")
    ]
    assert told == ["ai-company_research_nlp", "h100", "gres:gpu:h100:1"]
    assert loop.rig.log(job.attempts.get().key).splitlines()[-1] == "done"


# Clusters that do not answer, or not sensibly


class Babbler(http.server.BaseHTTPRequestHandler):
    """Answers every request with the same words, whatever is asked."""

    body = b""
    status = 200

    def do_GET(self) -> None:
        """The words."""
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def a_babbler(body: bytes, status: int = 200) -> Iterator[str]:
    """The address of somebody who is no slurmrestd."""
    handler = type("Handler", (Babbler,), {"body": body, "status": status})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_cluster_that_fails_says_how_and_no_other_is_slower(
    frail_bed: SlurmBed, tmp_path: Path
) -> None:
    """The real observer watches a Slurm to which one thing after the other happens, and a `local`
    cluster whose jobs are timed meanwhile."""
    rig = SlurmRig(frail_bed)
    company = a_company()
    slurm, here = company.cluster, a_cluster("here", seen_at=None)
    slurm.nodes.all().delete()
    Cluster.objects.filter(pk=slurm.pk).update(kind="slurm", options=rig.options, seen_at=None)
    here.options = {
        "root": str(tmp_path / "here"),
        "nodes": {"count": 4, "gpus": 8, "pool": "h100", "prefix": "node-"},
        "use_real_gpus": False,
    }
    here.save()
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    caller, root = by_token(bob), an_actor(None, Role.PLATFORM_ADMIN, "root")
    times: dict[str, list[float]] = {"usual": []}

    def run_a_job_here() -> None:
        began = time.monotonic()
        body = a_body(team="ai-company/research/nlp", cluster="here", script="exit 0")
        answer = caller.post("jobs", body)
        assert answer.status_code == 201, answer.content
        job = Job.objects.filter(pk=answer.json()["id"], state="succeeded")
        assert poll(job.exists, within_s=60, every_s=0.05)
        times[next(reversed(times))].append(round(time.monotonic() - began, 2))

    def page() -> tuple[str, str]:
        """What the cluster's page says to an administrator, and to others, without times."""
        slurm.refresh_from_db()
        plain = cluster_message(actor_of(bob), slurm, None)
        return cluster_message(root, slurm, None), plain.partition(" since")[0]

    def is_well() -> bool:
        return page() == ("", "")

    @contextmanager
    def options(**changes: object) -> Iterator[None]:
        Cluster.objects.filter(pk=slurm.pk).update(options={**rig.options, **changes})
        yield
        Cluster.objects.filter(pk=slurm.pk).update(options=rig.options)

    @contextmanager
    def babble(body: bytes, status: int = 200) -> Iterator[None]:
        with a_babbler(body, status) as url, options(url=url):
            yield

    @contextmanager
    def a_forger() -> Iterator[None]:
        path = str(rig.scratch / "forger")
        forger = Minter(b"x" * 32, path, Policy(frail_bed.service_user), [os.geteuid()])
        threading.Thread(target=forger.serve, daemon=True).start()
        with options(token_socket=path):
            yield
        forger.stop()

    refusal = json.dumps({"errors": [{"error_number": 7000, "error": "no database"}]}).encode()
    faults: dict[str, AbstractContextManager[None]] = {
        "slurmrestd is down": frail_bed.without("rest"),
        "slurmctld is down": frail_bed.without("ctld"),
        "slurmrestd hangs": frail_bed.frozen("rest"),
        "slurmctld hangs": frail_bed.frozen("ctld"),
        "a forged token": a_forger(),
        "no minter of ours": options(token_socket="/nowhere/minter"),
        "not JSON": babble(b"<html>Welcome</html>"),
        "errors and 200": babble(refusal),
        "not found": babble(b"{", 404),
        "an option is wrong": options(settle_s="soon"),
    }
    found: dict[str, tuple[str, str]] = {}
    with portal_processes(tmp_path / "processes.log") as processes:
        for role in ("arbiter", "observer"):
            processes.start(role)
        assert poll(lambda: is_well() and here.nodes.exists(), within_s=60)
        for _ in range(3):
            run_a_job_here()
        for name, fault in faults.items():
            times[name] = []
            with fault:
                deadline = time.monotonic() + 90
                while is_well() and time.monotonic() < deadline:
                    run_a_job_here()
                found[name] = page()
                run_a_job_here()
            assert poll(is_well, within_s=90), (name, page())
        # Without its accounting the cluster goes on; of an empty queue it could not tell whose.
        sbatch(frail_bed, "-p", "h100", "--hold")
        with frail_bed.without("dbd"):
            run_a_job_here()
            time.sleep(3)
            found["slurmdbd is down"] = page()
    rig.close()
    print(times)
    assert {plain for _, plain in found.values()} == {"Not reachable", ""}
    assert {name: words for name, (words, _) in found.items()} == SAID
    # Whatever hangs, hangs for 30 s or for good.
    assert max(seconds for each in times.values() for seconds in each) < max(times["usual"]) + 10


# Who may have tokens

_PROBE = """
import json, os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect(sys.argv[1])
    try:
        peer.sendall(b'{"user": "tidegate"}\\n')
    except BrokenPipeError:
        pass  # it hangs up on strangers
    print(json.loads(peer.makefile().readline()))
try:
    open(sys.argv[2]).read()
except PermissionError:
    print("no key")
"""


def test_another_user_than_the_observer_gets_neither_token_nor_key(slurm_rig: SlurmRig) -> None:
    """As docs/slurm.md wants the web workers: only the observer's uid is allowed to ask."""
    bed = slurm_rig.bed
    printed = bed.run(
        ["python3", "-c", _PROBE, slurm_rig.options["token_socket"], str(bed.jwt_key_file)]
    )
    assert printed.splitlines() == ["{'error': 'uid 65534 may not ask for tokens'}", "no key"]


def test_a_web_worker_reads_logs_without_minter_and_cluster(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, script="echo hello")
    loop.until(job, "succeeded", "failed")
    away = {"token_socket": "/nowhere/minter", "url": "http://127.0.0.1:1"}
    Cluster.objects.filter(pk=loop.cluster.pk).update(options={**loop.rig.options, **away})
    a_grant(bob, Role.RESEARCHER, company.nlp)
    answer = by_token(bob).get(f"jobs/{job.id}/logs")
    assert (answer.status_code, answer.json()["text"]) == (200, "hello\n")


def test_no_option_of_a_cluster_holds_the_key(slurm_rig: SlurmRig) -> None:
    for name in ("jwt_key", "jwt_key_file", "token"):
        with pytest.raises(ValueError, match=f"unknown options of a Slurm cluster: {name}"):
            open_connector("slurm", {**slurm_rig.options, name: "x"}, "any")
