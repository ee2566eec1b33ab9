"""Idle and spare GPUs, and their share-out, to the milli-GPU-second."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.api_callers import by_token
from builders.billing_builders import LATER, a_metered_attempt, at
from builders.portal_builders import (
    Company,
    a_company,
    a_pool,
    a_quota,
    a_team,
    an_actor,
    an_organization,
)
from chargeback.idle import Idle, IdlePool, Share, idle_between, shared_out
from chargeback.reports import Asked
from clusters.models import CapacitySegment
from primitives.units import DeviceKind
from quotas.models import Quota, QuotaChange
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Role


def an_idle_pool(idle_mgpu_s: int) -> IdlePool:
    return IdlePool("h100", DeviceKind.GPU, idle_mgpu_s, 0, 0, 0, idle_mgpu_s, 0)


@given(
    st.integers(0, 10**15),
    st.dictionaries(st.sampled_from(["o/a", "o/b", "o/c", "o/d"]), st.integers(0, 10**12)),
)
def test_shares_sum_to_zero_with_the_idle_account(idle: int, own: Mapping[str, int]) -> None:
    """No share is negative, and each is within one of its exact part.

    Against: shares rounded down (the account keeps a remainder that the teams do not have)."""
    rows = shared_out(an_idle_pool(idle), {("h100", team): weight for team, weight in own.items()})
    whole = sum(own.values())
    if idle == 0 or whole == 0:
        assert rows == []
        return
    assert sum(row.mgpu_s for row in rows) == 0
    assert (rows[-1].team, rows[-1].mgpu_s) == (None, -idle)
    for row in rows[:-1]:
        assert row.team is not None
        assert row.mgpu_s >= 0
        assert abs(row.mgpu_s * whole - idle * own[row.team]) < whole


def test_weights_of_other_pools_do_not_count() -> None:
    rows = shared_out(an_idle_pool(10), {("h100", "o/a"): 1, ("a10", "o/b"): 9})
    assert [(row.team, row.mgpu_s) for row in rows] == [("o/a", 10), (None, -10)]


def a_capacity(company: Company, *steps: tuple[int, int | None, int, int]) -> None:
    """Steps of (start, end, GPUs, GPUs held outside)."""
    for start, end, gpus, outside in steps:
        CapacitySegment.objects.create(
            cluster=company.cluster,
            pool=company.pool,
            capacity_mgpu=gpus * 1_000,
            outside_mgpu=outside * 1_000,
            start=at(start),
            end=None if end is None else at(end),
        )


def guarantee(node: Node, *steps: tuple[int, int]) -> None:
    """Steps of (second, GPUs) of the node's quota."""
    quota = Quota.objects.get(node=node)
    for second, gpus in steps:
        QuotaChange.objects.create(
            quota=quota, at=at(second), after={"guaranteed_mgpu": gpus * 1_000}, reason="plan"
        )


def idle(actor: Actor, share: Share = Share.NONE) -> Idle:
    return idle_between(actor=actor, asked=Asked(at(0), at(100)), share=share, now=LATER)


@pytest.mark.django_db
def test_idle_is_inside_of_guarantees_and_spare_is_not() -> None:
    """Of 32 GPUs, 20 are guaranteed. 8 are used from 0 to 50 and 30 from 50 to 100.

    Against: idle of the whole period's sums, in which use above the guarantee balances idle time
    (idle 100 GPU-seconds, not 600)."""
    company = a_company()
    a_capacity(company, (-100, None, 32, 0))
    guarantee(company.organization, (-10, 20))
    a_metered_attempt(company.nlp, 0, 50, mgpu=8_000)
    a_metered_attempt(company.inference, 50, 100, mgpu=30_000)
    (pool,) = idle(an_actor(company.organization, Role.FINANCE)).pools
    assert pool == IdlePool(
        pool="h100",
        device=DeviceKind.GPU,
        capacity_mgpu_s=3_200_000,
        in_use_mgpu_s=8_000 * 50 + 30_000 * 50,
        outside_mgpu_s=0,
        over_mgpu_s=0,
        idle_mgpu_s=12_000 * 50,
        spare_mgpu_s=12_000 * 50 + 2_000 * 50,
    )


@pytest.mark.django_db
def test_nodes_that_are_down_are_not_idle_and_nothing_is_negative() -> None:
    """From second 50 on only 4 of 32 GPUs are healthy, and a job still uses 8.

    Against: the difference without a floor at zero (idle 1,000,000)."""
    company = a_company()
    a_capacity(company, (-100, 50, 32, 2), (50, None, 4, 0))
    guarantee(company.organization, (-10, 32))
    a_metered_attempt(company.nlp, 0, 100, mgpu=8_000)
    (pool,) = idle(an_actor(None, Role.PLATFORM_ADMIN)).pools
    assert (pool.capacity_mgpu_s, pool.outside_mgpu_s) == (36_000 * 50, 2_000 * 50)
    assert (pool.idle_mgpu_s, pool.spare_mgpu_s, pool.over_mgpu_s) == (22_000 * 50, 0, 4_000 * 50)
    assert pool.capacity_mgpu_s + pool.over_mgpu_s == (
        pool.in_use_mgpu_s + pool.outside_mgpu_s + pool.idle_mgpu_s + pool.spare_mgpu_s
    )


