"""What the end of an attempt means: its exit code, its notice, and the lines that say why."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company
from clusters.models import Cluster
from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.protocol import LogChunk
from jobs.reading import logs
from jobs.reading.endings import exit_code_meaning, ignored_notice
from jobs.reading.log_summary import last_lines
from tenants.models import User


@pytest.mark.parametrize(
    ("code", "facts", "meaning"),
    [
        (0, {}, "success"),
        (1, {}, "general error of the program"),
        (126, {}, "command not executable: its permission or its interpreter is wrong"),
        (127, {}, "command not found"),
        (137, {}, "killed by SIGKILL: perhaps out of memory"),
        (-9, {}, "killed by SIGKILL: perhaps out of memory"),
        (137, {"native_state": "OUT_OF_MEMORY"}, "killed by SIGKILL: out of memory"),
        (-9, {"message": "rank 3: OOMKilled"}, "killed by SIGKILL: out of memory"),
        (-9, {"outcome": "stopped"}, "killed by SIGKILL: stopped by force"),
        (137, {"outcome": "timed_out"}, "killed by SIGKILL: the time limit was over"),
        (139, {}, "killed by SIGSEGV: invalid memory access"),
        (143, {}, "killed by SIGTERM: asked to end"),
        (-15, {}, "killed by SIGTERM: asked to end"),
        (-10, {}, "killed by SIGUSR1"),
        (-200, {}, "killed by signal 200"),
        (255, {}, "exit code out of range, or a lost connection of ssh or srun"),
        (42, {}, "an exit code of the program's own"),
        (128, {}, "invalid exit code given to `exit`"),
    ],
)
def test_the_meaning_of_an_exit_code(code: int, facts: dict[str, str], meaning: str) -> None:
    """Planted: 137 of a job that was stopped by force is said to be out of memory."""
    assert exit_code_meaning(code, **facts) == meaning


@pytest.mark.parametrize(
    ("changes", "ignored"),
    [
        ({}, True),
        # It ended by itself, within its grace or after it.
        ({"outcome": "failed"}, False),
        # Somebody stopped it on the cluster, long before its grace was over.
        ({"ended_at": NOW + timedelta(seconds=5)}, False),
        # The cluster tells whole seconds.
        ({"ended_at": NOW + timedelta(seconds=29.5)}, True),
        ({"notice_at": None}, False),
        ({"ended_at": None}, False),
        # Taken back without a notice that anybody could heed.
        ({"grace_until": NOW}, False),
    ],
)
def test_an_ignored_notice(changes: dict[str, Any], ignored: bool) -> None:
    """Planted: whatever had a notice is said to have ignored it."""
    facts: dict[str, Any] = {
        "outcome": "stopped",
        "notice_at": NOW,
        "grace_until": NOW + timedelta(seconds=30),
        "ended_at": NOW + timedelta(seconds=31),
    }
    assert ignored_notice(**{**facts, **changes}) is ignored


def test_the_last_lines_are_few_and_short() -> None:
    text = "".join(f"line {i}\n" for i in range(40)) + "x" * 600 + "\n\n  \n"
    assert last_lines(text) == (*(f"line {i}" for i in range(29, 40)), "x" * 499 + "…")


@pytest.fixture
def company(db: None) -> Company:
    return a_company()


class TwoStreams:
    """A cluster whose ranks wrote these texts, by stream; None: the stream is gone."""

    def __init__(self, **texts: str | None) -> None:
        self.texts = texts
        self.ranks: list[int] = []

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
        self.ranks.append(rank)
        text = self.texts[stream]
        if text is None:
            raise LogUnavailable("it was removed")
        data = text.encode()
        start = max(0, len(data) + offset)
        return LogChunk(data[start : start + limit], start, len(data), True, False)


def summary(
    company: Company,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
    *,
    state: str = "failed",
    attempt: dict[str, Any] | None = None,
    query: str = "",
    **texts: str | None,
) -> tuple[dict[str, Any], TwoStreams]:
    cluster = TwoStreams(**texts)
    monkeypatch.setattr(logs, "connector_of", lambda _: cluster)
    job = a_job(company, bob, state=state, node_count=2)
    facts = {
        "state": "ended",
        "outcome": "failed",
        "exit_codes": {"0": 0, "1": 127},
        "ended_at": NOW,
        "released_at": NOW,
        **(attempt or {}),
    }
    an_attempt(job, cluster=company.cluster, nodes=("n1", "n2"), **facts)
    answer = by_token(bob).get(f"jobs/{job.pk}/log-summary{query}")
    return answer.json(), cluster


def test_the_error_is_read_from_the_rank_that_failed(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the error lines are those of rank 0, whatever failed."""
    found, cluster = summary(company, bob, monkeypatch, stdout="step 1\n", stderr="no train.py\n")
    assert found == {
        "attempt": 1,
        "rank": 1,
        "node": "n2",
        "ranks": 2,
        "streams": [
            {"stream": "stdout", "has_output": True},
            {"stream": "stderr", "has_output": True},
        ],
        "error_stream": "stderr",
        "error_lines": ["no train.py"],
    }
    assert cluster.ranks == [1, 1]


