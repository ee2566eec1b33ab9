"""The figures of a node in one week: use, waits, waste, cost and refusals.

Each figure is a number of a report, and `figures_of` links it to the page of that report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from approvals.models import RequestStatus
from approvals.reading import decided_between, listed
from bank.settling import zone_of
from chargeback.dimensions import Dimension
from chargeback.reports import Asked, GroupRow, Narrowed, grouped_report
from clusters.models import Pool
from history.integrals import Level
from history.preemptions import preemptions_of
from history.steps import Step
from history.use import history_of
from history.waits import WaitGroup, waits_of
from notices.giving import Figure
from primitives.currencies import money_text
from primitives.days import midnight
from primitives.durations import duration_of_seconds
from primitives.errors import FieldError, InvalidRequest
from primitives.units import DeviceKind, gpu_hours
from quotas.models import Quota
from tenants.access import Actor, under, visible_node

WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class PoolWeek:
    """The figures of a node in a pool.

    `idle_mgpu_s` is guarantee that nobody used. `lost_mgpu_s` is work that preemptions lost.
    `waits` are those of each usage class in which jobs started.
    """

    pool: str
    device: DeviceKind
    used_mgpu_s: int
    idle_mgpu_s: int
    waits: Sequence[WaitGroup]
    preemptions: int
    lost_mgpu_s: int
    cost_nano: int
    currency: str | None


@dataclass(frozen=True, slots=True)
class Week:
    """The figures of a node from the Monday `start` until before the Monday `end`."""

    node_id: UUID
    node: str
    zone: ZoneInfo
    start: date
    end: date
    pools: Sequence[PoolWeek]
    rejected_requests: int


def week_of(path: str, *, start: date | None = None, actor: Actor, now: datetime) -> Week:
    """Return the week from the Monday `start`, by default the last whole week.

    Weeks are those of the organization's time zone. Raises InvalidRequest for another day than a
    Monday and for a week that has not begun; otherwise as `grouped_report`.
    """
    node = visible_node(actor, path)
    zone = zone_of(node.organization_id)
    if start is None:
        start = monday_of(now.astimezone(zone).date()) - WEEK
    if start != monday_of(start):
        raise InvalidRequest(
            "A week begins on a Monday. Give the date of a Monday.",
            errors=[FieldError("/start", "is no Monday")],
        )
    end = start + WEEK
    asked = Asked(start, end)
    report = grouped_report(
        actor=actor,
        by=[Dimension.POOL],
        asked=asked,
        narrowed=Narrowed(node_path=path),
        now=now,
    )
    rows = {row.keys[0]: row for row in report.rows}
    guaranteed = Quota.objects.filter(node=node, guaranteed_mgpu__gt=0).values("pool__name")
    pools = Pool.objects.filter(name__in=rows) | Pool.objects.filter(name__in=guaranteed)
    decided = decided_between(
        listed(actor, "decided").filter(under([node.path], "node__path")),
        midnight(start, zone),
        midnight(end, zone),
    )
    return Week(
        node_id=node.pk,
        node=node.display_path,
        zone=zone,
        start=start,
        end=end,
        pools=[
            _pool_week(path, pool, rows.get(pool.name), actor=actor, asked=asked, now=now)
            for pool in pools.order_by("name")
        ],
        rejected_requests=decided.filter(status=RequestStatus.REJECTED).count(),
    )


def monday_of(day: date) -> date:
    """Return the Monday of the day's week."""
    return day - timedelta(days=day.weekday())


def _pool_week(
    path: str, pool: Pool, row: GroupRow | None, *, actor: Actor, asked: Asked, now: datetime
) -> PoolWeek:
    use = history_of(path, pool, actor=actor, asked=asked, step=Step.DAY, now=now)
    waits = waits_of(path, pool, actor=actor, asked=asked, now=now)
    preempted = preemptions_of(path, pool, actor=actor, asked=asked, now=now)
    sums = use.series.sums
    return PoolWeek(
        pool=pool.name,
        device=pool.kind,
        used_mgpu_s=use.series.used_mgpu_s,
        idle_mgpu_s=sums[Level.GUARANTEE] - sums[Level.WITHIN] - sums[Level.LENT],
        waits=[each for each in waits.groups if each.team is None and each.step is None],
        preemptions=preempted.preemptions,
        lost_mgpu_s=preempted.lost_mgpu_s,
        cost_nano=0 if row is None else row.amounts.cost_nano,
        currency=None if row is None else row.currency,
    )


def sentence_of(week: Week) -> str:
    """Return the use of the week in one sentence."""
    last = week.end - timedelta(days=1)
    used = {
        device: sum(pool.used_mgpu_s for pool in week.pools if pool.device is device)
        for device in DeviceKind
    }
    parts = [_hours(mgpu_s, device) for device, mgpu_s in used.items() if mgpu_s]
    amount = " and ".join(parts) or "nothing"
    return f"{week.node} used {amount} in the week of {week.start} to {last}."


def figures_of(week: Week) -> list[Figure]:
    """Return all figures, each with the page that shows it for the same week."""
    shown = [figure for pool in week.pools for figure in _pool_figures(week, pool)]
    query = {
        "view": "decided",
        "scope": week.node,
        "status": RequestStatus.REJECTED.value,
        "since": f"{midnight(week.start, week.zone):%Y-%m-%dT%H:%M:%SZ}",
        "until": f"{midnight(week.end, week.zone):%Y-%m-%dT%H:%M:%SZ}",
    }
    rejected = Figure(
        "Rejected requests", f"{week.rejected_requests:,}", f"/requests?{urlencode(query)}"
    )
    return [*shown, rejected]


def _pool_figures(week: Week, pool: PoolWeek) -> Iterator[Figure]:
    days = {"pool": pool.pool, "from": str(week.start), "to": str(week.end)}
    history = f"/tree/{week.node_id}/history?{urlencode(days)}"
    query = {
        "node": week.node,
        "pool": pool.pool,
        "start": str(week.start),
        "end": str(week.end),
    }
    jobs = f"/chargeback/jobs?{urlencode(query)}"
    yield Figure(f"Used, {pool.pool}", _hours(pool.used_mgpu_s, pool.device), history)
    for group in pool.waits:
        waits = group.waits
        for name, wait_s in (("p50", waits.p50_s), ("p95", waits.p95_s)):
            title = f"Waited, {pool.pool}, {group.usage_class} ({name} of {waits.jobs:,} jobs)"
            yield Figure(title, duration_of_seconds(wait_s), history)
    yield Figure(f"Idle guarantee, {pool.pool}", _hours(pool.idle_mgpu_s, pool.device), history)
    noun = "preemption" if pool.preemptions == 1 else "preemptions"
    lost = f"Lost work, {pool.pool} ({pool.preemptions:,} {noun})"
    yield Figure(lost, _hours(pool.lost_mgpu_s, pool.device), history)
    if pool.currency is not None:
        cost = f"{money_text(pool.cost_nano, pool.currency)} {pool.currency}"
        yield Figure(f"Cost, {pool.pool}", cost, jobs)


def _hours(mgpu_s: int, device: DeviceKind) -> str:
    return f"{gpu_hours(mgpu_s)} {device.singular}-hours"


def link_of(week: Week) -> str:
    """Return the path of the node's history in the week."""
    days = {"from": str(week.start), "to": str(week.end)}
    return f"/tree/{week.node_id}/history?{urlencode(days)}"
