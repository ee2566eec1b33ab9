"""Columns of FOCUS 1.4 files: charges as Cost and Usage, and the Billing Period dataset.

A text that a spreadsheet would run as a formula gets an apostrophe in CSV, as in all our files.
Parquet has it as it was. Users are pseudonyms: a keyed hash, the same in all files of an
organization, that nobody can compute without its key.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from billing.charges import Charge, unused_of
from billing.models import ExtraCharge, PriceMode, UsageClass
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
    is_closed: bool
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
        text("ChargeCategory", lambda row: "Purchase" if _is_purchase(row) else "Usage"),
        text("ChargeClass", lambda row: None),
        text("ChargeDescription", _description),
        text("ChargeFrequency", lambda row: "Recurring" if _is_purchase(row) else "Usage-Based"),
        time("ChargePeriodEnd", lambda row: row.end),
        time("ChargePeriodStart", lambda row: row.start),
        text("CommitmentDiscountCategory", lambda row: _commitment_id(row) and "Usage"),
        text("CommitmentDiscountId", _commitment_id),
        text("CommitmentDiscountStatus", _commitment_status),
        text("CommitmentDiscountType", lambda row: _commitment_id(row) and "Guaranteed Quota"),
        decimal("ConsumedQuantity", _consumed_hours, _QUANTITY),
        text(
            "ConsumedUnit",
            lambda row: None if _consumed_hours(row) is None else quantity_unit(row),
        ),
        decimal("ContractedCost", lambda row: row.contracted_cost_nano),
        decimal("ContractedUnitPrice", _unit_price, _UNIT_PRICE),
        decimal("EffectiveCost", lambda row: row.effective_cost_nano),
        text("HostProviderName", lambda row: billing.provider),
        text("InvoiceIssuerName", lambda row: billing.provider),
        decimal("ListCost", lambda row: row.list_cost_nano),
        decimal("ListUnitPrice", _unit_price, _UNIT_PRICE),
        text(
            "PricingCategory",
            _pricing_category,
        ),
        decimal("PricingQuantity", _hours, _QUANTITY),
        text("PricingUnit", quantity_unit),
        text("RegionId", lambda row: row.cluster or None),
        text("RegionName", lambda row: row.cluster or None),
        text("ResourceId", _of_attempt(lambda row: f"urn:tidegate:attempt:{row.attempt_id}")),
        text("ResourceName", _of_attempt(lambda row: row.job_name)),
        text("ResourceType", _of_attempt(lambda row: f"{DeviceKind(row.device).singular} job")),
        text("ServiceCategory", lambda row: "AI and Machine Learning"),
        text("ServiceName", lambda row: "GPU Compute"),
        text("ServiceProviderName", lambda row: billing.provider),
        text("ServiceSubcategory", lambda row: "AI Platforms"),
        text("SkuId", lambda row: row.pool),
        text("SkuMeter", lambda row: row.usage_class),
        text("SkuPriceId", _sku_price),
        text("SubAccountId", lambda row: row.team),
        text("SubAccountName", lambda row: row.team.rpartition("/")[2]),
        text("SubAccountType", lambda row: "Team"),
        text("Tags", lambda row: _tags(row.department)),
        text("x_AttemptId", _of_attempt(lambda row: row.attempt_id)),
        whole("x_AttemptNumber", _of_attempt(lambda row: row.attempt)),
        decimal("x_ClassMultiplier", lambda row: row.class_multiplier_ppm, MICRO),
        text("x_JobId", _of_attempt(lambda row: row.job_id)),
        text("x_Mode", lambda row: row.mode),
        text("x_PrincipalId", _of_attempt(lambda row: pseudonym(row.user_id))),
        text("x_PriorityClass", _of_attempt(lambda row: row.priority_class)),
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
        text("BillingPeriodStatus", lambda row: "Closed" if billing.is_closed else "Open"),
        text("InvoiceIssuerName", lambda row: billing.provider),
    )


#: `usage_class` of the unused part of a commitment.
_UNUSED = "unused"


def focus_rows(charges: Iterable[Charge]) -> Iterator[Charge]:
    """Yield the charges as rows of Cost and Usage: each commitment with its unused part.

    The purchase is billed, and used and unused parts are the effective cost. So both sums agree.
    """
    for charge in charges:
        yield charge
        unused = unused_of(charge)
        if unused is not None and (unused.mgpu_s or unused.cost_nano):
            yield charge._replace(
                usage_class=_UNUSED,
                priced_mgpu_s=unused.mgpu_s,
                list_cost_nano=unused.cost_nano,
                contracted_cost_nano=unused.cost_nano,
                billed_cost_nano=0,
                effective_cost_nano=unused.cost_nano,
            )


def _is_purchase(row: Charge) -> bool:
    return row.usage_class == ExtraCharge.COMMITMENT


def _commitment_id(row: Charge) -> str | None:
    is_unused = row.usage_class == _UNUSED
    return f"{row.team}/{row.pool}" if is_unused else row.commitment


def _commitment_status(row: Charge) -> str | None:
    if row.usage_class == _UNUSED:
        return "Unused"
    return "Used" if row.commitment and not _is_purchase(row) else None


def _pricing_category(row: Charge) -> str:
    if _commitment_status(row) is not None:
        return "Committed"
    return "Dynamic" if row.usage_class in _DYNAMIC else "Standard"


def _of_attempt(value: Callable[[Charge], Any]) -> Callable[[Charge], Any]:
    """Return the function for the cell, which is empty in rows without an attempt."""
    return lambda row: value(row) if row.attempt_id else None


def _sku_price(row: Charge) -> str:
    return "/".join(part for part in (row.pool, row.usage_class, row.priority_class) if part)


_DESCRIPTIONS = {
    ExtraCharge.COMMITMENT.value: "Commitment to the guarantee of",
    ExtraCharge.TOP_UP.value: "Rest of a minimum or an increment of",
    _UNUSED: "Unused guarantee of",
}


def charged_for(usage_class: str) -> str:
    """Return what a charge of the class is for, such as "Guaranteed use of". A pool follows."""
    return _DESCRIPTIONS.get(usage_class, f"{usage_class.capitalize()} use of")


def _description(row: Charge) -> str:
    what = charged_for(row.usage_class)
    priced = "" if row.price_nano is not None else ", without a price"
    billed = ", showback: not billed" if row.mode == PriceMode.SHOWBACK else ""
    return f"{what} {row.pool}{priced}{billed}"


def _hours(row: Charge) -> int:
    return div_half_even(row.priced_mgpu_s * 10**_QUANTITY, MGPU_S_PER_GPU_HOUR)


def _consumed_hours(row: Charge) -> int | None:
    if _is_purchase(row) or row.usage_class == _UNUSED:
        return None
    return div_half_even(row.mgpu_s * 10**_QUANTITY, MGPU_S_PER_GPU_HOUR)


def quantity_unit(row: Any) -> str:
    """Return the unit of quantities of a row with a `device`."""
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
