"""The chargeback report, to the unit."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from billing.amounts import Amounts
from billing.metering import UnpaidSpan, record_unpaid
from billing.models import HELD_CLASSES
from billing.periods import Period, period_of
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card, at, record_ended
from builders.chargeback_builders import all_jobs, report_of
from builders.portal_builders import (
    a_company,
    a_pool,
    a_team,
    an_actor,
    an_organization,
)
from chargeback.dimensions import Dimension
from chargeback.reports import GroupedReport, Narrowed
from primitives.errors import Forbidden, InvalidRequest, NotFound
from primitives.units import DeviceKind
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600


def between(start: int, end: int, as_of: datetime = LATER) -> Period:
    return Period(at(start), at(end), as_of)


def amounts(report: GroupedReport) -> dict[tuple[str, ...], Amounts]:
    return {row.keys: row.amounts for row in report.rows}


def test_usage_and_cost_of_a_team() -> None:
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp, 0, HOUR, classes=[(HOUR // 2, 2_000)])
    finance = an_actor(company.organization, Role.FINANCE)
    report = report_of(finance, between(0, 2 * HOUR))
    # Half an hour of 8 guaranteed GPUs, then half an hour of 2 guaranteed and 6 borrowed.
    expected = Amounts(
        guaranteed_mgpu_s=8_000 * 1_800 + 2_000 * 1_800,
        borrowed_mgpu_s=6_000 * 1_800,
        guaranteed_cost_nano=5 * 2_000_000_000,
        borrowed_cost_nano=3 * 1_000_000_000,
        jobs=1,
        guaranteed_jobs=1,
        borrowed_jobs=1,
    )
    assert amounts(report) == {("ai-company/research/nlp", "h100"): expected}
    assert report.totals == expected
    assert report.segments_mgpu_s == expected.mgpu_s == 8_000 * HOUR
    assert report.currency == "EUR"


def test_the_multiplier_of_the_priority_class_counts() -> None:
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp, 0, HOUR, mgpu=1_000, multiplier_ppm=1_500_000)
    finance = an_actor(company.organization, Role.FINANCE)
    assert report_of(finance, between(0, HOUR)).totals.cost_nano == 3_000_000_000


def test_departments_sum_their_teams() -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, 10, mgpu=1_000)
    a_metered_attempt(company.vision, 0, 10, mgpu=2_000)
    a_metered_attempt(company.inference, 0, 10, mgpu=4_000)
    finance = an_actor(company.organization, Role.FINANCE)
    report = report_of(finance, between(0, 10), Dimension.DEPARTMENT)
    assert [(row.keys, row.amounts.mgpu_s, row.amounts.jobs) for row in report.rows] == [
        (("ai-company/production",), 40_000, 1),
        (("ai-company/research",), 30_000, 2),
    ]
    assert report.totals.mgpu_s == 70_000
    assert report.segments_mgpu_s == 70_000


def test_a_job_that_ran_in_several_pools_is_one_job_of_the_totals() -> None:
    """One job ran in two pools of GPUs, borrowed in the second, and on cores; another in one pool.

    Planted: the rows' jobs added up (4 in all, 3 with GPUs); cores and GPUs told by the same
    bits."""
    company = a_company()
    a10, cores = a_pool("a10"), a_pool("cpu", device="cpu")
    both = a_metered_attempt(company.nlp, 0, 10, mgpu=1_000)
    a_metered_attempt(
        company.nlp, 10, 20, job_id=both.job_id, number=2, pool=a10, mgpu=1_000, guaranteed_mgpu=0
    )
    a_metered_attempt(company.nlp, 20, 30, job_id=both.job_id, number=3, pool=cores, mgpu=4_000)
    a_metered_attempt(company.vision, 0, 10, mgpu=1_000)
    finance = an_actor(company.organization, Role.FINANCE)

    report = report_of(finance, between(0, 30), Dimension.ORGANIZATION, Dimension.POOL)

    def counts(amounts: Amounts) -> tuple[int, int, int]:
        return amounts.jobs, amounts.guaranteed_jobs, amounts.borrowed_jobs

    assert counts(report.totals) == (2, 2, 1)
    assert {kind: counts(of_kind) for kind, of_kind in report.totals_by_device.items()} == {
        DeviceKind.GPU: (2, 2, 1),
        DeviceKind.CPU: (1, 1, 0),
    }
    assert [(row.keys[1], counts(row.amounts)) for row in report.rows] == [
        ("a10", (1, 0, 1)),
        ("cpu", (1, 1, 0)),
        ("h100", (2, 2, 0)),
    ]
    assert report.totals.mgpu_s == report.segments_mgpu_s == 70_000
    later = report_of(finance, between(10, 20))
    assert counts(later.totals) == (1, 0, 1)


def test_a_department_admin_sees_the_department_and_no_sum_that_looks_like_the_whole() -> None:
    """Planted: the organization's row without the word that it is a part."""
    company = a_company()
    a_metered_attempt(company.nlp, 0, 10, mgpu=1_000)
    a_metered_attempt(company.inference, 0, 10, mgpu=4_000)
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    report = report_of(admin, between(0, 10), Dimension.ORGANIZATION, Dimension.DEPARTMENT)
    assert [row.keys for row in report.rows] == [("ai-company (part)", "ai-company/research")]
    assert report.totals.mgpu_s == report.segments_mgpu_s == 10_000
    with pytest.raises(Forbidden):
        report_of(admin, between(0, 10), node="ai-company/production")