@pytest.mark.parametrize(
    ("texts", "stream", "lines"),
    [
        ({"stdout": "a\nTraceback\n", "stderr": ""}, "stdout", ["a", "Traceback"]),
        ({"stdout": "a\n", "stderr": "\n \n"}, "stdout", ["a"]),
        ({"stdout": "a\n", "stderr": None}, "stdout", ["a"]),
        ({"stdout": "", "stderr": ""}, None, []),
    ],
)
def test_the_stream_with_the_error(
    company: Company,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
    texts: dict[str, str | None],
    stream: str | None,
    lines: list[str],
) -> None:
    found, _ = summary(company, bob, monkeypatch, **texts)
    assert (found["error_stream"], found["error_lines"]) == (stream, lines)


@pytest.mark.parametrize(
    "attempt",
    [
        {"outcome": "succeeded"},
        {"outcome": "stopped"},
        {"state": "running", "outcome": None, "ended_at": None, "released_at": None},
        # It ended with an exit code after its notice: it was told to.
        {"notice_at": NOW - timedelta(seconds=1), "grace_until": NOW},
    ],
)
def test_what_did_not_fail_has_no_error(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch, attempt: dict[str, Any]
) -> None:
    state = "running" if attempt.get("state") == "running" else "succeeded"
    found, _ = summary(
        company, bob, monkeypatch, state=state, attempt=attempt, stdout="", stderr="warning\n"
    )
    assert (found["error_stream"], found["error_lines"]) == (None, [])
    assert [one["has_output"] for one in found["streams"]] == [False, True]


def test_a_chosen_rank_and_what_is_not_there(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, cluster = summary(company, bob, monkeypatch, query="?rank=0", stdout="", stderr="e\n")
    assert (found["rank"], found["node"], cluster.ranks) == (0, "n1", [0, 0])
    none, _ = summary(company, bob, monkeypatch, stdout=None, stderr=None)
    assert none["detail"] == "There is no stderr of rank 1 of attempt 1: it was removed"
    wrong, _ = summary(company, bob, monkeypatch, query="?rank=2", stdout="", stderr="")
    assert wrong["detail"] == "The attempt has 2 ranks, the last of them is rank 1."
    bad, _ = summary(company, bob, monkeypatch, query="?rank=x", stdout="", stderr="")
    assert bad["status"] == 400
    fresh = by_token(bob).get(f"jobs/{a_job(company, bob).pk}/log-summary")
    assert fresh.json()["detail"] == "The job has not started yet, so there is no log."


def test_a_cluster_that_is_away(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Cluster) -> None:
        raise ClusterUnavailable("timed out")

    monkeypatch.setattr(logs, "connector_of", away)
    job = a_job(company, bob, state="running")
    an_attempt(job, cluster=company.cluster)
    assert by_token(bob).get(f"jobs/{job.pk}/log-summary").status_code == 503


@pytest.mark.parametrize(
    ("codes", "code", "meaning"),
    [({"0": 127}, 127, "command not found"), ({}, None, None)],
)
def test_a_job_says_what_its_exit_code_means(
    company: Company, bob: User, codes: dict[str, int], code: int | None, meaning: str | None
) -> None:
    job = a_job(company, bob, state="failed", exit_code=code)
    until: datetime = NOW + timedelta(seconds=30)
    an_attempt(
        job,
        cluster=company.cluster,
        state="ended",
        outcome="stopped",
        exit_codes=codes,
        notice_at=NOW,
        grace_until=until,
        ended_at=until,
        released_at=until,
    )
    body = by_token(bob).get(f"jobs/{job.pk}").json()
    assert (body["exit_code"], body["exit_code_meaning"]) == (code, meaning)
    assert body["current_attempt"]["ignored_notice"] is True
