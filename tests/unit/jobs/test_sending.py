"""What is sent to a cluster once more, though a listing has found it."""

from __future__ import annotations

from typing import Any

import pytest

from builders.job_builders import a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company, a_company, a_user
from connectors.errors import WorkloadRejected
from connectors.protocol import Workload
from jobs.execution.dispatch import Starts, start_attempt
from jobs.models import Attempt, Job
from outbox.delivery import NotYet
from outbox.models import Message
from outbox.quarantine import begin_quarantine
from quotas.models import ClusterUser

pytestmark = pytest.mark.django_db


class ACluster:
    """Takes each submission, or answers it with `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[str] = []
        self.error = error

    def submit(self, workload: Workload, *, is_first: bool = False) -> str:
        self.sent.append(workload.key)
        if self.error is not None:
            raise self.error
        return "uid-1"


@pytest.fixture
def company() -> Company:
    return a_company()


def an_attempt_on(company: Company, kind: str, state: str, **changes: Any) -> Attempt:
    company.cluster.kind = kind
    company.cluster.save()
    job = a_job(company, a_user(company.organization), state="starting")
    return an_attempt(job, cluster=company.cluster, state=state, **changes)


def send(attempt: Attempt, cluster: Any) -> None:
    message = Message(kind="start_attempt", subject=attempt.id, sends=2)
    observer: Any = Fenced("observer")
    finish = start_attempt(message, observer, lambda: NOW, lambda _: cluster)
    if finish is not None:
        finish()


@pytest.mark.parametrize(
    ("kind", "state", "is_sent"),
    [
        ("kubernetes", "reserved", True),
        ("kubernetes", "starting", True),
        ("kubernetes", "running", True),
        ("kubernetes", "stopping", False),
        ("kubernetes", "ended", False),
        ("local", "starting", False),
        ("slurm", "starting", False),
    ],
)
def test_the_rest_of_what_was_found_before_its_submission_was_answered_is_sent(
    company: Company, kind: str, state: str, is_sent: bool
) -> None:
    """Mutant: what a listing had recorded was all there; a Job whose creation was answered by
    nobody was started without its script, and waited for that with all its GPUs."""
    ended = {"ended_at": NOW, "released_at": NOW, "outcome": "stopped"} if state == "ended" else {}
    started = {} if state in ("reserved", "starting") else {"started_at": NOW}
    stopped = {"stop_reason": "cancelled", "notice_at": NOW, "grace_until": NOW}
    how = {**started, **ended, **(stopped if state == "stopping" else {})}
    attempt = an_attempt_on(company, kind, state, native_id="uid-1", **how)
    cluster = ACluster()
    send(attempt, cluster)
    assert cluster.sent == ([attempt.key] if is_sent else [])
    attempt.refresh_from_db()
    assert attempt.native_id == "uid-1"
    assert attempt.state == ("starting" if state == "reserved" else state)


def test_what_is_refused_of_one_that_was_found_is_asked_for_again(company: Company) -> None:
    """Mutant: the message was done; it waited for its script for ever."""
    attempt = an_attempt_on(company, "kubernetes", "starting", native_id="uid-1")
    cluster = ACluster(WorkloadRejected("no room for its script"))
    with pytest.raises(NotYet, match="no room for its script"):
        send(attempt, cluster)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.released_at) == ("starting", None)
    Attempt.objects.update(native_id=None)
    send(attempt, cluster)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.outcome) == ("ended", "start_failed")


def test_what_is_claimed_together_is_prepared_together(
    company: Company, django_assert_num_queries: Any
) -> None:
    """Planted: each read by itself; a stored name of its user written over; one whose user nobody
    has mapped sent as nobody."""
    company.cluster.kind = "slurm"
    company.cluster.save()
    mapped, unmapped = (a_user(company.organization, name) for name in ("ana", "leo"))
    ClusterUser.objects.create(cluster=company.cluster, user=mapped, name="ana")
    attempts = [
        an_attempt(
            a_job(company, user, state="starting"),
            cluster=company.cluster,
            state="reserved",
            **changes,
        )
        for user, changes in (
            (mapped, {}),
            (mapped, {"cluster_user": "ana-before"}),
            (unmapped, {}),
        )
    ]
    messages = [Message(kind="start_attempt", subject=one.id, sends=1) for one in attempts]
    observer: Any = Fenced("observer")
    cluster: Any = ACluster()
    starts = Starts(observer, lambda: NOW, lambda _: cluster)
    # Quarantine, attempts, names; savepoint, fence, lock, update, end of savepoint; policy, graces.
    with django_assert_num_queries(10):
        starts.expect(messages)
    # How each is at that moment.
    with django_assert_num_queries(2):
        finishes = [starts(message) for message in messages[:2]]
    assert starts(messages[2]) is None
    assert [finish is not None for finish in finishes] == [True, True]
    assert cluster.sent == [one.key for one in attempts[:2]]
    stored = Attempt.objects.in_bulk([one.id for one in attempts])
    assert [stored[one.id].cluster_user for one in attempts] == ["ana", "ana-before", None]
    assert stored[attempts[2].id].outcome == "not_started"


def claimed(company: Company, count: int) -> tuple[Starts, list[Attempt], list[Message], ACluster]:
    """Starts of one claim that are prepared and not sent yet."""
    attempts = [an_attempt_on(company, "local", "reserved") for _ in range(count)]
    messages = [Message(kind="start_attempt", subject=one.id, sends=1) for one in attempts]
    observer: Any = Fenced("observer")
    cluster = ACluster()
    answer: Any = cluster
    starts = Starts(observer, lambda: NOW, lambda _: answer)
    starts.expect(messages)
    return starts, attempts, messages, cluster


def test_what_was_cancelled_since_it_was_claimed_is_not_sent(company: Company) -> None:
    """Planted: sent as it was read when eight were claimed, up to two seconds before."""
    starts, attempts, messages, cluster = claimed(company, 2)
    assert starts(messages[0]) is not None
    cancelled = attempts[1]
    Job.objects.filter(pk=cancelled.job_id).update(cancel_requested_at=NOW)
    Attempt.objects.filter(pk=cancelled.pk).update(
        state="stopping", stop_reason="cancelled", notice_at=NOW, grace_until=NOW
    )
    assert starts(messages[1]) is None
    assert cluster.sent == [attempts[0].key]
    cancelled.refresh_from_db()
    assert (cancelled.state, cancelled.outcome) == ("ended", "stopped")
    assert cancelled.message == "stopped before it was sent"
    assert Job.objects.get(pk=cancelled.job_id).state == "cancelled"


def test_what_was_claimed_before_a_quarantine_began_is_not_sent_in_it(company: Company) -> None:
    """Planted: only what was claimed in quarantine waited for its end."""
    starts, _, messages, cluster = claimed(company, 1)
    begin_quarantine("restored", since=NOW, now=NOW)
    with pytest.raises(NotYet, match="in quarantine"):
        starts(messages[0])
    assert cluster.sent == []
