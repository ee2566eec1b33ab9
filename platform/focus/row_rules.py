"""Rules of FOCUS 1.4 for one row: relations between its columns.

Cells are texts as in CSV, and empty ones are None. Costs and quantities are compared exactly, as
decimals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = Mapping[str, str | None]

#: A number as FOCUS writes it.
DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")

#: Largest difference between a cost and unit price x quantity. Costs are rounded at the ninth
#: decimal twice, and quantities at the twelfth.
_COST_TOLERANCE = Decimal("0.000000002")
_QUANTITY_TOLERANCE = Decimal("0.000000000001")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of one row. `holds` returns whether the row keeps it."""

    id: str
    says: str
    holds: Callable[[Row], bool]


def has_one_of(row: Row, name: str, *values: str) -> bool:
    """Return whether the column has one of these values."""
    return row.get(name) in values


def _known(row: Row, name: str) -> bool:
    return row.get(name) is not None


def number_in(row: Row, name: str) -> Decimal | None:
    """Return the number in a column. None if there is none."""
    text = row.get(name)
    return Decimal(text) if text is not None and DECIMAL.fullmatch(text) else None


def _if(condition: bool, consequence: bool) -> bool:
    return consequence or not condition


def _is_bought(row: Row) -> bool:
    """Return whether the row is regular usage or a purchase."""
    return has_one_of(row, "ChargeCategory", "Usage", "Purchase") and not has_one_of(
        row, "ChargeClass", "Correction"
    )


def _ordered(row: Row, start: str, end: str) -> bool:
    first, last = row.get(start), row.get(end)
    # Texts of one form sort as their times do.
    return first is None or last is None or first < last


def _product(row: Row, price: str, cost: str) -> bool:
    factors = number_in(row, price), number_in(row, "PricingQuantity")
    found = number_in(row, cost)
    if factors[0] is None or factors[1] is None or found is None:
        return True
    tolerance = _COST_TOLERANCE + abs(factors[0]) * _QUANTITY_TOLERANCE
    return abs(factors[0] * factors[1] - found) <= tolerance


