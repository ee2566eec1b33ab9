"""The rules of FOCUS 1.4: a good file of each dataset, and for each rule a fault that it finds."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from focus.columns import DATASETS
from focus.files import UnreadableFile, opened
from focus.rules import Fault, dataset_named, faults_of, rules_of

Cells = dict[str, str | None]

CHARGE: Cells = {
    "BilledCost": "3.000000000",
    "BillingAccountId": "ai-company",
    "BillingAccountName": "AI Company",
    "BillingCurrency": "EUR",
    "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    "BillingPeriodStart": "2026-11-01T00:00:00Z",
    "CapacityReservationId": None,
    "CapacityReservationStatus": None,
    "ChargeCategory": "Usage",
    "ChargeClass": None,
    "ChargeDescription": "Guaranteed use of h100",
    "ChargeFrequency": "Usage-Based",
    "ChargePeriodEnd": "2026-11-02T00:00:00Z",
    "ChargePeriodStart": "2026-11-01T00:00:00Z",
    "CommitmentDiscountCategory": None,
    "CommitmentDiscountId": None,
    "CommitmentDiscountQuantity": None,
    "CommitmentDiscountStatus": None,
    "CommitmentDiscountType": None,
    "CommitmentDiscountUnit": None,
    "ConsumedQuantity": "1.500000000000",
    "ConsumedUnit": "GPU-Hours",
    "ContractApplied": None,
    "ContractedCost": "3.000000000",
    "ContractedUnitPrice": "2.000000000",
    "EffectiveCost": "3.000000000",
    "HostProviderName": "Tidegate",
    "InvoiceDetailId": None,
    "InvoiceId": None,
    "InvoiceIssuerName": "Tidegate",
    "ListCost": "3.000000000",
    "ListUnitPrice": "2.000000000",
    "PricingCategory": "Standard",
    "PricingQuantity": "1.500000000000",
    "PricingUnit": "GPU-Hours",
    "RegionId": "alpha",
    "RegionName": "alpha",
    "ResourceId": "urn:tidegate:attempt:1",
    "ResourceName": "train",
    "ResourceType": "GPU Job",
    "ServiceCategory": "AI and Machine Learning",
    "ServiceName": "GPU Compute",
    "ServiceProviderName": "Tidegate",
    "SkuId": "h100",
    "SkuPriceId": "h100/guaranteed/normal",
    "SubAccountId": "ai-company/research/nlp",
    "SubAccountName": "nlp",
    "SubAccountType": "Team",
    "Tags": '{"tidegate/department": "research"}',
    "x_JobId": "7",
}
PERIOD: Cells = {
    "BillingPeriodCreated": "2026-11-01T00:00:00Z",
    "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    "BillingPeriodLastUpdated": "2026-11-21T00:00:00Z",
    "BillingPeriodStart": "2026-11-01T00:00:00Z",
    "BillingPeriodStatus": "Open",
    "InvoiceIssuerName": "Tidegate",
}
COMMITMENT: Cells = {
    "BillingCurrency": "EUR",
    "ContractCommitmentApplicability": '{"IsGlobalScope": true}',
    "ContractCommitmentBenefitCategory": "Availability",
    "ContractCommitmentCategory": "Usage",
    "ContractCommitmentCost": None,
    "ContractCommitmentCreated": "2026-10-31T00:00:00Z",
    "ContractCommitmentDescription": "40 GPUs of h100",
    "ContractCommitmentDiscountPercentage": None,
    "ContractCommitmentDurationType": "1 Month",
    "ContractCommitmentFulfillmentInterval": "Hourly",
    "ContractCommitmentId": "q1",
    "ContractCommitmentLastUpdated": "2026-11-21T00:00:00Z",
    "ContractCommitmentLifecycleStatus": "Active",
    "ContractCommitmentModel": "Continuous",
    "ContractCommitmentOfferCategory": "Negotiated",
    "ContractCommitmentPaymentInterval": "Monthly",
    "ContractCommitmentPaymentModel": "No Upfront",
    "ContractCommitmentPaymentUpfrontPercentage": "0",
    "ContractCommitmentPeriodEnd": "2026-12-01T00:00:00Z",
    "ContractCommitmentPeriodStart": "2026-11-01T00:00:00Z",
    "ContractCommitmentQuantity": "28800.000000000000",
    "ContractCommitmentType": "Guaranteed Quota",
    "ContractCommitmentUnit": "GPU-Hours",
    "ContractId": "ai-company/research/nlp",
    "ContractPeriodEnd": "2026-12-01T00:00:00Z",
    "ContractPeriodStart": "2026-11-01T00:00:00Z",
    "InvoiceIssuerName": "Tidegate",
    "ServiceProviderName": "Tidegate",
}
INVOICE: Cells = {
    "BilledCost": "3.00",
    "BillingAccountId": "ai-company",
    "BillingCurrency": "EUR",
    "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    "BillingPeriodStart": "2026-11-01T00:00:00Z",
    "ChargeCategory": "Usage",
    "InvoiceDetailCreated": "2026-12-04T00:00:00Z",
    "InvoiceDetailDescription": None,
    "InvoiceDetailGrain": '{"SubAccountId": "nlp"}',
    "InvoiceDetailId": "1",
    "InvoiceDetailLastUpdated": "2026-12-04T00:00:00Z",
    "InvoiceId": "2026-11",
    "InvoiceIssueDate": "2026-12-04T00:00:00Z",
    "InvoiceIssueStatus": "Issued",
    "InvoiceIssuerName": "Tidegate",
    "PaymentDueDate": None,
    "PaymentTerms": "30 days",
    "ReferenceInvoiceId": "2026-11",
}
GOOD = {
    "CostAndUsage": CHARGE,
    "BillingPeriod": PERIOD,
    "ContractCommitment": COMMITMENT,
    "InvoiceDetail": INVOICE,
}
CORRECTION = {
    "ChargeClass": "Correction",
    "ChargePeriodStart": "2026-10-01T00:00:00Z",
    "ChargePeriodEnd": "2026-10-02T00:00:00Z",
}
#: A commitment of 3 EUR, bought and used.
BOUGHT: Cells = {
    "ChargeCategory": "Purchase",
    "ChargeFrequency": "Recurring",
    "CommitmentDiscountCategory": "Usage",
    "CommitmentDiscountId": "q1",
    "CommitmentDiscountQuantity": "1.5",
    "CommitmentDiscountType": "Guaranteed Quota",
    "CommitmentDiscountUnit": "GPU-Hours",
    "ConsumedQuantity": None,
    "ConsumedUnit": None,
    "ContractApplied": '{"Elements": [{"ContractId": "c1", "ContractCommitmentId": "q1"}]}',
    "EffectiveCost": "0",
    "ResourceId": "q1",
}
USED: Cells = {
    **BOUGHT,
    "ChargeCategory": "Usage",
    "ChargeFrequency": "Usage-Based",
    "ResourceId": "urn:tidegate:attempt:1",
    "CommitmentDiscountStatus": "Used",
    "ConsumedQuantity": "1",
    "ConsumedUnit": "GPU-Hours",
    "BilledCost": "0",
    "EffectiveCost": "3",
    "PricingCategory": "Committed",
}


def found(dataset: str, *rows: Cells, header: list[str] | None = None) -> list[Fault]:
    columns = header or list(GOOD[dataset])
    return faults_of(dataset, columns, [[row.get(name) for name in columns] for row in rows])


def ids(faults: list[Fault]) -> list[str]:
    return [fault.rule for fault in faults]


@pytest.mark.parametrize("dataset", GOOD)
def test_a_good_file_has_no_fault(dataset: str) -> None:
    assert found(dataset, GOOD[dataset]) == []
    assert dataset_named(GOOD[dataset]) == dataset
    assert DATASETS[dataset].mandatory <= set(GOOD[dataset])


def test_good_rows_of_other_kinds_have_no_fault() -> None:
    """A correction of October in November, and a commitment that was bought and used."""
    assert found("CostAndUsage", {**CHARGE, **CORRECTION}) == []
    assert found("CostAndUsage", {**CHARGE, **BOUGHT}, {**CHARGE, **USED}) == []
    # 3 nano of difference are not rounding; 2 are.
    assert found("CostAndUsage", {**CHARGE, "ListCost": "3.000000002"}) == []


#: A rule, the change that breaks it, and other rules that the same change breaks.
BROKEN: list[tuple[str, str, Cells]] = [
    ("CostAndUsage", "VAL-NULL", {"HostProviderName": None}),
    ("CostAndUsage", "VAL-BLANK", {"ServiceName": "  "}),
    ("CostAndUsage", "VAL-DECIMAL", {"EffectiveCost": "3e0"}),
    ("CostAndUsage", "VAL-DECIMAL", {"EffectiveCost": "+3"}),
    ("CostAndUsage", "VAL-DECIMAL", {"EffectiveCost": "1,000.00"}),
    ("CostAndUsage", "VAL-TIME", {"ChargePeriodStart": "2026-11-01T01:00:00+01:00"}),
    ("CostAndUsage", "VAL-TIME", {"ChargePeriodStart": "2026-11-01T25:00:00Z"}),
    ("CostAndUsage", "VAL-CURRENCY", {"BillingCurrency": "Euro"}),
    ("CostAndUsage", "VAL-ALLOWED", {"ServiceCategory": "GPUs"}),
    ("CostAndUsage", "VAL-ALLOWED", {"ChargeClass": "Refund"}),
    ("CostAndUsage", "VAL-JSON", {"Tags": "department=research"}),
    ("CostAndUsage", "VAL-JSON", {"Tags": '{"a": {"b": 1}}'}),
    ("CostAndUsage", "VAL-UNIT", {"PricingUnit": "gpu hours"}),
    ("CostAndUsage", "CAU-PERIOD", {"ChargePeriodEnd": "2026-11-01T00:00:00Z"}),
    ("CostAndUsage", "CAU-WITHIN", {"ChargePeriodEnd": "2026-12-01T00:00:01Z"}),
    ("CostAndUsage", "CAU-LATER", {"ChargeClass": "Correction"}),
    ("CostAndUsage", "CAU-QUANTITY", {"PricingQuantity": None, "PricingUnit": None}),
    ("CostAndUsage", "CAU-UNIT", {"PricingUnit": None}),
    ("CostAndUsage", "CAU-CONSUMED", {"ConsumedQuantity": None, "ConsumedUnit": None}),
    ("CostAndUsage", "CAU-NOT-CONSUMED", {**BOUGHT, "ConsumedQuantity": "1", "ConsumedUnit": "X"}),
    ("CostAndUsage", "CAU-CONSUMED-UNIT", {"ConsumedUnit": None}),
    ("CostAndUsage", "CAU-SKU", {"SkuId": None}),
    ("CostAndUsage", "CAU-CATEGORY", {"PricingCategory": None}),
    ("CostAndUsage", "CAU-LIST", {"ListCost": "3.000000003"}),
    ("CostAndUsage", "CAU-CONTRACTED", {"ContractedCost": "2.999999997"}),
    ("CostAndUsage", "CAU-CREDIT", {
        "ChargeCategory": "Credit", "BilledCost": "-3", "ConsumedQuantity": None,
        "ConsumedUnit": None,
    }),
    ("CostAndUsage", "CAU-NEGATIVE", {"ConsumedQuantity": "-1"}),
    ("CostAndUsage", "CAU-COMMITTED", {"PricingCategory": "Committed"}),
    ("CostAndUsage", "CAU-COMMITMENT", {**USED, "CommitmentDiscountType": None}),
    ("CostAndUsage", "CAU-COMMITMENT-STATUS", {**USED, "CommitmentDiscountStatus": None}),
    ("CostAndUsage", "CAU-COMMITMENT-QUANTITY", {**BOUGHT, "CommitmentDiscountUnit": None}),
    ("CostAndUsage", "CAU-COMMITMENT-QUANTITY", {
        **USED, "CommitmentDiscountQuantity": None, "CommitmentDiscountUnit": None,
    }),
    ("CostAndUsage", "CAU-COMMITMENT-QUANTITY", {
        "CommitmentDiscountQuantity": "1", "CommitmentDiscountUnit": "GPU-Hours",
    }),
    ("CostAndUsage", "CAU-COMMITMENT-RESOURCE", {**BOUGHT, "ResourceId": "q2"}),
    ("CostAndUsage", "CAU-COMMITMENT-RESOURCE", {
        **USED, "CommitmentDiscountStatus": "Unused", "ConsumedQuantity": None,
        "ConsumedUnit": None,
    }),
    ("CostAndUsage", "CAU-CONTRACT", {"ContractApplied": "{}"}),
    ("CostAndUsage", "CAU-CONTRACT", {"ContractApplied": '{"Elements": [{"ContractId": "c"}]}'}),
    ("CostAndUsage", "CAU-FREQUENCY", {**BOUGHT, "ChargeFrequency": "Usage-Based"}),
    ("CostAndUsage", "CAU-COVERING", {**BOUGHT, "EffectiveCost": "3"}),
    ("CostAndUsage", "CAU-RESERVATION", {"CapacityReservationStatus": "Used"}),
    ("CostAndUsage", "CAU-SUB-ACCOUNT", {"SubAccountId": None}),
    ("CostAndUsage", "CAU-RESOURCE", {"ResourceId": None}),
    ("CostAndUsage", "CAU-REGION", {"RegionId": None}),
    ("CostAndUsage", "CAU-INVOICE", {"InvoiceDetailId": "1"}),
    ("BillingPeriod", "BP-ORDER", {"BillingPeriodEnd": "2026-11-01T00:00:00Z"}),
    ("BillingPeriod", "BP-UPDATED", {"BillingPeriodLastUpdated": "2026-10-31T00:00:00Z"}),
    ("BillingPeriod", "VAL-ALLOWED", {"BillingPeriodStatus": "Grace"}),
    ("ContractCommitment", "CC-ORDER", {"ContractCommitmentPeriodEnd": "2026-11-01T00:00:00Z"}),
    ("ContractCommitment", "CC-CONTRACT", {"ContractPeriodEnd": "2026-11-01T00:00:00Z"}),
    ("ContractCommitment", "CC-USAGE", {
        "ContractCommitmentQuantity": None, "ContractCommitmentUnit": None,
    }),
    ("ContractCommitment", "CC-UNIT", {"ContractCommitmentUnit": None}),
    ("ContractCommitment", "CC-UPDATED", {"ContractCommitmentCreated": "2026-11-21T00:00:01Z"}),
    ("ContractCommitment", "CC-DISCOUNT", {"ContractCommitmentBenefitCategory": "Discount"}),
    ("ContractCommitment", "CC-DISCOUNT", {"ContractCommitmentDiscountPercentage": "0.1"}),
    ("ContractCommitment", "CC-DISCOUNT", {
        "ContractCommitmentBenefitCategory": "Discount",
        "ContractCommitmentDiscountPercentage": "10",
    }),
    ("ContractCommitment", "CC-INTERVAL", {"ContractCommitmentFulfillmentInterval": "Full Period"}),
    ("ContractCommitment", "CC-PAYMENT", {
        "ContractCommitmentPaymentModel": "All Upfront",
        "ContractCommitmentPaymentUpfrontPercentage": "1.0",
    }),
    ("ContractCommitment", "CC-UPFRONT", {"ContractCommitmentPaymentUpfrontPercentage": "0.5"}),
    ("ContractCommitment", "CC-SCOPE", {"ContractCommitmentApplicability": "{}"}),
    ("ContractCommitment", "CC-SCOPE", {
        "ContractCommitmentApplicability": '{"IsGlobalScope": true, "IsComplexScope": true}',
    }),
    ("ContractCommitment", "VAL-ALLOWED", {"ContractCommitmentLifecycleStatus": "Open"}),
    ("ContractCommitment", "CC-SPEND", {"ContractCommitmentCategory": "Spend"}),
    ("ContractCommitment", "CC-CURRENCY", {"BillingCurrency": None, "ContractCommitmentCost": "1"}),
    ("InvoiceDetail", "ID-BILLING", {"BillingPeriodEnd": "2026-11-01T00:00:00Z"}),
    ("InvoiceDetail", "ID-UPDATED", {"InvoiceDetailLastUpdated": "2026-12-03T00:00:00Z"}),
    ("InvoiceDetail", "ID-ISSUED", {"InvoiceIssueDate": None}),
    ("InvoiceDetail", "VAL-ALLOWED", {"InvoiceIssueStatus": "Paid"}),
]  # fmt: skip


@pytest.mark.parametrize(("dataset", "rule", "change"), BROKEN)
def test_a_broken_value_is_found_by_one_rule(dataset: str, rule: str, change: Cells) -> None:
    """Each planted fault breaks its rule alone, and the rule says where."""
    (fault,) = found(dataset, {**GOOD[dataset], **change})
    assert (fault.rule, fault.count) == (rule, 1)
    assert fault.examples[0].startswith("row 1")
    assert fault.says == rules_of(dataset)[rule]


def test_values_that_break_several_rules() -> None:
    """A charge without a SKU has no price either; a billing period backwards holds no charge."""
    nothing = {"SkuPriceId": None, "ListUnitPrice": None, "ContractedUnitPrice": None}
    assert ids(found("CostAndUsage", {**CHARGE, **nothing})) == ["CAU-SKU-PRICE", "CAU-PRICED"]
    backwards = {**CHARGE, "BillingPeriodEnd": "2026-10-01T00:00:00Z"}
    assert ids(found("CostAndUsage", backwards)) == ["CAU-BILLING", "CAU-WITHIN"]
    tax = {**CHARGE, "ChargeCategory": "Tax", "ConsumedQuantity": None, "ConsumedUnit": None}
    assert ids(found("CostAndUsage", tax)) == ["CAU-SKU-TAX"]


@pytest.mark.parametrize(
    ("rule", "header"),
    [
        ("COL-PRESENT", [name for name in CHARGE if name != "BilledCost"]),
        ("COL-ONCE", [*CHARGE, "x_JobId"]),
        ("COL-KNOWN", ["ProviderName", *CHARGE]),
        ("COL-CUSTOM", [*CHARGE, "x_job_id"]),
        ("COL-LAST", ["x_Attempt", *CHARGE]),
    ],
)
def test_a_broken_header_is_found(rule: str, header: list[str]) -> None:
    """ProviderName was dropped in 1.4."""
    assert ids(found("CostAndUsage", CHARGE, header=header)) == [rule]


def test_rows_and_sets() -> None:
    """A row that is too short, ids that occur twice, two parents, and a purchase not used up."""
    columns = list(CHARGE)
    assert ids(faults_of("CostAndUsage", columns, [["1"]])) == ["ROW-WIDTH"]
    assert ids(found("BillingPeriod", PERIOD, PERIOD)) == ["SET-UNIQUE"]
    assert ids(found("ContractCommitment", COMMITMENT, COMMITMENT)) == ["SET-UNIQUE"]
    assert ids(found("CostAndUsage", CHARGE, {**CHARGE, "SkuId": "a10"})) == ["SET-PARENT"]
    used = {**CHARGE, **USED, "EffectiveCost": "2"}
    (fault,) = found("CostAndUsage", {**CHARGE, **BOUGHT}, used)
    assert (fault.rule, fault.examples) == (
        "SET-COMMITMENT",
        ("q1: bought 3.000000000, used and unused 2",),
    )


def test_invoices_sum_to_their_totals_and_credit_notes_to_the_original() -> None:
    """An invoice of two lines, and a credit note of it. A part of it may be taken back, too.

    Planted: totals that are not compared. Against: a credit compared without its sign."""
    first = {**INVOICE, "x_InvoiceTotal": "5.00"}
    second = {**first, "InvoiceDetailId": "2", "BilledCost": "2.00"}
    note = {**first, "InvoiceId": "2026-12", "x_InvoiceTotal": "-5.00", "BilledCost": "-5.00"}
    header = list(first)
    assert found("InvoiceDetail", first, second, note, header=header) == []
    part = {**note, "BilledCost": "-4.00", "x_InvoiceTotal": "-4.00"}
    assert found("InvoiceDetail", first, second, part, header=header) == []
    (fault,) = found("InvoiceDetail", first, header=header)
    assert (fault.rule, fault.examples) == ("SET-INVOICE", ("2026-11: lines 3.00, total 5.00",))
    more = {**note, "BilledCost": "-5.01", "x_InvoiceTotal": "-5.01"}
    (fault,) = found("InvoiceDetail", first, second, more, header=header)
    assert (fault.rule, fault.examples) == (
        "SET-CREDIT",
        ("2026-11: billed 5.00, adjusted by -5.01",),
    )
    terms = {**second, "PaymentTerms": "10 days"}
    assert ids(found("InvoiceDetail", first, terms, header=header)) == ["SET-PARENT"]


def test_every_rule_has_a_fault_in_these_tests() -> None:
    """There are 67 rules; `BROKEN` and the tests beside it have a fault for each."""
    text = Path(__file__).read_text()
    rules = {rule for dataset in GOOD for rule in rules_of(dataset)}
    assert len(rules) == 67
    assert {rule for rule in rules if f'"{rule}"' not in text} == set()


def test_all_faults_count_and_some_are_named() -> None:
    (fault,) = found("CostAndUsage", *[{**CHARGE, "ServiceName": None}] * 5)
    assert (fault.count, len(fault.examples)) == (5, 3)


def test_files_of_both_formats_are_read(tmp_path: Path) -> None:
    """An empty cell of CSV and a null of Parquet are the same."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = io.StringIO()
    writer = csv.DictWriter(text, list(CHARGE))
    writer.writeheader()
    writer.writerow({name: cell or "" for name, cell in CHARGE.items()})
    file = tmp_path / "charges.csv"
    file.write_text(text.getvalue(), newline="")
    pq.write_table(
        pa.table({name: pa.array([cell], pa.string()) for name, cell in CHARGE.items()}),
        tmp_path / "charges.parquet",
    )
    for path in (file, tmp_path / "charges.parquet"):
        with opened(path) as (header, rows):
            assert [dict(zip(header, row, strict=True)) for row in rows] == [CHARGE]
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "no.parquet").write_text("no")
    for name in ("empty.csv", "no.parquet"):
        with pytest.raises(UnreadableFile), opened(tmp_path / name):
            pass
    assert dataset_named(["a", "b"]) is None
