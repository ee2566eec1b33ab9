"""A search for text in the log of an attempt: one stream, one rank, or all ranks.

A page reads at most `SCAN_BYTES_MAX`, piece by piece, and ends with a cursor. The text is compared
with the clean text of each line, as readers of the log see it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from connectors.protocol import LogTime
from jobs.reading.logs import LINE_END, OFFSET_MAX, STREAMS, AttemptLog, clean, time_of
from primitives.errors import FieldError, InvalidRequest, NotFound
from webapi.paging import AskedPage, Page, decode_cursor, encode_cursor

QUERY_CHARS_MAX = 200
#: Bytes of all streams that one page reads, and streams that it opens.
SCAN_BYTES_MAX = 16 << 20
STREAMS_MAX = 200
#: Bytes that are held at once. A longer line is searched in parts of that size.
PIECE_BYTES = 1 << 20
#: Characters of a matching line that are shown, and those of them before the match.
SHOWN_CHARS_MAX = 500
_SHOWN_BEFORE = 100
#: Control characters but line feed and tab.
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\n\t")


class LogMatch(NamedTuple):
    """A line with the text. `offset` is the first byte of the line in its stream.

    `at` is the time at which the line was written; None if unknown.
    """

    rank: int
    stream: str
    offset: int
    text: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The lines that a search finds: those with `text`, written from `since` until `until`.

    A line of unknown time is outside each time.
    """

    text: str
    matches_case: bool = False
    since: datetime | None = None
    until: datetime | None = None

    @property
    def has_times(self) -> bool:
        """Return whether the time of a line matters."""
        return self.since is not None or self.until is not None

    def includes(self, at: datetime | None) -> bool:
        """Return whether a line of that time is wanted."""
        if at is None:
            return not self.has_times
        is_early = self.since is not None and at < self.since
        return not is_early and (self.until is None or at <= self.until)


@dataclass(frozen=True, slots=True)
class LogSearch:
    """A page of matches in the order of ranks, streams and offsets.

    `scanned_bytes` were read for this page. `untimed` matches of it were left out, because their
    time is unknown and the query asks for one.
    """

    attempt: int
    ranks: int
    page: Page[LogMatch]
    scanned_bytes: int
    untimed: int


def search_log(
    job_id: UUID,
    *,
    attempt: int | None,
    rank: int | None,
    stream: str | None,
    query: LogQuery,
    asked: AskedPage,
) -> LogSearch:
    """Return a page of the lines that `query` finds.

    The default is the latest attempt with all ranks and streams. A page may be empty and have a
    next one. The caller must have checked that the actor may read the log. Raises InvalidRequest,
    NotFound and ClusterAway.
    """
    if not query.text.strip() or not query.text.isprintable():
        raise InvalidRequest(
            "q must be text of one line that is not blank, without control characters.",
            errors=[FieldError("/q", "is blank or has control characters")],
        )
    begin = _Place()
    if asked.cursor is not None:
        attempt, begin = _continued(asked.cursor)
    log = AttemptLog(job_id, attempt)
    if rank is not None:
        log.check_rank(rank)
    search = _Search(log, query, asked.limit)
    places = (
        _Place(each, name)
        for each in (range(begin.rank, log.ranks) if rank is None else (rank,))
        for name in (STREAMS if stream is None else (stream,))
    )
    following = search.run(begin, places)
    cursor = None
    if following is not None:
        cursor = encode_cursor([str(log.attempt), *(str(part) for part in following)])
    return LogSearch(
        log.attempt, log.ranks, Page(search.matches, cursor), search.scanned_bytes, search.untimed
    )


class _Place(NamedTuple):
    """A place in the log of an attempt. Places have the order of a search."""

    rank: int = 0
    stream: str = STREAMS[0]
    offset: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """The order of its stream."""
        return self.rank, STREAMS.index(self.stream)


def _continued(cursor: str) -> tuple[int, _Place]:
    """Return the attempt and the place of a cursor. Raises InvalidRequest."""
    attempt, rank, stream, offset = decode_cursor(cursor, parts=4)
    numbers = [int(part) if part.isascii() and part.isdigit() else -1 for part in (attempt, rank)]
    at = int(offset) if offset.isascii() and offset.isdigit() and len(offset) < 17 else -1
    if min(numbers) < 0 or max(numbers) >= 1 << 31 or stream not in STREAMS:
        at = -1
    if not 0 <= at <= OFFSET_MAX:
        raise InvalidRequest(
            "The cursor is not valid for this search. Start again without it.",
            errors=[FieldError("/cursor", "is not a cursor of this search")],
        )
    return numbers[0], _Place(numbers[1], stream, at)