def test_a_period_cuts_on_both_sides_and_costs_telescope() -> None:
    company = a_company()
    # 1 mGPU at a price that never divides: each second costs 1/3 nano.
    a_rate_card(company.organization, {"guaranteed": 1_200_000, "borrowed": 1_200_000})
    a_metered_attempt(company.nlp, 0, 100, mgpu=1, classes=[(30, 0), (60, 1)])
    finance = an_actor(company.organization, Role.FINANCE)

    def costs(start: int, end: int) -> int:
        return report_of(finance, between(start, end)).totals.cost_nano

    # Guaranteed 70 s: 23.33 -> 23; borrowed 30 s: exactly 10.
    assert costs(0, 100) == 33
    assert costs(0, 45) + costs(45, 70) + costs(70, 71) + costs(71, 100) == 33
    assert costs(0, 1) == 0
    assert costs(1, 2) == 1  # 0.67 rounds to 1
    assert costs(30, 31) == 0  # the borrowed count starts anew


def test_half_a_nano_is_rounded_to_even() -> None:
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 1_800_000})  # half a nano per mGPU-second
    a_metered_attempt(company.nlp, 0, 5, mgpu=1)
    finance = an_actor(company.organization, Role.FINANCE)
    costs = [report_of(finance, between(0, end)).totals.cost_nano for end in range(1, 6)]
    assert costs == [0, 1, 2, 2, 2]


def test_a_change_of_price_starts_a_new_count_and_gaps_are_flagged() -> None:
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 1_000_000_000}, start=10, end=20)
    a_rate_card(company.organization, {"guaranteed": 3_000_000_000}, start=20, end=30)
    a_metered_attempt(company.nlp, 0, 50, mgpu=3_600_000)
    finance = an_actor(company.organization, Role.FINANCE)
    report = report_of(finance, between(0, 50))
    # 3,600 GPUs: one GPU-hour a second.
    assert report.totals.guaranteed_cost_nano == 10 * 1_000_000_000 + 10 * 3_000_000_000
    assert report.totals.guaranteed_mgpu_s == 50 * 3_600_000
    assert report.totals.unpriced_mgpu_s == 30 * 3_600_000
    assert report.segments_mgpu_s == report.totals.mgpu_s


