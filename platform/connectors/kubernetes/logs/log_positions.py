"""Continues a log where it stopped, without losing or repeating a line.

Kubernetes gives each line with its time. Asked for lines since a second, it returns all of them in
the order of writing. So the position records the newest stored second and the number of stored
lines since then. When asked again from that second on, the cluster sends these lines first. A
digest over their times and contents recognizes them. If they differ, the node has rotated the log
and lost the old lines; then the times decide which lines are new.

A line that is written after one with a later second reaches only a reader that already follows. The
cluster omits it from later answers.

The times of lines become marks, one for the lines of a second that are beside each other.

Pure: no files, no network.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from connectors.protocol import LogTime

_NANOS = 1_000_000_000
_NANOS_PER_MS = 1_000_000
_STAMP_LENGTH_MAX = 40
#: The offsets of the fraction of a second, and of the text, in a line of the API server.
_PREFIX = 20
_TEXT = 31
#: The fewest bytes that are worth the fast path.
_MANY_BYTES = 1_024


@dataclass(slots=True)
class Position:
    """The position up to which the log of a rank is stored.

    `size` bytes are stored of the Pod with uid `pod`, including those of the rank's earlier Pods.
    `last_nano` is the newest time of any complete line. Since that whole second, `lines` lines are
    stored, with `digest` over them, and `within` bytes of the next line. A log that `is_truncated`
    reached the cap. A log that `is_complete` gets no more.
    """

    pod: str = ""
    size: int = 0
    last_nano: int = -1
    lines: int = 0
    digest: str = ""
    within: int = 0
    is_truncated: bool = False
    is_complete: bool = False

    def since(self) -> str | None:
        """Return the time from which to request lines; None for all."""
        if self.last_nano < 0:
            return None
        return f"{datetime.fromtimestamp(self.last_nano // _NANOS, UTC):%Y-%m-%dT%H:%M:%SZ}"


class LineReader:
    """Reads a log with times from `position.since()` on, and returns its new parts.

    It advances `position`. At most `cap_bytes` are stored in all: the head of the log. `times` are
    the marks of the parts that the last call returned, at offsets in the stored log.
    """

    def __init__(self, position: Position, cap_bytes: int) -> None:
        self.position = position
        self.times: list[LogTime] = []
        self._cap_bytes = cap_bytes
        #: Stored lines that will be repeated, and stored bytes of the line after them.
        self._again = position.lines
        self._within = position.within
        # Since the node rotated the log, the stored lines of the newest second are unknown.
        self._is_by_time = position.last_nano >= 0 and position.lines == 0
        # Digests over the complete lines since the newest second, without and with the current
        # line.
        self._digest = hashlib.sha256()
        self._with_line = self._digest
        self._head = b""
        self._in_line = False
        self._nano: int | None = None
        self._length = 0
        # Lines in place of expected repeated ones that are newer than all stored lines.
        self._buffered = _Added()
        self._buffered_bytes = 0
        self._buffered_nano = -1
        self._pieces: list[bytes] = []

    def take(self, chunk: bytes) -> bytes:
        """Return the bytes that `chunk` adds to the stored log."""
        added = _Added()
        data, self._head = self._head + chunk, b""
        at = self._take_many(data, added)
        while at < len(data):
            if not self._in_line:
                space = data.find(b" ", at, at + _STAMP_LENGTH_MAX)
                newline = data.find(b"\n", at, at + _STAMP_LENGTH_MAX)
                if space < 0 and newline < 0 and len(data) - at < _STAMP_LENGTH_MAX:
                    self._head = data[at:]
                    break
                if space < 0 or 0 <= newline < space:
                    # A line without a time is a message of the node, not of the Pod.
                    self._begin(None, b"")
                else:
                    self._begin(_nano(data[at:space]), data[at : space + 1])
                    at = space + 1
            newline = data.find(b"\n", at)
            end = newline + 1 if newline >= 0 else len(data)
            self._feed(data[at:end], added)
            if newline >= 0:
                self._end(added)
            at = end
        if not self._again and self.position.lines:
            self.position.digest = self._digest.hexdigest()
        return self._capped(added)

    def finish(self) -> bytes:
        """Return the bytes to add when the log has ended, and this was all of it."""
        added = _Added()
        if self._again:
            self._rotated(added)
        return self._capped(added)

    def _take_many(self, data: bytes, added: _Added) -> int:
        """Take the complete lines of `data` at once, if all are new and of one second.

        Returns how many bytes were taken. This is only faster than taking lines one by one, when
        much is written.
        """
        end = data.rfind(b"\n") + 1
        if end < _MANY_BYTES or self._in_line or self._again or self._within or self._is_by_time:
            return 0
        prefix = data[:_PREFIX]
        second = _second(prefix[:-1].decode("ascii", "replace") + "Z")
        lines = data[: end - 1].split(b"\n")
        # "2026-11-21T20:52:57." and nine digits and "Z ", as the API server writes it.
        is_plain = second is not None and all(
            line.startswith(prefix) and line[_PREFIX + 9 : _TEXT] == b"Z " for line in lines
        )
        fractions = [line[_PREFIX : _PREFIX + 9] for line in lines]
        if second is None or not is_plain or not b"".join(fractions).isdigit():
            return 0
        position = self.position
        known = position.last_nano // _NANOS
        if position.last_nano >= 0 and second < known:
            return 0
        if position.last_nano < 0 or second > known:
            position.lines, self._digest = 0, hashlib.sha256()
        position.lines += len(lines)
        newest_nano = second * _NANOS + int(max(fractions))
        position.last_nano = max(position.last_nano, newest_nano)
        self._digest.update(data[:end])
        added.append(b"\n".join([line[_TEXT:] for line in lines]) + b"\n", newest_nano)
        return end

    def _begin(self, nano: int | None, stamp: bytes) -> None:
        is_old = nano is not None and self._is_by_time and nano <= self.position.last_nano
        self._in_line, self._nano = True, None if is_old else nano
        self._length = 0
        self._pieces = []
        if nano is not None:
            is_first = not self._again and self._begins_second(nano)
            self._with_line = hashlib.sha256() if is_first else self._digest.copy()
            self._with_line.update(stamp)

    def _feed(self, piece: bytes, added: _Added) -> None:
        if self._nano is None:
            return
        if self._again:
            if self._nano > self.position.last_nano and self._buffered_bytes < self._cap_bytes:
                self._pieces.append(piece)
                self._buffered_bytes += len(piece)
        else:
            new = piece[max(0, self._within - self._length) :]
            added.append(new, self._nano)
            if new:
                self.position.within = self._length + len(piece)
        self._length += len(piece)
        self._with_line.update(piece)

    def _end(self, added: _Added) -> None:
        self._in_line = False
        if self._nano is None:
            return
        position = self.position
        if self._again:
            self._digest = self._with_line
            self._again -= 1
            self._buffered.append(b"".join(self._pieces), self._nano)
            if self._pieces:
                self._buffered_nano = max(self._buffered_nano, self._nano)
            if self._again == 0 and self._digest.hexdigest() != position.digest:
                self._rotated(added)
            return
        self._within = position.within = 0
        if self._begins_second(self._nano):
            position.lines, self._digest = 1, self._with_line
        elif self._nano // _NANOS == position.last_nano // _NANOS:
            position.lines, self._digest = position.lines + 1, self._with_line
        position.last_nano = max(position.last_nano, self._nano)

    def _begins_second(self, nano: int) -> bool:
        last = self.position.last_nano
        return last < 0 or nano // _NANOS > last // _NANOS

    def _rotated(self, added: _Added) -> None:
        """Handle a rotated log: only lines newer than all stored ones are new."""
        position = self.position
        if position.within:
            # The rest of the incomplete line is lost.
            added.append(b"\n", position.last_nano)
        added.extend(self._buffered)
        position.last_nano = max(position.last_nano, self._buffered_nano)
        position.lines, position.digest, position.within = 0, "", 0
        self._again = self._within = 0
        self._digest = hashlib.sha256()
        self._is_by_time = True

    def _capped(self, added: _Added) -> bytes:
        new, size = b"".join(added.parts), self.position.size
        left_bytes = max(0, self._cap_bytes - size)
        if len(new) > left_bytes:
            new = new[:left_bytes]
            self.position.is_truncated = True
        self.position.size += len(new)
        self.times = added.times(size, self.position.size)
        return new


class _Added:
    """New parts of a log with the times of their lines."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        #: The end of the parts of a second, and their newest time.
        self._ends: list[tuple[int, int]] = []
        self._bytes = 0

    def append(self, part: bytes, nano: int) -> None:
        """Add a part of lines of one second, the newest of them of `nano`."""
        if not part:
            return
        self.parts.append(part)
        self._bytes += len(part)
        if self._ends and self._ends[-1][1] // _NANOS == nano // _NANOS:
            nano = max(nano, self._ends.pop()[1])
        self._ends.append((self._bytes, nano))

    def extend(self, other: _Added) -> None:
        """Add the parts of `other`."""
        self.parts += other.parts
        self._ends += [(self._bytes + end, nano) for end, nano in other._ends]
        self._bytes += other._bytes

    def times(self, start: int, end: int) -> list[LogTime]:
        """Return the marks of the parts, of which `[start, end)` of the log is stored."""
        found: list[LogTime] = []
        for length, nano in self._ends:
            until = min(start + length, end)
            if until > (found[-1].until if found else start):
                found.append(LogTime(until, nano // _NANOS_PER_MS if nano >= 0 else None))
        return found


def _nano(stamp: bytes) -> int | None:
    """Return `stamp` in epoch nanoseconds; None for an invalid time."""
    try:
        whole, dot, rest = stamp.decode("ascii").partition(".")
    except UnicodeDecodeError:
        return None
    if not dot:
        second = _second(whole)
        return None if second is None else second * _NANOS
    digits = rest.rstrip("Z")
    zone = "Z"
    for sign in "+-":
        digits, found, offset = digits.partition(sign)
        if found:
            zone = sign + offset
            break
    second = _second(whole + zone)
    if second is None or not digits.isdecimal() or len(digits) > 9:
        return None
    return second * _NANOS + int(digits.ljust(9, "0"))


@lru_cache(maxsize=1024)
def _second(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else int(moment.timestamp())
    except (ValueError, OverflowError):
        return None
