"""Documents of statements: exact texts, the same bytes each time, and no markup from names."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import LazySettings

from builders.api_callers import Caller, by_token
from builders.billing_builders import a_metered_attempt, a_rate_card
from builders.period_builders import DUE, close
from builders.portal_builders import Company, a_company, an_actor
from periods import documents
from periods.code_models import CodeKind
from periods.codes import NewCode, set_codes
from periods.documents import PdfUnavailable, document_of, html_of, pdf_of
from periods.statement_models import Statement
from periods.statements import Unit, credit_statement, issue_statements
from primitives.currencies import DIGITS, cents_text
from primitives.errors import Conflict
from tenants.access import Actor
from tenants.models import NodeKind
from tenants.roles import Role
from tenants.structure import rename_node

#: It would end the cell, run a function, read a file, import a package, and break the syntax.
NASTY = (
    '</td><script>alert(1)</script> #panic("x") $x$ *b* #read("/etc/passwd") "\\ `raw` @preview ]'
)


class Seen(HTMLParser):
    """The tags and the texts of a page."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Note a tag."""
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)


@pytest.fixture
def company() -> Company:
    company = a_company()
    a_rate_card(company.organization)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fiona")


def a_statement(company: Company, actor: Actor, terms: str = "30 days") -> Statement:
    """November of nlp: 8 GPU-hours for 16 EUR."""
    a_metered_attempt(company.nlp)
    close(company, actor, "2026-11", "known")
    (statement,) = issue_statements(
        company.organization.pk,
        "2026-11",
        Unit.DEPARTMENT,
        due_on=date(2027, 1, 3),
        terms=terms,
        actor=actor,
        now=DUE,
    )
    return statement


@pytest.mark.django_db
def test_a_document_has_all_that_finance_needs(company: Company, fiona: Actor) -> None:
    statement = a_statement(company, fiona)
    assert document_of(statement) == {
        "title": "Statement 2026-00001",
        "provider": "Tidegate",
        "facts": [
            ("Number", "2026-00001"),
            ("Organization", "ai-company"),
            ("Unit", "research (ai-company/research)"),
            ("Month", "2026-11 (UTC)"),
            ("Issued", "2026-12-04 00:00 UTC by fiona@ai-company"),
            ("Due", "2027-01-03"),
            ("Terms", "30 days"),
            ("Digest of the month", statement.period.digest),
        ],
        "columns": ["Team", "Pool", "Class", "Month", "Hours", "Amount EUR"],
        "rows": [
            ["ai-company/research/nlp", "h100", "guaranteed", "2026-11", "8.000 GPU-h", "16.00"]
        ],
        "totals": [],
        "total": "16.00",
        "currency": "EUR",
    }
    note = document_of(credit_statement(statement.pk, "wrong unit", actor=fiona, now=DUE))
    assert note["title"] == "Credit note 2026-00002"
    assert ("Credits", "Statement 2026-00001") in note["facts"]
    assert ("Reason", "wrong unit") in note["facts"]
    assert (note["rows"][0][4:], note["total"]) == (["-8.000 GPU-h", "-16.00"], "-16.00")


@pytest.mark.django_db
def test_a_document_sums_by_accounting_code(company: Company, fiona: Actor) -> None:
    """Each line has its codes, in HTML and PDF, too. A credit note has them as they were.

    Against: lines without a code left out of the sums; codes of the present in the credit note."""
    november = date(2026, 11, 1)
    set_codes(
        company.organization.pk,
        [
            NewCode("ai-company/research/nlp", CodeKind.COST_CENTRE, "4711", november),
            NewCode("ai-company/research/nlp", CodeKind.PROJECT_CODE, "P-12", november),
        ],
        actor=fiona,
        now=DUE,
    )
    a_metered_attempt(company.vision, mgpu=1_000)
    statement = a_statement(company, fiona)
    set_codes(
        company.organization.pk,
        [NewCode("ai-company/research", CodeKind.COST_CENTRE, "9", date(2026, 12, 1))],
        actor=fiona,
        now=DUE,
    )
    document = document_of(statement)
    assert document["columns"][3:] == ["Month", "Codes", "Hours", "Amount EUR"]
    assert [row[4] for row in document["rows"]] == ["4711 / P-12", "none"]
    assert document["totals"] == [("none", "none", "2.00"), ("4711", "P-12", "16.00")]
    assert '<th colspan="6" scope="row">Total' in html_of(document)
    assert "<tr><td>4711</td><td>P-12</td><td>16.00</td></tr>" in html_of(document)
    assert pdf_of(document).startswith(b"%PDF-")
    note = document_of(credit_statement(statement.pk, "wrong unit", actor=fiona, now=DUE))
    assert note["totals"] == [("none", "none", "-2.00"), ("4711", "P-12", "-16.00")]


