"""Reports by any two dimensions, to the unit."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.amounts import Amounts
from billing.models import UsageClass
from billing.scopes import AttemptFilter
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, at, record_fault
from builders.portal_builders import (
    Company,
    a_company,
    a_department,
    a_pool,
    a_team,
    a_user,
    an_actor,
    an_organization,
)
from chargeback import reports
from chargeback.dimensions import Dimension
from chargeback.reports import Asked, GroupedReport, Narrowed, grouped_report
from primitives.errors import Forbidden, InvalidRequest, NotFound
from quotas.models import OrganizationPolicy
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
DAY = 24 * HOUR


def in_zone(company: Company, zone: str) -> None:
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"time_zone": zone}
    )


def finance_of(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE)


def report(
    actor: Actor, *by: str, start: Any = None, end: Any = None, **more: Any
) -> GroupedReport:
    found = grouped_report(
        actor=actor,
        by=[Dimension(one) for one in by],
        asked=Asked(start or at(0), end or at(DAY), more.pop("as_of", None)),
        narrowed=Narrowed(
            **{
                name: more.pop(name)
                for name in ("node_path", "pool", "usage_class")
                if name in more
            },
            attempts=AttemptFilter(**more),
        ),
        now=LATER,
    )
    assert found.segments_mgpu_s == found.totals.mgpu_s
    return found


def used(found: GroupedReport) -> dict[tuple[str, ...], int]:
    return {row.keys: row.amounts.mgpu_s for row in found.rows}


def a_busy_company() -> Company:
    """nlp runs a job of two users on two pools, production one of cores; one GPU-hour each."""
    company = a_company()
    a_rate_card(company.organization)
    ana, ben = (a_user(company.organization, name) for name in ("ana", "ben"))
    a_metered_attempt(company.nlp, 0, HOUR, user=ana, mgpu=1_000, job_type="service")
    a_metered_attempt(
        *(company.nlp, 0, HOUR), user=ben, mgpu=1_000, guaranteed_mgpu=0, priority_class="low"
    )
    a_metered_attempt(company.vision, 0, HOUR, user=ana, mgpu=1_000, pool=a_pool("a10"))
    a_metered_attempt(
        company.inference, 0, HOUR, user=ben, mgpu=4_000, priority_class="high", job_type=""
    )
    return company


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ([], {(): 7}),
        (["organization"], {("ai-company",): 7}),
        (["department"], {("ai-company/production",): 4, ("ai-company/research",): 3}),
        (
            ["team", "pool"],
            {
                ("ai-company/production/inference", "h100"): 4,
                ("ai-company/research/nlp", "h100"): 2,
                ("ai-company/research/vision", "a10"): 1,
            },
        ),
        (["user"], {("ana",): 2, ("ben",): 5}),
        (
            ["user", "usage_class"],
            {("ana", "guaranteed"): 2, ("ben", "borrowed"): 1, ("ben", "guaranteed"): 4},
        ),
        (
            ["pool", "priority_class"],
            {
                ("a10", "normal"): 1,
                ("h100", "high"): 4,
                ("h100", "low"): 1,
                ("h100", "normal"): 1,
            },
        ),
        (["cluster"], {("local",): 7}),
        (["job_type"], {("(unknown)",): 4, ("service",): 1, ("training",): 2}),
        (["hour"], {("2026-11-01T00:00+00:00",): 7}),
        (["day", "team"], {
            ("2026-11-01", "ai-company/production/inference"): 4,
            ("2026-11-01", "ai-company/research/nlp"): 2,
            ("2026-11-01", "ai-company/research/vision"): 1,
        }),
        (["week"], {("2026-W44",): 7}),
        (["month"], {("2026-11",): 7}),
    ],
)  # fmt: skip
def test_each_dimension_groups(by: list[str], rows: dict[tuple[str, ...], int]) -> None:
    """Every grouping has the same sums. Against: the rows of the other dimension's order."""
    found = report(finance_of(a_busy_company()), *by)
    gpu_hour = 1_000 * HOUR
    assert used(found) == {keys: hours * gpu_hour for keys, hours in rows.items()}
    assert list(used(found)) == sorted(rows)
    assert (found.totals.mgpu_s, found.totals.cost_nano) == (
        7 * gpu_hour,
        13_000_000_000 - 2 * 10**9,
    )
    assert (found.totals.jobs, found.totals.borrowed_jobs) == (4, 1)


