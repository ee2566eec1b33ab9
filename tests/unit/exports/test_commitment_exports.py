"""FOCUS Contract Commitment: the commitments of a month, with what was bought of them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from billing.models import PoolTerms, RateCard
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card, terms_of
from builders.export_builders import cells_of, exported
from builders.period_builders import DECEMBER, DUE, close
from builders.portal_builders import Company, a_company, a_pool, an_actor
from exports.models import Export
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

A_DAY = 86_400


@pytest.fixture
def company(settings: LazySettings, tmp_path: Path) -> Company:
    """Teams are guaranteed 32 GPUs. They are committed at 2 EUR until 10 November, then anew."""
    settings.EXPORTS_DIR = tmp_path / "exports"
    company = a_company()
    card = a_rate_card(company.organization)
    terms_of(card, "commitment", end=10 * A_DAY)
    terms_of(card, "commitment", start=10 * A_DAY, end=12 * A_DAY, guaranteed_ppm=500_000)
    terms_of(card, "showback", start=12 * A_DAY, end=20 * A_DAY)
    terms_of(card, "pay_per_use", pool=a_pool("cpu", device="cpu"))
    a_metered_attempt(company.nlp)
    return company


@pytest.fixture
def finance(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fin")


def written(actor: Actor, now: datetime = LATER, **changes: Any) -> Export:
    given = {"dataset": "focus_contract_commitment", "start": DAY, "end": DECEMBER, **changes}
    return exported(actor, now, **given)


def test_a_commitment_in_the_words_of_focus(company: Company, finance: Actor) -> None:
    """Its id joins it to Cost and Usage, whose purchases sum to its cost.

    Against: the quantity of the month in place of the commitment's days; all charges bought."""
    first, second = PoolTerms.objects.filter(mode="commitment").order_by("start")
    export = written(finance)
    rows = cells_of(export)
    assert [row["ContractCommitmentId"].rpartition(":")[2] for row in rows] == [
        str(first.pk), str(second.pk),
    ]  # fmt: skip
    assert {name: rows[0][name] for name in _WORDS} == _WORDS
    assert json.loads(rows[0]["ContractCommitmentApplicability"]) == {
        "InclusionOperator": "And",
        "Inclusions": [
            {"Dimension": "BillingAccountId", "Operator": "In", "Values": ["ai-company"]},
            {"Dimension": "SkuId", "Operator": "In", "Values": ["h100"]},
            {"Dimension": "SkuMeter", "Operator": "In", "Values": ["guaranteed"]},
        ],
    }
    shown = ("ContractCommitmentQuantity", "ContractCommitmentCost")
    assert tuple(rows[1][name] for name in shown) == ("1536.000000000000", "1536.000000000")
    charges = cells_of(written(finance, dataset="focus_cost_and_usage"))
    for row in rows:
        name = row["ContractCommitmentId"]
        bought = [one for one in charges if one["ChargeCategory"] == "Purchase"]
        theirs = [one for one in bought if one["CommitmentDiscountId"] == name]
        billed = sum(Decimal(one["BilledCost"]) for one in theirs)
        assert billed == Decimal(row["ContractCommitmentCost"])
    assert export.manifest is not None
    (sums,) = export.manifest["sums"]
    assert (sums["rows"], sums["billed_cost_nano"]) == (2, (15_360 + 1_536) * 10**9)


_WORDS = {
    "BillingCurrency": "EUR",
    "ContractCommitmentBenefitCategory": "Availability",
    "ContractCommitmentCategory": "Usage",
    "ContractCommitmentCost": "15360.000000000",
    "ContractCommitmentCreated": "2026-10-31T00:00:00Z",
    "ContractCommitmentDescription": "Guarantee of h100, billed each month, used or not",
    "ContractCommitmentDurationType": "1 Month",
    "ContractCommitmentLastUpdated": "2026-11-21T00:00:00Z",
    "ContractCommitmentLifecycleStatus": "Superseded",
    "ContractCommitmentPeriodEnd": "2026-11-11T00:00:00Z",
    "ContractCommitmentPeriodStart": "2026-11-01T00:00:00Z",
    "ContractCommitmentQuantity": "7680.000000000000",
    "ContractCommitmentUnit": "GPU-Hours",
    "ContractPeriodStart": "2026-10-31T00:00:00Z",
    "InvoiceIssuerName": "Tidegate",
}


@pytest.mark.parametrize(
    ("as_of", "found"),
    [
        (5, [("Active", "3840.000000000000")]),
        (11, [("Superseded", "7680.000000000000"), ("Active", "768.000000000000")]),
        (12, [("Superseded", "7680.000000000000"), ("Expired", "1536.000000000000")]),
    ],
)
def test_a_commitment_that_runs_counts_until_the_moment_of_the_file(
    company: Company, finance: Actor, as_of: int, found: list[tuple[str, str]]
) -> None:
    """Against: a commitment of later in the month; the whole month's quantity."""
    rows = cells_of(written(finance, as_of=DAY + timedelta(days=as_of)))
    shown = ("ContractCommitmentLifecycleStatus", "ContractCommitmentQuantity")
    assert [tuple(row[name] for name in shown) for row in rows] == found


def test_the_file_of_a_closed_month_never_changes(company: Company, finance: Actor) -> None:
    """A commitment that is added later for a past time is not in it. A team has its own part.

    Against: commitments that were added after the closing."""
    close(company, finance, "2026-11", "known")
    before = written(finance, DUE)
    PoolTerms.objects.create(
        card=RateCard.objects.get(), pool=company.pool, mode="commitment",
        start=DAY + timedelta(days=20), added_at=DUE + timedelta(seconds=1),
    )  # fmt: skip
    later = DUE + timedelta(days=1)
    again = written(finance, later)
    assert again.sha256 == before.sha256
    rows = cells_of(written(finance, later, node_path="ai-company/research/nlp"))
    assert [row["ContractCommitmentCost"] for row in rows] == ["3840.000000000", "384.000000000"]
    assert cells_of(written(finance, later, pool_name="cpu")) == []


def test_an_open_commitment_renews_with_the_month(company: Company, finance: Actor) -> None:
    """Against: an empty end of the period."""
    terms_of(RateCard.objects.get(), "commitment", pool=a_pool("a10"))
    (row,) = cells_of(written(finance, pool_name="a10"))
    assert (row["ContractCommitmentPeriodEnd"], row["ContractPeriodEnd"]) == (
        "2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z",
    )  # fmt: skip
    assert row["ContractCommitmentQuantity"] == "0.000000000000"
