"""`sbatch` beside the portal on a real Slurm: in use, billed, given back, cancelled, outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from billing.models import UsageSegment
from billing.periods import Period
from budgets.evaluation import evaluate
from budgets.models import BudgetState
from builders.budget_builders import a_budget
from builders.chargeback_builders import report_of
from builders.connector_builders import eventually
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_grant, a_user
from builders.slurm_loop import SlurmLoop, let_in
from clusters.models import ClusterNode
from clusters.outside import OutsideUse, record_outside_use
from conformance.rigs import SlurmRig
from connectors.accounts import AccountedRun
from connectors.errors import ClusterUnavailable
from connectors.natives import NativeControl, NativeRef
from connectors.protocol import NativeWorkload
from connectors.slurm.accounts import open_account
from connectors.slurm.naming import guaranteed_qos
from connectors.slurm.natives import control_natives
from jobs.actions.cancellation import cancel_job
from jobs.execution.strays import add_strays, find_strays
from jobs.models import Attempt, Job, JobOrigin
from jobs.natives.natives import apply_natives
from primitives.clock import from_epoch
from quotas.models import PriorityClass, Quota
from slurm_bed import SlurmBed
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slurm]

#: Of the bed's users, whom no other test of this kind uses.
MAPPED, UNMAPPED = 5, 6
#: Of each worker of a run its own: what anybody submits to its accounts is a native job for all.
COMPANY = f"native-co-{os.environ.get('PYTEST_XDIST_WORKER', 'gw0')}"
NLP, INFERENCE = f"{COMPANY}_research_nlp", f"{COMPANY}_production_inference"
POLITE = "trap 'exit 0' TERM; sleep 1000 & wait"


class NativeLoop(SlurmLoop):
    """The loop that also looks at what was submitted beside the portal."""

    outside: OutsideUse

    def observe(self) -> int:
        changed = super().observe()
        connector = self.connector
        control = control_natives(connector)
        listing = connector.observe()
        found = find_strays(self.cluster, listing, self.observer)  # type: ignore[arg-type]
        self.outside = apply_natives(
            self.cluster,
            found.among_natives(listing),
            control=control,
            previous_at=self.listed_at,
            leadership=self.observer,  # type: ignore[arg-type]
            now=self.clock.now(),
        )
        self.complaints: list[str] = []
        self.outside = add_strays(
            self.outside,
            found.strays,
            control=control,
            complain=self.complaints.append,
        )
        self.listed_at = from_epoch(listing.observed_at)
        record_outside_use(self.cluster, self.outside)
        return changed


class Sbatch:
    """Submits as a UNIX user of the bed, and takes away what it left."""

    def __init__(self, bed: SlurmBed) -> None:
        self._bed = bed
        self._left: list[str] = []

    def __call__(self, user: str, account: str, *options: str, script: str = POLITE) -> str:
        """The job's number."""
        options = (f"--account={account}", f"--qos={guaranteed_qos(account, 'g-')}", *options)
        command = ["runuser", "-u", user, "--", "sbatch", "--parsable", *options]
        done = subprocess.run(
            [*command, "--partition=h100", "--time=10", "--output=/dev/null", "--chdir=/tmp"],
            env={"PATH": "/usr/bin:/bin:/usr/sbin", "SLURM_CONF": str(self._bed.slurm_conf)},
            input=f"#!/bin/bash\n{script}\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        number = done.stdout.strip().partition(";")[0]
        self._left.append(number)
        return number

    def end(self, *numbers: str) -> None:
        """Cancel the jobs and wait until none has a node."""
        if not (numbers := numbers or tuple(self._left)):
            return
        self._bed.run(["scancel", *numbers])
        asked = ["squeue", "-h", "-t", "R,CG,PD,S", "-o", "%i"]
        eventually(
            lambda: not set(numbers) & set(self._bed.run(asked).split()),
        )


@pytest.fixture
def company() -> Company:
    """A company that no test beside this one has: the jobs of its accounts are this test's."""
    company = a_company(COMPANY)
    company.cluster.nodes.all().delete()
    PriorityClass.objects.update(grace_period_s=2)
    # The bed has more than the company's, and other tests are on it.
    Quota.objects.filter(node=company.organization).update(borrow_limit_mgpu=0)
    return company


@pytest.fixture
def mia(company: Company) -> User:
    return a_user(company.organization, "mia")


@pytest.fixture
def unix(slurm_bed: SlurmBed) -> str:
    return slurm_bed.users[MAPPED]


@pytest.fixture
def loop(company: Company, slurm_rig: SlurmRig, mia: User, unix: str) -> NativeLoop:
    loop = NativeLoop(company.cluster, slurm_rig)
    loop.let_in(mia, company.nlp, company.inference, name=unix)
    loop.observe()
    return loop


@pytest.fixture
def sbatch(slurm_bed: SlurmBed) -> Sbatch:
    return Sbatch(slurm_bed)


@pytest.fixture(autouse=True)
def _nothing_left(sbatch: Sbatch) -> object:
    yield
    sbatch.end()


def found(loop: NativeLoop, number: str) -> Job:
    """The native job of this number, as soon as the portal counts it."""

    def look() -> Job | None:
        loop.turn()
        return Job.objects.filter(attempts__native_id=number).first()

    return eventually(look)


def let_seconds_pass(loop: NativeLoop) -> None:
    """So that what begins and ends has a length in whole seconds."""
    began = loop.clock.now()
    until(loop, lambda: loop.clock.now() - began > timedelta(seconds=2))


def until(loop: NativeLoop, condition: Callable[[], bool]) -> None:
    def look() -> bool:
        loop.turn()
        return condition()

    eventually(look)


def test_a_used_up_budget_counts_a_native_job_and_cannot_hold_it(
    loop: NativeLoop, company: Company, mia: User, unix: str, sbatch: Sbatch
) -> None:
    """Its limit is a milli-GPU-second. Against: natives left out of holds or of use."""
    budget = a_budget(company.nlp, limit=1)
    number = sbatch(unix, NLP, "--gres=gpu:h100:2")
    job = loop.until(found(loop, number), "running")
    evaluate(company.organization.pk, loop.clock.now())
    held_mgpu_s = BudgetState.objects.get(budget=budget).on_hold
    # A part of its limit of ten minutes is used already.
    assert 2_000 * 500 < held_mgpu_s <= 2_000 * 600
    own = a_job(company.nlp, mia, company.pool)
    loop.cycle()
    own.refresh_from_db()
    assert own.explanation is not None
    assert own.explanation["code"] == "budget_exhausted"
    let_seconds_pass(loop)
    sbatch.end(number)
    loop.until(job, "cancelled", "failed", "succeeded")
    evaluate(company.organization.pk, loop.clock.now())
    segment = UsageSegment.objects.get(attempt__job_id=job.pk)
    assert segment.end is not None
    used_s = int((segment.end - segment.start).total_seconds())
    state = BudgetState.objects.get(budget=budget)
    assert (state.used, state.on_hold) == (2_000 * used_s, 0)
    assert used_s > 0


def test_a_native_job_is_in_use_and_billed(
    loop: NativeLoop, company: Company, mia: User, unix: str, sbatch: Sbatch
) -> None:
    number = sbatch(unix, NLP, "--gres=gpu:h100:4", "--nodes=2", "--job-name=own")
    job = found(loop, number)
    assert (job.name, job.team, job.user, job.origin) == ("own", company.nlp, mia, JobOrigin.NATIVE)
    assert (job.mgpu_per_node, job.node_count, job.time_limit_s) == (4000, 2, 600)
    attempt = job.attempts.get()
    known = set(ClusterNode.objects.values_list("name", flat=True))
    assert {slot["node"] for slot in attempt.slots} <= known
    assert (attempt.mgpu, attempt.guaranteed_mgpu, attempt.cluster_user) == (8000, 8000, unix)
    assert attempt.started_at is not None
    enough = attempt.started_at + timedelta(seconds=3)
    until(loop, lambda: loop.clock.now() > enough)
    lead = a_user(company.organization, "lead")
    a_grant(lead, Role.TEAM_LEAD, company.nlp)
    cancel_job(job.id, actor=actor_of(lead), now=loop.clock.now())
    loop.until(job, "cancelled", "failed", "succeeded")
    assert (job.state, job.end_reason) == ("cancelled", "cancelled_by_user")
    attempt.refresh_from_db()
    assert attempt.released_at is not None
    asked = ["sacct", "-nPX", "-j", number, "-o", "Start,End", "--units=K"]
    # The accounting hears of a start and of an end after the controller has said them.
    told = eventually(lambda: (now := loop.rig.bed.run(asked)) and "Unknown" not in now and now)
    start, end = told.strip().split("|")
    assert (attempt.started_at.strftime("%FT%T"), attempt.released_at.strftime("%FT%T")) == (
        start,
        end,
    )
    segment = UsageSegment.objects.get(attempt_id=attempt.id)
    assert (segment.start, segment.end) == (attempt.started_at, attempt.released_at)
    finance = a_user(company.organization, "finance")
    a_grant(finance, Role.FINANCE, company.organization)
    now = loop.clock.now()
    report = report_of(
        actor_of(finance), Period(now - timedelta(hours=1), now + timedelta(seconds=1), now)
    )
    held_s = (attempt.released_at - attempt.started_at).total_seconds()
    assert report.totals.guaranteed_mgpu_s == 8000 * held_s
    assert [row.keys[0] for row in report.rows] == [company.nlp.display_path]


def test_what_a_native_job_borrows_comes_back(
    loop: NativeLoop, company: Company, mia: User, unix: str, sbatch: Sbatch
) -> None:
    """Inference runs natively on all 32 GPUs; nlp submits to the portal and gets its 8."""
    numbers = [sbatch(unix, INFERENCE, "--gres=gpu:h100:8") for _ in range(4)]
    lent = [found(loop, number) for number in numbers]
    until(
        loop,
        lambda: (
            sorted(Attempt.objects.values_list("guaranteed_mgpu", flat=True)) == [0, 0, 8000, 8000]
        ),
    )
    wanted = a_job(company.nlp, mia, company.pool, gpus=8, script="sleep 1")
    loop.until(wanted, "succeeded", "failed")
    assert wanted.state == "succeeded"
    victims = Attempt.objects.filter(stop_reason="preempted").select_related("job")
    (victim,) = victims
    assert (victim.job.state, victim.job.end_reason) == ("failed", "preempted")
    assert victim.guaranteed_mgpu == 0
    for job in lent:
        job.refresh_from_db()
    assert sorted(job.state for job in lent) == ["failed", "running", "running", "running"]


def test_one_that_will_not_go_is_ended_by_force(
    loop: NativeLoop, company: Company, mia: User, unix: str, sbatch: Sbatch
) -> None:
    stubborn = "trap '' TERM; for i in $(seq 1000); do sleep 1; done"
    number = sbatch(unix, NLP, "--gres=gpu:h100:1", script=stubborn)
    job = found(loop, number)
    cancel_job(job.id, actor=actor_of(mia), now=loop.clock.now())
    loop.deliver()
    Attempt.objects.update(grace_until=loop.clock.now())
    loop.until(job, "cancelled", "failed", "succeeded")
    attempt = job.attempts.get()
    assert (job.state, attempt.outcome, attempt.forced_at is None) == (
        "cancelled",
        "stopped",
        False,
    )


def test_unmapped_users_take_capacity_away(
    loop: NativeLoop, company: Company, slurm_bed: SlurmBed, sbatch: Sbatch
) -> None:
    stranger = slurm_bed.users[UNMAPPED]
    let_in(slurm_bed, f"{COMPANY}/research/nlp", stranger)
    number = sbatch(stranger, NLP, "--gres=gpu:h100:3")

    def held() -> int:
        loop.turn()
        return sum(
            holder.mgpu
            for holder in loop.outside.holders
            if (holder.account, holder.user) == (NLP, stranger)
        )

    eventually(lambda: held() == 3000)
    node = slurm_bed.run(["squeue", "-h", "-j", number, "-o", "%N"]).strip()
    stored = ClusterNode.objects.get(name=node)
    assert stored.outside_mgpu >= 3000
    assert Job.objects.count() == 0
    sbatch.end(number)
    eventually(lambda: held() == 0)


def test_a_number_is_acted_on_only_for_whom_it_was_meant(
    loop: NativeLoop, unix: str, sbatch: Sbatch
) -> None:
    """Another user or another submit time: some other job has the number."""
    number = sbatch(unix, NLP, "--gres=gpu:h100:1")
    job = found(loop, number)
    control = control_natives(loop.connector)
    submitted_at = int(job.submitted_at.timestamp())
    others = (
        NativeRef(number, submitted_at, "tg-somebody"),
        NativeRef(number, submitted_at - 1, unix),
        NativeRef("not-a-number", submitted_at, unix),
    )
    for wrong in others:
        control.notify(wrong)
        control.stop(wrong)
    state = loop.rig.bed.run(["squeue", "-h", "-j", number, "-o", "%T"]).strip()
    assert state == "RUNNING"
    right = NativeRef(number, submitted_at, unix)
    control.stop(right)
    loop.until(job, "cancelled")
    ended = eventually(lambda: _accounted(loop, right))
    assert ended.is_released
    assert job.ended_at is not None
    assert ended.ended_at == int(job.ended_at.timestamp())
    assert eventually(lambda: _are_unknown(control, others))


def _are_unknown(control: NativeControl, refs: Sequence[NativeRef]) -> bool:
    """False while the accounting is late: other tests write to it, too."""
    try:
        found = [control.find_ended(ref) for ref in refs]
    except ClusterUnavailable:
        return False
    assert found == [None] * len(refs)
    return True


def _accounted(loop: NativeLoop, ref: NativeRef) -> NativeWorkload | None:
    control = control_natives(loop.connector)
    try:
        return control.find_ended(ref)
    except ClusterUnavailable:
        return None


def test_a_job_that_slurm_requeues_is_a_job_for_each_run(
    loop: NativeLoop, unix: str, sbatch: Sbatch
) -> None:
    number = sbatch(
        unix,
        NLP,
        "--gres=gpu:h100:1",
        "--requeue",
        script="sleep 900",
    )
    first = found(loop, number)
    loop.rig.bed.run(["scontrol", "requeue", number])
    loop.until(first, "failed", "cancelled", "succeeded")
    assert (first.state, first.end_reason) == ("failed", "preempted")
    until(loop, lambda: Job.objects.count() == 2)
    second = Job.objects.exclude(pk=first.pk).get()
    assert (second.state, second.submitted_at > first.submitted_at) == ("running", True)
    attempts = list(Attempt.objects.order_by("started_at"))
    assert [attempt.native_id for attempt in attempts] == [number, number]
    assert attempts[0].released_at is not None
    assert attempts[1].started_at is not None
    assert attempts[0].released_at <= attempts[1].started_at


def test_a_job_under_the_name_of_an_attempt_is_its_user_s_own(
    loop: NativeLoop, company: Company, mia: User, unix: str, sbatch: Sbatch
) -> None:
    job = a_job(company.nlp, mia, company.pool, gpus=2, script="sleep 2")
    loop.until(job, "succeeded")
    attempt = job.attempts.get()
    name = loop.rig.bed.run(["squeue", "-h", "-t", "all", "-j", attempt.native_id, "-o", "%j"])
    copy = sbatch(unix, NLP, "--gres=gpu:h100:3", f"--job-name={name.strip()}")
    own = found(loop, copy)
    assert (own.name, own.team, own.user, own.origin) == (
        *(attempt.key, company.nlp, mia),
        JobOrigin.NATIVE,
    )
    taken_up = own.attempts.get()
    assert (taken_up.mgpu, taken_up.native_id) == (3000, copy)
    # Others may use the cluster meanwhile.
    holders = [one for one in loop.outside.holders if (one.account, one.user) == (NLP, unix)]
    assert holders == []
    assert [told for told in loop.complaints if copy in told] == []
    let_seconds_pass(loop)
    sbatch.end(copy)
    loop.until(own, "cancelled")
    taken_up.refresh_from_db()
    segment = UsageSegment.objects.get(attempt_id=taken_up.id)
    assert (segment.start, segment.end) == (taken_up.started_at, taken_up.released_at)
    attempt.refresh_from_db()
    assert UsageSegment.objects.get(attempt_id=attempt.id).end == attempt.released_at


def test_an_ended_attempt_that_slurm_begins_anew_is_stopped(
    loop: NativeLoop, company: Company, mia: User, sbatch: Sbatch
) -> None:
    go = loop.rig.scratch / "go"
    script = f"while ! [ -e {go} ]; do sleep 0.1; done"
    job = a_job(company.nlp, mia, company.pool, gpus=2, script=script)
    loop.until(job, "running")
    number = job.attempts.get().native_id
    bed = loop.rig.bed
    bed.run(["scontrol", "update", f"jobid={number}", "requeue=1"])
    go.touch()
    loop.until(job, "succeeded")
    go.unlink()
    bed.run(["scontrol", "requeue", number])
    state = ["squeue", "-h", "-t", "all", "-j", number, "-o", "%T"]
    assert bed.run(state).strip() in ("PENDING", "COMPLETING", "RUNNING")
    until(loop, lambda: bed.run(state).strip() == "CANCELLED")
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == ("succeeded", 1)


def test_a_native_that_gives_a_node_back_is_charged_for_what_it_has(
    loop: NativeLoop, unix: str, sbatch: Sbatch, slurm_bed: SlurmBed
) -> None:
    number = sbatch(unix, NLP, "--nodes=2", "--gres=gpu:h100:2")
    found(loop, number)
    began = int(loop.clock.now().timestamp()) - 120
    let_seconds_pass(loop)
    slurm_bed.run(["scontrol", "update", f"jobid={number}", "numnodes=1"])
    until(loop, lambda: Attempt.objects.get().mgpu == 2000)
    let_seconds_pass(loop)
    assert [slot["mgpu"] for slot in Attempt.objects.get().slots] == [2000]
    sbatch.end(number)
    until(loop, lambda: Attempt.objects.get().released_at is not None)
    first, second = UsageSegment.objects.order_by("start")
    assert first.guaranteed_mgpu + first.borrowed_mgpu == 4000
    assert second.guaranteed_mgpu + second.borrowed_mgpu == 2000

    def on_account() -> AccountedRun | None:
        try:
            account = open_account(loop.connector)
            runs = account.runs(start=began, end=int(loop.clock.now().timestamp()) + 5).runs
        except ClusterUnavailable:
            return None
        return next((r for r in runs if r.native_id == number and r.ended_at is not None), None)

    run = eventually(on_account)
    assert second.end is not None
    times = [int(moment.timestamp()) for moment in (first.start, second.start, second.end)]
    assert (run.started_at, run.before, run.ended_at) == (times[0], ((times[1], 4000),), times[2])
    assert (run.mgpu, run.submitted_at) == (2000, int(Job.objects.get().submitted_at.timestamp()))
