"""The cycle around the arbiter: read one consistent snapshot, decide, apply the plan.

Everything a plan touches is read again, locked, before it is written: what changed since the
snapshot is left alone and comes back in the next cycle. Clusters are never called here; what
they must do is stored in the outbox, in the same transaction.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F

from arbiter.cycle import decide
from arbiter.decisions import Plan, Start, Waiting
from arbiter.decisions import Reclaim as PlannedReclaim
from arbiter.explain import sentence
from arbiter.policy import Policy
from arbiter.snapshot import Claim, Phase, QueuedJob, RunningJob, Slot, Snapshot
from billing.metering import Grant, record_classed, register_attempts
from clusters.queries import devices
from jobs import lifecycle
from jobs.intentions import start_intention, stop_intention
from jobs.leadership import Leadership
from jobs.models import Attempt, AttemptState, Job, JobState, Reclaim
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from outbox.recording import intend
from primitives.clock import from_epoch
from quotas.queries import quota_snapshot, record_use

log = logging.getLogger(__name__)

#: Explanations rewritten in one cycle at most, where the cause is new and where only numbers
#: moved (a start moves everybody up by one); the rest follow in the next cycles.
NEW_CAUSES_MAX = 2_000
NEW_NUMBERS_MAX = 300
#: Forced stops asked for in one cycle at most.
DEADLINES_MAX = 1_000


def load_snapshot(now: datetime) -> Snapshot:
    """Everything the arbiter may know, read in one transaction (repeatable read)."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        tree = quota_snapshot()
        fleet, answering = devices(now=now, stale_after=timedelta(seconds=settings.STALE_AFTER_S))
        return Snapshot(
            taken_at=int(now.timestamp()),
            nodes=tree.nodes,
            quotas=tree.quotas,
            priority_classes=tree.priority_classes,
            devices=fleet,
            clusters=answering,
            running=_running(),
            queued=_queued(),
            claims=_claims(),
        )


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def _queued() -> tuple[QueuedJob, ...]:
    return tuple(
        QueuedJob(*row)
        for row in _rows(
            """
            SELECT id::text, team_id::text, user_id::text, pool_id::text, mgpu_per_node,
                   node_count, priority_class_id::text,
                   extract(epoch FROM submitted_at)::bigint, time_limit_s, cluster_id::text
            FROM jobs_job WHERE state = 'queued'
            """
        )
    )


def _running() -> tuple[RunningJob, ...]:
    phases = {
        "reserved": Phase.STARTING,
        "starting": Phase.STARTING,
        "running": Phase.RUNNING,
        "stopping": Phase.STOPPING,
        # Ended, but its GPUs are not free before the last process is gone: soon.
        "ended": Phase.STOPPING,
    }
    return tuple(
        RunningJob(
            job=job,
            attempt=attempt,
            team=team,
            user=user,
            pool=pool,
            cluster=cluster,
            slots=_slots(slots),
            priority_class=priority_class,
            submitted_at=submitted_at,
            started_at=started_at,
            phase=phases[state],
            is_preemptible=is_preemptible,
            time_limit_s=time_limit_s,
            grace_until=grace_until,
            beneficiary=beneficiary,
            guaranteed_mgpu=guaranteed_mgpu,
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
        ) in _rows(
            """
            SELECT j.id::text, a.id::text, j.team_id::text, j.user_id::text, j.pool_id::text,
                   a.cluster_id::text, a.slots::text, j.priority_class_id::text,
                   extract(epoch FROM j.submitted_at)::bigint,
                   extract(epoch FROM coalesce(a.started_at, a.granted_at))::bigint,
                   a.state, j.is_preemptible, j.time_limit_s,
                   extract(epoch FROM
                       coalesce(a.grace_until, a.ended_at + interval '60 s'))::bigint,
                   CASE WHEN r.closed_at IS NULL THEN r.job_id::text END, a.guaranteed_mgpu
            FROM jobs_attempt a
            JOIN jobs_job j ON j.id = a.job_id
            LEFT JOIN jobs_reclaim r ON r.id = a.reclaim_id
            WHERE a.released_at IS NULL
            """
        )
    )


def _claims() -> tuple[Claim, ...]:
    return tuple(
        Claim(
            job=job,
            cluster=cluster,
            slots=_slots(slots),
            grace_until=grace_until,
            claimed_at=claimed_at,
        )
        for job, cluster, slots, grace_until, claimed_at in _rows(
            """
            SELECT job_id::text, cluster_id::text, slots::text,
                   extract(epoch FROM grace_until)::bigint,
                   extract(epoch FROM created_at)::bigint
            FROM jobs_reclaim WHERE closed_at IS NULL
            """
        )
    )


