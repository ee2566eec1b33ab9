"""Corrections of settled intervals after late news of use, and refunds after faults."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bank import correcting
from bank.correcting import correct_due, reason_of
from bank.models import CreditPool, Settlement, SettlementLine
from bank.settling import settle_due
from bank.statements import statement_of
from billing.changed_use import Change
from billing.metering import record_started
from billing.models import ChangedUse, MeteredAttempt, UnpaidUse, UsageSegment
from builders.bank_builders import DAY_S, a_bank, balances, lots_are_right, teams_of
from builders.billing_builders import a_metered_attempt, at, record_ended, record_fault
from builders.portal_builders import a_pool, an_organization
from clusters.models import Pool
from ledger.models import Transfer
from quotas.models import InstallationPolicy
from tenants.models import Node

pytestmark = pytest.mark.django_db

#: A GPU-second, in millionths.
GPU_S = 1_000_000


def codes() -> list[tuple[str, int]]:
    return [(one.code, one.amount // GPU_S) for one in Transfer.objects.order_by("number")]


def a_borrower(team: Node, mgpu: int, pool: Pool) -> MeteredAttempt:
    """An attempt that started at 0 with 8 guaranteed GPUs, and is known since then."""
    return a_metered_attempt(team, 0, None, pool=pool, mgpu=mgpu, guaranteed_mgpu=8_000, now=at(1))


def test_use_that_ended_earlier_than_settled_is_paid_back_once() -> None:
    """a used 16 GPUs for 600 s, which is 2,400 GPU-s above its guarantee, and paid for 1,800 s.

    Against: a payment that is not reversed; a reversal in each pass; effects in the past.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(0))
    job = a_borrower(teams["a"], 16_000, pool)
    assert settle_due(at(1_860)) == 2
    credit_pool = CreditPool.objects.get()
    assert balances(credit_pool, teams, GPU_S) == {"a": -14_400, "b": 14_400}
    record_ended(job.pk, at(600), at(1_870))
    assert correct_due(at(1_880)) == 2
    assert balances(credit_pool, teams, GPU_S) == {"a": -2_400, "b": 2_400}
    assert codes() == [
        ("lent", 7_200),
        ("lent", 7_200),
        ("correction", 7_200),
        ("lent", 2_400),
        ("correction", 7_200),
    ]
    assert {one.effective_at for one in Transfer.objects.filter(code="correction")} == {at(1_800)}
    assert lots_are_right(credit_pool)
    assert not ChangedUse.objects.exists()
    assert correct_due(at(1_900)) == 0
    assert Transfer.objects.count() == 5
    credit_pool.refresh_from_db()
    assert credit_pool.epoch == 4
    assert list(
        Settlement.objects.order_by("start", "revision").values_list("start", "revision")
    ) == [(at(0), 1), (at(0), 2), (at(900), 1), (at(900), 2)]
    statement = statement_of(teams["a"], pool, 2026, 11)
    assert [(one.kind, one.amount_ugpu_s // GPU_S) for one in statement.lines] == [
        ("lent", -14_400),
        ("correction", 7_200),
        ("lent", -2_400),
        ("correction", 7_200),
    ]
    assert statement.lines[1].reason == (
        "Use from 2026-11-01 00:00 to 00:15 UTC changed (train: late news)."
    )


def test_a_job_that_the_portal_learns_of_late_is_charged_late() -> None:
    """Nobody borrowed when the quarter was settled, so it had no settlement."""
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=2, b=14)
    a_bank(organization, at(0))
    assert settle_due(at(960)) == 1
    job = a_metered_attempt(teams["a"], None, None, pool=pool, mgpu=10_000, guaranteed_mgpu=2_000)
    record_started(job.pk, at(600), at(1_000))
    assert correct_due(at(1_010)) == 1
    credit_pool = CreditPool.objects.get()
    assert balances(credit_pool, teams, GPU_S) == {"a": -1_200, "b": 1_200}
    (settlement,) = Settlement.objects.all()
    assert (settlement.revision, settlement.start) == (1, at(0))
    assert lots_are_right(credit_pool)


