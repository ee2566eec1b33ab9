"""The arbiter's input, read from the database as of one instant."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from sys import intern
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction

from arbiter.api.policy import Policy
from arbiter.api.snapshot import (
    Balance,
    Claim,
    Level,
    Maintenance,
    OtherPool,
    Phase,
    PoolWeight,
    QueuedJob,
    RunningJob,
    Slot,
    Snapshot,
    Usage,
)
from arbiter.explain.sentences import Names
from bank.balances import StoredBalances, balances_of, read_balances
from billing.fair_use import read_usage
from bulk.arrays import uuid_array
from clusters.queries import Fleet, accepting, read_fleet
from jobs.queue.avoided_clusters import avoided_clusters
from jobs.queue.budget_stops import BudgetStops, budget_stops
from jobs.queue.withheld_by_amount import withheld_by_amount
from jobs.queue.withholding import DEPENDENCY, Withheld, withheld_jobs
from jobs.submission.usable_clusters import UsableClusters
from maintenance.windows import maintenance_ahead
from outbox.quarantine import is_quarantined
from quotas.installation import arbiter_policy
from quotas.queries import QuotaSnapshot, quota_snapshot
from webapi.row_access import all_rows


class Reading(NamedTuple):
    """A snapshot for the arbiter, its policy, and the jobs withheld from it, all of one instant.

    `stops` are the budgets behind limits of the snapshot.
    """

    snapshot: Snapshot
    policy: Policy
    withheld: tuple[Withheld, ...]
    stops: BudgetStops


class Surroundings(NamedTuple):
    """The arbiter's input except for jobs and attempts.

    It includes the data that decide which queued jobs are offered, and for which clusters.
    """

    tree: QuotaSnapshot
    fleet: Fleet
    clusters: frozenset[str]
    claims: tuple[Claim, ...]
    pool_weights: tuple[PoolWeight, ...]
    usage: tuple[Usage, ...]
    balances: StoredBalances
    policy: Policy
    withheld: tuple[Withheld, ...]
    stops: BudgetStops
    usable: UsableClusters
    avoided: Mapping[str, frozenset[str]]
    maintenance: tuple[Maintenance, ...]


def load_snapshot(now: datetime) -> Snapshot:
    """Return the arbiter's whole input, read in one transaction (repeatable read)."""
    return read_queue(now).snapshot


def read_queue(now: datetime) -> Reading:
    """Return `load_snapshot` with the policy and the withheld jobs."""
    with one_instant():
        around = read_surroundings(now)
        return reading_of(now, around, running_attempts(), queued_jobs(around))


@contextmanager
def one_instant() -> Iterator[None]:
    """Make all reads inside see one instant, in a read-only transaction, of all organizations.

    In a transaction of the caller that has an instant of its own, they see that one. The scheduler
    decides about all organizations at once, so its input is never limited to the reader's.
    """
    is_outermost = not connection.in_atomic_block
    with all_rows(), transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def starting_clusters(now: datetime) -> frozenset[str]:
    """Return the clusters that start jobs now: those that accept jobs, none in quarantine."""
    if is_quarantined():
        return frozenset()
    return accepting(now=now, stale_after=timedelta(seconds=settings.STALE_AFTER_S))


def read_surroundings(
    now: datetime,
    fleet: Fleet | None = None,
    usage: tuple[Usage, ...] | None = None,
    tree: QuotaSnapshot | None = None,
    balances: StoredBalances | None = None,
) -> Surroundings:
    """Read the small data, and the data that changes with time alone.

    Fleet, recent use and tree are read unless the caller gives them, and `balances` are read again
    if they changed.
    """
    withheld = withheld_jobs(now)
    stops = budget_stops(now)
    by_amount = withheld_by_amount(stops, {one.job for one in withheld}, now)
    return Surroundings(
        tree=quota_snapshot() if tree is None else tree,
        fleet=read_fleet() if fleet is None else fleet,
        clusters=starting_clusters(now),
        claims=_claims(),
        pool_weights=tuple(
            PoolWeight(pool, weight)
            for pool, weight in _rows("SELECT id::text, weight FROM clusters_pool")
        ),
        usage=read_usage(now) if usage is None else usage,
        balances=read_balances(balances),
        policy=arbiter_policy(),
        withheld=(*withheld, *by_amount),
        stops=stops,
        usable=UsableClusters(),
        avoided=avoided_clusters(now),
        maintenance=maintenance_ahead(now),
    )


