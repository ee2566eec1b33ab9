"""The meter against the account of a real slurmdbd."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from billing.models import MeteredAttempt, UsageSegment
from billing.reconciliation_models import ReconciledAccount, Reconciliation, ReconciliationStatus
from billing.reconciliations import plan_days
from builders.connector_builders import eventually
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from builders.reconciled_loop import carry_out, ours, reconciled, seconds_of, sums
from builders.slurm_loop import SlurmLoop, let_in
from clusters.models import CapacitySegment
from conformance.rigs import BORROW_QOS, SlurmRig
from connectors.errors import ClusterUnavailable
from connectors.slurm.accounts import open_account
from jobs.execution import reconciling
from jobs.models import Job
from tenants.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slurm]


@pytest.fixture
def company() -> Company:
    # Whole days are compared: of what began before midnight the new day has but a part.
    eventually(lambda: datetime.now(UTC).strftime("%H:%M") < "23:58", deadline_s=150)
    company = a_company(f"ai-{datetime.now(UTC):%H%M%S%f}")
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(
    company: Company, slurm_rig: SlurmRig, bob: User, monkeypatch: pytest.MonkeyPatch
) -> SlurmLoop:
    """Accounts of its own, so that nobody else's runs are in them; compared up to now."""
    monkeypatch.setattr(reconciling, "LAG_S", 0)
    loop = SlurmLoop(company.cluster, slurm_rig)
    loop.let_in(bob, company.nlp, company.inference)
    loop.cluster.save()
    return loop


def until_on_account(loop: SlurmLoop, company: Company, jobs: int) -> Reconciliation:
    """Reconcile until slurmdbd has heard of `jobs` runs of the company; it takes seconds."""

    def look() -> Reconciliation | None:
        account = open_account(loop.connector)
        try:
            now = loop.clock.now()
            start = int((now - timedelta(hours=1)).timestamp())
            found = account.runs(start=start, end=int(now.timestamp()) + 5)
        except ClusterUnavailable:
            return None
        mine = [run for run in found.runs if run.account.startswith(company.organization.slug)]
        if len(mine) < jobs or any(run.ended_at is None for run in mine):
            return None
        row = reconciled(loop)
        return row if row.status in ("green", "red") else None

    return eventually(look)


def run_jobs(loop: SlurmLoop, company: Company, bob: User) -> list[Job]:
    jobs = [
        a_job(company.nlp, bob, company.pool, gpus=2, script="sleep 2"),
        a_job(company.nlp, bob, company.pool, gpus=4, nodes=2, script="sleep 1"),
        a_job(company.inference, bob, company.pool, gpus=1, script="sleep 1; exit 3"),
    ]
    for job in jobs:
        loop.until(job, "succeeded", "failed")
    return jobs


def a_native(loop: SlurmLoop, account: str, user: str, *, wait: bool = True) -> str:
    """A batch job that nobody gave to the portal, ended; its number."""
    words = ["sbatch", "--parsable", f"--uid={user}", f"--account={account}", f"--qos={BORROW_QOS}"]
    words += ["--partition=h100", "--gres=gpu:h100:1", "--chdir=/tmp", "--output=/dev/null"]
    words += ["--wait"] if wait else []
    return loop.rig.bed.run([*words, "--wrap", "sleep 1"]).split(";")[0].strip()


