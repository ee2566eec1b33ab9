"""The cycle around the arbiter: read one consistent snapshot, decide, apply the plan.

Every row that a plan changes is locked and read again first. Rows that changed since the snapshot
are left alone and come back in the next cycle. Clusters are never called here. Their tasks are
stored in the outbox, in the same transaction.
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

from arbiter.api.plan import Plan, Start, Victim
from arbiter.api.plan import Reclaim as PlannedReclaim
from arbiter.api.snapshot import Slot
from arbiter.explain.credit_order import victim_text
from billing.fair_use import carry_on
from billing.metering import Grant, record_classed, register_attempts
from bulk.arrays import uuid_array
from bulk.inserting import columns_of, insert_rows
from bulk.sending import sent_ahead
from jobs import lifecycle
from jobs.arbitration.memory import Memory
from jobs.arbitration.reasons import Reasons, store_reasons
from jobs.arbitration.recording import Recorder, decides
from jobs.arbitration.snapshots import display_names, unexplained
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

#: The most forced stops requested in one cycle.
DEADLINES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class CycleReport:
    """The result of a cycle, in counts."""

    started: int
    reclaims: int
    victims: int
    explained: int


class Cycles:
    """Run cycles for one leader.

    It remembers the data that it has read and the explanations that it has stored.
    """

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._memory = Memory()
        self._reasons = Reasons()
        self._recorder = Recorder()

    def run(self, now: datetime) -> CycleReport:
        """Run one cycle at `now`.

        The starts come first, in a transaction of their own. Later transactions store the rest of
        the plan, the reasons of waiting jobs with the use of all tree nodes, and the record of a
        cycle that decided something.

        Raises NotLeading when the epoch is over; nothing is written after that.
        """
        with _collection_paused():
            return self._run(now)

    def _run(self, now: datetime) -> CycleReport:
        # Separate from `run`, so that all objects here are freed before garbage collection resumes.
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
        # No start waits for this. If it is lost, the next cycle decides it again.
        with self._leadership.fence():
            changed = _Changed()
            reclaims, victims = _apply_claims(plan.reclaims, now, changed)
            _apply_classes(plan, now)
            _enforce_deadlines(now)
            changed.publish()
        # No start waits for the rest.
        plan = decided.explained()
        in_doubt = self._reasons.among(self._memory.touched())
        news = self._reasons.news(plan, unexplained(in_doubt), read.withheld)
        with self._leadership.fence():
            for organization_id in sorted(record_use(plan.use, as_of=now)):
                publish("quotas", organization_id=organization_id)
            changed = _Changed()
            for job_id, organization_id in store_reasons(news, read.queued, read.stops, now):
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
    """Pause the search for cyclic garbage.

    A cycle creates some hundred thousand objects that live until its end, with hardly any reference
    cycles. Scanning them again and again would take a tenth to a quarter of its time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Changed:
    """Jobs changed in a cycle, by organization, for hints to open pages."""

    def __init__(self) -> None:
        self._jobs: dict[UUID, set[UUID]] = {}

    def add(self, job_id: UUID, organization_id: UUID) -> None:
        self._jobs.setdefault(organization_id, set()).add(job_id)

    def publish(self) -> None:
        for organization_id, ids in self._jobs.items():
            publish("jobs", ids=ids, organization_id=organization_id)


def _apply_starts(plan: Plan, epoch: int, now: datetime, changed: _Changed) -> int:
    """Grant attempts to the jobs that are still queued, and intend to start them.

    The claims of started jobs are closed. So are the dropped claims, whose GPUs the starts may use.
    """
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
    # Before their attempts, because a trigger checks that an attempt starts in a pool that is not
    # archived.
    _move_to_pools([job for job, _ in granted if planned[job.id].pool is not None])
    insert_rows(
        Attempt,
        [attempt._asdict() for _, attempt in granted],
        same={"epoch": epoch, "granted_at": now},
        returns_keys=False,
    )
    # An acknowledged held submission is not sent again. `jobs.execution.settling` releases it.
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
    # Last, because it waits for the database's answer.
    register_attempts([_grant(job, attempt, now) for job, attempt in granted], now=now)
    return granted


class _Started(NamedTuple):
    """The data that the start of a job needs; `attempt_number` is the number of the new attempt.

    `held` is the held submission of this attempt, if there is one.
    """

    id: UUID
    organization_id: UUID
    team_id: UUID
    user_id: UUID
    pool_id: UUID
    name: str
    type: str
    attempt_number: int
    priority_class: str
    multiplier_ppm: int
    use_factor_percent: int
    held: Held | None = None