def test_credits_for_work_that_a_failed_node_lost_come_back() -> None:
    """a paid for 16 borrowed-GPU-minutes since its checkpoint at 120 s: it gets them back.

    Against: a lender that earns more because faults count as idle; use before the checkpoint free.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(0))
    job = a_borrower(teams["a"], 10_000, pool)
    assert settle_due(at(960)) == 1
    record_ended(job.pk, at(1_000), at(1_000))
    record_fault(job.pk, at(120), at(1_000), "node_failed")
    assert correct_due(at(1_010)) == 1
    credit_pool = CreditPool.objects.get()
    assert balances(credit_pool, teams, GPU_S) == {"a": -240, "b": 240}
    line = SettlementLine.objects.get(team=teams["a"], settlement__revision=2)
    assert (line.paid, line.unpaid, line.waived) == (240 * GPU_S, 0, 1_560 * GPU_S)
    assert codes() == [("lent", 1_800), ("refund", 1_800), ("lent", 240)]
    assert Transfer.objects.get(code="refund").reason == (
        "Use from 2026-11-01 00:00 to 00:15 UTC changed (train: a node failed)."
    )
    assert list(UsageSegment.objects.order_by("start").values_list("start", "end", "fault")) == [
        (at(0), at(120), ""),
        (at(120), at(1_000), "node_failed"),
    ]
    # The rest of the job is settled with the fault in sight.
    assert settle_due(at(1_860)) == 1
    assert balances(credit_pool, teams, GPU_S) == {"a": -240, "b": 240}


def test_news_that_changes_no_payment_posts_nothing() -> None:
    """A job inside the guarantee ended earlier; the team borrowed nothing either way."""
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(0))
    job = a_borrower(teams["a"], 8_000, pool)
    assert settle_due(at(960)) == 1
    record_ended(job.pk, at(300), at(1_000))
    assert correct_due(at(1_010)) == 0
    assert not Transfer.objects.exists()
    assert not Settlement.objects.exists()
    assert not ChangedUse.objects.exists()


def test_a_correction_keeps_the_balances_limits_and_weight_of_its_time() -> None:
    """a could pay 1,800 of 7,200 GPU-s at its floor; with half the use it still pays those.

    Against: the balance of today, at which nothing could be paid.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=1, b=8)
    InstallationPolicy.objects.update_or_create(pk=1, defaults={"credit_floor_s": 1_800})
    a_bank(organization, at(0))
    job = a_metered_attempt(teams["a"], 0, 900, pool=pool, mgpu=9_000, guaranteed_mgpu=1_000)
    assert settle_due(at(960)) == 1
    assert UnpaidUse.objects.get().start == at(225)
    pool.weight = 4_000
    pool.save()
    InstallationPolicy.objects.update(credit_floor_s=60)
    record_fault(job.pk, at(450), at(1_000), "node_failed")
    assert correct_due(at(1_010)) == 1
    line = SettlementLine.objects.get(team=teams["a"], settlement__revision=2)
    assert (line.paid, line.unpaid, line.waived) == (1_800 * GPU_S, 1_800 * GPU_S, 3_600 * GPU_S)
    # The payment is right, so it stays.
    assert codes() == [("lent", 1_800)]
    assert [
        (one.start, one.end, one.unpaid_mgpu, one.fault)
        for one in UsageSegment.objects.order_by("start")
    ] == [
        (at(0), at(225), 0, ""),
        (at(225), at(450), 8_000, ""),
        (at(450), at(900), 0, "node_failed"),
    ]


def unpaid_uses() -> list[tuple[UUID, datetime, datetime, int]]:
    rows = UnpaidUse.objects.order_by("start")
    return list(rows.values_list("attempt_id", "start", "end", "mgpu"))


