"""Reports by groups over REST: shapes, CSV, rights, and input that nobody should send."""

from __future__ import annotations

import csv
from io import StringIO
from urllib.parse import quote

import pytest

from builders.api_callers import Caller, as_nobody, by_token
from builders.billing_builders import a_metered_attempt, a_rate_card
from builders.portal_builders import Company, a_company, a_user, an_actor, an_organization
from tenants.roles import Role

pytestmark = pytest.mark.django_db

PERIOD = "start=2026-11-01&end=2026-11-03&as_of=2026-11-03T00:00:00Z"
GROUPS = f"reports/chargeback/groups?{PERIOD}"
HOUR = 3_600


def finance_of(company: Company) -> Caller:
    return by_token(an_actor(company.organization, Role.FINANCE, "fin").user)


def test_the_report() -> None:
    company = a_company()
    a_rate_card(company.organization)
    ana = a_user(company.organization, "ana")
    a_metered_attempt(company.nlp, 23 * HOUR, 25 * HOUR, user=ana, classes=[(24 * HOUR, 2_000)])
    answer = finance_of(company).get(f"{GROUPS}&by=user,day")
    assert answer.status_code == 200
    body = answer.json()

    def amounts(guaranteed: int, borrowed: int) -> dict[str, int]:
        return {
            "guaranteed_mgpu_s": guaranteed * HOUR,
            "borrowed_mgpu_s": borrowed * HOUR,
            "unpaid_mgpu_s": 0,
            "fault_mgpu_s": 0,
            "guaranteed_cost_nano": guaranteed * 2_000_000,
            "borrowed_cost_nano": borrowed * 1_000_000,
            "unpaid_cost_nano": 0,
            "commitment_mgpu_s": 0,
            "commitment_cost_nano": 0,
            "top_up_mgpu_s": 0,
            "top_up_cost_nano": 0,
            "showback_nano": 0,
            "cost_nano": guaranteed * 2_000_000 + borrowed * 1_000_000,
            "unpriced_mgpu_s": 0,
            "jobs": 1,
        }

    sums = {
        "totals": amounts(10_000, 6_000),
        "totals_by_device": [{"device": "gpu", **amounts(10_000, 6_000)}],
        "check": {"segments_mgpu_s": 57_600_000, "rows_mgpu_s": 57_600_000, "is_equal": True},
    }
    assert body == {
        "by": ["user", "day"],
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-11-03T00:00:00Z",
        "as_of": "2026-11-03T00:00:00Z",
        "time_zone": "UTC",
        "currency": "EUR",
        "rows": [
            {
                "keys": {"user": "ana", "day": day},
                "device": "gpu",
                "currency": "EUR",
                **amounts(*used),
            }
            for day, used in (("2026-11-01", (8_000, 0)), ("2026-11-02", (2_000, 6_000)))
        ],
        "by_currency": [{"currency": "EUR", "organizations": ["ai-company"], **sums}],
        **sums,
        "buckets": [
            {
                "label": f"2026-11-0{day}",
                "start": f"2026-11-0{day}T00:00:00Z",
                "end": f"2026-11-0{day + 1}T00:00:00Z",
            }
            for day in (1, 2)
        ],
        "corrections": [],
        "priced_at": None,
    }


