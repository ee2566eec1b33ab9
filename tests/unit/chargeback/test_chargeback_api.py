"""Chargeback reports over REST: shapes, CSV, rights, and input that nobody should send."""

from __future__ import annotations

import csv
from datetime import date
from io import StringIO
from typing import Any
from urllib.parse import quote

import pytest

from builders.api_callers import Caller, as_nobody, by_token
from builders.bad_texts import BAD_TEXTS
from builders.billing_builders import (
    LATER,
    a_metered_attempt,
    a_rate_card,
    at,
    record_fault,
    terms_of,
)
from builders.portal_builders import (
    Company,
    a_company,
    a_pool,
    a_team,
    a_user,
    an_actor,
    an_organization,
)
from periods.code_models import AccountingCode
from tenants.roles import Role

pytestmark = pytest.mark.django_db

PERIOD = "start=2026-11-01&end=2026-11-03&as_of=2026-11-03T00:00:00Z"
REPORT = f"reports/chargeback?{PERIOD}"
JOBS = f"reports/chargeback/jobs?{PERIOD}&node=ai-company"
HOUR = 3_600
DAY = 24 * HOUR


def finance_of(company: Company) -> Caller:
    return by_token(an_actor(company.organization, Role.FINANCE, "fin").user)


def test_the_report() -> None:
    company = a_company()
    a_rate_card(company.organization)
    ana = a_user(company.organization, "ana")
    a_metered_attempt(company.nlp, 23 * HOUR, 25 * HOUR, user=ana, classes=[(24 * HOUR, 2_000)])
    answer = finance_of(company).get(f"{REPORT}&by=user,day")
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
    answer = finance_of(company).get(f"{REPORT}&by=priority_class,user&format=csv")
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
        "priced_after_the_fact": "false",
    }


def test_costs_of_several_currencies_have_no_sum() -> None:
    """Against: costs of EUR and USD added in the totals, or in those of the GPUs."""
    company, other = a_company(), an_organization("other")
    a_rate_card(company.organization)
    a_rate_card(other, currency="USD")
    a_metered_attempt(company.nlp, 0, HOUR, mgpu=1_000)
    a_metered_attempt(a_team(other, "squatters"), 0, HOUR, mgpu=2_000)
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
    text = admin.get(f"{REPORT}&by=organization&format=csv").content.decode()
    assert [
        (row["organization"], row["cost"], row["currency"])
        for row in csv.DictReader(StringIO(text))
    ] == [("ai-company", "2.000000000", "EUR"), ("other", "4.000000000", "USD")]


def test_hours_of_cores_and_of_gpus_are_summed_apart() -> None:
    """Mutants: one total for both kinds; a row or a job of cores says gpu."""
    company = a_company()
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=8_000)
    cpu = a_pool("cpu", device="cpu")
    a_metered_attempt(company.nlp, 0, 1_800, mgpu=16_000, pool=cpu, guaranteed_mgpu=4_000)
    caller = finance_of(company)
    report = caller.get(f"{REPORT}").json()
    assert [
        (total["device"], total["guaranteed_mgpu_s"], total["borrowed_mgpu_s"], total["jobs"])
        for total in report["totals_by_device"]
    ] == [("gpu", 28_800_000, 0, 1), ("cpu", 7_200_000, 21_600_000, 1)]
    assert report["check"]["is_equal"] is True
    assert [(row["keys"]["pool"], row["device"]) for row in report["rows"]] == [
        ("cpu", "cpu"),
        ("h100", "gpu"),
    ]
    jobs = caller.get(f"{JOBS}").json()["items"]
    assert {(job["pool"], job["device"]) for job in jobs} == {("cpu", "cpu"), ("h100", "gpu")}
    text = caller.get(f"{REPORT}&format=csv").content.decode()
    assert [
        (row["pool"], row["device"], row["gpu_hours"]) for row in csv.DictReader(StringIO(text))
    ] == [("cpu", "cpu", "8.000000"), ("h100", "gpu", "8.000000")]


