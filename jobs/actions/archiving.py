"""Archive a part of the tree, a cluster or a pool, or deactivate a user.

The caller decides whether open jobs go on or are cancelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from clusters.models import Cluster, Pool
from clusters.queries import cluster_by_id, pool_by_id
from clusters.registration import archive_cluster as close_cluster
from clusters.registration import archive_pool as close_pool
from jobs import lifecycle
from jobs.actions.cancellation import cancel_locked
from jobs.leadership import keep_out
from jobs.models import Attempt, Job
from live.publishing import publish
from live.waking import wake
from primitives.errors import Conflict
from quotas.fleet import administrator
from tenants.access import Actor, under
from tenants.audit_trail import record_act
from tenants.membership import change_user, user_to_change
from tenants.models import Node, User
from tenants.structure import archive_node, locked_node_to_archive, node_to_archive

#: At most this many running jobs are listed.
NAMED_MAX = 50


class WaitingWork(StrEnum):
    """The fate of waiting jobs: they wait until the restore, or are cancelled."""

    WAIT = "wait"
    CANCEL = "cancel"


class RunningWork(StrEnum):
    """The fate of running jobs: they run to their end, or are cancelled."""

    END = "end"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class OpenWork:
    """The open jobs of an object; at most `NAMED_MAX` running jobs are listed."""

    waiting: int
    running: int
    running_jobs: Sequence[Job]
    node: Node | None = None


def work_to_archive(node_id: UUID, *, actor: Actor) -> OpenWork:
    """Return the open jobs to decide on before archiving the node.

    Raises NotFound and Forbidden.
    """
    return open_work_below(node_to_archive(actor, node_id))


def open_work_below(node: Node) -> OpenWork:
    """Return the open jobs of the node and all nodes below it."""
    return _open_work(_jobs_below(node), node=node)


def work_to_deactivate(user_id: UUID, *, actor: Actor) -> OpenWork:
    """Return the open jobs to decide on before deactivating the user.

    Raises NotFound and Forbidden.
    """
    user = user_to_change(actor, user_id)
    return _open_work(_jobs_of(user))


def work_on_cluster(cluster_id: UUID, *, actor: Actor) -> OpenWork:
    """Return the open jobs to decide on before archiving the cluster.

    They hold GPUs there, or wait and are pinned to it. Raises NotFound, and Forbidden for all but
    platform admins.
    """
    administrator(actor)
    return _open_work(_jobs_on(cluster_by_id(cluster_id)))


def work_in_pool(pool_id: UUID, *, actor: Actor) -> OpenWork:
    """Return the open jobs to decide on before archiving the pool.

    They run in it, or wait and accept no other pool in use. Raises NotFound, and Forbidden for all
    but platform admins.
    """
    administrator(actor)
    return _open_work(_jobs_in(pool_by_id(pool_id)))


def _open_work(jobs: QuerySet[Job], *, node: Node | None = None) -> OpenWork:
    running = jobs.filter(state__in=list(lifecycle.ACTIVE))
    named = running.select_related("team", "user").defer("script", "environment")
    return OpenWork(
        waiting=jobs.filter(state__in=list(lifecycle.WAITING)).count(),
        running=running.count(),
        running_jobs=list(named[:NAMED_MAX]),
        node=node,
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

    No job can be submitted there any more, and no waiting job starts. Its quotas are not in force,
    so running jobs count as borrowing. History and bills stay. Archiving again asks for a new
    decision about open jobs. Raises NotFound, Forbidden, and Conflict if there are open jobs
    without a decision.
    """
    node = archive_node(actor=actor, node=locked_node_to_archive(actor, node_id), now=now)
    # Submissions lock their team, so all earlier submissions are visible here.
    ended = _decided(_jobs_below(node), node.display_path, waiting=waiting, running=running)
    _cancel(ended, node.kind, node.pk, node, because="archived", actor=actor, now=now)
    wake("arbiter")
    return node


@transaction.atomic
def deactivate(
    user_id: UUID,
    *,
    waiting: WaitingWork | None,
    running: RunningWork | None,
    actor: Actor,
    now: datetime,
) -> User:
    """Deactivate a person or service account.

    Their sessions end, their tokens are revoked, and their waiting jobs do not start until they are
    reactivated.

    Deactivating again asks for a new decision about open jobs. Raises NotFound, Forbidden and
    Conflict. Conflict means: the actor's own account, the last administrator of the platform or of
    an organization, or open jobs without a decision.
    """
    user = change_user(actor=actor, user_id=user_id, is_active=False, now=now)
    # Submissions lock their user too.
    ended = _decided(_jobs_of(user), user.login, waiting=waiting, running=running)
    _cancel(ended, "user", user.pk, user.organization, because="deactivated", actor=actor, now=now)
    wake("arbiter")
    return user


