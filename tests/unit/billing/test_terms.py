"""Terms of pools worked out by hand: commitment, showback, multipliers, minimums and increments.

Each amount is the same in the reports, the CSV, the charges, the frozen charges and the spending of
budgets.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.db import IntegrityError, transaction

from billing.amounts import Amounts
from billing.charges import Charge, charges_of
from billing.daily_charges import charges_between
from billing.metering import UnpaidSpan, record_unpaid
from billing.models import PoolTerms, RateCard
from billing.periods import Period
from billing.pricing import Terms, add_terms, cancel_terms, end_terms
from billing.queries import PresentCost, present_cost, present_prices
from billing.spending import Span, spent_in
from builders.api_callers import by_token
from builders.billing_builders import (
    LATER,
    a_metered_attempt,
    a_rate_card,
    at,
    record_fault,
    terms_of,
)
from builders.chargeback_builders import all_jobs, report_of
from builders.portal_builders import Company, a_company, a_pool, a_quota, an_actor
from chargeback.dimensions import Dimension
from chargeback.group_csv import csv_lines
from chargeback.price_comparison import PriceAt, TeamPair, compare_prices
from chargeback.reports import Asked, Narrowed, grouped_report
from primitives.errors import Conflict, InvalidRequest, NotFound
from quotas.models import Quota, QuotaChange
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
A_DAY = 86_400
#: November of New York has 721 hours: it begins at 4 o'clock UTC and ends at 5.
NEW_YORK = (at(4 * HOUR), datetime(2026, 12, 1, 5, tzinfo=UTC))
#: 16 November, midnight in New York.
MIDDLE = 15 * A_DAY + 5 * HOUR
AFTER = datetime(2026, 12, 2, tzinfo=UTC)
EURO = 1_000_000_000
#: Later than any clock that runs these tests.
FUTURE = datetime(2090, 5, 1, tzinfo=UTC)


def finance_of(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fin")


def everywhere(
    company: Company, start: datetime, end: datetime, finance: Actor | None = None
) -> tuple[Amounts, list[Charge]]:
    """The report's totals and the charges, whose sums agree with the CSV and the spending."""
    finance = finance or finance_of(company)
    period = Period(start, end, AFTER)
    report = report_of(finance, period, Dimension.USAGE_CLASS)
    charges = [
        row
        for batch in charges_of(actor=finance, period=period, node_path="ai-company")
        for row in batch.rows
    ]
    total = report.totals
    assert total.mgpu_s == report.segments_mgpu_s == sum(row.mgpu_s for row in charges)
    assert total.cost_nano == sum(row.billed_cost_nano for row in charges)
    assert total.showback_nano == sum(
        row.list_cost_nano for row in charges if row.mode == "showback"
    )
    rows = list(csv.DictReader(StringIO("".join(csv_lines(report)))))
    assert sum(Decimal(row["cost"]) for row in rows) == Decimal(total.cost_nano).scaleb(-9)
    shown = sum(Decimal(row["showback_cost"]) for row in rows)
    assert shown == Decimal(total.showback_nano).scaleb(-9)
    costs: Counter[str] = Counter()
    for charge in charges:
        costs[charge.usage_class] += charge.billed_cost_nano
    for row in rows:
        nano = int(Decimal(row["cost"]).scaleb(9))
        costs[row["usage_class"]] -= nano
    assert not any(costs.values())
    behind = all_jobs(finance, period, Narrowed(node_path="ai-company"))
    assert sum(job.cost_nano for job in behind) == total.cost_nano
    assert sum(job.mgpu_s for job in behind) == total.mgpu_s
    by_time_and_class = grouped_report(
        actor=finance,
        by=[Dimension.DAY, Dimension.USAGE_CLASS],
        asked=Asked(start, end, AFTER),
        now=AFTER,
    )
    assert replace(by_time_and_class.totals, jobs=total.jobs) == total
    by_user = grouped_report(
        actor=finance, by=[Dimension.USER], asked=Asked(start, end, AFTER), now=AFTER
    )
    assert by_user.totals == total
    frozen = charges_between(company.organization.pk, start, end)
    assert sum(one.cost_nano for one in frozen.values()) == total.cost_nano
    teams = [company.nlp, company.vision, company.inference]
    spans = [Span(team.pk, start, end) for team in teams]
    spent = spent_in(spans, [company.pool.pk])
    assert sum(one.cost_nano for one in spent) == total.cost_nano
    assert sum(one.mgpu_s for one in spent) == total.mgpu_s
    return total, charges


