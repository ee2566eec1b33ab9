"""Jobs and attempts for tests, with defaults."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from uuid_utils.compat import uuid7

from builders.portal_builders import NOW, Company, a_priority_class
from clusters.models import Cluster
from jobs.models import Attempt, AttemptState, Job, JobArray, JobState, Reclaim
from quotas.models import PriorityClass
from tenants.models import Node, User

SCRIPT = "#!/bin/bash\npython train.py\n"


def a_body(team: str = "ai-company/research/nlp", **changes: Any) -> dict[str, Any]:
    """The body of POST /jobs: one GPU for `team`, unless changed. A change to `...` leaves the
    member out."""
    body = {"team": team, "gpus": 1, "script": SCRIPT, **changes}
    return {name: value for name, value in body.items() if value is not ...}


def a_job(
    company: Company,
    user: User,
    *,
    team: Node | None = None,
    name: str = "train",
    state: str = "queued",
    mgpu_per_node: int = 1_000,
    node_count: int = 1,
    priority_class: PriorityClass | None = None,
    submitted_at: datetime = NOW,
    **changes: Any,
) -> Job:
    """A stored job of nlp, without attempts. One that has ended ended when it was submitted."""
    is_final = state in {"succeeded", "failed", "cancelled", "timed_out"}
    team = team or company.nlp
    return Job.objects.create(
        **{
            "id": uuid7(),
            "organization_id": team.organization_id,
            "team": team,
            "user": user,
            "name": name,
            "type": "training",
            "pool": company.pool,
            "priority_class": priority_class or a_priority_class(company.organization),
            "mgpu_per_node": mgpu_per_node,
            "node_count": node_count,
            "script": SCRIPT,
            "environment": {"SEED": "1"},
            "state": JobState(state).value,
            "submitted_at": submitted_at,
            "ended_at": submitted_at if is_final else None,
            **changes,
        }
    )


def an_array(
    company: Company,
    user: User,
    *states: str,
    name: str = "sweep",
    max_running: int | None = None,
    team: Node | None = None,
    **changes: Any,
) -> JobArray:
    """A stored array with a task in each of the states (two queued ones if none is given)."""
    states = states or ("queued", "queued")
    team = team or company.nlp
    array = JobArray.objects.create(
        organization_id=team.organization_id,
        team=team,
        user=user,
        name=name,
        indices=f"0-{len(states) - 1}",
        size=len(states),
        first_index=0,
        last_index=len(states) - 1,
        max_running=max_running,
        submitted_at=NOW,
    )
    for index, state in enumerate(states):
        a_job(
            company,
            user,
            team=team,
            name=f"{name}[{index}]",
            state=state,
            type="array",
            array=array,
            array_index=index,
            **changes,
        )
    return array


def an_attempt(
    job: Job,
    *,
    cluster: Cluster,
    number: int = 1,
    state: str = "running",
    guaranteed_mgpu: int | None = None,
    nodes: tuple[str, ...] = ("ai-company-000",),
    reclaim: Reclaim | None = None,
    **changes: Any,
) -> Attempt:
    """A stored attempt that holds the job's GPUs; the job's attempt number follows."""
    attempt = Attempt.objects.create(
        **{
            "job": job,
            "number": number,
            "cluster": cluster,
            "slots": [{"node": node, "mgpu": job.mgpu_per_node} for node in nodes],
            "mgpu": job.mgpu,
            "guaranteed_mgpu": job.mgpu if guaranteed_mgpu is None else guaranteed_mgpu,
            "state": AttemptState(state).value,
            "epoch": 1,
            "granted_at": NOW,
            "reclaim": reclaim,
            **changes,
        }
    )
    job.attempt_number = number
    job.save(update_fields=["attempt_number"])
    return attempt


def tasks_of(array: JobArray) -> list[Job]:
    """The tasks of an array by their index, as they are stored now."""
    return list(Job.objects.filter(array=array).order_by("array_index"))


def states_of(array: JobArray) -> list[str]:
    """Their states."""
    return [task.state for task in tasks_of(array)]
