"""Notices of changed quotas, and of clusters that do not answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from clusters.models import Cluster
from notices.giving import NewNotice, for_node, give_notices
from notices.models import NoticeEvent
from notices.recipients import nearest_people_of, platform_administrators
from notices.second_person import Request
from primitives.units import gpus_text
from quotas.models import PlannedChange, Quota
from tenants.access import Actor
from tenants.roles import Permission

#: A shorter silence of a cluster gives no notice, as it often ends by itself.
SILENCE_MIN = timedelta(minutes=5)
#: The most clusters of one call.
CLUSTERS_MAX = 1_000


def give_quota_notices(
    changed: Collection[Quota],
    before: Mapping[Any, Mapping[str, Any]],
    *,
    actor: Actor | None,
    reason: str,
    now: datetime,
) -> None:
    """Tell those who manage the changed quotas, except the actor.

    `before` has the earlier settings by id; a new quota has none. Must run in the transaction of
    the change.
    """
    people = nearest_people_of(Permission.MANAGE_QUOTA, {quota.node.path for quota in changed})
    by_id = None if actor is None else actor.user.pk
    give_notices(
        notice
        for quota in changed
        for notice in for_node(
            NewNotice(
                user_id=None,
                event=NoticeEvent.QUOTA_CHANGED,
                key=f"quota:{quota.pk}:{quota.version}",
                subject_kind="quota",
                subject_id=quota.pk,
                sentence=_sentence(quota, before.get(quota.pk), reason),
                link=f"/quotas?node={quota.node.display_path}",
                at=now,
                node_path=quota.node.path,
            ),
            [user_id for user_id in people[quota.node.path] if user_id != by_id],
        )
    )


def _sentence(quota: Quota, before: Mapping[str, Any] | None, reason: str) -> str:
    where = f"{quota.node.display_path} in pool {quota.pool.name}"
    now_gpus = quota.pool.kind.text(quota.guaranteed_mgpu)
    if before is None:
        return f"{where} has a quota now: {now_gpus} guaranteed ({reason})"
    before_mgpu = before["guaranteed_mgpu"]
    if before_mgpu == quota.guaranteed_mgpu:
        return f"The quota of {where} changed ({reason})"
    before_gpus = gpus_text(before_mgpu)
    return f"The quota of {where} changed from {before_gpus} to {now_gpus} guaranteed ({reason})"


def request_of(planned: PlannedChange) -> Request:
    """Return a planned change as a request of its author."""
    return Request(
        kind="quota_change",
        id=planned.pk,
        called=f"The planned quota change of {planned.node.display_path} ({planned.reason})",
        link=f"/quota-changes/{planned.pk}",
        asked_by_id=planned.created_by_id,
        node_path=planned.node.path,
    )


@transaction.atomic
def give_cluster_notices(now: datetime) -> int:
    """Tell platform administrators of enabled clusters that do not answer; return how many notices.

    Each silence gives one notice.
    """
    silence = max(SILENCE_MIN, timedelta(seconds=settings.STALE_AFTER_S))
    silent = Cluster.objects.filter(is_enabled=True, seen_at__lt=now - silence)
    return give_notices(_of_clusters(list(silent.order_by("name")[:CLUSTERS_MAX]), now))


def _of_clusters(silent: Sequence[Cluster], now: datetime) -> Iterator[NewNotice]:
    people = platform_administrators() if silent else []
    for cluster in silent:
        assert cluster.seen_at is not None
        for user_id in people:
            yield NewNotice(
                user_id=user_id,
                event=NoticeEvent.CLUSTER_STALE,
                key=f"cluster:{cluster.pk}:{cluster.seen_at.isoformat()}",
                subject_kind="cluster",
                subject_id=cluster.pk,
                sentence=f"The cluster {cluster.name} has not answered since "
                f"{cluster.seen_at:%Y-%m-%d %H:%M} UTC.",
                link=f"/clusters/{cluster.name}",
                at=now,
            )