@pytest.mark.django_db
def test_idle_is_shared_out_by_guarantee_or_by_usage() -> None:
    """nlp has 8 guaranteed GPUs (4 from second 50 on) and uses all; inference has 16 and uses none.

    Against: the guarantees of today for the whole period."""
    company = a_company()
    a_capacity(company, (-100, None, 32, 0))
    guarantee(company.organization, (-10, 32))
    guarantee(company.nlp, (-10, 8), (50, 4))
    guarantee(company.inference, (-10, 16))
    a_metered_attempt(company.nlp, 0, 100, mgpu=10_000)
    finance = an_actor(company.organization, Role.FINANCE)
    whole = 22_000 * 100

    def shares(share: Share) -> list[tuple[str | None, int]]:
        return [(row.team, row.mgpu_s) for row in idle(finance, share).rows]

    assert shares(Share.NONE) == []
    assert shares(Share.BY_USAGE) == [("ai-company/research/nlp", whole), (None, -whole)]
    assert shares(Share.BY_GUARANTEE) == [
        ("ai-company/production/inference", whole * 16 // 22),
        ("ai-company/research/nlp", whole * 6 // 22),
        (None, -whole),
    ]


@pytest.mark.django_db
def test_idle_time_of_a_shared_pool_is_not_shown() -> None:
    """Others use the pool, with or without a quota; or only a part of the organization is seen."""
    company = a_company()
    a_capacity(company, (-100, None, 32, 0))
    finance = an_actor(company.organization, Role.FINANCE)
    platform = an_actor(None, Role.PLATFORM_ADMIN)
    assert [pool.pool for pool in idle(finance).pools] == ["h100"]
    assert idle(an_actor(company.research, Role.DEPARTMENT_ADMIN)).pools == ()
    other = an_organization("other")
    a_metered_attempt(a_team(other, "squatters"), 0, 1, mgpu=1_000)
    assert idle(finance).pools == ()
    assert idle(an_actor(other, Role.FINANCE)).pools == ()
    assert [pool.pool for pool in idle(platform).pools] == ["h100"]
    a_quota(other, a_pool("a100"), 4)
    a_quota(company.organization, a_pool("a100"), 4)
    assert idle(finance).pools == ()


@pytest.mark.django_db
def test_the_unused_guarantee_of_a_shared_pool_is_shown_and_tells_nothing_of_others() -> None:
    """ai-company is guaranteed 8 GPUs, from second 40 on 4, and uses 2 from 20 to 60 and 8 from 60
    to 80.

    Against: usage above the guarantee balances idle time before it (unused 240,000); the
    guarantee of today for the whole period (320,000 unused); what others use subtracted."""
    company, other = a_company(), an_organization("other")
    finance = an_actor(company.organization, Role.FINANCE)
    department = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    quota = Quota.objects.get(node=company.organization, pool=company.pool)
    for second, guaranteed_mgpu in ((-10, 8_000), (40, 4_000)):
        QuotaChange.objects.create(
            quota=quota, at=at(second), after={"guaranteed_mgpu": guaranteed_mgpu}, reason="plan"
        )
    a_metered_attempt(company.nlp, 20, 60, mgpu=2_000)
    a_metered_attempt(company.nlp, 60, 80, mgpu=8_000)

    def withheld(actor: Actor) -> list[tuple[str, str, int | None, int | None]]:
        return [
            (item.pool, item.reason.value, item.guaranteed_mgpu_s, item.unused_mgpu_s)
            for item in idle(actor).withheld
        ]

    assert withheld(finance) == []
    assert withheld(an_actor(None, Role.PLATFORM_ADMIN)) == []
    assert withheld(department) == [("h100", "partial", None, None)]
    a_quota(other, company.pool, 4)
    guaranteed_mgpu_s = 40 * 8_000 + 60 * 4_000
    unused_mgpu_s = 20 * 8_000 + 20 * 6_000 + 20 * 2_000 + 20 * 4_000
    shared = [("h100", "shared", guaranteed_mgpu_s, unused_mgpu_s)]
    assert withheld(finance) == shared
    a_metered_attempt(a_team(other, "squatters"), 0, 100, mgpu=4_000)
    assert withheld(finance) == shared
    assert withheld(an_actor(other, Role.FINANCE)) == [("h100", "shared", 0, 0)]
    assert withheld(department) == [("h100", "partial", None, None)]


@pytest.mark.django_db
def test_idle_over_rest() -> None:
    company = a_company()
    a_capacity(company, (-100, None, 32, 0))
    a_metered_attempt(company.nlp, 0, 100, mgpu=10_000)
    finance = by_token(an_actor(company.organization, Role.FINANCE).user)
    period = "start=2026-11-01T00:00:00Z&end=2026-11-01T00:01:40Z"
    answer = finance.get(f"reports/chargeback/idle?{period}&share=by_usage&pool=h100")
    assert answer.status_code == 200
    body = answer.json()
    body.pop("as_of")
    assert body == {
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-11-01T00:01:40Z",
        "time_zone": "UTC",
        "share": "by_usage",
        "pools": [
            {
                "pool": "h100",
                "device": "gpu",
                "capacity_mgpu_s": 3_200_000,
                "in_use_mgpu_s": 1_000_000,
                "outside_mgpu_s": 0,
                "over_mgpu_s": 0,
                "idle_mgpu_s": 0,
                "spare_mgpu_s": 2_200_000,
            }
        ],
        "rows": [],
        "withheld": [],
    }
    wrong = finance.get(f"reports/chargeback/idle?{period}&share=by_luck")
    assert "share must be one of none, by_guarantee, by_usage" in wrong.json()["detail"]
    assert finance.get(f"reports/chargeback/idle?{period}&pool=nothing").status_code == 404
