"""Rules of FOCUS 1.4 for files: columns, formats and values, and what holds over all rows.

Pure: it knows no file format. Cells are texts as in CSV, and empty ones are None. `focus.row_rules`
has the relations between the columns of a row.
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
from focus.row_rules import DECIMAL, ROW_RULES, Row, has_one_of, number_in

#: Faults of one rule that are described. All are counted.
EXAMPLES_MAX = 3
#: Distinct ids that a rule remembers. Files of more jobs are checked in part.
_REMEMBERED_MAX = 1_000_000

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


#: The columns whose values together occur once, and the id that has one value of another column.
UNIQUE: Mapping[str, tuple[str, ...]] = {
    "BillingPeriod": ("BillingPeriodStart", "InvoiceIssuerName"),
    "ContractCommitment": ("ContractCommitmentId",),
    "InvoiceDetail": ("InvoiceIssuerName", "InvoiceId", "InvoiceDetailId"),
}
#: Our own column: what an invoice sums to, as it was issued.
TOTAL = "x_InvoiceTotal"
_ONE_PARENT: Mapping[str, tuple[tuple[str, str], ...]] = {
    "CostAndUsage": (
        ("SkuPriceId", "SkuId"),
        ("BillingAccountId", "BillingAccountName"),
        ("ResourceId", "ResourceType"),
    ),
    "InvoiceDetail": tuple(
        ("InvoiceId", name)
        for name in (
            "BillingCurrency",
            "InvoiceIssueDate",
            "InvoiceIssueStatus",
            "PaymentDueDate",
            "PaymentTerms",
            TOTAL,
        )
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
    "SET-INVOICE": "The lines of an invoice sum to its x_InvoiceTotal",
    "SET-CREDIT": "Lines that adjust another invoice take back no more than it bills",
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
        "decimal": ("VAL-DECIMAL", lambda value: bool(DECIMAL.fullmatch(value))),
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
        self._parents: dict[tuple[str, str, str], str | None] = {}
        self._pairs = _ONE_PARENT.get(dataset, ())
        self._commitments: dict[str, list[Decimal | None]] = {}
        #: What each invoice bills, what it was issued with, and what adjusts it.
        self._billed: dict[str, Decimal] = {}
        self._issued: dict[str, Decimal] = {}
        self._adjusted: dict[str, Decimal] = {}

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
            pair = (child, parent, value)
            if len(self._parents) < _REMEMBERED_MAX:
                self._parents.setdefault(pair, row.get(parent))
            if self._parents.get(pair, row.get(parent)) != row.get(parent):
                yield "SET-PARENT", f"{child} {value}"
        self._sum_commitment(row)
        self._sum_invoice(row)

    def _sum_commitment(self, row: Row) -> None:
        name = row.get("CommitmentDiscountId")
        if name is None:
            return
        place, cost = (
            (0, "BilledCost")
            if has_one_of(row, "ChargeCategory", "Purchase")
            else (1, "EffectiveCost")
        )
        sums = self._commitments.setdefault(name, [None, None])
        sums[place] = (sums[place] or Decimal(0)) + (number_in(row, cost) or 0)

    def _sum_invoice(self, row: Row) -> None:
        invoice, original = row.get("InvoiceId"), row.get("ReferenceInvoiceId")
        if invoice is None or original is None:
            return
        if invoice not in self._billed and len(self._billed) == _REMEMBERED_MAX:
            return
        cost = number_in(row, "BilledCost") or Decimal(0)
        self._billed[invoice] = self._billed.get(invoice, Decimal(0)) + cost
        if (total := number_in(row, TOTAL)) is not None:
            self._issued[invoice] = total
        if original != invoice:
            self._adjusted[original] = self._adjusted.get(original, Decimal(0)) + cost

    def faults_at_end(self) -> Iterator[tuple[str, str]]:
        for name, (bought, used) in sorted(self._commitments.items()):
            # A file of a part of the commitment's term has only one of them.
            if bought is not None and used is not None and bought != used:
                yield "SET-COMMITMENT", f"{name}: bought {bought}, used and unused {used}"
        for invoice, total in sorted(self._issued.items()):
            if self._billed[invoice] != total:
                yield "SET-INVOICE", f"{invoice}: lines {self._billed[invoice]}, total {total}"
        for invoice, change in sorted(self._adjusted.items()):
            # The original may be in the file of another month.
            billed = self._billed.get(invoice)
            if billed is not None and (billed + change) * billed < 0:
                yield "SET-CREDIT", f"{invoice}: billed {billed}, adjusted by {change}"
