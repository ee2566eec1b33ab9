"""Carry out the arbiter's decisions: one effect per intention, in spite of crashes.

Each function handles one kind of outbox message. The intention is committed before the call, and
the call is idempotent by the attempt's key, so a repeat is harmless. The first recorded result
wins. No cluster is called inside a transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models.functions import Coalesce, Now

from billing.reconciliations import RECONCILE_DAY
from clusters.models import Cluster, Pool
from clusters.node_requests import CHANGE_NODE
from connectors.errors import (
    ClusterUnavailable,
    ControllerAway,
    NativeRefused,
    NotPrepared,
    WorkloadRejected,
)
from connectors.natives import NativeControl, NativeRef
from connectors.protocol import SUBMITTED_WITHIN_S, ClusterConnector
from connectors.registry import kind_named
from jobs.execution.comparing import NEVER_STARTED, recorded_id
from jobs.execution.concluding import conclude
from jobs.execution.connecting import connector_of
from jobs.execution.extending import extend_attempt
from jobs.execution.held_submissions import submit_held
from jobs.execution.native_ids import record_native_id
from jobs.execution.native_sizes import granted_to, ref_of
from jobs.execution.node_changes import change_node
from jobs.execution.quota_pushes import push_quota
from jobs.execution.reconciling import reconcile_day
from jobs.execution.workloads import workload_of
from jobs.leadership import Leadership
from jobs.lifecycle import NOT_STARTED
from jobs.models import Attempt, AttemptState, HeldSubmission, Job, JobArray, JobOrigin, StopReason
from jobs.timeline import Happening, record_events
from live.publishing import publish
from outbox.delivery import CALLED_WITHIN, Finish, Handler, NotYet
from outbox.models import Message, Quarantine
from outbox.quarantine import is_quarantined
from quotas.cluster_users import names_on
from quotas.models import PriorityClass
from quotas.pushes import PUSH_QUOTA
from quotas.queries import graces_s
from quotas.user_numbers import is_refused, needs_number, numbers_of, refusal
from tenants.models import Node, User
from webapi.statements import array_text, columns, prepared_cursor, taken

log = logging.getLogger(__name__)

# A submission that outlasts the lease of its message would be made twice at once.
assert CALLED_WITHIN.total_seconds() >= SUBMITTED_WITHIN_S

#: Attempts in these states may still have to be sent.
_SENDABLE = (AttemptState.RESERVED, AttemptState.STARTING)


#: Opens the connector to an attempt's cluster.
Connect = Callable[[Cluster], ClusterConnector]


def handlers(
    leadership: Leadership, clock: Callable[[], datetime], connect: Connect = connector_of
) -> Mapping[str, Handler]:
    """Return the handler of each kind of message, for one leader."""
    return {
        "start_attempt": Starts(leadership, clock, connect),
        "submit_held": lambda message: submit_held(message, leadership, connect),
        "notify_attempt": lambda message: notify_attempt(message, leadership, connect),
        "stop_attempt": lambda message: stop_attempt(message, leadership, connect),
        "extend_attempt": lambda message: extend_attempt(message, leadership, clock, connect),
        "forget_attempt": lambda message: forget_attempt(message, connect),
        CHANGE_NODE: lambda message: change_node(message, leadership, clock, connect),
        RECONCILE_DAY: lambda message: reconcile_day(message, leadership, clock, connect),
        PUSH_QUOTA: lambda message: push_quota(message, leadership, clock, connect),
    }


class Starts:
    """The handler of "start_attempt".

    It asks the database once for the data of all messages of a delivery. A single start would ask
    three times, and planning such a query costs more than its rows.
    """

    def __init__(
        self, leadership: Leadership, clock: Callable[[], datetime], connect: Connect
    ) -> None:
        self._leadership = leadership
        self._clock = clock
        self._connect = connect
        self._expected: dict[UUID, Attempt] = {}

    def expect(self, messages: Sequence[Message]) -> None:
        """Read the attempts of `messages` ahead; see `outbox.delivery.Expecting`.

        Does nothing in quarantine.
        """
        self._expected = {}
        if not is_quarantined():
            attempts = _attempts([message.subject for message in messages])
            _name_users(attempts, self._leadership)
            _set_graces(attempts)
            self._expected = {attempt.id: attempt for attempt in attempts}

    def __call__(self, message: Message) -> Finish | None:
        expected = self._expected.pop(message.subject, None)
        if expected is not None:
            # Other messages were sent since it was read, so it may have been cancelled meanwhile.
            _read_again(expected)
        return start_attempt(
            message, self._leadership, self._clock, self._connect, attempt=expected
        )


def start_attempt(
    message: Message,
    leadership: Leadership,
    clock: Callable[[], datetime],
    connect: Connect,
    *,
    attempt: Attempt | None = None,
) -> Finish | None:
    """Submit the attempt, and return the action that records the cluster's id for it.

    Does nothing if the id is recorded already and the submission is certainly complete. `attempt`
    is its current state, read here if it is None.

    Raises NotYet in quarantine, and when the cluster did not answer. The same submission is then
    sent again, without effect if the first arrived. On clusters that hold submissions this may
    create a second copy, which `jobs.execution.settling` removes. Only the recorded one is ever
    released.
    """
    if attempt is None:
        if is_quarantined():
            raise NotYet(_FROZEN)
        (attempt,) = _attempts([message.subject])
        _name_users([attempt], leadership)
    if not _is_to_be_sent(attempt):
        if attempt.state == AttemptState.STOPPING and message.sends == 1:
            # It was asked to stop before its first sending, so nothing of it is on the cluster.
            with leadership.fence():
                _close_unstarted(attempt.id, "stopped", "stopped before it was sent", clock())
        return None
    if attempt.job.origin == JobOrigin.NATIVE:
        return _start_native(attempt, leadership, connect)
    if _lacks_user(attempt):
        with leadership.fence():
            _close_unstarted(attempt.id, NOT_STARTED, _nobody(attempt), clock())
        return None
    try:
        native_id = connect(attempt.cluster).submit(
            workload_of(attempt), is_first=message.sends == 1 and not attempt.was_held
        )
    except ClusterUnavailable as error:
        _tell_obstacle(attempt, error, leadership)
        raise NotYet(str(error)) from error
    except WorkloadRejected as error:
        outcome = NOT_STARTED if isinstance(error, NotPrepared) else "start_failed"
        with leadership.fence():
            is_closed = _close_unstarted(attempt.id, outcome, str(error), clock())
        if not is_closed:
            # A listing has found a part of it since; the cluster refuses the rest for now.
            raise NotYet(str(error)) from error
        return None
    return lambda: record_native_id(attempt.id, native_id)


def _tell_obstacle(attempt: Attempt, error: ClusterUnavailable, leadership: Leadership) -> None:
    """Store the public part of why the attempt could not be submitted.

    It stays until a listing has a message for the attempt.
    """
    told = error.told if isinstance(error, ControllerAway) else ""
    if told == attempt.message:
        return
    with leadership.fence():
        Attempt.objects.filter(pk=attempt.pk, native_id=None, released_at=None).update(message=told)


def _is_to_be_sent(attempt: Attempt) -> bool:
    if attempt.native_id is None:
        return attempt.state in _SENDABLE
    # A listing may have recorded it before its submission was answered, or after a crash of the
    # portal. It may run by now with parts missing. The submission finds existing parts by their
    # key.
    return (
        kind_named(attempt.cluster.kind).submits_in_parts
        and attempt.job.origin != JobOrigin.NATIVE
        and attempt.released_at is None
        and attempt.state in (*_SENDABLE, AttemptState.RUNNING)
    )


def _native_control(cluster: Cluster, connect: Connect) -> NativeControl | None:
    opener = kind_named(cluster.kind).control_natives
    return None if opener is None else opener(connect(cluster))


def _start_native(attempt: Attempt, leadership: Leadership, connect: Connect) -> Finish | None:
    """Let the cluster start the native workload that waits there.

    `jobs.natives.waiting_natives` repeats this until it begins.
    """
    with leadership.fence():
        # Before the call, because from here on it may run. The start is repeated until it does.
        is_wanted = Attempt.objects.filter(
            pk=attempt.pk, state__in=_SENDABLE, released_at=None
        ).update(release_sent_at=Coalesce("release_sent_at", Now()))
    if not is_wanted:
        return None
    try:
        control = _native_control(attempt.cluster, connect)
        if control is None or control.starter is None:
            raise NotYet(
                f"{attempt.cluster.name} is not set up to start native jobs that wait there."
            )
        control.starter.start(ref_of(attempt), granted_to(attempt))
    except NativeRefused as error:
        # Later listings repeat the start, and withdraw the attempt when this goes on for too long.
        log.warning("native job %s is not started: %s", attempt.job.native_id, error)
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error
    native_id = attempt.job.native_id
    assert native_id is not None
    return lambda: record_native_id(attempt.id, native_id)


def _lacks_user(attempt: Attempt) -> bool:
    return (
        attempt.job.origin != JobOrigin.NATIVE
        and attempt.cluster_user is None
        and (
            kind_named(attempt.cluster.kind).has_users
            or needs_number(attempt.cluster)
            or is_refused(attempt.cluster, attempt.job.user.login)
        )
    )


def _name_users(attempts: Sequence[Attempt], leadership: Leadership) -> None:
    """Store the cluster users as which the attempts will run.

    This is committed before they are sent, so that a repeat uses the same user.
    """
    nameless = [one for one in attempts if _lacks_user(one) and _is_to_be_sent(one)]
    named: dict[UUID, str] = {}
    for cluster in {one.cluster for one in nameless}:
        users = {one.job.user_id for one in nameless if one.cluster_id == cluster.pk}
        names = numbers_of(users) if needs_number(cluster) else names_on(cluster, users)
        for attempt in nameless:
            if attempt.cluster_id == cluster.pk and attempt.job.user_id in names:
                named[attempt.id] = attempt.cluster_user = names[attempt.job.user_id]
    if not named:
        return
    with leadership.fence(), connection.cursor() as cursor:
        # Locked in the order of their ids, as everywhere, because an update has no order.
        cursor.execute(
            "SELECT FROM jobs_attempt WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
            [list(named)],
        )
        cursor.execute(
            """
            UPDATE jobs_attempt a SET cluster_user = v.name
            FROM unnest(%s::uuid[], %s::text[]) AS v(id, name) WHERE a.id = v.id
            """,
            [list(named), list(named.values())],
        )


def _set_graces(attempts: Sequence[Attempt]) -> None:
    graces = graces_s({attempt.job.priority_class_id for attempt in attempts})
    for attempt in attempts:
        attempt.grace_s = graces[attempt.job.priority_class_id]


def _nobody(attempt: Attempt) -> str:
    if needs_number(attempt.cluster):
        return (
            "No user number is left for jobs of this person; the operator of this installation can "
            "widen TIDEGATE_LOCAL_UIDS."
        )
    if not kind_named(attempt.cluster.kind).has_users:
        return refusal([attempt.cluster.name], attempt.job.user.login)
    return (
        f"{attempt.job.user.login} has no user on {attempt.cluster.name}; an administrator of "
        "the platform can map one."
    )


def notify_attempt(message: Message, leadership: Leadership, connect: Connect) -> None:
    """Send the notice signal. Raises NotYet when the cluster did not answer.

    An attempt that the cluster neither acknowledged nor listed has nothing to save. It is stopped
    at once, so that no grace is spent on it.
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

    This also works for an attempt that was never acknowledged. The cluster then refuses a late
    start, and observation, which from now on expects the attempt, finds out whether it ever ran. An
    attempt that is lost or was never listed is stopped too, in case it appears later.
    """
    attempt = _attempt(message.subject)
    may_turn_up = attempt.outcome == "lost" or attempt.native_id == NEVER_STARTED
    if attempt.released_at is not None and not may_turn_up:
        return
    if attempt.job.origin == JobOrigin.NATIVE:
        _tell_native(attempt, connect, lambda control, ref: control.stop(ref))
        return
    try:
        # By its key, to reach also a submission whose id was never recorded.
        connect(attempt.cluster).stop(attempt.key, native_id=recorded_id(attempt))
    except ClusterUnavailable as error:
        raise NotYet(str(error)) from error
    with leadership.fence():
        Attempt.objects.filter(pk=attempt.pk, native_id=None).update(native_id=NEVER_STARTED)


def _tell_native(
    attempt: Attempt, connect: Connect, act: Callable[[NativeControl, NativeRef], None]
) -> None:
    """Call `act` with the cluster's control. Raises NotYet when the cluster did not answer."""
    try:
        control = _native_control(attempt.cluster, connect)
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
    (attempt,) = _attempts([attempt_id])
    return attempt


