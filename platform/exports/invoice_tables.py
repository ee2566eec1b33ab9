"""Columns of Invoice Detail of FOCUS 1.4: the lines of issued statements and of credit notes.

A statement is an invoice, and each of its lines is a row, also one that costs nothing. A credit
note is an invoice that refers to the one that it takes back. Both stay issued, and rows never
change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from django.db.models import QuerySet

from billing.models import ExtraCharge
from exports.focus_rows import category_of
from exports.focus_tables import Billing, charged_for, quantity_unit
from exports.models import Export
from exports.tables import MICRO, Column, decimal, micro_hours, text, time
from periods.charges import BATCH_ROWS
from periods.posting import NANO_PER_CENT
from periods.statement_models import Statement, StatementLine

_CENTS = 2
#: `PaymentTerms` of a statement that has none. The column may not be empty.
_NO_TERMS = "Not specified"
_ADJUSTMENTS = frozenset({"adjustment", "refund"})


class InvoiceLine(NamedTuple):
    """A line of a statement with its use, and its cost by all measures: the cents that it bills."""

    line: StatementLine
    device: str
    currency: str
    mgpu_s: int
    list_cost_nano: int
    contracted_cost_nano: int
    billed_cost_nano: int
    effective_cost_nano: int


def invoice_detail(billing: Billing) -> Sequence[Column]:
    """Return the columns of Invoice Detail for rows of `InvoiceLine`. Our own come last."""
    return (
        decimal("BilledCost", lambda one: one.line.amount_cents, _CENTS),
        text("BillingAccountId", lambda one: billing.account),
        text("BillingCurrency", lambda one: one.currency),
        time("BillingPeriodEnd", lambda one: billing.end),
        time("BillingPeriodStart", lambda one: billing.start),
        text("ChargeCategory", _category),
        time("InvoiceDetailCreated", lambda one: one.line.statement.issued_at),
        text("InvoiceDetailDescription", _description),
        text("InvoiceDetailGrain", _grain),
        text("InvoiceDetailId", lambda one: str(one.line.number)),
        time("InvoiceDetailLastUpdated", lambda one: one.line.statement.issued_at),
        text("InvoiceId", lambda one: one.line.statement.number),
        time("InvoiceIssueDate", lambda one: one.line.statement.issued_at),
        text("InvoiceIssueStatus", lambda one: "Issued"),
        text("InvoiceIssuerName", lambda one: one.line.statement.provider),
        time("PaymentDueDate", lambda one: _due_at(one.line.statement)),
        text("PaymentTerms", lambda one: one.line.statement.terms or _NO_TERMS),
        text("ReferenceInvoiceId", lambda one: _original(one.line.statement).number),
        text("x_ChargeClass", lambda one: "Correction" if one.line.is_correction else None),
        text("x_CostCentre", lambda one: one.line.cost_centre or None),
        decimal("x_InvoiceTotal", lambda one: one.line.statement.total_cents, _CENTS),
        text("x_ProjectCode", lambda one: one.line.project_code or None),
        decimal("x_Quantity", micro_hours, MICRO),
        text("x_QuantityUnit", quantity_unit),
        text("x_UnitId", lambda one: one.line.statement.unit_path),
        text("x_UnitName", lambda one: one.line.statement.unit_name),
    )


def invoice_batches(export: Export) -> Iterator[Sequence[InvoiceLine]]:
    """Yield the lines of the month's statements until `as_of`, at most 5,000 at once.

    Statements of units at or below the export's node count, each with all of its lines.
    """
    lines = StatementLine.objects.filter(
        statement__period__organization=export.organization_id,
        statement__period__start=export.start,
        statement__period__end=export.end,
        statement__issued_at__lte=export.as_of,
    ).select_related("statement__credits", "adjustment")
    rows = _rows(lines.order_by("statement__year", "statement__sequence", "number"), export)
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch


def _rows(lines: QuerySet[StatementLine], export: Export) -> Iterator[InvoiceLine]:
    for line in lines.iterator(chunk_size=BATCH_ROWS):
        if f"{line.statement.unit_path}/".startswith(export.node_path):
            costs = (line.amount_cents * NANO_PER_CENT,) * 4
            yield InvoiceLine(line, line.device, line.statement.currency, line.mgpu_s, *costs)


def _category(one: InvoiceLine) -> str:
    if one.line.adjustment is not None:
        return category_of(one.line.adjustment)
    return "Purchase" if one.line.usage_class == ExtraCharge.COMMITMENT else "Usage"


def _description(one: InvoiceLine) -> str:
    line = one.line
    what = f"{charged_for(line.usage_class)} {line.pool}"
    if line.usage_class in _ADJUSTMENTS:
        what = line.usage_class.capitalize() + (f" for {line.pool}" if line.pool else "")
    correction = ", correction" if line.is_correction else ""
    credited = f", credit of {line.statement.credits.number}" if line.statement.credits else ""
    reason = f": {line.adjustment.reason}" if line.adjustment else ""
    return f"{what} of {line.team_path} in {line.month:%Y-%m}{correction}{credited}{reason}"


def _grain(one: InvoiceLine) -> str:
    """Return what the line is of. An adjustment may have no pool."""
    optional = {"SkuId": one.line.pool, "x_AdjustmentId": one.line.adjustment_id}
    return json.dumps(
        {
            **{name: str(value) for name, value in optional.items() if value},
            "SkuMeter": one.line.usage_class,
            "SubAccountId": one.line.team_path,
            "x_IsCorrection": one.line.is_correction,
            "x_Month": f"{one.line.month:%Y-%m}",
        }
    )


def _due_at(statement: Statement) -> datetime | None:
    """Return the due day at midnight UTC, so that its date reads the same everywhere."""
    day = statement.due_on
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)


def _original(statement: Statement) -> Statement:
    """Return the invoice that the statement adjusts: itself, unless it is a credit note."""
    return statement.credits or statement
