"""Stores changed quotas, with their history, audit events, notices and hints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from audit.recording import event_of, record_all
from live.publishing import publish
from live.waking import wake
from quotas.guarding import was_decided
from quotas.models import QUOTA_SETTINGS, Quota, QuotaChange
from quotas.quota_notices import give_quota_notices
from tenants.access import Actor
from webapi.middleware import current_request_id

REASON_LENGTH_MAX = 500


def percent_text(basis_points: int | None) -> str | None:
    """Return basis points as text: 4000 is "40.00"."""
    if basis_points is None:
        return None
    return f"{basis_points // 100}.{basis_points % 100:02d}"


def values_of(quota: Quota) -> dict[str, Any]:
    """Return the quota's settings in the form of its history."""
    return {
        "guaranteed_mgpu": quota.guaranteed_mgpu,
        "guaranteed_percent": percent_text(quota.guaranteed_bp),
        "borrow_limit_mgpu": quota.borrow_limit_mgpu,
        "lend_limit_mgpu": quota.lend_limit_mgpu,
        "weight": quota.weight,
    }


def store_quotas(
    edited: Sequence[Quota],
    followers: Sequence[tuple[Quota, Quota]],
    before: Mapping[UUID, dict[str, Any]],
    *,
    actor: Actor | None,
    reason: str,
    now: datetime,
) -> None:
    """Write `edited` and the dependent quotas, with history, audit and hints."""
    reasons = {quota.pk: reason for quota in edited}
    for follower, led_by in followers:
        told = f"Follows {led_by.node.display_path}: {reason}"
        reasons[follower.pk] = told[:REASON_LENGTH_MAX]
    changed = [*edited, *(follower for follower, _ in followers)]
    earlier = [each for each in changed if each.pk in before]
    for each in earlier:
        each.version += 1
    Quota.objects.bulk_update(earlier, [*QUOTA_SETTINGS, "version"], batch_size=1_000)
    QuotaChange.objects.bulk_create(
        [
            QuotaChange(
                quota=each,
                at=now,
                actor=None if actor is None else actor.user,
                before=before.get(each.pk),
                after=values_of(each),
                reason=reasons[each.pk],
                is_decided=was_decided(),
            )
            for each in changed
        ]
    )
    record_all(
        [
            event_of(
                action="quota.changed" if quota.pk in before else "quota.created",
                subject_kind="quota",
                subject_id=quota.pk,
                now=now,
                actor_id=None if actor is None else actor.user.pk,
                actor="system" if actor is None else actor.user.login,
                organization_id=quota.node.organization_id,
                node_path=quota.node.path,
                detail={
                    "pool": quota.pool.name,
                    "before": before.get(quota.pk),
                    "after": values_of(quota),
                    "reason": reason,
                    "followers": sum(led_by is quota for _, led_by in followers),
                },
                request_id=current_request_id(),
            )
            for quota in edited
        ]
    )
    let_the_database_check()
    give_quota_notices(changed, before, actor=actor, reason=reason, now=now)
    organization = edited[0].node.organization_id
    publish("quotas", ids=[each.pk for each in changed], organization_id=organization)
    wake("arbiter")


def let_the_database_check() -> None:
    """Run the deferred envelope trigger now, where the error can still be explained.

    Otherwise it would run at a later commit.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS quota_children_fit_in_their_parent IMMEDIATE")
        cursor.execute("SET CONSTRAINTS quota_children_fit_in_their_parent DEFERRED")
