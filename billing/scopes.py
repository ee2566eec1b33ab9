"""The teams, pools and places that a report or an export covers, as parameters of its SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from billing.models import RateCard
from billing.periods import Period
from billing.usage_sql import POOLS_MAX
from clusters.models import Cluster, Pool
from primitives.errors import NotFound
from tenants.models import Node, NodeKind, User
from tenants.places import Place


@dataclass(frozen=True, slots=True)
class AttemptFilter:
    """The attempts that a report covers, by username and names; None is all of them."""

    user: str | None = None
    cluster: str | None = None
    priority_class: str | None = None
    job_type: str | None = None

    def condition(self, organizations: Collection[UUID]) -> tuple[str, dict[str, Any]]:
        """Return SQL that narrows attempts (`a`), and its parameters.

        Raises NotFound for a user of none of these organizations, and for an unknown cluster.
        """
        sql, parameters = "", dict[str, Any]()
        if self.user is not None:
            found = User.objects.filter(organization__in=organizations, username=self.user)
            users = list(found.values_list("pk", flat=True))
            if not users:
                raise NotFound(f"There is no user {self.user!r}.", user=self.user)
            sql += " AND a.user_id = ANY(%(users)s)"
            parameters["users"] = users
        if self.cluster is not None:
            cluster = Cluster.objects.filter(name=self.cluster).first()
            if cluster is None:
                raise NotFound(f"There is no cluster {self.cluster!r}.", cluster=self.cluster)
            sql += " AND a.cluster_id = %(cluster)s"
            parameters["cluster"] = cluster.pk
        if self.priority_class is not None:
            sql += " AND a.priority_class = %(priority_class)s"
            parameters["priority_class"] = self.priority_class
        if self.job_type is not None:
            sql += " AND a.job_type = %(job_type)s"
            parameters["job_type"] = self.job_type
        return sql, parameters


EVERY_ATTEMPT = AttemptFilter()


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
    numbered = [
        (numbers[place.node.path], place) for place in places if place.node.kind == NodeKind.TEAM
    ]
    return numbered_scope(numbered, teams, pools, period)


def numbered_scope(
    places: Iterable[tuple[int, Place]],
    teams: Sequence[Node],
    pools: Mapping[UUID, Pool],
    period: Period,
) -> dict[str, Any]:
    """Return the parameters of all statements, for places with the numbers of their teams.

    A team may have several numbers, each with times of its own.
    """
    spans = [
        (number, *span) for number, place in places if (span := span_in(place, period)) is not None
    ]
    return {
        "teams": [team.pk for team in teams],
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