def _attempts(ids: Sequence[UUID]) -> list[Attempt]:
    """Return the attempts with these ids and all data of their workloads. Raises DoesNotExist."""
    with prepared_cursor() as cursor:
        cursor.execute(_ATTEMPTS, [array_text(ids)])
        rows = cursor.fetchall()
    found = [_attempt_of(row) for row in rows]
    if len(found) < len(ids):
        raise Attempt.DoesNotExist(f"there are {len(found)} of the {len(ids)} attempts {ids}")
    return found


_ATTEMPTS = f"""
SELECT EXISTS (SELECT FROM {HeldSubmission._meta.db_table} h WHERE h.id = a.id),
       {columns(Attempt, "a")}, {columns(Cluster, "c")}, {columns(Job, "j")}, {columns(Node, "t")},
       {columns(Pool, "p")}, {columns(User, "u")}, {columns(PriorityClass, "k")},
       {columns(JobArray, "r")}
FROM jobs_attempt a
JOIN clusters_cluster c ON c.id = a.cluster_id
JOIN jobs_job j ON j.id = a.job_id
JOIN tenants_node t ON t.id = j.team_id
JOIN clusters_pool p ON p.id = j.pool_id
JOIN tenants_user u ON u.id = j.user_id
JOIN quotas_priorityclass k ON k.id = j.priority_class_id
LEFT JOIN jobs_jobarray r ON r.id = j.array_id
WHERE a.id = ANY(%s::uuid[])
"""  # noqa: S608 - the names come from the models


