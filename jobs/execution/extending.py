"""Carry longer time limits out on clusters, and find attempts that they did not reach in time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db.models import Max

from arbiter.explain.phrases import duration_text
from clusters.models import Cluster
from connectors.errors import ClusterUnavailable, NotOffered, WorkloadRejected
from connectors.protocol import ClusterConnector, ahead_ms
from jobs.leadership import Leadership
from jobs.models import Attempt, AttemptState, Extension, Job
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from outbox.delivery import Finish, NotYet
from outbox.models import Message
from quotas.queries import graces_s

#: A start is observed in whole seconds, and a launcher looks at its clock once a second.
_SLACK = timedelta(seconds=5)


def extend_attempt(
    message: Message,
    leadership: Leadership,
    clock: Callable[[], datetime],
    connect: Callable[[Cluster], ClusterConnector],
) -> Finish | None:
    """Tell the cluster the job's time limit, and return the action that records its answer.

    Does nothing for an attempt that ends, or for an extension that was refused with another.
    Raises NotYet when the cluster did not answer.
    """
    extension = Extension.objects.select_related("attempt__cluster", "attempt__job").get(
        pk=message.subject
    )
    attempt = extension.attempt
    if attempt.state != AttemptState.RUNNING or extension.refusal:
        return None
    # The latest of several extensions counts.
    limit_s = attempt.job.time_limit_s
    assert limit_s is not None
    try:
        connect(attempt.cluster).set_time_limit(attempt.key, limit_s, native_id=attempt.native_id)
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error
    except (NotOffered, WorkloadRejected) as error:
        with leadership.fence():
            _take_back(extension, limit_s, str(error), clock())
        return None
    return lambda: _confirm(extension, clock())


def _confirm(extension: Extension, now: datetime) -> None:
    is_new = Extension.objects.filter(pk=extension.pk, confirmed_at=None).update(confirmed_at=now)
    if is_new:
        _tell(extension, "extension_confirmed", {"time_limit_s": extension.limit_s}, now)


def _take_back(extension: Extension, sent_s: int, why: str, now: datetime) -> None:
    """Give the job the limit that its cluster has, because it never takes `sent_s`.

    All extensions up to `sent_s` that wait for the cluster are refused with it.
    """
    job = Job.objects.select_for_update(of=("self",)).get(pk=extension.attempt.job_id)
    made = Extension.objects.filter(attempt=extension.attempt)
    refused = made.filter(confirmed_at=None, refusal="", limit_s__lte=sent_s)
    if not refused.update(refusal=why[:2000]):
        return
    kept_s = made.exclude(confirmed_at=None).aggregate(kept_s=Max("limit_s"))["kept_s"]
    if kept_s is None:
        kept_s = made.earliest("asked_at", "id").before_s
    if job.time_limit_s == sent_s:
        job.time_limit_s = kept_s
        job.save(update_fields=["time_limit_s"])
    detail = {"time_limit_s": kept_s, "why": why[:2000]}
    _tell(extension, "extension_refused", detail, now)
    wake("arbiter")


def _tell(extension: Extension, event: str, detail: dict[str, object], now: datetime) -> None:
    job = extension.attempt.job
    record_events([Happening(job.id, now, event, detail)])
    publish("jobs", ids=[job.id], organization_id=job.organization_id)


def missed_extension(job: Job, attempt: Attempt) -> str:
    """Return the sentence for an attempt that an earlier time limit ended; "" for all others.

    The extension reached its cluster only after the notice of that limit, or not at all.
    """
    if attempt.outcome != "timed_out" or job.time_limit_s is None:
        return ""
    if attempt.started_at is None or attempt.ended_at is None:
        return ""
    last = Extension.objects.filter(attempt=attempt, refusal="").order_by("limit_s").last()
    if last is None:
        return ""
    grace_s = graces_s([job.priority_class_id])[job.priority_class_id]
    early = timedelta(milliseconds=ahead_ms(job.time_limit_s, job.signal_ahead_s, grace_s))
    noticed_after = timedelta(seconds=job.time_limit_s) - early
    if attempt.ended_at - attempt.started_at + _SLACK >= noticed_after:
        return ""
    return (
        f"The extension to {duration_text(last.limit_s)} did not reach the cluster before the "
        "notice of the earlier time limit, so the job ended at that."
    )
