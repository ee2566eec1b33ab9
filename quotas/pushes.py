"""Requests about the quota tree and a cluster's own limits. The observer handles them.

An accepted difference is neither shown nor overwritten, until one of its sides changes.
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
#: A request fails if the cluster is unreachable for longer, so that it is never applied much later.
PATIENCE = timedelta(minutes=15)
CHANGES_KEPT = 1_000
SUBJECTS_MAX = 1_000
_WAITING_MAX = 10
_CHECKS_KEPT = 50
_ERROR_LENGTH_MAX = 2_000
#: Stands for all settings of an object that exists on one side only.
_WHOLE = "*"


def push_shard(cluster_id: UUID) -> str:
    """Return the outbox shard for requests about a cluster's limits, which may take minutes."""
    return f"{cluster_id}/quota"


def keeps_limits(cluster: Cluster) -> bool:
    """Return whether `cluster` has limits of its own, to which quotas are pushed."""
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
    """Request a comparison, or a push or acceptance. The observer handles it.

    Raises InvalidRequest for a kind of cluster without limits, or subjects where none are allowed.
    Raises Conflict while the cluster is disabled or ten requests wait for it.
    """
    if not keeps_limits(cluster):
        raise InvalidRequest(
            f"A {cluster.kind} cluster has no limits of its own. The portal alone enforces the "
            "quotas there, so there is nothing to push."
        )
    if subjects and kind != QuotaPushKind.ACCEPT:
        raise InvalidRequest(
            "Only an acceptance can be limited to some subjects. Omit them.",
            errors=[FieldError("/subjects", "is allowed with kind accept only")],
        )
    # The row's lock also makes requests for one cluster wait for each other.
    cluster = Cluster.objects.select_for_update().get(pk=cluster.pk)
    if not cluster.is_enabled:
        raise Conflict(f"{cluster.name} is disabled, so nothing is asked of it; enable it first.")
    if _waiting(cluster).count() >= _WAITING_MAX:
        raise Conflict(
            f"{_WAITING_MAX} requests wait for {cluster.name} already. It may not be answering."
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
    """Return the request. Raises NotFound."""
    push = QuotaPush.objects.select_related("requested_by").filter(cluster=cluster, pk=push_id)
    found = push.first()
    if found is None:
        raise NotFound("There is no such request for this cluster.")
    return found


def is_check_due(cluster: Cluster, *, now: datetime) -> bool:
    """Return whether the observer should compare the cluster on its own.

    It does so every ten minutes, after a change of quotas, roles or cluster users, and after a node
    of the tree was created or moved. It never does while a request waits. At most seven small
    queries.
    """
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
    """Return when a UUIDv7 was created, in epoch milliseconds."""
    return identifier.int >> 80


@transaction.atomic
def request_check(cluster: Cluster, *, now: datetime) -> QuotaPush:
    """Create a check for the observer's own use, and delete the oldest of these."""
    push = _store(cluster, QuotaPushKind.CHECK, subjects=[], requested_by_id=None, now=now)
    own = QuotaPush.objects.filter(cluster=cluster, kind=QuotaPushKind.CHECK, requested_by=None)
    kept = list(own.order_by("-pk").values_list("pk", flat=True)[:_CHECKS_KEPT])
    own.exclude(pk__in=kept).delete()
    return push


@transaction.atomic
def check_changed(cluster: Cluster, *, now: datetime) -> None:
    """Request a comparison after a change of the cluster's options, unless a request waits already.

    The intended limits may differ now.
    """
    if keeps_limits(cluster) and cluster.is_enabled and not _waiting(cluster).exists():
        request_check(cluster, now=now)
        wake("observer")


@transaction.atomic
def delete_never_used(cluster: Cluster, *, by: Administrator, now: datetime) -> None:
    """Delete a cluster that never answered, with the observer's own checks.

    Raises Conflict as `delete_cluster`.
    """
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
    """Store the result of a waiting request. Must run in a transaction."""
    push.status = status
    push.changes = list(changes[:CHANGES_KEPT])
    push.change_count = len(changes)
    push.error = error[:_ERROR_LENGTH_MAX]
    push.done_at = None if status == QuotaPushStatus.WAITING else now
    push.save(update_fields=["status", "changes", "change_count", "error", "done_at"])
    publish("clusters", ids=[push.cluster_id], organization_id=None, audience=PLATFORM)


def shown(change: Change, result: str) -> dict[str, Any]:
    """Return a change with its result, in the stored form."""
    return {
        "kind": change.kind.value,
        "subject": change.subject,
        "before": dict(change.before),
        "after": dict(change.after),
        "note": change.note,
        "result": result,
    }


def without_accepted(cluster: Cluster, changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return `changes` without accepted differences. One query."""
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
    """Return the accepted differences of the cluster, with the user and time of acceptance."""
    accepted = AcceptedDifference.objects.filter(cluster=cluster)
    return accepted.select_related("push__requested_by")


@transaction.atomic
def withdraw_acceptance(
    cluster: Cluster, difference_id: int, *, by: Administrator, now: datetime
) -> None:
    """Withdraw an acceptance: the next comparison shows the difference, the next push changes it.

    Raises NotFound.
    """
    difference = accepted_differences(cluster).filter(pk=difference_id).first()
    if difference is None:
        raise NotFound("There is no such accepted difference on this cluster.")
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
    """Accept these differences. Must run in a transaction."""
    for change in changes:
        for setting, (before, after) in _parts(change).items():
            AcceptedDifference.objects.update_or_create(
                cluster=push.cluster,
                subject=change.subject,
                setting=setting,
                defaults={"before": before, "after": after, "push": push},
            )


def forget_settled(cluster: Cluster, changes: Iterable[Change]) -> None:
    """Delete acceptances of differences that no longer exist, or that changed.

    If the same difference appears again, it is shown again. `changes` are all present differences.
    Must run in a transaction.
    """
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
    """Return an accepted difference in the form of a change: both sides by setting."""
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
    """Return the differences that can be accepted one by one: setting -> (before, after)."""
    if change.kind in (ChangeKind.CREATE, ChangeKind.DELETE):
        return {_WHOLE: (dict(change.before), dict(change.after))}
    return {
        setting: (change.before.get(setting), change.after[setting]) for setting in change.after
    }


def _only(values: Mapping[str, Value], settings: set[str]) -> dict[str, Value]:
    return {setting: value for setting, value in values.items() if setting in settings}
