"""The charges of an organization in a span such as a day, by all that reports group by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from billing.periods import Period
from billing.scopes import nodes_of, pools_named, scope_of, team_and_pool, teams_of
from billing.usage_sql import ACCOUNTS, CLASSES, rated, rows_of
from tenants.models import Node, NodeKind
from tenants.places import places_of


class ChargedUse(NamedTuple):
    """Everything by which use is charged and reported, apart from its time.

    `team_path` is the team's path at the time of use. `fault` is the reason of use in the class
    `fault` (`billing.models.FaultReason`), or empty. `job_type` is empty for attempts from before
    types were metered. `price_nano` is per GPU-hour, before `multiplier_ppm` of the priority class.
    Use without a price has no `rate_line` and no `price_nano`. `mode` is one of
    `billing.models.PriceMode`.

    `usage_class` may be one of `billing.models.ExtraCharge`, too. A commitment has no user, and its
    cluster, priority class and type of job are empty.
    """

    team_id: UUID
    team_path: str
    user_id: UUID | None
    username: str
    pool: str
    device: str
    cluster: str
    usage_class: str
    fault: str
    priority_class: str
    multiplier_ppm: int
    job_type: str
    rate_line_id: UUID | None
    price_nano: int | None
    mode: str


class Charged(NamedTuple):
    """Use and the quantity of charges beside use in milli-GPU-seconds, and cost in nano-currency.

    The cost is the billed one: 0 for showback and for use that a commitment pays.
    """

    mgpu_s: int
    extra_mgpu_s: int
    cost_nano: int


def charges_between(
    organization_id: UUID, start: datetime, end: datetime
) -> dict[ChargedUse, Charged]:
    """Return the use of an organization in `[start, end)`, with its cost, without zeros.

    Adjacent spans sum exactly to the longer one. Use before a team was moved has the path of that
    time. Takes at most six queries.
    """
    ((_, charges),) = charges_in([(start, end)], organization_id)
    return charges


def charges_in(
    spans: Iterable[tuple[datetime, datetime]], organization_id: UUID
) -> Iterator[tuple[tuple[datetime, datetime], dict[ChargedUse, Charged]]]:
    """Yield each span with `charges_between` of it. The teams are read once."""
    found = Node.objects.filter(organization=organization_id, kind=NodeKind.TEAM)
    places = places_of(list(found.values_list("pk", flat=True)))
    nodes, pools = nodes_of(places), pools_named(None)
    teams, names = teams_of(nodes), list(pools.values())
    for start, end in spans:
        scope = scope_of(places, nodes, pools, Period(start, end, as_of=end))
        charges: dict[ChargedUse, Charged] = {}
        for row in rows_of(_CHARGES, {**scope, "priced_at": None}):
            account, usage_class, fault, user_id, username, cluster, *kinds = row[:-3]
            team, pool = team_and_pool(account, teams, names)
            use = ChargedUse(
                *(team.pk, team.display_path, user_id, username, pool.name, pool.device, cluster),
                *(CLASSES[usage_class], fault, *kinds),
            )
            charges[use] = Charged(*(int(amount) for amount in row[-3:]))
        yield (start, end), charges


# An attempt has one fault at most.
_CHARGES = f"""
WITH {ACCOUNTS}, {rated()},
charges AS (
    SELECT r.account, r.class, COALESCE(f.reason, '') AS fault, a.user_id, a.cluster_id,
           COALESCE(a.priority_class, '') AS priority_class, r.multiplier_ppm,
           COALESCE(a.job_type, '') AS job_type, r.line_id, r.price_nano::bigint, r.mode,
           SUM(r.mgpu_s) AS mgpu_s, SUM(r.quantity_mgpu_s - r.mgpu_s) AS extra_mgpu_s,
           SUM(r.cost_nano) AS cost_nano
    FROM rated r
    LEFT JOIN billing_meteredattempt a ON a.id = r.attempt_id
    LEFT JOIN billing_meterevent f
           ON r.class = 4 AND f.attempt_id = r.attempt_id AND f.kind = 'fault'
    WHERE r.quantity_mgpu_s > 0
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
)
SELECT g.account, g.class, g.fault, u.id, COALESCE(u.username, ''), COALESCE(c.name, ''),
       g.priority_class, g.multiplier_ppm, g.job_type, g.line_id, g.price_nano, g.mode,
       g.mgpu_s, g.extra_mgpu_s, g.cost_nano
FROM charges g
LEFT JOIN tenants_user u ON u.id = g.user_id
LEFT JOIN clusters_cluster c ON c.id = g.cluster_id
"""  # noqa: S608 - made of constants only