def test_hypothetical_costs_say_so() -> None:
    """The prices of a later hour, given with an offset.

    Against: the file name of the real report; an answer with `priced_at` null.
    """
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 2_000_000_000}, end=2 * HOUR)
    a_rate_card(company.organization, {"guaranteed": 3_000_000_000}, start=2 * HOUR)
    a_metered_attempt(company.nlp, 0, HOUR, mgpu=1_000)
    caller = finance_of(company)
    asked = f"{REPORT}&priced_at=2026-11-01T03:00:00%2B01:00"
    report = caller.get(asked).json()
    assert (report["priced_at"], report["totals"]["cost_nano"]) == (
        "2026-11-01T02:00:00Z",
        3_000_000_000,
    )
    answer = caller.get(f"{asked}&format=csv")
    assert (
        'by-team-pool-20261101-20261103-at-prices-of-20261101T020000Z.csv"'
        in (answer["Content-Disposition"])
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
    assert len(rows) == 3
    mgpu_s = totals["guaranteed_mgpu_s"] + totals["borrowed_mgpu_s"]
    assert sum(int(row["mgpu_seconds"]) for row in rows) == mgpu_s
    for name in ("guaranteed_cost", "borrowed_cost", "cost"):
        nano = sum(int(row[name].replace(".", "")) for row in rows)
        assert nano == totals[f"{name}_nano"]


def test_a_refusal_of_csv_is_a_problem() -> None:
    company = a_company()
    answer = finance_of(company).get("reports/chargeback?start=2026-11-01&format=csv")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["errors"] == [
        {"pointer": "/end", "detail": "is missing", "code": "invalid"}
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
        "mgpu_s": 2 * 24 * 3_600_000,
        "cost_nano": 2 * 24 * 2_000_000_000,
        "attempts": 1,
        "faults": [],
    }
    totals = caller.get(REPORT).json()["totals"]
    assert sum(job["mgpu_s"] for job in found) == totals["guaranteed_mgpu_s"]
    assert sum(job["cost_nano"] for job in found) == totals["cost_nano"]


def test_the_jobs_of_a_cost_centre_and_of_none() -> None:
    """Against: the parameter left out of the list or of its file."""
    company = a_company()
    a_rate_card(company.organization)
    coded = a_metered_attempt(company.nlp, 0, 100, job_name="coded")
    other = a_metered_attempt(company.vision, 0, 100, job_name="other")
    AccountingCode.objects.create(
        node=company.nlp, kind="cost_centre", code="4711", start=date(2026, 11, 1), set_at=at(0)
    )
    caller = finance_of(company)
    for code, job in (("4711", coded), ("(none)", other)):
        path = f"{JOBS}&cost_centre={code}"
        assert [each["job"] for each in caller.get(path).json()["items"]] == [str(job.job_id)]
        lines = caller.get(f"{path}&format=csv").content.decode().splitlines()
        assert [line.split(",")[1] for line in lines[1:]] == [job.job_name]
    assert caller.get(f"{JOBS}&project_code=4711").json()["items"] == []


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


def test_the_jobs_behind_a_number_have_its_commitments_and_top_ups() -> None:
    """Each page goes on where the last one ended, and the costs sum to the number.

    The guarantees of nlp and others cost 2 EUR an hour. Of three jobs in another pool, two lack 50
    and 40 s of a minimum of 100 s, at 1 nano per mGPU-second.

    Against: pages of charges beside use that begin anew; top-ups left out."""
    company, other = a_company(), a_pool("a10")
    card = a_rate_card(company.organization, {"guaranteed": 3_600_000}, pool=other)
    a_rate_card(company.organization)
    terms_of(card, "pay_per_use", pool=other, minimum_s=100)
    terms_of(card, "commitment")
    for length in (50, 60, 100):
        a_metered_attempt(company.nlp, 0, length, pool=other, mgpu=1, job_name=f"{length}")
    caller = finance_of(company)
    found: list[dict[str, Any]] = []
    path: str | None = f"{JOBS}&limit=1"
    while path is not None:
        answer = caller.get(path).json()
        found += answer["items"]
        path = answer["next"] and answer["next"].removeprefix("/api/v1/")
    shown = [
        (job["usage_class"], job["name"], job["mgpu_s"], job["cost_nano"], job["attempts"])
        for job in found
    ]
    assert shown[:3] == [
        ("guaranteed", "100", 100, 100, 1),
        ("guaranteed", "60", 60, 60, 1),
        ("guaranteed", "50", 50, 50, 1),
    ]
    assert sorted(shown[-2:]) == [("top_up", "50", 0, 50, 1), ("top_up", "60", 0, 40, 1)]
    commitments = found[3:-2]
    assert [(job["job"], job["name"], job["user"], job["team"]) for job in commitments] == [
        (None, "", "", team.display_path)
        for team in (company.inference, company.nlp, company.vision)
    ]
    text = caller.get(f"{JOBS}&format=csv").content.decode()
    assert [
        (row["usage_class"], row["name"], row["mgpu_seconds"], row["cost"])
        for row in csv.DictReader(StringIO(text))
    ] == [
        (
            *(job["usage_class"], job["name"], str(job["mgpu_s"])),
            f"{job['cost_nano'] // 10**9}.{job['cost_nano'] % 10**9:09}",
        )
        for job in found
    ]
    report = caller.get(REPORT).json()
    assert report["totals"]["commitment_cost_nano"] == sum(job["cost_nano"] for job in commitments)
    assert sum(job["cost_nano"] for job in found) == report["totals"]["cost_nano"]
    for name in ("top_up", "commitment"):
        (row,) = caller.get(f"{REPORT}&by=usage_class&usage_class={name}").json()["rows"]
        jobs = caller.get(f"{JOBS}&usage_class={name}").json()["items"]
        assert {job["usage_class"] for job in jobs} == {name}
        assert sum(job["cost_nano"] for job in jobs) == row["cost_nano"]


def test_a_cell_leads_to_its_jobs() -> None:
    """The jobs with the filters of a row sum to it: user, cluster and class of priority.

    Against: the jobs without the filter on users."""
    company = a_company()
    a_rate_card(company.organization)
    for name, mgpu in (("ana", 1_000), ("ben", 2_000)):
        user = a_user(company.organization, name)
        a_metered_attempt(company.nlp, 0, HOUR, user=user, mgpu=mgpu, priority_class=name)
    finance = finance_of(company)
    rows = finance.get(f"{REPORT}&by=user").json()["rows"]
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
    answer = finance_of(a_company()).get(f"reports/chargeback?{query}")
    assert (answer.status_code, told in answer.json()["detail"]) == (status, True), answer.json()


def test_a_stranger_sees_nothing() -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, HOUR, user=a_user(company.organization, "ana"))
    charlie = by_token(an_actor(an_organization("elsewhere"), Role.FINANCE, "charlie").user)
    assert charlie.get(f"{REPORT}&by=user").json()["rows"] == []
    for narrowed in ("node=ai-company", "user=ana", f"node={quote('ai-company/research')}"):
        assert charlie.get(f"{REPORT}&{narrowed}").status_code == 404
    assert as_nobody().get(REPORT).status_code == 401


