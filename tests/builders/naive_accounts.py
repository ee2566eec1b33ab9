"""Accounts without a database: facts in lists, use hour by hour, and balances as plain sums.

Teams `a` and `b` have guarantees, and their limits are out of reach. Team `c` has none, so no
credits ever pay for its use. Then an interval's payments depend on its use alone, and corrections
must end where a fresh settlement of the truth ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from builders.billing_builders import at
from periods.months import Month, month_in

HOUR_S = 3_600
#: The bank begins shortly before the end of a month.
FIRST_HOUR = 24 * 26
#: Hours of one settlement.
INTERVAL = 24
GUARANTEED_MGPU = {"a": 4_000, "b": 2_000, "c": 0}
WEIGHT = 1_000
PRICES_NANO = {"guaranteed": 2_000_000_007, "borrowed": 1_234_567_891, "unpaid": 333_333_333}
POOL = "pool"


class Fact(NamedTuple):
    """News of an attempt from a cluster or the arbiter; `amount` belongs to classes and sizes."""

    kind: str
    hour: int
    amount: int = 0
    reason: str = ""


class Use(NamedTuple):
    """Milli-GPU in one hour; a fault makes all of it free."""

    guaranteed: int
    borrowed: int
    unpaid: int
    fault: str

    def classes(self) -> Iterator[tuple[str, int]]:
        """Yield each usage class with its milli-GPU."""
        if self.fault:
            yield "fault", self.guaranteed + self.borrowed
            return
        yield "guaranteed", self.guaranteed
        yield "borrowed", self.borrowed - self.unpaid
        yield "unpaid", self.unpaid


@dataclass
class NaiveAttempt:
    """An attempt: its facts in the order of recording, and unpaid milli-GPU by hour."""

    team: str
    mgpu: int
    multiplier_ppm: int
    facts: list[Fact]
    unpaid: dict[int, int] = field(default_factory=dict)

    def first(self, *kinds: str) -> int | None:
        """Return the hour of the first fact of the first kind that was told at all."""
        for kind in kinds:
            for fact in self.facts:
                if fact.kind == kind:
                    return fact.hour
        return None

    def uses(self, now: int) -> dict[int, Use]:
        """Return the use in each hour before `now`, by the plain meaning of the facts."""
        start, end = self.first("started"), self.first("ended", "lost")
        if start is None:
            return {}
        until = now if end is None else min(now, end)
        known = [fact for fact in self.facts if end is None or fact.hour < end]
        classes = sorted((one for one in known if one.kind == "classed"), key=lambda one: one.hour)
        sizes = sorted((one for one in known if one.kind == "sized"), key=lambda one: one.hour)
        found = {}
        held, guaranteed = self.mgpu, classes[0].amount if classes else 0
        for hour in range(start, until):
            while sizes and sizes[0].hour <= hour:
                held = sizes.pop(0).amount
            while classes and classes[0].hour <= hour:
                guaranteed = classes.pop(0).amount
            inside = min(guaranteed, held)
            fault = self._fault_at(hour, start)
            unpaid = 0 if fault else min(self.unpaid.get(hour, 0), held - inside)
            found[hour] = Use(inside, held - inside, unpaid, fault)
        return found

    def _fault_at(self, hour: int, start: int) -> str:
        faults = [fact for fact in self.facts if fact.kind == "fault"]
        if not faults:
            return ""
        _, since, _, reason = faults[0]
        if reason == "preempted":
            return reason if since <= start else ""
        if reason == "lost" and self.first("ended") is not None:
            return ""
        return reason if hour >= since else ""

    def segments(self, now: int) -> list[tuple[int, int, Use]]:
        """Return the use before `now` as spans of hours in which it does not change."""
        spans: list[tuple[int, int, Use]] = []
        for hour, use in self.uses(now).items():
            if spans and spans[-1][2] == use:
                spans[-1] = (spans[-1][0], hour + 1, use)
            else:
                spans.append((hour, hour + 1, use))
        return spans


Charges = Counter[tuple[str, str, str, str, str]]


@dataclass
class NaiveAccounts:
    """All attempts, the payments of each settled interval, and dividends."""

    zone: ZoneInfo
    attempts: list[NaiveAttempt] = field(default_factory=list)
    paid: list[Counter[str]] = field(default_factory=list)
    dividends: Counter[str] = field(default_factory=Counter)

    def balances(self) -> dict[str, int]:
        """Return the balance of each account that has ever moved, without zeros."""
        total = Counter(self.dividends)
        for one in self.paid:
            total.update(one)
        return {name: amount for name, amount in total.items() if amount}

    def settle(self, now: int) -> int:
        """Settle each interval that is over, and return how many."""
        count = 0
        while (end := FIRST_HOUR + (len(self.paid) + 1) * INTERVAL) < now:
            self.paid.append(self._payments(len(self.paid), now))
            days = [self._day(hour) for hour in (end - INTERVAL, end)]
            if days[0].month != days[1].month:
                self._share_out()
            count += 1
        return count

    def correct(self, now: int) -> None:
        """Settle all settled intervals again, from what is known now."""
        self.paid = [self._payments(number, now) for number in range(len(self.paid))]

    def _payments(self, number: int, now: int) -> Counter[str]:
        """Return what an interval changes each balance by, and mark its unpaid use."""
        start = FIRST_HOUR + number * INTERVAL
        hours = range(start, start + INTERVAL)
        used, free = Counter[str](), Counter[str]()
        for attempt in self.attempts:
            uses = attempt.uses(now)
            for hour in hours:
                use = uses.get(hour)
                attempt.unpaid.pop(hour, None)
                if use is None:
                    continue
                used[attempt.team] += (use.guaranteed + use.borrowed) * HOUR_S
                if use.fault:
                    free[attempt.team] += use.borrowed * HOUR_S
                elif attempt.team == "c":
                    attempt.unpaid[hour] = use.borrowed
        changes = Counter[str]()
        idle = Counter[str]()
        for team in "ab":
            above = used[team] - GUARANTEED_MGPU[team] * INTERVAL * HOUR_S
            if above > 0:
                changes[team] -= max(0, above - free[team]) * WEIGHT
            else:
                idle[team] = -above * WEIGHT
        left = -sum(changes.values())
        for team, most in idle.items():
            # Where one of two teams pays, only the other one lends.
            earned = min(left, most)
            changes[team] += earned
            left -= earned
        changes[POOL] += left
        return changes

    def _share_out(self) -> None:
        """Pay the balance of the pool to the teams by their guarantees."""
        pool = self.balances().get(POOL, 0)
        if pool <= 0:
            return
        whole = sum(GUARANTEED_MGPU.values())
        shares = {team: pool * GUARANTEED_MGPU[team] // whole for team in "ab"}
        if sum(shares.values()) < pool:
            # Of 4 and 2 parts of 6, the remainders are never equal.
            shares[max("ab", key=lambda team: pool * GUARANTEED_MGPU[team] % whole)] += 1
        self.dividends.update(shares)
        self.dividends[POOL] -= pool

    def _day(self, hour: int) -> datetime:
        return at(hour * HOUR_S).astimezone(self.zone)

    def months(self) -> Iterator[Month]:
        """Yield the months of the zone from the first hour on."""
        day = self._day(FIRST_HOUR).date().replace(day=1)
        while True:
            yield month_in(day, self.zone)
            day = (day + timedelta(days=31)).replace(day=1)

    def charges(self, month: Month, now: int) -> dict[tuple[str, str, str], tuple[int, int]]:
        """Return use (mGPU-s) and cost (nano) by day, team and class, rated now, without zeros.

        A cost is the difference of costs so far, each rounded half to even.
        """
        found: dict[tuple[str, str, str], list[int]] = {}
        days = [(day, hour_of(start), hour_of(end)) for day, start, end in month.days()]
        for attempt in self.attempts:
            so_far = Counter[str]()
            by_hour = attempt.uses(now)
            first = min(by_hour, default=0)
            for hour in range(first, days[0][1]):
                for name, mgpu in by_hour[hour].classes() if hour in by_hour else ():
                    so_far[name] += mgpu * HOUR_S
            for day, start, end in days:
                before = Counter(so_far)
                for hour in range(max(start, first), end):
                    for name, mgpu in by_hour[hour].classes() if hour in by_hour else ():
                        so_far[name] += mgpu * HOUR_S
                for name in so_far:
                    if so_far[name] != before[name]:
                        row = found.setdefault((str(day), attempt.team, name), [0, 0])
                        row[0] += so_far[name] - before[name]
                        row[1] += attempt_cost(attempt, name, so_far[name]) - attempt_cost(
                            attempt, name, before[name]
                        )
        return {key: (row[0], row[1]) for key, row in found.items()}


def attempt_cost(attempt: NaiveAttempt, usage_class: str, mgpu_s: int) -> int:
    """Return the cost of so much use in nano, rounded half to even."""
    exact = mgpu_s * PRICES_NANO.get(usage_class, 0) * attempt.multiplier_ppm
    whole, rest = divmod(exact, 3_600_000 * 1_000_000)
    half = 3_600_000 * 1_000_000 // 2
    return whole + (rest > half or (rest == half and whole % 2))


def hour_of(moment: datetime) -> int:
    """Return the hour of a moment, counted from the first of November in UTC."""
    return int((moment - at(0)).total_seconds()) // HOUR_S
