"""Carry out what the arbiter decided: one effect per intention, whatever dies in between.

Each function answers one kind of outbox message. The intention is committed before the call
and the call is idempotent by the attempt's key, so a repeat is harmless; the first recorded
result wins. No cluster is called inside a transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from uuid import UUID

from django.db.models import Case, Q, Value, When
from django.db.models.functions import Coalesce, Now

from billing.reconciliations import RECONCILE_DAY
from clusters.models import Cluster
from clusters.node_requests import CHANGE_NODE
from clusters.trusted import check_trusted
from connectors.errors import ClusterUnavailable, NativeRefused, NotPrepared, WorkloadRejected
from connectors.natives import NativeControl, NativeRef
from connectors.protocol import ClusterConnector, RankSlot, Workload
from connectors.registry import KINDS_IN_PARTS, KINDS_WITH_USERS, native_control, open_connector
from jobs.leadership import Leadership
from jobs.lifecycle import NOT_STARTED
from jobs.models import Attempt, AttemptState, Job, JobOrigin, StopReason
from jobs.natives import granted_to, ref_of
from jobs.node_changes import change_node
from jobs.observation import NEVER_STARTED, conclude, recorded_id
from jobs.quota_pushes import push_quota
from jobs.reconciling import reconcile_day
from jobs.timeline import Happening, record_events
from live.publishing import publish
from outbox.delivery import Finish, Handler, NotYet
from outbox.models import Message
from outbox.quarantine import is_quarantined
from quotas.cluster_users import name_on
from quotas.pushes import PUSH_QUOTA

log = logging.getLogger(__name__)

#: Attempts in these states may still have to be sent.
_SENDABLE = (AttemptState.RESERVED, AttemptState.STARTING)


def connector_of(cluster: Cluster) -> ClusterConnector:
    """A connector to `cluster`; state lives on the cluster, so opening one is cheap.

    A cluster that never answered is prepared for its first use.

    Raises ClusterUnavailable when its kind or options cannot be used: somebody must mend them,
    and until then nothing can be known of it.
    """
    try:
        check_trusted(cluster.kind, cluster.options)
        connector = open_connector(cluster.kind, cluster.options, str(cluster.pk), cluster.identity)
    except KeyError as error:
        raise ClusterUnavailable(f"There is no connector of kind {cluster.kind!r}.") from error
    except ValueError as error:
        raise ClusterUnavailable(f"The options of {cluster.name} are wrong: {error}.") from error
    if cluster.seen_at is None:
        connector.prepare()
    return connector


#: How a handler reaches the cluster of its attempt.
Connect = Callable[[Cluster], ClusterConnector]


def handlers(
    leadership: Leadership, clock: Callable[[], datetime], connect: Connect = connector_of
) -> Mapping[str, Handler]:
    """What answers each kind of message, for one leader."""
    return {
        "start_attempt": lambda message: start_attempt(message, leadership, clock, connect),
        "notify_attempt": lambda message: notify_attempt(message, leadership, connect),
        "stop_attempt": lambda message: stop_attempt(message, leadership, connect),
        "forget_attempt": lambda message: forget_attempt(message, connect),
        CHANGE_NODE: lambda message: change_node(message, leadership, clock, connect),
        RECONCILE_DAY: lambda message: reconcile_day(message, leadership, clock, connect),
        PUSH_QUOTA: lambda message: push_quota(message, leadership, clock, connect),
    }


def workload_of(attempt: Attempt) -> Workload:
    """What a cluster is asked to run for `attempt`; pure."""
    job = attempt.job
    environment = dict(job.environment)
    environment |= {
        "TIDEGATE_JOB_ID": str(job.id),
        "TIDEGATE_JOB_NAME": job.name,
        "TIDEGATE_ATTEMPT": str(attempt.number),
        "TIDEGATE_RESTART_COUNT": str(attempt.number - 1),
        "TIDEGATE_TEAM": job.team.display_path,
        "TIDEGATE_POOL": job.pool.name,
    }
    if job.array is not None:
        environment |= {
            "TIDEGATE_ARRAY_ID": str(job.array.id),
            "TIDEGATE_ARRAY_INDEX": str(job.array_index),
            "SLURM_ARRAY_TASK_ID": str(job.array_index),
            "SLURM_ARRAY_TASK_COUNT": str(job.array.size),
            "SLURM_ARRAY_TASK_MIN": str(job.array.first_index),
            "SLURM_ARRAY_TASK_MAX": str(job.array.last_index),
        }
    if job.checkpoint_path:
        environment["TIDEGATE_CHECKPOINT_PATH"] = job.checkpoint_path
    return Workload(
        key=attempt.key,
        name=job.name,
        pool=job.pool.name,
        user=job.user.username,
        script=job.script,
        team=job.team.path.rstrip("/"),
        is_borrowed=attempt.guaranteed_mgpu < attempt.mgpu,
        is_requeueable=job.is_requeueable,
        cluster_user=attempt.cluster_user,
        slots=tuple(RankSlot(slot["node"], slot["mgpu"]) for slot in attempt.slots),
        environment=environment,
        time_limit_s=job.time_limit_s,
        notice_signal=job.notice_signal,
        features=tuple(job.features),
        image=job.image,
    )


def start_attempt(
    message: Message, leadership: Leadership, clock: Callable[[], datetime], connect: Connect
) -> Finish | None:
    """Submit the attempt and return what records the cluster's id for it, unless somebody already
    has and nothing of it can be missing.

    Raises NotYet in quarantine, and when the cluster did not answer: the same submission is sent
    again later and changes nothing if it had arrived. Where submissions are held, a second copy
    may come of it, which `jobs.settling` removes: only the recorded one is ever released.
    """
    if is_quarantined():
        raise NotYet("Tidegate is in quarantine; nothing is started.")
    attempt = _attempt(message.subject)
    if not _is_to_be_sent(attempt):
        if attempt.state == AttemptState.STOPPING and message.sends == 1:
            # Asked to stop before anybody sent it: nothing of it is on the cluster.
            with leadership.fence():
                _close_unstarted(attempt.id, "stopped", "stopped before it was sent", clock())
        return None
    if attempt.job.origin == JobOrigin.NATIVE:
        return _start_native(attempt, leadership, connect)
    if attempt.cluster.kind in KINDS_WITH_USERS and attempt.cluster_user is None:
        attempt.cluster_user = name_on(attempt.cluster, attempt.job.user_id)
        with leadership.fence():
            if attempt.cluster_user is None:
                _close_unstarted(attempt.id, NOT_STARTED, _nobody(attempt), clock())
                return None
            Attempt.objects.filter(pk=attempt.pk).update(cluster_user=attempt.cluster_user)
    try:
        native_id = connect(attempt.cluster).submit(
            workload_of(attempt), is_first=message.sends == 1
        )
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error
    except WorkloadRejected as error:
        outcome = NOT_STARTED if isinstance(error, NotPrepared) else "start_failed"
        with leadership.fence():
            is_closed = _close_unstarted(attempt.id, outcome, str(error), clock())
        if not is_closed:
            # A listing has found it since: the rest of it is refused, for now.
            raise NotYet(str(error)) from error
        return None
    return lambda: _record_id(attempt.id, native_id)


def _is_to_be_sent(attempt: Attempt) -> bool:
    if attempt.native_id is None:
        return attempt.state in _SENDABLE
    # A listing may have recorded it before its submission was answered, or behind a crash of ours;
    # it may run by now, without what it needs. What is there is found again by its key.
    return (
        attempt.cluster.kind in KINDS_IN_PARTS
        and attempt.job.origin != JobOrigin.NATIVE
        and attempt.released_at is None
        and attempt.state in (*_SENDABLE, AttemptState.RUNNING)
    )


def _start_native(attempt: Attempt, leadership: Leadership, connect: Connect) -> Finish | None:
    """Have the cluster start the workload, which waits there; repeated by `jobs.waiting_natives`
    until it begins."""
    with leadership.fence():
        # Before the call: from here on it may run, and is told again as long as it does not.
        is_wanted = Attempt.objects.filter(
            pk=attempt.pk, state__in=_SENDABLE, released_at=None
        ).update(release_sent_at=Coalesce("release_sent_at", Now()))
    if not is_wanted:
        return None
    try:
        control = native_control(attempt.cluster.kind, connect(attempt.cluster))
        if control is None or control.starter is None:
            raise NotYet(f"{attempt.cluster.name} is not set up to start what waits there.")
        control.starter.start(ref_of(attempt), granted_to(attempt))
    except NativeRefused as error:
        # The looks at its cluster repeat it, and take it back when that goes on for too long.
        log.warning("native job %s is not started: %s", attempt.job.native_id, error)
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error
    native_id = attempt.job.native_id
    assert native_id is not None
    return lambda: _record_id(attempt.id, native_id)


def _record_id(attempt_id: UUID, native_id: str) -> None:
    """The first recorded id wins; somebody may have asked to stop the attempt since."""
    Attempt.objects.filter(
        Q(native_id=None) | Q(state=AttemptState.RESERVED), pk=attempt_id
    ).update(
        native_id=Coalesce("native_id", Value(native_id)),
        state=Case(
            When(state=AttemptState.RESERVED, then=Value(AttemptState.STARTING.value)),
            default="state",
        ),
    )


def _nobody(attempt: Attempt) -> str:
    return (
        f"{attempt.job.user.login} has no user on {attempt.cluster.name}; an administrator of "
        "the platform can map one."
    )


def notify_attempt(message: Message, leadership: Leadership, connect: Connect) -> None:
    """Send the notice signal. Raises NotYet when the cluster did not answer.

    An attempt that the cluster neither acknowledged nor ever listed has nothing to save: it is
    stopped at once, so that nobody waits out a grace for what may not even be there.
    """
    attempt = _attempt(message.subject)
    if attempt.released_at is not None:
        return
    if attempt.job.origin == JobOrigin.NATIVE:
        _tell_native(attempt, connect, lambda control, ref: control.notify(ref))
        return
    if attempt.native_id is None:
        stop_attempt(message, leadership, connect)
        return
    try:
        connect(attempt.cluster).notify(attempt.key, native_id=attempt.native_id)
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error


def stop_attempt(message: Message, leadership: Leadership, connect: Connect) -> None:
    """End the attempt by force. Raises NotYet when the cluster did not answer.

    Also for an attempt that was never acknowledged: the cluster then refuses a late start, and
    observation, which from here on expects it, finds out whether it ever ran. A lost attempt
    is stopped too, in case it turns up again.
    """
    attempt = _attempt(message.subject)
    if attempt.released_at is not None and attempt.outcome != "lost":
        return
    if attempt.job.origin == JobOrigin.NATIVE:
        _tell_native(attempt, connect, lambda control, ref: control.stop(ref))
        return
    try:
        # By its key: also what the cluster took for it without anybody recording it.
        connect(attempt.cluster).stop(attempt.key, native_id=recorded_id(attempt))
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error
    with leadership.fence():
        Attempt.objects.filter(pk=attempt.pk, native_id=None).update(native_id=NEVER_STARTED)


def _tell_native(
    attempt: Attempt, connect: Connect, act: Callable[[NativeControl, NativeRef], None]
) -> None:
    """Raises NotYet when the cluster did not answer."""
    try:
        control = native_control(attempt.cluster.kind, connect(attempt.cluster))
        assert control is not None
        act(control, ref_of(attempt))
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error


def forget_attempt(message: Message, connect: Connect) -> None:
    """Let the cluster drop its record and logs of an attempt that ended long ago."""
    attempt = _attempt(message.subject)
    try:
        connect(attempt.cluster).forget(attempt.key, native_id=recorded_id(attempt))
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error


def _attempt(attempt_id: UUID) -> Attempt:
    return Attempt.objects.select_related(
        "cluster", "job", "job__team", "job__pool", "job__user", "job__array"
    ).get(pk=attempt_id)


def _close_unstarted(attempt_id: UUID, outcome: str, message: str, now: datetime) -> bool:
    """Close an attempt that never ran and never will, and move its job on; False for one that its
    cluster knows, or that is closed.

    What its cluster is not set up for (`NOT_STARTED`) queues again, and goes elsewhere for a while,
    as what was taken back does.
    """
    job_id = Attempt.objects.values_list("job_id", flat=True).get(pk=attempt_id)
    job = Job.objects.select_for_update(of=("self",)).get(pk=job_id)
    attempt = Attempt.objects.select_for_update().get(pk=attempt_id)
    if attempt.native_id is not None or attempt.released_at is not None:
        return False
    attempt.state = AttemptState.ENDED
    attempt.outcome = outcome
    attempt.ended_at = attempt.released_at = now
    attempt.message = message[:2000]
    if outcome == NOT_STARTED:
        attempt.stop_reason = StopReason.WITHDRAWN
        attempt.notice_at = attempt.grace_until = now
    attempt.save()
    happenings: list[Happening] = []
    conclude(job, attempt, now=now, happenings=happenings)
    job.save()
    record_events(happenings)
    publish("jobs", ids=[job.id], organization_id=job.organization_id)
    return True
