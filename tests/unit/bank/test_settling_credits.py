"""Settlement of credits from usage segments, through the database, to the unit."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connection, transaction

from bank.models import CreditLot, CreditPool, Settlement, SettlementLine
from bank.settling import INTERVALS_MAX, first_boundary, settle_due, settle_next_interval
from bank.usage import uses_of
from billing.models import UnpaidUse, UsageSegment
from builders.bank_builders import DAY_S, a_bank, balances, teams_of
from builders.billing_builders import a_metered_attempt, at
from builders.portal_builders import (
    a_pool,
    a_priority_class,
    a_quota,
    a_team,
    an_organization,
)
from ledger.models import Transfer
from quotas.models import InstallationPolicy, OrganizationPolicy, QuotaChange

pytestmark = pytest.mark.django_db

#: A GPU-day of the reference GPU, in millionths of a GPU-second.
GPU_DAY = DAY_S * 1_000_000


def test_five_days_and_the_close_of_a_month(settings: Any) -> None:
    """The worked example of R-89 to R-93, from usage segments, with a settlement a day.

    Planted: unpaid use that is charged; a dividend of half the account of the pool.
    """
    settings.CREDITS_SETTLED_EVERY_S = DAY_S
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=40, b=40, c=20)
    InstallationPolicy.objects.update_or_create(pk=1, defaults={"credit_floor_s": 2 * DAY_S})
    begin = -5 * DAY_S
    a_bank(organization, at(begin), cap_s=2 * DAY_S)
    days = [(10, 90, 20), (10, 60, 50), (60, 40, 20), (60, 40, 20), (40, 0, 80)]
    for day, use in enumerate(days):
        for team, gpus in zip(teams.values(), use, strict=True):
            if gpus:
                start = begin + day * DAY_S
                quota = team.quotas.get().guaranteed_mgpu
                a_metered_attempt(
                    team,
                    start,
                    start + DAY_S,
                    pool=pool,
                    mgpu=gpus * 1000,
                    guaranteed_mgpu=min(quota, gpus * 1000),
                )
    expected = [
        {"a": 30, "b": -50, "pool": 20},
        {"a": 60, "b": -70, "c": -30, "pool": 40},
        {"a": 40, "b": -70, "c": -30, "pool": 60},
        {"a": 20, "b": -70, "c": -30, "pool": 80},
    ]
    for day, after in enumerate(expected):
        now = at(begin + (day + 1) * DAY_S + 60)
        assert settle_due(now) == 1
        credit_pool = CreditPool.objects.get()
        assert balances(credit_pool, teams, GPU_DAY) == after
    # The last interval ends with the month, so the dividend is paid at once.
    assert settle_due(at(60)) == 1
    assert balances(credit_pool, teams, GPU_DAY) == {"a": 52, "b": -28, "c": -24, "pool": 0}
    unpaid = SettlementLine.objects.filter(team=teams["c"], unpaid__gt=0)
    assert sum(line.unpaid for line in unpaid) == 50 * GPU_DAY
    # c pays 10 of its 60 borrowed GPU-days, so the first sixth of the day.
    (segment,) = UsageSegment.objects.filter(unpaid_mgpu__gt=0)
    assert (segment.attempt.team, segment.unpaid_mgpu) == (teams["c"], 60_000)
    assert (segment.start, segment.end) == (at(-20 * 3_600), at(0))
    lots = CreditLot.objects.filter(team=teams["a"])
    assert sum(lot.amount for lot in lots) == 52 * GPU_DAY


def test_a_quarter_is_settled_once_and_after_a_pause_in_order() -> None:
    """A repeat changes nothing. A call settles at most a day."""
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(0))
    a_metered_attempt(teams["a"], 0, None, pool=pool, mgpu=16_000)
    assert settle_due(at(959)) == 0
    assert settle_due(at(960)) == 1
    assert settle_due(at(960)) == 0
    assert settle_due(at(3 * DAY_S)) == INTERVALS_MAX
    credit_pool = CreditPool.objects.get()
    assert credit_pool.settled_until == at(97 * 900)
    assert credit_pool.epoch == 97
    paid = 8_000 * 1_000 * 900 * 97
    assert balances(credit_pool, teams) == {"a": -paid, "b": paid}
    assert Settlement.objects.count() == 97


def test_nothing_is_posted_for_the_time_before_the_switch() -> None:
    """The first settled quarter begins at or after the switch."""
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_metered_attempt(teams["a"], 0, None, pool=pool, mgpu=16_000)
    a_bank(organization, at(901))
    assert settle_due(at(3_600 + 60)) == 2
    assert list(Settlement.objects.order_by("start").values_list("start", flat=True)) == [
        at(1_800),
        at(2_700),
    ]
    assert first_boundary(at(900)) == at(900)


def test_a_team_that_borrows_and_lends_in_a_quarter_counts_with_the_difference() -> None:
    """450 s with 4 of 8 idle and 450 s with 4 borrowed: the team pays and earns nothing."""
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(0))
    a_metered_attempt(teams["a"], 0, 450, pool=pool, mgpu=4_000)
    a_metered_attempt(teams["a"], 450, 900, pool=pool, mgpu=12_000)
    assert settle_due(at(960)) == 1
    assert Transfer.objects.count() == 0


def test_a_guarantee_that_changes_within_a_quarter_counts_by_the_second() -> None:
    """8 GPUs for 300 s and 4 for 600 s are 4,800 GPU-seconds, of which 8 x 900 are used.

    Planted: the guarantee at the end of the quarter for all of it.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=4, b=20)
    (quota,) = teams["a"].quotas.all()
    before = {"guaranteed_mgpu": 8_000, "lend_limit_mgpu": None}
    after = {"guaranteed_mgpu": 4_000, "lend_limit_mgpu": None}
    QuotaChange.objects.create(quota=quota, at=at(300), before=before, after=after, reason="less")
    a_bank(organization, at(0))
    a_metered_attempt(teams["a"], 0, None, pool=pool, mgpu=8_000)
    assert settle_due(at(960)) == 1
    line = SettlementLine.objects.get(team=teams["a"])
    assert (line.guaranteed, line.used) == (4_800_000_000, 7_200_000_000)
    assert line.paid == 2_400_000_000


