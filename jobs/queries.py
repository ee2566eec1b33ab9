"""What of the jobs an actor may see."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from jobs.models import Job
from tenants.access import Actor, visible
from tenants.roles import Permission


def visible_jobs(actor: Actor) -> QuerySet[Job]:
    """Jobs that the actor may see: their own, and those of teams whose jobs they may see."""
    return visible(
        actor,
        Job.objects.all(),
        Permission.VIEW_JOBS,
        path_field="team__path",
        own=Q(user=actor.user),
    )
