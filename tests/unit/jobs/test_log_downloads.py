"""Downloads of whole logs: one stream as text, all of an attempt as an archive."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import pytest
from django.test import Client
from rest_framework.test import APIClient

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company, a_grant, a_user
from connectors.errors import LogUnavailable
from connectors.protocol import LogChunk
from jobs.models import Job
from jobs.reading import logs, reading_rights
from primitives.errors import PortalError
from tenants.models import User
from tenants.roles import Role


class Outputs:
    """A cluster with the outputs of some ranks."""

    def __init__(self) -> None:
        self.of: dict[tuple[int, str], bytes] = {}
        self.reads = 0

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
        self.reads += 1
        if (rank, stream) not in self.of:
            raise LogUnavailable("it has none")
        whole = self.of[rank, stream]
        data = whole[offset : offset + limit]
        end = offset + len(data)
        return LogChunk(data, offset, end, end == len(whole), False)


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> Outputs:
    found = Outputs()
    monkeypatch.setattr(logs, "connector_of", lambda cluster: found)
    return found


@pytest.fixture
def company(db: None) -> Company:
    return a_company()


@pytest.fixture
def job(company: Company, bob: User) -> Job:
    job = a_job(company, bob, state="failed", node_count=3)
    an_attempt(
        job,
        cluster=company.cluster,
        state="ended",
        ended_at=NOW,
        released_at=NOW,
        nodes=("n1",) * 3,
    )
    return job


def test_one_stream_as_text(job: Job, bob: User, outputs: Outputs) -> None:
    """Planted: the first piece alone."""
    outputs.of[1, "stderr"] = b"\x1b[31mbad\x1b[0m\r\n" * 60_000
    answer = by_token(bob).get(f"jobs/{job.pk}/logs/download?rank=1&stream=stderr")
    parts = list(answer.streaming_content)
    assert b"".join(parts) == b"bad\n" * 60_000
    assert len(parts) == 4
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["Content-Disposition"] == (
        f'attachment; filename="{job.pk}-attempt1-rank1.stderr.txt"'
    )


def test_all_streams_as_an_archive(job: Job, bob: User, outputs: Outputs) -> None:
    """Planted: a missing stream ends the archive. Planted: rank 0 alone."""
    outputs.of = {(0, "stdout"): b"zero\n", (2, "stdout"): b"two\n" * 99_999, (2, "stderr"): b""}
    answer = by_token(bob).get(f"jobs/{job.pk}/logs/download")
    archive = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))
    assert archive.testzip() is None
    assert {name: len(archive.read(name)) for name in archive.namelist()} == {
        "rank0.stdout.txt": 5,
        "rank2.stdout.txt": 399_996,
        "rank2.stderr.txt": 0,
    }
    assert answer.headers["Content-Disposition"] == (
        f'attachment; filename="{job.pk}-attempt1-logs.zip"'
    )


def test_pieces_are_read_when_they_are_wanted(job: Job, bob: User, outputs: Outputs) -> None:
    """Planted: all pieces are read before the first is sent."""
    outputs.of[0, "stdout"] = b"x" * (4 * logs.LIMIT_MAX)
    answer = by_token(bob).get(f"jobs/{job.pk}/logs/download?rank=0")
    assert outputs.reads == 1
    next(iter(answer.streaming_content))
    assert outputs.reads == 1


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("attempt=2", 404, "The job has no attempt 2."),
        ("rank=3", 404, "The attempt has 3 ranks, the last of them is rank 2."),
        ("rank=0", 404, "There is no stdout of rank 0 of attempt 1: it has none"),
        ("", 404, "There is no stderr of rank 0 of attempt 1: it has none"),
        ("stream=core", 400, "stream must be one of stdout, stderr."),
    ],
)
def test_refusals(
    job: Job, bob: User, outputs: Outputs, query: str, status: int, detail: str
) -> None:
    """Planted: an empty archive for an attempt without output."""
    answer = by_token(bob).get(f"jobs/{job.pk}/logs/download?{query}")
    assert (answer.status_code, answer.json()["detail"]) == (status, detail)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A monotonic clock that the test moves on."""
    now = [0.0]
    monkeypatch.setattr(reading_rights.time, "monotonic", lambda: now[0])
    return now


def rest_after(answer: object, clock: list[float], seconds: float) -> bytes:
    """Read a part, let `seconds` pass, and return what follows."""
    parts = iter(answer.streaming_content)  # type: ignore[attr-defined]
    next(parts)
    clock[0] += seconds
    return b"".join(parts)


def test_rights_are_checked_again_while_it_is_sent(
    job: Job, company: Company, outputs: Outputs, clock: list[float]
) -> None:
    """Planted: the check uses the rights of the begin."""
    outputs.of[0, "stdout"] = b"x" * (3 * logs.LIMIT_MAX)
    lead = a_user(company.organization)
    grant = a_grant(lead, Role.TEAM_LEAD, job.team)
    caller = by_token(lead)
    first = caller.get(f"jobs/{job.pk}/logs/download?rank=0")
    second = caller.get(f"jobs/{job.pk}/logs/download?rank=0")
    assert len(rest_after(first, clock, 61)) == 2 * logs.LIMIT_MAX
    grant.delete()
    with pytest.raises(PortalError):
        rest_after(second, clock, 61)


def test_rights_are_checked_at_ranks_without_a_log(
    job: Job, company: Company, outputs: Outputs, clock: list[float]
) -> None:
    """Only rank 0 has one. Planted: the other ranks are skipped in one step."""
    outputs.of[0, "stdout"] = b"x"
    lead = a_user(company.organization)
    grant = a_grant(lead, Role.TEAM_LEAD, job.team)
    answer = by_token(lead).get(f"jobs/{job.pk}/logs/download")
    parts = iter(answer.streaming_content)
    next(parts)
    next(parts)
    grant.delete()
    clock[0] += 61
    with pytest.raises(PortalError):
        next(parts)


def test_a_session_that_ends_ends_its_download(
    job: Job, bob: User, outputs: Outputs, clock: list[float]
) -> None:
    """Planted: the session that was loaded for the request hides its end."""
    outputs.of[0, "stdout"] = b"x" * (3 * logs.LIMIT_MAX)
    browser: Client = APIClient()
    browser.force_login(bob)
    answer = browser.get(f"/api/v1/jobs/{job.pk}/logs/download?rank=0")
    browser.logout()
    with pytest.raises(PortalError, match="signed out"):
        rest_after(answer, clock, 61)
