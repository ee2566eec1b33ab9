"""The teams, pools and places that a report or an export covers, as parameters of its SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from billing.models import RateCard
from billing.periods import Period
from billing.usage_sql import POOLS_MAX
from clusters.models import Pool
from primitives.errors import NotFound
from tenants.models import Node, NodeKind
from tenants.places import Place


def team_and_pool(account: int, teams: Sequence[Node], pools: Sequence[Pool]) -> tuple[Node, Pool]:
    """Return the team and the pool of an account's number."""
    team, pool = divmod(account, POOLS_MAX)
    return teams[team - 1], pools[pool - 1]


def nodes_of(places: Iterable[Place]) -> list[Node]:
    """Return the nodes of the report, parents first. A moved node occurs once for each path."""
    return list({place.node.path: place.node for place in places}.values())


def pools_named(name: str | None) -> Mapping[UUID, Pool]:
    """Return the requested pools by id. Raises NotFound for an unknown one."""
    rows = Pool.objects.all() if name is None else Pool.objects.filter(name=name)
    pools = {pool.pk: pool for pool in rows}
    if name is not None and not pools:
        raise NotFound(f"There is no pool {name!r}.", pool=name)
    return pools


def currencies_of(organizations: Iterable[UUID]) -> dict[UUID, str]:
    """Return the currency of each organization that has a rate card."""
    return dict(
        RateCard.objects.filter(organization_id__in=list(organizations)).values_list(
            "organization_id", "currency"
        )
    )


def scope_of(
    places: Sequence[Place], nodes: Sequence[Node], pools: Mapping[UUID, Pool], period: Period
) -> dict[str, Any]:
    """Return the parameters of all statements. Teams are numbered in the order of `nodes`."""
    teams = teams_of(nodes)
    numbers = {team.path: number for number, team in enumerate(teams, 1)}
    spans = [
        (numbers[place.node.path], *span)
        for place in places
        if place.node.kind == NodeKind.TEAM and (span := span_in(place, period)) is not None
    ]
    return {
        "teams": [node.pk for node in teams],
        "pools": list(pools),
        "since_at": period.start,
        "until_at": period.until,
        "place_numbers": [number for number, _, _ in spans],
        "place_since": [since for _, since, _ in spans],
        "place_until": [until for _, _, until in spans],
    }


def span_in(place: Place, period: Period) -> tuple[datetime, datetime] | None:
    """Return the part of the period during which the place existed, or None."""
    since = period.start if place.start is None else max(period.start, place.start)
    until = period.until if place.end is None else min(period.until, place.end)
    return (since, until) if since < until else None


def teams_of(nodes: Iterable[Node]) -> list[Node]:
    """Return the teams among the nodes, in their order."""
    return [node for node in nodes if node.kind == NodeKind.TEAM]
