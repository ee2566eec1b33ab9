"""FOCUS files that the portal writes: the checker finds no fault, and nobody finds a person."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import IntegrityError, transaction

from billing.models import RateCard
from billing.periods import Period
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, terms_of
from builders.chargeback_builders import report_of
from builders.portal_builders import Company, a_company, a_pool, a_team, a_user, an_actor
from exports.files import file_of
from exports.models import Export, PseudonymKey
from exports.requests import request_export
from exports.running import run_next
from focus.files import opened
from focus.rules import faults_of
from primitives.errors import InvalidRequest
from quotas.models import OrganizationPolicy
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
NOVEMBER = (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
DATASETS = {"focus_cost_and_usage": "CostAndUsage", "focus_billing_period": "BillingPeriod"}


@pytest.fixture(autouse=True)
def _folder(settings: LazySettings, tmp_path: Path) -> None:
    settings.EXPORTS_DIR = tmp_path / "exports"


@pytest.fixture
def company() -> Company:
    """Uses of all kinds: two days, odd prices and seconds, cores, no price, a formula as name."""
    company = a_company()
    user = a_user(company.organization, "xylophone")
    cores = a_pool("cpu", device="cpu")
    a_rate_card(company.organization, {"guaranteed": 1_234_567_891, "borrowed": 12_345_678_912_345})
    a_metered_attempt(
        company.nlp, 0, 86_400 + 7, user=user, mgpu=333, multiplier_ppm=1_333_333,
        guaranteed_mgpu=100, classes=[(HOUR, 200)], job_name="=1+1",
    )  # fmt: skip
    a_metered_attempt(company.vision, 5, HOUR, user=user, mgpu=64_000)
    a_metered_attempt(company.nlp, 0, HOUR, pool=cores, mgpu=4_000)
    a_metered_attempt(a_team(company.organization, "ops"), 0, HOUR, mgpu=1_000)
    return company


def finance_of(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE)


def requested(actor: Actor, **changes: Any) -> Export:
    given: dict[str, Any] = {
        "dataset": "focus_cost_and_usage",
        "format_name": "csv",
        "node_path": "ai-company",
        "start": NOVEMBER[0],
        "end": NOVEMBER[1],
        "as_of": None,
        "pool_name": None,
        "now": LATER,
    }
    return request_export(actor=actor, **{**given, **changes})


def written(export: Export, tmp_path: Path) -> Path:
    """The file under its own name."""
    assert run_next(lambda: LATER)
    export.refresh_from_db()
    assert export.state == "done", export.message
    path = tmp_path / export.file_name
    path.write_bytes(file_of(export.pk).read_bytes())
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(path.read_bytes().decode(), newline="")))


@pytest.mark.parametrize("format_name", ["csv", "parquet"])
@pytest.mark.parametrize("dataset", DATASETS)
def test_the_checker_finds_no_fault(
    company: Company, tmp_path: Path, dataset: str, format_name: str
) -> None:
    """Against: unit prices with nine decimals (CAU-LIST); a charge of the day, not of its part of
    the month (CAU-WITHIN)."""
    export = requested(finance_of(company), dataset=dataset, format_name=format_name)
    with opened(written(export, tmp_path)) as (header, rows):
        assert faults_of(DATASETS[dataset], header, rows) == []


def test_the_sums_are_those_of_the_report(company: Company, tmp_path: Path) -> None:
    finance = finance_of(company)
    rows = rows_of(written(requested(finance), tmp_path))
    report = report_of(finance, Period(*NOVEMBER, LATER))
    for name in ("BilledCost", "ListCost", "ContractedCost", "EffectiveCost"):
        total = sum(Decimal(row[name]) for row in rows)
        assert total == Decimal(report.totals.cost_nano).scaleb(-9)


def test_a_commitment_is_a_purchase_with_used_and_unused_parts(
    company: Company, tmp_path: Path
) -> None:
    """The checker agrees that they sum to the purchase. Top-ups and showback are usage.

    Against: the purchase counted as effective cost, too; showback billed."""
    card = RateCard.objects.get()
    terms = terms_of(
        card, "commitment", start=-40 * 86_400, end=10 * 86_400, guaranteed_ppm=333_333
    )
    terms_of(card, "showback", start=10 * 86_400, minimum_s=600)
    a_metered_attempt(company.nlp, 86_400, 86_477, mgpu=1_000)
    a_metered_attempt(company.nlp, 12 * 86_400, 12 * 86_400 + 60, mgpu=1_000)
    finance = finance_of(company)
    path = written(requested(finance), tmp_path)
    with opened(path) as (header, found):
        assert faults_of("CostAndUsage", header, found) == []
    rows = rows_of(path)

    def total(name: str, team: str) -> Decimal:
        theirs = (row for row in rows if row["SubAccountName"] == team)
        return sum((Decimal(row[name]) for row in theirs if row["CommitmentDiscountId"]), Decimal())

    # 8 GPUs from 1 to 10 November, at a third of the price.
    price = Decimal("0.411522219")
    assert total("BilledCost", "nlp") == total("EffectiveCost", "nlp") == 8 * 240 * price
    name = f"urn:tidegate:commitment:{terms.pk}"
    assert {row["CommitmentDiscountId"] for row in rows} == {"", name}
    _, unused, *_ = [row for row in rows if row["SubAccountName"] == "inference"]
    assert {key: unused[key] for key in _UNUSED} == {**_UNUSED, "ResourceId": name}
    assert json.loads(unused["ContractApplied"], parse_float=Decimal) == {
        "Elements": [
            {
                "ContractId": name,
                "ContractCommitmentId": name,
                "ContractCommitmentAppliedQuantity": 384,
                "ContractCommitmentAppliedUnit": "GPU-Hours",
            }
        ]
    }
    # The team has no guarantee, so nobody bought its use.
    (beyond,) = [row for row in rows if row["ChargeCategory"] == "Adjustment"]
    assert (beyond["SubAccountName"], beyond["EffectiveCost"], beyond["BilledCost"]) == (
        "ops", "-0.411522219", "0.000000000",
    )  # fmt: skip
    assert beyond["ChargeDescription"] == "Use beyond the guarantee of h100"
    purchases = [row for row in rows if row["ChargeCategory"] == "Purchase"]
    assert {row["ChargeFrequency"] for row in purchases} == {"Recurring"}
    assert {row["x_AttemptId"] + row["RegionId"] for row in purchases} == {""}
    statuses = {row["CommitmentDiscountStatus"] for row in rows}
    assert statuses == {"", "Used", "Unused"}
    shown = [row for row in rows if row["x_Mode"] == "showback"]
    assert {row["SkuMeter"] for row in shown} >= {"guaranteed", "top_up"}
    assert all(Decimal(row["BilledCost"]) == 0 < Decimal(row["ListCost"]) for row in shown)
    assert all(row["ChargeDescription"].endswith(", showback: not billed") for row in shown)


#: Cells of the unused 16 GPUs of inference on 1 November.
_UNUSED = {
    "ChargeFrequency": "Usage-Based",
    "CommitmentDiscountName": "Guarantee of h100",
    "CommitmentDiscountQuantity": "384.000000000000",
    "CommitmentDiscountStatus": "Unused",
    "CommitmentDiscountUnit": "GPU-Hours",
    "ConsumedQuantity": "",
    "ResourceId": "",
    "ResourceName": "Guarantee of h100",
    "ResourceType": "Guaranteed Quota",
    "SkuMeter": "unused",
}


def test_a_charge_in_the_words_of_focus(company: Company, tmp_path: Path) -> None:
    """A team below the organization has no department, and use without a price has a SKU only."""
    rows = rows_of(written(requested(finance_of(company)), tmp_path))
    first = next(row for row in rows if row["SubAccountName"] == "vision")
    assert {name: first[name] for name in _WORDS} == _WORDS
    (cores,) = [row for row in rows if row["SkuId"] == "cpu"]
    assert (cores["PricingUnit"], cores["ResourceType"]) == ("Core-Hours", "core job")
    assert (cores["SkuPriceId"], cores["ListUnitPrice"]) == ("cpu/guaranteed/normal", "")
    assert cores["ChargeDescription"] == "Guaranteed use of cpu, without a price"
    (ops,) = [row for row in rows if row["SubAccountName"] == "ops"]
    assert (ops["SubAccountId"], ops["Tags"]) == ("ai-company/ops", "")


_WORDS = {
    "BillingAccountId": "ai-company",
    "BillingCurrency": "EUR",
    "BillingPeriodStart": "2026-11-01T00:00:00Z",
    "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeClass": "",
    "ChargePeriodStart": "2026-11-01T00:00:00Z",
    "ChargePeriodEnd": "2026-11-02T00:00:00Z",
    "ConsumedQuantity": "63.911111111111",
    "ConsumedUnit": "GPU-Hours",
    "PricingCategory": "Standard",
    "ServiceProviderName": "Tidegate",
    "SkuMeter": "guaranteed",
    "SkuPriceId": "h100/guaranteed/normal",
    "ListUnitPrice": "1.234567891000000",
    "SubAccountId": "ai-company/research/vision",
    "Tags": '{"tidegate/department": "research"}',
}


def test_users_are_pseudonyms(company: Company, tmp_path: Path) -> None:
    """One user has one pseudonym in all files of the organization, and another one elsewhere.

    Against: the plain id of the user; the key of the installation for all."""
    finance = finance_of(company)
    path = written(requested(finance), tmp_path)
    again = written(requested(finance, node_path="ai-company/research/vision"), tmp_path)
    one = {row["x_PrincipalId"] for row in rows_of(path) if row["SubAccountName"] == "vision"}
    assert {row["x_PrincipalId"] for row in rows_of(again)} == one
    assert len(one) == 1
    assert len(next(iter(one))) == 32
    text = path.read_text()
    assert "xylophone" not in text
    user = finance.user.__class__.objects.get(username="xylophone")
    assert str(user.pk) not in text
    PseudonymKey.objects.update(key=b"\1" * 32)
    other = rows_of(written(requested(finance), tmp_path))
    assert {row["x_PrincipalId"] for row in other}.isdisjoint(one)


def test_a_file_is_of_one_month_of_the_organizations_zone(company: Company, tmp_path: Path) -> None:
    """New York's November begins at 4 and ends at 5 o'clock UTC. Its rows lie within.

    Against: months in UTC for all."""
    finance = finance_of(company)
    zone = {"time_zone": "America/New_York"}
    OrganizationPolicy.objects.update_or_create(organization=company.organization, defaults=zone)
    with pytest.raises(InvalidRequest) as refused:
        requested(finance)
    assert refused.value.detail == (
        "A FOCUS file is of one month of America/New_York, such as from 2026-10-01T04:00:00Z to "
        "2026-11-01T04:00:00Z."
    )
    start, end = (
        datetime(2026, 11, 1, 4, tzinfo=UTC),
        datetime(2026, 12, 1, 5, tzinfo=UTC),
    )
    path = written(requested(finance, start=start, end=end), tmp_path)
    rows = rows_of(path)
    assert {row["ChargePeriodStart"] for row in rows} == {
        "2026-11-01T04:00:00Z",
        "2026-11-02T00:00:00Z",
    }
    with opened(path) as (header, cells):
        assert faults_of("CostAndUsage", header, cells) == []


def test_a_key_is_long_enough(company: Company) -> None:
    with pytest.raises(IntegrityError, match="pseudonym_key_is_long_enough"), transaction.atomic():
        PseudonymKey.objects.create(organization=company.organization, key=b"short")