def test_unpaid_use_after_the_last_price_is_unpriced_and_not_lost() -> None:
    """Its own price ends, and borrowed use has none in its place.

    Planted: the gap of a class without borrowed prices left out (9,000 mGPU-seconds in all)."""
    company = a_company()
    a_rate_card(company.organization, {"unpaid": 3_600_000}, end=12)
    attempt = a_metered_attempt(company.nlp, 3, 13, mgpu=1_000, guaranteed_mgpu=0)
    record_unpaid(
        [UnpaidSpan(attempt.pk, at(0), at(24), 1_000)],
        organization_id=company.organization.pk,
        pool_id=company.pool.pk,
        start=at(0),
        end=at(72),
        now=LATER,
    )
    report = report_of(an_actor(company.organization, Role.FINANCE), between(0, 72))
    assert report.totals.unpaid_mgpu_s == report.segments_mgpu_s == 10_000
    assert (report.totals.unpriced_mgpu_s, report.totals.cost_nano) == (1_000, 9_000)


def test_without_a_rate_card_usage_is_unpriced_and_not_hidden() -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, 10, mgpu=1_000)
    finance = an_actor(company.organization, Role.FINANCE)
    report = report_of(finance, between(0, 10))
    assert report.currency is None
    assert report.totals == Amounts(
        guaranteed_mgpu_s=10_000, unpriced_guaranteed_mgpu_s=10_000, jobs=1, guaranteed_jobs=1
    )


def test_what_still_runs_counts_until_now_or_the_end_of_the_period() -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, None, mgpu=1_000)
    finance = an_actor(company.organization, Role.FINANCE)
    early = report_of(finance, between(0, 100, as_of=at(40)))
    assert early.totals.mgpu_s == early.segments_mgpu_s == 40_000
    late = report_of(finance, between(0, 100))
    assert late.totals.mgpu_s == late.segments_mgpu_s == 100_000
    before_it_began = report_of(finance, between(0, 100, as_of=DAY))
    assert before_it_began.totals == Amounts()


def test_a_past_hour_stays_the_same_once_its_attempts_have_ended() -> None:
    company = a_company()
    a_rate_card(company.organization)
    attempt = a_metered_attempt(company.nlp, 0, None, classes=[(100, 3_000)])
    a_metered_attempt(company.vision, 50, 5_000)
    finance = an_actor(company.organization, Role.FINANCE)
    running = report_of(finance, between(0, HOUR, as_of=at(2 * HOUR)))
    record_ended(attempt.pk, at(9_000), LATER)
    a_metered_attempt(company.nlp, 9_000, 9_500)
    later = report_of(finance, between(0, HOUR, as_of=at(400 * HOUR)))
    assert (later.rows, later.totals) == (running.rows, running.totals)


def test_days_cut_segments_exactly() -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 86_000, 3 * 86_400, mgpu=1_000, classes=[(100_000, 0)])
    finance = an_actor(company.organization, Role.FINANCE)
    report = report_of(finance, between(0, 2 * 86_400 + 5), Dimension.DAY)
    assert [
        (row.keys[0], row.amounts.guaranteed_mgpu_s, row.amounts.borrowed_mgpu_s)
        for row in report.rows
    ] == [
        ("2026-11-01", 400_000, 0),
        ("2026-11-02", 13_600_000, 72_800_000),
        ("2026-11-03", 0, 5_000),
    ]


def test_a_job_of_several_attempts_is_one_job() -> None:
    company = a_company()
    job_id = uuid7()
    a_metered_attempt(company.nlp, 0, 10, job_id=job_id, number=1, mgpu=1_000)
    a_metered_attempt(company.nlp, 20, 30, job_id=job_id, number=2, mgpu=1_000, guaranteed_mgpu=0)
    finance = an_actor(company.organization, Role.FINANCE)
    report = report_of(finance, between(0, 100))
    assert (report.totals.jobs, report.totals.guaranteed_jobs, report.totals.borrowed_jobs) == (
        1,
        1,
        1,
    )


