"""The log file of a container: `TIME stdout F text`, as container runtimes write it.

`F` ends a line; `P` is a part of one, which is how lines of more than 16 KiB and a last line
without an end are written.
"""

from __future__ import annotations

import time
from pathlib import Path

LINE_BYTES = 16 * 1024
FILE_BYTES = 64 * 1024 * 1024


def rfc3339_nano(moment_ns: int) -> str:
    """The moment in UTC with nine digits after the second."""
    seconds, fraction_ns = divmod(moment_ns, 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{fraction_ns:09d}Z"


class OutputFile:
    """Takes what a container prints, piece by piece. What is beyond FILE_BYTES is dropped."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._left_bytes = FILE_BYTES - self._file.tell()
        self._begun = b""

    def take(self, piece: bytes) -> None:
        """Write the complete lines in what has come so far."""
        *lines, self._begun = (self._begun + piece).split(b"\n")
        entries: list[tuple[bytes, bytes]] = []
        for line in lines:
            while len(line) > LINE_BYTES:
                entries.append((b"P", line[:LINE_BYTES]))
                line = line[LINE_BYTES:]
            entries.append((b"F", line))
        while len(self._begun) > LINE_BYTES:
            entries.append((b"P", self._begun[:LINE_BYTES]))
            self._begun = self._begun[LINE_BYTES:]
        self._write(entries)

    def close(self) -> None:
        """Write what has no end, and be done."""
        if self._begun:
            self._write([(b"P", self._begun)])
        self._file.close()

    def _write(self, entries: list[tuple[bytes, bytes]]) -> None:
        moment = rfc3339_nano(time.time_ns()).encode()
        data = b"".join(b"%s stdout %s %s\n" % (moment, tag, text) for tag, text in entries)
        if data and len(data) <= self._left_bytes:
            self._left_bytes -= self._file.write(data)
        elif data:
            self._left_bytes = 0