def _mark_starting(planned: Mapping[UUID, Start]) -> list[tuple[_Started, _Granted]]:
    """Move the jobs that are still queued to their next attempt."""
    with connection.cursor() as cursor:
        # Locked in the order of their ids, as everywhere, because an update has no order.
        cursor.execute(
            f"""
            SELECT j.id, j.organization_id, j.team_id, j.user_id, j.pool_id, j.name,
                   j.type, {NEXT_NUMBER}, c.name, c.price_multiplier_ppm, c.use_factor_percent,
                   j.attempt_number
            FROM jobs_job j JOIN quotas_priorityclass c ON c.id = j.priority_class_id
            WHERE j.id = ANY(%s::uuid[]) AND j.state = 'queued'
            ORDER BY j.id FOR UPDATE OF j
            """,  # noqa: S608 - a constant of ours
            [uuid_array(planned)],
        )
        # This work runs while the database answers.
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
        # A separate statement, so that the attempts are built while it runs.
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
    """Return the locked jobs that may no longer start where planned, because of later changes.

    A statement of its own, because only a new statement sees the commits during the wait for the
    locks.
    """
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
    """Give the jobs their attempts: the held one if it matches the start, else the next number.

    Only jobs `among` the given ids can have held submissions. A held submission that does not match
    is removed later.
    """
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
    """Return whether the cluster would run the same for `start`.

    The cluster chooses the nodes. Borrowed GPUs are submitted differently from guaranteed ones.
    """
    mgpu_of_ranks = tuple(slot.mgpu for slot in start.slots)
    return (
        UUID(start.cluster) == held.cluster_id
        and (None if start.pool is None else UUID(start.pool)) == held.pool_id
        and mgpu_of_ranks == held.mgpu_of_ranks
        and start.guaranteed_mgpu == sum(mgpu_of_ranks)
        and start.closed_nodes == held.closed_nodes
    )


def _where_it_starts(job: _Started, start: Start) -> _Started:
    """Return the job with the pool of its start, if it accepts several pools."""
    return job if start.pool is None else job._replace(pool_id=UUID(start.pool))


class _Granted(NamedTuple):
    """The columns in which new attempts differ."""

    id: UUID
    job_id: UUID
    number: int
    cluster_id: UUID
    slots: list[dict[str, Any]]
    closed_nodes: Sequence[str]
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
        closed_nodes=start.closed_nodes,
        mgpu=sum(slot.mgpu for slot in start.slots),
        guaranteed_mgpu=start.guaranteed_mgpu,
        state=(AttemptState.RESERVED if native_id is None else AttemptState.STARTING).value,
        native_id=native_id,
        cluster_user=None if job.held is None else job.held.cluster_user,
    )


def _move_to_pools(jobs: Sequence[_Started]) -> None:
    """Set the pool of locked jobs that accept several pools to the pool of their start."""
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
        job_type=job.type,
        mgpu=attempt.mgpu,
        guaranteed_mgpu=attempt.guaranteed_mgpu,
        at=now,
        use_factor_percent=job.use_factor_percent,
    )


def _apply_claims(
    reclaims: Sequence[PlannedReclaim], now: datetime, changed: _Changed
) -> tuple[int, int]:
    """Store each claim with its victims and deadlines, then notify; return both counts.

    A claim is skipped whole if its job or a victim has changed since the snapshot. A constant
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
        # Without their slots, which name every node of a gang and are not needed here.
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
    is_by_credits = any(victim.by_credits for one in reclaims for victim in one.victims)
    names = display_names() if is_by_credits else {}
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
            closed_nodes=list(planned.closed_nodes),
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
                        **_chosen_by_credits(victim, names),
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


def _chosen_by_credits(victim: Victim, names: Mapping[str, str]) -> dict[str, str]:
    """Return why credits chose a victim, as a part of its history; empty if they did not."""
    return {"why": victim_text(victim.by_credits[0], names)} if victim.by_credits else {}


@dataclass(frozen=True, slots=True)
class _Stop:
    """A victim, its claim, and its deadline."""

    attempt: Attempt
    claim_id: UUID
    grace_until: datetime


def _stop_victims(stops: Sequence[_Stop], now: datetime) -> None:
    """Store notice and deadline of locked attempts, then intend to notify them."""
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
    """Close the claims of these jobs.

    Victims of a dropped claim that were already notified are stopped all the same, since they may
    be saving their work now.
    """
    if not jobs:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_reclaim SET closed_at = %s "
            "WHERE closed_at IS NULL AND job_id = ANY(%s::uuid[])",
            [now, uuid_array(jobs)],
        )


def _apply_classes(plan: Plan, now: datetime) -> None:
    """Store the guaranteed part of each running attempt where it changed.

    An attempt that shrank since the snapshot is guaranteed at most its new size. The next cycle
    decides the right amount.
    """
    if not plan.classed:
        return
    planned = {UUID(item.attempt): item.guaranteed_mgpu for item in plan.classed}
    with connection.cursor() as cursor:
        # Locked in the order of their ids, as everywhere, because an update has no order.
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
    """Request the forced stop of attempts whose grace is over (level-triggered, stored)."""
    overdue = Attempt.objects.filter(
        state=AttemptState.STOPPING, released_at=None, forced_at=None, grace_until__lte=now
    )
    ids = list(overdue.values_list("job_id", flat=True)[:DEADLINES_MAX])
    if not ids:
        return
    # The job is locked before its attempt, as everywhere. A job that another transaction is
    # changing waits for the next cycle.
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
