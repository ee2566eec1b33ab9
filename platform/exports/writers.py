"""Writes rows of a table to a file, batch by batch, with bounded memory."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import xlsxwriter  # type: ignore[import-untyped]

from exports.tables import Column
from primitives.csv_text import plain_text
from primitives.errors import InvalidRequest

#: Rows of a sheet in a spreadsheet, without the head.
XLSX_ROWS_MAX = 1_048_575
#: Rows that become one row group of a Parquet file.
_GROUP_ROWS = 65_536
_TEXTS_CACHED = 65_536
#: Creation time of every workbook, that of the parts in its ZIP: the same rows are the same bytes.
_XLSX_CREATED = datetime(1980, 1, 1, tzinfo=UTC)

_plain_text = lru_cache(_TEXTS_CACHED)(plain_text)


class Writer(Protocol):
    """A file that is being written. Leaving it completes the file."""

    def write(self, rows: Sequence[Any]) -> None:
        """Append rows."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class CsvWriter:
    """RFC 4180 in UTF-8, with exact decimals. A text that may be a formula has an apostrophe."""

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._csv = csv.writer(self._file, lineterminator="\r\n")
        self._csv.writerow([column.name for column in columns])
        self._cells = [(column.value, _text_of(column)) for column in columns]

    def write(self, rows: Sequence[Any]) -> None:
        """Append rows."""
        cells = self._cells
        self._csv.writerows(
            ["" if (found := value(row)) is None else shown(found) for value, shown in cells]
            for row in rows
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _text_of(column: Column) -> Callable[[Any], str]:
    """Return the function that shows a cell of the column in CSV."""
    if column.kind == "decimal":
        return _decimal_text(column.scale)
    shown: Mapping[str, Callable[[Any], str]] = {
        "text": _plain_text,
        "time": _time_text,
        "whole": str,
    }
    return shown[column.kind]


def _decimal_text(scale: int) -> Callable[[int], str]:
    """Return the function that shows units with `scale` decimals: -1 is "-0.000000001"."""
    one = 10**scale

    def shown(units: int) -> str:
        # Three times as fast as Decimal.
        if units < 0:
            return f"-{-units // one}.{-units % one:0{scale}d}"
        return f"{units // one}.{units % one:0{scale}d}"

    return shown


@lru_cache(_TEXTS_CACHED)
def _time_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


class ParquetWriter:
    """Apache Parquet with UTC timestamps and exact decimals, in row groups of bounded size."""

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._types = [_arrow_type(column) for column in columns]
        names = [column.name for column in columns]
        self._schema = pa.schema(list(zip(names, self._types, strict=True)))
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0

    def write(self, rows: Sequence[Any]) -> None:
        """Append rows."""
        arrays = [
            _arrow_array([column.value(row) for row in rows], kind)
            for column, kind in zip(self._columns, self._types, strict=True)
        ]
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._waiting_rows += len(rows)
        if self._waiting_rows >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._file.write_table(pa.Table.from_batches(self._waiting))
            self._waiting, self._waiting_rows = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
        self._file.close()


def _arrow_type(column: Column) -> pa.DataType:
    return {
        "text": pa.string(),
        "time": pa.timestamp("ms", tz="UTC"),
        "whole": pa.int64(),
        "decimal": pa.decimal128(38, column.scale),
    }[column.kind]


def _arrow_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_decimal(kind):
        return pa.array(values, type=kind)
    # The same digits with the point moved: objects of Decimal would take most of the time.
    try:
        units = pa.array(values, type=pa.int64()).cast(pa.decimal128(38, 0))
    except OverflowError:
        whole = [None if value is None else Decimal(value) for value in values]
        units = pa.array(whole, type=pa.decimal128(38, 0))
    return pa.Array.from_buffers(kind, len(units), units.buffers(), units.null_count)


class XlsxWriter:
    """A workbook with one sheet, written row by row. Texts are never formulas, links or numbers."""

    def __init__(self, path: Path, columns: Sequence[Column]) -> None:
        self._book = xlsxwriter.Workbook(
            path,
            {
                "constant_memory": True,
                "strings_to_formulas": False,
                "strings_to_urls": False,
                "strings_to_numbers": False,
            },
        )
        self._book.set_properties({"created": _XLSX_CREATED})
        self._sheet = self._book.add_worksheet("charges")
        self._sheet.freeze_panes(1, 0)
        head = self._book.add_format({"bold": True})
        for place, column in enumerate(columns):
            self._sheet.set_column(place, place, 22 if column.kind == "text" else 18)
            self._sheet.write_string(0, place, column.name, head)
        self._time = self._book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        self._decimals = {
            column.scale: self._book.add_format({"num_format": f"0.{'0' * column.scale}"})
            for column in columns
            if column.kind == "decimal"
        }
        self._columns = columns
        self._rows = 0

    def write(self, rows: Sequence[Any]) -> None:
        """Append rows. Raises InvalidRequest where the sheet has no room for them."""
        if self._rows + len(rows) > XLSX_ROWS_MAX:
            raise InvalidRequest(
                f"A spreadsheet has at most {XLSX_ROWS_MAX:,} rows. Choose CSV or Parquet, or a "
                "shorter period."
            )
        sheet = self._sheet
        for row in rows:
            self._rows += 1
            for place, column in enumerate(self._columns):
                found = column.value(row)
                if found is None:
                    continue
                if column.kind == "text":
                    sheet.write_string(self._rows, place, found)
                elif column.kind == "time":
                    naive = found.astimezone(UTC).replace(tzinfo=None)
                    sheet.write_datetime(self._rows, place, naive, self._time)
                elif column.kind == "whole":
                    sheet.write_number(self._rows, place, found)
                else:
                    amount = found / 10**column.scale
                    sheet.write_number(self._rows, place, amount, self._decimals[column.scale])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._book.close()


_WRITERS: Mapping[str, Callable[[Path, Sequence[Column]], Writer]] = {
    "csv": CsvWriter,
    "parquet": ParquetWriter,
    "xlsx": XlsxWriter,
}


def writer_of(format_name: str, path: Path, columns: Sequence[Column]) -> Writer:
    """Return the writer of a new file. Use it in `with`, which completes the file."""
    return _WRITERS[format_name](path, columns)
