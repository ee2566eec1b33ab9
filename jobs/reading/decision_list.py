"""Decisions of recorded cycles, one line for each job, for lists.

`jobs.arbitration.recording` writes a line with the record of its cycle, and the line is deleted
with the record. It describes what the cycle did. Its plan may also name jobs that had changed
meanwhile.

The other job of a reclaim is limited to what the reader may see: all of it, its team, or nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from arbiter.api.decisions import Kind
from jobs.access import may_see
from jobs.models import Decision, Job
from jobs.queue.reason_documents import iso
from quotas.administration import named_pool
from tenants.access import Actor, under, visible, visible_node
from tenants.roles import Permission


def list_decisions(
    *,
    actor: Actor,
    team: str | None,
    pool: str | None,
    kinds: Collection[Kind] | None,
    since: datetime | None,
    until: datetime | None,
) -> QuerySet[Decision]:
    """Return the decisions in [since, until) about jobs that the actor may see.

    `team` is a path and means its subtree. Raises NotFound for a team that the actor may not see,
    and InvalidRequest for an unknown pool.
    """
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
    """Return a line as the actor may see it."""
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
        # One of another organization is hidden by row-level security, and named by nothing.
        "beneficiary": None
        if line.beneficiary_id is None
        else named_job(line.beneficiary, actor=actor),
        "right": line.right,
        "unsaved_s": line.unsaved_s,
        "at_risk_mgpu_s": None if line.unsaved_s is None else line.unsaved_s * line.mgpu,
        "grace_until": None if line.grace_until is None else iso(line.grace_until),
        "victims": line.victims,
        "victims_mgpu": line.victims_mgpu,
    }


def named_job(job: Job | None, *, actor: Actor) -> dict[str, Any]:
    """Return a job as far as the actor may see it: all, its team in their tree, or nothing."""
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
