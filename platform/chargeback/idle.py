"""Idle GPUs of a period, apart from spare ones, and their share-out among teams.

Idle time reveals the use of others. So it is that of the pools whose capacity the actor may see
(`billing.capacity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from billing.capacity import capacity_scope, guarantee_steps
from billing.periods import Period
from billing.scopes import pools_named
from billing.usage_sql import rows_of, used_in_sql
from chargeback.dimensions import Dimension
from chargeback.reports import Asked, Narrowed, grouped_report, zone_for
from clusters.models import Pool
from primitives.units import DeviceKind, largest_remainder
from tenants.access import Actor, visible
from tenants.models import Node, NodeKind
from tenants.roles import Permission


class Share(StrEnum):
    """The way to share out idle GPUs among teams."""

    NONE = "none"
    BY_GUARANTEE = "by_guarantee"
    BY_USAGE = "by_usage"


@dataclass(frozen=True, slots=True)
class IdlePool:
    """The healthy capacity of a pool, and what it was in, in milli-GPU-seconds.

    `idle_mgpu_s` is unused capacity inside of unused guarantees, `spare_mgpu_s` the rest of the
    unused capacity. Neither is negative. `outside_mgpu_s` is the use by workloads of no team, and
    `over_mgpu_s` the use of nodes that did not count as healthy. Nodes that are down have no
    capacity, so they are not idle. Capacity + over = in use + outside + idle + spare.
    """

    pool: str
    device: DeviceKind
    capacity_mgpu_s: int
    in_use_mgpu_s: int
    outside_mgpu_s: int
    over_mgpu_s: int
    idle_mgpu_s: int
    spare_mgpu_s: int


@dataclass(frozen=True, slots=True)
class IdleRow:
    """A team's share of the idle time of a pool; of the idle account (None), its negative sum."""

    pool: str
    device: DeviceKind
    team: str | None
    mgpu_s: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The idle time of a period. The rows of each pool sum to zero."""

    period: Period
    time_zone: str
    share: Share
    pools: tuple[IdlePool, ...]
    rows: tuple[IdleRow, ...]


def idle_between(
    *,
    actor: Actor,
    asked: Asked,
    share: Share,
    pool_name: str | None = None,
    now: datetime,
) -> Idle:
    """Return the idle time of all pools whose capacity the actor may see, and its share-out.

    It is shared out in proportion to the teams' guarantees or use of the pool over the period.
    Without any, it stays with the idle account. Raises as `grouped_report`.
    """
    zone = zone_for(actor, None)
    period = asked.period(zone, now)
    used = grouped_report(
        actor=actor,
        by=[Dimension.TEAM, Dimension.POOL],
        asked=Asked(period.start, period.end, period.as_of),
        narrowed=Narrowed(pool=pool_name),
        now=now,
    )
    pools = pools_named(pool_name)
    scope = capacity_scope(actor, pools)
    shown = [pools[pk] for pk in scope.pools]
    found = _pools(shown, period, None if scope.sees_all else scope.organizations)
    weights: Mapping[tuple[str, str], int] = {}
    if share is Share.BY_USAGE:
        weights = {(row.keys[1], row.keys[0]): row.amounts.mgpu_s for row in used.rows}
    elif share is Share.BY_GUARANTEE:
        weights = _guarantees(actor, shown, period)
    rows = [row for pool in found for row in shared_out(pool, weights)]
    return Idle(period, zone.key, share, tuple(found), tuple(rows))


def shared_out(pool: IdlePool, weights: Mapping[tuple[str, str], int]) -> list[IdleRow]:
    """Return the rows of a pool, by the weights of (pool, team).

    Each team gets its part, rounded by largest remainder. The idle account has the negative sum.
    """
    own = {team: weight for (name, team), weight in weights.items() if name == pool.pool and weight}
    if not own or pool.idle_mgpu_s == 0:
        return []
    parts = largest_remainder(pool.idle_mgpu_s, own, out_of=sum(own.values()))
    return [
        IdleRow(pool.pool, pool.device, team, mgpu_s)
        for team, mgpu_s in [*sorted(parts.items()), (None, -pool.idle_mgpu_s)]
    ]


def _guarantees(actor: Actor, pools: list[Pool], period: Period) -> dict[tuple[str, str], int]:
    """Return the guarantee of each visible team, by its name, in milli-GPU-seconds."""
    teams = {
        team.pk: team
        for team in visible(
            actor,
            Node.objects.filter(kind=NodeKind.TEAM),
            Permission.VIEW_COSTS,
            path_field="path",
        )
    }
    names = {pool.pk: pool.name for pool in pools}
    until_s = int(period.until.timestamp())
    sums: dict[tuple[str, str], int] = {}
    for step in guarantee_steps(list(teams), list(names), period):
        key = names[step.pool], teams[step.node].display_path
        sums[key] = sums.get(key, 0) + step.change_mgpu * (until_s - step.at_s)
    return sums


def _pools(
    pools: list[Pool], period: Period, organizations: Sequence[UUID] | None
) -> list[IdlePool]:
    """Return the pools by name; with `organizations`, only those that nobody else used."""
    if not pools or period.until <= period.start:
        return []
    by_id = {pool.pk: pool for pool in pools}
    everybody = list(Node.objects.filter(kind=NodeKind.ORGANIZATION).values_list("pk", flat=True))
    steps = guarantee_steps(everybody, list(by_id), period)
    rows = rows_of(
        _IDLE,
        {
            "pools": list(by_id),
            "since_at": period.start,
            "until_at": period.until,
            "until_s": int(period.until.timestamp()),
            "own": everybody if organizations is None else list(organizations),
            "of": [step.node for step in steps],
            "in_pools": [step.pool for step in steps],
            "at_s": [step.at_s for step in steps],
            "changes": [step.change_mgpu for step in steps],
        },
    )
    found = [_pool(by_id[row[0]], row[2:]) for row in rows if not row[1]]
    return sorted(found, key=lambda pool: pool.pool)


def _pool(pool: Pool, amounts: Any) -> IdlePool:
    capacity, in_use, outside, over, idle, spare = (int(amount) for amount in amounts)
    return IdlePool(
        pool=pool.name,
        device=pool.kind,
        capacity_mgpu_s=capacity,
        in_use_mgpu_s=in_use,
        outside_mgpu_s=outside,
        over_mgpu_s=over,
        idle_mgpu_s=idle,
        spare_mgpu_s=spare,
    )


# Use, guarantees and capacity as steps over the period, constant between two of them. The unused
# guarantee is of each organization, and unused capacity of the pool.
_IDLE = f"""
WITH held AS (
    SELECT a.organization_id, a.pool_id, s.guaranteed_mgpu + s.borrowed_mgpu AS mgpu,
           date_part('epoch', GREATEST(s.start, %(since_at)s))::bigint AS start_s,
           date_part('epoch', s."end")::bigint AS end_s
    FROM billing_usagesegment s
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    WHERE {used_in_sql("%(since_at)s", "%(until_at)s")}
      AND a.pool_id = ANY(%(pools)s)
),
moves AS (
    SELECT organization_id, pool_id, start_s AS at_s, mgpu AS used, 0 AS guaranteed FROM held
    UNION ALL
    SELECT organization_id, pool_id, end_s, -mgpu, 0 FROM held WHERE end_s < %(until_s)s
    UNION ALL
    SELECT organization_id, pool_id, at_s, 0, guaranteed
    FROM unnest(%(of)s::uuid[], %(in_pools)s::uuid[], %(at_s)s::bigint[], %(changes)s::bigint[])
        AS given (organization_id, pool_id, at_s, guaranteed)
),
organization_levels AS (
    SELECT organization_id, pool_id, at_s, SUM(used) AS used,
           GREATEST(0, SUM(SUM(guaranteed)) OVER until_here - SUM(SUM(used)) OVER until_here)
               AS unused
    FROM moves GROUP BY organization_id, pool_id, at_s
    WINDOW until_here AS (PARTITION BY organization_id, pool_id ORDER BY at_s)
),
capacities AS (
    SELECT pool_id, capacity_mgpu AS capacity, outside_mgpu AS outside,
           date_part('epoch', GREATEST(start, %(since_at)s))::bigint AS start_s,
           date_part('epoch', "end")::bigint AS end_s
    FROM clusters_capacitysegment
    WHERE start < %(until_at)s AND ("end" > %(since_at)s OR "end" IS NULL)
      AND pool_id = ANY(%(pools)s)
),
changes AS (
    SELECT pool_id, at_s, 0 AS capacity, 0 AS outside, used,
           unused - LAG(unused, 1, 0::numeric) OVER (
               PARTITION BY organization_id, pool_id ORDER BY at_s
           ) AS unused
    FROM organization_levels
    UNION ALL
    SELECT pool_id, start_s, capacity, outside, 0, 0 FROM capacities
    UNION ALL
    SELECT pool_id, end_s, -capacity, -outside, 0, 0 FROM capacities WHERE end_s < %(until_s)s
),
levels AS (
    SELECT pool_id, SUM(SUM(capacity)) OVER until_here AS capacity,
           SUM(SUM(outside)) OVER until_here AS outside, SUM(SUM(used)) OVER until_here AS used,
           SUM(SUM(unused)) OVER until_here AS unused,
           LEAD(at_s, 1, %(until_s)s) OVER until_here - at_s AS seconds
    FROM changes GROUP BY pool_id, at_s
    WINDOW until_here AS (PARTITION BY pool_id ORDER BY at_s)
),
free AS (
    SELECT *, GREATEST(0, capacity - outside - used) AS free FROM levels
)
SELECT pool_id,
       EXISTS (
           SELECT FROM held
           WHERE held.pool_id = free.pool_id AND NOT held.organization_id = ANY(%(own)s)
       ),
       SUM(capacity * seconds), SUM(used * seconds), SUM(outside * seconds),
       SUM(GREATEST(0, used + outside - capacity) * seconds), SUM(LEAST(free, unused) * seconds),
       SUM((free - LEAST(free, unused)) * seconds)
FROM free GROUP BY pool_id
"""  # noqa: S608 - made of constants only
