"""PDF reports of charges: sums by team, pool and class, bounded, with the total of all."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import LazySettings

from adjustments.adjusting import ask_for_adjustment
from builders.adjustment_builders import a_finance_person, asked
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card
from builders.export_builders import an_export, exported
from builders.period_builders import DECEMBER, DUE, close
from builders.portal_builders import Company, a_company, a_pool
from exports import reports
from exports.closed_tables import closed_batches
from exports.files import file_of
from exports.reports import ReportWriter
from primitives.errors import InvalidRequest
from tenants.access import Actor

pytestmark = pytest.mark.django_db

HOUR = 3_600


@pytest.fixture
def company(settings: LazySettings, tmp_path: Path) -> Company:
    """November is closed: nlp has use of two pools and an adjustment, vision has use."""
    settings.EXPORTS_DIR = tmp_path / "exports"
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp)
    a_metered_attempt(company.nlp, 86_400, 86_400 + HOUR, mgpu=500)
    a_metered_attempt(company.vision, 0, HOUR, mgpu=1_333)
    a_metered_attempt(company.nlp, 0, HOUR, pool=a_pool("cpu", device="cpu"), mgpu=4_000)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    fiona = a_finance_person(company, "fiona")
    ask_for_adjustment(asked(company, -1), actor=fiona, now=LATER)
    close(company, fiona, "2026-11", "known")
    return fiona


def report(company: Company, actor: Actor) -> ReportWriter:
    """The report of closed November, before it is written."""
    export = an_export(
        company.organization, actor.user, dataset="closed_charges", format="pdf", start=DAY,
        end=DECEMBER, as_of=DUE,
    )  # fmt: skip
    writer = ReportWriter(Path("unused.pdf"), export)
    for rows in closed_batches(export):
        writer.write(rows)
    return writer


def test_a_report_sums_up_charges(company: Company, fiona: Actor) -> None:
    """Against: an adjustment with hours; a line for each charge."""
    found = report(company, fiona).document()
    nlp = "ai-company/research/nlp"
    assert found["rows"] == [
        [nlp, "", "adjustment", "charge", "", "-1.00"],
        [nlp, "cpu", "guaranteed", "charge", "4.000 core-h", "0.00"],
        [nlp, "h100", "guaranteed", "charge", "8.500 GPU-h", "17.00"],
        ["ai-company/research/vision", "h100", "guaranteed", "charge", "1.333 GPU-h", "2.67"],
    ]
    assert (found["total"], found["columns"][-1]) == ("18.67", "Amount EUR")
    assert found["facts"] == [
        ("Node", "ai-company"),
        ("Period", "2026-11-01 00:00 to 2026-12-01 00:00 (UTC)"),
        ("As of", "2026-12-04 00:00"),
    ]


def test_a_long_report_is_cut_and_says_so(
    company: Company, fiona: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The total still has all lines. Against: the first lines in place of the largest."""
    monkeypatch.setattr(reports, "PDF_LINES_MAX", 2)
    found = report(company, fiona).document()
    assert [row[-1] for row in found["rows"]] == ["17.00", "2.67"]
    assert found["total"] == "18.67"
    assert found["facts"][-1] == (
        "Lines",
        "The 2 lines with the largest costs of 4. The total has all of them. Choose CSV for the "
        "others.",
    )


@pytest.mark.parametrize("dataset", ["charges", "closed_charges"])
def test_a_report_is_a_pdf_with_a_manifest(company: Company, fiona: Actor, dataset: str) -> None:
    """The same report has the same bytes. Charges by job attempt have no adjustments."""
    asked_for = {"dataset": dataset, "format_name": "pdf", "start": DAY, "end": DECEMBER}
    first, second = (exported(fiona, DUE, as_of=DUE, **asked_for) for _ in range(2))
    assert file_of(first.pk).read_bytes().startswith(b"%PDF-")
    assert first.sha256 == second.sha256
    assert first.manifest is not None
    billed = sum(one["billed_cost_nano"] for one in first.manifest["sums"])
    assert billed == {"charges": 19_666, "closed_charges": 18_666}[dataset] * 10**6
    assert first.file_name == f"{dataset}-ai-company-20261101-20261201.pdf"


def test_focus_has_no_pdf(company: Company, fiona: Actor) -> None:
    with pytest.raises(InvalidRequest, match="FOCUS files are for programs"):
        exported(
            fiona, DUE, dataset="focus_cost_and_usage", format_name="pdf", start=DAY, end=DECEMBER
        )
