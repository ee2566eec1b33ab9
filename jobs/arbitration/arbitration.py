"""The cycle around the arbiter: read one consistent snapshot, decide, apply the plan.

Everything a plan touches is read again, locked, before it is written: what changed since the
snapshot is left alone and comes back in the next cycle. Clusters are never called here; what
they must do is stored in the outbox, in the same transaction.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from arbiter.api.plan import Plan, Start
from arbiter.api.plan import Reclaim as PlannedReclaim
from arbiter.api.snapshot import Slot
from billing.fair_use import carry_on
from billing.metering import Grant, record_classed, register_attempts
from bulk.arrays import uuid_array
from bulk.inserting import columns_of, insert_rows
from bulk.sending import sent_ahead
from jobs import lifecycle
from jobs.arbitration.memory import Memory
from jobs.arbitration.reasons import Reasons, store_reasons
from jobs.arbitration.recording import Recorder, decides
from jobs.arbitration.snapshots import unexplained
from jobs.execution.held_submissions import NEXT_NUMBER, Held, held_for, hold_for
from jobs.intentions import start_intention, stop_intention
from jobs.leadership import Leadership
from jobs.models import Attempt, AttemptState, Job, JobState, Reclaim, attempt_id
from jobs.queue.dependencies import settle_dependencies
from jobs.queue.reason_documents import iso
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from outbox.recording import intend
from primitives.clock import from_epoch
from quotas.queries import record_use

#: Forced stops asked for in one cycle at most.
DEADLINES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class CycleReport:
    """What one cycle did, in counts."""

    started: int
    reclaims: int
    victims: int
    explained: int


class Cycles:
    """Runs cycles for one leader; remembers what it has read, and which explanations it has
    already stored."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._memory = Memory()
        self._reasons = Reasons()
        self._recorder = Recorder()

    def run(self, now: datetime) -> CycleReport:
        """One cycle: what starts in one transaction; then, in others, the rest of the plan, why the
        others wait and where all nodes stand, and the record of a cycle that decided something.

        Raises NotLeading when the epoch is over; nothing is written after that.
        """
        with _collection_paused():
            return self._run(now)

    def _run(self, now: datetime) -> CycleReport:
        # Apart from `run`, so that all of this is gone before garbage is looked for again.
        settle_dependencies(self._leadership, now)
        read = self._memory.read(now)
        decided = self._memory.decide(now)
        plan = decided.plan
        started = 0
        if plan.starts or plan.dropped_claims:
            with self._leadership.fence(), sent_ahead():
                changed = _Changed()
                started = _apply_starts(plan, self._leadership.epoch, now, changed)
                changed.publish()
        # Nobody who starts waits for this; where it gets lost, the next cycle decides it anew.
        with self._leadership.fence():
            changed = _Changed()
            reclaims, victims = _apply_claims(plan.reclaims, now, changed)
            _apply_classes(plan, now)
            _enforce_deadlines(now)
            changed.publish()
        # Nobody who starts waits for the rest.
        plan = decided.explained()
        in_doubt = self._reasons.among(self._memory.touched())
        news = self._reasons.news(plan, unexplained(in_doubt), read.withheld)
        with self._leadership.fence():
            for organization_id in sorted(record_use(plan.use, as_of=now)):
                publish("quotas", organization_id=organization_id)
            changed = _Changed()
            for job_id, organization_id in store_reasons(news, read.queued, now):
                changed.add(job_id, organization_id)
            changed.publish()
            carry_on(now)
            self._memory.forget_changes()
        self._reasons.remember(news)
        if decides(plan):
            with self._leadership.fence():
                self._recorder.record(
                    read.snapshot, read.policy, plan, epoch=self._leadership.epoch, now=now
                )
            self._memory.catch_up()
        return CycleReport(started, reclaims, victims, len(news))


