"""Many equal submissions at once: one job, one answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connections

from builders.api_callers import Caller, by_token
from builders.job_builders import a_body
from builders.portal_builders import a_company, a_grant, a_user
from jobs.models import Job
from tenants.roles import Role
from webapi.models import IdempotentAnswer

PARALLEL = 50


@pytest.mark.django_db(transaction=True)
def test_fifty_equal_requests_make_one_job() -> None:
    company = a_company()
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    headers = by_token(bob).headers
    together = Barrier(PARALLEL, timeout=60)

    def submit(_: int) -> tuple[int, str]:
        try:
            together.wait()
            answer = Caller(headers).post("jobs", a_body(), Idempotency_Key="one")
            return answer.status_code, answer.content.decode()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(PARALLEL) as pool:
        answers = list(pool.map(submit, range(PARALLEL)))
    assert {status for status, _ in answers} == {201}
    job = Job.objects.get()
    assert {f'"id":"{job.pk}"' in body for _, body in answers} == {True}
    assert IdempotentAnswer.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_without_a_key_every_request_makes_a_job() -> None:
    """The control: what the test above counts is not one by accident."""
    company = a_company()
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    headers = by_token(bob).headers

    def submit(_: int) -> int:
        try:
            return int(Caller(headers).post("jobs", a_body()).status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(submit, range(8))) == [201] * 8
    assert Job.objects.count() == 8
