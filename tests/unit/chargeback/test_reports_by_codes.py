"""Reports by cost centres and project codes, which change from month to month."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.scopes import AttemptFilter
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, at
from builders.portal_builders import Company, a_company, a_team, an_actor
from chargeback.dimensions import Dimension
from chargeback.reports import Asked, Narrowed, grouped_report
from periods.code_models import CodeKind
from periods.codes import NewCode, set_codes
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR_MGPU_S = 8_000 * 3_600
NOVEMBER, DECEMBER = date(2026, 11, 1), date(2026, 12, 1)
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
        asked=Asked(NOVEMBER, date(2027, 1, 1)),
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
