"""The history of a node: use by class, guarantees, lent and waiting GPUs, and who borrowed."""

from __future__ import annotations

import csv
from datetime import UTC, date, datetime, timedelta

import pytest

from billing.metering import UnpaidSpan, record_unpaid
from builders.api_callers import by_token
from builders.billing_builders import LATER, a_metered_attempt, at, record_fault
from builders.chargeback_builders import report_of
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import (
    Company,
    a_company,
    a_quota,
    a_team,
    a_user,
    an_actor,
    an_organization,
)
from chargeback.dimensions import Dimension
from chargeback.reports import Asked
from clusters.models import CapacitySegment
from history import use
from history.csv_export import csv_lines, file_name, pair_lines, week_lines
from history.integrals import Level
from history.steps import Step
from history.use import History, Pair, Series, WeekHour, history_of
from primitives.errors import InvalidRequest, NotFound
from quotas.models import OrganizationPolicy, Quota, QuotaChange
from tenants.access import Actor
from tenants.moving import move_node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR_S = 3_600
#: Milli-GPU-seconds of a GPU in an hour.
GPU_H = 1_000 * HOUR_S


@pytest.fixture
def company() -> Company:
    """32 GPUs, all healthy: research 16 (nlp 8, vision 8), production 16 (inference 16)."""
    company = a_company()
    CapacitySegment.objects.create(
        cluster=company.cluster, pool=company.pool, capacity_mgpu=32_000, start=at(-HOUR_S)
    )
    return company


def reader(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER)


def seen(
    company: Company,
    path: str = "ai-company/research",
    hours: int = 4,
    step: Step | None = Step.HOUR,
    now: datetime = LATER,
) -> History:
    return history_of(
        path,
        company.pool,
        actor=reader(company),
        asked=Asked(at(0), at(hours * HOUR_S)),
        step=step,
        now=now,
    )


def sums(series: Series, level: Level) -> float:
    """The integral in GPU-hours."""
    return series.sums[level] / GPU_H


def steps(series: Series, level: Level) -> list[float]:
    return [values[level] / GPU_H for values in series.steps]


def test_an_hour_of_borrowing_between_siblings(company: Company) -> None:
    """nlp uses 12 of its 8 for two hours: vision lends 4, and research borrows nothing.

    Planted: the guarantee of departments is not read. Against: the parts of a step begin with the
    period.
    """
    a_metered_attempt(company.nlp, HOUR_S, 3 * HOUR_S, mgpu=12_000, guaranteed_mgpu=8_000)
    history = seen(company)
    nlp, vision = history.children
    assert [child.node for child in history.children] == [
        "ai-company/research/nlp",
        "ai-company/research/vision",
    ]
    assert steps(history.series, Level.GUARANTEED) == [0, 8, 8, 0]
    assert steps(history.series, Level.BORROWED) == [0, 4, 4, 0]
    assert steps(history.series, Level.WITHIN) == [0, 12, 12, 0]
    assert steps(history.series, Level.GUARANTEE) == [16] * 4
    assert sums(history.series, Level.LENT) == 0
    assert steps(nlp, Level.WITHIN) == [0, 8, 8, 0]
    assert steps(vision, Level.LENT) == [0, 4, 4, 0]
    assert history.pairs == [Pair(nlp.node, vision.node, 8 * GPU_H)]


def test_a_department_borrows_from_another(company: Company) -> None:
    """nlp uses 20: 8 guaranteed, 8 of vision, and 4 of production, which inference lends."""
    a_metered_attempt(company.nlp, 0, HOUR_S, mgpu=20_000, guaranteed_mgpu=8_000)
    research = seen(company)
    nlp, vision = research.children
    assert research.pairs == [
        Pair(nlp.node, vision.node, 8 * GPU_H),
        Pair(nlp.node, "(outside)", 4 * GPU_H),
    ]
    assert research.series.used_mgpu_s - research.series.sums[Level.WITHIN] == 4 * GPU_H
    production = seen(company, "ai-company/production")
    (inference,) = production.children
    assert sums(production.series, Level.LENT) == sums(inference, Level.LENT) == 4
    assert production.pairs == [Pair("(outside)", inference.node, 4 * GPU_H)]
    whole = seen(company, "ai-company")
    assert whole.pairs == [Pair("ai-company/research", "ai-company/production", 4 * GPU_H)]


