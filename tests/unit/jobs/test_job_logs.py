"""Logs: whole characters, clean text, and honest sentences when there is none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company
from clusters.models import Cluster
from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.protocol import LogChunk, LogTime
from jobs.models import Job
from jobs.reading import logs
from jobs.reading.logs import clean, decoded, line_times
from tenants.models import User


def chunk(data: bytes, *, offset: int = 0, is_final: bool = False) -> LogChunk:
    return LogChunk(data, offset, offset + len(data), is_final, False)


class FakeCluster:
    """A cluster with one stream; records what it was asked."""

    def __init__(self, data: bytes = b"", *, is_over: bool = True, error: Exception | None = None):
        self.data = data
        self.is_over = is_over
        self.error = error
        self.asked: list[tuple[Any, ...]] = []

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
        self.asked.append((key, rank, stream, offset, limit))
        if self.error is not None:
            raise self.error
        size = len(self.data)
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        data = self.data[start : start + limit]
        end = start + len(data)
        return LogChunk(data, start, end, self.is_over and end == size, False)


@pytest.mark.parametrize(
    ("data", "is_final", "text", "end"),
    [
        (b"abc", False, "abc", 3),
        ("aä€😀".encode(), False, "aä€😀", 10),
        ("a😀".encode()[:-1], False, "a", 1),
        ("a😀".encode()[:-3], False, "a", 1),
        ("a😀".encode()[:-1], True, "a\ufffd", 4),
        (b"a\xff\xfeb", False, "a\ufffd\ufffdb", 4),
        (b"a\xc3(b", False, "a\ufffd(b", 4),
        (b"line\r\nnext", False, "line\nnext", 10),
        (b"10%\r20%\r", False, "10%\n20%", 7),
        (b"10%\r20%\r", True, "10%\n20%\n", 8),
        (b"a\x1b[3", False, "a", 1),
        (b"a\x1b[3", True, "a[3", 4),
        (b"a\x1b]0;ti", False, "a", 1),
        (b"\x1b[3", False, "[3", 3),
        (b"", False, "", 0),
        (b"", True, "", 0),
    ],
)
def test_cut_at_whole_characters(data: bytes, is_final: bool, text: str, end: int) -> None:
    assert decoded(chunk(data, is_final=is_final), from_end=False) == (0, end, text)


def test_from_the_end_the_first_half_of_a_character_is_skipped() -> None:
    data = "😀b".encode()[2:]
    assert decoded(chunk(data, offset=100), from_end=True) == (102, 103, "b")
    assert decoded(chunk(data, offset=100), from_end=False) == (100, 103, "\ufffd\ufffdb")


@pytest.mark.parametrize("limit", [16, 17, 19, 23])
def test_reading_on_gives_every_character_once(limit: int) -> None:
    text = "aä€😀\r\nz" * 50
    cluster = FakeCluster(text.encode())
    offset, parts = 0, []
    for _ in range(200):
        read = cluster.read_log("k", rank=0, stream="stdout", offset=offset, limit=limit)
        _, offset, part = decoded(read, from_end=False)
        parts.append(part)
        if read.is_final:
            break
    assert "".join(parts) == text.replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\tb\n", "a\tb\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07a\x1b]8;;x\x1b\\b", "ab"),
        ("\x1b(B\x1b=a\x1bMb\x1b", "ab"),
        ("a\x00b\x08c\x7f\x9bd", "abcd"),
        ("\u202eevil\u202c\u2066\u200f", "evil"),
    ],
)
def test_control_characters_are_left_out(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_lines_have_the_times_of_their_first_bytes() -> None:
    """Planted: the mark before, whose bytes end where a line begins."""
    data = b"one\ntwo\r\n\x1b[1mthree\rfour"
    marks = (LogTime(2, 1_000), LogTime(4, 2_500), LogTime(18, None), LogTime(30, 4_000))
    piece = LogChunk(data, 0, len(data), False, False, marks)
    assert decoded(piece, from_end=False)[2].split("\n") == ["one", "two", "three", "four"]
    first, third = datetime.fromtimestamp(1, UTC), datetime.fromtimestamp(4, UTC)
    assert line_times(piece, 0, len(data)) == ((0, first), (1, None), (3, third))
    assert line_times(piece, 4, len(data)) == ((0, None), (2, third))
    assert line_times(piece, 0, 4) == ((0, first),)
    assert line_times(chunk(data), 0, len(data)) == ()


@pytest.fixture
def company(db: None) -> Company:
    return a_company()


def with_cluster(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> FakeCluster:
    def fake_of(asked: Cluster) -> FakeCluster:
        assert (asked.kind, asked.options) == ("local", {})
        return cluster

    monkeypatch.setattr(logs, "connector_of", fake_of)
    return cluster


def a_running_job(company: Company, bob: User, *, nodes: int = 2) -> Job:
    job = a_job(company, bob, state="running", node_count=nodes)
    an_attempt(
        job,
        cluster=company.cluster,
        state="ended",
        ended_at=NOW,
        released_at=NOW,
        nodes=("n1",) * nodes,
    )
    an_attempt(job, cluster=company.cluster, number=2, nodes=("n1",) * nodes)
    return job


def test_a_piece_of_a_log(company: Company, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = with_cluster(monkeypatch, FakeCluster("hällo\n".encode()))
    job = a_running_job(company, bob)
    first, second = job.attempts.order_by("number")
    caller = by_token(bob)
    assert caller.get(f"jobs/{job.pk}/logs").json() == {
        "attempt": 2,
        "rank": 0,
        "stream": "stdout",
        "offset": 0,
        "next_offset": 7,
        "text": "hällo\n",
        "is_final": True,
        "is_truncated": False,
        "ranks": 2,
        "times": [],
    }
    body = caller.get(
        f"jobs/{job.pk}/logs?attempt=1&rank=1&stream=stderr&offset=-4&limit=16"
    ).json()
    assert (body["offset"], body["text"], body["attempt"]) == (3, "llo\n", 1)
    assert cluster.asked == [
        (f"tg-{second.pk}", 0, "stdout", 0, 65_536),
        (f"tg-{first.pk}", 1, "stderr", -4, 16),
    ]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("attempt=3", 404),
        ("rank=2", 404),
        ("rank=2147483647", 404),
        ("attempt=0", 400),
        ("attempt=x", 400),
        ("rank=-1", 400),
        ("rank=99999999999999999999", 400),
        ("stream=core", 400),
        ("stream=../../etc/passwd", 400),
        ("offset=1.5", 400),
        ("offset=%D9%A3", 400),
        ("offset=9007199254740992", 200),
        ("offset=9007199254740993", 400),
        ("offset=99999999999999999", 400),
        ("offset=-9007199254740993", 400),
        ("limit=15", 400),
        ("limit=262145", 400),
        ("limit=262144", 200),
        ("path=/etc/passwd", 400),
        ("url=http://example.org", 400),
    ],
)
def test_queries(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch, query: str, status: int
) -> None:
    with_cluster(monkeypatch, FakeCluster(b"x"))
    job = a_running_job(company, bob)
    answer = by_token(bob).get(f"jobs/{job.pk}/logs?{query}")
    assert answer.status_code == status


def test_no_log_before_the_first_attempt(company: Company, bob: User) -> None:
    answer = by_token(bob).get(f"jobs/{a_job(company, bob).pk}/logs")
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "The job has not started yet, so there is no log.",
    )


def test_a_log_that_is_gone(company: Company, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    with_cluster(monkeypatch, FakeCluster(error=LogUnavailable("it was removed")))
    answer = by_token(bob).get(f"jobs/{a_running_job(company, bob).pk}/logs")
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "There is no stdout of rank 0 of attempt 2: it was removed",
    )


def test_a_cluster_that_does_not_answer(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_cluster(monkeypatch, FakeCluster(error=ClusterUnavailable("timed out at 10.0.0.7")))
    answer = by_token(bob).get(f"jobs/{a_running_job(company, bob).pk}/logs")
    assert (answer.status_code, answer.json()["code"]) == (503, "cluster_unavailable")
    assert "10.0.0.7" not in answer.content.decode()


def test_a_kind_of_cluster_that_is_not_installed(company: Company, bob: User) -> None:
    company.cluster.kind = "marsian"
    company.cluster.save()
    answer = by_token(bob).get(f"jobs/{a_running_job(company, bob).pk}/logs")
    assert answer.status_code == 503
