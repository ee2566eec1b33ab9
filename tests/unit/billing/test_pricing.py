"""Prices: made, scheduled, changed in one act, ended, cancelled; and corrections of the past."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from io import StringIO
from uuid import uuid4

import pytest

from audit.models import AuditEvent
from billing.models import PriceMode, RateCard, RateLine, UsageClass
from billing.periods import Period, last_month
from billing.pricing import add_rate_line, cancel_rate_line, end_rate_line, time_zone_of
from builders.api_callers import by_token
from builders.billing_builders import DAY, a_metered_attempt, a_rate_card, at
from builders.chargeback_builders import report_of
from builders.portal_builders import Company, a_company, an_actor
from chargeback.dimensions import Dimension
from chargeback.group_csv import csv_lines
from chargeback.price_comparison import PriceAt, PricePair, TeamPair, compare_prices
from primitives.errors import Conflict, NotFound
from primitives.units import DeviceKind
from quotas.models import OrganizationPolicy
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

#: Later than any clock that runs these tests, so that scheduled prices are scheduled for the
#: database, too.
NOW = datetime(2090, 5, 1, 12, 0, 0, 123_456, tzinfo=UTC)


def days(count: int) -> datetime:
    return datetime(2090, 5, 1, tzinfo=UTC) + timedelta(days=count)


def finance_of(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fin")


def a_price(
    card: RateCard,
    actor: Actor,
    price_nano: int,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    ends_current: bool = False,
    usage_class: UsageClass = UsageClass.GUARANTEED,
) -> RateLine:
    return add_rate_line(
        card.pk,
        pool_name="h100",
        usage_class=usage_class,
        price_nano=price_nano,
        start=start,
        end=end,
        ends_current=ends_current,
        actor=actor,
        now=NOW,
    )


def lines_of(card: RateCard) -> list[tuple[int, datetime, datetime | None]]:
    return list(card.lines.order_by("start").values_list("price_nano", "start", "end"))


def test_a_card_in_another_currency_is_refused_with_what_to_do() -> None:
    """Against: the same sentence for every second card."""
    company = a_company()
    a_rate_card(company.organization)
    finance = by_token(finance_of(company).user)
    asked = {"organization": "ai-company", "currency": "USD"}
    answer = finance.post("rate-cards", asked)
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "ai-company has a rate card in EUR, and reports and statements keep that currency. To "
        "charge in USD, make a new organization with a rate card in it, and submit jobs there "
        "from a date on.",
    )
    again = finance.post("rate-cards", {**asked, "currency": "EUR"})
    assert again.json()["detail"] == "ai-company has a rate card already. Add lines to it."
    assert RateCard.objects.get().currency == "EUR"


def test_a_price_applies_from_now_on_and_says_who_added_it() -> None:
    """Planted: `start` taken with its microseconds, so that segments of whole seconds miss it."""
    company = a_company()
    card = a_rate_card(company.organization, {})
    line = a_price(card, finance_of(company), 5)
    assert (line.start, line.end) == (NOW.replace(microsecond=0), None)
    assert (line.added_at, line.added_by) == (line.start, "fin@ai-company")
    assert not line.is_correction


def test_a_change_ends_the_old_price_and_starts_the_new_one_in_one_act() -> None:
    """The new price lasts until the next scheduled one.

    Planted: the end of the old price taken for the new one.
    """
    company = a_company()
    card, fin = a_rate_card(company.organization, {}), finance_of(company)
    a_price(card, fin, 5, days(-9), days(40))
    a_price(card, fin, 7, days(60))
    a_price(card, fin, 6, days(10), ends_current=True)
    assert lines_of(card) == [
        (5, days(-9), days(10)),
        (6, days(10), days(60)),
        (7, days(60), None),
    ]
    assert list(AuditEvent.objects.order_by("pk").values_list("action", flat=True)) == [
        "rate_line.added",
        "rate_line.added",
        "rate_line.ended",
        "rate_line.added",
    ]


@pytest.mark.parametrize(
    ("start", "end", "ends_current", "sentence"),
    [
        (days(-2), None, True, "What has applied never changes. Choose a start from now on."),
        (days(-2), None, False, "What has applied never changes. Choose a start from now on."),
        (days(-20), None, False, "End yours at 2090-04-22T00:00:00Z or earlier"),
        (days(30), None, True, "Cancel that price first"),
        (days(2), None, False, "End that price first"),
        (days(2), days(31), True, "End that price first"),
    ],
)
def test_a_price_in_the_way_is_kept_and_the_refusal_says_what_to_do(
    start: datetime, end: datetime | None, ends_current: bool, sentence: str
) -> None:
    """Planted: the current price ended in the past."""
    company = a_company()
    card, fin = a_rate_card(company.organization, {}), finance_of(company)
    a_price(card, fin, 5, days(-9), days(30))
    a_price(card, fin, 7, days(30))
    before = lines_of(card)
    with pytest.raises(Conflict, match=sentence):
        a_price(card, fin, 6, start, end, ends_current=ends_current)
    assert lines_of(card) == before


def test_a_cancelled_price_leaves_no_gap() -> None:
    """Planted: the price before it still ends where the cancelled one would have started."""
    company = a_company()
    card, fin = a_rate_card(company.organization, {}), finance_of(company)
    a_price(card, fin, 5, days(-9))
    line = a_price(card, fin, 6, days(10), days(20), ends_current=True)
    cancel_rate_line(card.pk, line.pk, actor=fin, now=NOW)
    assert lines_of(card) == [(5, days(-9), days(20))]
    with pytest.raises(Conflict, match="End that price instead"):
        cancel_rate_line(card.pk, card.lines.get().pk, actor=fin, now=NOW)
    with pytest.raises(NotFound):
        cancel_rate_line(card.pk, line.pk, actor=fin, now=NOW)


def test_a_cancelled_price_after_a_gap_extends_nothing() -> None:
    """Against: the last price extended over a gap that a person left."""
    company = a_company()
    card, fin = a_rate_card(company.organization, {}), finance_of(company)
    a_price(card, fin, 5, days(-9), days(9))
    line = a_price(card, fin, 6, days(10))
    cancel_rate_line(card.pk, line.pk, actor=fin, now=NOW)
    assert lines_of(card) == [(5, days(-9), days(9))]


def test_a_price_for_the_past_is_a_correction_that_the_report_names() -> None:
    """Planted: corrections of other periods named, or all prices of the period."""
    company = a_company()
    card, fin = a_rate_card(company.organization, {"borrowed": 9}), finance_of(company)
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=1_000)
    period = Period(at(0), at(3_600), at(3_600))
    assert report_of(fin, period).corrections == ()
    line = a_price(card, fin, 2_000_000_000, at(0), at(1_800))
    assert line.is_correction
    report = report_of(fin, period)
    assert [each.pk for each in report.corrections] == [line.pk]
    assert (report.totals.cost_nano, report.totals.unpriced_mgpu_s) == (1_000_000_000, 1_800_000)
    later = Period(at(1_800), at(3_600), at(3_600))
    assert report_of(fin, later).corrections == ()
    a_price(card, fin, 9, days(1))
    assert [each.pk for each in report_of(fin, period).corrections] == [line.pk]


def test_a_price_is_no_correction_of_months_after_its_addition() -> None:
    """It corrects the time before it was added: on 1 May at noon, from 1 April on.

    Planted: each later period names it; a period that starts with the addition names it.
    """
    company = a_company()
    card, fin = a_rate_card(company.organization, {"borrowed": 9}), finance_of(company)
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=1_000)
    line = a_price(card, fin, 5, days(-30))
    added = NOW.replace(microsecond=0)

    def named(start: datetime, end: datetime) -> list[RateLine]:
        return list(report_of(fin, Period(start, end, days(90))).corrections)

    assert named(days(-60), days(-30)) == []
    assert named(days(-60), days(-29)) == [line]
    assert named(days(0), days(31)) == [line]
    assert named(added, days(31)) == []
    assert named(days(31), days(61)) == []
    hypothetical = report_of(fin, Period(days(-30), days(0), days(0)), priced_at=days(0))
    assert (hypothetical.corrections, hypothetical.priced_at) == ((), days(0))


def test_the_csv_says_which_rows_were_priced_after_the_fact() -> None:
    """Planted: all rows of the organization say so, or those of other organizations."""
    company, other = a_company(), a_company("other")
    card, fin = a_rate_card(company.organization, {}), finance_of(company)
    a_rate_card(other.organization)
    for each in (company, other):
        a_metered_attempt(each.nlp, 0, 3_600, guaranteed_mgpu=1_000)
    a_price(card, fin, 5, at(0), usage_class=UsageClass.BORROWED)
    root = an_actor(None, Role.PLATFORM_ADMIN, "root")
    report = report_of(
        *(root, Period(at(0), at(3_600), at(3_600))),
        *(Dimension.ORGANIZATION, Dimension.USAGE_CLASS),
    )
    rows = csv.DictReader(StringIO("".join(csv_lines(report)), newline=""))
    assert [
        (row["organization"], row["usage_class"], row["priced_after_the_fact"]) for row in rows
    ] == [
        ("ai-company", "borrowed", "true"),
        ("ai-company", "guaranteed", "false"),
        ("other", "borrowed", "false"),
        ("other", "guaranteed", "false"),
    ]


def test_the_end_of_a_price_is_not_in_the_past() -> None:
    company = a_company()
    card, fin = a_rate_card(company.organization, {}), finance_of(company)
    line = a_price(card, fin, 5, days(-9))
    with pytest.raises(Conflict, match="not in the past"):
        end_rate_line(card.pk, line.pk, days(-1), actor=fin, now=NOW)
    assert end_rate_line(card.pk, line.pk, days(1), actor=fin, now=NOW).end == days(1)
    ended = end_rate_line(card.pk, line.pk, None, actor=fin, now=NOW)
    assert ended.end == NOW.replace(microsecond=0)


def test_last_month_is_the_zones_own() -> None:
    """New York's March has 743 hours, its November 721. Planted: months of 30 days."""
    for month, hours in ((4, 743), (12, 721)):
        found = last_month("America/New_York", datetime(2026, month, 1, 12, tzinfo=UTC))
        assert found.end - found.start == timedelta(hours=hours)
    found = last_month("Asia/Tokyo", datetime(2026, 11, 30, 15, tzinfo=UTC))
    assert (found.start, found.end) == (
        datetime(2026, 10, 31, 15, tzinfo=UTC),
        datetime(2026, 11, 30, 15, tzinfo=UTC),
    )


