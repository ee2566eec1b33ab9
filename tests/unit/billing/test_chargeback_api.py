"""Reports and prices over REST: shapes, rights, and input that nobody should send."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from urllib.parse import quote

import pytest
from uuid_utils.compat import uuid7

from audit.models import AuditEvent
from billing.models import RateCard, RateLine
from builders.api_callers import Caller, as_nobody, by_token
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, at, record_fault
from builders.portal_builders import Company, a_company, a_pool, a_team, an_actor, an_organization
from tenants.roles import Role

pytestmark = pytest.mark.django_db

PERIOD = "start=2026-11-01T00:00:00Z&end=2026-11-01T01:00:00Z"
REPORT = f"reports/chargeback?{PERIOD}"
JOBS = f"reports/chargeback/jobs?{PERIOD}&node=ai-company"


def finance_of(company: Company) -> Caller:
    return by_token(an_actor(company.organization, Role.FINANCE, "fin").user)


def charlie() -> Caller:
    return by_token(an_actor(an_organization("elsewhere"), Role.ORGANIZATION_ADMIN, "charlie").user)


def tomorrow() -> str:
    return f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"


def test_the_report() -> None:
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp, 0, 3_600, classes=[(1_800, 2_000)])
    answer = finance_of(company).get(f"{REPORT}&group_by=department&as_of=2026-11-02T00:00:00Z")
    amounts = {
        "guaranteed_mgpu_s": 18_000_000,
        "borrowed_mgpu_s": 10_800_000,
        "unpaid_mgpu_s": 0,
        "fault_mgpu_s": 0,
        "unpaid_cost_nano": 0,
        "commitment_mgpu_s": 0,
        "commitment_cost_nano": 0,
        "top_up_mgpu_s": 0,
        "top_up_cost_nano": 0,
        "showback_nano": 0,
        "guaranteed_cost_nano": 10_000_000_000,
        "borrowed_cost_nano": 3_000_000_000,
        "cost_nano": 13_000_000_000,
        "unpriced_mgpu_s": 0,
        "jobs": 1,
    }
    sums = {
        "totals": amounts,
        "totals_by_device": [{"device": "gpu", **amounts}],
        "check": {"segments_mgpu_s": 28_800_000, "rows_mgpu_s": 28_800_000, "is_equal": True},
    }
    assert answer.status_code == 200
    assert answer.json() == {
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-11-01T01:00:00Z",
        "as_of": "2026-11-02T00:00:00Z",
        "currency": "EUR",
        "rows": [
            {
                "node": path,
                "node_kind": kind,
                "pool": "h100",
                "device": "gpu",
                "currency": "EUR",
                **amounts,
            }
            for path, kind in (
                ("ai-company", "organization"),
                ("ai-company/research", "department"),
                ("ai-company/research/nlp", "team"),
            )
        ],
        "by_currency": [{"currency": "EUR", "organizations": ["ai-company"], **sums}],
        **sums,
        "days": [
            {
                "day": "2026-11-01",
                "pool": "h100",
                "device": "gpu",
                "guaranteed_mgpu_s": 18_000_000,
                "borrowed_mgpu_s": 10_800_000,
                "unpaid_mgpu_s": 0,
                "fault_mgpu_s": 0,
            }
        ],
        "capacity": [
            {
                "pool": "h100",
                "device": "gpu",
                "capacity_mgpu_s": 0,
                "outside_mgpu_s": 0,
                "in_use_mgpu_s": 28_800_000,
                "idle_mgpu_s": -28_800_000,
            }
        ],
        "capacity_withheld": [],
        "corrections": [],
        "priced_at": None,
    }


def test_costs_of_several_currencies_have_no_sum() -> None:
    """Against: costs of EUR and USD added in the totals, or in those of the GPUs."""
    company, other = a_company(), an_organization("other")
    a_rate_card(company.organization)
    a_rate_card(other, currency="USD")
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=1_000)
    a_metered_attempt(a_team(other, "squatters"), 0, 3_600, mgpu=2_000)
    admin = by_token(an_actor(None, Role.PLATFORM_ADMIN, "root").user)
    report = admin.get(REPORT).json()
    costs = "guaranteed_cost_nano", "borrowed_cost_nano", "cost_nano"
    assert report["currency"] is None
    for sums in (report["totals"], *report["totals_by_device"]):
        assert {sums[name] for name in costs} == {None}
        assert (sums["guaranteed_mgpu_s"], sums["jobs"]) == (10_800_000, 2)
    assert [
        (part["currency"], part["organizations"], part["totals"]["cost_nano"])
        for part in report["by_currency"]
    ] == [("EUR", ["ai-company"], 2_000_000_000), ("USD", ["other"], 4_000_000_000)]
    text = admin.get(f"{REPORT}&format=csv").content.decode()
    assert [
        (row["organization"], row["cost"], row["currency"])
        for row in csv.DictReader(StringIO(text))
    ] == [("ai-company", "2.000000000", "EUR"), ("other", "4.000000000", "USD")]


def test_hours_of_cores_and_of_gpus_are_summed_apart() -> None:
    """Mutants: one total for both kinds; a row, a day or a job of cores says gpu."""
    company = a_company()
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=8_000)
    cpu = a_pool("cpu", device="cpu")
    a_metered_attempt(company.nlp, 0, 1_800, mgpu=16_000, pool=cpu, guaranteed_mgpu=4_000)
    caller = finance_of(company)
    report = caller.get(f"{REPORT}&as_of=2026-11-02T00:00:00Z").json()
    assert [
        (total["device"], total["guaranteed_mgpu_s"], total["borrowed_mgpu_s"], total["jobs"])
        for total in report["totals_by_device"]
    ] == [("gpu", 28_800_000, 0, 1), ("cpu", 7_200_000, 21_600_000, 1)]
    assert report["check"]["is_equal"] is True
    for part in ("rows", "days"):
        assert [(row["pool"], row["device"]) for row in report[part]] == [
            ("cpu", "cpu"),
            ("h100", "gpu"),
        ], part
    jobs = caller.get(f"{JOBS}&as_of=2026-11-02T00:00:00Z").json()["items"]
    assert {(job["pool"], job["device"]) for job in jobs} == {("cpu", "cpu"), ("h100", "gpu")}
    text = caller.get(f"{REPORT}&format=csv&as_of=2026-11-02T00:00:00Z").content.decode()
    assert [
        (row["pool"], row["device"], row["gpu_hours"]) for row in csv.DictReader(StringIO(text))
    ] == [
        ("cpu", "cpu", "2.000000"),
        ("cpu", "cpu", "6.000000"),
        ("h100", "gpu", "8.000000"),
    ]


def test_the_report_as_csv() -> None:
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp, 0, 1, classes=[], mgpu=1_000)
    answer = finance_of(company).get(f"{REPORT}&format=csv&as_of=2026-11-02T00:00:00Z")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == (
        'attachment; filename="chargeback-20261101-20261101.csv"'
    )
    assert answer.content.decode() == (
        "period_start,period_end,organization,department,team,pool,usage_class,gpu_hours,"
        "mgpu_seconds,cost,currency,jobs,unpriced_mgpu_seconds,as_of,device,"
        "priced_at,priced_after_the_fact,billed_mgpu_seconds,showback_cost\r\n"
        "2026-11-01T00:00:00+00:00,2026-11-01T01:00:00+00:00,ai-company,research,nlp,h100,"
        "guaranteed,0.000278,1000,0.000555556,EUR,1,0,2026-11-02T00:00:00+00:00,gpu,,false,1000,"
        "0.000000000\r\n"
    )


def test_hypothetical_costs_say_so() -> None:
    """The prices of a later hour, given with an offset.

    Planted: the file name of the real report; an answer with `priced_at` null.
    """
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 2_000_000_000}, end=7_200)
    a_rate_card(company.organization, {"guaranteed": 3_000_000_000}, start=7_200)
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=1_000)
    caller = finance_of(company)
    asked = f"{REPORT}&priced_at=2026-11-01T03:00:00%2B01:00"
    report = caller.get(asked).json()
    assert (report["priced_at"], report["totals"]["cost_nano"]) == (
        "2026-11-01T02:00:00Z",
        3_000_000_000,
    )
    answer = caller.get(f"{asked}&format=csv")
    assert answer["Content-Disposition"] == (
        'attachment; filename="chargeback-20261101-20261101-at-prices-of-20261101T020000Z.csv"'
    )
    (row,) = csv.DictReader(StringIO(answer.content.decode()))
    assert (row["cost"], row["priced_at"]) == ("3.000000000", "2026-11-01T02:00:00+00:00")


def test_csv_and_json_hold_the_same_numbers() -> None:
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 1_234_567, "borrowed": 7_654_321})
    for team in (company.nlp, company.vision, company.inference):
        a_metered_attempt(team, 10, 4_000, classes=[(500, 333), (900, 7_999)])
    caller = finance_of(company)
    totals = caller.get(REPORT).json()["totals"]
    rows = list(csv.DictReader(StringIO(caller.get(f"{REPORT}&format=csv").content.decode())))
    assert len(rows) == 6
    for usage_class in ("guaranteed", "borrowed"):
        mine = [row for row in rows if row["usage_class"] == usage_class]
        assert sum(int(row["mgpu_seconds"]) for row in mine) == totals[f"{usage_class}_mgpu_s"]
        assert (
            sum(int(row["cost"].replace(".", "")) for row in mine)
            == totals[f"{usage_class}_cost_nano"]
        )


def test_a_refusal_of_csv_is_a_problem() -> None:
    company = a_company()
    answer = finance_of(company).get("reports/chargeback?format=csv")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["errors"] == [
        {"pointer": "/start", "detail": "is required", "code": "invalid"}
    ]


def test_the_jobs_behind_a_number_page_by_page() -> None:
    company = a_company()
    a_rate_card(company.organization)
    for index in range(5):
        a_metered_attempt(company.nlp, 0, 100 + index, job_name=f"job-{index}", mgpu=1_000)
    still_running = a_metered_attempt(company.nlp, 0, None, job_name="running", mgpu=1_000)
    caller = finance_of(company)
    found: list[dict[str, Any]] = []
    path: str | None = f"{JOBS}&limit=2&usage_class=guaranteed"
    while path is not None:
        answer = caller.get(path)
        assert answer.status_code == 200
        found += answer.json()["items"]
        following = answer.json()["next"]
        path = None if following is None else following.removeprefix("/api/v1/")
    assert [job["name"] for job in found] == [
        "running",
        "job-4",
        "job-3",
        "job-2",
        "job-1",
        "job-0",
    ]
    assert found[0] == {
        "job": str(still_running.job_id),
        "name": "running",
        "team": "ai-company/research/nlp",
        "user": still_running.user.username,
        "pool": "h100",
        "device": "gpu",
        "usage_class": "guaranteed",
        "mgpu_s": 3_600_000,
        "cost_nano": 2_000_000_000,
        "attempts": 1,
        "faults": [],
    }
    totals = caller.get(REPORT).json()["totals"]
    assert sum(job["mgpu_s"] for job in found) == totals["guaranteed_mgpu_s"]
    assert sum(job["cost_nano"] for job in found) == totals["cost_nano"]


def test_free_use_is_listed_with_its_reasons() -> None:
    """Two attempts of a job lost work to a node and to a preemption. Against: each reason a job."""
    company = a_company()
    a_rate_card(company.organization)
    first = a_metered_attempt(company.nlp, 0, 100, mgpu=1_000)
    again = a_metered_attempt(company.nlp, 200, 300, mgpu=1_000, job_id=first.job_id, number=2)
    record_fault(first.pk, at(40), LATER, "node_failed")
    record_fault(again.pk, at(300), LATER, "preempted")
    caller = finance_of(company)
    (job,) = caller.get(f"{JOBS}&usage_class=fault").json()["items"]
    assert (job["mgpu_s"], job["cost_nano"], job["attempts"]) == (160_000, 0, 2)
    assert job["faults"] == ["node_failed", "preempted"]
    totals = caller.get(REPORT).json()["totals"]
    assert (totals["guaranteed_mgpu_s"], totals["fault_mgpu_s"]) == (40_000, 160_000)
    assert totals["unpriced_mgpu_s"] == 0


def test_a_stranger_sees_nothing_and_changes_nothing() -> None:
    company = a_company()
    card = a_rate_card(company.organization)
    line = card.lines.first()
    assert line is not None
    a_metered_attempt(company.nlp, 0, 100)
    stranger = charlie()
    report = stranger.get(f"{REPORT}&group_by=department").json()
    assert (report["rows"], report["days"], report["capacity"]) == ([], [], [])
    assert report["check"] == {"segments_mgpu_s": 0, "rows_mgpu_s": 0, "is_equal": True}
    assert stranger.get(f"{REPORT}&format=csv").content.count(b"\r\n") == 1
    assert stranger.get("rate-cards").json() == {"items": [], "next": None}
    price = {
        "pool": "h100",
        "usage_class": "borrowed",
        "price_nano": 1,
        "start": "2020-01-01T00:00:00Z",
        "end": "2020-01-02T00:00:00Z",
    }
    before = list(RateLine.objects.order_by("pk").values())
    for answer in (
        stranger.get(f"{REPORT}&organization=ai-company"),
        stranger.get(f"{REPORT}&team=ai-company/research/nlp"),
        stranger.get(f"{REPORT}&organization=ai-company&format=csv"),
        stranger.get(JOBS),
        stranger.post("rate-cards", {"organization": "ai-company", "currency": "EUR"}),
        stranger.post(f"rate-cards/{card.pk}/lines", price),
        stranger.patch(f"rate-cards/{card.pk}/lines/{line.pk}", {"end": tomorrow()}),
    ):
        assert answer.status_code == 404, answer.content
        assert b"h100" not in answer.content
    assert list(RateLine.objects.order_by("pk").values()) == before


def test_who_may_ask() -> None:
    company = a_company()
    assert as_nobody().get(REPORT).status_code == 401
    bob = by_token(an_actor(company.nlp, Role.RESEARCHER, "bob").user)
    assert bob.get(REPORT).status_code == 403
    assert bob.get(JOBS).status_code == 403
    assert bob.get("rate-cards").json()["items"] == []
    finance = an_actor(company.organization, Role.FINANCE).user
    assert by_token(finance, ["reports"]).get(REPORT).status_code == 200
    assert by_token(finance, ["jobs"]).get(REPORT).status_code == 403
    assert by_token(finance, ["jobs"]).get("rate-cards").json()["items"] == []


def test_a_team_lead_sees_the_prices_of_the_own_organization_and_may_not_change_them() -> None:
    company = a_company()
    card = a_rate_card(company.organization)
    a_rate_card(an_organization("other"))
    lead = by_token(an_actor(company.nlp, Role.TEAM_LEAD).user)
    items = lead.get("rate-cards").json()["items"]
    assert [(item["organization"], item["currency"]) for item in items] == [("ai-company", "EUR")]
    assert [line["usage_class"] for line in items[0]["lines"]] == ["borrowed", "guaranteed"]
    price = {
        "pool": "h100",
        "usage_class": "borrowed",
        "price_nano": 1,
        "start": "2020-01-01T00:00:00Z",
        "end": "2020-01-02T00:00:00Z",
    }
    assert lead.post(f"rate-cards/{card.pk}/lines", price).status_code in {403, 404}
    assert RateLine.objects.filter(card=card).count() == 2


def test_finance_sets_prices() -> None:
    company = a_company()
    caller = finance_of(company)
    made = caller.post("rate-cards", {"organization": "ai-company", "currency": "CHF"})
    assert made.status_code == 201
    card = made.json()
    assert card == {
        "id": card["id"],
        "organization": "ai-company",
        "currency": "CHF",
        "time_zone": "UTC",
        "lines": [],
        "terms": [],
        "can_edit": True,
    }
    assert (
        caller.post("rate-cards", {"organization": "ai-company", "currency": "CHF"}).status_code
        == 409
    )
    lines = f"rate-cards/{card['id']}/lines"
    price = {
        "pool": "h100",
        "usage_class": "guaranteed",
        "price_nano": 2_000_000_000,
        "start": "2026-01-01T00:00:00Z",
    }
    line = caller.post(lines, price)
    assert line.status_code == 201
    assert line.json() == {
        "id": line.json()["id"],
        "device": "gpu",
        **price,
        "end": None,
        "added_at": line.json()["added_at"],
        "added_by": "fin@ai-company",
        "is_correction": True,
    }
    again = caller.post(lines, {**price, "start": "2026-06-01T00:00:00Z"})
    assert again.status_code == 409
    assert again.json()["conflicts_with"] == line.json()["id"]
    earlier = caller.post(lines, {**price, "start": "2025-01-01T00:00:00Z", "end": price["start"]})
    assert earlier.status_code == 201
    other_class = caller.post(lines, {**price, "usage_class": "borrowed"})
    assert other_class.status_code == 201
    own = f"{lines}/{line.json()['id']}"
    assert caller.patch(own, {"end": "2026-06-01T00:00:00Z"}).status_code == 409
    end = tomorrow()
    assert caller.patch(own, {"end": end}).json()["end"] == end
    assert caller.patch(own, {"end": "2098-01-01T00:00:00Z"}).status_code == 409
    assert caller.post(lines, {**price, "start": end}).status_code == 201
    assert [event.action for event in AuditEvent.objects.order_by("pk")] == [
        "rate_card.created",
        "rate_line.added",
        "rate_line.added",
        "rate_line.added",
        "rate_line.ended",
        "rate_line.added",
    ]
    assert len(caller.get("rate-cards").json()["items"][0]["lines"]) == 4


NASTY = [
    "",
    "null",
    "0",
    "-1",
    "9" * 400,
    "1e999",
    "NaN",
    "now",
    "2026-11-01",
    "2026-11-01T00:00:00",
    "2026-11-01T00:00:00 01:00",
    "2026-11-01T00:00:00.5Z",
    "2026-13-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "２０２６-11-01T00:00:00Z",
    "\x00",
    "a\x00b",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "../../etc/passwd",
    "%",
    "_",
    "ai-company'; DROP TABLE billing_usagesegment; --",
    "{}",
    "ai-company/" * 500,
    "\u202e",
    "=1+1",
]


@pytest.mark.parametrize("text", NASTY)
def test_no_parameter_breaks_a_report(text: str) -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, 100)
    caller = finance_of(company)
    given = quote(text.encode("utf-8", "surrogatepass"))
    for path in (
        f"reports/chargeback?start={given}&end=2026-11-01T01:00:00Z",
        f"reports/chargeback?start=2026-11-01T00:00:00Z&end={given}",
        f"{REPORT}&as_of={given}",
        f"{REPORT}&organization={given}",
        f"{REPORT}&team={given}",
        f"{REPORT}&pool={given}",
        f"{REPORT}&group_by={given}",
        f"{REPORT}&format={given}x",
        f"{REPORT}&nonsense={given}",
        f"reports/chargeback/jobs?{PERIOD}&node={given}",
        f"{JOBS}&usage_class={given}",
        f"{JOBS}&cursor={given}",
        f"{JOBS}&limit={given}",
        f"rate-cards?cursor={given}",
        f"rate-cards?{given}=1",
    ):
        answer = caller.get(path)
        assert answer.status_code in {400, 404}, (path, answer.status_code, answer.content)
        assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "query",
    [
        "start=2026-11-01T01:00:00Z&end=2026-11-01T00:00:00Z",
        "start=2026-11-01T00:00:00Z&end=2026-11-01T00:00:00Z",
        "start=2020-01-01T00:00:00Z&end=2026-11-01T00:00:00Z",
        "start=1970-01-01T00:00:00Z&end=1970-01-02T00:00:00Z",
        "start=2026-11-01T00:00:00Z",
        f"{PERIOD}&start=2026-11-01T00:00:00Z",
        f"{PERIOD}&as_of=2099-01-01T00:00:00Z",
        f"{PERIOD}&organization=ai-company&team=ai-company/research",
        f"{PERIOD}&limit=5",
    ],
)
def test_a_report_needs_a_period_that_makes_sense(query: str) -> None:
    assert finance_of(a_company()).get(f"reports/chargeback?{query}").status_code == 400


def test_times_with_another_offset_are_the_same_times() -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, 100)
    caller = finance_of(company)
    there = "start=2026-11-01T01:00:00%2B01:00&end=2026-11-01T02:00:00.000%2B01:00"
    assert (
        caller.get(f"reports/chargeback?{there}").json()["rows"]
        == caller.get(REPORT).json()["rows"]
    )


BAD_VALUES: list[Any] = [None, True, 1.5, "1", -1, 10**16, 10**29, [], {}, "\x00", "x" * 5_000, ""]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (field, value)
        for field in ("pool", "usage_class", "price_nano", "start", "end")
        for value in BAD_VALUES
        if (field, value) not in [("end", None), ("start", None)]  # which are good
    ],
    ids=repr,
)
def test_no_body_breaks_the_prices(field: str, value: Any) -> None:
    company = a_company()
    card = a_rate_card(company.organization, {})
    price = {
        "pool": "h100",
        "usage_class": "guaranteed",
        "price_nano": 5,
        "start": "2026-01-01T00:00:00Z",
        "end": "2027-01-01T00:00:00Z",
        field: value,
    }
    answer = finance_of(company).post(f"rate-cards/{card.pk}/lines", price)
    assert answer.status_code == 400, answer.content
    assert RateLine.objects.count() == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"organization": "ai-company/research", "currency": "EUR"}, 400),
        ({"organization": "ai-company", "currency": "eur"}, 400),
        ({"organization": "ai-company", "currency": "EU"}, 400),
        ({"organization": "ai-company", "currency": "ＥＵＲ"}, 400),
        ({"organization": "nowhere", "currency": "EUR"}, 404),
        ({"organization": 5, "currency": "EUR"}, 400),
        ({"organization": "ai-company"}, 400),
        ({"organization": "ai-company", "currency": "EUR", "lines": []}, 400),
        (b"[]", 400),
        (b"\xff", 400),
        (b"", 400),
    ],
)
def test_no_body_breaks_the_rate_cards(body: Any, status: int) -> None:
    answer = finance_of(a_company()).post("rate-cards", body)
    assert answer.status_code == status, answer.content
    assert RateCard.objects.count() == 0


def test_absent_cards_and_lines_are_not_found() -> None:
    company = a_company()
    card = a_rate_card(company.organization)
    caller = finance_of(company)
    assert (
        caller.patch(f"rate-cards/{card.pk}/lines/{uuid7()}", {"end": tomorrow()}).status_code
        == 404
    )
    assert (
        caller.patch(f"rate-cards/{uuid7()}/lines/{uuid7()}", {"end": tomorrow()}).status_code
        == 404
    )
    assert caller.get("rate-cards/nonsense/lines").status_code == 404
