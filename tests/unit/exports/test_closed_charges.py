"""Files of closed months: as billed, the same bytes each time, and only of closed months."""

from __future__ import annotations

import csv
import hashlib
import json
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from billing.metering import Observed, record_observed
from billing.models import RateCard
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card, at, terms_of
from builders.period_builders import DECEMBER, DUE, close
from builders.portal_builders import Company, a_company, a_pool, an_actor
from exports.files import file_of
from exports.models import Export
from exports.requests import request_export
from exports.running import run_next
from periods.code_models import CodeKind
from periods.codes import NewCode, set_codes
from periods.models import BillingPeriod
from primitives.errors import InvalidRequest
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
MONTH = timedelta(days=31)


@pytest.fixture
def company(settings: LazySettings, tmp_path: Path) -> Company:
    """nlp used 8 GPUs for an hour at 2 EUR, vision lost an hour to a fault, and a pool of cores."""
    settings.EXPORTS_DIR = tmp_path
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp)
    faulty = a_metered_attempt(company.vision, 0, HOUR, mgpu=1_000)
    record_observed([Observed(faulty.pk, "fault", at(0), reason="node_failed")], LATER)
    a_metered_attempt(company.nlp, 0, HOUR, pool=a_pool("cpu", device="cpu"), mgpu=4_000)
    return company


@pytest.fixture
def finance(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fin")


def exported(actor: Actor, format_name: str = "csv", **changes: Any) -> Export:
    given: dict[str, Any] = {
        "dataset": "closed_charges", "format_name": format_name, "node_path": "ai-company",
        "start": DAY, "end": DECEMBER, "as_of": None, "pool_name": None, "now": DUE,
    }  # fmt: skip
    export = request_export(actor=actor, **{**given, **changes})
    assert run_next(lambda: given["now"])
    export.refresh_from_db()
    assert export.state == "done", export.message
    return export


def rows_of(export: Export) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(file_of(export.pk).read_text())))


def test_a_file_has_the_charges_as_billed(company: Company, finance: Actor) -> None:
    """Its sums are those of the month, and faults have their reason.

    Planted: rows of another team; the sums of the manifest left out."""
    close(company, finance, "2026-11", "known")
    export = exported(finance)
    shown = ("month", "kind", "day", "team", "pool", "usage_class", "non_billable_reason", "cost")
    assert sorted(tuple(row[name] for name in shown) for row in rows_of(export)) == [
        ("2026-11", "charge", "2026-11-01", "ai-company/research/nlp", "cpu", "guaranteed", "",
         "0.000000000"),
        ("2026-11", "charge", "2026-11-01", "ai-company/research/nlp", "h100", "guaranteed", "",
         "16.000000000"),
        ("2026-11", "charge", "2026-11-01", "ai-company/research/vision", "h100", "fault",
         "node_failed", "0.000000000"),
    ]  # fmt: skip
    assert [
        (one["device"], one["rows"], one["mgpu_s"], one["billed_cost_nano"])
        for one in export.manifest["sums"]
    ] == [("cpu", 1, 4_000 * HOUR, 0), ("gpu", 2, 9_000 * HOUR, 16_000_000_000)]
    lead = an_actor(company.vision, Role.TEAM_LEAD, "lead")
    below = exported(lead, node_path="ai-company/research/vision", pool_name="h100")
    assert [row["team"] for row in rows_of(below)] == ["ai-company/research/vision"]


def test_a_file_says_how_each_charge_was_priced(company: Company, finance: Actor) -> None:
    """Use in showback is there and costs nothing; a commitment has a quantity and no use.

    From the second hour on, the 32 GPUs that teams are guaranteed cost 2 EUR each, for an hour.

    Against: the mode of pay-per-use in all rows."""
    card = RateCard.objects.get()
    terms_of(card, "showback", start=0, end=HOUR)
    terms_of(card, "commitment", start=HOUR, end=2 * HOUR)
    close(company, finance, "2026-11", "known")
    shown = ("team", "pool", "usage_class", "price_mode", "mgpu_seconds", "extra_mgpu_seconds")
    rows = rows_of(exported(finance))
    found = {tuple(row[name] for name in shown): row["cost"] for row in rows}
    nlp, vision = "ai-company/research/nlp", "ai-company/research/vision"
    used = str(8_000 * HOUR)
    assert found[nlp, "h100", "guaranteed", "showback", used, "0"] == "0.000000000"
    assert found[nlp, "cpu", "guaranteed", "pay_per_use", str(4_000 * HOUR), "0"] == "0.000000000"
    assert found[nlp, "h100", "commitment", "commitment", "0", used] == "16.000000000"
    assert (vision, "h100", "commitment") in {key[:3] for key in found}
    committed = [row["cost"] for row in rows if row["usage_class"] == "commitment"]
    assert sum(map(Decimal, committed)) == 64


