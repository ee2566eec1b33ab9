"""The files of a job over REST: lists by cursor, and downloads in parts."""

from __future__ import annotations

from typing import Any

import pytest

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company, a_grant, a_user
from connectors.errors import ClusterUnavailable
from connectors.job_folders import FileChunk, FilesUnavailable, JobFile, JobFolder
from jobs.models import Job
from jobs.reading import job_files, reading_rights
from primitives.errors import PortalError
from tenants.models import User
from tenants.roles import Role


class Folder:
    """A folder of files with versions."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {"a": b"one", "b/ä.bin": b"x" * 2_500_000, "c": b""}
        self.version = "v1"
        self.asked: list[tuple[Any, ...]] = []
        self.error: Exception | None = None

    def list_files(
        self, key: str, *, folder: str | None, cluster_user: str | None = None
    ) -> JobFolder:
        self.asked.append((key, folder))
        if self.error is not None:
            raise self.error
        files = [JobFile(name, len(data), 1_700_000_000) for name, data in self.content.items()]
        return JobFolder(tuple(files), is_cut=True, left_out=2)

    def read_file(
        self,
        key: str,
        name: str,
        *,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> FileChunk:
        self.asked.append((key, name, offset, limit))
        if name not in self.content:
            raise FilesUnavailable("it does not exist")
        data = self.content[name]
        return FileChunk(data[offset : offset + limit], len(data), 1_700_000_000, self.version)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Folder:
    found = Folder()
    monkeypatch.setattr(job_files, "_reader_of", lambda cluster: found)
    return found


@pytest.fixture
def company(db: None) -> Company:
    return a_company()


@pytest.fixture
def job(company: Company, bob: User) -> Job:
    job = a_job(company, bob, state="failed")
    an_attempt(job, cluster=company.cluster, state="ended", ended_at=NOW, released_at=NOW)
    return job


def test_pages_by_name(job: Job, bob: User, folder: Folder) -> None:
    """Planted: the next page begins with the last file of the page before."""
    caller = by_token(bob)
    first = caller.get(f"jobs/{job.pk}/files?limit=2").json()
    assert first["items"] == [
        {"name": "a", "size_bytes": 3, "modified_at": "2023-11-14T22:13:20Z"},
        {"name": "b/ä.bin", "size_bytes": 2_500_000, "modified_at": "2023-11-14T22:13:20Z"},
    ]
    assert (first["attempt"], first["is_cut"], first["left_out"]) == (1, True, 2)
    second = caller.get(first["next"].removeprefix("/api/v1/")).json()
    assert ([file["name"] for file in second["items"]], second["next"]) == (["c"], None)
    assert folder.asked[0] == (job.attempts.get().key, None)


def test_a_download_in_parts(job: Job, bob: User, folder: Folder) -> None:
    """Planted: the whole file is one part."""
    answer = by_token(bob).get(f"jobs/{job.pk}/files/download?name=b/ä.bin")
    parts = list(answer.streaming_content)
    assert (len(parts), b"".join(parts)) == (3, folder.content["b/ä.bin"])
    assert {name: answer.headers[name] for name in ("Content-Length", "ETag", "Accept-Ranges")} == {
        "Content-Length": "2500000",
        "ETag": '"v1"',
        "Accept-Ranges": "bytes",
    }
    assert answer.headers["Content-Disposition"] == (
        "attachment; filename=\"_.bin\"; filename*=UTF-8''%C3%A4.bin"
    )
    assert answer.headers["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("headers", "status", "sent", "told"),
    [
        ({"Range": "bytes=1-1"}, 206, b"n", "bytes 1-1/3"),
        ({"Range": "bytes=1-"}, 206, b"ne", "bytes 1-2/3"),
        ({"Range": "bytes=-2"}, 206, b"ne", "bytes 1-2/3"),
        ({"Range": "bytes=0-99"}, 206, b"one", "bytes 0-2/3"),
        ({"Range": "bytes=1-1", "If-Range": '"v1"'}, 206, b"n", "bytes 1-1/3"),
        ({"Range": "bytes=1-1", "If-Range": '"v0"'}, 200, b"one", None),
        ({"Range": "bytes=3-"}, 200, b"one", None),
        ({"Range": "bytes=2-1"}, 200, b"one", None),
        ({"Range": "bytes=0-0,2-2"}, 200, b"one", None),
        ({"Range": "lines=1-1"}, 200, b"one", None),
        ({"Range": f"bytes={'9' * 99}-"}, 200, b"one", None),
    ],
)
def test_ranges(
    job: Job,
    bob: User,
    folder: Folder,
    headers: dict[str, str],
    status: int,
    sent: bytes,
    told: str | None,
) -> None:
    """Planted: the end of a range is left out. Planted: a range of a changed file."""
    answer = by_token(bob).get(f"jobs/{job.pk}/files/download?name=a", **headers)
    assert (answer.status_code, b"".join(answer.streaming_content)) == (status, sent)
    assert answer.headers.get("Content-Range") == told
    assert answer.headers["Content-Length"] == str(len(sent))


def test_a_file_that_changes_ends_its_download(job: Job, bob: User, folder: Folder) -> None:
    """Planted: the rest of the new content is sent."""
    answer = by_token(bob).get(f"jobs/{job.pk}/files/download?name=b/ä.bin")
    parts = iter(answer.streaming_content)
    next(parts)
    folder.version = "v2"
    with pytest.raises(PortalError, match="has changed since"):
        next(parts)


def test_rights_are_checked_again_while_it_is_sent(
    job: Job, company: Company, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the right is checked at the begin only."""
    now_s = [0.0]
    monkeypatch.setattr(reading_rights.time, "monotonic", lambda: now_s[0])
    lead = a_user(company.organization)
    grant = a_grant(lead, Role.TEAM_LEAD, job.team)
    answer = by_token(lead).get(f"jobs/{job.pk}/files/download?name=b/ä.bin")
    parts = iter(answer.streaming_content)
    next(parts)
    grant.delete()
    now_s[0] = 61
    with pytest.raises(PortalError):
        next(parts)


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("files/download?name=none", 404, "none of attempt 1: it does not exist."),
        ("files/download", 400, "name is required: the name of a file."),
        ("files/download?name=a&attempt=2", 404, "The job has no attempt 2."),
        ("files?attempt=2", 404, "The job has no attempt 2."),
    ],
)
def test_refusals(job: Job, bob: User, folder: Folder, path: str, status: int, detail: str) -> None:
    """Planted: a missing file is empty."""
    answer = by_token(bob).get(f"jobs/{job.pk}/{path}")
    assert (answer.status_code, answer.json()["detail"]) == (status, detail)


