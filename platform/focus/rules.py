"""Rules of FOCUS 1.4 for files: columns, formats, values, and relations between columns.

Pure: it knows no file format. Cells are texts as in CSV, and empty ones are None. Values of costs
and quantities are compared exactly, as decimals.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from focus.columns import DATASETS, Dataset, Field

Row = Mapping[str, str | None]

#: Faults of one rule that are described. All are counted.
EXAMPLES_MAX = 3
#: Distinct ids that a rule remembers. Files of more jobs are checked in part.
_REMEMBERED_MAX = 1_000_000
#: Largest difference between a cost and unit price x quantity. Costs are rounded at the ninth
#: decimal twice, and quantities at the twelfth.
_COST_TOLERANCE = Decimal("0.000000002")
_QUANTITY_TOLERANCE = Decimal("0.000000000001")

_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_CURRENCY = re.compile(r"[A-Z]{3}")
_UNIT = re.compile(r"([1-9][0-9]* )?[A-Z][A-Za-z]*(-[A-Z][A-Za-z]*)?(/([1-9][0-9]* )?[A-Z][a-z]*)?")
_CUSTOM = re.compile(r"x_[A-Z][A-Za-z0-9]{0,47}")


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that a file breaks, how often, and some of the places."""

    rule: str
    says: str
    count: int
    examples: tuple[str, ...]


