"""Laws of charges: periods add up, teams add up, and the database agrees with plain arithmetic
(R-98, R-99).

Mutants tried in the SQL, each of which died here: no cost of the usage before the period taken
off, half rounded up, the segments before the period left out, or only where one begins with the
period, an inner join to the prices, two rate lines of one price counted as one, prices of
the other class, no gap after the last line. All happens within one day here; the exact tests of
the report hold the split into days. An earlier version drew so few changes of class and prices
that two of them survived.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.chargeback import Amounts, chargeback
from billing.charges import charges_of
from billing.models import MeteredAttempt, UsageSegment
from billing.periods import Period
from billing.rating import cost_nano
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, at
from builders.portal_builders import a_company, a_user, an_actor
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

SECONDS = 24
#: Mostly 1, so that ties to be rounded to even are common.
MULTIPLIERS = (1_000_000, 1_000_000, 500_000, 1_333_333)
#: Half a nano, two thirds, a third and 9.7 nano per milli-GPU-second.
PRICES = (1_800_000, 2_400_000, 1_200_000, 34_920_000)


@dataclass(frozen=True)
class Use:
    """An attempt of 5 mGPU: team, start, length, multiplier, changes of class."""

    team: int
    start: int
    length: int
    multiplier_ppm: int
    guaranteed_mgpu: int
    classes: tuple[tuple[int, int], ...]


second = st.integers(0, SECONDS)
uses = st.builds(
    Use,
    st.integers(0, 2),
    st.integers(0, 4),
    st.integers(6, SECONDS),
    st.sampled_from(MULTIPLIERS),
    st.integers(0, 5),
    st.lists(st.tuples(second, st.integers(0, 5)), min_size=1, max_size=4).map(tuple),
)
_tariff = st.builds(
    lambda first, later: [first, *later],
    st.tuples(st.integers(0, 5), st.sampled_from(PRICES)),
    st.lists(st.tuples(second, st.sampled_from([None, *PRICES])), max_size=2),
)
#: Where prices change; a price of None is a gap. Most begin early, so that few are unpriced.
tariffs = st.one_of(_tariff, _tariff, _tariff, st.just([]))


Prices = dict[str, list[tuple[int, int | None]]]


class Undo(Exception):
    """Takes an example's rows back."""


def build(worked: Sequence[Use], prices: Prices) -> Actor:
    """A company with these uses and prices, and its finance officer."""
    company = a_company()
    user = a_user(company.organization)
    for use in worked:
        a_metered_attempt(
            (company.nlp, company.vision, company.inference)[use.team],
            use.start,
            use.start + use.length,
            user=user,
            mgpu=5,
            guaranteed_mgpu=use.guaranteed_mgpu,
            classes=use.classes,
            multiplier_ppm=use.multiplier_ppm,
        )
    for usage_class, changes in prices.items():
        for start, end, price_nano in spans(changes):
            a_rate_card(company.organization, {usage_class: price_nano}, start=start, end=end)
    return an_actor(company.organization, Role.FINANCE)


def spans(changes: Sequence[tuple[int, int | None]]) -> list[tuple[int, int | None, int]]:
    """(start, end, price) of each line; the last has no end."""
    ordered = sorted(dict(changes).items())
    ends: list[int | None] = [start for start, _ in ordered[1:]]
    return [
        (start, end, price)
        for (start, price), end in zip(ordered, [*ends, None], strict=False)
        if price is not None
    ]


def report(actor: Actor, start: int, end: int) -> Amounts:
    found = chargeback(actor=actor, period=Period(at(start), at(end), LATER))
    assert found.segments_mgpu_s == found.totals.mgpu_s
    assert sum((row.amounts for row in found.rows), Amounts()) == found.totals
    assert sum(day.guaranteed_mgpu_s for day in found.days) == found.totals.guaranteed_mgpu_s
    assert sum(day.borrowed_mgpu_s for day in found.days) == found.totals.borrowed_mgpu_s
    return found.totals