def test_no_files_before_the_first_attempt(company: Company, bob: User) -> None:
    """Planted: an empty list."""
    answer = by_token(bob).get(f"jobs/{a_job(company, bob).pk}/files")
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "The job has not started yet, so it has no files.",
    )


def test_who_may_not_read_the_log_may_not_read_the_files(
    job: Job, company: Company, folder: Folder
) -> None:
    """Planted: all who see the job read its files."""
    auditor = a_user(company.organization)
    a_grant(auditor, Role.AUDITOR, company.organization)
    for path in ("files", "files/download?name=a"):
        assert by_token(auditor).get(f"jobs/{job.pk}/{path}").status_code == 403
    assert folder.asked == []


def test_a_cluster_that_does_not_answer(job: Job, bob: User, folder: Folder) -> None:
    """Planted: the cluster's own words are shown."""
    folder.error = ClusterUnavailable("timed out at 10.0.0.7")
    answer = by_token(bob).get(f"jobs/{job.pk}/files")
    assert (answer.status_code, answer.json()["code"]) == (503, "cluster_unavailable")
    assert "10.0.0.7" not in answer.content.decode()


def test_clusters_whose_files_the_portal_cannot_read(job: Job, bob: User) -> None:
    """Planted: such a cluster has no files."""
    job.attempts.get().cluster.__class__.objects.update(kind="kubernetes")
    answer = by_token(bob).get(f"jobs/{job.pk}/files")
    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "The files of attempt 1: Kubernetes clusters such as local keep no files of jobs; a job "
        "can copy its results to a volume or a store."
    )
