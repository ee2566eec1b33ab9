"""The pools whose capacity a reader may see, and the unused part of a guarantee in the others.

Idle time reveals the use of others. So only readers of the whole platform, or of the one
organization that uses a pool, see the pool's capacity. Readers of an organization that shares a
pool see the unused part of their own guarantee.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from billing.periods import Period
from billing.usage_sql import rows_of, used_in_sql
from clusters.models import Pool
from primitives.units import DeviceKind
from quotas.models import Quota, QuotaChange
from tenants.access import PLATFORM, Actor, visible
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from webapi.row_access import all_rows


class Withheld(StrEnum):
    """The reason why a report does not show the capacity of a pool."""

    #: Other organizations have a quota in the pool, or used it.
    SHARED = "shared"
    #: The actor may see only the costs of a part of the organization.
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class WithheldPool:
    """A pool without shown capacity, and the guarantee of the actor's organizations there.

    `unused_mgpu_s` is the part of the guarantee that their own jobs did not use, whether idle or
    lent to other organizations, in milli-GPU-seconds. Both are None if the actor may not see the
    costs of a whole organization.
    """

    pool: str
    device: DeviceKind
    reason: Withheld
    guaranteed_mgpu_s: int | None = None
    unused_mgpu_s: int | None = None


@dataclass(frozen=True, slots=True)
class CapacityScope:
    """The `pools` whose capacity the actor might see, and the `organizations` that it fully sees.

    `users` are the organizations with a quota in each pool.
    """

    sees_all: bool
    pools: Sequence[UUID]
    organizations: Sequence[UUID]
    users: Mapping[UUID, frozenset[UUID]]


@all_rows()
def capacity_scope(actor: Actor, pools: Iterable[UUID]) -> CapacityScope:
    """Return which capacity of `pools` the actor may see. Two queries at most.

    It depends on whether other organizations have a quota there.
    """
    if PLATFORM in actor.prefixes(Permission.VIEW_COSTS):
        return CapacityScope(True, list(pools), [], {})
    organizations = Node.objects.filter(kind=NodeKind.ORGANIZATION)
    own = set(
        visible(actor, organizations, Permission.VIEW_COSTS, path_field="path").values_list(
            "pk", flat=True
        )
    )
    users: dict[UUID, set[UUID]] = {}
    for pool_id, organization_id in (
        Quota.objects.filter(pool_id__in=pools)
        .order_by()
        .values_list("pool_id", "node__organization_id")
        .distinct()
    ):
        users.setdefault(pool_id, set()).add(organization_id)
    return CapacityScope(
        False,
        [pool for pool, of_pool in users.items() if len(of_pool) == 1 and of_pool <= own],
        list(own),
        {pool: frozenset(of_pool) for pool, of_pool in users.items()},
    )


def withheld_pools(
    pools: Sequence[Pool],
    shown: Collection[UUID],
    scope: CapacityScope,
    charged: Sequence[UUID],
    period: Period,
    used: Collection[UUID],
) -> tuple[WithheldPool, ...]:
    """Return the pools whose capacity is not among the `shown`, with the reason.

    These are the pools in which an organization of the reader (`charged`) has a quota, or which are
    among the `used`. Two queries at most, none where all capacity is shown.
    """
    hidden = [
        pool
        for pool in pools
        if pool.pk not in shown
        and not scope.sees_all
        and (pool.pk in used or scope.users.get(pool.pk, frozenset()) & set(charged))
    ]
    if not hidden:
        return ()
    wholes = [pk for pk in scope.organizations if pk in set(charged)]
    if not wholes:
        return tuple(WithheldPool(pool.name, pool.kind, Withheld.PARTIAL) for pool in hidden)
    guarantees = _unused(wholes, hidden, period)
    return tuple(
        WithheldPool(pool.name, pool.kind, Withheld.SHARED, *guarantees.get(pool.pk, (0, 0)))
        for pool in hidden
    )


# Guarantee and use of each organization and pool as steps over the period. Both are constant
# between two steps. The unused part is the guarantee minus the use, if positive.
_UNUSED = f"""
WITH held AS (
    SELECT a.organization_id, a.pool_id, s.guaranteed_mgpu + s.borrowed_mgpu AS mgpu,
           date_part('epoch', GREATEST(s.start, %(since_at)s))::bigint AS start_s,
           date_part('epoch', s."end")::bigint AS end_s
    FROM billing_usagesegment s
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    WHERE {used_in_sql("%(since_at)s", "%(until_at)s")}
      AND a.organization_id = ANY(%(organizations)s) AND a.pool_id = ANY(%(pools)s)
),
moves AS (
    SELECT organization_id, pool_id, start_s AS at_s, mgpu AS used_mgpu, 0 AS guaranteed_mgpu
    FROM held
    UNION ALL
    SELECT organization_id, pool_id, end_s, -mgpu, 0 FROM held WHERE end_s < %(until_s)s
    UNION ALL
    SELECT organization_id, pool_id, at_s, 0, guaranteed_mgpu
    FROM unnest(%(of)s::uuid[], %(in_pools)s::uuid[], %(at_s)s::bigint[], %(changes)s::bigint[])
        AS given (organization_id, pool_id, at_s, guaranteed_mgpu)
),
steps AS (
    SELECT organization_id, pool_id, at_s,
           SUM(used_mgpu) AS used_mgpu, SUM(guaranteed_mgpu) AS guaranteed_mgpu
    FROM moves GROUP BY organization_id, pool_id, at_s
),
levels AS (
    SELECT pool_id, SUM(used_mgpu) OVER until_here AS used_mgpu,
           SUM(guaranteed_mgpu) OVER until_here AS guaranteed_mgpu,
           LEAD(at_s, 1, %(until_s)s) OVER until_here - at_s AS seconds
    FROM steps
    WINDOW until_here AS (PARTITION BY organization_id, pool_id ORDER BY at_s)
)
SELECT pool_id, SUM(guaranteed_mgpu * seconds),
       SUM(GREATEST(0, guaranteed_mgpu - used_mgpu) * seconds)