def test_a_reserve_lends_before_children_and_unlent_guarantees_never(company: Company) -> None:
    """Against: lend limits are not read."""
    Quota.objects.filter(node=company.vision).update(lend_limit_mgpu=1_000)
    Quota.objects.filter(node=company.nlp).update(guaranteed_mgpu=6_000)
    a_metered_attempt(company.nlp, 0, HOUR_S, mgpu=10_000, guaranteed_mgpu=6_000)
    history = seen(company)
    assert history.pairs == [
        Pair("ai-company/research/nlp", "(reserve)", 2 * GPU_H),
        Pair("ai-company/research/nlp", "(outside)", GPU_H),
        Pair("ai-company/research/nlp", "ai-company/research/vision", GPU_H),
    ]


@pytest.mark.parametrize("path", ["ai-company", "ai-company/research", "ai-company/research/nlp"])
@pytest.mark.parametrize("step", list(Step))
def test_use_equals_the_chargeback_of_the_same_period(
    company: Company, path: str, step: Step
) -> None:
    """Of each class, and in each length of steps; children sum to their node.

    Against: use after the period counts; a fault counts in the class that it had before.
    """
    a_metered_attempt(company.nlp, -500, 9_000, mgpu=8_000, classes=[(1_000, 3_000), (4_000, 8)])
    unpaid = a_metered_attempt(company.nlp, 100, 2_000, mgpu=4_000, guaranteed_mgpu=0)
    lost = a_metered_attempt(company.vision, 7, 13_000, mgpu=1_500)
    a_metered_attempt(company.inference, 10, None, mgpu=500, guaranteed_mgpu=250)
    record_fault(lost.pk, at(5_000), LATER, "node_failed")
    record_unpaid(
        [UnpaidSpan(unpaid.pk, at(300), at(900), 1_000)],
        organization_id=company.organization.pk,
        pool_id=company.pool.pk,
        start=at(0),
        end=at(7_200),
        now=LATER,
    )
    history = seen(company, path, hours=3, step=step)
    finance = an_actor(company.organization, Role.FINANCE)
    report = report_of(finance, history.scope.period, Dimension.POOL, node=path)
    (row,) = report.rows
    charged = row.amounts
    assert list(history.series.sums[: Level.WAITING]) == [
        charged.guaranteed_mgpu_s,
        charged.borrowed_mgpu_s,
        charged.unpaid_mgpu_s,
        charged.fault_mgpu_s,
    ]
    assert min(charged.guaranteed_mgpu_s, charged.borrowed_mgpu_s, charged.unpaid_mgpu_s) > 0
    if history.children:
        below = [sum(values) for values in zip(*(c.sums for c in history.children), strict=True)]
        assert below[: Level.GUARANTEE] == list(history.series.sums[: Level.GUARANTEE])


def test_a_guarantee_counts_from_the_second_of_its_change(company: Company) -> None:
    """Against: the guarantee of the present counts for the past."""
    quota = Quota.objects.get(node=company.nlp)
    before = {"guaranteed_mgpu": 2_000, "lend_limit_mgpu": None, "borrow_limit_mgpu": None}
    after = {**before, "guaranteed_mgpu": 8_000}
    QuotaChange.objects.create(quota=quota, at=at(1_800), before=before, after=after, reason="more")
    a_metered_attempt(company.nlp, 0, HOUR_S, mgpu=4_000)
    history = seen(company, "ai-company/research/nlp", hours=2)
    assert steps(history.series, Level.GUARANTEE) == [5, 8]
    assert steps(history.series, Level.WITHIN) == [3, 0]


def test_waiting_gpus_are_those_of_queued_jobs(company: Company) -> None:
    """A job waits until its start, again after a preemption, not on hold, not before its time.

    Against: a job that waits counts until its end; the second wait does not count; held jobs do;
    `begin_at` is not read.
    """
    user = a_user(company.organization)

    def job(**values: object) -> object:
        return a_job(company, user, mgpu_per_node=2_000, submitted_at=at(0), **values)

    restarted = a_job(
        company, user, mgpu_per_node=4_000, state="running", submitted_at=at(0), name="twice"
    )
    an_attempt(
        restarted,
        cluster=company.cluster,
        state="ended",
        granted_at=at(HOUR_S),
        ended_at=at(2 * HOUR_S),
        released_at=at(2 * HOUR_S),
    )
    an_attempt(restarted, cluster=company.cluster, number=2, granted_at=at(2 * HOUR_S + 900))
    history = seen(company, "ai-company/research/nlp")
    assert steps(history.series, Level.WAITING) == [4, 0, 1, 0]
    job()
    assert steps(seen(company).series, Level.WAITING) == [6, 2, 3, 2]
    job(state="held")
    job(begin_at=at(3 * HOUR_S))
    job(state="cancelled", ended_at=at(1_800))
    assert steps(seen(company).series, Level.WAITING) == [7, 2, 3, 4]