@pytest.mark.parametrize("format_name", ["csv", "parquet"])
def test_the_file_of_a_closed_month_never_changes(
    company: Company, finance: Actor, format_name: str
) -> None:
    """A late job is no part of it. It is a correction in the file of the next month.

    Planted: the charges by the meter of now."""
    close(company, finance, "2026-11", "known")
    first = exported(finance, format_name)
    a_metered_attempt(company.nlp, 2 * HOUR, 3 * HOUR, mgpu=1_000, now=DUE)
    second = exported(finance, format_name)
    assert (
        first.sha256 == second.sha256 == hashlib.sha256(file_of(second.pk).read_bytes()).hexdigest()
    )
    january = DUE + MONTH
    close(company, finance, "2026-12", "known", now=january)
    later = exported(finance, format_name, now=january)
    assert later.sha256 == first.sha256
    december = exported(finance, start=DECEMBER, end=DECEMBER + MONTH, now=january)
    shown = ("month", "kind", "charged_month", "day", "mgpu_seconds", "cost")
    assert [tuple(row[name] for name in shown) for row in rows_of(december)] == [
        ("2026-12", "correction", "2026-11", "2026-11-01", "3600000", "2.000000000")
    ]


def test_open_months_have_no_such_file(company: Company, finance: Actor) -> None:
    """Planted: no check of the end."""
    with pytest.raises(InvalidRequest, match="no month is closed"):
        exported(finance)
    close(company, finance, "2026-11", "known")
    with pytest.raises(InvalidRequest, match="months are closed until 2026-12-01T00:00:00Z"):
        exported(finance, end=DECEMBER + timedelta(seconds=1))


def test_focus_says_whether_a_month_is_closed(company: Company, finance: Actor) -> None:
    """Planted: a month that is always open; the moment of the request in place of the closing."""
    asked = {"dataset": "focus_billing_period", "now": DUE + timedelta(seconds=1)}
    (row,) = rows_of(exported(finance, **asked))
    assert row["BillingPeriodStatus"] == "Open"
    close(company, finance, "2026-11", "known")
    period = BillingPeriod.objects.get()
    (row,) = rows_of(exported(finance, **asked))
    assert (row["BillingPeriodStatus"], row["BillingPeriodLastUpdated"]) == (
        "Closed",
        f"{period.closed_at:%Y-%m-%dT%H:%M:%SZ}",
    )


def test_a_file_has_the_codes_of_its_months(company: Company, finance: Actor) -> None:
    """Files of closed charges have two columns for them, and FOCUS has them as tags.

    Planted: codes of the day of the export."""
    first = DAY.date()
    codes = [
        NewCode("ai-company/research", CodeKind.COST_CENTRE, "4711", first, DECEMBER.date()),
        NewCode("ai-company/research/nlp", CodeKind.PROJECT_CODE, "P-12", first),
    ]
    set_codes(company.organization.pk, codes, actor=finance, now=DUE)
    close(company, finance, "2026-11", "known")
    rows = rows_of(exported(finance))
    assert {(row["team"][20:], row["cost_centre"], row["project_code"]) for row in rows} == {
        ("nlp", "4711", "P-12"),
        ("vision", "4711", ""),
    }
    focus = rows_of(exported(finance, dataset="focus_cost_and_usage"))
    assert {json.dumps(json.loads(row["Tags"]), sort_keys=True) for row in focus} == {
        '{"tidegate/cost-centre": "4711", "tidegate/department": "research", '
        '"tidegate/project-code": "P-12"}',
        '{"tidegate/cost-centre": "4711", "tidegate/department": "research"}',
    }
