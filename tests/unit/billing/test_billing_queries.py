"""What the jobs package asks of the meter."""

from __future__ import annotations

from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

from billing.queries import USAGE_OF_JOB, present_cost
from builders.billing_builders import a_metered_attempt, a_rate_card, at
from builders.portal_builders import a_company
from webapi.statements import prepared_cursor

pytestmark = pytest.mark.django_db


def test_usage_of_jobs_over_all_their_attempts_until_now() -> None:
    company = a_company()
    job_id, waiting = uuid7(), uuid7()
    a_metered_attempt(company.nlp, 0, 10, job_id=job_id, mgpu=1_000)
    a_metered_attempt(
        company.nlp, 20, None, job_id=job_id, number=2, mgpu=1_000, classes=[(30, 400)]
    )
    a_metered_attempt(company.nlp, 0, 10)

    def usage(job: UUID, second: int) -> list[int] | None:
        with prepared_cursor() as cursor:
            cursor.execute(
                f"SELECT {USAGE_OF_JOB.format(job='%(job)s::uuid')}",
                {"job": job, "now": at(second)},
            )
            (found,) = cursor.fetchone()
        return found

    assert usage(job_id, 40) == [10_000 + 10_000 + 4_000, 6_000]
    assert usage(job_id, 5) == [5_000, 0]
    assert usage(job_id, 0) is None
    assert usage(waiting, 40) is None


def test_the_cost_of_an_hour_at_the_prices_of_now() -> None:
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 2_000_000_000}, start=0, end=100)
    a_rate_card(company.organization, {"guaranteed": 3_000_000_000}, start=100)

    def cost(guaranteed: int, borrowed: int, second: int) -> tuple[int, str] | None:
        found = present_cost(
            organization_id=company.organization.pk,
            pool_id=company.pool.pk,
            guaranteed_mgpu=guaranteed,
            borrowed_mgpu=borrowed,
            multiplier_ppm=1_500_000,
            seconds=3_600,
            now=at(second),
        )
        return None if found is None else (found.billed_nano, found.currency)

    assert cost(8_000, 0, 99) == (24_000_000_000, "EUR")
    assert cost(8_000, 0, 100) == (36_000_000_000, "EUR")
    assert cost(8_000, 1, 100) is None
    assert cost(8_000, 0, -1) is None
    a_rate_card(company.organization, {"borrowed": 1_000_000_000})
    assert cost(4_000, 4_000, 100) == (18_000_000_000 + 6_000_000_000, "EUR")