def test_one_pool_can_be_asked_for() -> None:
    company = a_company()
    other = a_pool("a100")
    a_metered_attempt(company.nlp, 0, 10, mgpu=1_000)
    a_metered_attempt(company.nlp, 0, 10, mgpu=2_000, pool=other)
    finance = an_actor(company.organization, Role.FINANCE)
    report = report_of(finance, between(0, 10), pool="a100")
    assert {key: item.mgpu_s for key, item in amounts(report).items()} == {
        ("ai-company/research/nlp", "a100"): 20_000
    }
    assert report.segments_mgpu_s == 20_000
    with pytest.raises(NotFound):
        report_of(finance, between(0, 10), pool="b200")


def test_the_jobs_behind_a_number_sum_to_it_over_all_pages() -> None:
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 1_200_001, "borrowed": 700_003})
    for index in range(7):
        a_metered_attempt(
            company.nlp, index, 100 + index, mgpu=7, classes=[(40 + index, index % 4)]
        )
    a_metered_attempt(company.inference, 0, 100)
    finance = an_actor(company.organization, Role.FINANCE)
    period = between(20, 90)
    (row,) = report_of(finance, period, Dimension.DEPARTMENT, node="ai-company/research").rows
    jobs = all_jobs(finance, period, Narrowed(node_path="ai-company/research"))
    for usage_class in HELD_CLASSES:
        mine = [job for job in jobs if job.usage_class == usage_class]
        assert sum(job.mgpu_s for job in mine) == getattr(row.amounts, f"{usage_class}_mgpu_s")
        assert sum(job.cost_nano for job in mine) == getattr(
            row.amounts, f"{usage_class}_cost_nano"
        )
        assert len(mine) == getattr(row.amounts, f"{usage_class}_jobs")
    assert len({(job.job_id, job.usage_class) for job in jobs}) == len(jobs)
    assert [job.mgpu_s for job in jobs] == sorted((job.mgpu_s for job in jobs), reverse=True)
    assert {job.team for job in jobs} == {"ai-company/research/nlp"}


def test_a_stranger_sees_nothing() -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, 10)
    elsewhere = an_organization("elsewhere")
    charlie = an_actor(elsewhere, Role.ORGANIZATION_ADMIN, "charlie")
    report = report_of(charlie, between(0, 10), Dimension.DEPARTMENT)
    assert (report.rows, report.totals, report.segments_mgpu_s) == ((), Amounts(), 0)
    for path in ("ai-company", "ai-company/research/nlp"):
        with pytest.raises(NotFound):
            report_of(charlie, between(0, 10), node=path)
        with pytest.raises(NotFound):
            all_jobs(charlie, between(0, 10), Narrowed(node_path=path))


def test_a_researcher_may_not_see_costs() -> None:
    company = a_company()
    bob = an_actor(company.nlp, Role.RESEARCHER)
    with pytest.raises(Forbidden):
        report_of(bob, between(0, 10))
    with pytest.raises(Forbidden):
        all_jobs(bob, between(0, 10), Narrowed(node_path="ai-company/research/nlp"))


def test_a_path_is_a_prefix_of_whole_steps() -> None:
    company = a_company()
    twin = a_team(company.research, "nlp-2")
    a_metered_attempt(twin, 0, 10)
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    assert report_of(lead, between(0, 10)).rows == ()


