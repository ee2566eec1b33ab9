"""The fleet as administrators and pages see it: pools with what is guaranteed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Sum

from clusters.models import Cluster, Pool
from clusters.queries import healthy_capacity_mgpu
from clusters.registration import Administrator
from quotas.models import Quota
from tenants.access import PLATFORM, Actor, require_platform_admin
from tenants.models import NodeKind
from tenants.roles import Permission


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool, its healthy capacity on enabled clusters, and what the organizations together are
    guaranteed of it (None for those who may not know)."""

    pool: Pool
    capacity_mgpu: int
    guaranteed_mgpu: int | None
    is_overcommitted: bool


def administrator(actor: Actor) -> Administrator:
    """The actor as somebody who may change the fleet. Raises Forbidden for all others."""
    require_platform_admin(actor)
    return Administrator(actor.user.pk, actor.user.login)


def cluster_message(actor: Actor, cluster: Cluster) -> str:
    """Why the cluster does not answer, or what of its answer could not be used.

    In the connector's own words only for those who may manage clusters, and with a token that
    may: they can hold addresses, paths and names. All others get a fixed sentence.
    """
    if actor.holds(Permission.MANAGE_CLUSTERS, PLATFORM):
        return cluster.message
    if cluster.failing_since is not None:
        return f"Not reachable since {cluster.failing_since:%Y-%m-%d %H:%M:%S} UTC."
    if cluster.message:
        return "A part of its answer could not be used; an administrator can see which."
    return ""


def pool_rows(actor: Actor, pools: Sequence[Pool]) -> list[PoolRow]:
    """`pools` with their capacity and whether more is guaranteed than there is. Two queries."""
    capacity = healthy_capacity_mgpu(pools)
    guaranteed = dict(
        Quota.objects.filter(node__kind=NodeKind.ORGANIZATION, pool__in=pools)
        .values_list("pool_id")
        .annotate(Sum("guaranteed_mgpu"))
    )
    return [
        PoolRow(
            pool=pool,
            capacity_mgpu=capacity[pool.pk],
            guaranteed_mgpu=(int(guaranteed.get(pool.pk, 0)) if actor.is_platform_admin else None),
            is_overcommitted=guaranteed.get(pool.pk, 0) > capacity[pool.pk],
        )
        for pool in pools
    ]
