"""Columns of FOCUS 1.4 files: charges as Cost and Usage, and the Billing Period dataset.

A text that a spreadsheet would run as a formula gets an apostrophe in CSV, as in all our files.
Parquet has it as it was. Users are pseudonyms: a keyed hash, the same in all files of an
organization, that nobody can compute without its key.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from billing.charges import Charge
from billing.models import UsageClass
from exports.tables import MICRO, Column, decimal, text, time, whole
from primitives.units import MGPU_S_PER_GPU_HOUR, DeviceKind, div_half_even

#: Decimals of quantities, and of unit prices: a price in nano times a multiplier in millionths.
_QUANTITY = 12
_UNIT_PRICE = 15
#: ISO 4217 for "no currency": use without a rate card costs nothing.
_NO_CURRENCY = "XXX"
#: Usage whose price may change at any time, because it may be preempted at any time.
_DYNAMIC = frozenset({UsageClass.UNPAID.value})
_PSEUDONYM_HEX = 32


@dataclass(frozen=True, slots=True)
class Billing:
    """The account, the period and the parties that all rows of a file share."""

    provider: str
    account: str
    account_name: str
    start: datetime
    end: datetime
    updated_at: datetime
    pseudonym_key: bytes


def cost_and_usage(billing: Billing) -> Sequence[Column]:
    """Return the columns of Cost and Usage for rows of charges. Our own columns come last."""
    pseudonym = _pseudonyms(billing.pseudonym_key)

    return (
        decimal("BilledCost", lambda row: row.billed_cost_nano),
        text("BillingAccountId", lambda row: billing.account),
        text("BillingAccountName", lambda row: billing.account_name),
        text("BillingCurrency", lambda row: row.currency or _NO_CURRENCY),
        time("BillingPeriodEnd", lambda row: billing.end),
        time("BillingPeriodStart", lambda row: billing.start),
        text("ChargeCategory", lambda row: "Usage"),
        text("ChargeClass", lambda row: None),
        text("ChargeDescription", _description),
        text("ChargeFrequency", lambda row: "Usage-Based"),
        time("ChargePeriodEnd", lambda row: row.end),
        time("ChargePeriodStart", lambda row: row.start),
        decimal("ConsumedQuantity", _hours, _QUANTITY),
        text("ConsumedUnit", _unit),
        decimal("ContractedCost", lambda row: row.contracted_cost_nano),
        decimal("ContractedUnitPrice", _unit_price, _UNIT_PRICE),
        decimal("EffectiveCost", lambda row: row.effective_cost_nano),
        text("HostProviderName", lambda row: billing.provider),
        text("InvoiceIssuerName", lambda row: billing.provider),
        decimal("ListCost", lambda row: row.list_cost_nano),
        decimal("ListUnitPrice", _unit_price, _UNIT_PRICE),
        text(
            "PricingCategory",
            lambda row: "Dynamic" if row.usage_class in _DYNAMIC else "Standard",
        ),
        decimal("PricingQuantity", _hours, _QUANTITY),
        text("PricingUnit", _unit),
        text("RegionId", lambda row: row.cluster),
        text("RegionName", lambda row: row.cluster),
        text("ResourceId", lambda row: f"urn:tidegate:attempt:{row.attempt_id}"),
        text("ResourceName", lambda row: row.job_name),
        text("ResourceType", lambda row: f"{DeviceKind(row.device).singular} job"),
        text("ServiceCategory", lambda row: "AI and Machine Learning"),
        text("ServiceName", lambda row: "GPU Compute"),
        text("ServiceProviderName", lambda row: billing.provider),
        text("ServiceSubcategory", lambda row: "AI Platforms"),
        text("SkuId", lambda row: row.pool),
        text("SkuMeter", lambda row: row.usage_class),
        text("SkuPriceId", lambda row: f"{row.pool}/{row.usage_class}/{row.priority_class}"),
        text("SubAccountId", lambda row: row.team),
        text("SubAccountName", lambda row: row.team.rpartition("/")[2]),
        text("SubAccountType", lambda row: "Team"),
        text("Tags", lambda row: _tags(row.department)),
        text("x_AttemptId", lambda row: row.attempt_id),
        whole("x_AttemptNumber", lambda row: row.attempt),
        text("x_JobId", lambda row: row.job_id),
        text("x_PrincipalId", lambda row: pseudonym(row.user_id)),
        text("x_PriorityClass", lambda row: row.priority_class),
        decimal("x_PriorityMultiplier", lambda row: row.multiplier_ppm, MICRO),
        text("x_RateLineId", lambda row: row.rate_line),
        text("x_UsageClass", lambda row: row.usage_class),
    )


def billing_period(billing: Billing) -> Sequence[Column]:
    """Return the columns of Billing Period. The period has one row; see `Billing`."""
    return (
        time("BillingPeriodCreated", lambda row: billing.start),
        time("BillingPeriodEnd", lambda row: billing.end),
        time("BillingPeriodLastUpdated", lambda row: billing.updated_at),
        time("BillingPeriodStart", lambda row: billing.start),
        text("BillingPeriodStatus", lambda row: "Open"),
        text("InvoiceIssuerName", lambda row: billing.provider),
    )


def _description(row: Charge) -> str:
    priced = "" if row.price_nano is not None else ", without a price"
    return f"{row.usage_class.capitalize()} use of {row.pool}{priced}"


def _hours(row: Charge) -> int:
    return div_half_even(row.mgpu_s * 10**_QUANTITY, MGPU_S_PER_GPU_HOUR)


def _unit(row: Charge) -> str:
    return "GPU-Hours" if row.device == DeviceKind.GPU else "Core-Hours"


def _unit_price(row: Charge) -> int | None:
    return None if row.price_nano is None else row.price_nano * row.multiplier_ppm


@lru_cache(4_096)
def _tags(department: str) -> str | None:
    return json.dumps({"tidegate/department": department}) if department else None


def _pseudonyms(key: bytes) -> Callable[[str], str]:
    """Return the function that gives a user's pseudonym."""

    @lru_cache(65_536)
    def pseudonym(user_id: str) -> str:
        return hmac.new(key, user_id.encode(), "sha256").hexdigest()[:_PSEUDONYM_HEX]

    return pseudonym
