"""Columns of Contract Commitment of FOCUS 1.4: a row for each commitment of a month.

A commitment is billed month by month, so its contract ends with the month, or earlier. Its quantity
and cost are those of its purchases in Cost and Usage of the same node and month.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

from bank.settling import zone_of
from billing.models import ExtraCharge, PoolTerms, UsageClass
from exports.closed_tables import closed_month
from exports.commitments import Commitments, commitment_id
from exports.focus_tables import (
    COMMITMENT_TYPE,
    QUANTITY,
    Billing,
    commitment_name,
    hours,
    quantity_unit,
)
from exports.models import Export
from exports.tables import Column, decimal, text, time
from periods.charges import charges_of
from periods.models import BillingPeriod
from periods.months import Month, month_of


class CommitmentRow(NamedTuple):
    """A commitment with what was bought of it, and its cost by all measures."""

    terms: PoolTerms
    start: datetime
    end: datetime
    status: str
    device: str
    currency: str
    mgpu_s: int
    list_cost_nano: int
    contracted_cost_nano: int
    billed_cost_nano: int
    effective_cost_nano: int


def contract_commitment(billing: Billing) -> Sequence[Column]:
    """Return the columns of Contract Commitment for rows of `CommitmentRow`."""
    return (
        text("BillingCurrency", lambda row: row.currency),
        text("ContractCommitmentApplicability", lambda row: _applicability(row, billing)),
        text("ContractCommitmentBenefitCategory", lambda row: "Availability"),
        text("ContractCommitmentCategory", lambda row: "Usage"),
        decimal("ContractCommitmentCost", lambda row: row.billed_cost_nano),
        time("ContractCommitmentCreated", lambda row: row.terms.added_at or row.terms.start),
        text("ContractCommitmentDescription", _description),
        decimal("ContractCommitmentDiscountPercentage", lambda row: None),
        text("ContractCommitmentDurationType", lambda row: "1 Month"),
        text("ContractCommitmentFulfillmentInterval", lambda row: "Hourly"),
        text("ContractCommitmentId", lambda row: commitment_id(row.terms)),
        time(
            "ContractCommitmentLastUpdated",
            lambda row: max(billing.updated_at, row.terms.added_at or row.terms.start),
        ),
        text("ContractCommitmentLifecycleStatus", lambda row: row.status),
        text("ContractCommitmentModel", lambda row: "Continuous"),
        text("ContractCommitmentOfferCategory", lambda row: "Negotiated"),
        text("ContractCommitmentPaymentInterval", lambda row: "Monthly"),
        text("ContractCommitmentPaymentModel", lambda row: "No Upfront"),
        time("ContractCommitmentPeriodEnd", lambda row: row.end),
        time("ContractCommitmentPeriodStart", lambda row: row.start),
        decimal("ContractCommitmentQuantity", lambda row: hours(row.mgpu_s), QUANTITY),
        text("ContractCommitmentType", lambda row: COMMITMENT_TYPE),
        text("ContractCommitmentUnit", quantity_unit),
        text("ContractId", lambda row: commitment_id(row.terms)),
        time("ContractPeriodEnd", lambda row: row.end),
        time("ContractPeriodStart", lambda row: row.terms.start),
        text("InvoiceIssuerName", lambda row: billing.provider),
        text("ServiceProviderName", lambda row: billing.provider),
    )


def commitment_batches(export: Export) -> Iterator[Sequence[CommitmentRow]]:
    """Yield the commitments of the export's month and pool that began by `as_of`, as one batch."""
    period = closed_month(export)
    closed_at = None if period is None else period.closed_at
    commitments = Commitments(export.organization_id, known_at=closed_at)
    bought = _bought(export, period, commitments)
    until = min(export.end, export.as_of) if period is None else period.end
    yield [
        _row(terms, export, until, commitments, *bought.get(terms.pk, (0, 0)))
        for terms in commitments.during(export.start, until)
        if export.pool in ("", terms.pool.name)
    ]


def _bought(
    export: Export, period: BillingPeriod | None, commitments: Commitments
) -> dict[UUID, tuple[int, int]]:
    """Return the milli-GPU-seconds and the cost that were bought of each commitment."""
    found: dict[UUID, tuple[int, int]] = {}
    for start, end, pool, mgpu_s, cost_nano in _purchases(export, period):
        terms = commitments.of(pool, start, end)
        if terms is not None:
            before = found.get(terms.pk, (0, 0))
            found[terms.pk] = before[0] + mgpu_s, before[1] + cost_nano
    return found


def _purchases(
    export: Export, period: BillingPeriod | None
) -> Iterator[tuple[datetime, datetime, str, int, int]]:
    """Yield what was bought at the export's node: the day, the pool, the quantity and the cost."""
    rows: Iterator[tuple[date, str, str, int, int]]
    if period is None:
        zone = zone_of(export.organization_id)
        until = min(export.end, export.as_of)
        month = Month(export.start.astimezone(zone).date(), export.start, until, zone)
        rows = (
            (one.day, one.use.team_path, one.use.pool, *one.charged[1:])
            for one in charges_of(month, export.organization_id)
            if one.use.usage_class == ExtraCharge.COMMITMENT
        )
    else:
        month = month_of(period)
        stored = period.rows.filter(is_correction=False, usage_class=ExtraCharge.COMMITMENT)
        rows = stored.values_list(
            "day", "team_path", "pool", "extra_mgpu_s", "cost_nano"
        ).iterator()
    days = {day: (start, end) for day, start, end in month.days()}
    for day, team_path, pool, mgpu_s, cost_nano in rows:
        if f"{team_path}/".startswith(export.node_path):
            yield *days[day], pool, mgpu_s, cost_nano


def _row(
    terms: PoolTerms,
    export: Export,
    until: datetime,
    commitments: Commitments,
    mgpu_s: int,
    cost_nano: int,
) -> CommitmentRow:
    status = "Active"
    if terms.end is not None and terms.end <= until:
        status = "Superseded" if commitments.is_followed(terms) else "Expired"
    return CommitmentRow(
        terms,
        max(terms.start, export.start),
        export.end if terms.end is None else min(terms.end, export.end),
        status,
        terms.pool.device,
        terms.card.currency,
        mgpu_s,
        *(cost_nano,) * 4,
    )


def _description(row: CommitmentRow) -> str:
    return f"{commitment_name(row.terms)}, billed each month, used or not"


def _applicability(row: CommitmentRow, billing: Billing) -> str:
    values = {
        "BillingAccountId": billing.account,
        "SkuId": row.terms.pool.name,
        "SkuMeter": UsageClass.GUARANTEED.value,
    }
    rules = [
        {"Dimension": name, "Operator": "In", "Values": [value]} for name, value in values.items()
    ]
    return json.dumps({"InclusionOperator": "And", "Inclusions": rules})