def _read_again(attempt: Attempt) -> None:
    """Update the fields of `attempt` that may have changed since it was read.

    Raises NotYet in quarantine.
    """
    with prepared_cursor() as cursor:
        cursor.execute(_STANDING, [attempt.id])
        row = cursor.fetchone()
    if row is None:
        raise Attempt.DoesNotExist(f"there is no attempt {attempt.id}")
    attempt.state, attempt.native_id, attempt.released_at, attempt.guaranteed_mgpu, is_frozen = row
    if is_frozen:
        raise NotYet(_FROZEN)


_FROZEN = "Tidegate is in quarantine; nothing is started."
_STANDING = f"""
SELECT state, native_id, released_at, guaranteed_mgpu,
       EXISTS (SELECT FROM {Quarantine._meta.db_table} WHERE ended_at IS NULL)
FROM jobs_attempt WHERE id = %s
"""  # noqa: S608 - the name comes from the model


def _attempt_of(row: Sequence[Any]) -> Attempt:
    was_held, *row = row
    attempt, row = taken(Attempt, row)
    attempt.was_held = was_held
    attempt.cluster, row = taken(Cluster, row)
    attempt.job, row = taken(Job, row)
    job = attempt.job
    job.team, row = taken(Node, row)
    job.pool, row = taken(Pool, row)
    job.user, row = taken(User, row)
    job.priority_class, row = taken(PriorityClass, row)
    job.array = None if job.array_id is None else taken(JobArray, row)[0]
    return attempt


def _close_unstarted(attempt_id: UUID, outcome: str, message: str, now: datetime) -> bool:
    """Close an attempt that never ran and never will, and move its job on.

    Returns False for an attempt that its cluster knows, or that is closed already.

    With `NOT_STARTED`, for example if the cluster is not set up for it, the job is requeued and
    avoids the cluster for a while, as after a withdrawal.
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