def test_costs_in_two_currencies_are_summed_apart() -> None:
    """Three organizations: EUR, USD, and one without a rate card.

    Against: jobs and check of all organizations in each block (jobs 2 and 2, segments 100,000
    twice); the rows of the organization without a card in the block of EUR."""
    company = a_company()
    other, free = an_organization("other"), an_organization("free")
    a_rate_card(company.organization)
    a_rate_card(other, currency="USD")
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=1_000)
    a_metered_attempt(a_team(other, "squatters"), 0, 7_200, mgpu=2_000)
    platform = an_actor(None, Role.PLATFORM_ADMIN)

    def blocks(report: GroupedReport) -> list[tuple[str | None, tuple[str, ...], int, int, int]]:
        return [
            (
                part.currency,
                part.organizations,
                part.totals.cost_nano,
                part.totals.jobs,
                part.segments_mgpu_s,
            )
            for part in report.by_currency
        ]

    report = report_of(platform, between(0, 7_200))
    eur = ("EUR", ("ai-company",), 2_000_000_000, 1, 3_600_000)
    usd = ("USD", ("other",), 8_000_000_000, 1, 14_400_000)
    assert blocks(report) == [eur, usd]
    assert (report.currency, report.totals.jobs, report.segments_mgpu_s) == (None, 2, 18_000_000)
    assert [(row.keys[0], row.currency) for row in report.rows] == [
        ("ai-company/research/nlp", "EUR"),
        ("other/squatters", "USD"),
    ]
    below = report_of(platform, between(0, 7_200), node="other")
    assert (below.currency, blocks(below)) == ("USD", [usd])

    a_metered_attempt(a_team(free, "guests"), 0, 10, mgpu=1_000)
    report = report_of(platform, between(0, 7_200), Dimension.ORGANIZATION)
    assert blocks(report) == [eur, usd, (None, ("free",), 0, 1, 10_000)]
    assert {(row.keys[0], row.currency) for row in report.rows} == {
        ("ai-company", "EUR"),
        ("other", "USD"),
        ("free", None),
    }


def test_an_organization_without_usage_brings_no_currency_of_its_own() -> None:
    company = a_company()
    a_rate_card(company.organization)
    a_rate_card(an_organization("other"), currency="USD")
    platform = an_actor(None, Role.PLATFORM_ADMIN)
    (empty,) = report_of(platform, between(0, 10)).by_currency
    assert (empty.currency, empty.organizations, empty.totals) == (None, (), Amounts())
    a_metered_attempt(company.nlp, 0, 10, mgpu=1_000)
    a_metered_attempt(a_team(an_organization("free"), "guests"), 0, 10, mgpu=1_000)
    (only,) = report_of(platform, between(0, 10)).by_currency
    assert (only.currency, only.organizations) == ("EUR", ("ai-company", "free"))


def test_the_number_of_statements_does_not_grow() -> None:
    company = a_company()
    a_rate_card(company.organization)
    finance = an_actor(company.organization, Role.FINANCE)
    counts = []
    for _ in range(2):
        a_metered_attempt(company.nlp, 0, 10)
        a_metered_attempt(a_team(company.research), 0, 10)
        with CaptureQueriesContext(connection) as statements:
            report_of(finance, between(0, 10), Dimension.TEAM)
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 12


@pytest.mark.parametrize(
    ("start", "end", "wrong"),
    [
        (at(0), at(0), "before end"),
        (at(1), at(0), "before end"),
        (at(0), at(0) + timedelta(days=400, seconds=1), "400 days"),
        (datetime(1999, 12, 31, tzinfo=DAY.tzinfo), DAY, "2000"),
        (DAY, datetime(2101, 1, 1, tzinfo=DAY.tzinfo), "2099"),
    ],
)
def test_a_period_must_make_sense(start: datetime, end: datetime, wrong: str) -> None:
    with pytest.raises(InvalidRequest, match=wrong):
        period_of(start, end, as_of=None, now=LATER)


def test_a_period_is_known_as_of_now_at_the_latest() -> None:
    assert period_of(at(0), at(1), as_of=None, now=at(5)) == Period(at(0), at(1), at(5))
    with pytest.raises(InvalidRequest, match="future"):
        period_of(at(0), at(1), as_of=at(6), now=at(5))
    assert period_of(at(0), at(0) + timedelta(days=400), as_of=None, now=LATER).end == at(
        0
    ) + timedelta(days=400)
