"""The placements of jobs on the nodes of a cluster, as far as an actor may see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from clusters.models import Cluster
from jobs.access import visible_jobs
from jobs.models import Attempt
from tenants.access import Actor


@dataclass(frozen=True, slots=True)
class Placement:
    """An attempt that holds GPUs of the cluster. `slots` has node and milli-GPU of each rank."""

    attempt_id: UUID
    job: UUID
    name: str
    team: str
    user: str
    state: str
    slots: Sequence[Mapping[str, Any]]


def placements(
    actor: Actor, cluster: Cluster, *, after: UUID | None, limit: int
) -> list[Placement]:
    """Return at most `limit` attempts that hold GPUs of `cluster`, oldest first.

    They come after the attempt `after`. One query. Jobs that the actor may not see are left out.
    """
    found = Attempt.objects.filter(
        cluster=cluster, released_at=None, job__in=visible_jobs(actor).order_by()
    )
    if after is not None:
        found = found.filter(pk__gt=after)
    rows = found.order_by("pk").values_list(
        "pk",
        "job_id",
        "job__name",
        "job__team__path",
        "job__user__username",
        "job__state",
        "slots",
    )[:limit]
    return [
        Placement(pk, job, name, path.rstrip("/"), user, state, slots)
        for pk, job, name, path, user, state, slots in rows
    ]
