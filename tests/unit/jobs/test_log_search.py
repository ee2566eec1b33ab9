"""The search in a log: what it finds in which order, its bounds, and how a page continues."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company
from clusters.models import Cluster
from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.protocol import LogChunk, LogTime
from jobs.models import Job
from jobs.reading import log_search, logs
from jobs.reading.log_search import LogQuery, search_log
from jobs.reading.logs import AttemptLog, clean
from tenants.models import User
from webapi.parameters import PageParameters


class FakeLogs:
    """A cluster with the given streams, by rank and name. `part_bytes` is the most of one answer.

    Every stream has a mark of time at each of `marks`. A stream that is not over may grow.
    """

    def __init__(
        self,
        streams: dict[tuple[int, str], bytes],
        *,
        marks: tuple[LogTime, ...] = (),
        part_bytes: int = 1 << 20,
        is_over: bool = True,
    ) -> None:
        self.streams = streams
        self.marks = marks
        self.part_bytes = part_bytes
        self.is_over = is_over
        self.read_bytes = 0
        self.largest = 0

    def read_log(
        self,
        key: str,
        *,
        rank: int,
        stream: str,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> LogChunk:
        if (rank, stream) not in self.streams:
            raise LogUnavailable("it is not there")
        whole = self.streams[rank, stream]
        data = whole[offset : offset + min(limit, self.part_bytes)]
        end = offset + len(data)
        self.read_bytes += len(data)
        self.largest = max(self.largest, len(data))
        times = tuple(mark for mark in self.marks if mark.until > offset)
        return LogChunk(data, offset, end, self.is_over and end >= len(whole), False, times)


@pytest.fixture
def company(db: None) -> Company:
    return a_company()


@pytest.fixture
def job(company: Company, bob: User) -> Job:
    found = a_job(company, bob, state="running", node_count=2)
    for number in (1, 2):
        times = {"ended_at": NOW, "released_at": NOW, "state": "ended"} if number == 1 else {}
        an_attempt(found, cluster=company.cluster, number=number, nodes=("n1",) * 2, **times)
    return found


def with_logs(monkeypatch: pytest.MonkeyPatch, cluster: FakeLogs) -> FakeLogs:
    def fake_of(asked: Cluster) -> FakeLogs:
        return cluster

    monkeypatch.setattr(logs, "connector_of", fake_of)
    return cluster


def places(body: dict[str, Any]) -> list[tuple[int, str, int]]:
    return [(item["rank"], item["stream"], item["offset"]) for item in body["items"]]


STREAMS = {
    (0, "stdout"): b"begin\nLoss 1.5\nend\n",
    (0, "stderr"): b"\x1b[31mlo\x1b[0mss is nan\r\nloss\n",
    (1, "stdout"): "ü loss\nno".encode(),
}


def test_all_ranks_and_streams_are_searched_in_order(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: offsets in characters; escape sequences that break a word."""
    with_logs(monkeypatch, FakeLogs(STREAMS))
    assert by_token(bob).get(f"jobs/{job.pk}/logs/search?q=loss").json() == {
        "attempt": 2,
        "ranks": 2,
        "items": [
            {"rank": 0, "stream": "stdout", "offset": 6, "text": "Loss 1.5", "at": None},
            {"rank": 0, "stream": "stderr", "offset": 0, "text": "loss is nan", "at": None},
            {"rank": 0, "stream": "stderr", "offset": 22, "text": "loss", "at": None},
            {"rank": 1, "stream": "stdout", "offset": 0, "text": "ü loss", "at": None},
        ],
        "next": None,
        "scanned_bytes": sum(len(data) for data in STREAMS.values()),
        "untimed": 0,
    }


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=loss&case=true", [(0, "stderr", 0), (0, "stderr", 22), (1, "stdout", 0)]),
        ("q=loss&rank=1", [(1, "stdout", 0)]),
        ("q=loss&stream=stdout", [(0, "stdout", 6), (1, "stdout", 0)]),
        ("q=no&attempt=1&rank=1&stream=stdout", [(1, "stdout", 8)]),
        ("q=.oss", []),
        ("q=%C3%9C", [(1, "stdout", 0)]),
        ("q=nothing", []),
    ],
)
def test_queries(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch, query: str, found: list[Any]
) -> None:
    with_logs(monkeypatch, FakeLogs(STREAMS))
    body = by_token(bob).get(f"jobs/{job.pk}/logs/search?{query}").json()
    assert (places(body), body["next"]) == (found, None)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("q=", 400),
        ("q=%20", 400),
        ("q=a%0Ab", 400),
        (f"q={'x' * 201}", 400),
        ("q=a&limit=501", 400),
        ("q=a&rank=2", 404),
        ("q=a&attempt=3", 404),
        ("q=a&rank=1&stream=stderr", 404),
        ("q=a&rank=1", 200),
        ("q=a&since=yesterday", 400),
        ("q=a&cursor=zzz", 400),
        ("q=a&cursor=WyIyIiwiLTEiLCJzdGRvdXQiLCIwIl0", 400),
        ("q=a&cursor=WyIyIiwiMCIsImNvcmUiLCIwIl0", 400),
        ("q=a&cursor=WyIyIiwiMCIsInN0ZG91dCIsIngiXQ", 400),
        ("q=a&path=/etc/passwd", 400),
    ],
)
def test_what_is_refused(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch, query: str, status: int
) -> None:
    with_logs(monkeypatch, FakeLogs(STREAMS))
    answer = by_token(bob).get(f"jobs/{job.pk}/logs/search?{query}")
    assert answer.status_code == status


