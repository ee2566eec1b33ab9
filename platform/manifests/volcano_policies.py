"""The policies of a Volcano Job as the success and failure policies of a JobSet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from manifests.fields import Field
from manifests.shapes import or_default
from manifests.volcano_tasks import Task

#: As Volcano counts: the first run is one of them.
_TRIES = 3
_COMPLETED = "TaskCompleted"
_COMPLETE = "CompleteJob"
_EVICTED = "PodEvicted"
_FAILED = frozenset({"PodFailed", "TaskFailed"})
_ANY = "*"
_RESTART_POD = "RestartPod"
#: Actions at a failed Pod with which the JobSet starts anew. It restarts no task alone: that is an
#: alpha feature of JobSet.
_RESTARTS = frozenset({"RestartJob", "RestartTask", "RestartPartition"})
_RESTART = "RestartJobSet"
_FAIL = "FailJobSet"
_ENDS = frozenset({"AbortJob", "TerminateJob"})


class Policies(NamedTuple):
    """The successPolicy and the failurePolicy of the JobSet, None for its defaults.

    `pod_retries` has by task how often a failed Pod of it is run again.
    """

    success: dict[str, Any] | None
    failure: dict[str, Any] | None
    pod_retries: Mapping[str, int]


class _Policy(NamedTuple):
    events: frozenset[str]
    action: str
    field: Field


def read_policies(spec: Field, tasks: Sequence[Task]) -> Policies:
    """Return what ends and restarts the job. Each policy gets a finding."""
    restarts = max(0, (or_default(spec.at("maxRetry").whole(), 0) or _TRIES) - 1)
    of_job = list(_read(spec.at("policies").each()))
    of_tasks = {task.name: list(_read(task.field.at("policies").each())) for task in tasks}
    for policy in (*of_job, *(one for known in of_tasks.values() for one in known)):
        _tell(policy, restarts)
    wanted = {task.name: (*of_tasks[task.name], *of_job) for task in tasks}
    completing = [name for name, known in wanted.items() if _at_completion(known) == _COMPLETE]
    at_failure = {name: _at_failure(known) for name, known in wanted.items()}
    if spec.at("maxRetry").is_given and not any(
        action == _RESTART_POD or action in _RESTARTS for action in at_failure.values()
    ):
        spec.at("maxRetry").ignore("no policy runs the job again after a failed Pod")
    return Policies(
        _success(completing, tasks),
        _failure(at_failure, restarts),
        {name: restarts for name, action in at_failure.items() if action == _RESTART_POD},
    )


def _read(policies: Iterable[Field]) -> Iterator[_Policy]:
    for policy in policies:
        events = {policy.at("event").text(), *(one.text() for one in policy.at("events").each())}
        action = policy.at("action").text() or ""
        if policy.at("exitCode").is_given:
            policy.at("exitCode").ignore("a Pod that fails counts, whatever its exit code")
        if policy.at("timeout").is_given:
            policy.at("timeout").ignore("the action follows at once")
        if found := frozenset(filter(None, events)):
            yield _Policy(found, action, policy)


def _at_completion(policies: Iterable[_Policy]) -> str:
    """Return the action of the first policy for a completed task; "" without one."""
    return next((one.action for one in policies if _COMPLETED in one.events), "")


def _at_failure(policies: Iterable[_Policy]) -> str:
    """Return the action of the first policy for a failed Pod; "" without one."""
    return next((one.action for one in policies if one.events & (_FAILED | {_ANY})), "")


def _success(completing: list[str], tasks: Sequence[Task]) -> dict[str, Any] | None:
    if not completing:
        return None
    # With All, a task that is split is complete when all its Jobs are.
    is_split = any(task.is_split for task in tasks if task.name in completing)
    operator = "All" if len(completing) == 1 or is_split else "Any"
    return {"operator": operator, "targetReplicatedJobs": completing}


def _failure(at_failure: Mapping[str, str], restarts: int) -> dict[str, Any] | None:
    rules: dict[str, list[str]] = {}
    for name, action in at_failure.items():
        rules.setdefault(_RESTART if action in _RESTARTS else _FAIL, []).append(name)
    if not restarts or rules.keys() == {_FAIL}:
        return None
    return {
        "maxRestarts": restarts,
        "rules": [
            {"name": action, "action": action, "targetReplicatedJobs": names}
            for action, names in rules.items()
        ],
    }


def _tell(policy: _Policy, restarts: int) -> None:
    """Add what becomes of the policy, for each of its events."""
    times = "once" if restarts == 1 else f"{restarts} times"
    events, action, field = policy
    if _ANY in events:
        events |= {_EVICTED, "PodFailed"}
    for event in sorted(events - {_ANY}):
        if event == _COMPLETED and action == _COMPLETE:
            field.note("the job succeeds when the task does, and its other Pods are stopped")
        elif event == _COMPLETED:
            field.ignore("the job succeeds when all its tasks do; only CompleteJob changes that")
        elif event == _EVICTED:
            field.ignore("a job that is preempted, or loses a node, is queued again as a whole")
        elif event not in _FAILED:
            field.ignore(f"{event[:40]} neither ends nor restarts a job here")
        elif action == "RestartJob":
            field.note(f"the job is run again from its start, at most {times}")
        elif action == _RESTART_POD:
            field.note(f"a Pod that fails is run again, at most {times} in its task")
        elif action in _RESTARTS:
            field.ignore(
                f"the whole job is run again from its start, at most {times}: a JobSet restarts no "
                "task alone"
            )
        elif action in _ENDS:
            field.note("the job fails when one of these Pods does")
        else:
            field.ignore("the job fails when one of these Pods does")
