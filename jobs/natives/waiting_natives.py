"""Native jobs that wait on their cluster for the arbiter.

Such a cluster (`connectors.natives.NativeStarter`) starts no native job by itself.

- A listed workload whose account is a team's becomes a queued job of that team. It is pinned to its
  cluster, and ordered by its submit time.
- A grant is an attempt like any other, which `jobs.execution.dispatch` has the cluster start.
- A run may end without its workload, by a preemption or a failed node. Then the workload waits
  again, as the next attempt of the same job.
- If its owner removes the workload, the job is cancelled. If the job is cancelled, the workload is
  ended.
- The reason of the wait is written onto the workload.

The owner may change the request while the workload waits. The job follows each listing until a
grant. Nothing larger than the grant is started. If the listing differs from the grant, the grant is
given up.

Level-triggered like `jobs.execution.observation`: a repeated listing changes nothing. Ids are
derived from the data of the cluster, so that two observers would create the same rows. A workload
that runs without a grant counts for its team all the same, and can be reclaimed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.db.models import Q

from clusters.models import Cluster
from clusters.outside import OutsideUse, Stranger
from connectors.errors import ConnectorError
from connectors.natives import NativeControl, NativeSize, NativeStarter
from connectors.protocol import Listing, NativeWorkload, Outcome, WorkloadPhase
from jobs import lifecycle
from jobs.execution.comparing import COMPARED, is_known
from jobs.execution.native_sizes import (
    granted_to,
    may_become,
    ref_of,
    ref_of_job,
    ref_of_native,
    size_asked,
    size_of_job,
    take_size,
)
from jobs.execution.observation import News, apply_news, is_about_to_be_lost
from jobs.execution.questions import NotAsked, Questions
from jobs.execution.withdrawing import LISTED_WITHIN, withdraw
from jobs.leadership import Leadership, NotLeading
from jobs.models import Attempt, AttemptState, Job, JobOrigin, JobState, attempt_id
from jobs.natives.asking_natives import Asking, Memory
from jobs.natives.native_reasons import CHANGED_TOO_MUCH, explain
from jobs.natives.natives import (
    Owner,
    UnusedGuarantees,
    complaint_of,
    conclude_ended,
    count_running,
    ended_since,
    holds_gpus,
    insert_jobs,
    is_possible,
    job_id,
    job_of,
    mgpu_of,
    observation_of,
    outside_use,
    owners_of,
    running_attempt,
    take_up,
)
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from outbox.quarantine import is_quarantined
from primitives.clock import from_epoch
from quotas.cluster_users import users_beside_the_portal

log = logging.getLogger(__name__)

#: Maximum number of jobs that change their size after one listing.
RESIZED_MAX = 500
_CHANGED = "Its request was changed while it waited. It was requeued with the new request."


def apply_waiting_natives(
    cluster: Cluster,
    listing: Listing,
    *,
    control: NativeControl,
    starter: NativeStarter,
    previous_at: datetime | None,
    leadership: Leadership,
    now: datetime,
    questions: Questions | None = None,
    memory: Memory | None = None,
    complain: Callable[[str], None] | None = None,
) -> OutsideUse:
    """Update the native jobs of `cluster` to `listing`; return what is held outside.

    The parameters are those of `jobs.natives.natives.apply_natives`. Raises NotLeading when the
    leadership is over.
    """
    if questions is None:
        questions = Questions()
        questions.begin_round()
    memory = memory or Memory()
    look = _Look(cluster, listing, control, starter, previous_at, leadership, now, memory)
    jobs = {
        job.id: job
        for job in Job.objects.filter(
            Q(state__in=list(lifecycle.OPEN)) | Q(pk__in=look.left),
            cluster=cluster,
            origin=JobOrigin.NATIVE,
            native_id__isnull=False,
        )
        .defer("environment", "notes")
        .select_related("pool")
    }
    attempts = {
        attempt.job_id: attempt
        for attempt in Attempt.objects.filter(cluster=cluster, released_at=None, job__in=list(jobs))
        .only(
            *COMPARED,
            *("forced_at", "cluster_user", "slots", "job__submitted_at", "job__native_id"),
            "job__pool__name",
        )
        .select_related("job__pool")
        .order_by("job_id")
    }
    memory.forget_all_but(look.listed.keys() | jobs.keys())
    look.follow(questions.in_turn("native", list(attempts.values())), questions, memory)
    strangers: dict[UUID, Stranger] = {}
    for job in look.asking.least_recent_first(
        ("cancel", "ask", "stop"), jobs.values(), lambda job: job.id
    ):
        native = look.listed.get(job.id)
        if job.id in attempts:
            continue
        if job.state in lifecycle.FINAL:
            if native is not None and native.phase is not WorkloadPhase.ENDED:
                look.end_there(job)
                strangers[job.id] = Stranger.BACK
        elif native is None or native.is_released:
            look.end_here(job, native)
        elif holds_gpus(native):
            strangers |= look.count(job, native)
        elif native.phase is WorkloadPhase.HELD:
            look.resize(job, native)
    unknown = {
        key: native
        for key, native in look.listed.items()
        if key not in jobs
        and (
            native.phase is WorkloadPhase.HELD
            or holds_gpus(native)
            or ended_since(native, previous_at)
        )
    }
    if unknown:
        strangers |= look.take_up(unknown)
    explain(
        look.listed,
        jobs.values(),
        strangers,
        starter=starter,
        asking=look.asking,
        memory=memory,
        now=now,
    )
    held = {key: (look.listed[key], why) for key, why in strangers.items()}
    held |= {
        job_id(cluster, native): (native, Stranger.ODD)
        for native in listing.natives
        if not is_possible(native)
    }
    if complain is not None and (odd := complaint_of(held.values(), listing, control)):
        complain(odd)
    known = look.taken_up | {pk for pk, job in jobs.items() if job.state in lifecycle.OPEN}
    return outside_use(
        listing,
        held,
        [
            native
            for key, native in look.listed.items()
            if key not in known and not native.slots and not native.is_released
        ],
    )


class _Look:
    """One listing of one cluster, and the calls to the cluster after it."""

    def __init__(
        self,
        cluster: Cluster,
        listing: Listing,
        control: NativeControl,
        starter: NativeStarter,
        previous_at: datetime | None,
        leadership: Leadership,
        now: datetime,
        memory: Memory,
    ) -> None:
        self.listed = {
            job_id(cluster, native): native for native in listing.natives if is_possible(native)
        }
        #: Workloads that have not ended.
        self.left = [
            key for key, one in self.listed.items() if one.phase is not WorkloadPhase.ENDED
        ]
        self.taken_up: set[UUID] = set()
        self._cluster = cluster
        self._listing = listing
        self._control = control
        self._starter = starter
        self._previous_at = previous_at
        self._leadership = leadership
        self._now = now
        self._is_frozen = is_quarantined()
        self.asking = Asking(memory, now)
        self._resized = 0

    # Jobs with an attempt

    def follow(self, attempts: Iterable[Attempt], questions: Questions, memory: Memory) -> None:
        """Apply the listing to attempts that are counted already."""
        held: list[Attempt] = []
        stuck: list[Attempt] = []
        to_start: list[Attempt] = []
        for attempt in attempts:
            native = self.listed.get(attempt.job_id)
            if native is None:
                self._miss(attempt, questions)
            elif native.phase is not WorkloadPhase.HELD:
                self._apply(attempt, native)
                if attempt.forced_at is not None and holds_gpus(native):
                    # A start that was under way may have arrived after the stop.
                    self.asking.call("stop", attempt.job_id, self._control.stop, ref_of(attempt))
                elif native.is_stuck and attempt.started_at is None:
                    stuck.append(attempt)
            elif attempt.state in (AttemptState.RESERVED, AttemptState.STARTING):
                # It has not begun: the start is repeated, as the cluster may have lost it.
                if attempt.release_sent_at is None:
                    continue
                if size_asked(native) != granted_to(attempt):
                    self._give_back(attempt, native)
                    continue
                self._apply(attempt, native)
                held.append(attempt)
                if not self._is_frozen:
                    to_start.append(attempt)
            else:
                self._close(attempt, native)
        for attempt in self.asking.least_recent_first(
            ("start",), to_start, lambda attempt: attempt.job_id
        ):
            start = partial(self._starter.start, granted=granted_to(attempt))
            self.asking.call("start", attempt.job_id, start, ref_of(attempt))
        overdue = memory.still_held.overdue([attempt.id for attempt in held], self._now)
        overdue |= memory.still_stuck.overdue([attempt.id for attempt in stuck], self._now)
        for attempt in (*held, *stuck):
            if attempt.id in overdue:
                native = self.listed[attempt.job_id]
                observation = observation_of(attempt.key, native)
                with self._leadership.fence():
                    withdraw(attempt.id, attempt.job_id, observation, self._now)

    def _miss(self, attempt: Attempt, questions: Questions) -> None:
        is_unsent = attempt.native_id is None and attempt.state in (
            AttemptState.RESERVED,
            AttemptState.STARTING,
        )
        if is_unsent or self._listing.may_have(ref_of(attempt).native_id):
            return
        ended = None
        if is_about_to_be_lost(attempt):
            try:
                ended = questions.ask(
                    "native", attempt, partial(self._control.find_ended, ref_of(attempt))
                )
            except NotAsked:
                return
            except ConnectorError as error:
                log.warning("native job %s is missing and %s", attempt.native_id, error)
                return
        self._apply(attempt, ended)

    def _close(
        self,
        attempt: Attempt,
        native: NativeWorkload,
        and_then: Callable[[], None] = lambda: None,
    ) -> None:
        """Close an attempt whose run is over while its workload waits again.

        First the cluster is told to stop it, so that it does not start before the next grant.
        """
        if self._is_frozen or not self.asking.call(
            "stop", attempt.job_id, self._control.stop, ref_of(attempt)
        ):
            return
        is_asked = attempt.stop_reason is not None
        ended_at = self._released_at(native)
        if attempt.started_at is not None:
            ended_at = max(ended_at, int(attempt.started_at.timestamp()))
        self._apply(
            attempt,
            replace(
                native,
                phase=WorkloadPhase.ENDED,
                # Preempted by the cluster's own rules, or by a failed node: it may run again.
                outcome=Outcome.STOPPED if is_asked else Outcome.PREEMPTED,
                started_at=None,
                ended_at=ended_at,
                is_released=True,
            ),
            and_then,
        )

    def _give_back(self, attempt: Attempt, native: NativeWorkload) -> None:
        """Give up a grant that differs from the present request. Nothing is started."""
        size = size_asked(native)
        if size is not None and may_become(native, attempt.job.pool.name):
            # In the same transaction, so that the old request is not granted again.
            resize = partial(self._resize, attempt.job_id, size)
            self._close(attempt, replace(native, message=_CHANGED), resize)
            return
        if self._is_frozen:
            return
        self._apply(attempt, native)
        observation = observation_of(attempt.key, native)
        with self._leadership.fence():
            # Its owner gets time to correct the request before the next grant.
            withdraw(attempt.id, attempt.job_id, observation, self._now, why=CHANGED_TOO_MUCH[1])

    def _released_at(self, native: NativeWorkload) -> int:
        """Return since when nothing of the run is left (epoch seconds).

        This listing is the first to say so. If nobody observed the cluster before, only the time up
        to its end certainly belongs to the run.
        """
        observed_at = self._listing.observed_at
        before = None if self._previous_at is None else int(self._previous_at.timestamp())
        if before is not None and observed_at - before <= LISTED_WITHIN.total_seconds():
            return observed_at
        if native.ended_at is None:
            return observed_at
        return min(observed_at, max(native.ended_at, before or 0))

    def _apply(
        self,
        attempt: Attempt,
        native: NativeWorkload | None,
        and_then: Callable[[], None] = lambda: None,
    ) -> None:
        observation = None if native is None else observation_of(attempt.key, native)
        if observation is not None and is_known(attempt, observation):
            return
        news = News(
            attempt.id, attempt.job_id, observation, release_sent_at=attempt.release_sent_at
        )
        try:
            with self._leadership.fence():
                apply_news([news], self._previous_at, self._now)
                and_then()
        except (NotLeading, OperationalError, InterfaceError):
            raise
        except Exception:
            # An error of one attempt must not block the attempts after it.
            log.exception("attempt %s could not be brought up to date", attempt.id)

    # Jobs without an attempt

    def end_there(self, job: Job) -> None:
        """End the workload of a job that has ended here, so that it never starts."""
        if not self._is_frozen:
            self.asking.call("cancel", job.id, self._starter.cancel, ref_of_job(job))

    def end_here(self, job: Job, native: NativeWorkload | None) -> None:
        """Cancel a waiting job whose workload is gone.

        The workload may also have ended without a run for this job.
        """
        if native is None:
            if self._listing.may_have(job.native_id):
                return
            found: list[NativeWorkload | None] = []
            if not self.asking.call(
                "ask",
                job.id,
                lambda ref: found.append(self._control.find_ended(ref)),
                ref_of_job(job),
            ):
                return
        with self._leadership.fence():
            locked = Job.objects.select_for_update(of=("self",)).get(pk=job.id)
            if locked.state not in lifecycle.WAITING:
                return
            lifecycle.check_move(locked.state, JobState.CANCELLED)
            locked.state = JobState.CANCELLED
            locked.end_reason = lifecycle.REMOVED
            locked.ended_at = self._now
            locked.explanation = None
            locked.save(update_fields=["state", "end_reason", "ended_at", "explanation"])
            detail = {"reason": locked.end_reason}
            record_events([Happening(job.id, self._now, "cancelled", detail)])
            publish("jobs", ids=[job.id], organization_id=job.organization_id)
            wake("arbiter")

    def resize(self, job: Job, native: NativeWorkload) -> None:
        """Update a job without a grant to the present request of its workload."""
        size = size_asked(native)
        if size is None or size == size_of_job(job) or not may_become(native, job.pool.name):
            return
        if self._resized >= RESIZED_MAX:
            return
        self._resized += 1
        with self._leadership.fence():
            self._resize(job.id, size)

    def _resize(self, job_id: UUID, size: NativeSize) -> None:
        """Set the size of a waiting job. Must run behind the fence."""
        job = Job.objects.select_for_update(of=("self",)).get(pk=job_id)
        if job.state not in lifecycle.WAITING:
            return
        before = job.mgpu
        take_size(job, size)
        job.explanation = job.explained_at = None
        job.save(
            update_fields=["mgpu_per_node", "node_count", "type", "explanation", "explained_at"]
        )
        detail = {"mgpu": job.mgpu, "before_mgpu": before}
        record_events([Happening(job.id, self._now, "resized_on_cluster", detail)])
        publish("jobs", ids=[job.id], organization_id=job.organization_id)
        wake("arbiter")

    def count(self, job: Job, native: NativeWorkload) -> dict[UUID, Stranger]:
        """Count a workload that runs without a grant, as after a restore from a backup."""
        if job.state != JobState.QUEUED:
            # The job is on hold here.
            if not self._is_frozen:
                self.asking.call("stop", job.id, self._control.stop, ref_of_job(job))
            return {job.id: Stranger.BACK}
        with self._leadership.fence():
            locked = (
                Job.objects.select_for_update(of=("self",))
                .select_related("team", "pool", "priority_class")
                .get(pk=job.id)
            )
            if locked.state != JobState.QUEUED:
                return {job.id: Stranger.NOT_YET}
            lifecycle.check_move(locked.state, JobState.STARTING)
            started_at = None if native.started_at is None else from_epoch(native.started_at)
            locked.state = (
                JobState.STARTING if native.phase is WorkloadPhase.STARTING else JobState.RUNNING
            )
            locked.attempt_number += 1
            locked.started_at = started_at
            locked.explanation = locked.explained_at = None
            locked.save(
                update_fields=[
                    "state",
                    "attempt_number",
                    "started_at",
                    "explanation",
                    "explained_at",
                ]
            )
            owner = Owner(native, locked.team, locked.user_id, locked.pool, locked.priority_class)
            self._count_running({job.id: (owner, locked)})
            publish("jobs", ids=[job.id], organization_id=job.organization_id)
            wake("arbiter")
        return {}

    def take_up(self, unknown: Mapping[UUID, NativeWorkload]) -> dict[UUID, Stranger]:
        """Create jobs of workloads that belong to a team; return why the others do not."""
        try:
            owners, strangers = owners_of(
                self._control, unknown, partial(users_beside_the_portal, now=self._now), ()
            )
        except ConnectorError as error:
            log.warning("whose natives there are is not known: %s", error)
            return dict.fromkeys(unknown, Stranger.NOT_YET)
        for key, why in self.asking.least_recent_first(
            ("start_free",), strangers.items(), lambda item: item[0]
        ):
            native = unknown[key]
            is_free = why is Stranger.ACCOUNT and native.account and mgpu_of(native) == 0
            if is_free and native.phase is WorkloadPhase.HELD and not self._is_frozen:
                # It requests no GPUs, so no quota applies.
                start = partial(self._starter.start, granted=None)
                self.asking.call("start_free", key, start, ref_of_native(native))
        made, odd = take_up(owners, self._make)
        self.taken_up |= made
        strangers |= dict.fromkeys(owners.keys() - made, Stranger.NOT_YET)
        return strangers | dict.fromkeys(odd, Stranger.ODD)

    def _make(self, owners: Mapping[UUID, Owner]) -> None:
        """Create a job of each workload, or of none."""
        with self._leadership.fence():
            jobs = {key: _waiting_job(self._cluster, owner) for key, owner in owners.items()}
            new = insert_jobs(jobs.values())
            running = {
                key: (owner, jobs[key])
                for key, owner in owners.items()
                if key in new and jobs[key].attempt_number
            }
            attempts = self._count_running(running)
            record_events(
                Happening(
                    key,
                    jobs[key].submitted_at,
                    "submitted_on_cluster",
                    {"cluster": str(self._cluster.pk), "user": owner.native.user},
                )
                for key, owner in owners.items()
                if key in new
            )
        made = {key: owner for key, (owner, _) in running.items()}
        conclude_ended(made, attempts, self._previous_at, self._leadership, self._now)

    def _count_running(self, running: Mapping[UUID, tuple[Owner, Job]]) -> dict[UUID, Attempt]:
        def attempt_of(key: UUID, owner: Owner, job: Job, unused: UnusedGuarantees) -> Attempt:
            attempt = running_attempt(
                self._cluster,
                self._listing,
                self._previous_at,
                attempt_id(key, job.attempt_number),
                owner,
                job,
                unused,
            )
            # The cluster knows it only by the id of the workload.
            attempt.cluster_user = None
            attempt.release_sent_at = attempt.granted_at
            return attempt

        attempts = count_running(running, attempt_of, self._now)
        record_events(
            Happening(attempt.job_id, attempt.granted_at, "counted_from_here", {})
            for attempt in attempts.values()
        )
        return attempts


def _waiting_job(cluster: Cluster, owner: Owner) -> Job:
    """Return the job of a workload that waits for the arbiter, or ran before it was known."""
    native = owner.native
    job = job_of(cluster, owner)
    job.cluster = cluster
    job.native_id = native.native_id
    job.is_requeueable = True
    if size := size_asked(native):
        take_size(job, size)
    if native.phase is WorkloadPhase.HELD:
        job.state = JobState.QUEUED.value
        job.started_at = None
        job.attempt_number = 0
    return job