def test_a_lender_earns_at_most_what_it_lends() -> None:
    """b lends 2 of 8 GPUs, so 6 of the 8 borrowed ones pay the account of the pool."""
    organization, pool = an_organization(), a_pool(weight=2_000)
    a_quota(organization, pool, 16)
    teams = {name: a_team(organization, name) for name in "ab"}
    a_quota(teams["a"], pool, 8)
    a_quota(teams["b"], pool, 8, lend_gpus=2)
    a_bank(organization, at(0))
    a_metered_attempt(teams["a"], 0, None, pool=pool, mgpu=16_000)
    assert settle_due(at(960)) == 1
    second = 1_000 * 2_000 * 900
    assert balances(CreditPool.objects.get(), teams) == {
        "a": -8 * second,
        "b": 2 * second,
        "pool": 6 * second,
    }


def test_earnings_expire_after_three_months_at_midnight_of_the_organization() -> None:
    """What was earned on 31 October expires on 31 January; a shorter month has its last day."""
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(-900))
    a_metered_attempt(teams["a"], -900, 0, pool=pool, mgpu=16_000)
    assert settle_due(at(60)) == 1
    (lot,) = CreditLot.objects.all()
    assert lot.expires_at == datetime.fromisoformat("2027-01-31T00:00:00+00:00")
    credit_pool = CreditPool.objects.get()
    credit_pool.settled_until = lot.expires_at - timedelta(seconds=900)
    credit_pool.save()
    assert settle_next_interval(credit_pool.pk, lot.expires_at + timedelta(seconds=60))
    paid = 8_000 * 1_000 * 900
    assert balances(credit_pool, teams) == {"a": -paid, "b": 0, "pool": paid}
    assert not CreditLot.objects.exists()


def test_several_lenders_at_their_cap_pay_the_account_of_the_pool_once() -> None:
    """With a cap of 0 nobody earns: a's payment for the GPUs of b and c goes to POOL as one sum.

    Planted: a transfer for each lender with the same key.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8, c=4)
    a_bank(organization, at(0), cap_s=0)
    a_metered_attempt(teams["a"], 0, None, pool=pool, mgpu=20_000)
    assert settle_due(at(960)) == 1
    paid = 12_000 * 1_000 * 900
    assert balances(CreditPool.objects.get(), teams) == {"a": -paid, "pool": paid}
    assert [one.code for one in Transfer.objects.all()] == ["above_cap"]


def test_a_lender_may_lose_its_guarantee_within_an_interval() -> None:
    """b lent 8 GPUs for 300 s, and was guaranteed none after that.

    Planted: a division by the guarantee at the end.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=0)
    (quota,) = teams["b"].quotas.all()
    before = {"guaranteed_mgpu": 8_000, "lend_limit_mgpu": None}
    after = {"guaranteed_mgpu": 0, "lend_limit_mgpu": None}
    QuotaChange.objects.create(quota=quota, at=at(300), before=before, after=after, reason="none")
    a_bank(organization, at(0))
    a_metered_attempt(teams["a"], 0, 900, pool=pool, mgpu=16_000)
    assert settle_due(at(960)) == 1
    line = SettlementLine.objects.get(team=teams["b"])
    assert line.lent == 8_000 * 1_000 * 300