def reading_of(
    now: datetime,
    around: Surroundings,
    running: Iterable[RunningJob],
    queued: Iterable[QueuedJob],
) -> Reading:
    """Return the separately read parts as one reading."""
    attempts = tuple(running)
    snapshot = Snapshot(
        taken_at=int(now.timestamp()),
        nodes=around.tree.nodes,
        quotas=around.stops.limit(around.tree.quotas),
        priority_classes=around.tree.priority_classes,
        devices=around.fleet.devices,
        clusters=around.clusters,
        running=attempts,
        queued=tuple(queued),
        claims=around.claims,
        pool_weights=around.pool_weights,
        usage=around.usage,
        balances=balances_around(around, attempts, now),
        maintenance=around.maintenance,
    )
    return Reading(snapshot, around.policy, around.withheld, around.stops)


def balances_around(
    around: Surroundings, running: Iterable[RunningJob], now: datetime
) -> tuple[Balance, ...]:
    """Return the credits of all teams, less the holds of `running`."""
    return balances_of(around.balances, running, around.tree.quotas, around.pool_weights, now)


def _rows(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return list(cursor.fetchall())


def queued_jobs(around: Surroundings, among: Collection[str] | None = None) -> Iterator[QueuedJob]:
    """Yield the queued jobs that the arbiter is offered, or only those in `among`."""
    left_out = {item.job for item in around.withheld if item.code != DEPENDENCY}
    usable, avoided = around.usable, around.avoided
    sets: dict[str | None, frozenset[str] | None] = {None: None}

    def clusters(
        job: str,
        team: str,
        user: str,
        pool: str,
        mgpu: int,
        limit_s: int | None,
        pinned: str | None,
        image: str | None,
        batch_nodes: int,
        is_manifest: bool,
        is_native: bool,
    ) -> frozenset[str] | None:
        found = usable.of(
            team=team,
            user=user,
            pool=pool,
            mgpu_per_node=mgpu,
            time_limit_s=limit_s,
            pinned=pinned,
            image=image,
            batch_nodes=batch_nodes,
            is_manifest=is_manifest,
            is_native=is_native,
        )
        return usable.without(found, avoided[job]) if job in avoided else found

    sql, parameters = _QUEUED, list[str]()
    if any(item.code == DEPENDENCY for item in around.withheld):
        # Dependent jobs are not even read, as there may be many.
        sql += _NOT_DEPENDENT
    if among is not None:
        sql += " AND id = ANY(%s::uuid[])"
        parameters.append(uuid_array(among))
    return (
        QueuedJob(
            job,
            # The same id is the same object, which keeps 100,000 queued jobs small.
            intern(team),
            intern(user),
            intern(pool),
            mgpu_per_node,
            node_count,
            intern(priority_class),
            submitted_at,
            time_limit_s,
            clusters(
                job,
                team,
                user,
                pool,
                mgpu_per_node,
                time_limit_s,
                pinned,
                image,
                batch_nodes,
                is_manifest,
                is_native,
            ),
            # The same holds for features.
            sets[features]
            if features in sets
            else sets.setdefault(features, frozenset(features.split(" "))),
            image is not None,
            None if required is None else Level(required),
            None if preferred is None else Level(preferred),
            node_count_max,
            ()
            if others is None
            else tuple(
                OtherPool(
                    other,
                    clusters(
                        job,
                        team,
                        user,
                        other,
                        mgpu_per_node,
                        time_limit_s,
                        pinned,
                        image,
                        batch_nodes,
                        is_manifest,
                        is_native,
                    ),
                )
                for other in others.split(" ")
            ),
            cpu_milli,
            memory_mib,
        )
        for (
            job,
            team,
            user,
            pool,
            mgpu_per_node,
            node_count,
            priority_class,
            submitted_at,
            time_limit_s,
            pinned,
            features,
            image,
            required,
            preferred,
            node_count_max,
            others,
            cpu_milli,
            memory_mib,
            batch_nodes,
            is_manifest,
            is_native,
        ) in _rows(sql, parameters)
        if job not in left_out
    )


_QUEUED = """
SELECT id::text, team_id::text, user_id::text, coalesce(pools[1], pool_id)::text, mgpu_per_node,
       coalesce(node_count_min, node_count), priority_class_id::text,
       extract(epoch FROM submitted_at)::bigint, time_limit_s, cluster_id::text,
       nullif(array_to_string(features, ' '), ''), image,
       required_topology, preferred_topology,
       CASE WHEN node_count_min IS NOT NULL THEN node_count END,
       nullif(array_to_string(pools[2:], ' '), ''), cpus_per_node * 1000, memory_mib_per_node,
       CASE WHEN launch = 'batch' THEN node_count ELSE 0 END, launch = 'manifest',
       origin = 'native'
FROM jobs_job WHERE state = 'queued'
"""
_NOT_DEPENDENT = """
AND NOT EXISTS (
    SELECT FROM jobs_dependency d WHERE d.job_id = jobs_job.id AND d.closed_at IS NULL
)
"""


def running_attempts(of_jobs: Collection[str] | None = None) -> Iterator[RunningJob]:
    """Yield all attempts that hold GPUs, or only those of `of_jobs`."""
    phases = {
        "reserved": Phase.STARTING,
        "starting": Phase.STARTING,
        "running": Phase.RUNNING,
        "stopping": Phase.STOPPING,
        # Ended, but its GPUs are free only when the last process has gone, which is soon.
        "ended": Phase.STOPPING,
    }
    sql, parameters = _RUNNING, list[str]()
    if of_jobs is not None:
        # The condition is given for both tables, because the planner does not infer it and would
        # scan all jobs.
        sql += " AND a.job_id = ANY(%s::uuid[]) AND j.id = ANY(%s::uuid[])"
        parameters += [uuid_array(of_jobs)] * 2
    return (
        RunningJob(
            job=job,
            attempt=attempt,
            team=intern(team),
            user=intern(user),
            pool=intern(pool),
            cluster=intern(cluster),
            slots=_slots(slots),
            priority_class=intern(priority_class),
            submitted_at=submitted_at,
            started_at=started_at,
            phase=phases[state],
            is_preemptible=is_preemptible,
            time_limit_s=time_limit_s,
            grace_until=grace_until,
            beneficiary=beneficiary,
            guaranteed_mgpu=guaranteed_mgpu,
            preemptions=preemptions,
            checkpoint_at=checkpoint_at,
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
        )
        for (
            job,
            attempt,
            team,
            user,
            pool,
            cluster,
            slots,
            priority_class,
            submitted_at,
            started_at,
            state,
            is_preemptible,
            time_limit_s,
            grace_until,
            beneficiary,
            guaranteed_mgpu,
            preemptions,
            checkpoint_at,
            cpu_milli,
            memory_mib,
        ) in _rows(sql, parameters)
    )


_RUNNING = """
SELECT j.id::text, a.id::text, j.team_id::text, j.user_id::text, j.pool_id::text,
       a.cluster_id::text, a.slots::text, j.priority_class_id::text,
       extract(epoch FROM j.submitted_at)::bigint,
       extract(epoch FROM coalesce(a.started_at, a.granted_at))::bigint,
       a.state, j.is_preemptible, j.time_limit_s,
       extract(epoch FROM
           coalesce(a.grace_until, a.ended_at + interval '60 s'))::bigint,
       CASE WHEN r.closed_at IS NULL THEN r.job_id::text END, a.guaranteed_mgpu,
       CASE WHEN a.number = 1 THEN 0 ELSE (
           SELECT count(*) FROM jobs_attempt p
           WHERE p.job_id = a.job_id AND p.number < a.number
               AND p.reclaim_id IS NOT NULL AND p.started_at IS NOT NULL
       ) END,
       extract(epoch FROM a.checkpoint_at)::bigint,
       j.cpus_per_node * 1000, j.memory_mib_per_node
FROM jobs_attempt a
JOIN jobs_job j ON j.id = a.job_id
LEFT JOIN jobs_reclaim r ON r.id = a.reclaim_id
WHERE a.released_at IS NULL
"""


def _claims() -> tuple[Claim, ...]:
    return tuple(
        Claim(
            job=job,
            cluster=cluster,
            slots=_slots(slots),
            grace_until=grace_until,
            claimed_at=claimed_at,
            pool=pool,
        )
        for job, cluster, slots, grace_until, claimed_at, pool in _rows(
            """
            SELECT job_id::text, cluster_id::text, slots::text,
                   extract(epoch FROM grace_until)::bigint,
                   extract(epoch FROM created_at)::bigint, pool_id::text
            FROM jobs_reclaim WHERE closed_at IS NULL
            """
        )
    )


def _slots(text: str) -> tuple[Slot, ...]:
    return tuple(Slot(slot["node"], slot["mgpu"]) for slot in json.loads(text))


@all_rows()
def display_names() -> Names:
    """Return by id the display path of every tree node, and the name of every cluster and pool."""
    rows = _rows(
        """
        SELECT id::text, path, false FROM tenants_node
        UNION ALL SELECT id::text, name, false FROM clusters_cluster
        UNION ALL SELECT id::text, name, device = 'cpu' FROM clusters_pool
        """
    )
    return Names(
        {node: path.rstrip("/") for node, path, _ in rows},
        of_cores=[pool for pool, _, is_of_cores in rows if is_of_cores],
    )


def unexplained(among: Collection[str] | None = None) -> set[str]:
    """Return the queued jobs without a stored explanation, or only those in `among`.

    They are new, or their explanation was removed since.
    """
    sql, parameters = _UNEXPLAINED, list[str]()
    if among is not None:
        if not among:
            return set()
        sql += " AND id = ANY(%s::uuid[])"
        parameters.append(uuid_array(among))
    return {job for (job,) in _rows(sql, parameters)}


_UNEXPLAINED = "SELECT id::text FROM jobs_job WHERE state = 'queued' AND explanation IS NULL"
