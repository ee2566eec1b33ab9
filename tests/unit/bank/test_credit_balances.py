"""Balances in the arbiter's snapshot, with their holds and epochs."""

from __future__ import annotations

import pytest

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from arbiter.cycle.decide import decide
from bank.models import CreditBank
from bank.settling import settle_due
from builders.billing_builders import a_metered_attempt, at
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from jobs.arbitration.memory import Memory
from jobs.arbitration.snapshots import load_snapshot
from jobs.models import Attempt, JobState

pytestmark = pytest.mark.django_db

#: Credits of one GPU of the reference kind for an hour.
GPU_HOUR = 3_600 * 1_000_000


@pytest.fixture
def company() -> Company:
    return a_company()


def a_bank(company: Company) -> CreditBank:
    return CreditBank.objects.create(
        organization=company.organization, is_on=True, switched_at=at(0)
    )


def a_running_job(company: Company, *, nodes: int) -> Attempt:
    """A job of nlp, which is guaranteed 8 GPUs, that runs on `nodes` nodes of 8."""
    user = a_user(company.organization)
    job = a_job(company.nlp, user, company.pool, nodes=nodes, gpus=8, state=JobState.RUNNING)
    return Attempt.objects.create(
        job=job,
        number=1,
        cluster=company.cluster,
        slots=[{"node": f"ai-company-{node:03d}", "mgpu": 8_000} for node in range(nodes)],
        mgpu=nodes * 8_000,
        guaranteed_mgpu=0,
        state="running",
        epoch=1,
        granted_at=at(0),
        started_at=at(0),
        native_id="1",
    )


def balances(snapshot: Snapshot, company: Company) -> dict[str, tuple[int, int, int]]:
    """By team the balance and the hold, in GPU-hours, and the epoch."""
    names = {str(team.pk): team.slug for team in (company.nlp, company.vision, company.inference)}
    return {
        names[one.team]: (one.credits // GPU_HOUR, one.held // GPU_HOUR, one.epoch)
        for one in snapshot.balances
    }


def test_no_bank_gives_no_balance(company: Company) -> None:
    assert load_snapshot(at(0)).balances == ()


def test_balances_come_with_their_holds_and_their_epoch(company: Company) -> None:
    """nlp borrows 8 GPUs for an hour. Both lenders are as poor, so their guarantees divide it.

    Planted: a hold of what the team uses; an epoch that stays.
    """
    a_bank(company)
    a_running_job(company, nodes=2)
    a_metered_attempt(company.nlp, 0, None, pool=company.pool, mgpu=16_000)
    assert settle_due(at(3_660)) == 4
    found = balances(load_snapshot(at(3_660)), company)
    assert found["nlp"] == (-8, 8, 4)
    assert {team: credits for team, (credits, _, _) in found.items()} == {
        "nlp": -8,
        "vision": 2,
        "inference": 5,
    }


def test_holds_are_dead_after_two_missed_settlements(company: Company) -> None:
    """The last settled interval ends at 900 s, and the third one is due 60 s after 2,700 s."""
    a_bank(company)
    a_running_job(company, nodes=2)
    a_metered_attempt(company.nlp, 0, None, pool=company.pool, mgpu=16_000)
    assert settle_due(at(960)) == 1
    assert balances(load_snapshot(at(2_759)), company)["nlp"][1] == 8
    assert balances(load_snapshot(at(2_760)), company)["nlp"][1] == 0


def test_the_memory_has_the_balances_of_the_database(company: Company) -> None:
    """A settlement and a job that ends change them, without a change of the tree.

    Planted: balances of the first reading for ever; holds of the first reading.
    """
    a_bank(company)
    attempt = a_running_job(company, nodes=2)
    a_metered_attempt(company.nlp, 0, None, pool=company.pool, mgpu=16_000)
    assert settle_due(at(960)) == 1
    memory = Memory()
    now = at(1_000)
    assert memory.read(now).snapshot.balances == load_snapshot(now).balances
    assert settle_due(at(1_860)) == 1
    now = at(1_870)
    remembered = memory.read(now).snapshot.balances
    assert remembered == load_snapshot(now).balances
    assert {one.epoch for one in remembered} == {2}
    Attempt.objects.filter(pk=attempt.pk).update(
        state="ended", outcome="succeeded", ended_at=at(1_870), released_at=at(1_870)
    )
    now = at(1_880)
    remembered = memory.read(now).snapshot.balances
    assert remembered == load_snapshot(now).balances
    assert {one.held for one in remembered} == {0}


def test_credits_order_spare_gpus_of_the_next_cycle(company: Company) -> None:
    """nlp and vision want the same spare node: vision lent before, so it goes first.

    Against: balances that never reach the arbiter.
    """
    a_bank(company)
    a_metered_attempt(company.nlp, 0, 3_600, pool=company.pool, mgpu=16_000)
    settle_due(at(3_660))
    user = a_user(company.organization)
    jobs = {}
    for team in (company.nlp, company.vision):
        # The guarantee of 8 is used first; the second job of each team borrows.
        jobs[team.slug] = [a_job(team, user, company.pool, gpus=8, now=at(3_600)) for _ in range(2)]
    blocker = a_job(company.inference, user, company.pool, gpus=8, now=at(3_600))
    plan = decide(load_snapshot(at(3_660)), Policy())
    started = {start.job for start in plan.starts}
    assert str(blocker.pk) in started
    assert str(jobs["vision"][1].pk) in started
    assert str(jobs["nlp"][1].pk) not in started