def test_a_commitment_is_billed_for_721_hours_of_new_yorks_november_used_or_not() -> None:
    """32 GPUs x 721 h x 2 EUR. Nlp uses 8 of its 8 GPUs for an hour at a multiplier of 1.5, and
    nothing more is billed. Vision borrows 4 GPUs for an hour at 1 EUR.

    Against: 720 hours; use inside the guarantee billed again, or at its multiplier."""
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(card, "commitment")
    a_metered_attempt(company.nlp, A_DAY, A_DAY + HOUR, multiplier_ppm=1_500_000)
    a_metered_attempt(company.vision, A_DAY, A_DAY + HOUR, mgpu=4_000, guaranteed_mgpu=0)
    total, charges = everywhere(company, *NEW_YORK)
    assert total.commitment_mgpu_s == 32_000 * 721 * HOUR
    assert total.commitment_cost_nano == 46_144 * EURO
    assert (total.guaranteed_cost_nano, total.borrowed_cost_nano) == (0, 4 * EURO)
    assert total.cost_nano == 46_148 * EURO
    (used,) = [row for row in charges if row.usage_class == "guaranteed"]
    assert (used.multiplier_ppm, used.price_nano) == (1_000_000, 2 * EURO)
    assert (used.list_cost_nano, used.billed_cost_nano, used.effective_cost_nano) == (
        16 * EURO,
        0,
        16 * EURO,
    )
    committed = [row for row in charges if row.usage_class == "commitment"]
    # 31 UTC days touch the month; three teams each.
    assert len(committed) == 31 * 3
    first = next(row for row in committed if row.team == "ai-company/research/nlp")
    assert (first.start, first.end) == (NEW_YORK[0], at(A_DAY))
    assert (first.mgpu_s, first.priced_mgpu_s) == (0, 8_000 * 20 * HOUR)
    assert (first.billed_cost_nano, first.effective_cost_nano) == (320 * EURO, 0)
    assert (first.job_id, first.attempt_id, first.user, first.cluster) == ("", "", "", "")


