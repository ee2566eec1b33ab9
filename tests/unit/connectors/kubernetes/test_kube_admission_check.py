"""Who is voted for, and what else is done on the cluster from what the watches tell. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from builders.kube_objects import CLUSTER_ID, a_kube_job, a_kube_pod, a_kueue_workload
from builders.kube_states import pools_of
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.admission.admission_check import (
    ALLOWED_S,
    Allowed,
    active_body,
    last_voted_at,
    may_vote,
    vote_body,
)
from connectors.kubernetes.attempts.reconciler import Deactivate, Kill, Notify, Tender, Vote, duties
from connectors.kubernetes.objects.attempts import Attempt, Attempts
from connectors.kubernetes.objects.naming import ASKED, NOTICE, STOPPED

POOLS = pools_of()
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
DELETED = "2026-11-21T12:00:00Z"


def an_attempt(
    job: dict[str, Any] | None = None,
    workload: dict[str, Any] | None = None,
    *pods: dict[str, Any],
) -> Attempt:
    """One that waits for a vote, unless its parts say otherwise."""
    return Attempt("tg-1", job or a_kube_job(), workload, pods)


def kinds(attempt: Attempt, *, is_allowed: bool = True) -> list[type]:
    """What is to be done for it."""
    return [type(duty) for duty in duties(attempt, is_allowed=is_allowed, pools=POOLS)]


def test_what_was_released_and_has_its_quota_is_voted_for() -> None:
    assert kinds(an_attempt(None, a_kueue_workload())) == [Vote]


def test_what_was_not_released_is_not_voted_for() -> None:
    assert kinds(an_attempt(None, a_kueue_workload()), is_allowed=False) == []


@pytest.mark.parametrize(
    ("job", "workload"),
    [
        ({}, {"conditions": {}}),
        ({}, {"conditions": {"QuotaReserved": "False"}}),
        ({}, {"vote": "Ready"}),
        ({}, {"vote": "Rejected"}),
        ({}, {"vote": None}),
        ({}, {"owner": "another"}),
        ({}, {"active": False}),
        ({}, {"evictions": 1}),
        ({}, {"annotations": {STOPPED: "x"}}),
        ({}, {"deletionTimestamp": DELETED}),
        ({}, {"conditions": {"QuotaReserved": "True", "Evicted": "True"}}),
        ({}, {"conditions": {"QuotaReserved": "True", "Finished": "True"}}),
        ({"annotations": {STOPPED: "x"}}, {}),
        ({"deletionTimestamp": DELETED}, {}),
        ({"is_suspended": False}, {}),
        ({"generation": 2}, {}),
        ({"annotations": {ASKED: "3x8000 h100"}}, {}),
        ({"annotations": {ASKED: "2x8000 a100"}}, {}),
        ({}, {"pods": 3}),
        ({}, {"pods": 1}),
        ({}, {"gpus": "1"}),
        ({}, {"gpus": "odd"}),
    ],
    ids=str,
)
def test_no_vote_for_anything_else(job: dict[str, Any], workload: dict[str, Any]) -> None:
    """Each deviates in one thing from what is voted for.

    Planted and seen to die: a vote before QuotaReserved is True (the first two); no comparison of
    uids ("another"); evicted or begun anew ones (`evictions`, `generation`); stopped ones; what
    asks for more or less than was submitted (ASKED, `pods`, `gpus`).
    """
    assert may_vote(a_kube_job(), a_kueue_workload(), POOLS)
    assert not may_vote(a_kube_job(**job), a_kueue_workload(**workload), POOLS)


def test_a_vote_is_for_exactly_what_was_looked_at() -> None:
    body = vote_body(a_kueue_workload(version=7), NOW)
    assert body["metadata"]["resourceVersion"] == "7"
    assert body["status"]["admissionChecks"] == [
        {
            "name": "tidegate",
            "state": "Ready",
            "message": "granted",
            "lastTransitionTime": "2026-11-21T12:00:00Z",
        }
    ]


@pytest.mark.parametrize(
    ("job", "workload"),
    [
        ({}, {"evictions": 1}),
        ({}, {"conditions": {"Evicted": "True"}}),
        ({"generation": 4}, {}),
        ({"annotations": {STOPPED: "x"}}, {}),
        ({}, {"annotations": {STOPPED: "x"}}),
    ],
    ids=str,
)
def test_what_must_not_run_again_is_deactivated_once(
    job: dict[str, Any], workload: dict[str, Any]
) -> None:
    """Otherwise it would hold Kueue's quota for ever."""
    attempt = an_attempt(a_kube_job(**job), a_kueue_workload(**workload))
    assert kinds(attempt, is_allowed=False) == [Deactivate]
    inactive = an_attempt(a_kube_job(**job), a_kueue_workload(**workload, active=False))
    assert kinds(inactive, is_allowed=False) == []


def test_what_runs_is_left_alone() -> None:
    job = a_kube_job(is_suspended=False, generation=2)
    workload = a_kueue_workload(
        vote="Ready", conditions={"QuotaReserved": "True", "Admitted": "True"}
    )
    assert kinds(an_attempt(job, workload, a_kube_pod())) == []