def test_a_row_has_use_cost_and_jobs_of_each_class() -> None:
    company = a_company()
    a_rate_card(company.organization)
    job = a_metered_attempt(company.nlp, 0, HOUR, mgpu=2_000, classes=[(HOUR // 2, 1_000)])
    a_metered_attempt(company.nlp, HOUR, 2 * HOUR, job_id=job.job_id, number=2, mgpu=2_000)
    failed = a_metered_attempt(company.nlp, 0, HOUR, mgpu=1_000)
    record_fault(failed.pk, at(HOUR // 2), LATER, "node_failed")
    (row,) = report(finance_of(company), "team").rows
    assert row.amounts == Amounts(
        guaranteed_mgpu_s=1_000 * HOUR + 500 * HOUR + 2_000 * HOUR + 500 * HOUR,
        borrowed_mgpu_s=500 * HOUR,
        fault_mgpu_s=500 * HOUR,
        guaranteed_cost_nano=8_000_000_000,
        borrowed_cost_nano=500_000_000,
        jobs=2,
        guaranteed_jobs=2,
        borrowed_jobs=1,
        fault_jobs=1,
    )
    assert row.currency == "EUR"


def test_days_are_those_of_the_organization_and_sum_to_the_period() -> None:
    """A job runs from 22:00 UTC for 4 hours, which is over midnight twice: in UTC and in Berlin.

    Against: days of UTC; the cost of a day rounded on its own (0 and 0, not 0 and 1 nano)."""
    company = a_company()
    in_zone(company, "Europe/Berlin")
    a_rate_card(company.organization, {"guaranteed": 1_800_000})
    a_metered_attempt(company.nlp, 22 * HOUR, 26 * HOUR, mgpu=1_000)
    a_metered_attempt(company.nlp, 23 * HOUR - 1, 23 * HOUR + 1, mgpu=1)
    root = an_actor(None, Role.PLATFORM_ADMIN)
    found, same = (
        report(actor, "day", start=date(2026, 11, 1), end=date(2026, 11, 4))
        for actor in (finance_of(company), root)
    )
    # Also for who sees all organizations, while there is one.
    assert found.time_zone == same.time_zone == "Europe/Berlin"
    assert (found.period.start, found.period.end) == (at(-HOUR), at(3 * DAY - HOUR))
    rows = {row.keys[0]: row.amounts for row in found.rows}
    assert {day: (row.mgpu_s, row.cost_nano) for day, row in rows.items()} == {
        "2026-11-01": (1_000 * HOUR + 1, 1_800_000),
        "2026-11-02": (3_000 * HOUR + 1, 5_400_000 + 1),
    }
    assert [bucket.label for bucket in found.buckets] == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert found.totals.cost_nano == 7_200_001
    assert found.totals.jobs == 2


def test_a_month_of_new_york_has_721_hours() -> None:
    """One GPU runs without an end: 721 GPU-hours in November, and each hour has one of them."""
    company = a_company()
    in_zone(company, "America/New_York")
    a_metered_attempt(company.nlp, -DAY, None, mgpu=1_000)
    finance = finance_of(company)
    found = grouped_report(
        actor=finance,
        by=[Dimension.HOUR],
        asked=Asked(date(2026, 11, 1), date(2026, 12, 1)),
        now=datetime.fromisoformat("2026-12-05T00:00:00Z"),
    )
    assert len(found.rows) == 721
    assert {row.amounts.mgpu_s for row in found.rows} == {1_000 * HOUR}
    assert found.totals.mgpu_s == found.segments_mgpu_s == 721 * 1_000 * HOUR


def test_without_a_period_the_running_month_is_asked() -> None:
    company = a_company()
    in_zone(company, "America/New_York")
    found = grouped_report(actor=finance_of(company), by=[], asked=Asked(None, None), now=LATER)
    assert (found.period.start, found.period.end) == (at(4 * HOUR), at(30 * DAY + 5 * HOUR))
    assert found.rows == ()
    with pytest.raises(InvalidRequest, match="Give both start and end"):
        grouped_report(actor=finance_of(company), by=[], asked=Asked(at(0), None), now=LATER)


@pytest.mark.parametrize(
    ("narrowed", "hours"),
    [
        ({"node_path": "ai-company/research"}, 3),
        ({"pool": "a10"}, 1),
        ({"user": "ben"}, 5),
        ({"user": "ben", "node_path": "ai-company/research"}, 1),
        ({"cluster": "local"}, 7),
        ({"priority_class": "high"}, 4),
        ({"job_type": "service"}, 1),
        ({"usage_class": UsageClass.BORROWED}, 1),
        ({"usage_class": UsageClass.GUARANTEED, "user": "ana"}, 2),
    ],
)
def test_a_filter_narrows_rows_totals_and_check(narrowed: dict[str, Any], hours: int) -> None:
    """Against: the check without the filter on users (it differs from the rows)."""
    found = report(finance_of(a_busy_company()), "team", **narrowed)
    assert found.totals.mgpu_s == found.segments_mgpu_s == hours * 1_000 * HOUR
    assert sum(row.amounts.mgpu_s for row in found.rows) == found.totals.mgpu_s


@pytest.mark.parametrize("name", ["user", "cluster", "pool", "node_path"])
def test_a_filter_for_nothing_is_not_found(name: str) -> None:
    company = a_company()
    with pytest.raises(NotFound):
        report(finance_of(company), "team", **{name: "nothing"})


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        (["team", "team"], "two different dimensions"),
        (["day", "hour"], "not by two of them"),
        (["team", "pool", "user"], "at most 2"),
    ],
)
def test_dimensions_that_do_not_go_together_are_refused(by: list[str], sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        report(finance_of(a_company()), *by)


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    company = a_busy_company()
    finance = finance_of(company)
    monkeypatch.setattr(reports, "ROWS_MAX", 2)
    assert len(report(finance, "user").rows) == 2
    with pytest.raises(InvalidRequest, match="more than 2 rows"):
        report(finance, "team")


def test_currencies_and_devices_have_rows_of_their_own() -> None:
    """Two organizations with two currencies share a pool, and one of them uses cores.

    Against: costs of EUR and USD, or hours of cores and GPUs, in one row."""
    company, other = a_company(), an_organization("other")
    a_rate_card(company.organization)
    a_rate_card(other, currency="USD")
    ana = a_user(company.organization, "ana")
    a_metered_attempt(company.nlp, 0, HOUR, user=ana, mgpu=1_000)
    a_metered_attempt(company.nlp, 0, HOUR, user=ana, mgpu=8_000, pool=a_pool("cpu", device="cpu"))
    a_metered_attempt(a_team(other, "squatters"), 0, HOUR, user=a_user(other, "ana"), mgpu=2_000)
    found = report(an_actor(None, Role.PLATFORM_ADMIN), "user")
    gpu_hour = 1_000 * HOUR
    assert [(row.keys, row.device, row.currency, row.amounts.mgpu_s) for row in found.rows] == [
        (("ana@ai-company",), "cpu", "EUR", 8 * gpu_hour),
        (("ana@ai-company",), "gpu", "EUR", gpu_hour),
        (("ana@other",), "gpu", "USD", 2 * gpu_hour),
    ]
    assert [
        (part.currency, part.organizations, part.segments_mgpu_s, part.totals.jobs)
        for part in found.by_currency
    ] == [("EUR", ("ai-company",), 9 * gpu_hour, 2), ("USD", ("other",), 2 * gpu_hour, 1)]
    assert found.currency is None
    assert found.time_zone == "UTC"


def test_a_nested_department_counts_for_the_one_below_the_organization() -> None:
    company = a_company()
    deep = a_team(a_department(company.research, "language"), "translation")
    a_metered_attempt(deep, 0, HOUR, mgpu=1_000)
    a_metered_attempt(a_team(company.organization, "lonely"), 0, HOUR, mgpu=2_000)
    assert used(report(finance_of(company), "department")) == {
        ("",): 2_000 * HOUR,
        ("ai-company/research",): 1_000 * HOUR,
    }


def test_a_stranger_sees_nothing() -> None:
    company = a_busy_company()
    charlie = an_actor(an_organization("elsewhere"), Role.FINANCE)
    assert report(charlie, "team").rows == ()
    with pytest.raises(NotFound):
        report(charlie, "team", node_path="ai-company")
    with pytest.raises(NotFound):
        report(charlie, "team", user="ana")
    with pytest.raises(Forbidden):
        report(an_actor(company.nlp, Role.RESEARCHER), "team")


def test_a_report_takes_few_statements() -> None:
    """The number of statements grows with neither teams nor days."""
    company = a_busy_company()
    finance = finance_of(company)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        report(finance, "user", "day", end=at(30 * DAY))
    assert len(queries) <= 16, [query["sql"][:80] for query in queries]