@pytest.mark.django_db
def test_a_rename_changes_no_issued_document(
    company: Company, fiona: Actor, settings: LazySettings
) -> None:
    """JSON, HTML, PDF and the credit note keep the names of the issuing.

    Against: the organization's name, and the provider's, read when the document is made."""
    statement = a_statement(company, fiona)
    caller = by_token(fiona.user)

    def files() -> list[bytes]:
        path = f"statements/{statement.pk}"
        answers = [caller.get(one) for one in (path, f"{path}/html", f"{path}/pdf")]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        return [answer.content for answer in answers]

    before = files()
    admin = an_actor(None, Role.PLATFORM_ADMIN, "root")
    for node in (company.organization, company.research, company.nlp):
        rename_node(actor=admin, node_id=node.pk, kind=NodeKind(node.kind), name="Other", now=DUE)
    settings.PROVIDER_NAME = "Another"
    assert files() == before
    note = document_of(credit_statement(statement.pk, "wrong unit", actor=fiona, now=DUE))
    assert note["provider"] == "Tidegate"
    assert note["facts"][1:3] == [
        ("Organization", "ai-company"),
        ("Unit", "research (ai-company/research)"),
    ]


@pytest.mark.django_db
def test_names_are_texts_and_never_markup(company: Company, fiona: Actor) -> None:
    """The page has the text, and the PDF is made as if it were harmless.

    Planted: a name without an escape in the page. Against: a name pasted into the template."""
    document = document_of(a_statement(company, fiona, NASTY))
    page = Seen()
    page.feed(html_of(document))
    assert NASTY in page.texts
    assert "script" not in page.tags
    assert pdf_of(document).startswith(b"%PDF-")


@pytest.mark.django_db
def test_the_same_statement_gives_the_same_bytes(company: Company, fiona: Actor) -> None:
    """Against: the time of making in the PDF."""
    statement = a_statement(company, fiona)
    again = Statement.objects.get(pk=statement.pk)
    assert html_of(document_of(statement)) == html_of(document_of(again))
    assert pdf_of(document_of(statement)) == pdf_of(document_of(again))


@pytest.mark.parametrize(
    ("cents", "currency", "text"),
    [
        (-123_456, "EUR", "-1,234.56"),
        (0, "EUR", "0.00"),
        (-5, "USD", "-0.05"),
        (123_400, "JPY", "1,234"),
        (123_456, "KWD", "1,234.560"),
    ],
)
def test_amounts_as_text(cents: int, currency: str, text: str) -> None:
    """Planted: two decimals for each currency."""
    assert cents_text(cents, currency) == text


def test_pages_have_the_decimals_of_documents() -> None:
    """Planted: JPY left out of the list of the pages."""
    source = (Path(__file__).parents[3] / "frontend/src/ui/units.ts").read_text()
    listed = {
        code: int(digits)
        for digits, codes in re.findall(r'^  (\d): "([A-Z ]+)",$', source, re.MULTILINE)
        for code in codes.split()
    }
    assert listed == DIGITS