def test_two_moments_compared_cost_what_the_rating_says() -> None:
    """An hour at 1.5 of 6 guaranteed and 2 borrowed GPUs.

    Planted: the multiplier left out; the second prices taken for both moments.
    """
    company = a_company()
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"time_zone": "Europe/Berlin"}
    )
    card, fin = a_rate_card(company.organization, {}), finance_of(company)
    a_rate_card(card.organization, {"guaranteed": 2_000_000_000}, start=-100, end=1_800)
    a_rate_card(card.organization, {"guaranteed": 3_000_000_000}, start=1_800)
    a_rate_card(card.organization, {"borrowed": 1_000_000_000}, start=900)
    a_metered_attempt(
        company.nlp, 0, 3_600, mgpu=8_000, guaranteed_mgpu=6_000, multiplier_ppm=1_500_000
    )
    found = compare_prices(
        card.pk,
        first=at(0),
        second=at(1_800),
        period=Period(at(0), at(3_600), at(3_600)),
        actor=fin,
        now=at(3_600),
    )
    pay = PriceMode.PAY_PER_USE
    assert found.pairs == (
        PricePair(
            pool="h100",
            device=DeviceKind.GPU,
            usage_class=UsageClass.GUARANTEED,
            mgpu_s=21_600_000,
            first=PriceAt(pay, 2_000_000_000, 1_000_000, 18_000_000_000),
            second=PriceAt(pay, 3_000_000_000, 1_000_000, 27_000_000_000),
        ),
        PricePair(
            pool="h100",
            device=DeviceKind.GPU,
            usage_class=UsageClass.BORROWED,
            mgpu_s=7_200_000,
            first=PriceAt(pay, None, None, 0),
            second=PriceAt(pay, 1_000_000_000, 1_000_000, 3_000_000_000),
        ),
        PricePair(
            pool="h100",
            device=DeviceKind.GPU,
            usage_class=UsageClass.UNPAID,
            mgpu_s=0,
            first=PriceAt(pay, None, None, 0),
            second=PriceAt(pay, 1_000_000_000, 1_000_000, 0),
        ),
    )
    assert found.teams == (
        TeamPair("ai-company/research/nlp", 18_000_000_000, 30_000_000_000, 0, 0),
    )
    assert [pair.change_ppm for pair in found.pairs] == [500_000, None, None]
    assert (found.first_cost_nano, found.second_cost_nano) == (18_000_000_000, 30_000_000_000)
    assert found.charged_cost_nano == 22_500_000_000 + 2_250_000_000
    assert (found.change_ppm, found.is_whole) == (666_666, True)
    assert time_zone_of(RateCard.objects.get()) == "Europe/Berlin"
    usual = compare_prices(
        card.pk, first=at(0), second=at(0), period=None, actor=fin, now=DAY + timedelta(days=35)
    )
    assert usual.period.start == datetime(2026, 10, 31, 23, tzinfo=UTC)
    assert usual.period.end == datetime(2026, 11, 30, 23, tzinfo=UTC)