FROM levels GROUP BY pool_id
"""  # noqa: S608 - made of constants only


class GuaranteeStep(NamedTuple):
    """A change of the guarantee of a node in a pool, in milli-GPU, at an epoch second."""

    node: UUID
    pool: UUID
    at_s: int
    change_mgpu: int


def guarantee_steps(
    nodes: Collection[UUID], pools: Collection[UUID], period: Period
) -> list[GuaranteeStep]:
    """Return the guarantees of the nodes as steps of the period. Two queries.

    The first step has the guarantee at the period's start.
    """
    since_s = int(period.start.timestamp())
    quotas = Quota.objects.filter(node_id__in=nodes, pool_id__in=pools)
    history: dict[UUID, list[tuple[int, int]]] = {}
    for quota_id, at, after in (
        QuotaChange.objects.filter(quota__in=quotas, at__lt=period.until)
        .order_by("at", "pk")
        .values_list("quota_id", "at", "after")
    ):
        step = max(since_s, int(at.timestamp())), int(after["guaranteed_mgpu"])
        history.setdefault(quota_id, []).append(step)
    steps = []
    for quota in quotas:
        before_mgpu = 0
        for moment_s, guaranteed_mgpu in history.get(quota.pk, []):
            change_mgpu = guaranteed_mgpu - before_mgpu
            steps.append(GuaranteeStep(quota.node_id, quota.pool_id, moment_s, change_mgpu))
            before_mgpu = guaranteed_mgpu
    return steps


def _unused(
    organizations: Sequence[UUID], pools: Sequence[Pool], period: Period
) -> dict[UUID, tuple[int, int]]:
    """Return the guarantee of the organizations by pool, and its unused part."""
    since_s, until_s = int(period.start.timestamp()), int(period.until.timestamp())
    if since_s >= until_s:
        return {}
    steps = guarantee_steps(organizations, [pool.pk for pool in pools], period)
    rows = rows_of(
        _UNUSED,
        {
            "organizations": list(organizations),
            "pools": [pool.pk for pool in pools],
            "since_at": period.start,
            "until_at": period.until,
            "until_s": until_s,
            "of": [step.node for step in steps],
            "in_pools": [step.pool for step in steps],
            "at_s": [step.at_s for step in steps],
            "changes": [step.change_mgpu for step in steps],
        },
    )
    return {pool: (int(guaranteed), int(unused)) for pool, guaranteed, unused in rows}
