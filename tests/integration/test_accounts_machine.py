"""Meter, bank and months in PostgreSQL beside naive accounts in memory, through random histories.

Each example has a transaction of its own, which is rolled back. Hours are counted from the first of
November. A fact may be told at any later hour, and again.

Planted: payments of the revision before that are not reversed, news of settled use that nobody
hears, closed months without corrections, unpaid use that the meter is not told, a dividend that is
not paid.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bank.correcting import correct_due
from bank.models import CreditPool, Settlement
from bank.settling import settle_due
from billing.metering import (
    Observed,
    attempts_not_folded,
    record_classed,
    record_observed,
    register_attempts,
)
from billing.models import ChangedUse, MeterEvent, UsageSegment
from builders.bank_builders import a_bank, balances, lots_are_right, teams_of
from builders.billing_builders import a_grant_of, a_rate_card, at
from builders.naive_accounts import (
    FIRST_HOUR,
    GUARANTEED_MGPU,
    HOUR_S,
    PRICES_NANO,
    Fact,
    NaiveAccounts,
    NaiveAttempt,
    Use,
    hour_of,
)
from builders.portal_builders import a_pool, a_user, an_actor, an_organization
from ledger.models import Transfer
from ledger.proof import find_faults
from periods.closing import GRACE, close_month
from periods.digests import digest_of
from periods.models import BillingPeriod, ChargeRow
from periods.months import Month
from primitives.errors import Conflict
from quotas.models import InstallationPolicy, OrganizationPolicy
from tenants.roles import Role

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

#: Before the first earnings expire.
LAST_HOUR = 24 * 70
#: Of each team, so that its debt never reaches the floor of a year.
ATTEMPTS_MAX = 2
DAY_S = 86_400
YEAR_S = 365 * DAY_S

picks = st.integers(0, 50)
#: Team, milli-GPU and the guaranteed part.
jobs = st.sampled_from("abc").flatmap(
    lambda team: st.sampled_from(
        [(team, 5_000, 5_000), (team, 5_000, 0), (team, 2_001, 1_000), (team, 500, 500)]
    )
)
hours_back = st.sampled_from([0, 1, 30, 24 * 5, 24 * 30])
works = st.sampled_from(
    ["settle, correct, close", "settle, correct", "settle", "correct, close", ""]
)
reasons = st.sampled_from(["node_failed", "lost", "preempted"])


class Accounts(RuleBasedStateMachine):
    """The rules are what jobs, clusters, the worker and finance do."""

    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.now = FIRST_HOUR
        self.ids: list[UUID] = []
        self.closed: list[tuple[Month, str]] = []

    @initialize(
        zone=st.sampled_from(["UTC", "America/New_York"]), others=st.lists(jobs, max_size=4)
    )
    def found_the_company(self, zone: str, others: list[tuple[str, int, int]]) -> None:
        self.organization, self.pool = an_organization(), a_pool()
        gpus = {team: mgpu // 1_000 for team, mgpu in GUARANTEED_MGPU.items()}
        self.teams = teams_of(self.organization, self.pool, **gpus)
        OrganizationPolicy.objects.create(organization=self.organization, time_zone=zone)
        InstallationPolicy.objects.update_or_create(pk=1, defaults={"credit_floor_s": YEAR_S})
        a_bank(self.organization, self.clock, cap_s=YEAR_S)
        a_rate_card(self.organization, PRICES_NANO)
        self.user = a_user(self.organization)
        self.finance = an_actor(self.organization, Role.FINANCE)
        self.naive = NaiveAccounts(ZoneInfo(zone))
        # The first month begins with the first use.
        for team, mgpu, guaranteed in (("a", 5_000, 3_000), ("c", 2_001, 500), *others):
            self.submit(team, mgpu, guaranteed)
        self.now += 1

    @property
    def clock(self) -> datetime:
        return at(self.now * HOUR_S)

    @rule(job=jobs, is_started=st.booleans())
    def submit_one(self, job: tuple[str, int, int], is_started: bool) -> None:
        self.submit(*job, is_started=is_started)

    def submit(self, team: str, mgpu: int, guaranteed: int, *, is_started: bool = True) -> None:
        if sum(one.team == team for one in self.naive.attempts) == ATTEMPTS_MAX:
            return
        multiplier_ppm = 1_333_333 if len(self.ids) % 2 else 1_000_000
        grant = a_grant_of(
            self.teams[team],
            user=self.user,
            pool=self.pool,
            mgpu=mgpu,
            guaranteed_mgpu=guaranteed,
            multiplier_ppm=multiplier_ppm,
            granted=self.now * HOUR_S,
        )
        register_attempts([grant], now=self.clock)
        register_attempts([grant], now=self.clock)
        self.ids.append(grant.attempt_id)
        first = Fact("classed", self.now, guaranteed)
        self.naive.attempts.append(NaiveAttempt(team, mgpu, multiplier_ppm, [first]))
        if is_started:
            self.tell(len(self.ids) - 1, Fact("started", self.now))

    @rule(pick=picks)
    def suspend(self, pick: int) -> None:
        """Its GPUs are given back; it goes on as another attempt."""
        attempt = self.naive.attempts[pick % len(self.ids)]
        if attempt.first("started") is not None and attempt.first("ended") is None:
            self.tell(pick, Fact("ended", self.now))
            self.submit(attempt.team, attempt.mgpu, attempt.facts[0].amount)

    @rule(pick=picks)
    def preempt(self, pick: int) -> None:
        """The notice came an hour ago: right after the start, all of it is free."""
        self.tell(pick, Fact("ended", self.now))
        self.tell(pick, Fact("fault", self.now - 1, reason="preempted"))

    @rule(pick=picks, back=hours_back)
    def fail_a_node(self, pick: int, back: int) -> None:
        """The last checkpoint was `back` hours ago."""
        self.tell(pick, Fact("ended", self.now))
        self.tell(pick, Fact("fault", max(FIRST_HOUR + 1, self.now - back), reason="node_failed"))

    @rule(
        pick=picks,
        kind=st.sampled_from(["started", "ended", "lost", "classed", "sized", "fault"]),
        back=hours_back,
        mgpu=st.sampled_from([1, 1_000, 3_500]),
        reason=reasons,
    )
    def tell_of(self, pick: int, kind: str, back: int, mgpu: int, reason: str) -> None:
        """A fact of `back` hours ago: a start, an end, a class, a size ..."""
        amount = mgpu if kind in ("classed", "sized") else 0
        self.tell(
            pick,
            Fact(
                kind,
                max(FIRST_HOUR + 1, self.now - back),
                amount,
                reason if kind == "fault" else "",
            ),
        )

    @rule(pick=picks, which=picks)
    def deliver_again(self, pick: int, which: int) -> None:
        """A fact that was told before changes nothing."""
        index = pick % len(self.ids)
        told = self.naive.attempts[index].facts[1:]
        if told:
            latest = {(one.kind, one.hour): one for one in told}
            fact = list(latest.values())[which % len(latest)]
            before = MeterEvent.objects.count()
            self.send(index, fact)
            assert MeterEvent.objects.count() == before

    def tell(self, pick: int, fact: Fact) -> None:
        """Record a fact of an attempt, on both sides. The first time of each kind counts."""
        index = pick % len(self.ids)
        self.send(index, fact)
        facts = self.naive.attempts[index].facts
        if fact.kind in ("classed", "sized") or fact.kind not in {one.kind for one in facts}:
            facts.append(fact)

    def send(self, index: int, fact: Fact) -> None:
        moment, pk = at(fact.hour * HOUR_S), self.ids[index]
        if fact.kind == "classed":
            record_classed([(pk, fact.amount)], moment, self.clock)
            return
        mgpu = fact.amount if fact.kind == "sized" else None
        observed = Observed(pk, cast(Any, fact.kind), moment, mgpu=mgpu, reason=fact.reason)
        record_observed([observed], self.clock)

    @rule(hours=st.sampled_from([1, 5]), does=works)
    def pass_hours(self, hours: int, does: str) -> None:
        self.pass_time(hours, does)

    @rule(days=st.integers(1, 8), does=works)
    def pass_days(self, days: int, does: str) -> None:
        self.pass_time(24 * days + 1, does)

    @precondition(lambda self: len(self.closed) < 2)
    @rule(does=works)
    def pass_time_until_a_month_is_due(self, does: str) -> None:
        self.pass_time(max(0, hour_of(self.next_month().end + GRACE) - self.now), does)

    def pass_time(self, hours: int, does: str) -> None:
        """Then let the worker and finance do what they do."""
        self.now = min(LAST_HOUR, self.now + hours)
        if "settle" in does:
            self.settle()
        if "correct" in does:
            self.correct()
        if "close" in does:
            self.close()

    def next_month(self) -> Month:
        months = self.naive.months()
        for _ in self.closed:
            next(months)
        return next(months)

    def settle(self) -> None:
        """A second pass does nothing."""
        assert settle_due(self.clock) == self.naive.settle(self.now)
        count = Transfer.objects.count()
        assert settle_due(self.clock) == 0
        assert Transfer.objects.count() == count

    def correct(self) -> None:
        """A second pass does nothing, and no change is left."""
        correct_due(self.clock)
        self.naive.correct(self.now)
        counts = Transfer.objects.count(), Settlement.objects.count()
        assert not ChangedUse.objects.exists()
        assert correct_due(self.clock) == 0
        assert (Transfer.objects.count(), Settlement.objects.count()) == counts

    def close(self) -> None:
        """Each closed month and all its corrections are the truth of now."""
        month = self.next_month()
        if self.now < hour_of(month.end + GRACE):
            with pytest.raises(Conflict):
                self.close_one(month)
            return
        period = self.close_one(month)
        self.closed.append((month, period.digest))
        with pytest.raises(Conflict, match="is closed already"):
            self.close_one(month)
        names = {team.pk: name for name, team in self.teams.items()}
        sums: dict[tuple[str, str, str], Counter[str]] = {}
        for row in ChargeRow.objects.all():
            key = str(row.day), names[row.team_id], row.usage_class
            sums.setdefault(key, Counter()).update(mgpu_s=row.mgpu_s, cost=row.cost_nano)
        charged = {
            key: (one["mgpu_s"], one["cost"]) for key, one in sums.items() if any(one.values())
        }
        truth = {}
        for closed, _ in self.closed:
            for key, amounts in self.naive.charges(closed, self.now).items():
                was = truth.get(key, (0, 0))
                truth[key] = was[0] + amounts[0], was[1] + amounts[1]
        assert charged == truth

    def close_one(self, month: Month) -> BillingPeriod:
        with transaction.atomic():
            return close_month(
                self.organization.pk, month.name, "known", actor=self.finance, now=self.clock
            )

    @invariant()
    def uses_agree(self) -> None:
        """Segments are the fold, and each second of use has one class."""
        stored: dict[UUID, list[tuple[int, int, Use]]] = {pk: [] for pk in self.ids}
        for row in UsageSegment.objects.filter(start__lt=self.clock).order_by("start"):
            end = self.clock if row.end is None else row.end
            use = Use(row.guaranteed_mgpu, row.borrowed_mgpu, row.unpaid_mgpu, row.fault)
            stored[row.attempt_id].append((hour_of(row.start), hour_of(end), use))
        for pk, attempt in zip(self.ids, self.naive.attempts, strict=True):
            assert stored[pk] == attempt.segments(self.now)
        assert not attempts_not_folded(self.ids)

    @invariant()
    def balances_agree(self) -> None:
        """They are the folds of their transfers, and sum to 0."""
        for credit_pool in CreditPool.objects.all():
            found = {n: amount for n, amount in balances(credit_pool, self.teams).items() if amount}
            assert found == self.naive.balances()
            assert sum(found.values()) == 0
            assert find_faults(credit_pool.ledger) == []
            assert lots_are_right(credit_pool)

    @invariant()
    def closed_months_stay(self) -> None:
        for month, digest in self.closed:
            period = BillingPeriod.objects.get(month=month.first)
            assert digest_of(period, period.rows.order_by("number")) == period.digest == digest
        connection.check_constraints()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)


def test_the_accounts_are_the_naive_ones(settings: Any) -> None:
    settings.CREDITS_SETTLED_EVERY_S = DAY_S
    run_state_machine_as_test(
        Accounts, settings=hypothesis_settings(max_examples=10, stateful_step_count=20)
    )
