"""Jobs that would still run when a maintenance window begins, and the nodes with the least."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import (
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Func,
    JSONField,
    Q,
    QuerySet,
    Value,
)
from django.db.models.functions import Coalesce

from clusters.models import Cluster, Pool
from clusters.queries import listed_nodes
from jobs.access import visible_jobs
from jobs.models import Attempt
from maintenance.models import MaintenanceWindow
from tenants.access import Actor

#: The end of an attempt by its time limit; null without a limit.
_ENDS_AT = ExpressionWrapper(
    Coalesce("started_at", "granted_at")
    + ExpressionWrapper(
        F("job__time_limit_s") * Value(timedelta(seconds=1)), output_field=DurationField()
    ),
    output_field=DateTimeField(),
)
#: The names of the nodes of an attempt, as a JSON array.
_NODES = Func(
    F("slots"),
    template="jsonb_path_query_array(%(expressions)s, '$[*].node')",
    output_field=JSONField(),
)


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
    found = _running(window.cluster).filter(job__in=visible_jobs(actor).order_by())
    found = found.annotate(ends_at=_ENDS_AT)
    found = found.filter(Q(ends_at=None) | Q(ends_at__gt=window.start))
    if window.pool is not None:
        found = found.filter(job__pool=window.pool)
    if window.nodes is not None:
        found = found.annotate(nodes=_NODES).filter(nodes__has_any_keys=window.nodes)
    if after is not None:
        found = found.filter(pk__gt=after)
    rows = found.order_by("pk").values_list(
        "pk", "job_id", "job__name", "job__team__path", "job__user__username", "ends_at"
    )[:limit]
    return [
        StillRunning(pk, job, name, path.rstrip("/"), user, ends_at)
        for pk, job, name, path, user, ends_at in rows
    ]


def quietest_nodes(cluster: Cluster, pool: Pool | None, start: datetime) -> list[str]:
    """Return the nodes of a cluster, or of a pool on it, those with the least work first.

    Nodes that accept no jobs come first. Of the others, the GPUs of jobs that may still run at
    `start` count, then all GPUs in use. Two queries.
    """
    still: Counter[str] = Counter()
    in_use: Counter[str] = Counter()
    for slots, ends_at in (
        _running(cluster).annotate(ends_at=_ENDS_AT).values_list("slots", "ends_at")
    ):
        for slot in slots:
            in_use[slot["node"]] += slot["mgpu"]
            if ends_at is None or ends_at > start:
                still[slot["node"]] += slot["mgpu"]
    open_nodes: set[str] = set()
    rows = listed_nodes().filter(cluster=cluster)
    if pool is not None:
        rows = rows.filter(pool=pool)
    names = set()
    for name, is_schedulable, outside_mgpu in rows.values_list(
        "name", "is_schedulable", "outside_mgpu"
    ):
        names.add(name)
        in_use[name] += outside_mgpu
        if is_schedulable:
            open_nodes.add(name)
    return sorted(names, key=lambda name: (name in open_nodes, still[name], in_use[name], name))


def _running(cluster: Cluster) -> QuerySet[Attempt]:
    """Return the attempts that hold GPUs on a cluster."""
    return Attempt.objects.filter(cluster=cluster, released_at=None)