def charged(actor: Actor, start: int, end: int) -> Amounts:
    """The sums of the charges of each attempt: a second way to the same totals, but for jobs."""
    period = Period(at(start), at(end), LATER)
    rows = [
        row
        for batch in charges_of(actor=actor, period=period, node_path="ai-company")
        for row in batch.rows
    ]

    def total(name: str, usage_class: str, *, unpriced: bool = False) -> int:
        return sum(
            getattr(row, name)
            for row in rows
            if row.usage_class == usage_class and (row.price_nano is None or not unpriced)
        )

    return Amounts(
        total("mgpu_s", "guaranteed"),
        total("mgpu_s", "borrowed"),
        total("billed_cost_nano", "guaranteed"),
        total("billed_cost_nano", "borrowed"),
        total("mgpu_s", "guaranteed", unpriced=True),
        total("mgpu_s", "borrowed", unpriced=True),
    )


def plain(prices: Prices, start: int, end: int) -> Amounts:
    """The same totals, second by second and in Python."""
    usage = {"guaranteed": 0, "borrowed": 0}
    cost = {"guaranteed": 0, "borrowed": 0}
    unpriced = {"guaranteed": 0, "borrowed": 0}
    lines = {name: spans(changes) for name, changes in prices.items()}
    attempts: dict[MeteredAttempt, list[UsageSegment]] = {}
    for segment in UsageSegment.objects.select_related("attempt"):
        attempts.setdefault(segment.attempt, []).append(segment)
    for attempt, segments in attempts.items():
        for name in usage:
            counts: dict[int | None, list[int]] = {}
            for moment in range(end):
                mgpu = sum(
                    getattr(s, f"{name}_mgpu")
                    for s in segments
                    if s.start <= at(moment) and (s.end is None or at(moment) < s.end)
                )
                line = next(
                    (
                        index
                        for index, (since, until, _) in enumerate(lines[name])
                        if since <= moment and (until is None or moment < until)
                    ),
                    None,
                )
                count = counts.setdefault(line, [0, 0])
                count[1] += mgpu
                if moment < start:
                    count[0] += mgpu
            for line, (before, until_now) in counts.items():
                usage[name] += until_now - before
                if line is None:
                    unpriced[name] += until_now - before
                else:
                    terms = {
                        "price_nano": lines[name][line][2],
                        "multiplier_ppm": attempt.multiplier_ppm,
                    }
                    cost[name] += cost_nano(until_now, **terms) - cost_nano(before, **terms)
    return Amounts(
        usage["guaranteed"],
        usage["borrowed"],
        cost["guaranteed"],
        cost["borrowed"],
        unpriced["guaranteed"],
        unpriced["borrowed"],
    )


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(uses, min_size=2, max_size=5),
    tariffs,
    tariffs,
    st.lists(second, min_size=2, max_size=5),
)
def test_charges(
    worked: list[Use],
    guaranteed: list[tuple[int, int | None]],
    borrowed: list[tuple[int, int | None]],
    cuts: list[int],
) -> None:
    """Usage, cost and unpriced usage of any period are as plain arithmetic says, second by
    second; periods that make up a longer one sum to it; teams sum to the segments, and the charges
    of attempts to the report."""
    try:
        with transaction.atomic():
            prices: Prices = {"guaranteed": guaranteed, "borrowed": borrowed}
            actor = build(worked, prices)
            edges = sorted({0, *cuts, 3 * SECONDS})
            parts = [report(actor, a, b) for a, b in itertools.pairwise(edges)]
            whole = report(actor, 0, 3 * SECONDS)
            total = sum(parts, Amounts())
            jobs = dict.fromkeys(("jobs", "guaranteed_jobs", "borrowed_jobs"), 0)
            for (a, b), part in zip(itertools.pairwise(edges), parts, strict=True):
                assert charged(actor, a, b) == replace(part, **jobs), (a, b)
            for name in (
                "guaranteed_mgpu_s",
                "borrowed_mgpu_s",
                "guaranteed_cost_nano",
                "borrowed_cost_nano",
                "unpriced_mgpu_s",
            ):
                assert getattr(total, name) == getattr(whole, name), name
            for (a, b), part in zip(itertools.pairwise(edges), parts, strict=True):
                expected = plain(prices, a, b)
                for name in (
                    "mgpu_s",
                    "guaranteed_cost_nano",
                    "borrowed_cost_nano",
                    "unpriced_mgpu_s",
                ):
                    assert getattr(part, name) == getattr(expected, name), (name, a, b)
            raise Undo
    except Undo:
        pass