def test_a_mode_changes_in_the_middle_of_a_month() -> None:
    """Until 16 November in New York what is used is billed, from then on the guarantee.

    An hour of 8 GPUs before costs 16 EUR. From then on 32 GPUs x 360 h x 2 EUR. An hour of 8 GPUs
    across the change is half billed. Against: the mode of the month's start for all of it."""
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(card, "commitment", start=MIDDLE)
    a_metered_attempt(company.nlp, A_DAY, A_DAY + HOUR)
    a_metered_attempt(company.nlp, MIDDLE - HOUR // 2, MIDDLE + HOUR // 2)
    total, _ = everywhere(company, *NEW_YORK)
    assert total.guaranteed_cost_nano == 16 * EURO + 8 * EURO
    assert total.commitment_cost_nano == 32 * 360 * 2 * EURO


def test_commitments_of_days_sum_to_the_month() -> None:
    """A guarantee of 1 GPU at 1,200,010 nano: a day is 28,800,240 nano, and an odd second rounds.

    Against: each span rounded for itself."""
    company = a_company()
    Quota.objects.filter(node__in=[company.vision, company.inference]).update(guaranteed_mgpu=0)
    Quota.objects.filter(node=company.nlp).update(guaranteed_mgpu=1)
    card = a_rate_card(company.organization, {"guaranteed": 1_200_010})
    terms_of(card, "commitment", start=0)
    total, charges = everywhere(company, at(0), at(3 * A_DAY))
    assert [row.billed_cost_nano for row in charges] == [28_800, 28_800, 28_801]
    assert total.commitment_cost_nano == 86_401


def test_a_commitment_follows_the_guarantee_to_the_second() -> None:
    """Nlp has 8 GPUs for an hour, then 4 for an hour, then 2, of which 1 EUR each is billed.

    Against: the present guarantee for all times; a quota counted before it existed."""
    company = a_company()
    Quota.objects.filter(node__in=[company.vision, company.inference]).update(guaranteed_mgpu=0)
    quota = Quota.objects.get(node=company.nlp)
    for second, before, after in ((HOUR, 8_000, 4_000), (2 * HOUR, 4_000, 2_000)):
        QuotaChange.objects.create(
            quota=quota,
            at=at(second) + timedelta(milliseconds=300),
            before={"guaranteed_mgpu": before, "lend_limit_mgpu": None},
            after={"guaranteed_mgpu": after, "lend_limit_mgpu": None},
            reason="x",
        )
    Quota.objects.filter(pk=quota.pk).update(guaranteed_mgpu=2_000)
    other = a_pool("a100")
    for node in (company.organization, company.research):
        a_quota(node, other, 8)
    late = a_quota(company.nlp, other, 8)
    QuotaChange.objects.create(
        quota=late,
        at=at(2 * HOUR),
        before=None,
        after={"guaranteed_mgpu": 8_000, "lend_limit_mgpu": None},
        reason="x",
    )
    card = a_rate_card(company.organization, {"guaranteed": EURO})
    a_rate_card(company.organization, {"guaranteed": EURO}, pool=other)
    terms_of(card, "commitment")
    terms_of(card, "commitment", pool=other)
    report = report_of(finance_of(company), Period(at(0), at(3 * HOUR), LATER))
    assert [(row.keys[1], row.amounts.commitment_cost_nano) for row in report.rows] == [
        ("a100", 8 * EURO),
        ("h100", (8 + 4 + 2) * EURO),
    ]


def test_a_commitment_without_a_price_costs_nothing_and_its_use_is_unpriced() -> None:
    company = a_company()
    card = a_rate_card(company.organization, {"borrowed": EURO})
    terms_of(card, "commitment")
    a_metered_attempt(company.nlp)
    total, charges = everywhere(company, at(0), at(HOUR))
    assert (total.commitment_mgpu_s, total.cost_nano) == (0, 0)
    assert total.unpriced_mgpu_s == 8_000 * HOUR
    assert [row.usage_class for row in charges] == ["guaranteed"]


def test_showback_is_in_reports_and_in_no_cost() -> None:
    """An hour of 6 guaranteed and 2 borrowed GPUs would cost 12 + 2 EUR.

    Against: showback billed; showback in the costs of budgets."""
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(card, "showback")
    a_metered_attempt(company.nlp, guaranteed_mgpu=6_000)
    total, charges = everywhere(company, at(0), at(HOUR))
    assert (total.cost_nano, total.showback_nano) == (0, 14 * EURO)
    assert (total.showback_guaranteed_nano, total.showback_borrowed_nano) == (12 * EURO, 2 * EURO)
    assert [
        (row.list_cost_nano, row.billed_cost_nano, row.effective_cost_nano, row.mode)
        for row in charges
    ] == [(12 * EURO, 0, 0, "showback"), (2 * EURO, 0, 0, "showback")]


def test_multipliers_of_classes_multiply_the_prices() -> None:
    """Unpaid use without a price costs 30 % of the price of borrowed use, guaranteed use 110 %.

    An hour of 4 GPUs each: 2.20 EUR, 1 EUR, 0.30 EUR, twice for the priority class.
    Against: unpaid use at the multiplier of borrowed use."""
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(
        card, "pay_per_use", guaranteed_ppm=1_100_000, borrowed_ppm=1_000_000, unpaid_ppm=300_000
    )
    attempt = a_metered_attempt(
        company.nlp, mgpu=12_000, guaranteed_mgpu=4_000, multiplier_ppm=2_000_000
    )
    record_unpaid(
        [UnpaidSpan(attempt.pk, at(0), at(HOUR), 4_000)],
        organization_id=company.organization.pk,
        pool_id=company.pool.pk,
        start=at(0),
        end=at(HOUR),
        now=LATER,
    )
    total, charges = everywhere(company, at(0), at(HOUR))
    assert total.guaranteed_cost_nano == 17_600_000_000
    assert total.borrowed_cost_nano == 8 * EURO
    assert total.unpaid_cost_nano == 2_400_000_000
    assert [(row.price_nano, row.class_multiplier_ppm) for row in charges] == [
        (2_200_000_000, 1_100_000),
        (1_000_000_000, 1_000_000),
        (300_000_000, 300_000),
    ]
    hour = {
        "organization_id": company.organization.pk,
        "pool_id": company.pool.pk,
        "guaranteed_mgpu": 4_000,
        "borrowed_mgpu": 4_000,
        "multiplier_ppm": 2_000_000,
        "seconds": 3_600,
        "now": at(60),
    }
    assert present_cost(**hour) == PresentCost(25_600_000_000, 0, "pay_per_use", "EUR")


@pytest.mark.parametrize(
    ("price_nano", "ppm", "cost_nano"),
    [(1, 500_000, 0), (3, 500_000, 2), (5, 500_000, 2), (7, 333_333, 2), (1, 2_000_000, 2)],
)
def test_a_multiplied_price_is_rounded_half_to_even_in_both_languages(
    price_nano: int, ppm: int, cost_nano: int
) -> None:
    """Against, in the SQL: half rounded up."""
    company = a_company()
    card = a_rate_card(company.organization, {"guaranteed": price_nano})
    terms_of(card, "pay_per_use", guaranteed_ppm=ppm)
    a_metered_attempt(company.nlp, mgpu=1_000)
    total, _ = everywhere(company, at(0), at(HOUR))
    assert total.cost_nano == cost_nano
    present = present_prices(company.organization.pk, [company.pool.pk], now=at(60))
    assert present.billed_nano == {(company.pool.pk, "guaranteed"): cost_nano}


@pytest.mark.parametrize(
    ("minimum_s", "increment_s", "seconds", "missing_s"),
    [
        (300, 1, 61, 239),
        (300, 60, 301, 59),
        (300, 60, 300, 0),
        (0, 60, 61, 59),
        (0, 60, 120, 0),
        (90, 60, 61, 59),
        (0, 1, 61, 0),
    ],
)
def test_a_minimum_and_an_increment_are_a_charge_of_their_own(
    minimum_s: int, increment_s: int, seconds: int, missing_s: int
) -> None:
    """2 guaranteed GPUs at 2 EUR and 6 borrowed ones at 1 EUR: 10 EUR an hour. Use stays exact.

    Against: the increment before the minimum alone; a top-up that counts as use."""
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(card, "pay_per_use", minimum_s=minimum_s, increment_s=increment_s)
    a_metered_attempt(company.nlp, 0, seconds, guaranteed_mgpu=2_000)
    total, charges = everywhere(company, at(0), at(HOUR))
    assert total.mgpu_s == 8_000 * seconds
    assert total.top_up_mgpu_s == 8_000 * missing_s
    top_ups = [row for row in charges if row.usage_class == "top_up"]
    guaranteed, borrowed = (round(price * missing_s * EURO / HOUR) for price in (4, 6))
    assert total.top_up_cost_nano == guaranteed + borrowed
    assert (
        sorted(row.billed_cost_nano for row in top_ups)
        == [guaranteed, borrowed][: 2 if missing_s else 0]
    )
    assert all(row.attempt == 1 and row.mgpu_s == 0 for row in top_ups)


def test_a_top_up_is_of_the_day_and_the_terms_of_the_last_second() -> None:
    """An attempt ends at midnight, when its minimum ends, too. The day before has all of it.

    Against: the second after the last one; the terms of the start."""
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(card, "pay_per_use", minimum_s=60, start=A_DAY - 10, end=A_DAY)
    a_metered_attempt(company.nlp, A_DAY - 30, A_DAY, mgpu=1_000)
    finance = finance_of(company)
    whole, charges = everywhere(company, at(0), at(2 * A_DAY), finance)
    assert whole.top_up_mgpu_s == 30_000
    (top_up,) = [row for row in charges if row.usage_class == "top_up"]
    assert (top_up.start, top_up.end) == (at(0), at(A_DAY))
    for start, end, missing in ((0, A_DAY - 1, 0), (0, A_DAY, 30_000), (A_DAY, 2 * A_DAY, 0)):
        total, _ = everywhere(company, at(start), at(end), finance)
        assert total.top_up_mgpu_s == missing


def test_faults_running_attempts_and_commitments_get_no_top_up() -> None:
    """Against: a minimum for a fault; for a running attempt; for use that a commitment pays."""
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(card, "commitment", minimum_s=7_200)
    a_metered_attempt(company.nlp, 0, None)
    a_metered_attempt(company.nlp, 0, 60)
    broken = a_metered_attempt(company.vision, 0, 60, guaranteed_mgpu=0)
    record_fault(broken.pk, at(30), LATER, "node_failed")
    finance = finance_of(company)
    total, _ = everywhere(company, at(0), at(HOUR), finance)
    assert total.top_up_mgpu_s == 0
    a_metered_attempt(company.vision, 0, 3_600, mgpu=1_000, guaranteed_mgpu=0)
    total, _ = everywhere(company, at(0), at(HOUR), finance)
    assert (total.top_up_mgpu_s, total.top_up_cost_nano) == (3_600_000, EURO)


def test_present_prices_know_the_terms() -> None:
    """Against: the scheduled terms for the present ones."""
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(card, "commitment", start=0, end=100)
    terms_of(card, "showback", start=100)
    pool = company.pool.pk

    def billed(second: int) -> list[int]:
        return list(
            present_prices(company.organization.pk, [pool], now=at(second)).billed_nano.values()
        )

    assert billed(-1) == [2 * EURO, EURO, EURO]
    assert billed(0) == [0, EURO, EURO]
    assert billed(100) == [0, 0, 0]
    found = present_prices(company.organization.pk, [pool], now=at(100))
    assert (found.mode(pool), found.currency) == ("showback", "EUR")


def test_a_comparison_of_terms_splits_by_mode_and_team() -> None:
    """An hour of 8 guaranteed GPUs of nlp: 16 EUR, or 64 EUR for the commitment of 32 GPUs."""
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(card, "commitment", start=HOUR, end=2 * HOUR)
    terms_of(card, "showback", start=2 * HOUR, unpaid_ppm=500_000)
    a_metered_attempt(company.nlp, 0, HOUR)
    finance = finance_of(company)
    found = [
        compare_prices(
            card.pk,
            first=at(0),
            second=at(second),
            period=Period(at(0), at(HOUR), at(HOUR)),
            actor=finance,
            now=at(3 * HOUR),
        )
        for second in (HOUR, 2 * HOUR)
    ]
    committed = {pair.usage_class.value: pair for pair in found[0].pairs}
    assert committed["guaranteed"].first == PriceAt("pay_per_use", 2 * EURO, 1_000_000, 16 * EURO)
    assert committed["guaranteed"].second == PriceAt("commitment", 2 * EURO, 1_000_000, 0)
    assert committed["commitment"].second == PriceAt("commitment", 2 * EURO, 1_000_000, 64 * EURO)
    assert committed["commitment"].mgpu_s == 32_000 * HOUR
    assert found[0].teams == (
        TeamPair("ai-company/production/inference", 0, 32 * EURO, 0, 0),
        TeamPair("ai-company/research/vision", 0, 16 * EURO, 0, 0),
        TeamPair("ai-company/research/nlp", 16 * EURO, 16 * EURO, 0, 0),
    )
    assert (found[0].charged_cost_nano, found[0].change_ppm) == (16 * EURO, 3_000_000)
    shown = {pair.usage_class.value: pair for pair in found[1].pairs}
    assert shown["unpaid"].second == PriceAt("showback", EURO // 2, 500_000, 0)
    assert (found[1].second_cost_nano, found[1].second_showback_nano) == (0, 16 * EURO)


def add(card: RateCard, actor: Actor, mode: str, start: datetime | None, **rest: bool) -> PoolTerms:
    return add_terms(
        card.pk,
        pool_name="h100",
        values=Terms(mode=mode),
        start=start,
        end=None,
        actor=actor,
        now=FUTURE,
        **rest,
    )


def test_terms_are_scheduled_and_never_changed_where_they_stood() -> None:
    """A commitment for the past is a correction where none stood, and refused where one stood.

    Against: the current terms ended in the past."""
    company = a_company()
    card, fin = a_rate_card(company.organization, {}), finance_of(company)
    first = add(card, fin, "showback", FUTURE - timedelta(days=9))
    assert (first.is_correction, first.added_by) == (True, "fin@ai-company")
    with pytest.raises(Conflict, match=r"h100 has terms from .* What has applied never changes\."):
        add(card, fin, "commitment", FUTURE - timedelta(days=5), ends_current=True)
    second = add(card, fin, "commitment", FUTURE + timedelta(days=5), ends_current=True)
    first.refresh_from_db()
    assert first.end == second.start
    with pytest.raises(Conflict, match="Cancel those terms first"):
        add(card, fin, "pay_per_use", second.start)
    cancel_terms(card.pk, second.pk, actor=fin, now=FUTURE)
    first.refresh_from_db()
    assert first.end is None
    with pytest.raises(Conflict, match="End those terms instead"):
        cancel_terms(card.pk, first.pk, actor=fin, now=FUTURE)
    ended = end_terms(card.pk, first.pk, None, actor=fin, now=FUTURE)
    assert ended.end == FUTURE
    stranger = an_actor(a_company("other").organization, Role.FINANCE)
    with pytest.raises(NotFound):
        end_terms(card.pk, first.pk, None, actor=stranger, now=FUTURE)


def test_terms_change_no_past_that_had_prices() -> None:
    """The pool was pay-per-use then, without a row that says so. Against: showback since October,
    and a month that cost 48.00 costs nothing."""
    company = a_company()
    card, fin = a_rate_card(company.organization), finance_of(company)
    with pytest.raises(Conflict, match=r"h100 had prices then\. What has applied never changes\."):
        add(card, fin, "showback", FUTURE - timedelta(days=9))
    assert add(card, fin, "showback", None).start == FUTURE


def test_values_out_of_range_are_refused_with_their_ranges() -> None:
    company = a_company()
    card = a_rate_card(company.organization, {})
    with pytest.raises(InvalidRequest) as refusal:
        add_terms(
            card.pk,
            pool_name="h1000",
            values=Terms(guaranteed_ppm=100_000_001, increment_s=0, minimum_s=86_401),
            start=FUTURE,
            end=FUTURE,
            actor=finance_of(company),
            now=FUTURE,
        )
    assert [error.pointer for error in refusal.value.errors] == [
        "/pool",
        "/guaranteed_ppm",
        "/minimum_s",
        "/increment_s",
        "/end",
    ]


def refused(constraint: str, card: RateCard, mode: str = "showback", **values: int) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        terms_of(card, mode, start=10 * A_DAY, **values)


def test_the_database_refuses_terms_that_make_no_sense() -> None:
    company = a_company()
    card = a_rate_card(company.organization, {})
    terms = terms_of(card, "showback", end=A_DAY)
    refused("terms_mode_is_known", card, "free")
    refused("terms_multipliers_are_sane", card, unpaid_ppm=100_000_001)
    refused("terms_bill_at_most_a_day_more", card, increment_s=0)
    refused("terms_bill_at_most_a_day_more", card, minimum_s=86_401)
    refused("terms_have_a_length", card, end=10 * A_DAY)
    with pytest.raises(IntegrityError, match="pool_has_one_mode_at_a_time"), transaction.atomic():
        terms_of(card, "commitment", start=0)
    with pytest.raises(IntegrityError, match="changes_only_its_end"), transaction.atomic():
        PoolTerms.objects.filter(pk=terms.pk).update(mode="commitment")
    old = datetime.now(UTC) - timedelta(days=9)
    past = PoolTerms.objects.create(
        card=card, pool=a_pool("a100"), mode="showback", start=old, end=old + timedelta(days=1)
    )
    with pytest.raises(IntegrityError, match="stays_after_its_start"), transaction.atomic():
        past.delete()
    with pytest.raises(IntegrityError, match="keeps_its_past"), transaction.atomic():
        PoolTerms.objects.filter(pk=past.pk).update(end=old + timedelta(days=2))


def test_terms_over_rest() -> None:
    """Terms are made, listed with the card, ended and cancelled."""
    company = a_company()
    card = a_rate_card(company.organization, {})
    caller = by_token(finance_of(company).user)
    path = f"rate-cards/{card.pk}/terms"
    body = {"pool": "h100", "mode": "showback", "unpaid_ppm": 300_000, "minimum_s": 300}
    first = caller.post(path, body).json()
    assert (first["increment_s"], first["guaranteed_ppm"]) == (1, 1_000_000)
    start = "2098-01-01T00:00:00Z"
    later = {"pool": "h100", "mode": "commitment", "start": start, "ends_current": True}
    second = caller.post(path, later).json()
    (shown,) = caller.get("rate-cards").json()["items"]
    assert [(each["mode"], each["end"]) for each in shown["terms"]] == [
        ("showback", start),
        ("commitment", None),
    ]
    assert caller.post(path, {**body, "mode": "free"}).status_code == 400
    refusal = caller.post(path, {**body, "start": start})
    assert refusal.json()["conflicts_with"] == second["id"]
    assert caller.delete(f"{path}/{second['id']}").status_code == 204
    end = "2097-01-01T00:00:00Z"
    assert caller.patch(f"{path}/{first['id']}", {"end": end}).json()["end"] == end