@transaction.atomic
def archive_cluster(
    cluster_id: UUID,
    *,
    waiting: WaitingWork | None,
    running: RunningWork | None,
    actor: Actor,
    now: datetime,
) -> Cluster:
    """Archive a cluster: nothing new starts there, and its capacity no longer counts.

    Running jobs, native jobs too, are observed and metered until they end. History, bills and
    reconciled days stay. Archiving again asks for a new decision about open jobs. Raises NotFound,
    Forbidden, and Conflict if there are open jobs without a decision.
    """
    by, cluster = administrator(actor), cluster_by_id(cluster_id)
    # The arbiter's earlier grants are visible here, and its next plan sees the archiving.
    keep_out("arbiter")
    cluster = close_cluster(cluster, by=by, now=now)
    ended = _decided(_jobs_on(cluster), cluster.name, waiting=waiting, running=running)
    _cancel(ended, "cluster", cluster.pk, None, because="archived", actor=actor, now=now)
    return cluster


@transaction.atomic
def archive_pool(
    pool_id: UUID,
    *,
    waiting: WaitingWork | None,
    running: RunningWork | None,
    actor: Actor,
    now: datetime,
) -> Pool:
    """Archive a pool: nothing new starts in it, and its capacity no longer counts.

    Running jobs are observed and metered until they end. Jobs that accept other pools start in
    those. History, bills and quotas stay. Archiving again asks for a new decision about open jobs.
    Raises NotFound, Forbidden, and Conflict if there are open jobs without a decision.
    """
    by, pool = administrator(actor), pool_by_id(pool_id)
    # As for a cluster.
    keep_out("arbiter")
    pool = close_pool(pool, by=by, now=now)
    ended = _decided(_jobs_in(pool), pool.name, waiting=waiting, running=running)
    _cancel(ended, "pool", pool.pk, None, because="archived", actor=actor, now=now)
    return pool


def _jobs_below(node: Node) -> QuerySet[Job]:
    teams = Node.objects.filter(under([node.path], "path")).values("pk")
    return _in_order(Job.objects.filter(team__in=teams))


def _jobs_of(user: User) -> QuerySet[Job]:
    return _in_order(Job.objects.filter(user=user))


def _jobs_on(cluster: Cluster) -> QuerySet[Job]:
    there = Attempt.objects.filter(cluster=cluster, released_at=None).values("job_id")
    runs = Q(state__in=list(lifecycle.ACTIVE), pk__in=there)
    return _in_order(
        Job.objects.filter(runs | Q(state__in=list(lifecycle.WAITING), cluster=cluster))
    )


def _jobs_in(pool: Pool) -> QuerySet[Job]:
    closed = Pool.objects.exclude(archived_at=None).values_list("pk", flat=True)
    nowhere_else = Q(pools__contained_by=[pool.pk, *closed])
    accepts = Q(pool=pool) | Q(pools__contains=[pool.pk])
    runs = Q(state__in=list(lifecycle.ACTIVE), pool=pool)
    return _in_order(
        Job.objects.filter(runs | Q(accepts & nowhere_else, state__in=list(lifecycle.WAITING)))
    )


def _in_order(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Return the open jobs, ordered by id, which is the order in which a cycle locks them."""
    return jobs.filter(state__in=list(lifecycle.OPEN)).order_by("pk")


def _decided(
    jobs: QuerySet[Job],
    whose: str,
    *,
    waiting: WaitingWork | None,
    running: RunningWork | None,
) -> list[Job]:
    """Lock the jobs and return those to cancel.

    Raises Conflict for open jobs without a decision.
    """
    open_jobs = list(jobs.select_for_update(of=("self",)).defer("script", "environment", "notes"))
    waits = [job for job in open_jobs if job.state in lifecycle.WAITING]
    runs = [job for job in open_jobs if job.state in lifecycle.ACTIVE]
    questions = []
    if runs and running is None:
        run = "job runs" if len(runs) == 1 else "jobs run"
        questions.append(f"{len(runs):,} {run}: set running to end or cancel")
    if waits and waiting is None:
        wait = "job waits" if len(waits) == 1 else "jobs wait"
        questions.append(f"{len(waits):,} {wait}: set waiting to wait or cancel")
    if questions:
        raise Conflict(
            f"{whose} has work. {'; '.join(questions)}.",
            running=len(runs),
            waiting=len(waits),
        )
    ended = (waits if waiting is WaitingWork.CANCEL else []) + (
        runs if running is RunningWork.CANCEL else []
    )
    return [job for job in ended if job.cancel_requested_at is None]


def _cancel(
    jobs: Sequence[Job],
    subject_kind: str,
    subject_id: UUID,
    node: Node | None,
    *,
    because: str,
    actor: Actor,
    now: datetime,
) -> None:
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
        subject_kind=subject_kind,
        subject_id=subject_id,
        node=node,
        now=now,
        detail={"jobs": len(jobs), "because": because},
    )
    for organization_id in sorted({job.organization_id for job in jobs}):
        ids = [job.pk for job in jobs if job.organization_id == organization_id]
        publish("jobs", ids=ids, organization_id=organization_id)
