"""Reading a container's log file as the API of Pod logs says. Pure but for the file.

Source of the rules: pkg/kubelet/kuberuntime/logs of k8s.io/kubernetes.
"""

from __future__ import annotations

import calendar
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-]\d\d):(\d\d))")


class BadOption(Exception):
    """An option that cannot be."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a reader asked for."""

    is_followed: bool = False
    has_times: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_ns: int = 0


def read_options(query: Mapping[str, str], now_ns: int) -> LogOptions:
    """The options in a query. Raises BadOption."""
    since_ns = 0
    if "sinceSeconds" in query:
        since_ns = now_ns - _whole(query, "sinceSeconds") * 10**9
    if "sinceTime" in query:
        since_ns = moment_ns(query["sinceTime"])
    return LogOptions(
        is_followed=query.get("follow") == "true",
        has_times=query.get("timestamps") == "true",
        tail_lines=_whole(query, "tailLines") if "tailLines" in query else None,
        limit_bytes=_whole(query, "limitBytes") if "limitBytes" in query else None,
        since_ns=since_ns,
    )


def moment_ns(text: str) -> int:
    """An RFC 3339 time in nanoseconds since 1970. Raises BadOption."""
    found = _TIME.fullmatch(text)
    if not found:
        raise BadOption(f"not a time: {text}")
    seconds = calendar.timegm(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S"))
    if found[3]:
        minutes = int(found[3]) * 60 + int(f"{found[3][0]}{found[4]}")
        seconds -= minutes * 60
    return seconds * 10**9 + int((found[2] or "").ljust(9, "0"))


def go_to_tail(file: BinaryIO, lines: int) -> None:
    """Put the file where its last lines begin."""
    starts: deque[int] = deque(maxlen=lines)
    position = 0
    for line in file:
        starts.append(position)
        position += len(line)
    file.seek(starts[0] if starts else position)


class LogReader:
    """Turns what is in the file into what the reader gets, also as the file grows."""

    def __init__(self, file: BinaryIO, options: LogOptions) -> None:
        self._file = file
        self._options = options
        self._left_bytes = options.limit_bytes
        self._is_new_line = True
        if options.tail_lines is not None:
            go_to_tail(file, options.tail_lines)

    @property
    def is_full(self) -> bool:
        """As many bytes as were asked for have been given."""
        return self._left_bytes == 0

    @property
    def position(self) -> int:
        """How many bytes of the file have been read."""
        return self._file.tell()

    def pieces(self) -> Iterator[bytes]:
        """What has come since the last call."""
        while not self.is_full:
            start = self._file.tell()
            line = self._file.readline()
            if not line.endswith(b"\n"):
                self._file.seek(start)
                return
            if piece := self._piece(line):
                yield self._cut(piece)

    def _piece(self, line: bytes) -> bytes:
        moment, _, tag, text = line[:-1].split(b" ", 3)
        if self._options.since_ns and moment_ns(moment.decode()) < self._options.since_ns:
            return b""
        prefix = moment + b" " if self._options.has_times and self._is_new_line else b""
        self._is_new_line = tag == b"F"
        return prefix + text + (b"\n" if tag == b"F" else b"")

    def _cut(self, piece: bytes) -> bytes:
        if self._left_bytes is None:
            return piece
        piece = piece[: self._left_bytes]
        self._left_bytes -= len(piece)
        return piece


def _whole(query: Mapping[str, str], name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", query[name]):
        raise BadOption(f"{name} is not a whole number: {query[name]}")
    return int(query[name])