def _slots(text: str) -> tuple[Slot, ...]:
    return tuple(Slot(slot["node"], slot["mgpu"]) for slot in json.loads(text))


def _slots_json(slots: Iterable[Slot]) -> list[dict[str, Any]]:
    return [{"node": slot.node, "mgpu": slot.mgpu} for slot in slots]


@dataclass(frozen=True, slots=True)
class CycleReport:
    """What one cycle did, in counts."""

    started: int
    reclaims: int
    victims: int
    explained: int


class Cycles:
    """Runs cycles for one leader; remembers which explanations it has already stored."""

    def __init__(self, leadership: Leadership, policy: Policy | None = None) -> None:
        self._leadership = leadership
        self._policy = policy or Policy()
        self._explained: dict[str, Waiting] = {}

    def run(self, now: datetime) -> CycleReport:
        """One cycle. Raises NotLeading, having written nothing, when the epoch is over."""
        snapshot = load_snapshot(now)
        plan = decide(snapshot, self._policy)
        news = self._news(plan)
        with self._leadership.fence():
            changed = _Changed()
            started = _apply_starts(plan.starts, self._leadership.epoch, now, changed)
            reclaims, victims = _apply_reclaims(plan.reclaims, now, changed)
            _drop_claims(plan.dropped_claims, now)
            _apply_classes(plan, now)
            _enforce_deadlines(now)
            _store_explanations(news, snapshot, now, changed)
            if record_use(plan.use, as_of=now):
                publish("quotas", organization_id=None)
            changed.publish()
        self._remember(news)
        return CycleReport(started, reclaims, victims, len(news))

    def _news(self, plan: Plan) -> list[Waiting]:
        """Explanations that differ from the stored ones, bounded: new causes, then new numbers
        of those that were explained longest ago."""
        waiting = {item.job: item for item in plan.waiting}
        for job in _unexplained() | (self._explained.keys() - waiting.keys()):
            self._explained.pop(job, None)
        numbers = [
            waiting[job]
            for job, known in self._explained.items()
            if known != waiting[job] and known.code == waiting[job].code
        ]
        causes = [
            item
            for job, item in waiting.items()
            if job not in self._explained or self._explained[job].code != item.code
        ]
        return causes[:NEW_CAUSES_MAX] + numbers[:NEW_NUMBERS_MAX]

    def _remember(self, news: Sequence[Waiting]) -> None:
        for item in news:
            # Taken out first, so that the dictionary stays in the order of the writing.
            self._explained.pop(item.job, None)
            self._explained[item.job] = item


def _unexplained() -> set[str]:
    """Queued jobs whose stored explanation was taken away since it was written."""
    return {
        job
        for (job,) in _rows(
            "SELECT id::text FROM jobs_job WHERE state = 'queued' AND explanation IS NULL"
        )
    }


class _Changed:
    """Jobs touched in a cycle, by organization, for hints to open pages."""

    def __init__(self) -> None:
        self._jobs: dict[UUID, set[UUID]] = {}

    def add(self, job: Job) -> None:
        self._jobs.setdefault(job.organization_id, set()).add(job.id)

    def publish(self) -> None:
        for organization_id, ids in self._jobs.items():
            publish("jobs", ids=ids, organization_id=organization_id)