def _members(row: Row, name: str) -> Mapping[str, Any]:
    """Return the members of a JSON object in a column. It is empty for any other text."""
    try:
        found = json.loads(row.get(name) or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _elements(row: Row, name: str) -> Sequence[Mapping[str, Any]]:
    """Return the Elements of a JSON object in a column. One without any has an empty element."""
    if not _known(row, name):
        return ()
    found = _members(row, name).get("Elements")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        return ({},)
    return found or ({},)


def _together(*names: str) -> Callable[[Row], bool]:
    return lambda row: len({_known(row, name) for name in names}) == 1


def _is_share(row: Row, name: str) -> bool:
    return 0 <= (number_in(row, name) or 0) <= 1


def _upfront_model(share: Decimal | None) -> str:
    """Return the payment model of a share that is paid upfront."""
    if not share:
        return "No Upfront"
    return "All Upfront" if share == 1 else "Partial Upfront"


def _is_applicability(found: Mapping[str, Any]) -> bool:
    kinds = [
        found.get("IsGlobalScope") is True,
        found.get("IsComplexScope") is True,
        bool(found.get("Inclusions")) and found.get("InclusionOperator") in ("And", "Or"),
    ]
    return kinds.count(True) == 1


COST_AND_USAGE: Sequence[Rule] = (
    Rule(
        "CAU-PERIOD",
        "ChargePeriodStart is before ChargePeriodEnd",
        lambda row: _ordered(row, "ChargePeriodStart", "ChargePeriodEnd"),
    ),
    Rule(
        "CAU-BILLING",
        "BillingPeriodStart is before BillingPeriodEnd",
        lambda row: _ordered(row, "BillingPeriodStart", "BillingPeriodEnd"),
    ),
    Rule(
        "CAU-WITHIN",
        "A charge that is no correction lies in its billing period",
        lambda row: (
            has_one_of(row, "ChargeClass", "Correction")
            or (
                (row.get("BillingPeriodStart") or "") <= (row.get("ChargePeriodStart") or "")
                and (row.get("ChargePeriodEnd") or "") <= (row.get("BillingPeriodEnd") or "")
            )
        ),
    ),
    Rule(
        "CAU-LATER",
        "A correction is billed after the period of its charge",
        lambda row: _if(
            has_one_of(row, "ChargeClass", "Correction"),
            (row.get("ChargePeriodEnd") or "") <= (row.get("BillingPeriodStart") or ""),
        ),
    ),
    Rule(
        "CAU-QUANTITY",
        "Usage and purchases have a PricingQuantity",
        lambda row: _if(_is_bought(row), _known(row, "PricingQuantity")),
    ),
    Rule(
        "CAU-UNIT",
        "PricingQuantity and PricingUnit are given together",
        _together("PricingQuantity", "PricingUnit"),
    ),
    Rule(
        "CAU-CONSUMED",
        "Usage has a ConsumedQuantity unless a commitment was unused",
        lambda row: _if(
            _is_bought(row)
            and has_one_of(row, "ChargeCategory", "Usage")
            and not has_one_of(row, "CommitmentDiscountStatus", "Unused"),
            _known(row, "ConsumedQuantity"),
        ),
    ),
    Rule(
        "CAU-NOT-CONSUMED",
        "Only usage has a ConsumedQuantity",
        lambda row: _if(
            not has_one_of(row, "ChargeCategory", "Usage")
            or has_one_of(row, "CommitmentDiscountStatus", "Unused"),
            not _known(row, "ConsumedQuantity"),
        ),
    ),
    Rule(
        "CAU-CONSUMED-UNIT",
        "ConsumedQuantity and ConsumedUnit are given together",
        _together("ConsumedQuantity", "ConsumedUnit"),
    ),
    Rule(
        "CAU-SKU-PRICE",
        "Usage and purchases have a SkuPriceId",
        lambda row: _if(_is_bought(row), _known(row, "SkuPriceId")),
    ),
    Rule(
        "CAU-SKU",
        "A SkuPriceId has its SkuId",
        lambda row: _if(_known(row, "SkuPriceId"), _known(row, "SkuId")),
    ),
    Rule(
        "CAU-SKU-TAX",
        "A tax has no SkuPriceId",
        lambda row: _if(has_one_of(row, "ChargeCategory", "Tax"), not _known(row, "SkuPriceId")),
    ),
    Rule(
        "CAU-PRICED",
        "PricingCategory and prices need a SkuPriceId",
        lambda row: (
            _known(row, "SkuPriceId")
            or not any(
                _known(row, name)
                for name in ("PricingCategory", "ListUnitPrice", "ContractedUnitPrice")
            )
        ),
    ),
    Rule(
        "CAU-CATEGORY",
        "Usage and purchases have a PricingCategory",
        lambda row: _if(_is_bought(row), _known(row, "PricingCategory")),
    ),
    Rule(
        "CAU-LIST",
        "ListCost is ListUnitPrice x PricingQuantity",
        lambda row: _product(row, "ListUnitPrice", "ListCost"),
    ),
    Rule(
        "CAU-CONTRACTED",
        "ContractedCost is ContractedUnitPrice x PricingQuantity",
        lambda row: _product(row, "ContractedUnitPrice", "ContractedCost"),
    ),
    Rule(
        "CAU-CREDIT",
        "The ContractedCost of a credit is its BilledCost",
        lambda row: _if(
            has_one_of(row, "ChargeCategory", "Credit"),
            number_in(row, "ContractedCost") == number_in(row, "BilledCost"),
        ),
    ),
    Rule(
        "CAU-NEGATIVE",
        "Usage that is no correction has no negative quantity or price",
        lambda row: _if(
            _is_bought(row),
            all(
                (number_in(row, name) or 0) >= 0
                for name in (
                    "PricingQuantity",
                    "ConsumedQuantity",
                    "ListUnitPrice",
                    "ContractedUnitPrice",
                )
            ),
        ),
    ),
    Rule(
        "CAU-COMMITTED",
        "PricingCategory Committed has a CommitmentDiscountId",
        lambda row: _if(
            has_one_of(row, "PricingCategory", "Committed"), _known(row, "CommitmentDiscountId")
        ),
    ),
    Rule(
        "CAU-COMMITMENT",
        "The members of a commitment discount are given together",
        _together("CommitmentDiscountId", "CommitmentDiscountCategory", "CommitmentDiscountType"),
    ),
    Rule(
        "CAU-COMMITMENT-STATUS",
        "Usage of a commitment is Used or Unused",
        lambda row: (
            _known(row, "CommitmentDiscountStatus")
            == (_known(row, "CommitmentDiscountId") and has_one_of(row, "ChargeCategory", "Usage"))
        ),
    ),
    Rule(
        "CAU-COVERING",
        "The purchase of a commitment has no EffectiveCost",
        lambda row: _if(
            has_one_of(row, "ChargeCategory", "Purchase") and _known(row, "CommitmentDiscountId"),
            number_in(row, "EffectiveCost") == 0,
        ),
    ),
    Rule(
        "CAU-COMMITMENT-QUANTITY",
        "Usage and purchases of a commitment have its quantity and unit, and nothing else has",
        lambda row: (
            _known(row, "CommitmentDiscountUnit") == _known(row, "CommitmentDiscountQuantity")
            and (
                _known(row, "CommitmentDiscountQuantity")
                == (_known(row, "CommitmentDiscountId") and _is_bought(row))
                or has_one_of(row, "ChargeClass", "Correction")
            )
        ),
    ),
    Rule(
        "CAU-COMMITMENT-RESOURCE",
        "The resource of a purchase and of an unused part is the commitment",
        lambda row: _if(
            has_one_of(row, "CommitmentDiscountStatus", "Unused")
            or (
                has_one_of(row, "ChargeCategory", "Purchase")
                and _known(row, "CommitmentDiscountId")
            ),
            row.get("ResourceId") == row.get("CommitmentDiscountId"),
        ),
    ),
    Rule(
        "CAU-CONTRACT",
        "ContractApplied has Elements, each with a ContractId and a ContractCommitmentId",
        lambda row: all(
            one.get("ContractId") and one.get("ContractCommitmentId")
            for one in _elements(row, "ContractApplied")
        ),
    ),
    Rule(
        "CAU-FREQUENCY",
        "A purchase is not Usage-Based",
        lambda row: _if(
            has_one_of(row, "ChargeCategory", "Purchase"),
            not has_one_of(row, "ChargeFrequency", "Usage-Based"),
        ),
    ),
    Rule(
        "CAU-RESERVATION",
        "CapacityReservationStatus needs a CapacityReservationId",
        lambda row: _if(
            _known(row, "CapacityReservationStatus"), _known(row, "CapacityReservationId")
        ),
    ),
    Rule(
        "CAU-SUB-ACCOUNT",
        "SubAccountName and SubAccountType need a SubAccountId",
        lambda row: _if(
            _known(row, "SubAccountName") or _known(row, "SubAccountType"),
            _known(row, "SubAccountId"),
        ),
    ),
    Rule(
        "CAU-RESOURCE",
        "ResourceName and ResourceType need a ResourceId",
        lambda row: _if(
            _known(row, "ResourceName") or _known(row, "ResourceType"), _known(row, "ResourceId")
        ),
    ),
    Rule(
        "CAU-REGION",
        "RegionId and RegionName are given together",
        lambda row: _if(_known(row, "RegionName"), _known(row, "RegionId")),
    ),
    Rule(
        "CAU-INVOICE",
        "InvoiceDetailId needs an InvoiceId",
        lambda row: _if(_known(row, "InvoiceDetailId"), _known(row, "InvoiceId")),
    ),
)

BILLING_PERIOD: Sequence[Rule] = (
    Rule(
        "BP-ORDER",
        "BillingPeriodStart is before BillingPeriodEnd",
        lambda row: _ordered(row, "BillingPeriodStart", "BillingPeriodEnd"),
    ),
    Rule(
        "BP-UPDATED",
        "BillingPeriodLastUpdated is not before BillingPeriodCreated",
        lambda row: (
            (row.get("BillingPeriodCreated") or "") <= (row.get("BillingPeriodLastUpdated") or "")
        ),
    ),
)

CONTRACT_COMMITMENT: Sequence[Rule] = (
    Rule(
        "CC-ORDER",
        "ContractCommitmentPeriodStart is before ContractCommitmentPeriodEnd",
        lambda row: _ordered(row, "ContractCommitmentPeriodStart", "ContractCommitmentPeriodEnd"),
    ),
    Rule(
        "CC-CONTRACT",
        "ContractPeriodStart is before ContractPeriodEnd",
        lambda row: _ordered(row, "ContractPeriodStart", "ContractPeriodEnd"),
    ),
    Rule(
        "CC-USAGE",
        "A commitment of usage has a quantity",
        lambda row: _if(
            has_one_of(row, "ContractCommitmentCategory", "Usage"),
            _known(row, "ContractCommitmentQuantity"),
        ),
    ),
    Rule(
        "CC-UNIT",
        "ContractCommitmentQuantity and ContractCommitmentUnit are given together",
        _together("ContractCommitmentQuantity", "ContractCommitmentUnit"),
    ),
    Rule(
        "CC-SPEND",
        "A commitment of spend has a cost",
        lambda row: _if(
            has_one_of(row, "ContractCommitmentCategory", "Spend"),
            _known(row, "ContractCommitmentCost"),
        ),
    ),
    Rule(
        "CC-CURRENCY",
        "A cost has a currency",
        lambda row: _if(_known(row, "ContractCommitmentCost"), _known(row, "BillingCurrency")),
    ),
    Rule(
        "CC-UPDATED",
        "ContractCommitmentLastUpdated is not before ContractCommitmentCreated",
        lambda row: (
            (row.get("ContractCommitmentCreated") or "")
            <= (row.get("ContractCommitmentLastUpdated") or "")
        ),
    ),
    Rule(
        "CC-DISCOUNT",
        "A discount has a percentage between 0 and 1, and availability has none",
        lambda row: (
            _is_share(row, "ContractCommitmentDiscountPercentage")
            and _if(
                has_one_of(row, "ContractCommitmentBenefitCategory", "Discount"),
                _known(row, "ContractCommitmentDiscountPercentage"),
            )
            and _if(
                has_one_of(row, "ContractCommitmentBenefitCategory", "Availability"),
                not _known(row, "ContractCommitmentDiscountPercentage"),
            )
        ),
    ),
    Rule(
        "CC-INTERVAL",
        "A continuous commitment is fulfilled in intervals shorter than its full period",
        lambda row: _if(
            has_one_of(row, "ContractCommitmentModel", "Continuous"),
            not has_one_of(row, "ContractCommitmentFulfillmentInterval", "Full Period"),
        ),
    ),
    Rule(
        "CC-PAYMENT",
        "A commitment that is paid upfront is paid once",
        lambda row: _if(
            has_one_of(row, "ContractCommitmentPaymentModel", "All Upfront"),
            has_one_of(row, "ContractCommitmentPaymentInterval", "One-Time"),
        ),
    ),
    Rule(
        "CC-UPFRONT",
        "The upfront percentage is between 0 and 1, as the payment model says",
        lambda row: (
            _is_share(row, "ContractCommitmentPaymentUpfrontPercentage")
            and _if(
                _known(row, "ContractCommitmentPaymentUpfrontPercentage"),
                _upfront_model(number_in(row, "ContractCommitmentPaymentUpfrontPercentage"))
                == row.get("ContractCommitmentPaymentModel"),
            )
        ),
    ),
    Rule(
        "CC-SCOPE",
        "The applicability is global, complex, or a list of Inclusions with an operator",
        lambda row: _is_applicability(_members(row, "ContractCommitmentApplicability")),
    ),
)

INVOICE_DETAIL: Sequence[Rule] = (
    Rule(
        "ID-BILLING",
        "BillingPeriodStart is before BillingPeriodEnd",
        lambda row: _ordered(row, "BillingPeriodStart", "BillingPeriodEnd"),
    ),
    Rule(
        "ID-UPDATED",
        "InvoiceDetailLastUpdated is not before InvoiceDetailCreated",
        lambda row: (
            (row.get("InvoiceDetailCreated") or "") <= (row.get("InvoiceDetailLastUpdated") or "")
        ),
    ),
    Rule(
        "ID-ISSUED",
        "An issued invoice has an InvoiceIssueDate",
        lambda row: _if(
            has_one_of(row, "InvoiceIssueStatus", "Issued"), _known(row, "InvoiceIssueDate")
        ),
    ),
)

ROW_RULES: Mapping[str, Sequence[Rule]] = {
    "CostAndUsage": COST_AND_USAGE,
    "BillingPeriod": BILLING_PERIOD,
    "ContractCommitment": CONTRACT_COMMITMENT,
    "InvoiceDetail": INVOICE_DETAIL,
}
