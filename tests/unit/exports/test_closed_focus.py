"""Cost and Usage of closed months: frozen charges, corrections, adjustments, and their invoices."""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.conf import LazySettings

from adjustments.adjusting import ask_for_adjustment
from adjustments.disputes import accept_dispute, open_dispute
from adjustments.models import Adjustment
from billing.metering import Observed, record_observed
from builders.adjustment_builders import a_finance_person, asked
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card, at, terms_of
from builders.export_builders import cells_of, exported
from builders.period_builders import DECEMBER, DUE, close
from builders.portal_builders import Company, a_company, a_department, a_pool, a_user, an_actor
from exports.files import file_of
from exports.models import Export
from periods.code_models import CodeKind
from periods.codes import NewCode, set_codes
from periods.statement_models import Statement
from periods.statements import Unit, credit_statement, issue_statements
from quotas.models import Quota
from tenants.access import Actor
from tenants.moving import move_node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
JANUARY_1 = datetime(2027, 1, 1, tzinfo=UTC)
JANUARY_4 = datetime(2027, 1, 4, tzinfo=UTC)
IN_NOVEMBER = datetime(2026, 11, 20, 12, tzinfo=UTC)
#: 32 GPUs for a day cost 1,536.000000768 EUR, 0.7992225 GPU-hours of guaranteed use 1.598445000,
#: 0.1995 of borrowed use 0.000246297, and the adjustments 2.
TOTAL_NANO = 1_539_598_692_065


