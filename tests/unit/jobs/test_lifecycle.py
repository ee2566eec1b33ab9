"""The state machine: which moves exist, and what the end of an attempt means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jobs import lifecycle
from jobs.lifecycle import IllegalMove, Verdict, check_move, verdict
from jobs.models import JobState as S


def a_verdict(
    outcome: str,
    *,
    stop_reason: str | None = None,
    is_cancelled: bool = False,
    is_requeueable: bool = True,
    ended_before_notice: bool = False,
    earlier: int = 0,
    exit_code: int | None = None,
    requeue_on: Sequence[str] = (),
) -> Verdict:
    return verdict(
        outcome=outcome,
        stop_reason=stop_reason,
        is_cancelled=is_cancelled,
        is_requeueable=is_requeueable,
        ended_before_notice=ended_before_notice,
        earlier=earlier,
        exit_code=exit_code,
        requeue_on=requeue_on,
    )


@pytest.mark.parametrize("state", list(S))
def test_every_state_is_open_or_final(state: S) -> None:
    assert (state in lifecycle.OPEN) != (state in lifecycle.FINAL)


def test_exactly_four_states_are_final() -> None:
    assert {S.SUCCEEDED, S.FAILED, S.CANCELLED, S.TIMED_OUT} == lifecycle.FINAL


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (S.QUEUED, S.RUNNING),
        (S.SUCCEEDED, S.QUEUED),
        (S.HELD, S.STARTING),
        (S.PREEMPTING, S.RUNNING),
    ],
)
def test_a_move_that_does_not_exist_is_refused(before: S, after: S) -> None:
    with pytest.raises(IllegalMove, match=f"from {before} to {after.value}"):
        check_move(before, after)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("succeeded", Verdict(S.SUCCEEDED, None)),
        ("failed", Verdict(S.FAILED, "exit_code")),
        ("timed_out", Verdict(S.TIMED_OUT, "time_limit")),
        ("start_failed", Verdict(S.FAILED, "rejected_by_cluster")),
        ("node_failed", Verdict(S.QUEUED, "node_failed")),
        ("lost", Verdict(S.QUEUED, "lost")),
        ("stopped", Verdict(S.FAILED, "stopped_on_cluster")),
        ("preempted", Verdict(S.QUEUED, "preempted")),
        ("unknown", Verdict(S.HELD, "outcome_unknown")),
    ],
)
def test_an_attempt_that_nobody_stopped_ends_as_the_cluster_says(
    outcome: str, expected: Verdict
) -> None:
    assert a_verdict(outcome) == expected


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "stopped", "timed_out", "lost"])
def test_a_preempted_job_queues_again_however_it_ended(outcome: str) -> None:
    assert a_verdict(outcome, stop_reason="preempted") == Verdict(S.QUEUED, "preempted")


def test_a_preempted_job_that_may_not_be_requeued_fails_with_the_reason() -> None:
    assert a_verdict("stopped", stop_reason="preempted", is_requeueable=False) == Verdict(
        S.FAILED, "preempted"
    )


def test_a_lost_job_that_may_not_be_requeued_fails_and_never_succeeds() -> None:
    assert a_verdict("lost", is_requeueable=False) == Verdict(S.FAILED, "lost")


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "stopped", "lost", "node_failed"])
def test_a_cancelled_job_is_cancelled_however_it_ended(outcome: str) -> None:
    assert a_verdict(outcome, stop_reason="cancelled", is_cancelled=True) == Verdict(
        S.CANCELLED, "cancelled_by_user"
    )


def test_cancelling_a_job_under_preemption_wins() -> None:
    assert a_verdict("stopped", stop_reason="preempted", is_cancelled=True) == Verdict(
        S.CANCELLED, "cancelled_by_user"
    )


@pytest.mark.parametrize("stop_reason", ["preempted", "cancelled"])
def test_what_ended_before_the_notice_ended_by_itself(stop_reason: str) -> None:
    ended = a_verdict(
        "succeeded",
        stop_reason=stop_reason,
        is_cancelled=stop_reason == "cancelled",
        ended_before_notice=True,
    )
    assert ended == Verdict(S.SUCCEEDED, None)


def test_faults_requeue_ten_times_and_no_more() -> None:
    assert a_verdict("node_failed", earlier=9) == Verdict(S.QUEUED, "node_failed")
    assert a_verdict("node_failed", earlier=10) == Verdict(S.FAILED, "node_failed")


@pytest.mark.parametrize(
    ("outcome", "code", "expected"),
    [
        ("timed_out", None, Verdict(S.QUEUED, "time_limit")),
        ("timed_out", 0, Verdict(S.QUEUED, "time_limit")),
        ("failed", 75, Verdict(S.QUEUED, "exit_code")),
        ("failed", 76, Verdict(S.FAILED, "exit_code")),
        ("failed", None, Verdict(S.FAILED, "exit_code")),
        ("succeeded", 0, Verdict(S.SUCCEEDED, None)),
        ("start_failed", 75, Verdict(S.FAILED, "rejected_by_cluster")),
    ],
)
def test_a_job_is_requeued_after_the_ends_that_it_names(
    outcome: str, code: int | None, expected: Verdict
) -> None:
    """Against: every failure; the code of a start that failed."""
    asked = ["time_limit", "75"]
    assert a_verdict(outcome, exit_code=code, requeue_on=asked) == expected
    assert a_verdict(outcome, exit_code=code, requeue_on=asked, is_requeueable=False) == expected
    cancelled = a_verdict(outcome, exit_code=code, requeue_on=asked, is_cancelled=True)
    assert cancelled == Verdict(S.CANCELLED, "cancelled_by_user")


def test_an_exit_code_counts_at_the_time_limit_too() -> None:
    """A handler that exits with the chosen code at the notice of the limit."""
    assert a_verdict("timed_out", exit_code=75, requeue_on=["75"]) == Verdict(S.QUEUED, "exit_code")
    assert a_verdict("timed_out", exit_code=75, requeue_on=["76"]) == Verdict(
        S.TIMED_OUT, "time_limit"
    )


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "stopped", "timed_out", "lost"])
@pytest.mark.parametrize("ended_before_notice", [True, False])
def test_a_job_that_was_asked_to_requeue_is(outcome: str, ended_before_notice: bool) -> None:
    """A job that asks and exits at once ends in the same second, perhaps "before" its notice.

    Against: the test of the stop reason after that of the notice.
    """
    asked = a_verdict(
        outcome,
        stop_reason="requeued",
        is_requeueable=False,
        ended_before_notice=ended_before_notice,
    )
    assert asked == Verdict(S.QUEUED, "requeued")
    cancelled = a_verdict(outcome, stop_reason="requeued", is_cancelled=True)
    assert cancelled.state == S.CANCELLED
