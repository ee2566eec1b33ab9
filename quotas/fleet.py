"""The fleet for administrators and pages: pools with their guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Sum, prefetch_related_objects

from clusters.models import Cluster, Pool
from clusters.outside import OutsideUse
from clusters.queries import features_of, healthy_capacity_mgpu, stale_capacity
from clusters.registration import Administrator
from outbox.models import Quarantine
from outbox.quarantine import sentence_of
from quotas.models import Quota
from tenants.access import PLATFORM, Actor, require_platform_admin
from tenants.models import NodeKind
from tenants.roles import Permission
from webapi.row_access import all_rows


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool, its healthy capacity on enabled clusters, and the sum of organizations' guarantees.

    The sum is None for users who may not know it. `features` are those of its nodes.
    `capacity_as_of` is the oldest answer behind the capacity; None while all its clusters answer.
    """

    pool: Pool
    capacity_mgpu: int
    capacity_as_of: datetime | None
    guaranteed_mgpu: int | None
    is_overcommitted: bool
    features: Sequence[str]


def administrator(actor: Actor) -> Administrator:
    """Return the actor as an administrator of the fleet. Raises Forbidden for all other users."""
    require_platform_admin(actor)
    return Administrator(actor.user.pk, actor.user.login)


def may_manage_clusters(actor: Actor) -> bool:
    """Return whether the actor, with the token in use, may manage clusters.

    Only then may it read the clusters' own messages, which can contain addresses, paths and names.
    """
    return actor.holds(Permission.MANAGE_CLUSTERS, PLATFORM)


def cluster_message(actor: Actor, cluster: Cluster, quarantine: Quarantine | None) -> str:
    """Return why the cluster does not answer, or which part of its answer was not usable.

    Only users who manage clusters get the connector's own message. All others get a fixed sentence.
    During a quarantine, the message starts with it.
    """
    said = _said(actor, cluster)
    return said if quarantine is None else f"{sentence_of(quarantine)} {said}".strip()


def _said(actor: Actor, cluster: Cluster) -> str:
    if may_manage_clusters(actor):
        return cluster.message
    if cluster.failing_since is not None:
        return f"Not reachable since {cluster.failing_since:%Y-%m-%d %H:%M:%S} UTC."
    if cluster.message:
        return "Something there is not as it should be. An administrator can see the details."
    return ""


def outside_use(actor: Actor, cluster: Cluster) -> dict[str, Any]:
    """Return the workloads submitted directly to the cluster.

    Names are only for users who manage clusters, like the cluster's message.
    """
    told: dict[str, Any] = OutsideUse(0).as_json() | cluster.outside
    sees_names = actor.holds(Permission.MANAGE_CLUSTERS, PLATFORM)
    return told | ({} if sees_names else {"holders": None})


def pool_rows(actor: Actor, pools: Sequence[Pool], *, now: datetime) -> list[PoolRow]:
    """Return `pools` with capacity, and whether guarantees exceed it. Five queries.

    The guarantees of all organizations count.
    """
    prefetch_related_objects(pools, "aliases")
    capacity = healthy_capacity_mgpu(pools)
    as_of = stale_capacity(pools, before=now - timedelta(seconds=settings.STALE_AFTER_S))
    features = features_of(pools)
    with all_rows():
        guaranteed = dict(
            Quota.objects.filter(node__kind=NodeKind.ORGANIZATION, pool__in=pools)
            .values_list("pool_id")
            .annotate(Sum("guaranteed_mgpu"))
        )
    return [
        PoolRow(
            pool=pool,
            capacity_mgpu=capacity[pool.pk],
            capacity_as_of=as_of.get(pool.pk),
            guaranteed_mgpu=(int(guaranteed.get(pool.pk, 0)) if actor.is_platform_admin else None),
            is_overcommitted=pool.archived_at is None
            and guaranteed.get(pool.pk, 0) > capacity[pool.pk],
            features=features[pool.pk],
        )
        for pool in pools
    ]