def test_a_correction_tells_the_meter_which_use_stayed_unpaid() -> None:
    """a can pay 1,800 GPU-s. The first job ended earlier, so more of the second is paid.

    The guarantee of a, one GPU, is then free for the second.
    Planted: a correction that does not tell the meter.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=1, b=8)
    InstallationPolicy.objects.update_or_create(pk=1, defaults={"credit_floor_s": 1_800})
    a_bank(organization, at(0))
    first, second = (
        a_metered_attempt(
            teams["a"], start, end, pool=pool, mgpu=1_000 * gpus, guaranteed_mgpu=1_000 * own
        )
        for start, end, gpus, own in ((0, None, 5, 1), (10, 900, 4, 0))
    )
    assert settle_due(at(960)) == 1
    assert unpaid_uses() == [
        (second.pk, at(10), at(900), 4_000),
        (first.pk, at(450), at(900), 4_000),
    ]
    record_ended(first.pk, at(200), at(1_000))
    assert correct_due(at(1_010)) == 1
    assert unpaid_uses() == [(second.pk, at(435), at(900), 4_000)]


def test_unpaid_use_moves_to_another_job_although_no_amount_changes() -> None:
    """The unpaid quarter of the interval was the use of a job that the portal learned of late.

    Planted: the meter is told of corrections with new amounts only.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=1, b=8)
    InstallationPolicy.objects.update_or_create(pk=1, defaults={"credit_floor_s": 1_800})
    a_bank(organization, at(0))
    first = a_metered_attempt(teams["a"], 0, None, pool=pool, mgpu=4_000, guaranteed_mgpu=0)
    late = a_metered_attempt(teams["a"], None, None, pool=pool, mgpu=4_000, guaranteed_mgpu=0)
    assert settle_due(at(960)) == 1
    assert unpaid_uses() == [(first.pk, at(675), at(900), 4_000)]
    record_ended(first.pk, at(675), at(1_000))
    record_started(late.pk, at(675), at(1_000))
    record_ended(late.pk, at(900), at(1_000))
    assert correct_due(at(1_010)) == 0
    assert unpaid_uses() == [(late.pk, at(675), at(900), 4_000)]


def test_a_pass_is_bounded_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six intervals changed, and one call corrects four of them."""
    monkeypatch.setattr(correcting, "INTERVALS_MAX", 4)
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(0))
    job = a_borrower(teams["a"], 16_000, pool)
    assert settle_due(at(6 * 900 + 60)) == 6
    record_ended(job.pk, at(451), at(6 * 900 + 70))
    assert correct_due(at(6 * 900 + 80)) == 4
    assert correct_due(at(6 * 900 + 90)) == 2
    assert correct_due(at(6 * 900 + 99)) == 0
    assert balances(CreditPool.objects.get(), teams, GPU_S) == {"a": -16, "b": 16}


@pytest.mark.parametrize("step", ["store_settlement", "record_unpaid_use", "forget_changes"])
def test_a_correction_that_is_interrupted_leaves_nothing_behind(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made whole in the next pass. Against: a transaction for each step."""
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(0))
    job = a_borrower(teams["a"], 16_000, pool)
    settle_due(at(960))
    record_ended(job.pk, at(600), at(1_000))

    def broken(*_: Any, **__: Any) -> None:
        raise ConnectionError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(correcting, step, broken)
        assert correct_due(at(1_010)) == 0
    credit_pool = CreditPool.objects.get()
    assert (Transfer.objects.count(), Settlement.objects.count()) == (1, 1)
    assert ChangedUse.objects.count() == 1
    assert credit_pool.epoch == 1
    assert correct_due(at(1_020)) == 1
    assert balances(credit_pool, teams, GPU_S) == {"a": -2_400, "b": 2_400}


def test_changes_of_organizations_without_a_bank_are_forgotten() -> None:
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8)
    a_metered_attempt(teams["a"], 0, 900, pool=pool)
    assert ChangedUse.objects.exists()
    assert correct_due(at(1_000)) == 0
    assert not ChangedUse.objects.exists()