def test_who_may_ask() -> None:
    company = a_company()
    assert as_nobody().get(REPORT).status_code == 401
    bob = by_token(an_actor(company.nlp, Role.RESEARCHER, "bob").user)
    assert bob.get(REPORT).status_code == 403
    assert bob.get(JOBS).status_code == 403
    finance = an_actor(company.organization, Role.FINANCE).user
    assert by_token(finance, ["reports"]).get(REPORT).status_code == 200
    assert by_token(finance, ["jobs"]).get(REPORT).status_code == 403


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_no_parameter_breaks_a_report(text: str) -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, 100)
    caller = finance_of(company)
    given = quote(text.encode("utf-8", "surrogatepass"))
    for path in (
        f"reports/chargeback?start={given}&end=2026-11-02",
        f"reports/chargeback?start=2026-11-01&end={given}",
        f"{REPORT}&as_of={given}x",
        f"{REPORT}&node={given}",
        f"{REPORT}&pool={given}",
        f"{REPORT}&by={given}",
        f"{REPORT}&format={given}x",
        f"{REPORT}&nonsense={given}",
        f"reports/chargeback/jobs?{PERIOD}&node={given}",
        f"{JOBS}&usage_class={given}",
        f"{JOBS}&cursor={given}",
        f"{JOBS}&limit={given}",
        f"reports/chargeback/idle?{PERIOD}&share={given}",
    ):
        answer = caller.get(path)
        assert answer.status_code in {400, 404}, (path, answer.status_code, answer.content)
        assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "query",
    [
        "start=2026-11-02&end=2026-11-01",
        "start=2026-11-01&end=2026-11-01",
        "start=2020-01-01&end=2026-11-01",
        "start=1970-01-01T00:00:00Z&end=1970-01-02T00:00:00Z",
        "start=2026-11-01&start=2026-11-01&end=2026-11-02",
        "start=2026-11-01&end=2026-11-02&as_of=2099-01-01T00:00:00Z",
        "start=2026-11-01&end=2026-11-02&organization=ai-company",
        "start=2026-11-01&end=2026-11-02&limit=5",
    ],
)
def test_a_report_needs_a_period_that_makes_sense(query: str) -> None:
    assert finance_of(a_company()).get(f"reports/chargeback?{query}").status_code == 400


def test_times_with_another_offset_are_the_same_times() -> None:
    company = a_company()
    a_metered_attempt(company.nlp, 0, 100)
    caller = finance_of(company)
    there = "start=2026-11-01T01:00:00%2B01:00&end=2026-11-03T01:00:00.000%2B01:00"
    rows = caller.get(f"reports/chargeback?{there}").json()["rows"]
    assert rows == caller.get(REPORT).json()["rows"] != []
