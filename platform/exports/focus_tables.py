"""Columns of FOCUS 1.4 files: charges as Cost and Usage, and the Billing Period dataset.

A text that a spreadsheet would run as a formula gets an apostrophe in CSV, as in all our files.
Parquet has it as it was. Users are pseudonyms unless the organization chose login names: a keyed
hash, the same in all files of an organization, that nobody can compute without its key.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from billing.charges import Charge
from billing.models import ExtraCharge, PoolTerms, PriceMode, UsageClass
from exports.commitments import commitment_id
from exports.focus_rows import FocusRow
from exports.tables import MICRO, Column, decimal, text, time, whole
from periods.code_book import CodeBook, Codes
from primitives.units import MGPU_S_PER_GPU_HOUR, DeviceKind, div_half_even

#: Decimals of quantities, and of unit prices: a price in nano times a multiplier in millionths.
QUANTITY = 12
_UNIT_PRICE = 15
#: ISO 4217 for "no currency": use without a rate card costs nothing.
_NO_CURRENCY = "XXX"
#: Usage whose price may change at any time, because it may be preempted at any time.
_DYNAMIC = frozenset({UsageClass.UNPAID.value})
_PSEUDONYM_HEX = 32
COMMITMENT_TYPE = "Guaranteed Quota"


@dataclass(frozen=True, slots=True)
class Billing:
    """The account, the period and the parties that all rows of a file share.

    `book` has the accounting codes of `month`, the month of the period by its first day. Without a
    `pseudonym_key`, users have their login names.
    """

    provider: str
    account: str
    account_name: str
    start: datetime
    end: datetime
    updated_at: datetime
    is_closed: bool
    pseudonym_key: bytes | None
    month: date
    book: CodeBook


def cost_and_usage(billing: Billing) -> Sequence[Column]:
    """Return the columns of Cost and Usage for rows of `FocusRow`. Our own columns come last."""
    principal = _principals(billing.pseudonym_key)

    def tags(row: FocusRow) -> str | None:
        charge = row.charge
        codes = row.codes or billing.book.codes(charge.team, billing.month)
        return _tags(charge.department, codes)

    return (
        decimal("BilledCost", lambda row: row.billed_cost_nano),
        text("BillingAccountId", lambda row: billing.account),
        text("BillingAccountName", lambda row: billing.account_name),
        text("BillingCurrency", lambda row: row.currency or _NO_CURRENCY),
        time("BillingPeriodEnd", lambda row: billing.end),
        time("BillingPeriodStart", lambda row: billing.start),
        text("ChargeCategory", lambda row: row.category),
        text("ChargeClass", lambda row: "Correction" if row.is_correction else None),
        text("ChargeDescription", _description),
        text("ChargeFrequency", lambda row: _FREQUENCIES.get(row.category, "One-Time")),
        time("ChargePeriodEnd", lambda row: row.charge.end),
        time("ChargePeriodStart", lambda row: row.charge.start),
        text("CommitmentDiscountCategory", _of_commitment(lambda row: "Usage")),
        text("CommitmentDiscountId", lambda row: row.commitment and commitment_id(row.commitment)),
        text(
            "CommitmentDiscountName", lambda row: row.commitment and commitment_name(row.commitment)
        ),
        decimal(
            "CommitmentDiscountQuantity",
            _of_commitment(_priced_hours),
            QUANTITY,
        ),
        text("CommitmentDiscountStatus", lambda row: row.status),
        text("CommitmentDiscountType", _of_commitment(lambda row: COMMITMENT_TYPE)),
        text("CommitmentDiscountUnit", _of_commitment(_priced_unit)),
        decimal("ConsumedQuantity", _consumed_hours, QUANTITY),
        text(
            "ConsumedUnit",
            lambda row: None if _consumed_hours(row) is None else quantity_unit(row),
        ),
        text("ContractApplied", _of_commitment(_if_priced(_contract_applied))),
        decimal("ContractedCost", lambda row: row.contracted_cost_nano),
        decimal("ContractedUnitPrice", _if_priced(_unit_price), _UNIT_PRICE),
        decimal("EffectiveCost", lambda row: row.effective_cost_nano),
        text("HostProviderName", lambda row: billing.provider),
        text("InvoiceDetailId", lambda row: row.invoice and row.invoice[1]),
        text("InvoiceId", lambda row: row.invoice and row.invoice[0]),
        text("InvoiceIssuerName", lambda row: billing.provider),
        decimal("ListCost", lambda row: row.list_cost_nano),
        decimal("ListUnitPrice", _if_priced(_unit_price), _UNIT_PRICE),
        text("PricingCategory", _if_priced(_pricing_category)),
        decimal("PricingQuantity", _priced_hours, QUANTITY),
        text("PricingUnit", _priced_unit),
        text("RegionId", lambda row: row.charge.cluster or None),
        text("RegionName", lambda row: row.charge.cluster or None),
        text("ResourceId", _resource_id),
        text("ResourceName", _resource_name),
        text("ResourceType", _resource_type),
        text("ServiceCategory", lambda row: "AI and Machine Learning"),
        text("ServiceName", lambda row: "GPU Compute"),
        text("ServiceProviderName", lambda row: billing.provider),
        text("ServiceSubcategory", lambda row: "AI Platforms"),
        text("SkuId", lambda row: row.charge.pool or None),
        text("SkuMeter", lambda row: None if row.adjustment else _sku_meter(row)),
        text("SkuPriceId", _if_priced(_sku_price)),
        text("SubAccountId", lambda row: row.charge.team),
        text("SubAccountName", lambda row: row.charge.team.rpartition("/")[2]),
        text("SubAccountType", lambda row: "Team"),
        text("Tags", tags),
        text("x_AdjustmentId", lambda row: row.adjustment and str(row.adjustment.pk)),
        text("x_AttemptId", _of_attempt(lambda charge: charge.attempt_id)),
        whole("x_AttemptNumber", _of_attempt(lambda charge: charge.attempt)),
        decimal("x_ClassMultiplier", lambda row: row.charge.class_multiplier_ppm, MICRO),
        text("x_JobId", _of_attempt(lambda charge: charge.job_id)),
        text("x_Mode", lambda row: row.charge.mode or None),
        text("x_NonBillableReason", _non_billable_reason),
        text("x_PrincipalId", lambda row: principal(row.charge)),
        text("x_PriorityClass", lambda row: row.charge.priority_class or None),
        decimal(
            "x_PriorityMultiplier",
            lambda row: None if row.adjustment else row.charge.multiplier_ppm,
            MICRO,
        ),
        text("x_RateLineId", lambda row: row.charge.rate_line),
        text("x_UsageClass", _sku_meter),
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


#: `SkuMeter` of the unused part of a commitment.
_UNUSED = "unused"
#: ChargeFrequency of the categories that have another one than "One-Time".
_FREQUENCIES = {"Purchase": "Recurring", "Usage": "Usage-Based"}


def commitment_name(terms: PoolTerms) -> str:
    """Return the name of a commitment for people."""
    return f"Guarantee of {terms.pool.name}"


def _pricing_category(row: FocusRow) -> str:
    if row.status is not None:
        return "Committed"
    return "Dynamic" if row.charge.usage_class in _DYNAMIC else "Standard"


def _of_attempt(value: Callable[[Charge], Any]) -> Callable[[FocusRow], Any]:
    """Return the function for the cell, which is empty in rows without an attempt."""
    return lambda row: value(row.charge) if row.charge.attempt_id else None


def _of_commitment(value: Callable[[FocusRow], Any]) -> Callable[[FocusRow], Any]:
    """Return the function for the cell, which is empty in rows without a commitment."""
    return lambda row: None if row.commitment is None else value(row)


def _if_priced(value: Callable[[FocusRow], Any]) -> Callable[[FocusRow], Any]:
    """Return the function for the cell, which is empty in rows without a priced quantity."""
    return lambda row: None if row.quantity_mgpu_s is None else value(row)


def _contract_applied(row: FocusRow) -> str:
    """Return the part of the commitment, with an exact number, which `json` does not write."""
    assert row.commitment is not None
    name = commitment_id(row.commitment)
    quantity = f"{Decimal(hours(row.quantity_mgpu_s or 0)).scaleb(-QUANTITY):f}"
    return (
        f'{{"Elements": [{{"ContractId": "{name}", "ContractCommitmentId": "{name}", '
        f'"ContractCommitmentAppliedQuantity": {quantity}, '
        f'"ContractCommitmentAppliedUnit": "{quantity_unit(row)}"}}]}}'
    )


def _resource_id(row: FocusRow) -> str | None:
    if row.charge.attempt_id:
        return f"urn:tidegate:attempt:{row.charge.attempt_id}"
    return None if row.commitment is None else commitment_id(row.commitment)


def _resource_name(row: FocusRow) -> str | None:
    if row.charge.attempt_id:
        return row.charge.job_name
    return None if row.commitment is None else commitment_name(row.commitment)


def _resource_type(row: FocusRow) -> str | None:
    if row.charge.attempt_id:
        return f"{DeviceKind(row.device).singular} job"
    return None if row.commitment is None else COMMITMENT_TYPE


def _sku_meter(row: FocusRow) -> str:
    return _UNUSED if row.status == "Unused" else row.charge.usage_class


def _priced_hours(row: FocusRow) -> int | None:
    return None if row.quantity_mgpu_s is None else hours(row.quantity_mgpu_s)


def _priced_unit(row: FocusRow) -> str | None:
    return None if row.quantity_mgpu_s is None else quantity_unit(row)


def _sku_price(row: FocusRow) -> str:
    parts = (row.charge.pool, _sku_meter(row), row.charge.priority_class)
    return "/".join(part for part in parts if part)


_DESCRIPTIONS = {
    ExtraCharge.COMMITMENT.value: "Commitment to the guarantee of",
    ExtraCharge.TOP_UP.value: "Rest of a minimum or an increment of",
    _UNUSED: "Unused guarantee of",
}


def charged_for(usage_class: str) -> str:
    """Return what a charge of the class is for, such as "Guaranteed use of". A pool follows."""
    return _DESCRIPTIONS.get(usage_class, f"{usage_class.capitalize()} use of")


def _non_billable_reason(row: FocusRow) -> str | None:
    is_shown = row.charge.mode == PriceMode.SHOWBACK
    return row.charge.fault or (PriceMode.SHOWBACK.value if is_shown else None)


def _description(row: FocusRow) -> str:
    if row.adjustment is not None:
        return row.adjustment.reason
    if row.category == "Adjustment":
        return f"Use beyond the guarantee of {row.charge.pool}"
    what = charged_for(_sku_meter(row))
    priced = "" if row.charge.price_nano is not None else ", without a price"
    billed = ", showback: not billed" if row.charge.mode == PriceMode.SHOWBACK else ""
    return f"{what} {row.charge.pool}{priced}{billed}"


def hours(mgpu_s: int) -> int:
    """Return milli-GPU-seconds as hours with `QUANTITY` decimals."""
    return div_half_even(mgpu_s * 10**QUANTITY, MGPU_S_PER_GPU_HOUR)


def _consumed_hours(row: FocusRow) -> int | None:
    is_consumed = row.category == "Usage" and row.status != "Unused"
    return hours(row.mgpu_s) if is_consumed else None


def quantity_unit(row: Any) -> str:
    """Return the unit of quantities of a row with a `device`."""
    return "GPU-Hours" if row.device == DeviceKind.GPU else "Core-Hours"


def _unit_price(row: FocusRow) -> int | None:
    charge = row.charge
    return None if charge.price_nano is None else charge.price_nano * charge.multiplier_ppm


@lru_cache(4_096)
def _tags(department: str, codes: Codes) -> str | None:
    tags = {
        "tidegate/department": department,
        "tidegate/cost-centre": codes.cost_centre,
        "tidegate/project-code": codes.project_code,
    }
    found = {name: value for name, value in tags.items() if value}
    return json.dumps(found) if found else None


def _principals(key: bytes | None) -> Callable[[Charge], str | None]:
    """Return the function that names the user of a charge, by pseudonym if there is a key.

    Charges without a user have None.
    """
    if key is None:
        return lambda charge: charge.user or None

    @lru_cache(65_536)
    def pseudonym(user_id: str) -> str:
        return hmac.new(key, user_id.encode(), "sha256").hexdigest()[:_PSEUDONYM_HEX]

    return lambda charge: pseudonym(charge.user_id) if charge.user_id else None
