"""FOCUS Invoice Detail: the statements of a month, to the cent, and their credit notes."""

from __future__ import annotations

import csv
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import LazySettings

from adjustments.models import Adjustment
from builders.billing_builders import a_metered_attempt, a_rate_card
from builders.period_builders import DECEMBER, DUE, close
from builders.portal_builders import Company, a_company, an_actor
from exports.files import file_of
from exports.focus_tables import Billing
from exports.invoice_tables import InvoiceLine, invoice_detail
from exports.models import Export
from exports.requests import request_export
from exports.running import run_next
from focus.files import opened
from focus.rules import faults_of
from periods.code_book import CodeBook
from periods.statement_models import Statement, StatementLine
from periods.statements import Unit, credit_statement, issue_statements
from primitives.errors import InvalidRequest
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NOVEMBER_1 = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def company(settings: LazySettings, tmp_path: Path) -> Company:
    """November is closed: 8 GPU-hours of nlp, 1 of vision and 3 of inference, at 2 EUR."""
    settings.EXPORTS_DIR = tmp_path / "exports"
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp)
    a_metered_attempt(company.vision, mgpu=1_000)
    a_metered_attempt(company.inference, mgpu=3_000)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    actor = an_actor(company.organization, Role.FINANCE, "fiona")
    close(company, actor, "2026-11", "known")
    return actor


def issued(company: Company, actor: Actor, now: datetime = DUE) -> list[Statement]:
    """The statements of production and research, with terms."""
    return issue_statements(
        company.organization.pk, "2026-11", Unit.DEPARTMENT, actor=actor, now=now,
        due_on=date(2026, 12, 31), terms="Net 30",
    )  # fmt: skip


def written(actor: Actor, now: datetime, **changes: Any) -> Export:
    given: dict[str, Any] = {
        "dataset": "focus_invoice_detail", "format_name": "csv", "node_path": "ai-company",
        "start": NOVEMBER_1, "end": DECEMBER, "as_of": None, "pool_name": None, "now": now,
    }  # fmt: skip
    export = request_export(actor=actor, **{**given, **changes})
    assert run_next(lambda: now)
    export.refresh_from_db()
    assert export.state == "done", export.message
    return export


def rows_of(export: Export) -> list[dict[str, str]]:
    return list(csv.DictReader(file_of(export.pk).read_text().splitlines()))


def test_the_lines_of_statements_in_the_words_of_focus(company: Company, fiona: Actor) -> None:
    """Each invoice sums to its statement, and so does the manifest.

    Against: the total of the unit above; the due day in the zone of the server."""
    production, research = issued(company, fiona)
    export = written(fiona, DUE)
    rows = rows_of(export)
    assert [(row["InvoiceId"], row["InvoiceDetailId"], row["BilledCost"]) for row in rows] == [
        ("2026-00001", "1", "6.00"),
        ("2026-00002", "1", "16.00"),
        ("2026-00002", "2", "2.00"),
    ]
    assert (production.total_cents, research.total_cents) == (600, 1_800)
    assert {name: rows[1][name] for name in _WORDS} == _WORDS
    assert json.loads(rows[1]["InvoiceDetailGrain"]) == {
        "SkuId": "h100",
        "SkuMeter": "guaranteed",
        "SubAccountId": "ai-company/research/nlp",
        "x_IsCorrection": False,
        "x_Month": "2026-11",
    }
    assert export.manifest is not None
    (sums,) = export.manifest["sums"]
    assert (sums["rows"], sums["currency"]) == (3, "EUR")
    assert (sums["billed_cost_nano"], sums["mgpu_s"]) == (24 * 10**9, 12 * 3_600_000)


_WORDS = {
    "BillingAccountId": "ai-company",
    "BillingCurrency": "EUR",
    "BillingPeriodStart": "2026-11-01T00:00:00Z",
    "BillingPeriodEnd": "2026-12-01T00:00:00Z",
    "ChargeCategory": "Usage",
    "InvoiceDetailCreated": "2026-12-04T00:00:00Z",
    "InvoiceDetailDescription": "Guaranteed use of h100 of ai-company/research/nlp in 2026-11",
    "InvoiceIssueDate": "2026-12-04T00:00:00Z",
    "InvoiceIssueStatus": "Issued",
    "InvoiceIssuerName": "Tidegate",
    "PaymentDueDate": "2026-12-31T00:00:00Z",
    "PaymentTerms": "Net 30",
    "ReferenceInvoiceId": "2026-00002",
    "x_ChargeClass": "",
    "x_InvoiceTotal": "18.00",
    "x_Quantity": "8.000000",
    "x_QuantityUnit": "GPU-Hours",
    "x_UnitId": "ai-company/research",
    "x_UnitName": "research",
}