def test_pods_of_what_was_stopped_are_killed_until_they_are_being_killed() -> None:
    """Mutant: only Pods without a deletion were killed; one that Kueue had asked to end within its
    own grace of an hour went on."""
    workload = a_kueue_workload(active=False, annotations={STOPPED: "x"})
    pods = (
        a_kube_pod("runs"),
        a_kube_pod("ends", deletionTimestamp=DELETED, deletionGracePeriodSeconds=3_600),
        a_kube_pod("dies", deletionTimestamp=DELETED, deletionGracePeriodSeconds=1),
        a_kube_pod("done", phase="Succeeded"),
    )
    found = [
        (type(duty), duty.pod["metadata"]["uid"])
        for duty in duties(an_attempt(None, workload, *pods), is_allowed=False, pools=POOLS)
        if isinstance(duty, Kill | Notify)
    ]
    assert found == [(Kill, "runs"), (Kill, "ends")]


def test_every_pod_is_told_of_a_notice_also_one_that_comes_later() -> None:
    workload = a_kueue_workload(vote="Ready", annotations={NOTICE: "given"})
    job = a_kube_job(is_suspended=False, generation=2)
    pods = (a_kube_pod("new"), a_kube_pod("told", annotations={NOTICE: "given"}))
    found = list(duties(an_attempt(job, workload, *pods), is_allowed=True, pools=POOLS))
    assert [(type(one), one.uid) for one in found] == [(Notify, "j1")]


# For how long a release counts


def test_a_release_counts_for_a_while_and_not_after_a_stop() -> None:
    now_s = 0.0
    allowed = Allowed(lambda: now_s)
    allowed.allow("u1")
    allowed.allow("u2")
    assert allowed.has("u1")
    allowed.forbid("u1")
    assert not allowed.has("u1")
    now_s = ALLOWED_S + 1
    assert not allowed.has("u2")
    assert allowed.uids() == frozenset()


def test_a_vote_that_was_not_taken_is_told_at_the_next_release() -> None:
    allowed = Allowed()
    allowed.allow("u1")
    allowed.failed("u1", "Kueue is down")
    with pytest.raises(ClusterUnavailable, match="Kueue is down"):
        allowed.allow("u1")
    assert allowed.has("u1")
    allowed.allow("u1")


def test_a_vote_that_was_taken_at_last_has_not_failed() -> None:
    """Mutant: the next release was told of the failure before it."""
    answers: list[Exception | None] = [ClusterUnavailable("Kueue is down"), None]

    class AnApi:
        def apply(self, path: str, body: Any, **values: Any) -> dict[str, Any]:
            if (answer := answers.pop(0)) is not None:
                raise answer
            return {}

    allowed = Allowed()
    allowed.allow("j1")
    tender = Tender(
        AnApi(),  # type: ignore[arg-type]
        Attempts(CLUSTER_ID),
        allowed,
        POOLS,
        took=lambda found: None,
        keeps_check=False,
    )
    vote = Vote("j1", a_kueue_workload())
    tender._carry_out(vote, (Vote, "w1"))
    tender._carry_out(vote, (Vote, "w1"))
    tender.stop()
    allowed.allow("j1")
    assert answers == []


# The watchdog


def test_the_check_says_when_we_were_last_there() -> None:
    body = active_body(NOW, since="2026-11-21T11:00:00Z")
    condition = body["status"]["conditions"][0]
    assert condition["status"] == "True"
    assert condition["lastTransitionTime"] == "2026-11-21T11:00:00Z"
    assert last_voted_at(condition["message"]) == NOW
    assert last_voted_at("something else") is None


# Whose is what


def test_two_objects_of_one_key_are_two_attempts() -> None:
    attempts = Attempts(CLUSTER_ID)
    attempts.workload_changed(None, a_kueue_workload("w2", owner="j2"))
    for uid in ("j1", "j2"):
        attempts.item_changed(None, a_kube_job(uid))
    found = {attempt.uid: attempt for attempt in attempts.of_key("tg-1")}
    assert found.keys() == {"j1", "j2"}
    assert found["j1"].workload is None
    assert found["j2"].workload is not None
    attempts.item_changed(a_kube_job("j1"), None)
    assert [attempt.uid for attempt in attempts.of_key("tg-1")] == ["j2"]


def test_news_of_a_part_is_news_of_its_attempt() -> None:
    attempts = Attempts(CLUSTER_ID)
    attempts.item_changed(None, a_kube_job())
    assert attempts.touched(0) == {"j1"}
    assert attempts.touched(0) == frozenset()
    attempts.pod_changed(None, a_kube_pod())
    assert attempts.touched(0) == {"j1"}
    attempts.workload_changed(None, a_kueue_workload())
    assert attempts.touched(0) == {"j1"}
    attempts.workload_changed(None, a_kueue_workload("w9", owner="somebody's"))
    assert attempts.touched(0) == frozenset()