class _Search:
    """A search until a page is full or a bound is reached."""

    def __init__(self, log: AttemptLog, query: LogQuery, limit: int) -> None:
        self.matches: list[LogMatch] = []
        self.scanned_bytes = 0
        self.untimed = 0
        self._log = log
        self._query = query
        self._limit = limit
        self._wanted = query.text if query.matches_case else query.text.lower()

    def run(self, begin: _Place, places: Iterator[_Place]) -> _Place | None:
        """Search the streams of `places` from `begin` on. Return where to go on; None at the end.

        Raises NotFound where none of the streams exists, with the reason of the first, and
        ClusterAway.
        """
        streams = 0
        missing: NotFound | None = None
        has_read = begin != _Place()
        for place in places:
            if place.order < begin.order:
                continue
            if place.order == begin.order:
                place = begin
            if streams == STREAMS_MAX:
                return place
            streams += 1
            try:
                offset = self._search_stream(place)
            except NotFound as problem:
                missing = missing or problem
                continue
            has_read = True
            if offset is not None:
                return place._replace(offset=offset)
        if missing is not None and not has_read:
            raise missing
        return None

    def _search_stream(self, place: _Place) -> int | None:
        """Search a stream from a place on. Return where to go on; None at its present end."""
        while True:
            if len(self.matches) == self._limit or self.scanned_bytes >= SCAN_BYTES_MAX:
                return place.offset
            piece = self._piece(place)
            for line in _lines_with(self._wanted, piece.data, lower=not self._query.matches_case):
                if len(self.matches) == self._limit:
                    return place.offset + line.begin
                self._take(place, line, piece.times)
            if piece.is_end:
                return None
            place = place._replace(offset=piece.next_offset)

    def _take(self, place: _Place, line: _Line, times: tuple[LogTime, ...]) -> None:
        offset = place.offset + line.begin
        mark = bisect_right(times, offset, key=lambda one: one.until)
        at = time_of(times[mark]) if mark < len(times) else None
        if self._query.includes(at):
            text = _shown(line)
            self.matches.append(LogMatch(place.rank, place.stream, offset, text, at))
        elif at is None:
            self.untimed += 1

    def _piece(self, place: _Place) -> _Piece:
        """Return the lines from a place on, up to the last one that is complete.

        At the present end of a stream the last line counts as complete, and so does the part of a
        line that fills a piece.
        """
        data = b""
        times: tuple[LogTime, ...] = ()
        while True:
            offset = place.offset + len(data)
            chunk = self._log.read(place.rank, place.stream, offset, PIECE_BYTES)
            self.scanned_bytes += len(chunk.data)
            data += chunk.data
            times += chunk.times
            is_end = chunk.is_final or not chunk.data
            length = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            if is_end or length or len(data) >= PIECE_BYTES:
                break
        if is_end:
            return _Piece(data, times, place.offset + len(data), is_end=True)
        if not length:
            # The next part begins before the end, so that it has what is cut here.
            overlap = len(self._query.text.encode()) - 1
            return _Piece(data, times, place.offset + len(data) - overlap, is_end=False)
        return _Piece(data[:length], times, place.offset + length, is_end=False)


class _Piece(NamedTuple):
    """Lines of a stream, with the marks of their times. The next piece begins at `next_offset`."""

    data: bytes
    times: tuple[LogTime, ...]
    next_offset: int
    is_end: bool


class _Line(NamedTuple):
    """A line of a piece with the text, from the byte `begin` of the piece on.

    `start` is the first character of the match in the clean `text`.
    """

    begin: int
    text: str
    start: int


def _lines_with(wanted: str, data: bytes, *, lower: bool) -> Iterator[_Line]:
    """Yield the lines of `data` whose clean text has `wanted`; with `lower` in lower case."""
    text = data.decode("utf-8", "replace")
    cleaned = text if _is_plain(data) else clean(text)
    searched = cleaned.lower() if lower else cleaned
    at = searched.find(wanted)
    if at < 0:
        return
    if cleaned == text and len(searched) == len(text) and "\ufffd" not in text:
        yield from _lines_at(wanted, text, searched, at)
        return
    begin = 0
    for found in LINE_END.finditer(data + b"\n"):
        raw = data[begin : found.start()]
        line = raw.decode("utf-8", "replace")
        if not _is_plain(raw):
            line = clean(line)
        start = (line.lower() if lower else line).find(wanted)
        if start >= 0:
            yield _Line(begin, line, start)
        begin = found.end()


def _is_plain(data: bytes) -> bool:
    """Return whether `data` is clean text already, whose characters are bytes."""
    return data.isascii() and len(data.translate(None, _CONTROLS)) == len(data)


def _lines_at(wanted: str, text: str, searched: str, at: int) -> Iterator[_Line]:
    """Yield the lines of clean `text` that have `wanted` in `searched`, first at `at`."""
    begin_bytes = counted = 0
    is_ascii = text.isascii()
    while at >= 0:
        begin = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        before = text[counted:begin]
        begin_bytes += len(before) if is_ascii else len(before.encode())
        counted = begin
        yield _Line(begin_bytes, text[begin:end], at - begin)
        at = searched.find(wanted, end)


def _shown(line: _Line) -> str:
    """Return the text of a line, cut to a bound around its match."""
    begin = 0
    if len(line.text) > SHOWN_CHARS_MAX:
        latest = len(line.text) - SHOWN_CHARS_MAX
        begin = max(0, min(line.start - _SHOWN_BEFORE, latest))
    text = line.text[begin : begin + SHOWN_CHARS_MAX]
    has_more = begin + SHOWN_CHARS_MAX < len(line.text)
    return f"{'…' if begin else ''}{text}{'…' if has_more else ''}"
