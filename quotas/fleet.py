"""The fleet as administrators and pages see it: pools with what is guaranteed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Sum

from clusters.models import Pool
from clusters.queries import healthy_capacity_mgpu
from clusters.registration import Administrator
from quotas.models import Quota
from tenants.access import Actor, require_platform_admin
from tenants.models import NodeKind


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