def test_use_before_a_move_stays_with_the_former_place(company: Company) -> None:
    """Against: all use counts for the present place."""
    a_metered_attempt(company.nlp, 0, 2 * HOUR_S, mgpu=4_000)
    Quota.objects.filter(node=company.nlp).update(guaranteed_mgpu=0)
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    move_node(actor=admin, node=company.nlp, parent=company.production, now=at(HOUR_S + 900))
    research, production = seen(company), seen(company, "ai-company/production")
    assert steps(research.series, Level.GUARANTEED) == [4, 1, 0, 0]
    assert steps(production.series, Level.GUARANTEED) == [0, 3, 0, 0]
    assert "ai-company/research/nlp" in [child.node for child in research.children]


def test_another_organization_borrows_without_being_named(company: Company) -> None:
    """Its use is of its own history, and what it borrowed is lent by ours."""
    other = an_organization("rival")
    a_quota(other, company.pool, 0)
    team = a_team(other, "blue")
    a_metered_attempt(team, 0, HOUR_S, mgpu=3_000, guaranteed_mgpu=0)
    history = seen(company, "ai-company")
    assert history.series.used_mgpu_s == 0
    assert sums(history.series, Level.LENT) == 3
    assert {pair.borrower for pair in history.pairs} == {"(outside)"}
    assert "rival" not in str(history.pairs)


def test_the_week_is_that_of_the_clock_on_the_wall(company: Company) -> None:
    """In the night of 25 October 2026 the hour from 2 is there twice in Berlin.

    Against: hours of the week are those of UTC.
    """
    OrganizationPolicy.objects.update(time_zone="Europe/Berlin")
    midnight = datetime(2026, 10, 24, 22, tzinfo=UTC)
    offset = int((midnight - at(0)).total_seconds())
    a_metered_attempt(company.nlp, offset, offset + 25 * HOUR_S, mgpu=1_000)
    history = history_of(
        "ai-company/research/nlp",
        company.pool,
        actor=reader(company),
        asked=Asked(date(2026, 10, 25), date(2026, 10, 26)),
        now=LATER,
    )
    assert len(history.week) == 24
    assert history.week[2] == WeekHour(6, 2, 2 * GPU_H, 16 * GPU_H)
    assert history.week[3] == WeekHour(6, 3, GPU_H, 8 * GPU_H)
    assert history.step is Step.FIVE_MINUTES
    assert len(history.edges) - 1 == 25 * 12


@pytest.mark.parametrize(
    ("days", "step", "count"), [(2, "5m", 576), (30, "hour", 720), (365, "day", 366)]
)
def test_steps_follow_the_period(company: Company, days: int, step: str, count: int) -> None:
    """A year that begins in a day has a part of a day at both ends."""
    start = datetime(2025, 10, 1, 12, tzinfo=UTC)
    history = history_of(
        "ai-company",
        company.pool,
        actor=reader(company),
        asked=Asked(start, start + timedelta(days=days)),
        now=LATER,
    )
    assert (history.step, len(history.edges) - 1) == (step, count)


def test_a_running_period_ends_now(company: Company) -> None:
    a_metered_attempt(company.nlp, 0, None, mgpu=8_000)
    history = seen(company, "ai-company", hours=4, now=at(5_400))
    assert steps(history.series, Level.GUARANTEED) == [8, 4]
    assert history.edges[-1] == at(5_400)


def test_wrong_periods_and_places_are_refused(company: Company) -> None:
    with pytest.raises(InvalidRequest, match="has not begun yet"):
        seen(company, now=at(0))
    with pytest.raises(InvalidRequest, match="more than 1500 steps"):
        seen(company, hours=24 * 10, step=Step.FIVE_MINUTES)
    with pytest.raises(NotFound):
        seen(company, "rival")


@pytest.mark.parametrize(
    ("hours", "step", "most", "problem"),
    [
        (24 * 400, Step.FIVE_MINUTES, use.INTEGRALS_MAX, "has more than 1500 steps"),
        (24 * 90, Step.HOUR, use.INTEGRALS_MAX, "has more than 1500 steps"),
        (24 * 2, Step.DAY, 48 * 5 - 1, "has too many steps for 5 nodes"),
    ],
)
def test_too_many_steps_are_refused_before_the_work(
    company: Company,
    monkeypatch: pytest.MonkeyPatch,
    hours: int,
    step: Step,
    most: int,
    problem: str,
) -> None:
    """Against: the integrals of 115,200 steps come before the check."""
    monkeypatch.setattr(use, "INTEGRALS_MAX", most)
    monkeypatch.setattr(use, "integrals_between", None)
    expected = rf"^The period {problem}\. Ask for a longer step or a shorter period\.$"
    with pytest.raises(InvalidRequest, match=expected):
        seen(company, hours=hours, step=step, now=at(hours * HOUR_S))


