"""Archive a part of the tree, and decide what becomes of the work that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from jobs import lifecycle
from jobs.cancellation import cancel_locked
from jobs.models import Attempt, Job
from live.publishing import publish
from live.waking import wake
from primitives.errors import Conflict
from tenants.access import Actor, under
from tenants.audit_trail import record_act
from tenants.models import Node
from tenants.structure import archive_node, node_to_archive

#: So many running jobs are named.
NAMED_MAX = 50


class WaitingWork(StrEnum):
    """What becomes of jobs that wait: they wait on until the restore, or are cancelled."""

    WAIT = "wait"
    CANCEL = "cancel"


class RunningWork(StrEnum):
    """What becomes of jobs that run: they run on to their end, or are cancelled."""

    END = "end"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What there is below a node that has not ended; at most `NAMED_MAX` running jobs by name."""

    node: Node
    waiting: int
    running: int
    running_jobs: Sequence[Job]


def work_to_archive(node_id: UUID, *, actor: Actor) -> OpenWork:
    """What has to be decided before the node is archived. Raises NotFound and Forbidden."""
    return open_work_below(node_to_archive(actor, node_id))


def open_work_below(node: Node) -> OpenWork:
    """What there is below the node that has not ended."""
    running = _jobs_below(node, lifecycle.ACTIVE)
    return OpenWork(
        node=node,
        waiting=_jobs_below(node, lifecycle.WAITING).count(),
        running=running.count(),
        running_jobs=list(
            running.select_related("team", "user").defer("script", "environment")[:NAMED_MAX]
        ),
    )


@transaction.atomic
def archive(
    node_id: UUID,
    *,
    waiting: WaitingWork | None,
    running: RunningWork | None,
    actor: Actor,
    now: datetime,
) -> Node:
    """Archive an organization, department or team with all below it.

    Nothing is submitted there any more, and nothing that waits there starts. Quotas there are not
    in force, so what runs on counts as borrowed. History and bills stay. Archiving again decides
    anew about the work. Raises NotFound, Forbidden, and Conflict where there is work that nothing
    is said of.
    """
    node = archive_node(actor=actor, node=node_to_archive(actor, node_id), now=now)
    # Submissions hold a lock on their team, so all that were in time are seen here.
    open_jobs = list(
        _jobs_below(node, lifecycle.OPEN)
        .select_for_update(of=("self",))
        .defer("script", "environment", "notes")
    )
    waits = [job for job in open_jobs if job.state in lifecycle.WAITING]
    runs = [job for job in open_jobs if job.state in lifecycle.ACTIVE]
    _refuse_undecided(node, waits, waiting, runs, running)
    ended = (waits if waiting is WaitingWork.CANCEL else []) + (
        runs if running is RunningWork.CANCEL else []
    )
    _cancel([job for job in ended if job.cancel_requested_at is None], node, actor=actor, now=now)
    wake("arbiter")
    return node


def _jobs_below(node: Node, states: frozenset[str]) -> QuerySet[Job]:
    """In the order of their ids, as a cycle locks them."""
    teams = Node.objects.filter(under([node.path], "path")).values("pk")
    return Job.objects.filter(team__in=teams, state__in=list(states)).order_by("pk")


def _refuse_undecided(
    node: Node,
    waits: Sequence[Job],
    waiting: WaitingWork | None,
    runs: Sequence[Job],
    running: RunningWork | None,
) -> None:
    questions = []
    if runs and running is None:
        questions.append(f"{len(runs):,} jobs run: set running to end or cancel")
    if waits and waiting is None:
        questions.append(f"{len(waits):,} jobs wait: set waiting to wait or cancel")
    if questions:
        raise Conflict(
            f"{node.display_path} has work. {'; '.join(questions)}.",
            running=len(runs),
            waiting=len(waits),
        )


def _cancel(jobs: Sequence[Job], node: Node, *, actor: Actor, now: datetime) -> None:
    if not jobs:
        return
    attempts = {
        attempt.job_id: attempt
        for attempt in Attempt.objects.select_for_update()
        .filter(job__in=jobs, released_at=None)
        .order_by("pk")
    }
    cancel_locked([(job, attempts.get(job.pk)) for job in jobs], actor=actor, now=now)
    record_act(
        actor=actor,
        action="jobs_cancelled",
        subject_kind=node.kind,
        subject_id=node.pk,
        node=node,
        now=now,
        detail={"jobs": len(jobs), "because": "archived"},
    )
    publish("jobs", ids=[job.pk for job in jobs], organization_id=node.organization_id)
