"""What recorded cycles did, one line for each job, for lists of who may see the job.

A line is written with the record of its cycle, of what that cycle really did (a plan may name what
had changed meanwhile), and goes when the record goes. Of the other job of a reclaim it is told what
the reader may know: all, or its team, or nothing of another organization.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from arbiter.replay.record import Record
from arbiter.replay.replay import Kind, Replayed
from jobs.models import Cycle, Decision, Job
from jobs.queries import may_see
from jobs.reason_documents import iso
from quotas.administration import named_pool
from tenants.access import Actor, under, visible, visible_node
from tenants.roles import Permission


def write_decisions(cycle: Cycle, record: Record) -> None:
    """Keep a line of each thing that the cycle did with a job. One statement."""
    plan = record.plan
    stopped = (
        [stopped for one in Replayed(record).decided() for stopped in one.stopped]
        if plan.reclaims
        else []
    )
    with connection.cursor() as cursor:
        cursor.execute(
            _WRITE,
            {
                "cycle": cycle.pk,
                "at": cycle.decided_at,
                "started": cycle.started,
                "claimed": cycle.claimed,
                "dropped": cycle.dropped,
                "attempts": [UUID(one.victim.attempt) for one in stopped],
                "guaranteed": [one.guaranteed_mgpu for one in stopped],
                "rights": [one.right.value for one in stopped],
                "unsaved_s": [one.unsaved_s for one in stopped],
            },
        )


def list_decisions(
    *,
    actor: Actor,
    team: str | None,
    pool: str | None,
    kinds: Collection[Kind] | None,
    since: datetime | None,
    until: datetime | None,
) -> QuerySet[Decision]:
    """Lines in [since, until) of the jobs that the actor may see; `team` is a path and means its
    subtree. Raises NotFound for one that the actor may not see, InvalidRequest for an unknown
    pool."""
    found = visible(
        actor,
        Decision.objects.select_related("job__team", "job__user", "pool"),
        Permission.VIEW_JOBS,
        path_field="team__path",
        own=Q(job__user=actor.user),
    )
    if team is not None:
        found = found.filter(under([visible_node(actor, team).path], "team__path"))
    if pool is not None:
        found = found.filter(pool=named_pool(pool))
    if kinds is not None:
        found = found.filter(kind__in=kinds)
    if since is not None:
        found = found.filter(at__gte=since)
    if until is not None:
        found = found.filter(at__lt=until)
    return found.select_related("beneficiary__team", "beneficiary__user")


def decision_line(line: Decision, *, actor: Actor) -> dict[str, Any]:
    """A line as `actor` may read it."""
    return {
        "id": line.pk,
        "cycle": str(line.cycle_id),
        "decided_at": iso(line.at),
        "decision": line.kind,
        "job": named_job(line.job, actor=actor),
        "pool": line.pool.name,
        "device": line.pool.device,
        "mgpu": line.mgpu,
        "guaranteed_mgpu": line.guaranteed_mgpu,
        "beneficiary": None
        if line.beneficiary is None
        else named_job(line.beneficiary, actor=actor),
        "right": line.right,
        "unsaved_s": line.unsaved_s,
        "at_risk_mgpu_s": None if line.unsaved_s is None else line.unsaved_s * line.mgpu,
        "grace_until": None if line.grace_until is None else iso(line.grace_until),
        "victims": line.victims,
        "victims_mgpu": line.victims_mgpu,
    }


def named_job(job: Job | None, *, actor: Actor) -> dict[str, Any]:
    """What the actor may know of a job: all, or its team in their own tree, or nothing."""
    if job is None:
        return {"id": None, "name": None, "user": None, "team": None}
    path = job.team.path
    is_seen = may_see(actor, user_id=job.user_id, team_path=path)
    return {
        "id": str(job.pk) if is_seen else None,
        "name": job.name if is_seen else None,
        "user": job.user.username if is_seen else None,
        "team": path.rstrip("/") if actor.holds(Permission.VIEW_TREE, path) else None,
    }


# What was planned and not done has no attempt granted, claim made or notice given at that moment.
_WRITE = """
INSERT INTO jobs_decision (
    cycle_id, at, kind, job_id, team_id, pool_id, mgpu, guaranteed_mgpu,
    beneficiary_id, "right", unsaved_s, grace_until, victims, victims_mgpu)
SELECT %(cycle)s, %(at)s, done.* FROM (
    SELECT 'started', j.id, j.team_id, j.pool_id, a.mgpu, a.guaranteed_mgpu,
           NULL::uuid, NULL, NULL::bigint, NULL::timestamptz, 0, 0::bigint
    FROM jobs_job j
    JOIN jobs_attempt a ON a.job_id = j.id AND a.granted_at = %(at)s
    WHERE j.id = ANY(%(started)s::uuid[])
    UNION ALL
    SELECT 'claimed', j.id, j.team_id, coalesce(r.pool_id, j.pool_id),
           (SELECT sum((slot ->> 'mgpu')::bigint) FROM jsonb_array_elements(r.slots) slot), NULL,
           NULL, NULL, NULL, r.grace_until, v.jobs, v.mgpu
    FROM jobs_reclaim r
    JOIN jobs_job j ON j.id = r.job_id
    CROSS JOIN LATERAL (
        SELECT count(*)::int AS jobs, coalesce(sum(a.mgpu), 0)::bigint AS mgpu
        FROM jobs_attempt a WHERE a.reclaim_id = r.id
    ) v
    WHERE r.job_id = ANY(%(claimed)s::uuid[]) AND r.created_at = %(at)s
    UNION ALL
    SELECT 'stopped', j.id, j.team_id, j.pool_id, a.mgpu, told.guaranteed,
           r.job_id, told."right", told.unsaved_s, a.grace_until, 0, 0
    FROM unnest(%(attempts)s::uuid[], %(guaranteed)s::bigint[], %(rights)s::text[],
                %(unsaved_s)s::bigint[]) AS told (attempt, guaranteed, "right", unsaved_s)
    JOIN jobs_attempt a ON a.id = told.attempt AND a.notice_at = %(at)s
    JOIN jobs_job j ON j.id = a.job_id
    JOIN jobs_reclaim r ON r.id = a.reclaim_id
    UNION ALL
    SELECT 'claim_dropped', j.id, j.team_id, coalesce(r.pool_id, j.pool_id),
           (SELECT sum((slot ->> 'mgpu')::bigint) FROM jsonb_array_elements(r.slots) slot), NULL,
           NULL, NULL, NULL, NULL, 0, 0
    FROM jobs_reclaim r
    JOIN jobs_job j ON j.id = r.job_id
    WHERE r.job_id = ANY(%(dropped)s::uuid[]) AND r.closed_at = %(at)s
) done
"""
