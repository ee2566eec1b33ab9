"""The stream of charges: each row, to the unit, and its sums."""

from __future__ import annotations

from datetime import timedelta

import pytest

from billing import charges
from billing.charges import Charge, charges_of
from billing.periods import Period
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card, at
from builders.chargeback_builders import report_of
from builders.portal_builders import a_company, a_user, an_actor
from primitives.errors import Forbidden, NotFound
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
A_DAY = 86_400


def rows_of(actor: Actor, start: int, end: int, path: str = "ai-company") -> list[Charge]:
    period = Period(at(start), at(end), LATER)
    return [
        row
        for batch in charges_of(actor=actor, period=period, node_path=path)
        for row in batch.rows
    ]


def test_a_charge_says_who_used_what_at_which_price() -> None:
    """Half an hour of 8 guaranteed GPUs, then half an hour of 2 guaranteed and 6 borrowed ones."""
    company = a_company()
    card = a_rate_card(company.organization)
    user = a_user(company.organization, "ada")
    attempt = a_metered_attempt(
        company.nlp, 0, HOUR, classes=[(HOUR // 2, 2_000)], user=user, multiplier_ppm=1_500_000
    )
    finance = an_actor(company.organization, Role.FINANCE)
    guaranteed, borrowed = rows_of(finance, 0, 2 * HOUR)
    line = card.lines.get(usage_class="guaranteed")
    assert guaranteed == Charge(
        start=at(0),
        end=at(2 * HOUR),
        organization="ai-company",
        department="research",
        team="ai-company/research/nlp",
        user_id=str(user.pk),
        user="ada",
        cluster=attempt.cluster.name,
        pool="h100",
        device="gpu",
        usage_class="guaranteed",
        priority_class="normal",
        multiplier_ppm=1_500_000,
        job_id=str(attempt.job_id),
        job_name="train",
        attempt_id=str(attempt.pk),
        attempt=1,
        mgpu_s=(8_000 + 2_000) * 1_800,
        rate_line=str(line.pk),
        price_nano=2_000_000_000,
        list_cost_nano=15_000_000_000,
        contracted_cost_nano=15_000_000_000,
        billed_cost_nano=15_000_000_000,
        effective_cost_nano=15_000_000_000,
        currency="EUR",
        mode="pay_per_use",
        class_multiplier_ppm=1_000_000,
        priced_mgpu_s=(8_000 + 2_000) * 1_800,
        fault="",
    )
    assert (borrowed.usage_class, borrowed.mgpu_s) == ("borrowed", 6_000 * 1_800)
    assert (borrowed.billed_cost_nano, borrowed.price_nano) == (4_500_000_000, 1_000_000_000)


def test_days_split_a_charge_and_change_no_sum() -> None:
    """Each day costs 28,800.24 nano. The third brings the sum to 86,400.72, which is 86,401.

    Against: each day rated for itself, 28,800 three times."""
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 1_200_010})
    a_metered_attempt(company.nlp, 0, 3 * A_DAY, mgpu=1)
    finance = an_actor(company.organization, Role.FINANCE)
    rows = rows_of(finance, 0, 3 * A_DAY)
    assert [(row.start, row.end) for row in rows] == [
        (DAY + timedelta(days=day), DAY + timedelta(days=day + 1)) for day in range(3)
    ]
    assert [row.mgpu_s for row in rows] == [A_DAY] * 3
    period = Period(at(0), at(3 * A_DAY), LATER)
    report = report_of(finance, period)
    assert [row.billed_cost_nano for row in rows] == [28_800, 28_800, 28_801]
    assert report.totals.cost_nano == 86_401
    assert rows_of(finance, 0, A_DAY) + rows_of(finance, A_DAY, 3 * A_DAY) == rows


def test_use_without_a_price_has_no_rate_line_and_costs_nothing() -> None:
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 1_200_000}, start=10, end=20)
    a_metered_attempt(company.nlp, 0, 40, mgpu=1_000)
    finance = an_actor(company.organization, Role.FINANCE)
    found = {row.price_nano: (row.mgpu_s, row.billed_cost_nano) for row in rows_of(finance, 0, 40)}
    assert found == {1_200_000: (10_000, 3_333), None: (30_000, 0)}


def test_the_stream_has_a_bound_and_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three attempts on the first of two days, two rows at a time.

    Planted: all rows of a day fetched at once."""
    monkeypatch.setattr(charges, "BATCH_ROWS", 2)
    company = a_company()
    for second in range(3):
        a_metered_attempt(company.nlp, second, HOUR, mgpu=1_000)
    finance = an_actor(company.organization, Role.FINANCE)
    period = Period(at(0), at(2 * A_DAY), LATER)
    batches = list(charges_of(actor=finance, period=period, node_path="ai-company"))
    assert [(len(one.rows), one.days_done, one.days) for one in batches] == [
        (2, 0, 2),
        (1, 0, 2),
        (0, 1, 2),
        (0, 2, 2),
    ]


def test_a_lead_gets_the_charges_of_the_own_team_only() -> None:
    """A researcher gets none, and a team of others does not exist for a stranger."""
    company = a_company()
    a_metered_attempt(company.nlp, 0, 10, mgpu=1_000)
    a_metered_attempt(company.vision, 0, 10, mgpu=2_000)
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    assert [row.mgpu_s for row in rows_of(lead, 0, 10, "ai-company/research/nlp")] == [10_000]
    with pytest.raises(Forbidden):
        rows_of(lead, 0, 10, "ai-company")
    with pytest.raises(Forbidden):
        rows_of(an_actor(company.nlp, Role.RESEARCHER), 0, 10, "ai-company/research/nlp")
    with pytest.raises(NotFound):
        rows_of(an_actor(a_company("elsewhere").organization, Role.FINANCE), 0, 10)
