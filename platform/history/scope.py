"""The node, the pool and the period that a person asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from bank.settling import zone_of
from billing.periods import Period, period_of
from chargeback.reports import Asked
from clusters.models import Pool
from history.levels import TreeOverTime, tree_between
from primitives.errors import FieldError, InvalidRequest, NotFound
from tenants.access import Actor
from tenants.models import Node
from tenants.places import visible_place
from tenants.roles import Permission

_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Scope:
    """A node of the tree over time, by its number there, in a pool and a period."""

    tree: TreeOverTime
    node: int
    pool: Pool
    period: Period
    zone: ZoneInfo

    @property
    def path(self) -> str:
        """Return the path of the node, without the last slash."""
        return self.tree.name_of(self.node)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of SQL on what happened in places of the organization.

        `place_nodes`, `places`, `place_since_s` and `place_until_s` are all places of its nodes,
        `below` those at or below the node.
        """
        top = self.tree.paths[self.node]
        spans = [
            (node, number, since_s, until_s)
            for node, places in self.tree.places.items()
            for number, since_s, until_s in places
            if self.tree.paths[number].startswith(self.tree.root)
        ]
        return {
            "organization": self.tree.organization_id,
            "pool": self.pool.pk,
            "start": self.period.start,
            "until": self.period.until,
            "place_nodes": [node for node, *_ in spans],
            "places": [number for _, number, *_ in spans],
            "place_since_s": [since_s for *_, since_s, _ in spans],
            "place_until_s": [until_s for *_, until_s in spans],
            "below": [n for n, path in enumerate(self.tree.paths) if path.startswith(top)],
        }


#: All places of `Scope.parameters` as a CTE.
PLACES = """
places AS MATERIALIZED (
    SELECT * FROM unnest(%(place_nodes)s::uuid[], %(places)s::integer[],
                         %(place_since_s)s::bigint[], %(place_until_s)s::bigint[])
        AS p (node_id, place, since_s, until_s)
)
"""


def scope_of(path: str, pool: Pool, *, actor: Actor, asked: Asked, now: datetime) -> Scope:
    """Return the scope, by default of the last 7 days.

    Every member of an organization may see its tree, quotas and totals. Raises NotFound for a node
    that is invisible or was not in the tree then, and InvalidRequest for a wrong period.
    """
    top = visible_place(actor, path, Permission.VIEW_TREE)
    organization = Node.objects.get(path=f"{top.split('/')[0]}/")
    zone = zone_of(organization.pk)
    period = asked_period(asked, zone, now.replace(microsecond=0))
    tree = tree_between(organization, period.start, period.until)
    if top not in tree.paths:
        raise NotFound(
            f"{top.rstrip('/')} was not in the tree in this period. Choose a later one.", path=path
        )
    return Scope(tree, tree.paths.index(top), pool, period, zone)


def asked_period(asked: Asked, zone: ZoneInfo, now: datetime) -> Period:
    """Return the period, by default the last 7 days until `now`.

    Raises InvalidRequest as `Asked.period`, and for a period that has not begun.
    """
    if asked.start is None and asked.end is None:
        return period_of(now - _WEEK, now, as_of=None, now=now)
    period = asked.period(zone, now)
    if period.start >= period.until:
        raise InvalidRequest(
            "The period has not begun yet. Ask for a period of the past.",
            errors=[FieldError("/start", "is in the future")],
        )
    return period