def _apply_starts(starts: Sequence[Start], epoch: int, now: datetime, changed: _Changed) -> int:
    """Grant attempts to the jobs that are still queued, and intend to start them."""
    planned = {UUID(start.job): start for start in starts}
    jobs = list(
        Job.objects.select_for_update(of=("self",))
        .filter(pk__in=planned, state=JobState.QUEUED)
        .select_related("team", "priority_class")
        .defer("script", "environment", "notes")
        .order_by("pk")
    )
    attempts = []
    for job in jobs:
        start = planned[job.id]
        lifecycle.check_move(job.state, JobState.STARTING)
        attempts.append(
            Attempt(
                job=job,
                number=job.attempt_number + 1,
                cluster_id=UUID(start.cluster),
                slots=_slots_json(start.slots),
                mgpu=sum(slot.mgpu for slot in start.slots),
                guaranteed_mgpu=start.guaranteed_mgpu,
                state=AttemptState.RESERVED,
                epoch=epoch,
                granted_at=now,
            )
        )
        changed.add(job)
    Attempt.objects.bulk_create(attempts)
    Job.objects.filter(pk__in=[job.id for job in jobs]).update(
        state=JobState.STARTING,
        attempt_number=F("attempt_number") + 1,
        started_at=None,
        explanation=None,
        explained_at=None,
    )
    Reclaim.objects.filter(job__in=jobs, closed_at=None).update(closed_at=now)
    register_attempts(
        [
            Grant(
                attempt_id=attempt.id,
                job_id=attempt.job.id,
                job_name=attempt.job.name,
                number=attempt.number,
                team=attempt.job.team,
                user_id=attempt.job.user_id,
                pool_id=attempt.job.pool_id,
                cluster_id=attempt.cluster_id,
                priority_class=attempt.job.priority_class.name,
                multiplier_ppm=attempt.job.priority_class.price_multiplier_ppm,
                mgpu=attempt.mgpu,
                guaranteed_mgpu=attempt.guaranteed_mgpu,
                at=now,
            )
            for attempt in attempts
        ],
        now=now,
    )
    intend([start_intention(attempt) for attempt in attempts], now=now)
    record_events(
        Happening(
            attempt.job_id,
            now,
            "granted",
            {
                "attempt": attempt.number,
                "cluster": str(attempt.cluster_id),
                "nodes": len(attempt.slots),
                "mgpu": attempt.mgpu,
                "borrowed_mgpu": attempt.mgpu - attempt.guaranteed_mgpu,
            },
        )
        for attempt in attempts
    )
    if attempts:
        wake("observer")
    return len(attempts)


def _apply_reclaims(
    reclaims: Sequence[PlannedReclaim], now: datetime, changed: _Changed
) -> tuple[int, int]:
    """Persist each claim with its victims and deadlines, then notify. Returns how many of both.

    A claim whose job or victims have changed since the snapshot is left out whole. A constant
    number of statements.
    """
    if not reclaims:
        return 0, 0
    jobs = {
        job.id: job
        for job in Job.objects.select_for_update()
        .filter(
            pk__in={UUID(planned.job) for planned in reclaims}
            | {UUID(victim.job) for planned in reclaims for victim in planned.victims}
        )
        .only("id", "organization_id", "team_id", "state")
        .order_by("pk")
    }
    attempts = {
        attempt.id: attempt
        for attempt in Attempt.objects.select_for_update()
        .filter(
            pk__in=[UUID(v.attempt) for planned in reclaims for v in planned.victims],
            released_at=None,
            stop_reason=None,
            state__in=[AttemptState.RESERVED, AttemptState.STARTING, AttemptState.RUNNING],
        )
        .order_by("pk")
    }
    claimed = set(
        Reclaim.objects.filter(
            job__in=[UUID(planned.job) for planned in reclaims], closed_at=None
        ).values_list("job_id", flat=True)
    )
    claims: list[Reclaim] = []
    stops: list[_Stop] = []
    happenings: list[Happening] = []
    for planned in reclaims:
        beneficiary = jobs[UUID(planned.job)]
        victims = [(attempts.get(UUID(v.attempt)), v) for v in planned.victims]
        if (
            beneficiary.state != JobState.QUEUED
            or beneficiary.id in claimed
            or any(attempt is None for attempt, _ in victims)
        ):
            continue
        claim = Reclaim(
            job_id=beneficiary.id,
            cluster_id=UUID(planned.cluster),
            slots=_slots_json(planned.slots),
            created_at=now,
            grace_until=from_epoch(planned.grace_until),
        )
        claims.append(claim)
        changed.add(beneficiary)
        happenings.append(
            Happening(
                beneficiary.id,
                now,
                "reclaim_started",
                {"victims": len(victims), "grace_until": _iso(claim.grace_until)},
            )
        )
        for attempt, victim in victims:
            assert attempt is not None
            job = jobs[attempt.job_id]
            lifecycle.check_move(job.state, JobState.PREEMPTING)
            stops.append(_Stop(attempt, claim.id, now + timedelta(seconds=victim.grace_s)))
            changed.add(job)
            happenings.append(
                Happening(
                    job.id,
                    now,
                    "preempting",
                    {
                        "attempt": attempt.number,
                        "grace_s": victim.grace_s,
                        "for_team": str(beneficiary.team_id),
                    },
                )
            )
    Reclaim.objects.bulk_create(claims)
    _stop_victims(stops, now)
    record_events(happenings)
    return len(claims), len(stops)


@dataclass(frozen=True, slots=True)
class _Stop:
    """A victim, the claim that it is stopped for, and its deadline."""

    attempt: Attempt
    claim_id: UUID
    grace_until: datetime


