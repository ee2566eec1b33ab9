"""The history of a balance by day, its forecast, holds, and the jobs behind payments."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bank.csv_export import csv_lines
from bank.history import history_of
from bank.models import CreditLot, CreditPool
from bank.settling import settle_due
from bank.statements import earned_month, statement_of
from builders.api_callers import by_token
from builders.bank_builders import a_bank
from builders.billing_builders import a_metered_attempt, at
from builders.portal_builders import Company, a_company, a_grant, a_user, an_actor
from primitives.days import midnight
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

GPU_HOUR = 3_600 * 1_000_000
DAY_S = 86_400


@pytest.fixture
def company(settings: Any) -> Company:
    """nlp, guaranteed 8, uses 16 GPUs from 6 to 12 o'clock on each of the first five days.

    Credits are settled every six hours, until 6 November, 12:00.
    """
    settings.CREDITS_SETTLED_EVERY_S = 6 * 3_600
    company = a_company()
    a_bank(company.organization, at(0))
    for day in range(5):
        a_metered_attempt(
            company.nlp,
            day * DAY_S + 6 * 3_600,
            day * DAY_S + 12 * 3_600,
            pool=company.pool,
            mgpu=16_000,
            guaranteed_mgpu=8_000,
            job_name=f"train-{day}",
        )
    settle_until(int(5.5 * DAY_S))
    return company


def settle_until(end_s: int) -> None:
    now = at(end_s + 60)
    settle_due(now)


def a_lead(company: Company) -> Actor:
    return an_actor(company.nlp, Role.TEAM_LEAD)


def balances(company: Company, month: int = 11) -> list[tuple[int, float]]:
    history = history_of(
        company.nlp, company.pool, 2026, month, actor=a_lead(company), now=at(int(5.5 * DAY_S))
    )
    return [(one.day.day, one.balance / GPU_HOUR) for one in history.days]


def test_a_history_has_the_balance_of_each_day_until_the_present(company: Company) -> None:
    """nlp pays 48 GPU-hours a day. A day without transfers keeps the balance before it.

    Planted: the balance before the day, in place of that at its end.
    """
    assert balances(company) == [
        *((day, -48 * day) for day in range(1, 6)),
        (6, -240),
    ]
    assert balances(company, 10) == [(day, 0) for day in range(1, 32)]
    assert balances(company, 12) == []


def test_a_past_month_ends_with_its_own_last_balance(company: Company) -> None:
    """In New York the first hours of 1 November are October. Planted: later transfers count."""
    policy = company.organization.organizationpolicy
    policy.time_zone = "America/New_York"
    policy.save()
    a_metered_attempt(company.nlp, int(5.6 * DAY_S), None, pool=company.pool, mgpu=9_000)
    settle_until(int(5.75 * DAY_S))
    assert balances(company, 10)[-1] == (31, 0)
    # At 6 o'clock UTC the day of New York has begun two hours before.
    assert balances(company)[:2] == [(1, -48), (2, -96)]


def test_a_history_takes_one_statement_of_the_ledger(company: Company) -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        balances(company)
    assert sum("ledger_entry" in one["sql"] for one in queries) == 1


def test_a_forecast_goes_on_with_the_payments_of_known_days(company: Company) -> None:
    """Of 24.5 days left, each costs 48 GPU-hours. Less than a week is known: only the run rate.

    nlp's floor of seven days is 1,344 GPU-hours. Planted: the whole of today; no floor.
    """
    history = history_of(
        company.nlp, company.pool, 2026, 11, actor=a_lead(company), now=at(int(5.5 * DAY_S))
    )
    found = history.forecast
    assert found is not None
    assert (found.last_day, found.expiring) == (date(2026, 11, 30), 0)
    assert found.flow == -24.5 * 48 * GPU_HOUR
    assert found.low == found.middle == found.high == history.floor == -1_344 * GPU_HOUR


def test_a_month_has_its_forecast_and_holds_before_its_first_settlement(company: Company) -> None:
    """At midnight of 1 December, November is settled, and a job goes on to borrow.

    Planted: no forecast and no hold until the first settlement in the month.
    """
    a_metered_attempt(
        company.nlp, 20 * DAY_S, None, pool=company.pool, mgpu=16_000, guaranteed_mgpu=8_000
    )
    # One task settles at most 96 intervals.
    for _ in range(2):
        settle_until(30 * DAY_S)
    lead, now = a_lead(company), at(30 * DAY_S)
    begun = history_of(company.nlp, company.pool, 2026, 12, actor=lead, now=now)
    assert begun.settled_until == now
    assert begun.forecast is not None
    assert (begun.forecast.last_day, begun.held) == (date(2026, 12, 31), 8 * GPU_HOUR)
    over = history_of(company.nlp, company.pool, 2026, 11, actor=lead, now=now)
    assert (over.forecast, over.held) == (None, 0)


def test_a_forecast_lets_unspent_earnings_expire(company: Company) -> None:
    """One of vision's earnings expires this month. Planted: expiry after the month counts."""
    credit_pool = CreditPool.objects.get()
    lot = CreditLot.objects.filter(team=company.vision).earliest("expires_at")
    lot.expires_at = credit_pool.settled_until + timedelta(days=3)
    lot.save()
    earning = history_of(
        company.vision, company.pool, 2026, 11, actor=a_lead(company), now=at(int(5.5 * DAY_S))
    )
    assert earning.forecast is not None
    assert earning.forecast.expiring == lot.amount
    assert earning.forecast.middle == earning.balance + earning.forecast.flow - lot.amount


