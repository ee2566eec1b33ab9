"""Withdraw attempts that their cluster will not start, so that their GPUs serve other jobs.

Five kinds of attempts are withdrawn:

- The cluster calls it stuck, or keeps it held, for START_WITHIN after its release, by complete
  listings. In that time its scheduler has tried it often. The job queues again and avoids this
  cluster for a while.
- The cluster says that it will never start it as it is. NEVER_WITHIN is enough for that.
- The cluster ended it and queued it again by itself. An attempt runs once, and would be charged for
  this wait.
- It was changed on the cluster before it began, so it would hold other GPUs than were granted.
- The cluster fell silent before it acknowledged the submission.

An attempt that waits there for nodes in use keeps its place.

The last kind needs a cluster that holds submissions, where nothing runs that was not recorded and
released. A job that any cluster may run is then withdrawn within seconds, so that another cluster
runs it. Attempts that may run without a release (`local` clusters) are never withdrawn for silence,
because they could run twice.
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
from jobs.execution.concluding import conclude
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
#: How long a cluster may say that it will never start an attempt. A controller that has just begun
#: may believe nodes missing that register a moment later.
NEVER_WITHIN = timedelta(seconds=30)
#: Listings further apart prove nothing about the time between them.
LISTED_WITHIN = timedelta(seconds=60)
#: How long a cluster may leave a submission unanswered, in seconds, while it answers nothing else
#: either, before a job that any cluster may run is placed on another one.
UNANSWERED_S = 20
#: The most attempts withdrawn after one listing; the next listing goes on.
WITHDRAWN_MAX = 100
_WAITING = frozenset({WorkloadPhase.HELD, WorkloadPhase.STARTING})
_REQUEUED = "The cluster ended this run and requeued it. The job goes on with a new attempt."
#: No number is recorded, so nothing was ever released.
_UNACKNOWLEDGED = Q(
    native_id=None,
    release_sent_at=None,
    released_at=None,
    state__in=[AttemptState.RESERVED, AttemptState.STARTING],
)


class StillHeld:
    """The attempts that one cluster keeps held after their release, and since when.

    A cluster may refuse releases, for example while it waits for its own database. Times without
    answers do not count.
    """

    def __init__(self) -> None:
        self._since: dict[UUID, datetime] = {}
        self._looked_at: datetime | None = None

    def overdue(self, attempts: Iterable[UUID], now: datetime) -> frozenset[UUID]:
        """Return the `attempts` that are held for too long.

        They must be all released attempts that this listing shows as held.
        """
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
    """Ask `cluster` to drop attempts that did not start for too long; return how many.

    They are called stuck, or are `still_held` after their release. The GPUs stay reserved until a
    listing shows that the attempt is gone. If it starts just now after all, it is stopped and
    metered like any other. Raises NotLeading when the leadership is over.
    """
    still_held = still_held or StillHeld()
    if not any(_is_kept(one) for key in listing.observations for one in listing.all_of(key)):
        still_held.overdue((), now)
        return 0
    limit = now - NEVER_WITHIN
    found = [
        (attempt, observation)
        for attempt in Attempt.objects.filter(
            # A job may have been held there by others before it could be released.
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
    """Ask `cluster` to drop waiting attempts that were altered or requeued there; return how many.

    Their jobs get a new attempt from the portal. Raises NotLeading when the leadership is over.
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
    """Return whether its cluster queued it again.

    A controller that crashed and forgot the start begins it again by itself, and does not count
    that.
    """
    return observation.phase in _WAITING and observation.restarts > 0


def _is_altered(observation: Observation) -> bool:
    return observation.phase in _WAITING and observation.is_altered


def _is_kept(observation: Observation) -> bool:
    """Return whether the cluster keeps it from starting: it is stuck, or still held."""
    return observation.is_stuck or observation.phase is WorkloadPhase.HELD


def withdraw_unacknowledged(cluster: Cluster, *, leadership: Leadership, now: datetime) -> int:
    """Give up attempts that a long silent `cluster` has not acknowledged; return how many.

    The cluster must hold submissions. Jobs that are pinned to it are included. An accepted
    submission stays held, and `jobs.execution.settling` removes it.

    The cluster is not called, and is not avoided when it comes back. Raises NotLeading.
    """
    since = cluster.failing_since
    if since is None or now - since < START_WITHIN:
        return 0
    silence = f"has not answered since {since:%Y-%m-%d %H:%M:%S} UTC"
    return _give_up(Attempt.objects.filter(cluster=cluster), silence, leadership, now)


def withdraw_unanswered(
    clusters: Collection[UUID], *, leadership: Leadership, now: datetime
) -> int:
    """Give up starts that a silent one of `clusters` left unanswered; return how many.

    The jobs must not be pinned, and the cluster must have answered nothing for UNANSWERED_S.

    Each of `clusters` must be known to hold nothing that this database has forgotten, because after
    a restore a start without an id may have run. The caller must have called them all this time. A
    silent cluster accepts no starts until it answers again. Raises NotLeading.
    """
    # Until the last answer is stale, the arbiter would place the job there again.
    unanswered_s = max(UNANSWERED_S, settings.STALE_AFTER_S + 1)
    limit = now - timedelta(seconds=unanswered_s)
    unanswered = Attempt.objects.filter(
        cluster__in=clusters,
        cluster__kind__in=kinds_where(lambda kind: kind.submits_held),
        cluster__seen_at__lte=limit,
        granted_at__lte=limit,
        # Pinned jobs have no other cluster.
        job__cluster=None,
    )
    return _give_up(unanswered, f"did not answer within {unanswered_s} s", leadership, now)


def _give_up(among: QuerySet[Attempt], silence: str, leadership: Leadership, now: datetime) -> int:
    """Close attempts that were never acknowledged, so that nothing of them runs; return how many.

    `silence` says how their cluster was silent.
    """
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
    # Read again under the lock, because an id recorded meanwhile may have been released.
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
        f"{attempt.cluster.name} {silence}, so the start was withdrawn. Nothing of it runs there."
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
    """Ask the cluster to drop an attempt that it did not start; return 0 if it did start, else 1.

    `why` replaces the message about how long it has not started. Must run behind the fence.
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
    attempt.message = (why or f"Withdrawn{after}. {said}")[:2000]
    attempt.save()
    intend([stop_intention("stop_attempt", attempt)], now=now)
    record_events([Happening(job.id, now, "withdrawn", {"attempt": attempt.number})])
    publish("jobs", ids=[job.id], organization_id=job.organization_id)
    return 1
