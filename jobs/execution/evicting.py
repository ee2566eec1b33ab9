"""Preempt the jobs on a node that is being emptied, without a beneficiary.

The steps are those of a reclaim's victims: notice, grace, forced stop, requeue as the next attempt.
So jobs save their work first, and no job fails, whatever its cluster does with the Pods of a gang.
The cluster itself names the jobs on the node, because the portal learns the placement of an attempt
only from a listing after its start.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import Q

from clusters.models import Cluster
from jobs import lifecycle
from jobs.actions.cancellation import ask_to_stop
from jobs.models import Attempt, AttemptState, Job, JobState, StopReason
from jobs.timeline import Happening, record_events
from live.publishing import publish
from quotas.queries import graces_s

#: Attempts in other states are stopping or have ended.
_STOPPABLE = (AttemptState.RESERVED, AttemptState.STARTING, AttemptState.RUNNING)


def native_ids(cluster: Cluster) -> frozenset[str]:
    """Return the native ids of the attempts and native jobs that may hold GPUs on `cluster`."""
    return frozenset(
        there
        for ids in Attempt.objects.filter(cluster=cluster, released_at=None).values_list(
            "native_id", "job__native_id"
        )
        for there in ids
        if there
    )


def preempt_for_drain(cluster: Cluster, node: str, there: Collection[str], *, now: datetime) -> int:
    """Preempt the jobs with native ids in `there` that are not stopping yet; return how many.

    Must run behind the fence.
    """
    if not there:
        return 0
    # The jobs before their attempts and both in the order of their ids, as everywhere.
    stoppable = Attempt.objects.filter(
        # A native job that was just started is known by its own id before its attempt is.
        Q(native_id__in=there) | Q(native_id=None, job__native_id__in=there),
        cluster=cluster,
        released_at=None,
        state__in=_STOPPABLE,
    )
    jobs = {
        job.id: job
        for job in Job.objects.select_for_update(of=("self",))
        .defer("script", "environment", "notes")
        .filter(pk__in=list(stoppable.values_list("job_id", flat=True)))
        .order_by("pk")
    }
    # Asked again under the lock: a job whose attempt has ended meanwhile may have its next attempt
    # elsewhere.
    attempts = list(
        stoppable.filter(job__in=list(jobs)).select_for_update(of=("self",)).order_by("pk")
    )
    graces = graces_s({job.priority_class_id for job in jobs.values()})
    by_grace: dict[int, list[Attempt]] = {}
    happenings: list[Happening] = []
    for attempt in attempts:
        job = jobs[attempt.job_id]
        lifecycle.check_move(job.state, JobState.PREEMPTING)
        # The same grace as the arbiter gives its victims.
        grace_s = graces[job.priority_class_id]
        by_grace.setdefault(grace_s, []).append(attempt)
        detail = {"attempt": attempt.number, "grace_s": grace_s, "drained_node": node}
        happenings.append(Happening(job.id, now, "preempting", detail))
        publish("jobs", ids=[job.id], organization_id=job.organization_id)
    for grace_s, stopped in by_grace.items():
        ask_to_stop(stopped, StopReason.PREEMPTED, grace=timedelta(seconds=grace_s), now=now)
    Job.objects.filter(pk__in=[attempt.job_id for attempt in attempts]).update(
        state=JobState.PREEMPTING
    )
    record_events(happenings)
    return len(attempts)
