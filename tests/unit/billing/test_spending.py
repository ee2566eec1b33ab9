"""What teams spend in many spans, in one statement."""

from __future__ import annotations

import pytest

from billing.spending import Span, Spent, spent_in
from billing.usage_sql import ACCOUNTS, rated, rows_of
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, at
from builders.portal_builders import a_pool, a_team, an_organization

pytestmark = pytest.mark.django_db


def test_each_organization_pays_its_own_price_for_one_pool() -> None:
    """Two organizations' teams, in one statement. Planted: one tariff for all of them."""
    pool = a_pool()
    spans = []
    for slug, price_nano in (("first", 3_600_000_000), ("second", 7_200_000_000)):
        organization = an_organization(slug)
        a_rate_card(organization, {"guaranteed": price_nano}, pool=pool)
        team = a_team(organization, "team")
        a_metered_attempt(team, pool=pool, mgpu=1_000, guaranteed_mgpu=1_000, start=0, end=100)
        spans += [Span(team.pk, at(0), at(40)), Span(team.pk, at(40), at(100))]
    assert sorted(spent_in(spans, [pool.pk])) == [
        Spent(0, pool.pk, None, 40_000, 40_000_000),
        Spent(1, pool.pk, None, 60_000, 60_000_000),
        Spent(2, pool.pk, None, 40_000, 80_000_000),
        Spent(3, pool.pk, None, 60_000, 120_000_000),
    ]


def test_more_teams_do_not_make_more_prices() -> None:
    """Classes 1 to 3, each with one line, a gap before and one after it.

    Planted: prices by account, which took half a minute for 1,000 teams on 20 days.
    """
    organization, pool = an_organization("many"), a_pool()
    a_rate_card(organization, pool=pool, end=86_400)
    teams = [a_team(organization, f"team-{number}").pk for number in range(20)]

    def prices(count: int) -> int:
        numbers = list(range(1, count + 1))
        [(found,)] = rows_of(
            f"WITH {ACCOUNTS}, {rated()} SELECT COUNT(*) FROM prices",
            {
                "teams": teams[:count],
                "pools": [pool.pk],
                "since_at": at(0),
                "until_at": LATER,
                "place_numbers": numbers,
                "place_since": [at(0)] * count,
                "place_until": [LATER] * count,
                "priced_at": None,
            },
        )
        return int(found)

    assert (prices(1), prices(20)) == (9, 9)
