"""Access to jobs: a scoped query, the same rule for one job, and the readers of a job.

The three must agree: `readers_of_jobs` names exactly the people who see a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import psycopg
from django.db.models import Q, QuerySet

from jobs.models import Job, JobArray
from live.publishing import person, prefixes_of, readers_below
from primitives.errors import Forbidden
from tenants.access import Actor, visible
from tenants.roles import Permission


def visible_jobs(actor: Actor) -> QuerySet[Job]:
    """Jobs that the actor may see: their own, and jobs of teams that they may view."""
    return visible(
        actor,
        Job.objects.all(),
        Permission.VIEW_JOBS,
        path_field="team__path",
        own=Q(user=actor.user),
    )


def visible_arrays(actor: Actor) -> QuerySet[JobArray]:
    """Arrays that the actor may see, by the rule of `visible_jobs`."""
    return visible(
        actor,
        JobArray.objects.all(),
        Permission.VIEW_JOBS,
        path_field="team__path",
        own=Q(user=actor.user),
    )


def may_see(actor: Actor, *, user_id: UUID, team_path: str) -> bool:
    """Return whether a job of this user and team is among `visible_jobs`."""
    own = user_id == actor.user.pk and actor.user.is_active and actor.permits(Permission.VIEW_JOBS)
    return own or actor.holds(Permission.VIEW_JOBS, team_path)


def may_manage(actor: Actor, *, user_id: UUID, team_path: str) -> bool:
    """Return whether the actor may change a job of this user and team."""
    own = user_id == actor.user.pk and actor.permits(Permission.SUBMIT_JOBS)
    return own or actor.holds(Permission.MANAGE_JOBS, team_path)


def check_may_manage(job: Job, actor: Actor) -> None:
    """Raise Forbidden unless the actor may change `job`, which they can see."""
    if not may_manage(actor, user_id=job.user_id, team_path=job.team.path):
        raise Forbidden(
            f"You can see this job but not change it; its owner or a lead of "
            f"{job.team.display_path} can."
        )


def may_read_content(actor: Actor, *, user_id: UUID, team_path: str) -> bool:
    """Return whether the actor may read script, environment and logs of such a job."""
    own = (
        user_id == actor.user.pk
        and actor.user.is_active
        and actor.permits(Permission.VIEW_JOB_CONTENT)
    )
    return own or actor.holds(Permission.VIEW_JOB_CONTENT, team_path)


def readers_of_jobs(own: psycopg.Connection, ids: Sequence[str]) -> set[str]:
    """Return the audiences of these jobs: their users, and all who may view their teams' jobs.

    One statement.
    """
    found = own.execute(
        """
        SELECT DISTINCT n.path, j.user_id
        FROM jobs_job j JOIN tenants_node n ON n.id = j.team_id
        WHERE j.id = ANY(%s::uuid[])
        """,
        [list(ids)],
    ).fetchall()
    users = {person(user_id) for _, user_id in found}
    return users | {
        readers_below(prefix)
        for path in {path for path, _ in found}
        for prefix in prefixes_of(path)
    }