@pytest.mark.parametrize("format_name", ["csv", "parquet"])
def test_a_credit_note_refers_to_its_statement(
    company: Company, fiona: Actor, tmp_path: Path, format_name: str
) -> None:
    """The checker finds no fault in a month that was credited and issued anew.

    A file of an earlier moment stays as it was, to the byte. Planted: the note's own number as
    reference. Against: credit notes later than `as_of`."""
    _, research = issued(company, fiona)
    before = written(fiona, DUE, format_name=format_name)
    later = DUE + timedelta(days=1)
    credit_statement(research.pk, "wrong terms", actor=fiona, now=later)
    issued(company, fiona, later)
    export = written(fiona, later, format_name=format_name)
    path = tmp_path / export.file_name
    path.write_bytes(file_of(export.pk).read_bytes())
    with opened(path) as (header, cells):
        found = [dict(zip(header, row, strict=True)) for row in cells]
    assert faults_of("InvoiceDetail", header, [list(row.values()) for row in found]) == []
    sums = {
        number: sum(Decimal(row["BilledCost"] or 0) for row in found if row["InvoiceId"] == number)
        for number in dict.fromkeys(row["InvoiceId"] for row in found)
    }
    assert sums == {"2026-00001": 6, "2026-00002": 18, "2026-00003": -18, "2026-00004": 18}
    (reference,) = {row["ReferenceInvoiceId"] for row in found if row["InvoiceId"] == "2026-00003"}
    assert reference == "2026-00002"
    (terms,) = {row["PaymentTerms"] for row in found if row["InvoiceId"] == "2026-00003"}
    assert terms == "Not specified"
    again = written(fiona, later, format_name=format_name, as_of=DUE)
    assert again.sha256 == before.sha256


def test_late_use_is_a_correction_of_its_month(company: Company, fiona: Actor) -> None:
    """The statement of December bills late use of November, and names both months.

    Against: the correction without its class; the billing period of November."""
    a_metered_attempt(company.nlp, 7_200, 10_800, mgpu=500)
    january = datetime(2027, 1, 4, tzinfo=UTC)
    close(company, fiona, "2026-12", "known", now=january)
    issue_statements(company.organization.pk, "2026-12", Unit.TEAM, actor=fiona, now=january)
    end = datetime(2027, 1, 1, tzinfo=UTC)
    rows = rows_of(written(fiona, january, start=DECEMBER, end=end))
    assert [
        (row["BilledCost"], row["x_ChargeClass"], json.loads(row["InvoiceDetailGrain"])["x_Month"])
        for row in rows
    ] == [("1.00", "Correction", "2026-11")]
    assert {row["BillingPeriodStart"] for row in rows} == {"2026-12-01T00:00:00Z"}
    assert rows[0]["InvoiceDetailDescription"] == (
        "Guaranteed use of h100 of ai-company/research/nlp in 2026-11, correction"
    )


def test_a_node_has_the_invoices_of_units_below_it(company: Company, fiona: Actor) -> None:
    """A pool would cut an invoice into parts, so it is refused.

    Planted: all invoices of the organization."""
    issued(company, fiona)
    rows = rows_of(written(fiona, DUE, node_path="ai-company/research"))
    assert {row["InvoiceId"] for row in rows} == {"2026-00002"}
    assert rows_of(written(fiona, DUE, node_path="ai-company/research/nlp")) == []
    with pytest.raises(InvalidRequest) as refused:
        written(fiona, DUE, pool_name="h100")
    assert refused.value.detail == "An invoice has all of its lines. Leave the pool out."


def test_a_refund_is_an_adjustment_without_a_pool() -> None:
    """Planted: a refund as usage. Against: an empty SkuId."""
    refund = Adjustment(amount_nano=-1, dispute_id=uuid4(), reason="lost")
    line = StatementLine(
        statement=Statement(), usage_class="refund", pool="", team_path="a/b", month=NOVEMBER_1,
        is_correction=True, adjustment=refund,
    )  # fmt: skip
    one = InvoiceLine(line, "gpu", "EUR", 0, 0, 0, 0, 0)
    month = NOVEMBER_1.date()
    billing = Billing(
        "Tidegate", "a", "A", NOVEMBER_1, DECEMBER, DUE, True, b"", month, CodeBook({})
    )
    cells = {column.name: column for column in invoice_detail(billing)}
    assert cells["ChargeCategory"].value(one) == "Adjustment"
    assert (
        cells["InvoiceDetailDescription"].value(one) == "Refund of a/b in 2026-11, correction: lost"
    )
    assert json.loads(cells["InvoiceDetailGrain"].value(one)) == {
        "SkuMeter": "refund",
        "SubAccountId": "a/b",
        "x_AdjustmentId": str(refund.pk),
        "x_IsCorrection": True,
        "x_Month": "2026-11",
    }
    credit = Adjustment(amount_nano=-1)
    line.adjustment = credit
    assert cells["ChargeCategory"].value(one) == "Credit"
