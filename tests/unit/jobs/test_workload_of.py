"""What a cluster is told of an attempt, beyond what other tests look at."""

from __future__ import annotations

import pytest

from builders.job_builders import a_job, an_attempt
from builders.portal_builders import a_company, a_user
from jobs.execution.workloads import workload_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_requeueable", [True, False])
def test_whether_it_may_be_queued_again(is_requeueable: bool) -> None:
    company = a_company()
    bob = a_user(company.organization, "bob")
    job = a_job(company, bob, is_requeueable=is_requeueable)
    attempt = an_attempt(job, cluster=company.cluster)
    assert workload_of(attempt).is_requeueable is is_requeueable