def test_a_running_job_that_borrows_holds_an_hour(company: Company) -> None:
    """16 GPUs of a guarantee of 8. The team sees which job; another person sees only the amount.

    Planted: the hold of the whole use; names for everybody.
    """
    a_metered_attempt(
        company.nlp,
        int(5.4 * DAY_S),
        None,
        pool=company.pool,
        mgpu=16_000,
        guaranteed_mgpu=8_000,
        job_name="ablate-9",
    )
    now = at(int(5.5 * DAY_S))
    mine = history_of(company.nlp, company.pool, 2026, 11, actor=a_lead(company), now=now)
    assert mine.held == 8 * GPU_HOUR
    assert [(one.job_name, one.attempt) for one in mine.borrowing] == [("ablate-9", 1)]
    stranger = an_actor(company.vision, Role.RESEARCHER)
    theirs = history_of(company.nlp, company.pool, 2026, 11, actor=stranger, now=now)
    assert (theirs.held, theirs.borrowing) == (8 * GPU_HOUR, ())
    late = history_of(
        company.nlp, company.pool, 2026, 11, actor=a_lead(company), now=now + timedelta(hours=13)
    )
    assert (late.held, late.borrowing) == (0, ())


def test_a_statement_names_the_jobs_behind_its_payments(company: Company) -> None:
    """Planted: use beyond midnight on its first day. Against: names for a person without rights."""
    a_metered_attempt(
        company.nlp,
        int(5.75 * DAY_S),
        int(6.25 * DAY_S),
        pool=company.pool,
        mgpu=12_000,
        guaranteed_mgpu=8_000,
        job_name="overnight",
    )
    settle_until(int(6.5 * DAY_S))
    statement = statement_of(company.nlp, company.pool, 2026, 11, actor=a_lead(company))
    found = [(one.day.day, one.job_name, one.amount / GPU_HOUR) for one in statement.borrowing]
    assert found == [
        *((day + 1, f"train-{day}", 48) for day in range(5)),
        (6, "overnight", 24),
        (7, "overnight", 24),
    ]
    assert {one.attempts for one in statement.borrowing} == {1}
    stranger = an_actor(company.vision, Role.RESEARCHER)
    assert statement_of(company.nlp, company.pool, 2026, 11, actor=stranger).borrowing == ()


def test_a_person_sees_the_own_job_behind_a_payment(company: Company) -> None:
    author = an_actor(company.nlp, Role.RESEARCHER)
    a_metered_attempt(
        company.nlp,
        int(5.25 * DAY_S),
        int(5.375 * DAY_S),
        pool=company.pool,
        mgpu=16_000,
        guaranteed_mgpu=8_000,
        user=author.user,
        job_name="mine",
    )
    statement = statement_of(company.nlp, company.pool, 2026, 11, actor=author)
    assert [one.job_name for one in statement.borrowing] == ["mine"]


def test_unspent_earnings_say_when_and_from_whom_they_were_earned(company: Company) -> None:
    """inference and vision lent to nlp, each its half of the borrowed GPUs that it could lend."""
    statement = statement_of(company.vision, company.pool, 2026, 11)
    (earned,) = statement.earned_in
    assert earned.month == date(2026, 11, 1)
    assert [one.other for one in earned.earned] == [company.nlp.display_path]
    assert earned.earned[0].amount_ugpu_s == statement.closing_ugpu_s
    assert {lot.earned_in for lot in statement.expiring} == {date(2026, 11, 1)}
    assert [lot.last_day for lot in statement.expiring] == [
        line.expires_on for line in statement.lines
    ]


def test_the_month_of_earnings_follows_from_their_expiry() -> None:
    """Planted: the month after. Against: days in place of months, at the end of a long month."""
    berlin = ZoneInfo("Europe/Berlin")
    assert earned_month(midnight(date(2027, 2, 28), berlin), berlin) == date(2026, 11, 1)
    assert earned_month(midnight(date(2027, 1, 15), berlin), berlin) == date(2026, 10, 1)


def test_a_statement_is_a_csv_that_no_spreadsheet_runs(company: Company) -> None:
    """Exact amounts, and texts without formulas. Planted: the reason without its apostrophe."""
    statement = statement_of(company.nlp, company.pool, 2026, 11)
    first, *others = statement.lines
    statement = replace(statement, lines=(replace(first, reason="=1+1"), *others))
    lines = "".join(csv_lines(statement)).split("\r\n")
    assert lines[1].split(",")[2:6] == ["", "opening", "", ""]
    assert lines[2].split(",")[2:] == [
        *("2026-11-01", "lent", "ai-company/production/inference"),
        *("-32.000000", "-32.000000", str(-32 * GPU_HOUR), str(-32 * GPU_HOUR), "", "'=1+1"),
    ]
    assert lines[-1] == ""
    assert len(lines) == 1 + 1 + len(statement.lines) + 1


def test_the_api_sends_history_and_csv_to_everybody_in_the_organization(company: Company) -> None:
    reader = a_user(company.organization, "sam")
    a_grant(reader, Role.RESEARCHER, company.vision)
    get = by_token(reader).get
    where = f"team=ai-company/research/nlp&pool={company.pool.name}&month=2026-11"
    history = get(f"credits/history?{where}")
    assert history.status_code == 200
    assert history.json()["days"][0] == {"day": "2026-11-01", "balance_ugpu_s": -48 * GPU_HOUR}
    sent = get(f"credits/statement?{where}&format=csv")
    assert sent["Content-Disposition"] == (
        f'attachment; filename="credits-nlp-{company.pool.name}-2026-11.csv"'
    )
    assert sent.content.decode().count("\r\n") == 12
    assert get(f"credits/history?{where[:-3]}").status_code == 400
    assert get("credits/history?team=ai-company/research&pool=h100").status_code == 400
