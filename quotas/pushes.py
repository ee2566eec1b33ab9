"""The quota tree against a cluster's own limits: asked for here, carried out by the observer.

A difference that somebody accepted is neither shown nor overwritten, until either side of it
changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from audit.recording import record
from clusters.models import Cluster
from clusters.registration import Administrator, delete_cluster
from connectors.entitlements import Change, ChangeKind, Value
from connectors.registry import kind_named
from live.publishing import PLATFORM, publish
from live.waking import wake
from outbox.recording import Intention, intend, withdraw_unsent
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from quotas.models import (
    AcceptedDifference,
    ClusterUser,
    QuotaChange,
    QuotaPush,
    QuotaPushKind,
    QuotaPushStatus,
)
from tenants.models import Node, RoleGrant
from webapi.middleware import current_request_id

#: The kind of message whose subject is a QuotaPush.
PUSH_QUOTA = "push_quota"
CHECK_EVERY = timedelta(minutes=10)
#: A cluster that is away for longer is not surprised with what somebody wanted before.
PATIENCE = timedelta(minutes=15)
CHANGES_KEPT = 1_000
SUBJECTS_MAX = 1_000
_WAITING_MAX = 10
_CHECKS_KEPT = 50
_ERROR_LENGTH_MAX = 2_000
#: Stands for all settings of a thing that is there on one side only.
_WHOLE = "*"


def push_shard(cluster_id: UUID) -> str:
    """Where what is asked of the limits of a cluster queues: it may take minutes."""
    return f"{cluster_id}/quota"


def keeps_limits(cluster: Cluster) -> bool:
    """Whether `cluster` keeps limits of its own, to which quotas are pushed."""
    return kind_named(cluster.kind).control_entitlements is not None


@transaction.atomic
def request_push(
    cluster: Cluster,
    kind: QuotaPushKind,
    *,
    subjects: Sequence[str] = (),
    by: Administrator,
    now: datetime,
) -> QuotaPush:
    """Ask for a comparison, or for what follows from one; the observer carries it out.

    Raises InvalidRequest for a kind of cluster that keeps no limits, or subjects where none can
    be, and Conflict while the cluster is disabled or ten requests wait for it.
    """
    if not keeps_limits(cluster):
        raise InvalidRequest(
            f"A {cluster.kind} cluster keeps no limits of its own: the portal alone holds the "
            "quotas there, so nothing is to be pushed."
        )
    if subjects and kind != QuotaPushKind.ACCEPT:
        raise InvalidRequest(
            "Only an acceptance is cut to some subjects; leave them out.",
            errors=[FieldError("/subjects", "goes with kind accept only")],
        )
    # The row's lock also makes requests for one cluster wait for each other.
    cluster = Cluster.objects.select_for_update().get(pk=cluster.pk)
    if not cluster.is_enabled:
        raise Conflict(f"{cluster.name} is disabled, so nothing is asked of it; enable it first.")
    if _waiting(cluster).count() >= _WAITING_MAX:
        raise Conflict(
            f"{_WAITING_MAX} requests wait for {cluster.name} already; it may not be answering."
        )
    push = _store(cluster, kind, subjects=list(subjects), requested_by_id=by.id, now=now)
    record(
        action=f"quota_push.{kind}",
        subject_kind="cluster",
        subject_id=cluster.pk,
        now=now,
        actor_id=by.id,
        actor=by.login,
        detail={"cluster": cluster.name, "push": str(push.pk), "subjects": list(subjects)[:100]},
        request_id=current_request_id(),
    )
    wake("observer")
    return push


def push_by_id(cluster: Cluster, push_id: UUID) -> QuotaPush:
    """The request. Raises NotFound."""
    push = QuotaPush.objects.select_related("requested_by").filter(cluster=cluster, pk=push_id)
    found = push.first()
    if found is None:
        raise NotFound("There is no such request for this cluster.")
    return found


def is_check_due(cluster: Cluster, *, now: datetime) -> bool:
    """Whether the observer should compare by itself: every ten minutes, after the quotas or the
    cluster's users changed, somebody got a role, a node of the tree is new or was moved, and not
    while something waits. At most seven small queries."""
    if not (keeps_limits(cluster) and cluster.is_enabled):
        return False
    last = QuotaPush.objects.filter(cluster=cluster).order_by("-pk").first()
    if last is None or last.requested_at <= now - CHECK_EVERY:
        return last is None or last.status != QuotaPushStatus.WAITING
    if last.status == QuotaPushStatus.WAITING:
        return False
    changed = QuotaChange.objects.order_by("-pk").first()
    granted = RoleGrant.objects.order_by("-pk").first()
    mapped = ClusterUser.objects.filter(cluster=cluster).order_by("-pk").first()
    planted = Node.objects.order_by("-pk").first()
    moved = Node.objects.filter(moved_at__gt=last.requested_at)
    return (
        (changed is not None and changed.at > last.requested_at)
        or moved.exists()
        or any(
            one is not None and _made_at_ms(one.pk) > last.requested_at.timestamp() * 1_000
            for one in (granted, mapped, planted)
        )
    )


def _made_at_ms(identifier: UUID) -> int:
    """When a UUIDv7 was made."""
    return identifier.int >> 80


@transaction.atomic
def request_check(cluster: Cluster, *, now: datetime) -> QuotaPush:
    """A check that the observer makes by itself; the oldest of such go."""
    push = _store(cluster, QuotaPushKind.CHECK, subjects=[], requested_by_id=None, now=now)
    own = QuotaPush.objects.filter(cluster=cluster, kind=QuotaPushKind.CHECK, requested_by=None)
    kept = list(own.order_by("-pk").values_list("pk", flat=True)[:_CHECKS_KEPT])
    own.exclude(pk__in=kept).delete()
    return push


@transaction.atomic
def check_changed(cluster: Cluster, *, now: datetime) -> None:
    """Have a cluster compared whose options were changed: what is to be there may be another now.
    Where something waits already, that does it."""
    if keeps_limits(cluster) and cluster.is_enabled and not _waiting(cluster).exists():
        request_check(cluster, now=now)
        wake("observer")


@transaction.atomic
def delete_never_used(cluster: Cluster, *, by: Administrator, now: datetime) -> None:
    """Delete a cluster that never answered, with the checks that the observer asked of it by
    itself. Raises Conflict as `delete_cluster`."""
    checks = QuotaPush.objects.filter(cluster=cluster, kind=QuotaPushKind.CHECK, requested_by=None)
    withdraw_unsent(PUSH_QUOTA, list(checks.values_list("pk", flat=True)), now=now)
    checks.delete()
    delete_cluster(cluster, by=by, now=now)


def _store(cluster: Cluster, kind: QuotaPushKind, *, now: datetime, **values: Any) -> QuotaPush:
    push = QuotaPush.objects.create(cluster=cluster, kind=kind, requested_at=now, **values)
    intend([Intention(PUSH_QUOTA, push.pk, push_shard(cluster.pk))], now=now)
    publish("clusters", ids=[cluster.pk], organization_id=None, audience=PLATFORM)
    return push


def _waiting(cluster: Cluster) -> Any:
    return QuotaPush.objects.filter(cluster=cluster, status=QuotaPushStatus.WAITING)


def save_outcome(
    push: QuotaPush,
    status: QuotaPushStatus,
    changes: Sequence[dict[str, Any]],
    *,
    error: str = "",
    now: datetime,
) -> None:
    """Store what has become of a request that waits. Must run in a transaction."""
    push.status = status
    push.changes = list(changes[:CHANGES_KEPT])
    push.change_count = len(changes)
    push.error = error[:_ERROR_LENGTH_MAX]
    push.done_at = None if status == QuotaPushStatus.WAITING else now
    push.save(update_fields=["status", "changes", "change_count", "error", "done_at"])
    publish("clusters", ids=[push.cluster_id], organization_id=None, audience=PLATFORM)


def shown(change: Change, result: str) -> dict[str, Any]:
    """A change as it is stored and shown, with what became of it."""
    return {
        "kind": change.kind.value,
        "subject": change.subject,
        "before": dict(change.before),
        "after": dict(change.after),
        "note": change.note,
        "result": result,
    }


def without_accepted(cluster: Cluster, changes: Iterable[Change]) -> tuple[Change, ...]:
    """What is left of `changes` without what somebody accepted. One query."""
    accepted = {
        (item.subject, item.setting): (item.before, item.after)
        for item in AcceptedDifference.objects.filter(cluster=cluster)
    }
    found = []
    for change in changes:
        parts = _parts(change)
        open_parts = {
            setting
            for setting, sides in parts.items()
            if accepted.get((change.subject, setting)) != sides
        }
        if open_parts == set(parts):
            found.append(change)
        elif open_parts:
            found.append(
                replace(
                    change,
                    before=_only(change.before, open_parts),
                    after=_only(change.after, open_parts),
                )
            )
    return tuple(found)


def accepted_differences(cluster: Cluster) -> QuerySet[AcceptedDifference]:
    """What somebody lets stand there, with who did and when."""
    accepted = AcceptedDifference.objects.filter(cluster=cluster)
    return accepted.select_related("push__requested_by")


@transaction.atomic
def withdraw_acceptance(
    cluster: Cluster, difference_id: int, *, by: Administrator, now: datetime
) -> None:
    """Let it stand no longer: the next comparison shows it, and the next push changes it. Raises
    NotFound."""
    difference = accepted_differences(cluster).filter(pk=difference_id).first()
    if difference is None:
        raise NotFound("There is no such difference that somebody lets stand on this cluster.")
    difference.delete()
    record(
        action="quota_push.unaccept",
        subject_kind="cluster",
        subject_id=cluster.pk,
        now=now,
        actor_id=by.id,
        actor=by.login,
        detail={
            "cluster": cluster.name,
            "subject": difference.subject,
            "setting": difference.setting,
        },
        request_id=current_request_id(),
    )
    publish("clusters", ids=[cluster.pk], organization_id=None, audience=PLATFORM)


def accept(push: QuotaPush, changes: Iterable[Change]) -> None:
    """Let these differences stand. Must run in a transaction."""
    for change in changes:
        for setting, (before, after) in _parts(change).items():
            AcceptedDifference.objects.update_or_create(
                cluster=push.cluster,
                subject=change.subject,
                setting=setting,
                defaults={"before": before, "after": after, "push": push},
            )


def forget_settled(cluster: Cluster, changes: Iterable[Change]) -> None:
    """Drop acceptances of what is no difference any more, or another one: should the same come
    again, it is shown again. `changes` are all that there are. Must run in a transaction."""
    present = {
        (change.subject, setting): sides
        for change in changes
        for setting, sides in _parts(change).items()
    }
    gone = [
        item.pk
        for item in AcceptedDifference.objects.filter(cluster=cluster)
        if present.get((item.subject, item.setting)) != (item.before, item.after)
    ]
    if gone:
        AcceptedDifference.objects.filter(pk__in=gone).delete()


def shown_difference(difference: AcceptedDifference) -> dict[str, Any]:
    """What stands, as it is shown: both sides by setting, as in a change."""
    before, after = difference.before, difference.after
    is_whole = difference.setting == _WHOLE
    return {
        "id": difference.pk,
        "subject": difference.subject,
        "before": before or {} if is_whole else {difference.setting: before},
        "after": after or {} if is_whole else {difference.setting: after},
        "accepted_by": by.login if (by := difference.push.requested_by) else "",
        "accepted_at": difference.push.requested_at,
    }


def _parts(change: Change) -> dict[str, tuple[Any, Any]]:
    """The differences in a change that can be accepted one by one: setting -> (before, after)."""
    if change.kind in (ChangeKind.CREATE, ChangeKind.DELETE):
        return {_WHOLE: (dict(change.before), dict(change.after))}
    return {
        setting: (change.before.get(setting), change.after[setting]) for setting in change.after
    }


def _only(values: Mapping[str, Value], settings: set[str]) -> dict[str, Value]:
    return {setting: value for setting, value in values.items() if setting in settings}
