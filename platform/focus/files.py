"""Reads FOCUS files: CSV by the standard library, and Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

#: Longest text of a cell.
_CELL_MAX = 1 << 20
_BATCH_ROWS = 10_000

Table = tuple[Sequence[str], Iterator[Sequence[str | None]]]


class UnreadableFile(Exception):
    """A file that is no table. The text is a sentence for the reader."""


@contextmanager
def opened(path: Path) -> Iterator[Table]:
    """Yield the header and the rows of a file. A name that ends in .parquet is Parquet.

    An empty cell is None. Raises UnreadableFile for a file without a header or of another format,
    and OSError.
    """
    if path.suffix == ".parquet":
        yield _parquet(path)
        return
    with path.open(encoding="utf-8", newline="") as file:
        yield _csv(file, path)


def _csv(file: Any, path: Path) -> Table:
    csv.field_size_limit(_CELL_MAX)
    reader = csv.reader(file, strict=True)
    try:
        header = next(reader, None)
    except (csv.Error, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path} is no CSV file in UTF-8: {error}.") from error
    if not header:
        raise UnreadableFile(f"{path} is empty. A FOCUS file begins with its columns.")
    return header, _cells(reader, path)


def _cells(reader: Any, path: Path) -> Iterator[Sequence[str | None]]:
    try:
        for row in reader:
            yield [cell or None for cell in row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise UnreadableFile(
            f"{path} is no CSV file in UTF-8, line {reader.line_num}: {error}."
        ) from error


def _parquet(path: Path) -> Table:
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]
    except ImportError as error:
        raise UnreadableFile("Parquet needs pyarrow: pip install pyarrow.") from error
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise UnreadableFile(f"{path} is no Parquet file.") from error

    def rows() -> Iterator[Sequence[str | None]]:
        for batch in file.iter_batches(_BATCH_ROWS):
            columns = [column.to_pylist() for column in batch.columns]
            for cells in zip(*columns, strict=True):
                yield [None if cell is None else _text(cell) for cell in cells]

    return file.schema_arrow.names, rows()


def _text(cell: object) -> str:
    if isinstance(cell, datetime):
        return f"{cell.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(cell, Decimal):
        return f"{cell:f}"
    return str(cell)
