"""The database's constraints on the attempts of a job."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, a_company, a_user
from jobs.models import Attempt

pytestmark = pytest.mark.django_db


def test_a_job_has_one_attempt_that_holds_gpus() -> None:
    company = a_company()
    job = a_job(company, a_user(company.organization, "bob"), state="running")
    an_attempt(job, cluster=company.cluster)
    with (
        pytest.raises(IntegrityError, match="job_has_one_attempt_that_holds_gpus"),
        transaction.atomic(),
    ):
        an_attempt(job, cluster=company.cluster, number=2)
    ended = NOW + timedelta(seconds=1)
    Attempt.objects.update(
        state="ended", outcome="succeeded", started_at=NOW, ended_at=ended, released_at=ended
    )
    an_attempt(job, cluster=company.cluster, number=2)
    assert list(Attempt.objects.order_by("number").values_list("number", "released_at")) == [
        (1, ended),
        (2, None),
    ]