def _stop_victims(stops: Sequence[_Stop], now: datetime) -> None:
    """Persist notice and deadline of locked attempts, then intend to notify them."""
    if not stops:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_attempt a
            SET state = 'stopping', stop_reason = 'preempted', notice_at = %s,
                grace_until = v.grace_until, reclaim_id = v.claim
            FROM unnest(%s::uuid[], %s::uuid[], %s::timestamptz[]) AS v(id, claim, grace_until)
            WHERE a.id = v.id
            """,
            [
                now,
                [stop.attempt.id for stop in stops],
                [stop.claim_id for stop in stops],
                [stop.grace_until for stop in stops],
            ],
        )
    Job.objects.filter(pk__in=[stop.attempt.job_id for stop in stops]).update(
        state=JobState.PREEMPTING
    )
    intend([stop_intention("notify_attempt", stop.attempt) for stop in stops], now=now)
    wake("observer")


def _drop_claims(jobs: Sequence[str], now: datetime) -> None:
    """Close claims that no longer hold; victims already notified are stopped all the same,
    since they may be saving at this moment."""
    Reclaim.objects.filter(job__in=[UUID(job) for job in jobs], closed_at=None).update(
        closed_at=now
    )


def _apply_classes(plan: Plan, now: datetime) -> None:
    """Record what of each running attempt is guaranteed from now on, where it changed."""
    if not plan.classed:
        return
    ids = [UUID(item.attempt) for item in plan.classed]
    amounts = [item.guaranteed_mgpu for item in plan.classed]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_attempt a SET guaranteed_mgpu = v.amount
            FROM unnest(%s::uuid[], %s::bigint[]) AS v(id, amount) WHERE a.id = v.id
            """,
            [ids, amounts],
        )
    record_classed(list(zip(ids, amounts, strict=True)), at=now, now=now)


def _enforce_deadlines(now: datetime) -> None:
    """Ask for the forced stop of attempts whose grace is over (level-triggered, persisted)."""
    overdue = Attempt.objects.filter(
        state=AttemptState.STOPPING, released_at=None, forced_at=None, grace_until__lte=now
    )
    # The job before its attempt, as everywhere; one that somebody is just changing waits for
    # the next cycle.
    jobs = list(
        Job.objects.select_for_update(skip_locked=True, no_key=True)
        .filter(pk__in=list(overdue.values_list("job_id", flat=True)[:DEADLINES_MAX]))
        .only("id")
        .order_by("pk")
    )
    late = list(overdue.filter(job__in=jobs).select_for_update().order_by("pk"))
    if not late:
        return
    Attempt.objects.filter(pk__in=[a.pk for a in late]).update(forced_at=now)
    intend([stop_intention("stop_attempt", attempt) for attempt in late], now=now)
    record_events(Happening(a.job_id, now, "forced_stop", {"attempt": a.number}) for a in late)
    wake("observer")


def _store_explanations(
    news: Sequence[Waiting], snapshot: Snapshot, now: datetime, changed: _Changed
) -> None:
    """Write explanations of jobs that are still queued, in one statement."""
    if not news:
        return
    names = display_names()
    queued = {job.id: job for job in snapshot.queued}
    bodies = [json.dumps(explanation_of(item, queued[item.job], names, now=now)) for item in news]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_job j SET explanation = v.body::jsonb, explained_at = %s
            FROM unnest(%s::uuid[], %s::text[]) AS v(id, body)
            WHERE j.id = v.id AND j.state = 'queued'
            RETURNING j.id, j.organization_id
            """,
            [now, [UUID(item.job) for item in news], bodies],
        )
        for job_id, organization_id in cursor.fetchall():
            changed.add(Job(id=job_id, organization_id=organization_id))


def display_names() -> dict[str, str]:
    """Display path of every tree node by id, for sentences."""
    return {
        node: path.rstrip("/") for node, path in _rows("SELECT id::text, path FROM tenants_node")
    }


def explanation_of(
    waiting: Waiting, job: QueuedJob, names: Mapping[str, str], *, now: datetime
) -> dict[str, Any]:
    """The stored and shown form of why a job waits; times are ISO 8601 UTC."""
    estimate = None
    if waiting.method is not None:
        estimate = {
            "earliest": _iso_epoch(waiting.earliest),
            "latest": _iso_epoch(waiting.latest),
            "method": waiting.method,
        }
    return {
        "code": waiting.code.value,
        "sentence": sentence(waiting, job, names),
        "numbers": dict(waiting.numbers),
        "node": None if waiting.node is None else names.get(waiting.node),
        "jobs_ahead": waiting.jobs_ahead,
        "estimated_start": estimate,
        "as_of": _iso(now),
    }


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _iso_epoch(epoch_s: int | None) -> str | None:
    return None if epoch_s is None else _iso(from_epoch(epoch_s))
