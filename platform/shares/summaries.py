"""Fair-share, credits and the use of the last week, for each node of a subtree in a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

from arbiter.explain.fair_shares import NodeFairShare
from bank.settling import zone_of
from bank.statements import balances_in
from billing.usage_sql import rows_of, used_in_sql
from clusters.models import Pool
from live.publishing import prefixes_of
from primitives.days import midnight
from shares.fair_shares import FairShareReading, alone
from tenants.access import Actor, under, visible_node
from tenants.models import Node

DAYS = 7


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """The fair-share of a node, the credits of its teams, and its use of the last days.

    `credits_ugpu_s` is None where the organization has no credit bank. `week_mgpu` has the average
    use of each of the last `DAYS` days, the oldest first; the last day is that of now, so far.
    """

    node: Node
    share: NodeFairShare
    credits_ugpu_s: int | None
    week_mgpu: Sequence[int]


def summaries_below(path: str, pool: Pool, *, actor: Actor, now: datetime) -> list[NodeSummary]:
    """Return the summaries of the visible node at `path` and of all nodes below it, by path.

    Must be outside of transactions. Raises NotFound for an invisible node.
    """
    top = visible_node(actor, path)
    shares = FairShareReading(now).of(pool)
    nodes = list(Node.objects.filter(under([top.path], "path"), archived_at=None).order_by("path"))
    credits = _credits(nodes, balances_in(top.organization, pool))
    week = _week(nodes, pool, zone_edges(top.organization_id, now))
    return [
        NodeSummary(
            node=node,
            share=share if node.parent_id is not None else alone(share),
            credits_ugpu_s=None if credits is None else credits.get(node.path, 0),
            week_mgpu=week[node.path],
        )
        for node in nodes
        if (share := shares.get(str(node.pk))) is not None
    ]


def zone_edges(organization_id: UUID, now: datetime) -> list[datetime]:
    """Return the midnights of the last `DAYS` days in the organization's time zone, then `now`."""
    zone = zone_of(organization_id)
    today = now.astimezone(zone).date()
    days = [midnight(today - timedelta(days=back), zone) for back in range(DAYS - 1, -1, -1)]
    return [*days, now]


def _credits(nodes: Sequence[Node], balances: Mapping[str, int] | None) -> Mapping[str, int] | None:
    """Return the balances of `nodes` by path, those of the teams below them included."""
    if balances is None:
        return None
    sums: dict[str, int] = {}
    for node in nodes:
        for path in prefixes_of(node.path)[1:]:
            sums[path] = sums.get(path, 0) + balances.get(str(node.pk), 0)
    return sums


def _week(
    nodes: Sequence[Node], pool: Pool, edges: Sequence[datetime]
) -> Mapping[str, Sequence[int]]:
    """Return the average use of each node and day, in milli-GPU, by path. One query."""
    edges_s = [int(edge.timestamp()) for edge in edges]
    paths = {node.pk: node.path for node in nodes}
    sums = {path: [0] * DAYS for path in paths.values()}
    rows = rows_of(
        _WEEK,
        {
            "teams": list(paths),
            "pool": pool.pk,
            "start": edges[0],
            "end": edges[-1],
            "starts_s": edges_s[:-1],
            "ends_s": edges_s[1:],
        },
    )
    for team, day, mgpu_s in rows:
        for path in prefixes_of(paths[team])[1:]:
            if path in sums:
                sums[path][day - 1] += int(mgpu_s)
    lengths = [max(1, end - start) for start, end in pairwise(edges_s)]
    return {
        path: [mgpu_s // length for mgpu_s, length in zip(values, lengths, strict=True)]
        for path, values in sums.items()
    }


_WEEK = f"""
WITH days AS (
    SELECT * FROM unnest(%(starts_s)s::bigint[], %(ends_s)s::bigint[])
        WITH ORDINALITY AS d (start_s, end_s, day)
),
used AS MATERIALIZED (
    SELECT a.team_id, s.guaranteed_mgpu + s.borrowed_mgpu AS mgpu,
           floor(date_part('epoch', s.start))::bigint AS start_s,
           floor(date_part('epoch', LEAST(s."end", %(end)s)))::bigint AS end_s
    FROM billing_usagesegment s
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    WHERE {used_in_sql("%(start)s", "%(end)s")} AND a.pool_id = %(pool)s
      AND a.team_id = ANY(%(teams)s::uuid[])
)
SELECT u.team_id, d.day,
       SUM(u.mgpu * (LEAST(u.end_s, d.end_s) - GREATEST(u.start_s, d.start_s)))
FROM used u JOIN days d ON u.start_s < d.end_s AND u.end_s > d.start_s
GROUP BY u.team_id, d.day
"""  # noqa: S608 - made of constants only
