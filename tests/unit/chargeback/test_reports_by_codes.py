"""Reports by cost centres and project codes, which change from month to month."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.periods import Period
from billing.scopes import AttemptFilter
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, at, terms_of
from builders.chargeback_builders import all_jobs
from builders.portal_builders import Company, a_company, a_pool, a_team, an_actor
from chargeback.dimensions import Dimension
from chargeback.moves import moves_between
from chargeback.reports import Asked, Narrowed, grouped_report
from periods.code_models import CodeKind
from periods.codes import NewCode, set_codes
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR_MGPU_S = 8_000 * 3_600
NOVEMBER, DECEMBER = date(2026, 11, 1), date(2026, 12, 1)
JANUARY, FEBRUARY = date(2027, 1, 1), date(2027, 2, 1)
MONTH_S = int((datetime(2026, 12, 1, tzinfo=UTC) - at(0)).total_seconds())


@pytest.fixture
def company() -> Company:
    """8 GPUs of nlp for two hours around the end of November, and of vision for one hour of it."""
    company = a_company()
    a_rate_card(company.organization)
    late = LATER + timedelta(days=30)
    a_metered_attempt(company.nlp, MONTH_S - 3_600, MONTH_S + 3_600, now=late)
    a_metered_attempt(company.vision, 0, 3_600, now=late)
    return company


def rows(
    company: Company, actor: Actor, *by: Dimension, user: str | None = None
) -> dict[tuple[str, ...], tuple[int, int]]:
    """Use and cost of each row of November and December."""
    found = grouped_report(
        actor=actor,
        by=by,
        asked=Asked(NOVEMBER, JANUARY),
        narrowed=Narrowed(attempts=AttemptFilter(user)),
        now=LATER + timedelta(days=60),
    )
    assert sum(row.amounts.cost_nano for row in found.rows) == found.totals.cost_nano
    assert found.segments_mgpu_s == found.totals.mgpu_s == 3 * HOUR_MGPU_S
    return {row.keys: (row.amounts.mgpu_s, row.amounts.cost_nano) for row in found.rows}


def test_use_has_the_codes_of_its_month(company: Company) -> None:
    """Research has 4711 in November and 8000 from December on; vision has a project of its own.

    Planted: the code of the beginning of the period for all of it.
    """
    fiona = an_actor(company.organization, Role.FINANCE)
    research = company.research.display_path
    set_codes(
        company.organization.pk,
        [
            NewCode(research, CodeKind.COST_CENTRE, "4711", NOVEMBER),
            NewCode(research, CodeKind.COST_CENTRE, "8000", DECEMBER),
            NewCode(company.vision.display_path, CodeKind.PROJECT_CODE, "P-12", NOVEMBER),
        ],
        actor=fiona,
        now=LATER,
    )
    hour = (HOUR_MGPU_S, 16 * 10**9)
    assert rows(company, fiona, Dimension.COST_CENTRE, Dimension.MONTH) == {
        ("4711", "2026-11"): (2 * hour[0], 2 * hour[1]),
        ("8000", "2026-12"): hour,
    }
    assert rows(company, fiona, Dimension.COST_CENTRE, Dimension.PROJECT_CODE) == {
        ("4711", "(none)"): hour,
        ("4711", "P-12"): hour,
        ("8000", "(none)"): hour,
    }
    assert rows(company, fiona, Dimension.PROJECT_CODE, Dimension.TEAM) == {
        ("(none)", company.nlp.display_path): (2 * hour[0], 2 * hour[1]),
        ("P-12", company.vision.display_path): hour,
    }


def codes_of_four_months(company: Company, finance: Actor) -> None:
    """Set codes so that nlp has 4711, 8000, 4711 again and then none; vision has its own project.

    Prices need rounding. Guarantees are committed, and vision's short attempts are topped up.
    """
    small = a_pool("l40s")
    prices = {"guaranteed": 333_333, "borrowed": 77_777}
    card = a_rate_card(company.organization, prices, pool=small)
    terms_of(card, "commitment")
    terms_of(card, "pay_per_use", pool=small, minimum_s=60, increment_s=7)
    late = LATER + timedelta(days=90)
    for first in (DECEMBER, JANUARY, FEBRUARY):
        cut = int((datetime.combine(first, time(), UTC) - at(0)).total_seconds())
        a_metered_attempt(company.nlp, cut - 10, cut + 11, mgpu=7, classes=[(cut + 1, 3)], now=late)
        a_metered_attempt(company.nlp, cut - 13, cut + 5, mgpu=7, pool=small, now=late)
        a_metered_attempt(company.vision, cut - 4, cut, mgpu=7, pool=small, now=late)
    research, vision = company.research.display_path, company.vision.display_path
    set_codes(
        company.organization.pk,
        [
            NewCode(research, CodeKind.COST_CENTRE, "4711", NOVEMBER),
            NewCode(research, CodeKind.COST_CENTRE, "8000", DECEMBER),
            NewCode(research, CodeKind.COST_CENTRE, "4711", JANUARY, FEBRUARY),
            NewCode(vision, CodeKind.COST_CENTRE, "9000", DECEMBER, JANUARY),
            NewCode(vision, CodeKind.PROJECT_CODE, "P 12", NOVEMBER, FEBRUARY),
        ],
        actor=finance,
        now=LATER,
    )


def test_the_jobs_behind_a_row_sum_to_it(company: Company) -> None:
    """Planted: places not cut to the months of the code; the code of the department for a team with
    its own; commitments of the whole period.
    """
    fiona = an_actor(company.organization, Role.FINANCE)
    codes_of_four_months(company, fiona)
    now = LATER + timedelta(days=120)
    asked = Asked(NOVEMBER, date(2027, 3, 1))
    by = [Dimension.COST_CENTRE, Dimension.PROJECT_CODE]
    report = grouped_report(actor=fiona, by=by, asked=asked, now=now)
    wanted = {
        row.keys: (row.amounts.mgpu_s, row.amounts.cost_nano, row.amounts.top_up_cost_nano)
        for row in report.rows
    }
    assert set(wanted) == {
        ("(none)", "(none)"),
        ("4711", "(none)"),
        ("4711", "P 12"),
        ("8000", "(none)"),
        ("9000", "P 12"),
    }
    found = {}
    for keys in wanted:
        narrowed = Narrowed("ai-company", cost_centre=keys[0], project_code=keys[1])
        jobs = all_jobs(fiona, report.period, narrowed)
        found[keys] = (
            sum(job.mgpu_s for job in jobs),
            sum(job.cost_nano for job in jobs),
            sum(job.cost_nano for job in jobs if job.usage_class == "top_up"),
        )
        whole = grouped_report(actor=fiona, by=[], asked=asked, narrowed=narrowed, now=now).totals
        assert (whole.mgpu_s, whole.cost_nano) == found[keys][:2]
    assert found == wanted
    assert sum(cost for _, cost, _ in found.values()) == report.totals.cost_nano
    assert all(top_up > 0 for keys, (_, _, top_up) in found.items() if "P 12" in keys)


def test_a_job_is_behind_a_code_for_its_months_only(company: Company) -> None:
    """The job of nlp runs an hour in each of two months, which have a code each.

    Planted: the whole job behind either code.
    """
    fiona = an_actor(company.organization, Role.FINANCE)
    research = company.research.display_path
    set_codes(
        company.organization.pk,
        [
            NewCode(research, CodeKind.COST_CENTRE, "4711", NOVEMBER),
            NewCode(research, CodeKind.COST_CENTRE, "8000", DECEMBER),
            NewCode(company.vision.display_path, CodeKind.COST_CENTRE, "9000", NOVEMBER),
        ],
        actor=fiona,
        now=LATER,
    )
    late = LATER + timedelta(days=60)
    period = Period(at(0), at(0) + timedelta(days=60), late)

    def behind(code: str) -> list[tuple[str, int]]:
        jobs = all_jobs(fiona, period, Narrowed("ai-company", cost_centre=code))
        return [(job.team, job.mgpu_s) for job in jobs]

    assert behind("4711") == behind("8000") == [(company.nlp.display_path, HOUR_MGPU_S)]
    assert behind("9000") == [(company.vision.display_path, HOUR_MGPU_S)]
    assert behind("(none)") == behind("4712") == []


def test_what_moved_is_of_a_code(company: Company) -> None:
    """4711 had two hours in November and none in December. Planted: the use of all codes."""
    fiona = an_actor(company.organization, Role.FINANCE)
    set_codes(
        company.organization.pk,
        [NewCode("ai-company", CodeKind.COST_CENTRE, "4711", NOVEMBER, DECEMBER)],
        actor=fiona,
        now=LATER,
    )
    moved = moves_between(
        actor=fiona,
        asked=Asked(DECEMBER, JANUARY),
        narrowed=Narrowed(cost_centre="4711"),
        now=LATER + timedelta(days=60),
    )
    total = moved.totals["EUR"]
    assert (total.before_nano, total.after_nano) == (32 * 10**9, 0)


def test_more_teams_take_no_more_statements(company: Company) -> None:
    """Against: codes looked up for each team."""
    fiona = an_actor(company.organization, Role.FINANCE)
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            rows(company, fiona, Dimension.COST_CENTRE)
        counts.append(len(queries))
        for _ in range(3):
            a_team(company.research)
    assert counts[0] == counts[1]