def test_the_csv_sums_to_the_guarantee(company: Company) -> None:
    """Against: idle GPUs are the guarantee less what was used within."""
    a_metered_attempt(company.nlp, 0, HOUR_S, mgpu=12_000, guaranteed_mgpu=8_000)
    history = seen(company, hours=2)
    assert file_name(history.scope) == "history-research-h100-20261101-20261101.csv"
    rows = list(csv.DictReader("".join(csv_lines(history)).splitlines()))
    assert len(rows) == 6
    vision = rows[4]
    assert (vision["node"], vision["start"]) == (
        "ai-company/research/vision",
        "2026-11-01T00:00:00+00:00",
    )
    parts = ("within_guarantee_gpu_hours", "lent_gpu_hours", "idle_gpu_hours")
    assert [vision[name] for name in parts] == ["0.000000", "4.000000", "4.000000"]
    assert (rows[0]["gpu_hours"], rows[0]["mgpu_seconds"]) == ("12.000000", str(12 * GPU_H))
    assert {row["pool_capacity_gpu_hours"] for row in rows} == {"32.000000"}


def test_the_capacity_of_the_pool(company: Company) -> None:
    """A node of 8 GPUs is lost for half an hour, in the middle of the second hour.

    Against: the capacity of a step is that of its end; that of before the period counts.
    """
    CapacitySegment.objects.update(end=at(5_400))
    for start, end, mgpu in ((5_400, 7_200, 24_000), (7_200, None, 32_000)):
        CapacitySegment.objects.create(
            cluster=company.cluster,
            pool=company.pool,
            capacity_mgpu=mgpu,
            start=at(start),
            end=None if end is None else at(end),
        )
    history = seen(company, hours=3)
    assert [mgpu_s / GPU_H for mgpu_s in history.capacity] == [32, 28, 32]
    assert sum(seen(company, hours=3, step=Step.DAY).capacity) == sum(history.capacity)


def test_the_csv_of_each_chart(company: Company) -> None:
    """Against: the table of another chart; weekdays begin with Sunday."""
    a_metered_attempt(company.nlp, 0, HOUR_S, mgpu=12_000, guaranteed_mgpu=8_000)
    history = seen(company, hours=2)
    assert list(csv.DictReader("".join(pair_lines(history)).splitlines())) == [
        {
            "pool": "h100",
            "device": "gpu",
            "borrower": "ai-company/research/nlp",
            "lender": "ai-company/research/vision",
            "gpu_hours": "4.000000",
            "mgpu_seconds": str(4 * GPU_H),
        }
    ]
    # The first of November 2026 is a Sunday.
    week = list(csv.DictReader("".join(week_lines(history)).splitlines()))
    assert [(row["weekday"], row["hour"], row["gpu_hours"]) for row in week] == [
        ("6", "0", "12.000000"),
        ("6", "1", "0.000000"),
    ]
    assert week[0]["guarantee_gpu_hours"] == "16.000000"


def test_the_api_shows_the_same_as_json_and_csv(company: Company) -> None:
    a_metered_attempt(company.nlp, 0, HOUR_S, mgpu=12_000, guaranteed_mgpu=8_000)
    lead = by_token(reader(company).user)
    query = "history/use?node=research&pool=h100&start=2026-11-01&end=2026-11-02"
    body = lead.get(f"{query}&step=hour").json()
    assert (body["node"], body["step"], body["time_zone"]) == ("ai-company/research", "hour", "UTC")
    assert body["series"]["sums"]["guaranteed_mgpu_s"] == 8 * GPU_H
    assert body["series"]["steps"]["borrowed_mgpu_s"] == [4 * GPU_H] + [0] * 23
    assert body["children"][0]["node"] == "ai-company/research/nlp"
    assert body["pairs"][0]["lender"] == "ai-company/research/vision"
    assert body["capacity"]["sum_mgpu_s"] == 24 * 32 * GPU_H
    assert body["capacity"]["steps_mgpu_s"] == [32 * GPU_H] * 24
    answer = lead.get(f"{query}&format=csv&table=pairs")
    assert answer["Content-Disposition"].startswith('attachment; filename="pairs-research-h100')
    answer = lead.get(f"{query}&format=csv")
    assert answer["Content-Disposition"].startswith('attachment; filename="history-research-h100')
