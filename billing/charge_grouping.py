"""The charges of an organization by all that reports group by: their SQL, teams and pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from billing.periods import Period
from billing.scopes import nodes_of, pools_named, scope_of, span_in, teams_of
from billing.usage_sql import rated
from clusters.models import Pool
from tenants.models import Node, NodeKind
from tenants.places import Place, places_of


@dataclass(frozen=True, slots=True)
class Charging:
    """The teams of an organization with all of their places, and all pools."""

    organization_id: UUID
    places: Sequence[Place]
    nodes: Sequence[Node]
    teams: Sequence[Node]
    pools: Mapping[UUID, Pool]

    @classmethod
    def of(cls, organization_id: UUID) -> Charging:
        """Read them. Takes at most four queries."""
        found = Node.objects.filter(organization=organization_id, kind=NodeKind.TEAM)
        places = places_of(list(found.values_list("pk", flat=True)))
        nodes = nodes_of(places)
        return cls(organization_id, places, nodes, teams_of(nodes), pools_named(None))

    def scope(self, start: datetime, end: datetime) -> dict[str, Any]:
        """Return the parameters of all statements on `[start, end)`."""
        period = Period(start, end, as_of=end)
        return {**scope_of(self.places, self.nodes, self.pools, period), "priced_at": None}

    def nodes_in(self, start: datetime, end: datetime) -> Mapping[UUID, Node] | None:
        """Return each team as it was during `[start, end)`, or None if one of them moved then."""
        period = Period(start, end, as_of=end)
        there = [place for place in self.places if span_in(place, period) is not None]
        found = {place.node.pk: place.node for place in there}
        return found if len(found) == len(there) else None


def grouped(condition: str = "") -> str:
    """Return CTEs up to `charges`. `condition` narrows the attempts (`a`), not the commitments.

    An attempt has one fault at most.
    """
    return f"""
{rated(condition)},
charges AS (
    SELECT r.account, r.class, COALESCE(f.reason, '') AS fault, a.user_id, a.cluster_id,
           COALESCE(a.priority_class, '') AS priority_class, r.multiplier_ppm,
           COALESCE(a.job_type, '') AS job_type, r.line_id, r.price_nano::bigint, r.mode,
           SUM(r.mgpu_s)::bigint AS mgpu_s,
           SUM(r.quantity_mgpu_s - r.mgpu_s)::bigint AS extra_mgpu_s,
           SUM(r.cost_nano)::bigint AS cost_nano
    FROM rated r
    LEFT JOIN billing_meteredattempt a ON a.id = r.attempt_id
    LEFT JOIN billing_meterevent f
           ON r.class = 4 AND f.attempt_id = r.attempt_id AND f.kind = 'fault'
    WHERE r.quantity_mgpu_s > 0
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
)
"""  # noqa: S608 - made of constants only
