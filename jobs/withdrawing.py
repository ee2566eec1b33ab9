"""Take back what its cluster will not start: the GPUs reserved for it serve others meanwhile.

What a cluster itself calls stuck, in complete listings, for so long after its release that its
scheduler has looked at it often; the job queues again, and this cluster is avoided for a while.
What waits there for nodes in use keeps its place. And what a cluster that fell silent had not
acknowledged: where submissions are held, nothing runs that was not recorded and released.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from clusters.models import Cluster
from connectors.protocol import Listing, Observation
from jobs.intentions import stop_intention
from jobs.leadership import Leadership
from jobs.lifecycle import NOT_STARTED
from jobs.models import Attempt, AttemptState, Job, StopReason
from jobs.observation import conclude
from jobs.timeline import Happening, record_events
from live.publishing import publish
from outbox.quarantine import is_quarantined
from outbox.recording import intend

#: How long a cluster may call an attempt stuck after its release.
START_WITHIN = timedelta(minutes=5)
#: How long a cluster that did not start a job is not asked to start it again.
AVOIDED_FOR = timedelta(minutes=15)
#: Attempts taken back after one listing at most; the next listing goes on.
WITHDRAWN_MAX = 100
#: No number is recorded, so that nothing of it was ever released.
_UNACKNOWLEDGED = Q(
    native_id=None,
    released_at=None,
    state__in=[AttemptState.RESERVED, AttemptState.STARTING],
)


def withdraw_stuck(
    cluster: Cluster, listing: Listing, *, leadership: Leadership, now: datetime
) -> int:
    """Ask `cluster` to drop what it has called stuck for too long; returns how many.

    Its GPUs stay reserved until a listing says that it is gone: should it start at this moment
    after all, it is stopped and metered as any other. Raises NotLeading when the leadership is
    over.
    """
    if not any(one.is_stuck for key in listing.observations for one in listing.all_of(key)):
        return 0
    overdue = Attempt.objects.filter(
        cluster=cluster,
        released_at=None,
        started_at=None,
        state=AttemptState.STARTING,
        release_sent_at__lte=now - START_WITHIN,
    ).only("id", "job_id", "native_id")
    withdrawn = 0
    for attempt in overdue:
        observation = listing.seen(attempt.key, attempt.native_id)
        if observation is None or not observation.is_stuck or withdrawn == WITHDRAWN_MAX:
            continue
        with leadership.fence():
            withdrawn += _withdraw(attempt.id, attempt.job_id, observation, now)
    return withdrawn


def withdraw_unacknowledged(cluster: Cluster, *, leadership: Leadership, now: datetime) -> int:
    """Give up what `cluster`, which holds submissions and has been silent for long, may or may not
    have taken; returns how many. What it did take stays held, and `jobs.settling` removes it.

    Nothing is asked of the cluster, which is not avoided when it comes back. Raises NotLeading.
    """
    since = cluster.failing_since
    if since is None or now - since < START_WITHIN or is_quarantined():
        return 0
    unknown = Attempt.objects.filter(_UNACKNOWLEDGED, cluster=cluster).values_list("id", "job_id")
    given_up = 0
    for attempt_id, job_id in unknown[:WITHDRAWN_MAX]:
        with leadership.fence():
            given_up += _give_up(attempt_id, job_id, since, now)
    return given_up


def _give_up(attempt_id: UUID, job_id: UUID, since: datetime, now: datetime) -> int:
    job = Job.objects.select_for_update(of=("self",)).get(pk=job_id)
    attempt = (
        Attempt.objects.select_for_update(of=("self",))
        .filter(_UNACKNOWLEDGED, pk=attempt_id)
        .select_related("cluster")
        .first()
    )
    if attempt is None:
        return 0
    attempt.state = AttemptState.ENDED
    attempt.outcome = NOT_STARTED
    attempt.ended_at = attempt.released_at = now
    attempt.message = (
        f"{attempt.cluster.name} had not taken it and has not answered since "
        f"{since:%Y-%m-%d %H:%M:%S} UTC. Nothing of it runs there."
    )
    attempt.save()
    happenings: list[Happening] = []
    conclude(job, attempt, now=now, happenings=happenings)
    job.save()
    record_events(happenings)
    publish("jobs", ids=[job.id], organization_id=job.organization_id)
    return 1


def _withdraw(attempt_id: UUID, job_id: UUID, observation: Observation, now: datetime) -> int:
    # The job before its attempt, as everywhere.
    job = Job.objects.select_for_update(of=("self",)).only("id", "organization_id").get(pk=job_id)
    attempt = Attempt.objects.select_for_update().get(pk=attempt_id)
    if attempt.state != AttemptState.STARTING or attempt.started_at is not None:
        return 0
    attempt.state = AttemptState.STOPPING
    attempt.stop_reason = StopReason.WITHDRAWN
    # Nothing runs that could save anything.
    attempt.notice_at = attempt.grace_until = attempt.forced_at = now
    minutes = START_WITHIN // timedelta(minutes=1)
    attempt.message = f"Taken back after {minutes} minutes. {observation.message}"[:2000]
    attempt.save()
    intend([stop_intention("stop_attempt", attempt)], now=now)
    record_events([Happening(job.id, now, "withdrawn", {"attempt": attempt.number})])
    publish("jobs", ids=[job.id], organization_id=job.organization_id)
    return 1


def avoided_clusters(now: datetime) -> Mapping[str, frozenset[str]]:
    """By job, the clusters that did not start it a short while ago. One query; ids as texts."""
    found: dict[str, frozenset[str]] = {}
    for job_id, cluster_id in Attempt.objects.filter(
        outcome=NOT_STARTED,
        stop_reason=StopReason.WITHDRAWN,
        released_at__gt=now - AVOIDED_FOR,
    ).values_list("job_id", "cluster_id"):
        job = str(job_id)
        found[job] = found.get(job, frozenset()) | {str(cluster_id)}
    return found
