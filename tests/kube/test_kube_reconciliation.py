"""The meter against the objects that a real Kubernetes has of ended attempts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from billing.models import UsageSegment
from builders.connector_builders import eventually
from builders.kube_loop import KubernetesLoop
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from builders.reconciled_loop import (
    FAULTS,
    OwnerConnection,
    ours,
    reconciled,
    residual_mgpu_s,
    seconds_of,
    shift,
    sums,
)
from conformance.rigs import KubernetesRig
from connectors.kubernetes.accounts import open_account
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import JOB, POD
from jobs.actions.cancellation import cancel_job
from jobs.execution import reconciling
from jobs.models import Job
from quotas.models import PriorityClass
from tenants.access import actor_of
from tenants.models import Node, User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.kube]


@pytest.fixture
def company() -> Company:
    # Whole days are compared: a run over midnight would be in two of them.
    eventually(lambda: datetime.now(UTC).strftime("%H:%M") < "23:56", deadline_s=250)
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(
    company: Company, kubernetes_rig: KubernetesRig, monkeypatch: pytest.MonkeyPatch
) -> KubernetesLoop:
    """A part of the cluster, which is compared up to now."""
    monkeypatch.setattr(reconciling, "LAG_S", 0)
    return KubernetesLoop(company.cluster, kubernetes_rig, company.nlp, company.inference)


def until_over(loop: KubernetesLoop, *jobs: Job) -> None:
    """Wait until the last second of the jobs is over, by the clock of the cluster."""
    ends = [job.attempts.get().released_at for job in jobs]
    eventually(lambda: all(loop.clock.now() > end for end in ends if end is not None))


def pods_of(loop: KubernetesLoop, company: Company, *jobs: Job) -> list[str]:
    """The paths of the Pods that the cluster has of jobs of nlp."""
    keys = {job.attempts.get().key for job in jobs}
    namespace = naming.team_namespace(company.nlp.path.rstrip("/"))
    return [
        POD.path(namespace, pod["metadata"]["name"])
        for pod in loop.rig.admin.list(POD.collection(namespace)).items
        if naming.key_of(pod, loop.rig.cluster_id) in keys
    ]


def test_the_objects_of_the_cluster_agree_to_the_second(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """A gang that succeeds, a job that fails, and one that is stopped after its grace. Later the
    Pods are gone, as after a collection of garbage, and only ranges are left.

    Planted: the time of admission for the start; the eviction for the end of deleted Pods; exact
    times where Pods are gone."""
    PriorityClass.objects.update(grace_period_s=2)
    done = a_job(company.nlp, bob, company.pool, gpus=4, nodes=2, script="sleep 2")
    failed = a_job(company.inference, bob, company.pool, gpus=1, script="sleep 2; exit 3")
    stopped = a_job(
        company.nlp, bob, company.pool, gpus=2, script="trap : TERM; while :; do sleep 0.1; done"
    )
    loop.until(stopped, "running")
    loop.until(done, "succeeded")
    loop.until(failed, "failed")
    cancel_job(stopped.pk, actor=actor_of(bob), now=loop.clock.now())
    loop.until(stopped, "cancelled")
    until_over(loop, done, failed, stopped)
    used = 8_000 * seconds_of(done) + 1_000 * seconds_of(failed) + 2_000 * seconds_of(stopped)
    row = reconciled(loop)
    assert (row.status, row.message, ours(row, company)) == ("green", "", [])
    assert sums(row, company) == (used, used)
    for path in pods_of(loop, company, done, stopped):
        loop.rig.admin.delete(path)
    eventually(lambda: not pods_of(loop, company, done, stopped))
    row = reconciled(loop)
    assert (row.status, ours(row, company)) == ("green", [])
    assert sums(row, company) == (used, used)
    keys = {job.attempts.get().key for job in (done, stopped)}
    runs = open_account(loop.connector).runs(start=0, end=1 << 40).runs
    assert all((run.started_by is None) == (run.key not in keys) for run in runs)
    # Outside of the range it is a difference.
    (run,) = [run for run in runs if run.key == done.attempts.get().key]
    UsageSegment.objects.filter(attempt_id=done.attempts.get().pk).update(
        start=datetime.fromtimestamp(run.started_at - 10, UTC)
    )
    assert ours(reconciled(loop), company) == [("nlp", "start_differs", -80_000)]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_meter_is_found_and_classed(
    loop: KubernetesLoop,
    company: Company,
    bob: User,
    owner_connection: OwnerConnection,
    fault: Callable[[Job, Node, OwnerConnection], None],
) -> None:
    job = a_job(company.nlp, bob, company.pool, gpus=4, nodes=2, script="sleep 2")
    loop.until(job, "succeeded")
    until_over(loop, job)
    fault(job, company.inference, owner_connection)
    row = reconciled(loop)
    each_s = 1 if fault is shift else seconds_of(job)
    expected = [(team, cause, sign * 8_000 * each_s) for team, cause, sign in FAULTS[fault]]
    assert row.status == "red"
    assert sorted(ours(row, company)) == sorted(expected)
    assert residual_mgpu_s(row) == 0


def test_a_job_that_never_began_is_no_run(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """It is stopped after its admission, and nothing says whether a Pod of it began.

    Planted: every admission counted as a run."""
    job = a_job(company.nlp, bob, company.pool, gpus=2, script="sleep 60")
    loop.until(job, "running")
    cancel_job(job.pk, actor=actor_of(bob), now=loop.clock.now())
    loop.connector.stop(job.attempts.get().key)
    loop.until(job, "cancelled")
    eventually(lambda: not pods_of(loop, company, job))
    UsageSegment.objects.filter(attempt_id=job.attempts.get().pk).delete()
    assert ours(reconciled(loop), company) == []


def test_an_object_that_somebody_deleted_is_only_in_the_meter(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """The cluster no longer proves the run; that is red until a person says why."""
    job = a_job(company.nlp, bob, company.pool, gpus=4, script="sleep 2")
    loop.until(job, "succeeded")
    attempt = job.attempts.get()
    namespace = naming.team_namespace(company.nlp.path.rstrip("/"))
    loop.rig.admin.delete(JOB.path(namespace, naming.workload_name(attempt.key)))
    eventually(
        lambda: (
            attempt.key
            not in {run.key for run in open_account(loop.connector).runs(start=0, end=1 << 40).runs}
        )
    )
    row = reconciled(loop)
    assert row.status == "red"
    assert ours(row, company) == [("nlp", "only_in_meter", -4_000 * seconds_of(job))]
