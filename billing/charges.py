"""The charges behind a report, attempt by attempt and day by day, as a stream."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from billing.models import ExtraCharge, PriceMode, UsageClass
from billing.periods import Period
from billing.scopes import (
    currencies_of,
    nodes_of,
    pools_named,
    scope_of,
    team_and_pool,
    teams_of,
)
from billing.usage_sql import CHARGES, CLASSES, PLANNED
from clusters.models import Pool
from tenants.access import Actor
from tenants.models import Node
from tenants.places import placed_between, visible_place
from tenants.roles import Permission

#: Rows that the stream holds in memory at once.
BATCH_ROWS = 5_000


class Charge(NamedTuple):
    """Use and cost of one attempt in one usage class, at one price, on one UTC day.

    Or a charge beside use: `usage_class` is then one of `billing.models.ExtraCharge`, and `mgpu_s`
    is 0. A commitment is a team's, so its fields of users, clusters, jobs and attempts are empty.

    `[start, end)` is the part of that day in the period. `team` is the path at the time of use, and
    `department` is empty for a team right below its organization. `rate_line` and `price_nano` are
    None for use without a price, which costs 0. `price_nano` is per GPU-hour, with
    `class_multiplier_ppm` of the usage class and before `multiplier_ppm` of the priority class.
    `priced_mgpu_s` times both is the list cost. Costs are in nano-currency. `billed_cost_nano` is 0
    for showback and for use that a commitment pays, and `effective_cost_nano` spreads a commitment
    over the use that it pays. `fault` is the reason of use in the class `fault`
    (`billing.models.FaultReason`), or empty. Ids are texts.
    """

    start: datetime
    end: datetime
    organization: str
    department: str
    team: str
    user_id: str
    user: str
    cluster: str
    pool: str
    device: str
    usage_class: str
    priority_class: str
    multiplier_ppm: int
    job_id: str
    job_name: str
    attempt_id: str
    attempt: int
    mgpu_s: int
    rate_line: str | None
    price_nano: int | None
    list_cost_nano: int
    contracted_cost_nano: int
    billed_cost_nano: int
    effective_cost_nano: int
    currency: str | None
    mode: str
    class_multiplier_ppm: int | None
    priced_mgpu_s: int
    fault: str

    @property
    def is_of_commitment(self) -> bool:
        """Return whether this is a commitment, or use that one pays."""
        return self.usage_class in _OF_COMMITMENTS and self.mode == PriceMode.COMMITMENT


_OF_COMMITMENTS = (ExtraCharge.COMMITMENT.value, UsageClass.GUARANTEED.value)


@dataclass(frozen=True, slots=True)
class ChargeBatch:
    """At most `BATCH_ROWS` charges, and how many days of the period are complete with them."""

    rows: Sequence[Charge]
    days_done: int
    days: int


def charges_of(
    *, actor: Actor, period: Period, node_path: str, pool_name: str | None = None
) -> Generator[ChargeBatch]:
    """Yield all charges of a node and everything below it, by day, team, pool and job.

    Their sums are those of `chargeback` with the same period and `as_of`, to the nano. One
    transaction reads one snapshot until the stream ends, unless the caller has a transaction
    already. So the caller must not write by the same connection meanwhile. At most `BATCH_ROWS`
    rows are in memory, and each day has at least one batch, which may be empty.

    Raises NotFound and Forbidden as `jobs_behind`.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        with connection.cursor() as cursor:
            if is_outermost:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute(PLANNED)
        top = visible_place(actor, node_path, Permission.VIEW_COSTS, Permission.VIEW_JOBS)
        places = placed_between(actor, Permission.VIEW_COSTS, period.start, period.end, below=top)
        nodes = nodes_of(places)
        pools = pools_named(pool_name)
        teams, names = teams_of(nodes), list(pools.values())
        currencies = currencies_of({team.organization_id for team in teams})
        days = list(_days(period))
        for number, day in enumerate(days):
            scope = {**scope_of(places, nodes, pools, day), "priced_at": None}
            for batch in _batches(scope):
                rows = [_charge(row, day, teams, names, currencies) for row in batch]
                yield ChargeBatch(rows, number, len(days))
            yield ChargeBatch((), number + 1, len(days))


def _days(period: Period) -> Iterator[Period]:
    """Yield the parts of the period in each UTC day, until the end of counting."""
    start = period.start
    while start < period.until:
        midnight = datetime.combine(start.date() + timedelta(days=1), time(), UTC)
        end = min(midnight, period.until)
        yield replace(period, start=start, end=end)
        start = end


def _batches(scope: Mapping[str, Any]) -> Iterator[list[tuple[Any, ...]]]:
    # A cursor of the server: it keeps the rows there until they are asked for.
    with connection.chunked_cursor() as cursor:
        cursor.execute(CHARGES, scope)
        while batch := cursor.fetchmany(BATCH_ROWS):
            yield batch


def _charge(
    row: Sequence[Any],
    day: Period,
    teams: Sequence[Node],
    pools: Sequence[Pool],
    currencies: Mapping[UUID, str],
) -> Charge:
    (
        account, usage_class, attempt_id, job_id, job_name, number, user_id, username, cluster,
        priority_class, multiplier_ppm, line_id, price_nano, mgpu_s, cost_nano, mode, class_ppm,
        priced_mgpu_s, list_nano, fault,
    ) = row  # fmt: skip
    team, pool = team_and_pool(account, teams, pools)
    path = team.display_path
    organization, _, below = path.partition("/")
    return Charge(
        start=day.start,
        end=day.end,
        organization=organization,
        department=below.rpartition("/")[0],
        team=path,
        user_id=user_id,
        user=username,
        cluster=cluster,
        pool=pool.name,
        device=pool.kind.value,
        usage_class=CLASSES[usage_class],
        priority_class=priority_class,
        multiplier_ppm=multiplier_ppm,
        job_id=job_id,
        job_name=job_name,
        attempt_id=attempt_id,
        attempt=number,
        mgpu_s=mgpu_s,
        rate_line=line_id,
        price_nano=price_nano,
        list_cost_nano=list_nano,
        contracted_cost_nano=list_nano,
        billed_cost_nano=cost_nano,
        effective_cost_nano=_effective_nano(usage_class, mode, list_nano, cost_nano),
        currency=currencies.get(team.organization_id),
        mode=mode,
        class_multiplier_ppm=class_ppm,
        priced_mgpu_s=priced_mgpu_s,
        fault=fault,
    )


def _effective_nano(usage_class: int, mode: str, list_nano: int, cost_nano: int) -> int:
    """Return the cost with commitments spread over the use that they pay."""
    if CLASSES[usage_class] == ExtraCharge.COMMITMENT:
        return 0
    return list_nano if mode == PriceMode.COMMITMENT else cost_nano
