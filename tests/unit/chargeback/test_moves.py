"""Changes of costs between two periods, in parts that sum to them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from billing.amounts import Amounts
from billing.models import UsageClass
from billing.periods import Period
from builders.billing_builders import a_metered_attempt, a_rate_card, at
from builders.portal_builders import a_company, a_pool, an_actor
from chargeback.moves import Move, moves_between, period_before, team_moves
from chargeback.reports import Asked
from primitives.days import midnight
from quotas.models import Quota
from tenants.moving import move_node
from tenants.roles import Role

HOUR = 3_600
DAY = 24 * HOUR
#: One GPU-hour.
GPU_HOUR = 1_000 * HOUR

amounts = st.builds(
    Amounts,
    **{f"{name}_mgpu_s": st.integers(0, 10**9) for name in UsageClass},
    **{
        f"{name}_cost_nano": st.integers(0, 10**12) for name in ("guaranteed", "borrowed", "unpaid")
    },
)
teams = st.dictionaries(
    st.tuples(st.sampled_from(["o/a", "o/b", "o/c"]), st.sampled_from(["EUR", None])),
    st.dictionaries(st.sampled_from(["h100", "a100"]), amounts, min_size=1),
)


@given(teams, teams)
def test_the_parts_sum_to_the_difference(
    before: dict[tuple[str, str | None], dict[str, Amounts]],
    after: dict[tuple[str, str | None], dict[str, Amounts]],
) -> None:
    """Against: the volume at the prices of the second period (the parts then exceed it)."""
    for row in team_moves(before, after):
        key, move = (row.team, row.currency), row.move
        costs = [
            sum(one.cost_nano for one in each.get(key, {}).values()) for each in (before, after)
        ]
        assert [move.before_nano, move.after_nano] == costs
        assert move.change_nano == sum(
            (
                move.price_nano,
                move.volume_nano,
                move.usage_class_nano,
                move.new_nano,
                move.ended_nano,
            )
        )


@given(amounts)
def test_nothing_moves_where_nothing_changed(same: Amounts) -> None:
    """Against: remainders of roundings that show as a change of mix."""
    (row,) = team_moves({("o/a", "EUR"): {"h100": same}}, {("o/a", "EUR"): {"h100": same}})
    assert row.move == Move(before_nano=same.cost_nano, after_nano=same.cost_nano)


def test_each_part_by_itself() -> None:
    """nlp uses twice as much, vision as much at a higher price, speech borrows what it had."""

    def used(guaranteed: int, price: int, borrowed: int = 0) -> dict[str, Amounts]:
        return {
            "h100": Amounts(
                guaranteed_mgpu_s=guaranteed,
                guaranteed_cost_nano=guaranteed * price,
                borrowed_mgpu_s=borrowed,
                borrowed_cost_nano=borrowed,
            )
        }

    before = {
        ("o/nlp", "EUR"): used(100, 2),
        ("o/vision", "EUR"): used(100, 2),
        ("o/speech", "EUR"): used(100, 2, borrowed=100),
        ("o/gone", "EUR"): used(10, 2),
    }
    after = {
        ("o/nlp", "EUR"): used(200, 2),
        ("o/vision", "EUR"): used(100, 3),
        ("o/speech", "EUR"): used(0, 2, borrowed=200),
        ("o/fresh", "EUR"): used(20, 2),
    }
    assert {row.team: row.move for row in team_moves(before, after)} == {
        "o/nlp": Move(200, 400, volume_nano=200),
        "o/vision": Move(200, 300, price_nano=100),
        "o/speech": Move(300, 200, usage_class_nano=-100),
        "o/gone": Move(20, 0, ended_nano=-20),
        "o/fresh": Move(0, 40, new_nano=40),
    }
    assert [row.team for row in team_moves(before, after)] == [
        *("o/nlp", "o/speech", "o/vision", "o/fresh", "o/gone"),
    ]


@pytest.mark.parametrize(
    ("first", "last", "before"),
    [
        (date(2026, 11, 1), date(2026, 12, 1), date(2026, 10, 1)),
        (date(2026, 1, 1), date(2026, 4, 1), date(2025, 10, 1)),
        (date(2026, 11, 8), date(2026, 11, 15), date(2026, 11, 1)),
        (date(2026, 11, 2), date(2026, 11, 3), date(2026, 11, 1)),
    ],
)
def test_the_period_before_is_of_the_same_kind(first: date, last: date, before: date) -> None:
    """Against: as many days before a month (October of 30 days)."""
    zone = ZoneInfo("America/New_York")
    period = Period(midnight(first, zone), midnight(last, zone), midnight(last, zone))
    assert period_before(period, zone) == (midnight(before, zone), period.start)


def test_the_time_before_hours_is_as_long() -> None:
    start, end = (datetime(2026, 11, 2, hour, tzinfo=UTC) for hour in (10, 13))
    assert period_before(Period(start, end, end), ZoneInfo("UTC")) == (
        datetime(2026, 11, 2, 7, tzinfo=UTC),
        start,
    )


@pytest.mark.django_db
def test_moves_of_a_company() -> None:
    """The price of guaranteed use rises from 2 to 3, and nlp uses twice as much; vision is new."""
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 2_000_000_000}, end=DAY)
    a_rate_card(company.organization, {"guaranteed": 3_000_000_000}, start=DAY)
    a_metered_attempt(company.nlp, 0, HOUR, mgpu=1_000)
    a_metered_attempt(company.nlp, DAY, DAY + HOUR, mgpu=2_000)
    a_metered_attempt(company.vision, DAY, DAY + HOUR, mgpu=1_000, pool=a_pool("a10"))
    found = moves_between(
        actor=an_actor(company.organization, Role.FINANCE),
        asked=Asked(date(2026, 11, 2), date(2026, 11, 3)),
        now=at(5 * DAY),
    )
    assert (found.before.start, found.before.end, found.after.end) == (at(0), at(DAY), at(2 * DAY))
    nano = 1_000_000_000
    nlp = Move(2 * nano, 6 * nano, price_nano=2 * nano, volume_nano=2 * nano)
    assert [(row.team, row.currency, row.move) for row in found.rows] == [
        ("ai-company/research/nlp", "EUR", nlp),
        ("ai-company/research/vision", "EUR", Move()),
    ]
    assert found.totals == {"EUR": nlp}


@pytest.mark.django_db
def test_a_team_that_was_moved_in_the_tree_stays_one_team() -> None:
    """Nlp goes to production within the second day, and uses as much each day.

    Against: teams by their paths (nlp ended at one place and new at two)."""
    company = a_company()
    a_rate_card(company.organization)
    for start in (0, DAY, DAY + 2 * HOUR):
        a_metered_attempt(company.nlp, start, start + HOUR, mgpu=1_000)
    Quota.objects.all().delete()
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    with transaction.atomic():
        move_node(actor=admin, node=company.nlp, parent=company.production, now=at(DAY + 90 * 60))
    found = moves_between(
        actor=admin, asked=Asked(date(2026, 11, 2), date(2026, 11, 3)), now=at(5 * DAY)
    )
    nano = 1_000_000_000
    (row,) = found.rows
    assert (row.team, row.move) == (
        "ai-company/production/nlp",
        Move(2 * nano, 4 * nano, volume_nano=2 * nano),
    )


@pytest.mark.django_db
def test_nothing_has_moved_before_a_period_begins() -> None:
    """Against: "start must be before end", in the first second of a month and for a coming one."""
    company = a_company()
    a_metered_attempt(company.nlp, 0, None, mgpu=1_000)
    for now in (at(DAY), at(DAY - 1)):
        found = moves_between(
            actor=an_actor(company.organization, Role.FINANCE),
            asked=Asked(date(2026, 11, 2), date(2026, 11, 3)),
            now=now,
        )
        assert (found.rows, found.totals) == ((), {})


@pytest.mark.django_db
def test_a_running_period_is_compared_with_as_much_time() -> None:
    """Six hours into the day, yesterday counts for six hours."""
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp, 0, 2 * DAY, mgpu=1_000)
    found = moves_between(
        actor=an_actor(company.organization, Role.FINANCE),
        asked=Asked(date(2026, 11, 2), date(2026, 11, 3)),
        now=at(DAY + 6 * HOUR),
    )
    assert (found.before.start, found.before.end) == (at(0), at(6 * HOUR))
    assert found.totals == {"EUR": Move(12_000_000_000, 12_000_000_000)}