@dataclass(slots=True)
class _Findings:
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, rule: str, where: str) -> None:
        self.counts[rule] += 1
        found = self.examples.setdefault(rule, [])
        if len(found) < EXAMPLES_MAX:
            found.append(where)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of one row. `holds` returns whether the row keeps it."""

    id: str
    says: str
    holds: Callable[[Row], bool]


def _is(row: Row, name: str, *values: str) -> bool:
    return row.get(name) in values


def _known(row: Row, name: str) -> bool:
    return row.get(name) is not None


def _number(row: Row, name: str) -> Decimal | None:
    text = row.get(name)
    return Decimal(text) if text is not None and _DECIMAL.fullmatch(text) else None


def _if(condition: bool, consequence: bool) -> bool:
    return consequence or not condition


def _is_bought(row: Row) -> bool:
    """Return whether the row is regular usage or a purchase."""
    return _is(row, "ChargeCategory", "Usage", "Purchase") and not _is(
        row, "ChargeClass", "Correction"
    )


def _ordered(row: Row, start: str, end: str) -> bool:
    first, last = row.get(start), row.get(end)
    # Texts of one form sort as their times do.
    return first is None or last is None or first < last


def _product(row: Row, price: str, cost: str) -> bool:
    factors = _number(row, price), _number(row, "PricingQuantity")
    found = _number(row, cost)
    if factors[0] is None or factors[1] is None or found is None:
        return True
    tolerance = _COST_TOLERANCE + abs(factors[0]) * _QUANTITY_TOLERANCE
    return abs(factors[0] * factors[1] - found) <= tolerance


def _together(*names: str) -> Callable[[Row], bool]:
    return lambda row: len({_known(row, name) for name in names}) == 1


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
            _is(row, "ChargeClass", "Correction")
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
            _is(row, "ChargeClass", "Correction"),
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
            and _is(row, "ChargeCategory", "Usage")
            and not _is(row, "CommitmentDiscountStatus", "Unused"),
            _known(row, "ConsumedQuantity"),
        ),
    ),
    Rule(
        "CAU-NOT-CONSUMED",
        "Only usage has a ConsumedQuantity",
        lambda row: _if(
            not _is(row, "ChargeCategory", "Usage")
            or _is(row, "CommitmentDiscountStatus", "Unused"),
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
        lambda row: _if(_is(row, "ChargeCategory", "Tax"), not _known(row, "SkuPriceId")),
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
            _is(row, "ChargeCategory", "Credit"),
            _number(row, "ContractedCost") == _number(row, "BilledCost"),
        ),
    ),
    Rule(
        "CAU-NEGATIVE",
        "Usage that is no correction has no negative quantity or price",
        lambda row: _if(
            _is_bought(row),
            all(
                (_number(row, name) or 0) >= 0
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
            _is(row, "PricingCategory", "Committed"), _known(row, "CommitmentDiscountId")
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
            == (_known(row, "CommitmentDiscountId") and _is(row, "ChargeCategory", "Usage"))
        ),
    ),
    Rule(
        "CAU-COVERING",
        "The purchase of a commitment has no EffectiveCost",
        lambda row: _if(
            _is(row, "ChargeCategory", "Purchase") and _known(row, "CommitmentDiscountId"),
            _number(row, "EffectiveCost") == 0,
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
        "A commitment of usage has a quantity and a unit",
        lambda row: _if(
            _is(row, "ContractCommitmentCategory", "Usage"),
            _known(row, "ContractCommitmentQuantity") and _known(row, "ContractCommitmentUnit"),
        ),
    ),
    Rule(
        "CC-SPEND",
        "A commitment of spend has a cost",
        lambda row: _if(
            _is(row, "ContractCommitmentCategory", "Spend"), _known(row, "ContractCommitmentCost")
        ),
    ),
    Rule(
        "CC-CURRENCY",
        "A cost has a currency",
        lambda row: _if(_known(row, "ContractCommitmentCost"), _known(row, "BillingCurrency")),
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
        lambda row: _if(_is(row, "InvoiceIssueStatus", "Issued"), _known(row, "InvoiceIssueDate")),
    ),
)

ROW_RULES: Mapping[str, Sequence[Rule]] = {
    "CostAndUsage": COST_AND_USAGE,
    "BillingPeriod": BILLING_PERIOD,
    "ContractCommitment": CONTRACT_COMMITMENT,
    "InvoiceDetail": INVOICE_DETAIL,
}
#: The columns whose values together occur once, and the id that has one value of another column.
UNIQUE: Mapping[str, tuple[str, ...]] = {
    "BillingPeriod": ("BillingPeriodStart", "InvoiceIssuerName"),
    "ContractCommitment": ("ContractCommitmentId", "ContractCommitmentPeriodStart"),
    "InvoiceDetail": ("InvoiceIssuerName", "InvoiceId", "InvoiceDetailId"),
}
_ONE_PARENT: Mapping[str, tuple[tuple[str, str], ...]] = {
    "CostAndUsage": (
        ("SkuPriceId", "SkuId"),
        ("BillingAccountId", "BillingAccountName"),
        ("ResourceId", "ResourceType"),
    ),
}

#: What each rule of all files says.
GENERAL: Mapping[str, str] = {
    "COL-PRESENT": "All mandatory columns are present",
    "COL-ONCE": "No column occurs twice",
    "COL-KNOWN": "Columns are of FOCUS or begin with x_",
    "COL-CUSTOM": "Custom columns are x_ and Pascal case, at most 50 characters",
    "COL-LAST": "Custom columns come last",
    "ROW-WIDTH": "Each row has a cell for each column",
    "VAL-NULL": "Columns that may not be empty have a value",
    "VAL-BLANK": "No text is blank",
    "VAL-DECIMAL": "Numbers are plain decimals",
    "VAL-TIME": "Times are UTC, such as 2026-11-01T00:00:00Z",
    "VAL-CURRENCY": "Currencies are ISO 4217 codes",
    "VAL-ALLOWED": "Values are among the allowed ones",
    "VAL-JSON": "Objects are JSON objects without nesting",
    "VAL-UNIT": "Units are like GPU-Hours",
    "SET-UNIQUE": "Ids occur once",
    "SET-PARENT": "An id has one parent and one name",
    "SET-COMMITMENT": "Used and unused parts of a commitment have the cost of its purchase",
}


def rules_of(dataset: str) -> Mapping[str, str]:
    """Return what each rule for files of the dataset says, by its id."""
    return {**GENERAL, **{rule.id: rule.says for rule in ROW_RULES[dataset]}}


def dataset_named(header: Iterable[str]) -> str | None:
    """Return the dataset that a header belongs to: the one with most of its own columns."""
    names = set(header)
    best = max(DATASETS.values(), key=lambda one: len(names & one.mandatory) / len(one.mandatory))
    return best.name if names & best.mandatory else None


def faults_of(
    dataset_name: str, header: Sequence[str], rows: Iterable[Sequence[str | None]]
) -> list[Fault]:
    """Return the faults of a file, by rule. `rows` may be a stream: each is read once."""
    dataset, findings = DATASETS[dataset_name], _Findings()
    for rule, where in _faults_of_header(dataset, header):
        findings.add(rule, where)
    fields = {name: dataset.fields[name] for name in header if name in dataset.fields}
    sets = _Sets(dataset_name)
    for number, cells in enumerate(rows, 1):
        if len(cells) != len(header):
            findings.add("ROW-WIDTH", f"row {number}: {len(cells)} cells")
            continue
        row = dict(zip(header, cells, strict=True))
        for rule, where in _faults_of_values(row, fields):
            findings.add(rule, f"row {number}: {where}")
        for each in ROW_RULES[dataset_name]:
            if not each.holds(row):
                findings.add(each.id, f"row {number}")
        for rule, where in sets.faults(row):
            findings.add(rule, f"row {number}: {where}")
    for rule, where in sets.faults_at_end():
        findings.add(rule, where)
    says = rules_of(dataset_name)
    return [
        Fault(rule, says[rule], findings.counts[rule], tuple(findings.examples[rule]))
        for rule in says
        if findings.counts[rule]
    ]


def _faults_of_header(dataset: Dataset, header: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in sorted(dataset.mandatory - set(header)):
        yield "COL-PRESENT", name
    for name, count in Counter(header).items():
        if count > 1:
            yield "COL-ONCE", name
        if name in dataset.fields:
            continue
        if not name.startswith("x_"):
            yield "COL-KNOWN", name
        elif not _CUSTOM.fullmatch(name):
            yield "COL-CUSTOM", name
    is_custom = [name.startswith("x_") for name in header]
    if is_custom != sorted(is_custom):
        yield "COL-LAST", header[is_custom.index(True)]


def _faults_of_values(row: Row, fields: Mapping[str, Field]) -> Iterator[tuple[str, str]]:
    for name, text in row.items():
        known = fields.get(name)
        if text is None:
            if known is not None and not known.is_nullable:
                yield "VAL-NULL", name
            continue
        if not text.strip():
            yield "VAL-BLANK", name
        elif known is not None and (rule := _fault_of_value(text, known)):
            yield rule, f"{name} is {text[:40]!r}"


def _fault_of_value(text: str, known: Field) -> str | None:
    checks: Mapping[str, tuple[str, Callable[[str], bool]]] = {
        "decimal": ("VAL-DECIMAL", lambda value: bool(_DECIMAL.fullmatch(value))),
        "time": ("VAL-TIME", _is_time),
        "currency": ("VAL-CURRENCY", lambda value: bool(_CURRENCY.fullmatch(value))),
        "json": ("VAL-JSON", _is_flat_object),
        "unit": ("VAL-UNIT", lambda value: bool(_UNIT.fullmatch(value))),
        "objects": ("VAL-JSON", _is_object),
    }
    if known.allowed and text not in known.allowed:
        return "VAL-ALLOWED"
    rule, is_valid = checks.get(known.kind, ("", lambda value: True))
    return None if is_valid(text) else rule


def _is_time(text: str) -> bool:
    try:
        return bool(_TIME.fullmatch(text)) and datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_flat_object(text: str) -> bool:
    return _is_object(text) and not any(
        isinstance(value, dict | list) for value in json.loads(text).values()
    )


class _Sets:
    """Rules over all rows of a file."""

    def __init__(self, dataset: str) -> None:
        self._unique = UNIQUE.get(dataset)
        self._seen: set[tuple[str | None, ...]] = set()
        self._parents: dict[tuple[str, str], str | None] = {}
        self._pairs = _ONE_PARENT.get(dataset, ())
        self._commitments: dict[str, list[Decimal | None]] = {}

    def faults(self, row: Row) -> Iterator[tuple[str, str]]:
        if self._unique is not None:
            key = tuple(row.get(name) for name in self._unique)
            if key in self._seen:
                yield "SET-UNIQUE", " ".join(part or "" for part in key)
            if len(self._seen) < _REMEMBERED_MAX:
                self._seen.add(key)
        for child, parent in self._pairs:
            value = row.get(child)
            if value is None:
                continue
            if len(self._parents) < _REMEMBERED_MAX:
                self._parents.setdefault((child, value), row.get(parent))
            if self._parents.get((child, value), row.get(parent)) != row.get(parent):
                yield "SET-PARENT", f"{child} {value}"
        self._sum_commitment(row)

    def _sum_commitment(self, row: Row) -> None:
        name = row.get("CommitmentDiscountId")
        if name is None:
            return
        place, cost = (
            (0, "BilledCost") if _is(row, "ChargeCategory", "Purchase") else (1, "EffectiveCost")
        )
        sums = self._commitments.setdefault(name, [None, None])
        sums[place] = (sums[place] or Decimal(0)) + (_number(row, cost) or 0)

    def faults_at_end(self) -> Iterator[tuple[str, str]]:
        for name, (bought, used) in sorted(self._commitments.items()):
            # A file of a part of the commitment's term has only one of them.
            if bought is not None and used is not None and bought != used:
                yield "SET-COMMITMENT", f"{name}: bought {bought}, used and unused {used}"