@contextmanager
def _collection_paused() -> Iterator[None]:
    """No search for cyclic garbage meanwhile.

    A cycle makes some hundred thousand objects that live until its end, and hardly one of them
    is in a ring: looking at all of them again and again takes a tenth to a quarter of its time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Changed:
    """Jobs touched in a cycle, by organization, for hints to open pages."""

    def __init__(self) -> None:
        self._jobs: dict[UUID, set[UUID]] = {}

    def add(self, job_id: UUID, organization_id: UUID) -> None:
        self._jobs.setdefault(organization_id, set()).add(job_id)

    def publish(self) -> None:
        for organization_id, ids in self._jobs.items():
            publish("jobs", ids=ids, organization_id=organization_id)


def _apply_starts(plan: Plan, epoch: int, now: datetime, changed: _Changed) -> int:
    """Grant attempts to the jobs that are still queued, and intend to start them. What was claimed
    for them they have now; with them claims are given up, of which they may have the GPUs."""
    granted = _grant_attempts({UUID(start.job): start for start in plan.starts}, epoch, now)
    for job, _ in granted:
        changed.add(job.id, job.organization_id)
    _close_claims([*(job.id for job, _ in granted), *plan.dropped_claims], now)
    return len(granted)


def _grant_attempts(
    planned: Mapping[UUID, Start], epoch: int, now: datetime
) -> list[tuple[_Started, _Granted]]:
    granted = _mark_starting(planned) if planned else []
    if not granted:
        return []
    # Before their attempts: the database asks whether those start in a pool that is in use.
    _move_to_pools([job for job, _ in granted if planned[job.id].pool is not None])
    insert_rows(
        Attempt,
        [attempt._asdict() for _, attempt in granted],
        same={"epoch": epoch, "granted_at": now},
        returns_keys=False,
    )
    # What its cluster has acknowledged is not sent again: its release is left to settling.
    unsent = [attempt for _, attempt in granted if attempt.native_id is None]
    intend([start_intention(attempt) for attempt in unsent], now=now)
    record_events(
        Happening(
            job.id,
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
        for job, attempt in granted
    )
    wake("observer")
    # Last, as it waits for what the database says.
    register_attempts([_grant(job, attempt, now) for job, attempt in granted], now=now)
    return granted


class _Started(NamedTuple):
    """What the start of a job needs to know of it; `attempt_number` is that of the start.
    `held` is what was submitted of this attempt already."""

    id: UUID
    organization_id: UUID
    team_id: UUID
    user_id: UUID
    pool_id: UUID
    name: str
    attempt_number: int
    priority_class: str
    multiplier_ppm: int
    held: Held | None = None


def _mark_starting(planned: Mapping[UUID, Start]) -> list[tuple[_Started, _Granted]]:
    """Move those of the jobs that are still queued to their next attempt."""
    with connection.cursor() as cursor:
        # Locked in the order of their ids, as everywhere: an update goes by none.
        cursor.execute(
            f"""
            SELECT j.id, j.organization_id, j.team_id, j.user_id, j.pool_id, j.name,
                   {NEXT_NUMBER}, c.name, c.price_multiplier_ppm, j.attempt_number
            FROM jobs_job j JOIN quotas_priorityclass c ON c.id = j.priority_class_id
            WHERE j.id = ANY(%s::uuid[]) AND j.state = 'queued'
            ORDER BY j.id FOR UPDATE OF j
            """,  # noqa: S608 - a constant of ours
            [uuid_array(planned)],
        )
        # Before what the database says of the jobs is waited for.
        slots = {pk: _slots_json(start.slots) for pk, start in planned.items()}
        found = cursor.fetchall()
        refused = _refused_by_now({row[0]: planned[row[0]] for row in found})
        rows = [(_Started(*row), before) for *row, before in found if row[0] not in refused]
        # Only a held submission has a number of its own.
        jobs = _take_over_held(
            [job for job, _ in rows],
            planned,
            among=[job.id for job, before in rows if job.attempt_number > before + 1],
        )
        # Apart, as nobody waits for this: their attempts are built meanwhile.
        cursor.execute(
            """
            UPDATE jobs_job j
            SET state = 'starting', attempt_number = v.number, started_at = NULL,
                explanation = NULL, explained_at = NULL
            FROM unnest(%s::uuid[], %s::int[]) AS v(id, number) WHERE j.id = v.id
            """,
            [uuid_array(job.id for job in jobs), [job.attempt_number for job in jobs]],
        )
    return [
        (_where_it_starts(job, planned[job.id]), _granted(job, planned[job.id], slots[job.id]))
        for job in jobs
    ]


def _refused_by_now(planned: Mapping[UUID, Start | PlannedReclaim]) -> set[UUID]:
    """Those of the locked jobs that may not start where it is planned any more, by what changed
    since the snapshot. A statement of its own, as only that sees what was committed while
    the locks were waited for."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT j.id FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[]) AS v (job, cluster, pool)
            JOIN jobs_job j ON j.id = v.job
            JOIN tenants_node n ON n.id = j.team_id
            JOIN tenants_user u ON u.id = j.user_id
            JOIN clusters_cluster c ON c.id = v.cluster
            JOIN clusters_pool p ON p.id = coalesce(v.pool, j.pool_id)
            WHERE n.archived_at IS NOT NULL OR NOT u.is_active
                OR c.archived_at IS NOT NULL OR p.archived_at IS NOT NULL
            """,
            [
                uuid_array(planned),
                uuid_array(one.cluster for one in planned.values()),
                uuid_array(one.pool or "NULL" for one in planned.values()),
            ],
        )
        return {job for (job,) in cursor.fetchall()}


def _take_over_held(
    jobs: Sequence[_Started], planned: Mapping[UUID, Start], *, among: Sequence[UUID]
) -> list[_Started]:
    """Those `among` the jobs of which the very attempt that is granted was submitted become that
    attempt. All others get the next number, and what is held of them is removed."""
    if not among:
        return list(jobs)
    held = held_for(among)
    return [
        job._replace(attempt_number=held[job.id].number, held=held[job.id])
        if job.id in held and _is_what_is_held(planned[job.id], held[job.id])
        else job
        for job in jobs
    ]


def _is_what_is_held(start: Start, held: Held) -> bool:
    """Whether the cluster would run the same for `start`. Nodes are chosen by the cluster; what is
    borrowed is submitted otherwise than what is guaranteed."""
    mgpu_of_ranks = tuple(slot.mgpu for slot in start.slots)
    return (
        UUID(start.cluster) == held.cluster_id
        and (None if start.pool is None else UUID(start.pool)) == held.pool_id
        and mgpu_of_ranks == held.mgpu_of_ranks
        and start.guaranteed_mgpu == sum(mgpu_of_ranks)
    )


def _where_it_starts(job: _Started, start: Start) -> _Started:
    """The job in the pool of its start, where it accepts several."""
    return job if start.pool is None else job._replace(pool_id=UUID(start.pool))


class _Granted(NamedTuple):
    """The columns of a new attempt that are its own."""

    id: UUID
    job_id: UUID
    number: int
    cluster_id: UUID
    slots: list[dict[str, Any]]
    mgpu: int
    guaranteed_mgpu: int
    state: str
    native_id: str | None
    cluster_user: str | None


def _granted(job: _Started, start: Start, slots: list[dict[str, Any]]) -> _Granted:
    native_id = None if job.held is None else job.held.native_id
    return _Granted(
        id=attempt_id(job.id, job.attempt_number),
        job_id=job.id,
        number=job.attempt_number,
        cluster_id=UUID(start.cluster),
        slots=slots,
        mgpu=sum(slot.mgpu for slot in start.slots),
        guaranteed_mgpu=start.guaranteed_mgpu,
        state=(AttemptState.RESERVED if native_id is None else AttemptState.STARTING).value,
        native_id=native_id,
        cluster_user=None if job.held is None else job.held.cluster_user,
    )


def _move_to_pools(jobs: Sequence[_Started]) -> None:
    """Locked jobs that accept several pools run in those of their starts from now on."""
    if not jobs:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_job j SET pool_id = v.pool
            FROM unnest(%s::uuid[], %s::uuid[]) AS v(id, pool)
            WHERE j.id = v.id AND j.pool_id <> v.pool
            """,
            [[job.id for job in jobs], [job.pool_id for job in jobs]],
        )