def test_a_fault_in_one_pool_does_not_keep_others_from_being_settled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Against: a fault that ends the round."""
    banks = {}
    for name in ("one", "two"):
        organization, pool = an_organization(name), a_pool(name)
        teams = teams_of(organization, pool, a=8, b=8)
        a_bank(organization, at(0))
        a_metered_attempt(teams["a"], 0, None, pool=pool, mgpu=16_000)
        banks[name] = organization.pk

    def uses(organization: UUID, *rest: Any) -> Any:
        if organization == min(banks.values()):
            raise ZeroDivisionError
        return uses_of(organization, *rest)

    monkeypatch.setattr("bank.settling.uses_of", uses)
    assert settle_due(at(960)) == 1
    assert "not settled since" in caplog.text


def test_a_day_without_midnight_still_expires_and_shares_out(settings: Any) -> None:
    """With intervals of an hour, no boundary is a midnight of Kolkata (UTC+5:30).

    Planted: midnight exactly at a boundary.
    """
    settings.CREDITS_SETTLED_EVERY_S = 3_600
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    OrganizationPolicy.objects.create(organization=organization, time_zone="Asia/Kolkata")
    a_bank(organization, at(-6 * 3_600))
    # GPUs that nobody is guaranteed pay POOL, which 1 November shares out.
    a_metered_attempt(teams["a"], -6 * 3_600, -5 * 3_600, pool=pool, mgpu=8_000)
    a_metered_attempt(teams["b"], -6 * 3_600, -5 * 3_600, pool=pool, mgpu=10_000)
    assert settle_due(at(-5 * 3_600 + 60)) == 1
    credit_pool = CreditPool.objects.get()
    paid = 2_000 * 1_000 * 3_600
    assert balances(credit_pool, teams) == {"b": -paid / 2, "a": paid / 2, "pool": 0}


def test_a_bank_that_is_off_settles_nothing() -> None:
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    bank = a_bank(organization, at(0))
    a_metered_attempt(teams["a"], 0, None, pool=pool, mgpu=16_000)
    settle_due(at(960))
    bank.is_on = False
    bank.save()
    assert settle_due(at(3_600)) == 0


@pytest.mark.parametrize(
    "table", ["bank_settlement", "bank_settlementline", "bank_settlementtransfer"]
)
@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET id = id + 1", "DELETE FROM {}", "TRUNCATE {} CASCADE"]
)
def test_settlements_are_append_only(table: str, statement: str) -> None:
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=8, b=8)
    a_bank(organization, at(0))
    a_metered_attempt(teams["a"], 0, None, pool=pool, mgpu=16_000)
    settle_due(at(960))
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(table))


def test_attempts_of_higher_priority_are_paid_first_and_one_is_paid_in_part() -> None:
    """a may pay for 2,701 GPU-s: the urgent attempt, then the older one for 450 s and a half.

    Against: the youngest first; a part that is rounded to whole seconds; priority left out.
    """
    organization, pool = an_organization(), a_pool()
    teams = teams_of(organization, pool, a=1, b=9)
    InstallationPolicy.objects.update_or_create(pk=1, defaults={"credit_floor_s": 2_701})
    a_bank(organization, at(0))
    a_priority_class(organization, "normal", order=10)
    a_priority_class(organization, "urgent", order=20)
    own = a_metered_attempt(teams["a"], 0, 900, pool=pool, mgpu=1_000)
    older = a_metered_attempt(teams["a"], 0, 900, pool=pool, mgpu=2_000, guaranteed_mgpu=0)
    younger = a_metered_attempt(teams["a"], 10, 900, pool=pool, mgpu=1_000, guaranteed_mgpu=0)
    urgent = a_metered_attempt(
        teams["a"], 0, 900, pool=pool, mgpu=2_000, guaranteed_mgpu=0, priority_class="urgent"
    )
    assert settle_due(at(960)) == 1
    line = SettlementLine.objects.get(team=teams["a"])
    assert line.paid == 2_701 * 1_000 * 1_000
    assert line.unpaid == (2 * 900 + 890 + 2 * 900 - 2_701) * 1_000 * 1_000
    spans = UnpaidUse.objects.order_by("attempt_id", "start")
    assert {(span.attempt_id, span.start, span.end, span.mgpu) for span in spans} == {
        (older.pk, at(450), at(451), 1_000),
        (older.pk, at(451), at(900), 2_000),
        (younger.pk, at(10), at(900), 1_000),
    }
    classes = {
        segment.attempt_id: segment.unpaid_mgpu
        for segment in UsageSegment.objects.filter(start__lte=at(890), end__gt=at(890))
    }
    assert classes == {own.pk: 0, urgent.pk: 0, older.pk: 2_000, younger.pk: 1_000}
