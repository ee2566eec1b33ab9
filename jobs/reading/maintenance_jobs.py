"""Jobs that would still run when a maintenance window begins, as far as an actor may see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, Q, Value
from django.db.models.functions import Coalesce

from jobs.access import visible_jobs
from jobs.models import Attempt
from maintenance.models import MaintenanceWindow
from tenants.access import Actor


@dataclass(frozen=True, slots=True)
class StillRunning:
    """A job that holds GPUs beyond the start of a window; `ends_at` is None without a limit."""

    attempt_id: UUID
    job: UUID
    name: str
    team: str
    user: str
    ends_at: datetime | None


def still_running(
    actor: Actor, window: MaintenanceWindow, *, after: UUID | None, limit: int
) -> list[StillRunning]:
    """Return at most `limit` such jobs, in the order of their grants. One query.

    They come after the attempt `after`. Jobs that the actor may not see are left out.
    """
    found = Attempt.objects.filter(
        cluster=window.cluster, released_at=None, job__in=visible_jobs(actor).order_by()
    )
    runs_for = ExpressionWrapper(
        F("job__time_limit_s") * Value(timedelta(seconds=1)), output_field=DurationField()
    )
    ends_at = Coalesce("started_at", "granted_at") + runs_for
    found = found.annotate(ends_at=ExpressionWrapper(ends_at, output_field=DateTimeField()))
    found = found.filter(Q(ends_at=None) | Q(ends_at__gt=window.start))
    if window.pool is not None:
        found = found.filter(job__pool=window.pool)
    if after is not None:
        found = found.filter(pk__gt=after)
    rows = found.order_by("pk").values_list(
        "pk", "job_id", "job__name", "job__team__path", "job__user__username", "ends_at"
    )[:limit]
    return [
        StillRunning(pk, job, name, path.rstrip("/"), user, ends_at)
        for pk, job, name, path, user, ends_at in rows
    ]