def _grant(job: _Started, attempt: _Granted, now: datetime) -> Grant:
    return Grant(
        attempt_id=attempt.id,
        job_id=job.id,
        job_name=job.name,
        number=attempt.number,
        organization_id=job.organization_id,
        team_id=job.team_id,
        user_id=job.user_id,
        pool_id=job.pool_id,
        cluster_id=attempt.cluster_id,
        priority_class=job.priority_class,
        multiplier_ppm=job.multiplier_ppm,
        mgpu=attempt.mgpu,
        guaranteed_mgpu=attempt.guaranteed_mgpu,
        at=now,
    )


def _apply_claims(
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
        # Not their slots, which name every node of a gang and are not looked at here.
        .only("id", "job_id", "number", "cluster_id")
        .order_by("pk")
    }
    refused = _refused_by_now({UUID(planned.job): planned for planned in reclaims})
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
            or beneficiary.id in refused
            or any(attempt is None for attempt, _ in victims)
        ):
            continue
        claim = Reclaim(
            job_id=beneficiary.id,
            pool_id=None if planned.pool is None else UUID(planned.pool),
            cluster_id=UUID(planned.cluster),
            slots=_slots_json(planned.slots),
            created_at=now,
            grace_until=from_epoch(planned.grace_until),
        )
        claims.append(claim)
        changed.add(beneficiary.id, beneficiary.organization_id)
        happenings.append(
            Happening(
                beneficiary.id,
                now,
                "reclaim_started",
                {"victims": len(victims), "grace_until": iso(claim.grace_until)},
            )
        )
        for attempt, victim in victims:
            assert attempt is not None
            job = jobs[attempt.job_id]
            lifecycle.check_move(job.state, JobState.PREEMPTING)
            stops.append(_Stop(attempt, claim.id, now + timedelta(seconds=victim.grace_s)))
            changed.add(job.id, job.organization_id)
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
    insert_rows(Reclaim, [columns_of(claim) for claim in claims], returns_keys=False)
    held = hold_for(claims)
    if held:
        intend(held, now=now)
        wake("observer")
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


