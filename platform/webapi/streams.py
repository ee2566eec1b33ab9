"""Answers that are sent part by part, with bounded memory.

`portal.serving` sends them so. It fetches each part in a thread, when the reader has taken the one
before, and gives the thread's database connection back after each part. It closes the parts when
the reader leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from django.http import StreamingHttpResponse

from webapi.row_access import keeping_rows

#: Bytes of one part.
PART_BYTES = 1 << 18
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)


class PartwiseResponse(StreamingHttpResponse):
    """A download. An error in a part breaks the connection off."""

    def __init__(
        self,
        parts: Iterator[bytes],
        *,
        file_name: str,
        content_type: str,
        size: int | None = None,
        status: int = 200,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        known = {} if size is None else {"Content-Length": str(size)}
        super().__init__(
            keeping_rows(parts),
            content_type=content_type,
            status=status,
            headers={
                "Content-Disposition": _attachment(file_name),
                "Cache-Control": "private, no-store",
                **known,
                **headers,
            },
        )


def asked_range(header: str, size: int) -> tuple[int, int] | None:
    """Return the bytes `[start, end)` that a Range header asks for; None for all of them.

    One range of bytes is understood. A server may answer any other with the whole (RFC 9110).
    """
    found = _RANGE.fullmatch(header)
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        return (max(0, size - int(last)), size) if int(last) > 0 < size else None
    start, end = int(first), min(size, int(last) + 1) if last else size
    return (start, end) if start < end else None


def file_parts(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, which is opened at the first part. Raises OSError."""
    with path.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part


def _attachment(file_name: str) -> str:
    """Return the header for a file name of any characters (RFC 6266)."""
    plain = "".join(
        c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in file_name
    )
    exact = "" if plain == file_name else f"; filename*=UTF-8''{quote(file_name, safe='')}"
    return f'attachment; filename="{plain}"{exact}'