def test_a_team_lead_compares_the_costs_of_the_own_team_only() -> None:
    """Planted: the report of the whole organization compared for everybody."""
    company = a_company()
    card = a_rate_card(company.organization)
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=1_000)
    a_metered_attempt(company.vision, 0, 3_600, mgpu=2_000)
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    period = Period(at(0), at(3_600), at(3_600))
    found = compare_prices(
        card.pk, first=at(0), second=at(0), period=period, actor=lead, now=at(3_600)
    )
    assert (found.charged_cost_nano, found.is_whole) == (2_000_000_000, False)
    stranger = an_actor(a_company("other").organization, Role.FINANCE)
    for pk, actor in ((card.pk, stranger), (uuid4(), lead)):
        with pytest.raises(NotFound):
            compare_prices(pk, first=at(0), second=at(0), period=None, actor=actor, now=NOW)


def test_prices_over_rest_change_are_cancelled_and_compared() -> None:
    company = a_company()
    card = a_rate_card(company.organization, {})
    caller = by_token(finance_of(company).user)
    lines = f"rate-cards/{card.pk}/lines"
    price = {"pool": "h100", "usage_class": "guaranteed", "price_nano": 5}
    first = caller.post(lines, price).json()
    assert first["start"] == first["added_at"]
    start = "2098-01-01T00:00:00Z"
    body = {**price, "price_nano": 6, "start": start, "ends_current": True}
    second = caller.post(lines, body).json()
    (shown,) = caller.get("rate-cards").json()["items"]
    assert [line["end"] for line in shown["lines"]] == [start, None]
    asked = f"rate-cards/{card.pk}/comparison?first={first['start']}&second={start}"
    found = caller.get(asked).json()
    pay_per_use = {"mode": "pay_per_use", "multiplier_ppm": 1_000_000, "cost_nano": 0}
    assert found["prices"] == [
        {
            "pool": "h100",
            "device": "gpu",
            "usage_class": "guaranteed",
            "change_ppm": 200_000,
            "mgpu_s": 0,
            "first": {**pay_per_use, "price_nano": 5},
            "second": {**pay_per_use, "price_nano": 6},
        }
    ]
    assert found["change_ppm"] is None
    assert caller.get(f"{asked}&start=2026-11-01T00:00:00Z").status_code == 400
    assert caller.delete(f"{lines}/{second['id']}").status_code == 204
    assert caller.delete(f"{lines}/{first['id']}").status_code == 409
    a_metered_attempt(company.nlp, 0, 3_600, mgpu=1_000)
    report = "reports/chargeback?start=2026-11-01T00:00:00Z&end=2026-11-02T00:00:00Z"
    assert caller.get(report).json()["totals"]["cost_nano"] == 0
    assert caller.get(f"{report}&priced_at={start}").json()["totals"]["cost_nano"] == 5