@pytest.fixture
def company(settings: LazySettings, tmp_path: Path) -> Company:
    """November: use at odd prices, a fault, a day of showback, and a day of a commitment."""
    settings.EXPORTS_DIR = tmp_path / "exports"
    company = a_company()
    card = a_rate_card(company.organization, {"guaranteed": 2_000_000_001, "borrowed": 1_234_567})
    terms_of(card, "showback", start=86_400, end=2 * 86_400)
    terms_of(card, "commitment", start=2 * 86_400, end=3 * 86_400)
    user = a_user(company.organization, "ada")
    for second in range(3):
        a_metered_attempt(
            company.nlp, second, HOUR, user=user, mgpu=333, classes=[(HOUR // 2, 200)]
        )
    faulty = a_metered_attempt(company.vision, 0, HOUR, user=user, mgpu=1_000)
    record_observed([Observed(faulty.pk, "fault", at(0), reason="node_failed")], LATER)
    for day, end in ((1, HOUR), (2, 7)):
        a_metered_attempt(company.nlp, day * 86_400, day * 86_400 + end, user=user, mgpu=333)
    a_metered_attempt(company.nlp, 0, HOUR, user=user, pool=a_pool("cpu", device="cpu"), mgpu=4_000)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    """Finance. On 20 November, she charged 3 EUR to nlp and gave 1 EUR to vision."""
    fiona = a_finance_person(company, "fiona")
    adjust(company, fiona, 3)
    adjust(company, fiona, -1, team=company.vision, pool=company.pool, reason="=goodwill")
    return fiona


def adjust(company: Company, actor: Actor, units: int, **changes: object) -> Adjustment:
    return ask_for_adjustment(asked(company, units, **changes), actor=actor, now=IN_NOVEMBER)


def issue(
    company: Company, actor: Actor, month: str = "2026-11", now: datetime = DUE
) -> list[Statement]:
    return issue_statements(company.organization.pk, month, Unit.TEAM, actor=actor, now=now)


def written(actor: Actor, now: datetime = DUE, **changes: Any) -> Export:
    given = {"dataset": "focus_cost_and_usage", "start": DAY, "end": DECEMBER, **changes}
    return exported(actor, now, **given)


def sum_nano(export: Export, column: str) -> int:
    """The sum of a column, in nano, as the file has it."""
    path = file_of(export.pk)
    if export.format == "parquet":
        with path.open("rb") as file:
            cells = pq.read_table(file)[column].to_pylist()
    elif export.format == "xlsx":
        with zipfile.ZipFile(path) as book:
            sheet = book.read("xl/worksheets/sheet1.xml").decode()
        letters = re.search(rf'r="([A-Z]+)1"[^>]*><is><t>{column}</t>', sheet)
        assert letters is not None
        found = re.findall(rf'r="{letters[1]}[0-9]+"[^>]*><v>([^<]*)</v>', sheet)
        cells = [Decimal(f"{float(value):.9f}") for value in found]
    else:
        cells = [Decimal(row[column]) for row in cells_of(export)]
    return int(sum(cells) * 10**9)


@pytest.mark.parametrize("format_name", ["csv", "parquet", "xlsx"])
@pytest.mark.parametrize(
    ("dataset", "column"), [("closed_charges", "cost"), ("focus_cost_and_usage", "BilledCost")]
)
def test_a_file_sums_to_the_statements(
    company: Company, fiona: Actor, dataset: str, column: str, format_name: str
) -> None:
    """Law 23, and the manifest says the same.

    Against: adjustments left out; a credit without its sign."""
    close(company, fiona, "2026-11", "known")
    statements = issue(company, fiona)
    export = written(fiona, dataset=dataset, format_name=format_name)
    assert sum_nano(export, column) == TOTAL_NANO
    assert sum(one.total_cents for one in statements) == 153_960
    assert export.manifest is not None
    billed = Counter[str]()
    for one in export.manifest["sums"]:
        billed[one["currency"]] += one["billed_cost_nano"]
    assert billed == {"EUR": TOTAL_NANO}
    if dataset == "focus_cost_and_usage":
        assert sum_nano(export, "EffectiveCost") == TOTAL_NANO


def test_each_row_names_the_line_that_bills_it(company: Company, fiona: Actor) -> None:
    """The rows of a line sum to it, to the cent. Showback and open statements have no invoice.

    Against: the line of pay-per-use for showback; credited statements."""
    close(company, fiona, "2026-11", "known")
    assert {row["InvoiceId"] for row in cells_of(written(fiona))} == {""}
    nlp, *_ = sorted(issue(company, fiona), key=lambda one: one.unit_path)[1:]
    export = written(fiona)
    sums: Counter[tuple[str, str]] = Counter()
    for row in cells_of(export):
        sums[row["InvoiceId"], row["InvoiceDetailId"]] += Decimal(row["BilledCost"])
    details = cells_of(written(fiona, dataset="focus_invoice_detail"))
    for row in details:
        billed = sums.pop((row["InvoiceId"], row["InvoiceDetailId"]))
        assert abs(billed - Decimal(row["BilledCost"])) < Decimal("0.01")
    assert sums == {("", ""): 0}
    shown = [row for row in cells_of(export) if row["x_Mode"] == "showback"]
    assert {row["InvoiceId"] for row in shown} == {""}
    later = DUE + timedelta(days=1)
    credit_statement(nlp.pk, "wrong", actor=fiona, now=later)
    rows = [row for row in cells_of(written(fiona, later)) if row["SubAccountName"] == "nlp"]
    assert {row["InvoiceId"] for row in rows} == {""}
    assert written(fiona, later, as_of=DUE).sha256 == written(fiona, later, as_of=DUE).sha256


def test_rows_of_a_closed_month_in_the_words_of_focus(company: Company, fiona: Actor) -> None:
    """Use that nobody pays has its reason, and adjustments have a category.

    Against: the reason of a fault in all rows; a credit as adjustment."""
    close(company, fiona, "2026-11", "known")
    rows = cells_of(written(fiona))
    reasons = {(row["x_UsageClass"], row["x_Mode"]): row["x_NonBillableReason"] for row in rows}
    assert {key: reason for key, reason in reasons.items() if reason} == {
        ("fault", "pay_per_use"): "node_failed",
        ("guaranteed", "showback"): "showback",
    }
    shown = (
        "ChargeCategory", "ChargePeriodStart", "SubAccountName", "SkuId", "BilledCost",
        "ChargeDescription", "PricingQuantity",
    )  # fmt: skip
    adjusted = [tuple(row[name] for name in shown) for row in rows if row["x_AdjustmentId"]]
    assert sorted(adjusted) == [
        ("Adjustment", "2026-11-20T00:00:00Z", "nlp", "", "3.000000000", "storage of October", ""),
        ("Credit", "2026-11-20T00:00:00Z", "vision", "h100", "-1.000000000", "'=goodwill", ""),
    ]
    (showback,) = [row for row in rows if row["x_Mode"] == "showback"]
    costs = [showback[name] for name in ("BilledCost", "EffectiveCost", "ListCost")]
    # A third of a GPU for an hour.
    assert costs == ["0.000000000", "0.000000000", "0.666000000"]
    (used,) = [row for row in rows if row["CommitmentDiscountStatus"] == "Used"]
    costs = [used[name] for name in ("BilledCost", "EffectiveCost", "ContractedCost")]
    assert costs == ["0.000000000", "0.001295000", "0.001295000"]
    assert len({row["x_PrincipalId"] for row in rows if row["x_PrincipalId"]}) == 1
    assert {row["x_JobId"] for row in rows} == {""}


def test_corrections_are_rows_of_the_later_month(company: Company, fiona: Actor) -> None:
    """December has late use of November, and the refund of a dispute. November stays as it was.

    Both have the cost centre of November. Against: the charge period and the codes of December; the
    class left out."""
    codes = (("4711", date(2026, 11, 1)), ("4712", date(2026, 12, 1)))
    nlp = "ai-company/research/nlp"
    wanted = [NewCode(nlp, CodeKind.COST_CENTRE, code, first) for code, first in codes]
    set_codes(company.organization.pk, wanted, actor=fiona, now=LATER)
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    disputed = a_metered_attempt(company.nlp, 10 * 86_400, 10 * 86_400 + HOUR, mgpu=1_000)
    close(company, fiona, "2026-11", "known")
    before = written(fiona)
    a_metered_attempt(company.nlp, 5 * 86_400, 5 * 86_400 + HOUR, mgpu=1_000, now=DUE)
    in_december = DUE + timedelta(days=1)
    dispute = open_dispute(disputed.pk, "it hung", actor=lead, now=in_december)
    accept_dispute(dispute.pk, None, note="", actor=fiona, now=in_december)
    close(company, fiona, "2026-12", "known", now=JANUARY_4)
    (statement,) = issue(company, fiona, "2026-12", JANUARY_4)
    assert written(fiona, JANUARY_4, as_of=DUE).sha256 == before.sha256
    december = {"start": DECEMBER, "end": JANUARY_1}
    rows = cells_of(written(fiona, JANUARY_4, **december))
    shown = (
        "ChargeClass", "ChargeCategory", "ChargePeriodStart", "BillingPeriodStart", "BilledCost",
        "InvoiceId",
    )  # fmt: skip
    number = statement.number
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("Correction", "Usage", "2026-11-06T00:00:00Z", "2026-12-01T00:00:00Z", "2.000000001",
         number),
        ("Correction", "Adjustment", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z",
         "-2.000000001", number),
    ]  # fmt: skip
    assert {row["Tags"] for row in rows} == {
        '{"tidegate/department": "research", "tidegate/cost-centre": "4711"}'
    }
    closed = written(fiona, JANUARY_4, dataset="closed_charges", **december)
    assert {row["cost_centre"] for row in cells_of(closed)} == {"4711"}
    names = ("kind", "charged_month", "day", "usage_class", "cost", "adjustment_reason")
    assert [tuple(row[name] for name in names) for row in cells_of(closed)] == [
        ("correction", "2026-11", "2026-11-06", "guaranteed", "2.000000001", ""),
        (
            "correction",
            "2026-11",
            "2026-11-01",
            "refund",
            "-2.000000001",
            "Refund of train, attempt 1",
        ),
    ]


def test_the_refund_of_a_moved_team_is_of_its_former_department(
    company: Company, fiona: Actor
) -> None:
    """nlp moved before the refund. Planted: the place at the time of the refund."""
    disputed = a_metered_attempt(company.nlp, 10 * 86_400, 10 * 86_400 + HOUR, mgpu=1_000)
    close(company, fiona, "2026-11", "known")
    lab = a_department(company.organization, "lab")
    alice = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")
    Quota.objects.all().delete()
    move_node(actor=alice, node=company.nlp, parent=lab, now=DECEMBER + timedelta(days=1))
    dispute = open_dispute(disputed.pk, "it hung", actor=alice, now=DUE)
    accept_dispute(dispute.pk, None, note="", actor=fiona, now=DUE)
    december = {"start": DECEMBER, "end": JANUARY_1}
    (of_open,) = [
        row for row in cells_of(written(fiona, JANUARY_4, **december)) if row["x_AdjustmentId"]
    ]
    assert json.loads(of_open["Tags"]) == {"tidegate/department": "research"}
    close(company, fiona, "2026-12", "known", now=JANUARY_4)
    closed = cells_of(written(fiona, JANUARY_4, dataset="closed_charges", **december))
    (refund,) = [row for row in closed if row["usage_class"] == "refund"]
    assert refund["team"] == "ai-company/research/nlp"


def test_an_open_month_has_its_adjustments(company: Company, fiona: Actor) -> None:
    """Until `as_of`, and of the pool that was asked for.

    Against: adjustments of later than `as_of`."""
    rows = cells_of(written(fiona, LATER))
    assert sorted(row["BilledCost"] for row in rows if row["x_AdjustmentId"]) == [
        "-1.000000000", "3.000000000",
    ]  # fmt: skip
    early = written(fiona, LATER, as_of=IN_NOVEMBER)
    assert {row["x_AdjustmentId"] for row in cells_of(early)} == {""}
    of_pool = cells_of(written(fiona, LATER, pool_name="h100"))
    assert [row["SubAccountName"] for row in of_pool if row["x_AdjustmentId"]] == ["vision"]
    below = cells_of(written(fiona, LATER, node_path="ai-company/research/vision"))
    assert [row["BilledCost"] for row in below if row["x_AdjustmentId"]] == ["-1.000000000"]
    (fault,) = [row for row in below if row["x_UsageClass"] == "fault"]
    assert fault["x_NonBillableReason"] == "node_failed"
