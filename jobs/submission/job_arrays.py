"""Job arrays as a whole: store one, show the state of its tasks, cancel all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Count, Max, Min
from uuid_utils.compat import uuid7

from audit.recording import record
from bulk.inserting import insert_row
from jobs import lifecycle
from jobs.access import visible_arrays
from jobs.actions.cancellation import cancel_locked
from jobs.models import Attempt, Job, JobArray, JobState
from jobs.submission.array_text import ArrayShape, task_name
from live.publishing import publish
from primitives.errors import Forbidden, NotFound
from tenants.access import Actor
from tenants.roles import Permission
from webapi.middleware import current_request_id


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array, its tasks by state, and the ends of the first and the last ended task.

    `pools` are the names of the pools that its tasks accept, most preferred first.
    """

    array: JobArray
    pools: Sequence[str]
    counts: Mapping[str, int]
    first_started_at: datetime | None
    first_ended_at: datetime | None
    last_ended_at: datetime | None
    may_manage: bool


def insert_array(job: Job, shape: ArrayShape) -> list[UUID]:
    """Store `job`, which must be new, once for each index. It becomes the first task.

    Three statements, in the caller's transaction. Returns the ids, in the order of the indices.
    """
    array = JobArray(
        id=uuid7(),
        organization_id=job.organization_id,
        team_id=job.team_id,
        user_id=job.user_id,
        name=job.name,
        indices=shape.text,
        size=shape.size,
        first_index=shape.indices[0],
        last_index=shape.indices[-1],
        max_running=shape.max_running,
        submitted_at=job.submitted_at,
    )
    insert_row(array)
    ids = sorted(uuid7() for _ in shape.indices)
    job.id, job.array, job.array_index = ids[0], array, shape.indices[0]
    job.name = task_name(array.name, shape.indices[0])
    insert_row(job)
    names = [task_name(array.name, index) for index in shape.indices]
    with connection.cursor() as cursor:
        cursor.execute(_COPIES, [job.id, ids[1:], names[1:], list(shape.indices[1:])])
    return ids


_OWN = ("id", "name", "array_index")
_SHARED = ", ".join(
    connection.ops.quote_name(str(field.column))
    for field in Job._meta.concrete_fields
    if field.column not in _OWN
)
# The script is sent to the database once, whatever the number of tasks.
_COPIES = f"""
INSERT INTO jobs_job (id, name, array_index, {_SHARED})
SELECT task.id, task.name, task.index, {_SHARED}
FROM (SELECT {_SHARED} FROM jobs_job WHERE id = %s) AS first,
     unnest(%s::uuid[], %s::text[], %s::int[]) AS task (id, name, index)
"""  # noqa: S608 - the columns are our model's


def get_array(array_id: UUID, *, actor: Actor) -> ArrayView:
    """Return a visible array. Raises NotFound for absent and invisible arrays alike."""
    array = visible_arrays(actor).select_related("team__organization", "user").filter(pk=array_id)
    found = array.first()
    if found is None:
        raise NotFound("There is no such array that you can see.")
    tasks = Job.objects.filter(array=found)
    by_state = dict(tasks.values_list("state").annotate(Count("pk")).order_by())
    times = tasks.aggregate(Min("started_at"), Min("ended_at"), Max("ended_at"))
    return ArrayView(
        array=found,
        pools=tasks.select_related("pool").order_by("pk")[0].pool_names,
        counts={state.value: by_state.get(state.value, 0) for state in JobState},
        first_started_at=times["started_at__min"],
        first_ended_at=times["ended_at__min"],
        last_ended_at=times["ended_at__max"],
        may_manage=_may_manage(found, actor),
    )


def _may_manage(array: JobArray, actor: Actor) -> bool:
    own = array.user_id == actor.user.pk and actor.permits(Permission.SUBMIT_JOBS)
    return own or actor.holds(Permission.MANAGE_JOBS, array.team.path)


@transaction.atomic
def cancel_array(array_id: UUID, *, actor: Actor, now: datetime) -> JobArray:
    """Cancel every task that has not ended, as `jobs.actions.cancellation.cancel_job` does.

    All or none, in a constant number of statements. Cancelling again changes nothing. Raises
    NotFound or Forbidden.
    """
    array = visible_arrays(actor).select_related("team").filter(pk=array_id).first()
    if array is None:
        raise NotFound("There is no such array that you can see.")
    if not _may_manage(array, actor):
        raise Forbidden(
            f"You can see this array but not change it; its owner or a lead of "
            f"{array.team.display_path} can."
        )
    # In the order of their ids, as the cycle locks them.
    tasks = list(
        Job.objects.select_for_update(of=("self",))
        .filter(array=array, state__in=list(lifecycle.OPEN), cancel_requested_at=None)
        .defer("script", "environment", "notes")
        .order_by("pk")
    )
    if not tasks:
        return array
    attempts = {
        attempt.job_id: attempt
        for attempt in Attempt.objects.select_for_update()
        .filter(job__in=tasks, released_at=None)
        .order_by("pk")
    }
    cancel_locked([(task, attempts.get(task.pk)) for task in tasks], actor=actor, now=now)
    record(
        action="job_array_cancelled",
        subject_kind="job_array",
        subject_id=array.id,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=array.organization_id,
        node_path=array.team.path,
        detail={"tasks": len(tasks)},
        request_id=current_request_id(),
    )
    publish(
        "jobs",
        ids=[task.pk for task in tasks],
        organization_id=array.organization_id,
        wake="arbiter",
    )
    return array
