"""Columns of the four datasets of FOCUS 1.4 that the portal writes, with their rules of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

VERSION = "1.4"

Kind = Literal["text", "decimal", "time", "currency", "json", "objects", "unit"]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a dataset. `allowed` values are all that a text may have, if there are any."""

    name: str
    kind: Kind = "text"
    is_mandatory: bool = False
    is_nullable: bool = True
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset with all its columns, by name."""

    name: str
    fields: Mapping[str, Field]

    @property
    def mandatory(self) -> frozenset[str]:
        """Return the names of the mandatory columns."""
        return frozenset(one.name for one in self.fields.values() if one.is_mandatory)


def _must(name: str, kind: Kind = "text", *allowed: str) -> Field:
    """Return a mandatory column without empty cells."""
    return Field(name, kind, is_mandatory=True, is_nullable=False, allowed=allowed)


def _may(name: str, kind: Kind = "text", *allowed: str) -> Field:
    """Return a mandatory column that may have empty cells."""
    return Field(name, kind, is_mandatory=True, allowed=allowed)


def _if(name: str, kind: Kind = "text", *allowed: str, filled: bool = False) -> Field:
    """Return a conditional or recommended column. `filled`: without empty cells."""
    return Field(name, kind, is_nullable=not filled, allowed=allowed)


def _dataset(name: str, *fields: Field) -> Dataset:
    return Dataset(name, {one.name: one for one in fields})


CHARGE_CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
_SERVICES = (
    "AI and Machine Learning",
    "Analytics",
    "Business Applications",
    "Compute",
    "Databases",
    "Developer Tools",
    "Identity",
    "Integration",
    "Internet of Things",
    "Management and Governance",
    "Media",
    "Migration",
    "Mobile",
    "Multicloud",
    "Networking",
    "Security",
    "Storage",
    "Web",
    "Other",
)

COST_AND_USAGE = _dataset(
    "CostAndUsage",
    _if("AllocatedMethodDetails", "objects"),
    _if("AllocatedMethodId"),
    _if("AllocatedResourceId"),
    _if("AllocatedResourceName"),
    _if("AllocatedTags", "json"),
    _if("AvailabilityZone"),
    _must("BilledCost", "decimal"),
    _must("BillingAccountId"),
    _may("BillingAccountName"),
    _if("BillingAccountType", filled=True),
    _must("BillingCurrency", "currency"),
    _must("BillingPeriodEnd", "time"),
    _must("BillingPeriodStart", "time"),
    _if("CapacityReservationId"),
    _if("CapacityReservationStatus", "text", "Used", "Unused"),
    _must("ChargeCategory", "text", *CHARGE_CATEGORIES),
    _may("ChargeClass", "text", "Correction"),
    _may("ChargeDescription"),
    _if("ChargeFrequency", "text", "One-Time", "Recurring", "Usage-Based", filled=True),
    _must("ChargePeriodEnd", "time"),
    _must("ChargePeriodStart", "time"),
    _if("CommitmentDiscountCategory", "text", "Spend", "Usage"),
    _if("CommitmentDiscountId"),
    _if("CommitmentDiscountName"),
    _if("CommitmentDiscountQuantity", "decimal"),
    _if("CommitmentDiscountStatus", "text", "Used", "Unused"),
    _if("CommitmentDiscountType"),
    _if("CommitmentDiscountUnit", "unit"),
    _if("CommitmentProgramEligibilityDetails", "objects"),
    _if("ConsumedQuantity", "decimal"),
    _if("ConsumedUnit", "unit"),
    _if("ContractApplied", "objects"),
    _must("ContractedCost", "decimal"),
    _if("ContractedUnitPrice", "decimal"),
    _must("EffectiveCost", "decimal"),
    _must("HostProviderName"),
    _if("InvoiceDetailId"),
    _if("InvoiceId"),
    _must("InvoiceIssuerName"),
    _must("ListCost", "decimal"),
    _if("ListUnitPrice", "decimal"),
    _if("PricingCategory", "text", "Standard", "Dynamic", "Committed", "Other"),
    _if("PricingCurrency", filled=True),
    _if("PricingCurrencyContractedUnitPrice", "decimal"),
    _if("PricingCurrencyEffectiveCost", "decimal", filled=True),
    _if("PricingCurrencyListUnitPrice", "decimal"),
    _may("PricingQuantity", "decimal"),
    _may("PricingUnit", "unit"),
    _if("RegionId"),
    _if("RegionName"),
    _if("ResourceId"),
    _if("ResourceName"),
    _if("ResourceType"),
    _must("ServiceCategory", "text", *_SERVICES),
    _must("ServiceName"),
    _must("ServiceProviderName"),
    _if("ServiceSubcategory", filled=True),
    _if("SkuId"),
    _if("SkuMeter"),
    _if("SkuPriceDetails", "json"),
    _if("SkuPriceId"),
    _if("SubAccountId"),
    _if("SubAccountName"),
    _if("SubAccountType"),
    _if("Tags", "json"),
)
BILLING_PERIOD = _dataset(
    "BillingPeriod",
    _must("BillingPeriodCreated", "time"),
    _must("BillingPeriodEnd", "time"),
    _must("BillingPeriodLastUpdated", "time"),
    _must("BillingPeriodStart", "time"),
    _must("BillingPeriodStatus", "text", "Open", "Closed"),
    _must("InvoiceIssuerName"),
)
CONTRACT_COMMITMENT = _dataset(
    "ContractCommitment",
    _may("BillingCurrency", "currency"),
    _must("ContractCommitmentApplicability", "objects"),
    _must(
        "ContractCommitmentBenefitCategory",
        "text",
        *("Discount", "Entitlement", "Availability", "Other"),
    ),
    _must("ContractCommitmentCategory", "text", "Spend", "Usage"),
    _may("ContractCommitmentCost", "decimal"),
    _must("ContractCommitmentCreated", "time"),
    _may("ContractCommitmentDescription"),
    _may("ContractCommitmentDiscountPercentage", "decimal"),
    _must("ContractCommitmentDurationType"),
    _must(
        "ContractCommitmentFulfillmentInterval",
        "text",
        *("Hourly", "Daily", "Weekly", "Monthly", "Quarterly", "Semi-Annual", "Annual"),
        *("Full Period", "Transactional", "Custom"),
    ),
    _must("ContractCommitmentId"),
    _must("ContractCommitmentLastUpdated", "time"),
    _must(
        "ContractCommitmentLifecycleStatus",
        "text",
        *("Proposed", "Pending", "Active", "Exhausted", "Expired", "Canceled", "Superseded"),
    ),
    _must("ContractCommitmentModel", "text", "Continuous", "Discontinuous"),
    _must("ContractCommitmentOfferCategory", "text", "Public", "Negotiated"),
    _must(
        "ContractCommitmentPaymentInterval",
        "text",
        *("One-Time", "Monthly", "Quarterly", "Semi-Annual", "Annual", "Custom"),
    ),
    _must(
        "ContractCommitmentPaymentModel",
        "text",
        *("No Upfront", "Partial Upfront", "All Upfront"),
    ),
    _if("ContractCommitmentPaymentUpfrontPercentage", "decimal", filled=True),
    _must("ContractCommitmentPeriodEnd", "time"),
    _must("ContractCommitmentPeriodStart", "time"),
    _may("ContractCommitmentQuantity", "decimal"),
    _must("ContractCommitmentType"),
    _may("ContractCommitmentUnit", "unit"),
    _must("ContractId"),
    _must("ContractPeriodEnd", "time"),
    _must("ContractPeriodStart", "time"),
    _must("InvoiceIssuerName"),
    _if("PricingCurrency", filled=True),
    _if("PricingCurrencyContractCommitmentCost", "decimal"),
    _must("ServiceProviderName"),
)
INVOICE_DETAIL = _dataset(
    "InvoiceDetail",
    _must("BilledCost", "decimal"),
    _must("BillingAccountId"),
    _must("BillingCurrency", "currency"),
    _must("BillingPeriodEnd", "time"),
    _must("BillingPeriodStart", "time"),
    _must("ChargeCategory", "text", *CHARGE_CATEGORIES),
    _must("InvoiceDetailCreated", "time"),
    _may("InvoiceDetailDescription"),
    _may("InvoiceDetailGrain", "objects"),
    _must("InvoiceDetailId"),
    _must("InvoiceDetailLastUpdated", "time"),
    _must("InvoiceId"),
    _may("InvoiceIssueDate", "time"),
    _must("InvoiceIssueStatus", "text", "Open", "Issued", "Voided"),
    _must("InvoiceIssuerName"),
    _if("PaymentCurrency", "currency", filled=True),
    _if("PaymentCurrencyBilledCost", "decimal", filled=True),
    _if("PaymentCurrencyInvoiceDetailId", filled=True),
    _may("PaymentDueDate", "time"),
    _must("PaymentTerms"),
    _if("PurchaseOrderNumber"),
    _must("ReferenceInvoiceId"),
)

_ALL: Sequence[Dataset] = (COST_AND_USAGE, BILLING_PERIOD, CONTRACT_COMMITMENT, INVOICE_DETAIL)
DATASETS: Mapping[str, Dataset] = {one.name: one for one in _ALL}