def _close_claims(jobs: Sequence[UUID | str], now: datetime) -> None:
    """Close the claims of these jobs. Where one no longer holds, victims already notified are
    stopped all the same, since they may be saving at this moment."""
    if not jobs:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_reclaim SET closed_at = %s "
            "WHERE closed_at IS NULL AND job_id = ANY(%s::uuid[])",
            [now, uuid_array(jobs)],
        )


def _apply_classes(plan: Plan, now: datetime) -> None:
    """Record what of each running attempt is guaranteed from now on, where it changed.

    An attempt that was made smaller since the snapshot is guaranteed what it still has; what is
    right for its new size the next cycle says.
    """
    if not plan.classed:
        return
    planned = {UUID(item.attempt): item.guaranteed_mgpu for item in plan.classed}
    with connection.cursor() as cursor:
        # Locked in the order of their ids, as everywhere: an update goes by none.
        cursor.execute(
            """
            SELECT id, mgpu FROM jobs_attempt WHERE id = ANY(%s)
            ORDER BY id FOR NO KEY UPDATE
            """,
            [list(planned)],
        )
        classes = [(pk, min(planned[pk], mgpu)) for pk, mgpu in cursor.fetchall()]
        cursor.execute(
            """
            UPDATE jobs_attempt a SET guaranteed_mgpu = v.amount
            FROM unnest(%s::uuid[], %s::bigint[]) AS v(id, amount) WHERE a.id = v.id
            """,
            [[pk for pk, _ in classes], [amount for _, amount in classes]],
        )
    record_classed(classes, at=now, now=now)


def _enforce_deadlines(now: datetime) -> None:
    """Ask for the forced stop of attempts whose grace is over (level-triggered, persisted)."""
    overdue = Attempt.objects.filter(
        state=AttemptState.STOPPING, released_at=None, forced_at=None, grace_until__lte=now
    )
    ids = list(overdue.values_list("job_id", flat=True)[:DEADLINES_MAX])
    if not ids:
        return
    # The job before its attempt, as everywhere; one that somebody is just changing waits for
    # the next cycle.
    jobs = list(
        Job.objects.select_for_update(skip_locked=True, no_key=True)
        .filter(pk__in=ids)
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


def _slots_json(slots: Iterable[Slot]) -> list[dict[str, Any]]:
    return [{"node": slot.node, "mgpu": slot.mgpu} for slot in slots]
