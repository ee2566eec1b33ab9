"""When a Job of ours has ended whose controller has not said so yet: with its last Pod."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from builders.kube_states import (
    Gang,
    alone,
    ended,
    finished,
    only,
)
from connectors.protocol import Outcome, WorkloadPhase

STOPPING, ENDED = WorkloadPhase.STOPPING, WorkloadPhase.ENDED


@pytest.mark.parametrize(
    ("codes", "outcome", "state"),
    [
        ((0, 0), Outcome.SUCCEEDED, "Finished (CompletionsReached)"),
        ((0, 3), Outcome.FAILED, "Finished (BackoffLimitExceeded)"),
    ],
)
def test_a_gang_has_ended_with_its_last_pod_whenever_its_controller_says_so(
    gang: Gang, codes: tuple[int, int], outcome: Outcome, state: str
) -> None:
    """Planted: waiting for the Job's own word; the next gang was granted up to a second later."""
    item, workload, pods = gang
    over = [ended(pod, code) for pod, code in zip(pods, codes, strict=True)]
    seen = only(alone(item, workload, over))
    assert (seen.phase, seen.is_released, seen.native_state) == (ENDED, True, state)
    assert (seen.outcome, seen.exit_codes) == (outcome, dict(enumerate(codes)))
    assert (seen.ended_at, seen.released_at) == (1_795_294_390, 1_795_294_390)


def _being_deleted(found: Any) -> None:
    found["metadata"]["deletionTimestamp"] = "2026-11-21T20:53:00Z"


def _without_second_rank(item: Any, over: list[Any]) -> None:
    del over[1]


def _second_rank_again(item: Any, over: list[Any]) -> None:
    over[1] = {**copy.deepcopy(over[0]), "metadata": over[0]["metadata"] | {"uid": "again"}}


def _more_ranks(item: Any, over: list[Any]) -> None:
    item["spec"]["completions"] = 1 << 40


def _pod_deleted(item: Any, over: list[Any]) -> None:
    _being_deleted(over[0])


def _job_deleted(item: Any, over: list[Any]) -> None:
    _being_deleted(item)


def _second_try(item: Any, over: list[Any]) -> None:
    item["spec"]["backoffLimit"] = 1


def _suspended(item: Any, over: list[Any]) -> None:
    item["spec"]["suspend"] = True


def _failures_that_count_for_nothing(item: Any, over: list[Any]) -> None:
    item["spec"]["podFailurePolicy"] = {"rules": [{"action": "Ignore"}]}


@pytest.mark.parametrize(
    ("codes", "change"),
    [
        ((0, 0), _without_second_rank),
        ((0, 0), _second_rank_again),
        ((0, 0), _more_ranks),
        ((0, 0), _pod_deleted),
        ((0, 0), _job_deleted),
        ((0, 0), _suspended),
        ((0, 3), _second_try),
        ((0, 3), _failures_that_count_for_nothing),
    ],
)
def test_a_job_that_may_make_pods_again_has_not_ended_with_its_last_pod(
    gang: Gang, codes: tuple[int, int], change: Callable[[Any, list[Any]], None]
) -> None:
    """Planted: each condition of `_finish_of_pods` and of `finish_of_run` left out in turn."""
    item, workload, pods = gang
    over = [ended(pod, code) for pod, code in zip(pods, codes, strict=True)]
    changed = copy.deepcopy(item)
    change(changed, over)
    seen = only(alone(changed, workload, over))
    assert (seen.phase, seen.is_released, seen.outcome) == (STOPPING, False, None)


@pytest.mark.parametrize(
    ("kind", "reason", "outcome"),
    [
        ("FailureTarget", "DeadlineExceeded", Outcome.TIMED_OUT),
        ("FailureTarget", "BackoffLimitExceeded", Outcome.FAILED),
        ("SuccessCriteriaMet", "CompletionsReached", Outcome.SUCCEEDED),
    ],
)
def test_a_job_that_only_waits_for_its_pods_has_ended_with_the_last_of_them(
    gang: Gang, kind: str, reason: str, outcome: Outcome
) -> None:
    item, workload, pods = gang
    ending = finished(item, kind, reason)
    code = 0 if outcome is Outcome.SUCCEEDED else 143
    over = [ended(pods[0], code)]
    waits = only(alone(ending, workload, [*over, pods[1]]))
    assert (waits.native_state, waits.is_released, waits.outcome) == ("Admitted", False, None)
    # The other rank's Pod was removed, and its end with it: when it was is not known.
    seen = only(alone(ending, workload, over))
    assert (seen.phase, seen.is_released, seen.outcome) == (ENDED, True, outcome)
