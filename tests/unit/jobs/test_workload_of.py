"""What a cluster is told of an attempt, beyond what other tests look at."""

from __future__ import annotations

import pytest
from django.db import IntegrityError

from batch.variables import job_number
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import a_company, a_user
from connectors.protocol import JobFiles
from jobs.execution.workloads import workload_of
from jobs.models import SIGNAL_AHEAD_S_MAX
from quotas.models import InstallationPolicy, OrganizationPolicy, PriorityClass

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_requeueable", [True, False])
def test_whether_it_may_be_queued_again(is_requeueable: bool) -> None:
    company = a_company()
    bob = a_user(company.organization, "bob")
    job = a_job(company, bob, is_requeueable=is_requeueable)
    attempt = an_attempt(job, cluster=company.cluster)
    assert workload_of(attempt).is_requeueable is is_requeueable


def test_a_batch_job_is_told_its_priority_class_as_qos() -> None:
    """Planted: the class of the default."""
    company = a_company()
    job = a_job(company, a_user(company.organization, "bob"), launch="batch")
    PriorityClass.objects.filter(pk=job.priority_class_id).update(name="urgent")
    job.refresh_from_db()
    found = workload_of(an_attempt(job, cluster=company.cluster)).batch
    assert found is not None
    assert found.qos == "urgent"


def test_the_notice_of_a_job_reaches_its_cluster() -> None:
    company = a_company()
    bob = a_user(company.organization, "bob")
    job = a_job(company, bob, notice_signal="USR1", signal_ahead_s=600, signals_shell_only=True)
    found = workload_of(an_attempt(job, cluster=company.cluster))
    assert (found.notice_signal, found.signal_ahead_s) == ("USR1", 600)
    assert found.signals_shell_only is True


@pytest.mark.parametrize(
    ("of_class", "of_organization", "of_installation", "grace_s"),
    [(45, 300, 86_400, 45), (400, 300, 86_400, 300), (400, 300, 20, 20)],
)
def test_the_grace_is_that_of_the_class_at_most_its_organizations(
    of_class: int, of_organization: int, of_installation: int, grace_s: int
) -> None:
    """The arbiter gives its victims the same. Planted: no grace set; it was 30 s always."""
    company = a_company()
    job = a_job(company, a_user(company.organization, "bob"))
    PriorityClass.objects.filter(pk=job.priority_class_id).update(grace_period_s=of_class)
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"grace_period_s": of_organization}
    )
    InstallationPolicy.objects.update_or_create(
        pk=1, defaults={"grace_period_s_max": of_installation}
    )
    assert workload_of(an_attempt(job, cluster=company.cluster)).grace_s == grace_s


@pytest.mark.parametrize("ahead_s", [-1, SIGNAL_AHEAD_S_MAX + 1])
def test_a_notice_is_at_most_a_day_ahead_of_the_limit(ahead_s: int) -> None:
    company = a_company()
    bob = a_user(company.organization, "bob")
    with pytest.raises(IntegrityError, match="job_notice_is_at_most_a_day_ahead"):
        a_job(company, bob, signal_ahead_s=ahead_s)


def test_the_files_of_a_job_reach_its_cluster_with_the_values_of_their_names() -> None:
    """Planted: the name of an array's task, which has its index in it."""
    company = a_company()
    bob = a_user(company.organization, "bob")
    named = {"folder": "/w", "output_file": "%x.out", "error_file": "e", "appends_output": True}
    job = a_job(company, bob, name="bert", **named)
    found = workload_of(an_attempt(job, cluster=company.cluster)).files
    number = str(job_number(job.id))
    assert found == JobFiles(
        folder="/w",
        output="%x.out",
        error="e",
        appends=True,
        values={"A": number, "a": "4294967294", "j": number, "x": "bert"},
    )