def test_a_pdf_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many lines, too much time, and too much memory are refused with what to do."""
    document = {"rows": [["x"] * 6] * 3}
    monkeypatch.setattr(documents, "PDF_LINES_MAX", 2)
    with pytest.raises(Conflict, match=r"more than 2 lines\. Download it as HTML or JSON"):
        pdf_of(document)
    monkeypatch.setattr(documents, "PDF_LINES_MAX", 3)
    # The document lacks its texts, so the program fails.
    with pytest.raises(PdfUnavailable, match="was not made in time"):
        pdf_of(document)
    monkeypatch.setattr(documents, "PDF_TIMEOUT_S", 0.001)
    with pytest.raises(PdfUnavailable, match="was not made in time"):
        pdf_of(document)


def test_few_pdfs_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third program is refused with 503 after a wait, and a failed one leaves its place.

    Planted: a place that is kept after a failure."""
    monkeypatch.setattr(documents, "PDF_WAIT_S", 0.001)
    for _ in range(documents.PDF_PROGRAMS_MAX + 1):
        with pytest.raises(PdfUnavailable, match="was not made in time"):
            pdf_of({"rows": []})
    busy = pytest.raises(PdfUnavailable, match=r"Other PDFs are being made\. Try again")
    with documents._programs, documents._programs, busy as refused:
        pdf_of({"rows": []})
    assert refused.value.http_status == 503


def test_the_program_of_pdfs_bounds_its_memory() -> None:
    """The program cannot take as much memory as its bound.

    Against: no bound."""
    done = subprocess.run(
        [
            *(sys.executable, "-c"),
            "from periods.pdf_program import *; bound_resources(); bytearray(MEMORY_BYTES)",
        ],
        env={"PYTHONPATH": str(Path(documents.__file__).parents[1])},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr.decode().rstrip().endswith("MemoryError")


@pytest.mark.django_db
def test_statements_over_the_api(
    company: Company, fiona: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue, list, read, download and credit."""
    monkeypatch.setattr("primitives.clock.SystemClock.now", lambda self: DUE)
    a_metered_attempt(company.nlp)
    close(company, fiona, "2026-11", "known")
    caller: Caller = by_token(fiona.user)
    path = f"organizations/{company.organization.pk}/periods/2026-11/statements"
    assert caller.get(path).json() == {"items": [], "next": None}
    issued = caller.send("POST", path, {"unit": "team", "due_on": "2027-01-03"})
    assert issued.status_code == 201
    (statement,) = issued.json()["items"]
    assert {name: statement[name] for name in ("number", "kind", "month", "unit", "due_on")} == {
        "number": "2026-00001",
        "kind": "statement",
        "month": "2026-11",
        "unit": "ai-company/research/nlp",
        "due_on": "2027-01-03",
    }
    detail = caller.get(f"statements/{statement['id']}").json()
    assert detail["lines"] == [
        {
            "number": 1,
            "month": "2026-11",
            "is_correction": False,
            "team": "ai-company/research/nlp",
            "pool": "h100",
            "device": "gpu",
            "usage_class": "guaranteed",
            "cost_centre": "",
            "project_code": "",
            "adjustment": None,
            "reason": None,
            "mgpu_s": 8 * 3_600_000,
            "cost_nano": 16_000_000_000,
            "amount_cents": 1_600,
        }
    ]
    for ending, content_type in (("html", "text/html; charset=utf-8"), ("pdf", "application/pdf")):
        file = caller.get(f"statements/{statement['id']}/{ending}")
        assert (file.status_code, file.headers["Content-Type"]) == (200, content_type)
        assert file.headers["Content-Disposition"] == (
            f'attachment; filename="ai-company-statement-2026-00001.{ending}"'
        )
    credited = caller.send("POST", f"statements/{statement['id']}/credit", {"reason": "wrong"})
    assert (credited.status_code, credited.json()["credits"]) == (201, "2026-00001")
    assert [
        (one["number"], one["credits"], one["credited_by"])
        for one in caller.get(path).json()["items"]
    ] == [("2026-00001", None, "2026-00002"), ("2026-00002", "2026-00001", None)]
