"""The jobs behind a number of a report, with the charges beside use: they sum to the number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from billing.models import ExtraCharge, UsageClass
from billing.periods import Period
from billing.scopes import nodes_of, pools_named, scope_of, team_and_pool, teams_of
from billing.usage_sql import CLASSES, POOLS_MAX, extras, jobs, rows_of
from chargeback.reports import Charged, Narrowed, charged_as
from clusters.models import Pool
from primitives.errors import FieldError, InvalidRequest
from primitives.units import DeviceKind
from tenants.access import Actor
from tenants.models import Node
from tenants.places import visible_place
from tenants.roles import Permission

#: The most rows of a list of jobs as CSV.
JOBS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class JobUse:
    """A job's use in one usage class, in milli-GPU-seconds and nano-currency, or its top-ups.

    A commitment has no job: its id is None, and its name and user are empty. Charges beside use
    have a cost only. `faults` are the reasons of use in the class `fault`
    (`billing.models.FaultReason`).
    """

    job_id: UUID | None
    name: str
    team: str
    user: str
    pool: str
    device: DeviceKind
    usage_class: Charged
    mgpu_s: int
    cost_nano: int
    attempts: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobKey:
    """The end of a page of jobs: the last job's usage, id, class, path of its team, and pool."""

    mgpu_s: int
    job_id: UUID | None
    usage_class: Charged
    team: str
    pool: str


def jobs_behind(
    *,
    actor: Actor,
    period: Period,
    narrowed: Narrowed,
    after: JobKey | None = None,
    limit: int,
) -> tuple[list[JobUse], bool]:
    """Return at most `limit` jobs behind a number of a report, and whether more follow.

    Over all pages, their sums exactly equal the number with the same period and `as_of`. Use comes
    first, the largest first, then commitments and top-ups. A job with use in several classes is
    listed once for each. Raises as `grouped_report`, and Forbidden also without the right to see
    the jobs. Raises InvalidRequest without a node.
    """
    if narrowed.node_path is None:
        raise InvalidRequest(
            "Give the path of a node of the report.", errors=[FieldError("/node", "is required")]
        )
    top = visible_place(actor, narrowed.node_path, Permission.VIEW_COSTS, Permission.VIEW_JOBS)
    places = narrowed.places(actor, period, top)
    nodes = nodes_of(places)
    pools = pools_named(narrowed.pool)
    teams, names = teams_of(nodes), list(pools.values())
    condition, attempts = narrowed.attempts.condition({node.organization_id for node in nodes})
    parameters = {
        **scope_of(places, nodes, pools, period),
        **attempts,
        "priced_at": None,
        "classes": [number for number, name in CLASSES.items() if narrowed.covers(name)],
        "after_mgpu_s": after and after.mgpu_s,
        "after_job": after and after.job_id,
        "after_class": after and _NUMBERS[after.usage_class],
        "after_account": after and _account(after, teams, names),
        "limit": limit + 1,
    }
    found: list[tuple[Any, ...]] = []
    if after is None or after.usage_class in UsageClass.values:
        found = rows_of(jobs(condition), parameters)
        parameters |= dict.fromkeys(("after_job", "after_class", "after_account"))
    if len(found) <= limit and any(narrowed.covers(name) for name in ExtraCharge.values):
        found += rows_of(extras(condition), {**parameters, "limit": limit + 1 - len(found)})
    uses = [_job_use(row, teams, names) for row in found]
    return uses[:limit], len(uses) > limit


def every_job(*, actor: Actor, period: Period, narrowed: Narrowed) -> list[JobUse]:
    """Return all jobs behind a number. Raises InvalidRequest for more than `JOBS_MAX`."""
    found, more = jobs_behind(actor=actor, period=period, narrowed=narrowed, limit=JOBS_MAX)
    if more:
        raise InvalidRequest(
            f"The list has more than {JOBS_MAX} rows. Add a filter, ask for a shorter period, or "
            "export the charges of the node.",
            errors=[FieldError("/format", "is for fewer rows")],
        )
    return found


_NUMBERS = {name: number for number, name in CLASSES.items()}


def _job_use(row: Sequence[Any], teams: Sequence[Node], pools: Sequence[Pool]) -> JobUse:
    job_id, name, username, account, number, mgpu_s, cost_nano, attempts, faults = row
    team, pool = team_and_pool(account, teams, pools)
    return JobUse(
        job_id=job_id,
        name=name or "",
        team=team.display_path,
        user=username or "",
        pool=pool.name,
        device=pool.kind,
        usage_class=charged_as(CLASSES[number]),
        mgpu_s=int(mgpu_s),
        cost_nano=int(cost_nano),
        attempts=attempts,
        faults=tuple(faults or ()),
    )


def _account(key: JobKey, teams: Sequence[Node], pools: Sequence[Pool]) -> int:
    """Return the number of the key's account. Raises InvalidRequest where it no longer exists."""
    paths, names = [team.display_path for team in teams], [pool.name for pool in pools]
    if key.team not in paths or key.pool not in names:
        raise InvalidRequest(
            f"The last page ended with {key.team} in {key.pool}, which is no longer in this list. "
            "Start again without the cursor.",
            errors=[FieldError("/cursor", "is of a list that has changed")],
        )
    return (paths.index(key.team) + 1) * POOLS_MAX + names.index(key.pool) + 1