def test_pages_have_every_match_once(job: Job, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: a page that continues after the piece of its last match."""
    with_logs(monkeypatch, FakeLogs(STREAMS))
    caller, found = by_token(bob), []
    address = f"/api/v1/jobs/{job.pk}/logs/search?q=loss&limit=1"
    for _ in range(9):
        body = caller.get(address.removeprefix("/api/v1/")).json()
        assert len(body["items"]) <= 1
        found += places(body)
        address = body["next"]
        if address is None:
            break
    assert found == [(0, "stdout", 6), (0, "stderr", 0), (0, "stderr", 22), (1, "stdout", 0)]


def test_a_page_stays_with_its_attempt(
    job: Job, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: pages that continue in the attempt after a requeue."""
    with_logs(monkeypatch, FakeLogs(STREAMS))
    body = by_token(bob).get(f"jobs/{job.pk}/logs/search?q=loss&limit=1").json()
    last = job.attempts.get(number=2)
    last.state, last.ended_at, last.released_at = "ended", NOW, NOW
    last.save()
    an_attempt(job, cluster=company.cluster, number=3, nodes=("n1",))
    body = by_token(bob).get(body["next"].removeprefix("/api/v1/")).json()
    assert (body["attempt"], places(body)) == (2, [(0, "stderr", 0)])


def test_a_page_reads_a_bounded_part_of_a_large_log(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: no bound of bytes; a stream that is held whole."""
    monkeypatch.setattr(log_search, "SCAN_BYTES_MAX", 4_000)
    monkeypatch.setattr(log_search, "PIECE_BYTES", 1_000)
    text = b"".join(b"line %d\n" % number for number in range(2_000)) + b"needle\n"
    cluster = with_logs(monkeypatch, FakeLogs({(0, "stdout"): text}))
    caller, found, pages = by_token(bob), [], 0
    address = f"jobs/{job.pk}/logs/search?q=needle"
    while address:
        cluster.read_bytes = 0
        body = caller.get(address).json()
        assert body["scanned_bytes"] == cluster.read_bytes <= 5_000
        found += places(body)
        address = (body["next"] or "").removeprefix("/api/v1/")
        pages += 1
    assert (found, cluster.largest) == ([(0, "stdout", len(text) - 7)], 1_000)
    assert pages == 5


def test_a_page_opens_a_bounded_number_of_streams(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "STREAMS_MAX", 2)
    with_logs(monkeypatch, FakeLogs(STREAMS))
    body = by_token(bob).get(f"jobs/{job.pk}/logs/search?q=loss").json()
    assert places(body) == [(0, "stdout", 6), (0, "stderr", 0), (0, "stderr", 22)]
    body = by_token(bob).get(body["next"].removeprefix("/api/v1/")).json()
    assert (places(body), body["next"]) == ([(1, "stdout", 0)], None)


def test_the_open_line_of_a_running_job_is_found(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: only lines with an end; a search that waits for the end of the line."""
    with_logs(monkeypatch, FakeLogs({(0, "stdout"): b"one\nstep 7"}, is_over=False))
    body = by_token(bob).get(f"jobs/{job.pk}/logs/search?q=STEP").json()
    assert (places(body), body["next"]) == ([(0, "stdout", 4)], None)


def test_a_long_line_is_searched_in_parts(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: what the end of a piece cuts is not found, or is found twice."""
    monkeypatch.setattr(log_search, "PIECE_BYTES", 1_000)
    line = b"x" * 998 + b"needle" + b"y" * 3_000
    with_logs(monkeypatch, FakeLogs({(0, "stdout"): line}))
    body = by_token(bob).get(f"jobs/{job.pk}/logs/search?q=needle").json()
    assert places(body) == [(0, "stdout", 995)]
    (item,) = body["items"]
    assert item["text"] == "x" * 3 + "needle" + "y" * 491 + "…"


def test_the_shown_part_of_a_line_has_the_match(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = b"a" * 5_000 + b"needle" + b"b" * 200
    with_logs(monkeypatch, FakeLogs({(0, "stdout"): line}))
    body = by_token(bob).get(f"jobs/{job.pk}/logs/search?q=needle").json()
    assert body["items"][0]["text"] == "…" + "a" * 294 + "needle" + "b" * 200


def test_lines_of_a_time(job: Job, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: the mark before a line; lines of unknown time are matches."""
    text = b"x 1\nx 2\nx 3\nx 4\n"
    marks = (LogTime(4, 1_000), LogTime(8, 2_000), LogTime(12, None), LogTime(16, 4_000))
    with_logs(monkeypatch, FakeLogs({(0, "stdout"): text}, marks=marks))
    caller = by_token(bob)
    body = caller.get(f"jobs/{job.pk}/logs/search?q=x").json()
    assert [item["at"] for item in body["items"]] == [
        "1970-01-01T00:00:01Z",
        "1970-01-01T00:00:02Z",
        None,
        "1970-01-01T00:00:04Z",
    ]
    for query, offsets in (
        ("since=1970-01-01T00:00:02Z", [4, 12]),
        ("until=1970-01-01T00:00:02Z", [0, 4]),
        ("since=1970-01-01T00:00:03Z&until=1970-01-01T00:00:03Z", []),
    ):
        body = caller.get(f"jobs/{job.pk}/logs/search?q=x&{query}").json()
        assert ([item["offset"] for item in body["items"]], body["untimed"]) == (offsets, 1)


def test_a_cluster_without_logs_says_so(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: no matches, as if the log had been searched."""
    with_logs(monkeypatch, FakeLogs({}))
    answer = by_token(bob).get(f"jobs/{job.pk}/logs/search?q=loss")
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "There is no stdout of rank 0 of attempt 2: it is not there",
    )


def test_a_cluster_that_does_not_answer(
    job: Job, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: a cluster that is away is taken for one without matches."""

    class Away(FakeLogs):
        def read_log(self, key: str, **asked: Any) -> LogChunk:
            raise ClusterUnavailable("timed out")

    with_logs(monkeypatch, Away({}))
    assert by_token(bob).get(f"jobs/{job.pk}/logs/search?q=x").status_code == 503


class _FixedLog(AttemptLog):
    """A log of one rank without a database."""

    def __init__(self, cluster: FakeLogs) -> None:
        self._cluster = cluster
        self.attempt, self.ranks = 1, 1

    def read(self, rank: int, stream: str, offset: int, limit: int) -> LogChunk:
        return self._cluster.read_log("k", rank=rank, stream=stream, offset=offset, limit=limit)


@given(
    st.one_of(
        st.text("aAbβ\n\r\t \x1b[m1\x00", max_size=120),
        st.lists(
            st.sampled_from(["a\n", "b", "1aB\n", "β\r\n", "\x1b[1ma\r", "\n", "\x00A\n"]),
            min_size=12,
            max_size=40,
        ).map("".join),
    ),
    st.sampled_from(["a", "ab", "B", "β", "1a"]),
    st.booleans(),
    st.integers(8, 40),
    st.integers(4, 40),
    st.booleans(),
)
def test_a_search_finds_what_a_reader_of_the_whole_log_finds(
    text: str, wanted: str, matches_case: bool, piece: int, part: int, is_over: bool
) -> None:
    """Lines longer than a piece are found in several parts, so that the last match is theirs.

    Against: whole lines only up to the last line feed; a short answer is taken for the end.
    """
    cluster = FakeLogs({(0, "stdout"): text.encode()}, part_bytes=part, is_over=is_over)
    whole = clean(text).split("\n")
    expected = [
        line
        for line in whole
        if (wanted if matches_case else wanted.lower()) in (line if matches_case else line.lower())
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_search, "PIECE_BYTES", piece)
        patched.setattr(log_search, "AttemptLog", lambda job_id, attempt: _FixedLog(cluster))
        found = search_log(
            None,  # type: ignore[arg-type]
            attempt=None,
            rank=0,
            stream="stdout",
            query=LogQuery(wanted, matches_case),
            asked=PageParameters(limit=500),
        )
    assert found.page.next_cursor is None
    if all(len(line.encode()) < min(piece, part) for line in text.splitlines()):
        assert [match.text for match in found.page.items] == expected
    else:
        assert bool(found.page.items) == bool(expected)
