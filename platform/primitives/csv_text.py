"""Writes lines of CSV that are safe to open in a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

# Characters at which a spreadsheet may start a formula. Some convert the full-width forms first. A
# leading space, line break or control character may hide one.
_FORMULA_STARTS = frozenset("=+-@|%\t\r\n\uff1d\uff0b\uff0d\uff20\uff5c\uff05")


def plain_text(text: str) -> str:
    """Return `text`, with an apostrophe in front where a spreadsheet might run it as a formula."""
    bare = text.lstrip(" \u00a0\u3000\ufeff")
    return f"'{text}" if text[:1] in _FORMULA_STARTS or bare[:1] in _FORMULA_STARTS else text


def csv_line(cells: Sequence[str]) -> str:
    """Return one line, ended by CR LF. Pass text that users wrote through `plain_text` first."""
    line = StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()