def test_csv_has_the_rows_of_the_report_and_no_formula() -> None:
    """Against: names of priority classes written as they are."""
    company = a_company()
    a_rate_card(company.organization)
    ana = a_user(company.organization, "ana")
    a_metered_attempt(company.nlp, 0, HOUR, user=ana, mgpu=1_000, priority_class="=1+1")
    answer = finance_of(company).get(f"{GROUPS}&by=priority_class,user&format=csv")
    assert answer["Content-Disposition"] == (
        'attachment; filename="chargeback-by-priority_class-user-20261101-20261103.csv"'
    )
    (row,) = csv.DictReader(StringIO(answer.content.decode()))
    assert row == {
        "priority_class": "'=1+1",
        "user": "ana",
        "device": "gpu",
        "currency": "EUR",
        "guaranteed_gpu_hours": "1.000000",
        "borrowed_gpu_hours": "0.000000",
        "unpaid_gpu_hours": "0.000000",
        "fault_gpu_hours": "0.000000",
        "gpu_hours": "1.000000",
        "mgpu_seconds": "3600000",
        "guaranteed_cost": "2.000000000",
        "borrowed_cost": "0.000000000",
        "unpaid_cost": "0.000000000",
        "cost": "2.000000000",
        "unpriced_mgpu_seconds": "0",
        "jobs": "1",
        "period_start": "2026-11-01T00:00:00+00:00",
        "period_end": "2026-11-03T00:00:00+00:00",
        "as_of": "2026-11-03T00:00:00+00:00",
        "time_zone": "UTC",
        "priced_at": "",
        "commitment_cost": "0.000000000",
        "top_up_cost": "0.000000000",
        "showback_cost": "0.000000000",
    }


def test_hypothetical_costs_are_named_in_the_file() -> None:
    company = a_company()
    a_rate_card(company.organization)
    at = "2026-11-02T00:00:00Z"
    answer = finance_of(company).get(f"{GROUPS}&priced_at={at}&format=csv")
    assert (
        'by-team-pool-20261101-20261103-at-prices-of-20261102T000000Z.csv"'
        in (answer["Content-Disposition"])
    )


def test_a_cell_leads_to_its_jobs() -> None:
    """The jobs with the filters of a row sum to it: user, cluster and class of priority.

    Against: the jobs without the filter on users."""
    company = a_company()
    a_rate_card(company.organization)
    for name, mgpu in (("ana", 1_000), ("ben", 2_000)):
        user = a_user(company.organization, name)
        a_metered_attempt(company.nlp, 0, HOUR, user=user, mgpu=mgpu, priority_class=name)
    finance = finance_of(company)
    rows = finance.get(f"{GROUPS}&by=user").json()["rows"]
    for row in rows:
        name = row["keys"]["user"]
        for narrowed in (f"user={name}", f"priority_class={name}&cluster=local"):
            jobs = finance.get(
                f"reports/chargeback/jobs?{PERIOD}&node=ai-company&{narrowed}"
            ).json()["items"]
            assert [(job["user"], job["mgpu_s"], job["cost_nano"]) for job in jobs] == [
                (name, row["guaranteed_mgpu_s"], row["cost_nano"])
            ]


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("by=colour", 400, "by must be one or more of organization, department"),
        ("by=", 400, "by must be one or more of"),
        ("by=team,team", 400, "two different dimensions"),
        ("by=hour,day", 400, "Group by one of hour, day, week, month"),
        ("by=team,pool,user", 400, "at most 2 dimensions"),
        ("start=2026-11-01&end=november", 400, "end must be a day such as"),
        ("start=2026-11-01", 400, "Give both start and end"),
        ("start=2026-11-01T00:00:00.5Z&end=2026-11-02", 400, "start must be in whole seconds"),
        ("by=hour&start=2026-01-01&end=2026-06-01", 400, "Ask for at most two months"),
        ("node=ai-company/nothing", 404, "ai-company/nothing"),
        ("user=nobody", 404, "There is no user 'nobody'"),
        ("usage_class=idle", 400, "usage_class must be one of"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(query: str, status: int, told: str) -> None:
    answer = finance_of(a_company()).get(f"reports/chargeback/groups?{query}")
    assert (answer.status_code, told in answer.json()["detail"]) == (status, True), answer.json()


def test_a_stranger_sees_nothing() -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, HOUR, user=a_user(company.organization, "ana"))
    charlie = by_token(an_actor(an_organization("elsewhere"), Role.FINANCE, "charlie").user)
    assert charlie.get(f"{GROUPS}&by=user").json()["rows"] == []
    for narrowed in ("node=ai-company", "user=ana", f"node={quote('ai-company/research')}"):
        assert charlie.get(f"{GROUPS}&{narrowed}").status_code == 404
    assert as_nobody().get(GROUPS).status_code == 401
