"""Idle GPUs of a period, apart from spare ones, and their share-out among teams.

Idle time reveals the use of others. So it is that of the pools whose capacity the actor may see
(`chargeback.capacity`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from billing.periods import Period
from billing.scopes import nodes_of, pools_named, teams_of
from billing.usage_sql import rows_of, used_in_sql
from chargeback.capacity import WithheldPool, capacity_scope, guarantee_steps, withheld_pools
from chargeback.dimensions import Dimension
from chargeback.reports import Asked, Narrowed, grouped_report, zone_for
from clusters.models import Pool
from primitives.units import DeviceKind, largest_remainder
from tenants.access import Actor, visible
from tenants.models import Node, NodeKind
from tenants.places import placed_between
from tenants.roles import Permission
from webapi.row_access import all_rows


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
    withheld: tuple[WithheldPool, ...]


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
    Without any, it stays with the idle account. Without a share-out, no report of use is read.
    Raises as `grouped_report`.
    """
    zone = zone_for(actor, None)
    period = asked.period(zone, now)
    places = placed_between(actor, Permission.VIEW_COSTS, period.start, period.end)
    pools = pools_named(pool_name)
    scope = capacity_scope(actor, pools)
    shown = [pools[pk] for pk in scope.pools]
    found, foreign = _pools(shown, period, None if scope.sees_all else scope.organizations)
    weights: Mapping[tuple[str, str], int] = {}
    if share is Share.BY_USAGE:
        weights = _uses(actor, period, pool_name, now)
    elif share is Share.BY_GUARANTEE:
        weights = _guarantees(actor, shown, period)
    nodes = nodes_of(places)
    seen = set(scope.pools) - foreign
    return Idle(
        period=period,
        time_zone=zone.key,
        share=share,
        pools=tuple(found),
        rows=tuple(row for pool in found for row in shared_out(pool, weights)),
        withheld=withheld_pools(
            list(pools.values()),
            seen,
            scope,
            sorted({node.organization_id for node in nodes}),
            period,
            _used_pools(pools.keys() - seen, nodes, period),
        ),
    )


def _uses(
    actor: Actor, period: Period, pool_name: str | None, now: datetime
) -> dict[tuple[str, str], int]:
    """Return the use of each visible team, by the names of the pool and the team."""
    used = grouped_report(
        actor=actor,
        by=[Dimension.POOL, Dimension.TEAM],
        asked=Asked(period.start, period.end, period.as_of),
        narrowed=Narrowed(pool=pool_name),
        now=now,
    )
    sums: dict[tuple[str, str], int] = {}
    for row in used.rows:
        pool, team = row.keys
        sums[pool, team] = sums.get((pool, team), 0) + row.amounts.mgpu_s
    return sums


def _used_pools(pools: Collection[UUID], nodes: Sequence[Node], period: Period) -> set[UUID]:
    """Return the pools that teams among the nodes used in the period."""
    parameters = {
        "pools": list(pools),
        "teams": [team.pk for team in teams_of(nodes)],
        "since_at": period.start,
        "until_at": period.until,
    }
    return {pool for (pool,) in rows_of(_USED, parameters)} if pools else set()


_USED = f"""
SELECT p.id FROM unnest(%(pools)s::uuid[]) AS p (id)
WHERE EXISTS (
    SELECT FROM billing_usagesegment s JOIN billing_meteredattempt a ON a.id = s.attempt_id
    WHERE a.pool_id = p.id AND a.team_id = ANY(%(teams)s)
      AND {used_in_sql("%(since_at)s", "%(until_at)s")}
)
"""  # noqa: S608 - made of constants only


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


@all_rows()
def _pools(
    pools: list[Pool], period: Period, organizations: Sequence[UUID] | None
) -> tuple[list[IdlePool], set[UUID]]:
    """Return the pools by name, and those that others than `organizations` used.

    The latter are not among the former. None: all organizations.
    """
    if not pools or period.until <= period.start:
        return [], set()
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
    return sorted(found, key=lambda pool: pool.pool), {row[0] for row in rows if row[1]}


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
