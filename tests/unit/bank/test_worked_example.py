"""The worked example of credits with the real arbiter, observer, meter, settlement and database.

Three teams, 120 GPUs and five days. The arbiter decides what runs on a cluster in memory, the
observer records it, and PostgreSQL settles it. The demand of a day is new at each midnight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bank.models import CreditBank, CreditPool, SettlementLine
from bank.settling import settle_due
from builders.clocks import ClockAt
from builders.loop_builders import LoopOn, a_job
from builders.portal_builders import (
    a_cluster,
    a_pool,
    a_priority_class,
    a_quota,
    a_team,
    an_actor,
    an_organization,
)
from clusters.models import Pool
from connectors.registry import KINDS
from jobs.actions.cancellation import cancel_job
from jobs.models import Attempt, Job, JobState
from ledger.accounts import accounts_of
from ledger.models import Transfer
from quotas.models import InstallationPolicy
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Role
from toy_kind import connector as toy_kind
from toy_kind.connector import CLUSTERS, ToyCluster
from toy_kind.kind import TOY

pytestmark = pytest.mark.django_db

#: Credits of one GPU of the reference kind for a day.
GPU_DAY = 86_400 * 1_000_000
TWO_DAYS_S = 2 * 86_400
FIRST = datetime(2026, 11, 26, tzinfo=UTC)
DAY = timedelta(days=1)
#: GPUs that the teams want each day, and those that they use.
DEMANDS = ((10, 90, 20), (10, 90, 50), (100, 40, 40), (80, 100, 20), (40, 0, 110))
IN_USE = ((10, 90, 20), (10, 60, 50), (60, 40, 20), (60, 40, 20), (40, 0, 80))
#: Paid by credits, unpaid and lent, in GPU-days by team.
PAID = ({"b": 50}, {"b": 20, "c": 30}, {"a": 20}, {"a": 20}, {"c": 10})
UNPAID = ({}, {}, {}, {}, {"c": 50})
LENT = ({"a": 30}, {"a": 30}, {}, {}, {"b": 10})
#: The balances after each day, with the account POOL; on the last day before and after its close.
BALANCES = (
    {"a": 30, "b": -50, "c": 0, "pool": 20},
    {"a": 60, "b": -70, "c": -30, "pool": 40},
    {"a": 40, "b": -70, "c": -30, "pool": 60},
    {"a": 20, "b": -70, "c": -30, "pool": 80},
    {"a": 52, "b": -28, "c": -24, "pool": 0},
)
DIVIDEND = {"a": 32, "b": 32, "c": 16}


@dataclass
class Example:
    """The cluster, the loops on it, the clock, and the teams."""

    toy: ToyCluster
    loop: LoopOn
    clock: ClockAt
    pool: Pool
    actor: Actor
    teams: dict[str, Node]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Example]:
    """12 nodes of 10 GPUs; a and b are guaranteed 40, c 20. Intervals of 6 h keep it short."""
    settings.CREDITS_SETTLED_EVERY_S = 21_600
    clock = ClockAt(FIRST)
    monkeypatch.setitem(KINDS, TOY.name, TOY)
    monkeypatch.setattr(toy_kind, "now_s", lambda: int(clock.time.timestamp()))
    InstallationPolicy.objects.update_or_create(pk=1, defaults={"credit_floor_s": TWO_DAYS_S})
    organization = an_organization("lab")
    a_priority_class(organization)
    pool, cluster = a_pool(), a_cluster()
    cluster.kind, cluster.options = TOY.name, {"address": "lab", "gpus_per_node": 10}
    cluster.save()
    teams = {slug: a_team(organization, slug) for slug in "abc"}
    a_quota(organization, pool, 120)
    for slug, gpus in (("a", 40), ("b", 40), ("c", 20)):
        a_quota(teams[slug], pool, gpus)
    CreditBank.objects.create(
        organization=organization, is_on=True, switched_at=FIRST, cap_s=TWO_DAYS_S
    )
    CLUSTERS["lab"] = toy = ToyCluster(pool=pool.name, node_count=12)
    loop = LoopOn(cluster)
    loop.clock = clock  # type: ignore[assignment]
    actor = an_actor(organization, Role.ORGANIZATION_ADMIN)
    yield Example(toy, loop, clock, pool, actor, teams)
    del CLUSTERS["lab"]


def a_day(example: Example, demand: tuple[int, ...]) -> tuple[int, ...]:
    """Submit the demand as jobs of 10 GPUs, let the loops run, and end the day.

    Return the GPUs that each team used all day.
    """
    clock, loop = example.clock, example.loop
    for slug, gpus in zip(example.teams, demand, strict=True):
        for _ in range(gpus // 10):
            a_job(example.teams[slug], example.actor.user, example.pool, gpus=10, now=clock.time)
    loop.turn()
    loop.observe()
    running = Attempt.objects.filter(state="running").values_list("job__team__slug", "mgpu")
    used = Counter[str]()
    for slug, mgpu in running:
        used[slug] += mgpu // 1_000
    clock.time += DAY
    for key in [*example.toy.runs]:
        example.toy.end(key)
    loop.observe()
    for job in Job.objects.filter(state=JobState.QUEUED):
        cancel_job(job.pk, actor=example.actor, now=clock.time)
    return tuple(used[slug] for slug in example.teams)


def balances(example: Example) -> dict[str, float]:
    """The balances in GPU-days. They sum to 0, to the unit."""
    names = {str(team.pk): slug for slug, team in example.teams.items()}
    accounts = accounts_of(CreditPool.objects.get().ledger)
    assert sum(account.balance for account in accounts) == 0
    found = {names.get(account.owner, "pool"): account.balance / GPU_DAY for account in accounts}
    return dict.fromkeys((*example.teams, "pool"), 0.0) | found


def settled(day: int, part: str) -> dict[str, float]:
    """A part of the settlement lines of a day, by team in GPU-days."""
    start = FIRST + day * DAY
    sums = Counter[str]()
    lines = SettlementLine.objects.filter(
        settlement__start__gte=start, settlement__start__lt=start + DAY
    )
    for slug, amount in lines.values_list("team__slug", part):
        sums[slug] += amount
    return {slug: amount / GPU_DAY for slug, amount in sums.items() if amount}


def test_five_days_come_out_to_the_unit(example: Example) -> None:
    """Day 2: c (0) outranks b (-1.25 days). Days 3 and 4: a spends what it lent.

    Against: the poorest first; a floor that refuses starts.
    """
    for day, demand in enumerate(DEMANDS):
        used = a_day(example, demand)
        assert (day, used) == (day, IN_USE[day])
        # The settlement of a day is in the balances before the next day's jobs are ordered.
        assert settle_due(example.clock.time + timedelta(seconds=60)) == 4
        parts = [settled(day, part) for part in ("paid", "unpaid", "lent")]
        assert (day, parts) == (day, [PAID[day], UNPAID[day], LENT[day]])
        assert (day, balances(example)) == (day, BALANCES[day])
    names = {str(team.pk): slug for slug, team in example.teams.items()}
    dividends = Transfer.objects.filter(code="dividend").values_list("credit__owner", "amount")
    assert {names[owner]: amount / GPU_DAY for owner, amount in dividends} == DIVIDEND
