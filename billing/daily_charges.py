"""The charges of an organization in a span such as a day, by all that reports group by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from billing.charge_grouping import Charging, grouped
from billing.models import PoolTerms, PriceMode
from billing.scopes import team_and_pool
from billing.stored_charges import stored_charges
from billing.usage_sql import ACCOUNTS, CLASSES, rows_of
from clusters.models import Pool
from tenants.models import Node


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
    time. Takes at most eight queries.
    """
    ((_, charges),) = charges_in([(start, end)], organization_id)
    return charges


def charges_in(
    spans: Iterable[tuple[datetime, datetime]], organization_id: UUID
) -> Iterator[tuple[tuple[datetime, datetime], dict[ChargedUse, Charged]]]:
    """Yield each span with `charges_between` of it. The teams are read once.

    Stored days are not rated again (`billing.stored_charges`), apart from their commitments.
    """
    charging = Charging.of(organization_id)
    committed = PoolTerms.objects.filter(
        card__organization=organization_id, mode=PriceMode.COMMITMENT
    )
    has_commitments = committed.exists()
    for start, end in spans:
        nodes = charging.nodes_in(start, end)
        stored = None if nodes is None else stored_charges(organization_id, start, end)
        if nodes is None or stored is None:
            charges = _rated(_CHARGES, charging, start, end)
        else:
            charges = _rated(_COMMITMENTS, charging, start, end) if has_commitments else {}
            for team_id, pool_id, *values in stored:
                use, charged = _charge(nodes[team_id], charging.pools[pool_id], values)
                charges[use] = charged
        yield (start, end), charges


def _rated(
    statement: str, charging: Charging, start: datetime, end: datetime
) -> dict[ChargedUse, Charged]:
    names = list(charging.pools.values())
    charges: dict[ChargedUse, Charged] = {}
    for account, *values in rows_of(statement, charging.scope(start, end)):
        team, pool = team_and_pool(account, charging.teams, names)
        use, charged = _charge(team, pool, values)
        charges[use] = charged
    return charges


def _charge(team: Node, pool: Pool, values: Sequence[Any]) -> tuple[ChargedUse, Charged]:
    usage_class, fault, user_id, username, cluster, *kinds = values[:-3]
    use = ChargedUse(
        *(team.pk, team.display_path, user_id, username, pool.name, pool.device, cluster),
        *(CLASSES[usage_class], fault, *kinds),
    )
    return use, Charged(*values[-3:])


def _statement(condition: str) -> str:
    return f"""
WITH {ACCOUNTS}, {grouped(condition)}
SELECT g.account, g.class, g.fault, u.id, COALESCE(u.username, ''), COALESCE(c.name, ''),
       g.priority_class, g.multiplier_ppm, g.job_type, g.line_id, g.price_nano, g.mode,
       g.mgpu_s, g.extra_mgpu_s, g.cost_nano
FROM charges g
LEFT JOIN tenants_user u ON u.id = g.user_id
LEFT JOIN clusters_cluster c ON c.id = g.cluster_id
"""  # noqa: S608 - made of constants only


_CHARGES = _statement("")
_COMMITMENTS = _statement("AND false")
