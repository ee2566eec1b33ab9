"""The meter against the supervisors' records of real processes on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from billing.reconciliation_models import ReconciledAccount
from builders.connector_builders import eventually
from builders.loop_builders import Loop, a_job
from builders.portal_builders import Company, a_company, a_user
from builders.reconciled_loop import (
    FAULTS,
    OwnerConnection,
    drop,
    ours,
    reconciled,
    residual_mgpu_s,
    seconds_of,
    shift,
    sums,
)
from connectors.errors import ClusterUnavailable
from connectors.local.accounts import open_account
from connectors.local.attempt_files import write_json
from jobs.execution import reconciling
from jobs.models import Job
from tenants.models import Node

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def company() -> Company:
    # Whole days are compared: a run over midnight would be in two of them.
    eventually(lambda: datetime.now(UTC).strftime("%H:%M") < "23:58", deadline_s=150)
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def loop(company: Company, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    """A cluster of real processes, which is compared up to now."""
    monkeypatch.setattr(reconciling, "LAG_S", 0)
    return Loop(company.cluster, tmp_path)


def run_jobs(loop: Loop, company: Company) -> tuple[Job, Job]:
    """Run a job of nlp on two nodes, and one of inference that fails, to their ends."""
    bob = a_user(company.organization, "bob")
    jobs = (
        a_job(company.nlp, bob, company.pool, gpus=4, nodes=2, script="sleep 2"),
        a_job(company.inference, bob, company.pool, gpus=1, script="sleep 2; exit 3"),
    )
    for job in jobs:
        loop.until(job, "succeeded", "failed")
    # The second that is compared last must be over, also where a meter is a second late.
    ends = max(job.attempts.get().released_at for job in jobs) + timedelta(seconds=1)
    eventually(lambda: loop.clock.now() >= ends)
    return jobs


def test_the_records_of_real_processes_agree_to_the_second(loop: Loop, company: Company) -> None:
    """Also once an attempt was forgotten on the machine, and while another runs.

    Planted: forgotten attempts without their mark; the end of the leader instead of the release."""
    done, failed = run_jobs(loop, company)
    used = 8_000 * seconds_of(done) + 1_000 * seconds_of(failed)
    loop.connector.forget(done.attempts.get().key)
    running = a_job(
        company.nlp, done.user, company.pool, gpus=2, script="while :; do sleep 0.1; done"
    )
    loop.until(running, "running")
    row = reconciled(loop)
    assert (row.status, ours(row, company), row.message) == ("green", [], "")
    metered, accounted = sums(row, company)
    assert metered == accounted >= used
    assert {account.account for account in row.accounts.all()} >= {
        "ai-company/production/inference"
    }
    loop.connector.stop(running.attempts.get().key)
    loop.until(running, "failed", "cancelled", "queued", "lost")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_meter_is_found_and_classed(
    loop: Loop,
    company: Company,
    owner_connection: OwnerConnection,
    fault: Callable[[Job, Node, OwnerConnection], None],
) -> None:
    job, _ = run_jobs(loop, company)
    fault(job, company.inference, owner_connection)
    row = reconciled(loop)
    each_s = 1 if fault is shift else seconds_of(job)
    expected = [(team, cause, sign * 8_000 * each_s) for team, cause, sign in FAULTS[fault]]
    assert row.status == "red"
    assert sorted(ours(row, company)) == sorted(expected)
    assert residual_mgpu_s(row) == 0
    named = {
        item["job"]
        for account in ReconciledAccount.objects.filter(reconciliation=row)
        for item in account.differences
    }
    assert named == {str(job.pk)}


def test_a_record_that_was_changed_after_a_green_day_is_an_account_that_changed(
    loop: Loop, company: Company, owner_connection: OwnerConnection
) -> None:
    """Somebody edited the end of a run; the meter of another one lost its use.

    Planted: the day's agreement not read."""
    job, other = run_jobs(loop, company)
    row = reconciled(loop)
    assert (row.status, row.green_at) == ("green", None)
    # As if the day were over.
    type(row).objects.update(green_at=loop.clock.now())
    path = loop_root(loop) / "attempts" / job.attempts.get().key / "end.json"
    end = json.loads(path.read_text())
    write_json(str(path), {**end, "released_at": end["released_at"] - 1})
    drop(other, company.nlp, owner_connection)
    row = reconciled(loop)
    assert ours(row, company) == [
        ("inference", "only_in_account", 1_000 * seconds_of(other)),
        ("nlp", "account_changed", -8_000),
    ]
    assert residual_mgpu_s(row) == 0


def loop_root(loop: Loop) -> Path:
    """The folder of the loop's cluster."""
    return Path(loop.cluster.options["root"])


def test_an_unreadable_record_is_a_run_that_is_missing(
    loop: Loop, company: Company, caplog: pytest.LogCaptureFixture
) -> None:
    """Planted: the whole day unavailable because of one file."""
    job, _ = run_jobs(loop, company)
    (loop_root(loop) / "attempts" / job.attempts.get().key / "end.json").write_text("{")
    row = reconciled(loop)
    assert ours(row, company) == [("nlp", "only_in_meter", -8_000 * seconds_of(job))]
    assert "end.json is not valid JSON" in caplog.text


def test_a_folder_of_another_cluster_is_no_account(loop: Loop, company: Company) -> None:
    """Planted: records of another installation read as ours."""
    (loop_root(loop) / "cluster").write_text("another")
    with pytest.raises(ClusterUnavailable):
        open_account(loop.connector).runs(start=0, end=1 << 40)
    row = reconciled(loop)
    assert row.status == "unavailable"
