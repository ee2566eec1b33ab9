"""Take back what its cluster will not start: the GPUs reserved for it serve others meanwhile.

Also what its cluster has ended and queued anew by itself: an attempt runs once, and would be
charged for as long as it waits there. And what somebody changed there before it began: other GPUs
were granted than it would hold.

What a cluster itself calls stuck, in complete listings, for so long after its release that its
scheduler has looked at it often; the job queues again, and this cluster is avoided for a while.
What it says it will never start, so as it is, has less time. What waits there for nodes in use
keeps its place. And what a cluster that fell silent had not
acknowledged: where submissions are held, nothing runs that was not recorded and released. A job
that any cluster may run is taken back within seconds, so that another cluster runs it. What may
run without a release (`local` clusters) is never taken back for silence: it could run twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet

from clusters.models import Cluster
from connectors.protocol import Listing, Observation, WorkloadPhase
from connectors.registry import kinds_where
from jobs.execution.observation import conclude
from jobs.execution.settling import attempt_id_of
from jobs.intentions import stop_intention
from jobs.leadership import Leadership
from jobs.lifecycle import NOT_STARTED
from jobs.models import Attempt, AttemptState, Job, StopReason
from jobs.timeline import Happening, record_events
from live.publishing import publish
from outbox.quarantine import is_quarantined
from outbox.recording import intend

#: How long a cluster may call an attempt stuck after its release.
START_WITHIN = timedelta(minutes=5)
#: How long it may say that it will never start it: a controller that has just begun may take nodes
#: for missing that tell of themselves a moment later.
NEVER_WITHIN = timedelta(seconds=30)
#: Listings that are further apart say nothing of the time between them.
LISTED_WITHIN = timedelta(seconds=60)
#: How long a cluster may leave a submission unanswered, in seconds, while it answers nothing else
#: either, before a job that any cluster may run is placed on another one.
UNANSWERED_S = 20
#: Attempts taken back after one listing at most; the next listing goes on.
WITHDRAWN_MAX = 100
_WAITING = frozenset({WorkloadPhase.HELD, WorkloadPhase.STARTING})
_REQUEUED = "Its cluster ended this run and queued it anew; its next attempt is another one."
#: No number is recorded, so that nothing of it was ever released.
_UNACKNOWLEDGED = Q(
    native_id=None,
    release_sent_at=None,
    released_at=None,
    state__in=[AttemptState.RESERVED, AttemptState.STARTING],
)


class StillHeld:
    """What one cluster goes on holding though it was told to release it, and since when: it may
    refuse, for one while it waits for its own database. Of a time in which it did not answer
    nothing counts."""

    def __init__(self) -> None:
        self._since: dict[UUID, datetime] = {}
        self._looked_at: datetime | None = None

    def overdue(self, attempts: Iterable[UUID], now: datetime) -> frozenset[UUID]:
        """Of the released `attempts` that this listing has held, those held for too long."""
        if self._looked_at is not None and now - self._looked_at > LISTED_WITHIN:
            self._since = {}
        self._looked_at = now
        self._since = {attempt: self._since.get(attempt, now) for attempt in attempts}
        return frozenset(
            attempt for attempt, since in self._since.items() if now - since >= START_WITHIN
        )


def withdraw_stuck(
    cluster: Cluster,
    listing: Listing,
    *,
    leadership: Leadership,
    now: datetime,
    still_held: StillHeld | None = None,
) -> int:
    """Ask `cluster` to drop what it has called stuck for too long, and what it is `still_held`;
    returns how many.

    Its GPUs stay reserved until a listing says that it is gone: should it start at this moment
    after all, it is stopped and metered as any other. Raises NotLeading when the leadership is
    over.
    """
    still_held = still_held or StillHeld()
    if not any(_is_kept(one) for key in listing.observations for one in listing.all_of(key)):
        still_held.overdue((), now)
        return 0
    limit = now - NEVER_WITHIN
    found = [
        (attempt, observation)
        for attempt in Attempt.objects.filter(
            # What somebody holds there may have been held before it could be released.
            Q(release_sent_at__lte=limit) | Q(release_sent_at=None, granted_at__lte=limit),
            cluster=cluster,
            released_at=None,
            started_at=None,
            state=AttemptState.STARTING,
        ).only("id", "job_id", "native_id", "release_sent_at", "granted_at")
        if (observation := listing.seen(attempt.key, attempt.native_id)) is not None
        and (
            observation.never_starts
            or now - (attempt.release_sent_at or attempt.granted_at) >= START_WITHIN
        )
    ]
    held_for_long = still_held.overdue(
        [
            attempt.id
            for attempt, observation in found
            if observation.phase is WorkloadPhase.HELD and attempt.release_sent_at is not None
        ],
        now,
    )
    withdrawn = 0
    for attempt, observation in found:
        is_stuck = observation.is_stuck and (
            attempt.release_sent_at is not None
            or observation.is_held_by_others
            or observation.never_starts
        )
        if not (is_stuck or attempt.id in held_for_long) or withdrawn == WITHDRAWN_MAX:
            continue
        with leadership.fence():
            withdrawn += withdraw(attempt.id, attempt.job_id, observation, now)
    return withdrawn


def withdraw_changed(
    cluster: Cluster, listing: Listing, *, leadership: Leadership, now: datetime
) -> int:
    """Ask `cluster` to drop attempts that wait in its queue and are not what was submitted (any
    more), or ran before; returns how many.

    Their next attempt is ours. Raises NotLeading when the leadership is over.
    """
    changed = [
        attempt_id
        for key in listing.observations
        if any(_is_requeued(one) or _is_altered(one) for one in listing.all_of(key))
        and (attempt_id := attempt_id_of(key)) is not None
    ]
    if not changed:
        return 0
    waiting = Attempt.objects.filter(
        pk__in=changed, cluster=cluster, released_at=None, state=AttemptState.STARTING
    ).only("id", "job_id", "native_id")
    withdrawn = 0
    for attempt in waiting:
        if withdrawn == WITHDRAWN_MAX:
            break
        observation = listing.seen(attempt.key, attempt.native_id)
        if attempt.native_id is None or observation is None:
            continue
        is_requeued = _is_requeued(observation)
        if is_requeued or _is_altered(observation):
            why = _REQUEUED if is_requeued else observation.message
            with leadership.fence():
                withdrawn += withdraw(attempt.id, attempt.job_id, observation, now, why=why)
    return withdrawn


def _is_requeued(observation: Observation) -> bool:
    """Whether its cluster queued it anew. A controller that crashed and forgot the start begins it
    again by itself, and has not counted that."""
    return observation.phase in _WAITING and observation.restarts > 0


def _is_altered(observation: Observation) -> bool:
    return observation.phase in _WAITING and observation.is_altered


def _is_kept(observation: Observation) -> bool:
    """Whether the cluster keeps it from starting, by its own word or by not letting go of it."""
    return observation.is_stuck or observation.phase is WorkloadPhase.HELD


def withdraw_unacknowledged(cluster: Cluster, *, leadership: Leadership, now: datetime) -> int:
    """Give up what `cluster`, which holds submissions and has been silent for long, may or may not
    have taken, jobs that are pinned to it included; returns how many. What it did take stays held,
    and `jobs.execution.settling` removes it.

    Nothing is asked of the cluster, which is not avoided when it comes back. Raises NotLeading.
    """
    since = cluster.failing_since
    if since is None or now - since < START_WITHIN:
        return 0
    silence = f"has not answered since {since:%Y-%m-%d %H:%M:%S} UTC"
    return _give_up(Attempt.objects.filter(cluster=cluster), silence, leadership, now)


def withdraw_unanswered(
    clusters: Collection[UUID], *, leadership: Leadership, now: datetime
) -> int:
    """Give up starts of jobs that any cluster may run, which one of `clusters` left unanswered for
    UNANSWERED_S while it answered nothing else; returns how many.

    Of `clusters` it must be known that they hold nothing that this database has forgotten: after a
    restore a start without an id may have run. The caller has asked them all this time. Until such
    a cluster answers again, it accepts no starts. Raises NotLeading.
    """
    # As long as its last answer counts, the arbiter would place the job there again.
    unanswered_s = max(UNANSWERED_S, settings.STALE_AFTER_S + 1)
    limit = now - timedelta(seconds=unanswered_s)
    unanswered = Attempt.objects.filter(
        cluster__in=clusters,
        cluster__kind__in=kinds_where(lambda kind: kind.submits_held),
        cluster__seen_at__lte=limit,
        granted_at__lte=limit,
        # Its author, or its own cluster, left no other choice.
        job__cluster=None,
    )
    return _give_up(unanswered, f"did not answer within {unanswered_s} s", leadership, now)


def _give_up(among: QuerySet[Attempt], silence: str, leadership: Leadership, now: datetime) -> int:
    """Close attempts of which nothing runs, as nothing of them was acknowledged; returns how many.
    `silence` says what their cluster did."""
    unknown = list(among.filter(_UNACKNOWLEDGED).values_list("id", "job_id")[:WITHDRAWN_MAX])
    if not unknown or is_quarantined():
        return 0
    given_up = 0
    for attempt_id, job_id in unknown:
        with leadership.fence():
            given_up += _give_up_one(attempt_id, job_id, silence, now)
    return given_up


def _give_up_one(attempt_id: UUID, job_id: UUID, silence: str, now: datetime) -> int:
    job = Job.objects.select_for_update(of=("self",)).get(pk=job_id)
    # Read again under the lock: whoever recorded an id meanwhile may have it released.
    attempt = (
        Attempt.objects.select_for_update(of=("self",))
        .filter(_UNACKNOWLEDGED, pk=attempt_id)
        .select_related("cluster")
        .first()
    )
    if attempt is None:
        return 0
    # Closed, so that an id which is recorded later is never released (`jobs.execution.settling`).
    attempt.state = AttemptState.ENDED
    attempt.outcome = NOT_STARTED
    attempt.stop_reason = StopReason.WITHDRAWN
    attempt.ended_at = attempt.released_at = now
    attempt.message = (
        f"{attempt.cluster.name} {silence}, so the job was taken back. Nothing of it runs there."
    )
    attempt.save()
    happenings = [
        Happening(
            job.id,
            now,
            "withdrawn",
            {"attempt": attempt.number, "because": attempt.message},
        )
    ]
    conclude(job, attempt, now=now, happenings=happenings)
    job.save()
    record_events(happenings)
    publish("jobs", ids=[job.id], organization_id=job.organization_id)
    return 1


def withdraw(
    attempt_id: UUID,
    job_id: UUID,
    observation: Observation,
    now: datetime,
    *,
    why: str | None = None,
) -> int:
    """Ask its cluster to drop an attempt that it did not start; 0 when it did after all, else 1.

    `why` is what people are told in place of how long it has not started. Must run behind the
    fence.
    """
    # The job before its attempt, as everywhere.
    job = Job.objects.select_for_update(of=("self",)).only("id", "organization_id").get(pk=job_id)
    attempt = Attempt.objects.select_for_update().get(pk=attempt_id)
    has_run = attempt.started_at is not None and not _is_requeued(observation)
    if attempt.state != AttemptState.STARTING or has_run:
        return 0
    attempt.state = AttemptState.STOPPING
    attempt.stop_reason = StopReason.WITHDRAWN
    # Nothing runs that could save anything.
    attempt.notice_at = attempt.grace_until = attempt.forced_at = now
    minutes = START_WITHIN // timedelta(minutes=1)
    said = observation.message
    has_reason = observation.is_stuck or observation.is_held_by_others
    if observation.phase is WorkloadPhase.HELD and not has_reason:
        said = "The cluster kept it held after it was asked to release it."
    after = "" if observation.never_starts else f" after {minutes} minutes"
    attempt.message = (why or f"Taken back{after}. {said}")[:2000]
    attempt.save()
    intend([stop_intention("stop_attempt", attempt)], now=now)
    record_events([Happening(job.id, now, "withdrawn", {"attempt": attempt.number})])
    publish("jobs", ids=[job.id], organization_id=job.organization_id)
    return 1
