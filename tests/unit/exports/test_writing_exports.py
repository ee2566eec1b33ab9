"""Files of charges: what each format holds, to the nano, and nothing that a spreadsheet runs."""

from __future__ import annotations

import csv
import re
import zipfile
from decimal import Decimal
from io import StringIO
from pathlib import Path
from xml.sax.saxutils import unescape
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from billing.charges import Charge
from builders.billing_builders import at
from exports import writers
from exports.tables import CHARGE_COLUMNS
from exports.writers import writer_of
from primitives.errors import InvalidRequest


def a_charge(**changes: object) -> Charge:
    return Charge(
        start=at(0),
        end=at(86_400),
        organization="ai-company",
        department="research",
        team="ai-company/research/nlp",
        user_id="0",
        user="ada",
        cluster="alpha",
        pool="h100",
        device="gpu",
        usage_class="borrowed",
        priority_class="urgent",
        multiplier_ppm=1_500_000,
        job_id="1",
        job_name="train",
        attempt_id="2",
        attempt=3,
        mgpu_s=3_600_001,
        rate_line="4",
        price_nano=2_000_000_000,
        list_cost_nano=3_000_000_833,
        contracted_cost_nano=3_000_000_833,
        billed_cost_nano=3_000_000_833,
        effective_cost_nano=3_000_000_833,
        currency="EUR",
        mode="pay_per_use",
        class_multiplier_ppm=1_000_000,
        priced_mgpu_s=3_600_001,
        fault="",
    )._replace(**changes)


def a_file(folder: Path, format_name: str, *batches: list[Charge]) -> Path:
    path = folder / f"charges.{format_name}"
    with writer_of(format_name, path, CHARGE_COLUMNS) as writer:
        for batch in batches:
            writer.write(batch)
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(path.read_bytes().decode(), newline="")))


UNPRICED = {"rate_line": None, "price_nano": None, "currency": None}
#: What a person may call a job, and a spreadsheet may run.
FORMULAS = ('=HYPERLINK("http://evil")', "+1", "-1", "@SUM(A1)", "\t=1", " =1", "|calc")


def test_csv_is_exact(tmp_path: Path) -> None:
    """Costs have nine decimals, hours six, and empty cells are empty; corrections are negative.

    Against: amounts by float (3.0000008329999996)."""
    correction = a_charge(**UNPRICED, mgpu_s=-3_600_001, billed_cost_nano=-1)
    path = a_file(tmp_path, "csv", [a_charge()], [correction])
    assert path.read_bytes().count(b"\r\n") == 3
    first, second = rows_of(path)
    assert first == {
        "charge_start": "2026-11-01T00:00:00Z",
        "charge_end": "2026-11-02T00:00:00Z",
        "organization": "ai-company",
        "department": "research",
        "team": "ai-company/research/nlp",
        "user": "ada",
        "cluster": "alpha",
        "pool": "h100",
        "device": "gpu",
        "usage_class": "borrowed",
        "priority_class": "urgent",
        "priority_multiplier": "1.500000",
        "job_id": "1",
        "job_name": "train",
        "attempt_id": "2",
        "attempt": "3",
        "gpu_hours": "1.000000",
        "mgpu_seconds": "3600001",
        "rate_line": "4",
        "price_per_hour": "2.000000000",
        "list_cost": "3.000000833",
        "contracted_cost": "3.000000833",
        "billed_cost": "3.000000833",
        "effective_cost": "3.000000833",
        "currency": "EUR",
        "mode": "pay_per_use",
        "class_multiplier": "1.000000",
        "billed_mgpu_seconds": "3600001",
    }
    assert (second["rate_line"], second["price_per_hour"], second["currency"]) == ("", "", "")
    assert (second["billed_cost"], second["gpu_hours"]) == ("-0.000000001", "-1.000000")


def test_parquet_is_exact_and_typed(tmp_path: Path) -> None:
    """Decimals have nine places, times are UTC, and empty cells are null."""
    path = a_file(tmp_path, "parquet", [a_charge()], [a_charge(**UNPRICED, billed_cost_nano=-1)])
    table = pq.read_table(path)
    assert table.schema.field("billed_cost").type == pa.decimal128(38, 9)
    assert table.column("charge_start").to_pylist() == [at(0), at(0)]
    assert table.column("billed_cost").to_pylist() == [
        Decimal("3.000000833"),
        Decimal("-0.000000001"),
    ]
    assert table.column("price_per_hour").to_pylist() == [Decimal("2.000000000"), None]
    assert table.column("mgpu_seconds").to_pylist() == [3_600_001, 3_600_001]
    assert table.column("currency").to_pylist() == ["EUR", None]


def test_parquet_has_row_groups_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: all rows kept until the end (one group)."""
    monkeypatch.setattr(writers, "_GROUP_ROWS", 4)
    path = a_file(tmp_path, "parquet", *[[a_charge()] * 2] * 5)
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)]
    assert groups == [4, 4, 2]


@pytest.mark.parametrize("name", FORMULAS)
def test_csv_has_no_formula(tmp_path: Path, name: str) -> None:
    """Against: texts written as they are."""
    path = a_file(tmp_path, "csv", [a_charge(job_name=name)])
    (row,) = rows_of(path)
    assert row["job_name"] == f"'{name}"


def test_a_workbook_has_no_formula_and_no_link(tmp_path: Path) -> None:
    """Texts are inline strings: no formula, no link, and digits stay text.

    Against: `write` instead of `write_string`, which writes a formula."""
    names = [*FORMULAS, "https://evil.example", "007"]
    path = a_file(tmp_path, "xlsx", [a_charge(job_name=name) for name in names])
    with ZipFile(path) as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
        parts = book.namelist()
    assert not [name for name in parts if name.startswith("xl/worksheets/_rels")]
    assert "<f>" not in sheet
    assert "<hyperlink" not in sheet
    texts = [unescape(text) for text in re.findall("<is><t[^>]*>([^<]*)</t></is>", sheet)]
    assert [name for name in names if name not in texts] == []
    rows = re.findall(r"<row ", sheet)
    assert len(rows) == 1 + len(names)


def test_a_workbook_refuses_more_rows_than_a_sheet_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says what to do instead."""
    monkeypatch.setattr(writers, "XLSX_ROWS_MAX", 2)
    with pytest.raises(InvalidRequest, match=r"at most 2 rows\. Choose CSV or Parquet"):
        a_file(tmp_path, "xlsx", [a_charge()] * 2, [a_charge()])


def test_a_workbook_has_no_time_of_its_making(tmp_path: Path) -> None:
    """The same rows are the same bytes on another day.

    Planted: the creation time that the library takes from the clock."""
    path = a_file(tmp_path, "xlsx", [a_charge()])
    with zipfile.ZipFile(path) as book:
        core = book.read("docProps/core.xml").decode()
    assert re.findall(r">([0-9T:-]+Z)<", core) == ["1980-01-01T00:00:00Z"] * 2