def test_time_in_which_the_bank_was_off_is_never_settled_late() -> None:
    """The bank was off from 900 s to 1,800 s; news of that time posts nothing.

    Against: each interval before `settled_until` taken for settled.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(0))
    settle_due(at(960))
    CreditPool.objects.update(settled_since=at(1_800), settled_until=at(1_800))
    a_metered_attempt(teams["a"], 900, 1_800, pool=pool, mgpu=16_000, guaranteed_mgpu=8_000)
    assert correct_due(at(1_900)) == 0
    assert not Transfer.objects.exists()
    assert not ChangedUse.objects.exists()


def test_a_reason_names_at_most_three_jobs() -> None:
    changes = [Change(f"job-{number}", "") for number in (1, 1, 2, 3, 4, 5)]
    assert reason_of(changes, at(0), at(900)) == (
        "Use from 2026-11-01 00:00 to 00:15 UTC changed "
        "(job-1: late news; job-2: late news; job-3: late news; 2 more)."
    )


class Undo(Exception):
    """Takes an example's rows back."""


seconds = st.integers(0, 2_700)
jobs = st.tuples(
    st.sampled_from("ab"), seconds, st.integers(1, 1_800), st.sampled_from([1_000, 9_000, 12_500])
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    worked=st.lists(jobs, min_size=1, max_size=4),
    news=st.lists(st.tuples(st.integers(0, 3), seconds, st.booleans()), min_size=1, max_size=3),
)
def test_original_and_corrections_are_a_fresh_settlement_of_the_truth(
    worked: list[tuple[str, int, int, int]], news: list[tuple[int, int, bool]]
) -> None:
    """Two teams, whose payments depend on no balance: late news ends like news in time.

    All balances sum to 0, and earnings to the balances. A pass after the last posts nothing.
    Against: the new payments alone; news of the last interval only.
    """

    def history(name: str, is_late: bool) -> dict[str, float]:
        organization, pool = an_organization(name), a_pool(name)
        teams = teams_of(organization, pool, a=8, b=8)
        a_bank(organization, at(0), cap_s=365 * DAY_S)
        attempts = [
            a_metered_attempt(
                teams[team],
                start,
                start + length if not is_late and index not in dict_of else None,
                pool=pool,
                mgpu=mgpu,
                guaranteed_mgpu=min(mgpu, 8_000),
            )
            for index, (team, start, length, mgpu) in enumerate(worked)
        ]
        if is_late:
            settle_due(at(3_660))
        for index, attempt in enumerate(attempts):
            _, start, length, _ = worked[index]
            end, since = dict_of.get(index, (start + length, None))
            if is_late or index in dict_of:
                record_ended(attempt.pk, at(end), at(4_000))
            if since is not None:
                record_fault(attempt.pk, at(since), at(4_000), "node_failed")
            if is_late:
                correct_due(at(4_010))
        if not is_late:
            settle_due(at(3_660))
        correct_due(at(4_020))
        count = Transfer.objects.count()
        settle_due(at(3_660))
        assert correct_due(at(4_030)) == 0
        assert Transfer.objects.count() == count
        credit_pool = CreditPool.objects.get(organization=organization)
        found = balances(credit_pool, teams)
        assert sum(found.values()) == 0
        assert lots_are_right(credit_pool)
        last = {}
        for line in SettlementLine.objects.filter(settlement__credit_pool=credit_pool).order_by(
            "settlement__revision"
        ):
            last[line.settlement.start, line.team_id] = line
        return {name: found.get(name, 0.0) for name in ("a", "b", "pool")}

    dict_of = {
        index % len(worked): (moment, moment // 2 if is_fault else None)
        for index, moment, is_fault in news
    }
    try:
        with transaction.atomic():
            assert history("late", True) == history("fresh", False)
            raise Undo
    except Undo:
        pass