def test_ours_agree_to_the_second_and_a_stranger_is_named(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    run_jobs(loop, company, bob)
    stranger = loop.rig.bed.users[1]
    let_in(loop.rig.bed, f"{company.organization.slug}x", stranger)
    number = a_native(loop, f"{company.organization.slug}x", stranger)
    row = until_on_account(loop, company, 4)
    assert ours(row, company) == []
    metered, accounted = sums(row, company)
    assert metered == accounted > 0
    (foreign,) = row.accounts.filter(account=f"{company.organization.slug}x")
    (found,) = foreign.differences
    assert (foreign.team, foreign.is_green) == (None, True)
    assert (found["cause"], found["native_id"]) == ("native_unmapped", number)
    assert found["mgpu_s"] == foreign.accounted_mgpu_s > 0
    # Others may use the bed, but whatever they run is nobody's here.
    assert row.status == ReconciliationStatus.GREEN
    assert {item.is_green for item in row.accounts.all()} == {True}
    assert row.until is not None
    assert row.next_at == datetime.combine(
        row.day + timedelta(days=1), datetime.min.time(), UTC
    ) + timedelta(hours=1)


def test_planted_differences_are_attributed(loop: SlurmLoop, company: Company, bob: User) -> None:
    shortened, dropped, _ = run_jobs(loop, company, bob)
    segment = UsageSegment.objects.get(attempt_id=shortened.attempts.get().pk)
    assert segment.end is not None
    segment.end -= timedelta(seconds=1)
    segment.save()
    UsageSegment.objects.filter(attempt_id=dropped.attempts.get().pk).delete()
    row = until_on_account(loop, company, 3)
    assert ours(row, company) == [
        ("nlp", "only_in_account", 8_000 * seconds_of(dropped)),
        ("nlp", "end_differs", 2_000),
    ]
    assert row.status == ReconciliationStatus.RED
    (account,) = row.accounts.filter(team=company.nlp)
    assert [item["job"] for item in account.differences] == [str(dropped.pk), str(shortened.pk)]
    assert account.accounted_mgpu_s - account.metered_mgpu_s == sum(
        item["mgpu_s"] for item in account.differences
    )


def test_what_only_the_account_or_only_the_meter_has_is_attributed(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    """A job of a mapped user in a team's account that the meter never heard of, and an attempt
    that the cluster never had."""
    account = f"{company.organization.slug}_research_nlp"
    number = a_native(loop, account, loop.rig.bed.users[0])
    (job,) = [a_job(company.nlp, bob, company.pool, gpus=2, script="sleep 1")]
    loop.until(job, "succeeded", "failed")
    attempt = job.attempts.get()
    row = until_on_account(loop, company, 2)
    ((team, cause, amount),) = ours(row, company)
    assert (team, cause) == ("nlp", "only_in_account")
    assert amount > 0
    (found,) = ReconciledAccount.objects.get(reconciliation=row, account=account).differences
    assert (found["native_id"], found["job"]) == (number, None)
    # The cluster's account of an attempt that it never had.
    ghost = MeteredAttempt.objects.get(pk=attempt.pk)
    ghost.pk = attempt.job_id
    ghost.save(force_insert=True)
    UsageSegment.objects.create(
        attempt_id=ghost.pk,
        start=attempt.started_at,
        end=attempt.released_at,
        guaranteed_mgpu=2_000,
        borrowed_mgpu=0,
    )
    row = reconciled(loop)
    assert ("nlp", "only_in_meter", -2_000 * seconds_of(job)) in ours(row, company)


def test_yesterday_is_planned_once_it_is_settled_and_compared(
    loop: SlurmLoop, company: Company
) -> None:
    now = loop.clock.now()
    CapacitySegment.objects.filter(cluster=loop.cluster).delete()
    CapacitySegment.objects.create(
        cluster=loop.cluster,
        pool=company.pool,
        capacity_mgpu=1,
        start=now - timedelta(days=1, hours=1),
    )
    with loop.observer.fence():
        asked = plan_days(loop.cluster, now=now)
    assert asked >= 1
    assert carry_out(loop) == asked
    days = Reconciliation.objects.filter(cluster=loop.cluster)
    assert set(days.values_list("status", flat=True)) == {"green"}
    # Accounts may be changed later.
    assert all(row.next_at is not None and row.next_at > now for row in days)
    with loop.observer.fence():
        assert plan_days(loop.cluster, now=now) == 0


@pytest.mark.disturbs_slurm
def test_an_accounting_that_is_down_is_unavailable_and_asked_again(
    loop: SlurmLoop, eventually_up: Callable[[], None]
) -> None:
    with loop.rig.bed.without("dbd"):
        row = reconciled(loop)
        assert row.status == ReconciliationStatus.UNAVAILABLE
        assert (row.as_of, row.accounts.count()) == (None, 0)
        assert row.message
        assert row.next_at is not None
        assert row.next_at > loop.clock.now()
    eventually_up()
    # As if the half hour were over.
    Reconciliation.objects.update(next_at=loop.clock.now())
    with loop.observer.fence():
        assert plan_days(loop.cluster, now=loop.clock.now()) == 1
    assert carry_out(loop) >= 1
    row.refresh_from_db()
    assert row.status == ReconciliationStatus.GREEN
    assert row.as_of is not None


@pytest.fixture
def eventually_up(loop: SlurmLoop) -> Callable[[], None]:
    """Wait until the accounting answers and has heard everything."""

    def wait() -> None:
        def answers() -> bool:
            try:
                now = int(loop.clock.now().timestamp())
                open_account(loop.connector).runs(start=now - 60, end=now)
            except ClusterUnavailable:
                return False
            return True

        eventually(answers)

    return wait


def test_what_was_changed_in_slurm_is_metered_as_slurm_has_it(
    loop: SlurmLoop, company: Company, bob: User, slurm_rig: SlurmRig
) -> None:
    """It loses a node while it runs."""
    bed = slurm_rig.bed
    job = a_job(company.nlp, bob, company.pool, gpus=4, nodes=2, script="sleep 8")
    loop.until(job, "running")
    began = loop.clock.now()
    eventually(lambda: loop.turn() or loop.clock.now() - began > timedelta(seconds=2))
    bed.run(["scontrol", "update", f"jobid={job.attempts.get().native_id}", "numnodes=1"])
    loop.until(job, "succeeded", "failed")
    held = [
        segment.guaranteed_mgpu + segment.borrowed_mgpu
        for segment in UsageSegment.objects.filter(attempt=job.attempts.get().pk).order_by("start")
    ]
    # Its step does not outlive the node, so that it ends in that second or soon after.
    assert held[0] == 8000
    assert set(held) <= {8000, 4000}
    row = until_on_account(loop, company, 1)
    metered, accounted = sums(row, company)
    assert metered == accounted > 0
    assert ours(row, company) == []
