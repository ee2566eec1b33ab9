"""Documents of statements: one set of texts, as JSON, HTML and PDF.

A statement never changes, so neither does its document. Names and reasons are texts everywhere: no
markup in them has an effect.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from periods.statement_models import Statement, StatementKind, StatementLine
from primitives.currencies import cents_text
from primitives.errors import Conflict, PortalError
from primitives.units import MGPU_S_PER_GPU_HOUR, DeviceKind, div_half_even

#: The most lines of a PDF. Larger statements are there as JSON and HTML.
PDF_LINES_MAX = 5_000
#: Wall-clock time in which a PDF must be ready, in seconds.
PDF_TIMEOUT_S = 30
#: The most programs that one web process runs at once, and the wait for one of them, in seconds.
PDF_PROGRAMS_MAX = 2
PDF_WAIT_S = 10
_programs = threading.BoundedSemaphore(PDF_PROGRAMS_MAX)
_PROGRAM = Path(__file__).with_name("pdf_program.py")
_CODE_COLUMNS = ("Cost centre", "Project code", "Amount")
_COLUMNS = ("Team", "Pool", "Class", "Month", "Hours", "Amount")


class PdfUnavailable(PortalError):
    """The program that makes PDFs failed, took too long, or makes others."""

    code = "pdf_unavailable"
    http_status = 503
    title = "The PDF was not made"


def document_of(statement: Statement) -> dict[str, Any]:
    """Return the texts of a statement's document."""
    is_credit = statement.kind == StatementKind.CREDIT_NOTE
    facts = [
        ("Number", statement.number),
        ("Organization", statement.organization_name),
        ("Unit", f"{statement.unit_name} ({statement.unit_path})"),
        ("Month", f"{statement.period.month:%Y-%m} ({statement.period.time_zone})"),
        ("Issued", f"{statement.issued_at:%Y-%m-%d %H:%M} UTC by {statement.issued_by}"),
    ]
    if statement.credits is not None:
        facts += [
            ("Credits", f"Statement {statement.credits.number}"),
            ("Reason", statement.reason),
        ]
    if statement.due_on is not None:
        facts.append(("Due", f"{statement.due_on:%Y-%m-%d}"))
    if statement.terms:
        facts.append(("Terms", statement.terms))
    facts.append(("Digest of the month", statement.period.digest))
    lines = list(statement.lines_in_order)
    totals = _totals_by_code(lines, statement.currency)
    return {
        "title": f"{'Credit note' if is_credit else 'Statement'} {statement.number}",
        "provider": statement.provider,
        "facts": facts,
        "columns": [
            *_COLUMNS[:4],
            *(["Codes"] if totals else []),
            *_COLUMNS[4:-1],
            f"{_COLUMNS[-1]} {statement.currency}",
        ],
        "rows": [_row(line, has_codes=bool(totals)) for line in lines],
        "totals": totals,
        "total": cents_text(statement.total_cents, statement.currency),
        "currency": statement.currency,
    }


def _totals_by_code(lines: Iterable[StatementLine], currency: str) -> list[tuple[str, str, str]]:
    """Return cost centre, project code and amount of each pair of them; none without codes."""
    cents: Counter[tuple[str, str]] = Counter()
    for line in lines:
        cents[line.cost_centre, line.project_code] += line.amount_cents
    if cents.keys() <= {("", "")}:
        return []
    return [
        (cost_centre or "none", project_code or "none", cents_text(amount, currency))
        for (cost_centre, project_code), amount in sorted(cents.items())
    ]


def html_of(document: dict[str, Any]) -> str:
    """Return the document as one HTML page without scripts."""
    return format_html(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<p>{provider}</p>\n<h1>{title}</h1>\n<dl>\n{facts}"
        "</dl>\n<table>\n<thead>\n<tr>{columns}</tr>\n</thead>\n<tbody>\n{rows}</tbody>\n"
        '<tfoot>\n<tr><th colspan="{width}" scope="row">Total</th><td>{total}</td></tr>\n</tfoot>\n'
        "</table>\n{totals}</body>\n</html>\n",
        style=_STYLE,
        title=document["title"],
        provider=document["provider"],
        facts=format_html_join("", "<dt>{}</dt><dd>{}</dd>\n", document["facts"]),
        columns=_cells('<th scope="col">{}</th>', document["columns"]),
        rows=format_html_join(
            "", "<tr>{}</tr>\n", ((_cells("<td>{}</td>", row),) for row in document["rows"])
        ),
        width=len(document["columns"]) - 1,
        total=document["total"],
        totals=_totals_html(document["totals"]),
    )


def _totals_html(totals: list[tuple[str, str, str]]) -> SafeString:
    if not totals:
        return SafeString("")
    return format_html(
        "<h2>By accounting code</h2>\n<table>\n<thead>\n<tr>{columns}</tr>\n</thead>\n<tbody>\n"
        "{rows}</tbody>\n</table>\n",
        columns=_cells('<th scope="col">{}</th>', _CODE_COLUMNS),
        rows=format_html_join(
            "", "<tr>{}</tr>\n", ((_cells("<td>{}</td>", row),) for row in totals)
        ),
    )


_STYLE = SafeString(
    "body{font:14px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.5rem}dd{margin:0;"
    "overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}td,th{padding:.35rem .5rem;"
    "border-bottom:1px solid #ccc;text-align:left;overflow-wrap:anywhere}"
    "td:nth-last-child(-n+2),th:nth-last-child(-n+2),tfoot td{text-align:right}"
)


def pdf_of(document: dict[str, Any]) -> bytes:
    """Return the document as PDF; the same document gives the same bytes.

    A process of its own makes it, with bounds on time and memory, and without the network. Raises
    Conflict for more than `PDF_LINES_MAX` lines. Raises PdfUnavailable past a bound, and where
    `PDF_PROGRAMS_MAX` others are being made for `PDF_WAIT_S`.
    """
    if len(document["rows"]) > PDF_LINES_MAX:
        raise Conflict(
            f"The statement has more than {PDF_LINES_MAX} lines. Download it as HTML or JSON."
        )
    if not _programs.acquire(timeout=PDF_WAIT_S):
        raise PdfUnavailable(
            "Other PDFs are being made. Try again, or download the statement as HTML."
        )
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and program
            [sys.executable, "-I", str(_PROGRAM)],
            input=json.dumps(document).encode(),
            capture_output=True,
            timeout=PDF_TIMEOUT_S,
            env={},
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        raise PdfUnavailable(
            "The PDF was not made in time. Try again, or download the statement as HTML."
        ) from error
    finally:
        _programs.release()
    return done.stdout


def _row(line: StatementLine, *, has_codes: bool) -> list[str]:
    thousandths = div_half_even(line.mgpu_s * 1_000, MGPU_S_PER_GPU_HOUR)
    whole, rest = divmod(abs(thousandths), 1_000)
    month = f"{line.month:%Y-%m}"
    sign, hours = "-" if thousandths < 0 else "", f"{whole:,}.{rest:03d}"
    adjusted = line.adjustment
    codes = (line.cost_centre, line.project_code)
    return [
        line.team_path if adjusted is None else f"{line.team_path}: {adjusted.reason}",
        line.pool,
        line.usage_class,
        f"{month}, correction" if line.is_correction else month,
        *([" / ".join(filter(None, codes)) or "none"] if has_codes else []),
        f"{sign}{hours} {DeviceKind(line.device).singular}-h" if adjusted is None else "",
        cents_text(line.amount_cents, line.statement.currency),
    ]


def _cells(form: str, texts: Iterable[str]) -> SafeString:
    return format_html_join("", form, ((text,) for text in texts))
