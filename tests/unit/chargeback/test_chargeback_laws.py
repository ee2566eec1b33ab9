"""Laws of charges: periods add up, teams add up, and the database agrees with plain arithmetic
(R-98, R-99).

Mutants tried in the SQL, each of which died here: no cost of the usage before the period taken
off, half rounded up, the segments before the period left out, or only where one begins with the
period, an inner join to the prices, two rate lines of one price counted as one, prices of
the other class, no gap after the last line. All happens within one day here; the exact tests of
the report hold the split into days. An earlier version drew so few changes of class and prices
that two of them survived.

Against, in the other classes: unpaid use without a price of its own taken for unpriced, faults
priced as borrowed use, unpaid use counted as borrowed, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from unittest.mock import patch

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.amounts import Amounts
from billing.charges import charges_of
from billing.metering import Observed, UnpaidSpan, record_observed, record_unpaid
from billing.models import PRICED_CLASSES, MeteredAttempt, UsageClass, UsageSegment
from billing.periods import Period
from billing.rating import cost_nano
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, at
from builders.chargeback_builders import all_jobs, report_of
from builders.portal_builders import a_company, a_pool, a_user, an_actor
from chargeback.buckets import Bucket
from chargeback.dimensions import Dimension
from chargeback.reports import Asked, Narrowed, grouped_report
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
    """An attempt of 5 mGPU: team, start, length, multiplier, changes of class.

    `unpaid` is (start, length, mGPU) without credits; its work since `fault` is lost.
    """

    team: int
    start: int
    length: int
    multiplier_ppm: int
    guaranteed_mgpu: int
    classes: tuple[tuple[int, int], ...]
    unpaid: tuple[int, int, int] | None = None
    fault: int | None = None


second = st.integers(0, SECONDS)
uses = st.builds(
    Use,
    st.integers(0, 2),
    st.integers(0, 4),
    st.integers(6, SECONDS),
    st.sampled_from(MULTIPLIERS),
    st.integers(0, 5),
    st.lists(st.tuples(second, st.integers(0, 5)), min_size=1, max_size=4).map(tuple),
    st.none() | st.tuples(second, st.integers(1, SECONDS), st.integers(1, 6)),
    st.none() | second,
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
    spans_unpaid = []
    for use in worked:
        attempt = a_metered_attempt(
            (company.nlp, company.vision, company.inference)[use.team],
            use.start,
            use.start + use.length,
            user=user,
            mgpu=5,
            guaranteed_mgpu=use.guaranteed_mgpu,
            classes=use.classes,
            multiplier_ppm=use.multiplier_ppm,
        )
        if use.unpaid is not None:
            since, length, mgpu = use.unpaid
            spans_unpaid.append(UnpaidSpan(attempt.pk, at(since), at(since + length), mgpu))
        if use.fault is not None:
            record_observed(
                [Observed(attempt.pk, "fault", at(use.fault), reason="node_failed")], LATER
            )
    record_unpaid(
        spans_unpaid,
        organization_id=company.organization.pk,
        pool_id=a_pool().pk,
        start=at(0),
        end=at(3 * SECONDS),
        now=LATER,
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
    found = report_of(actor, Period(at(start), at(end), LATER))
    assert found.segments_mgpu_s == found.totals.mgpu_s
    assert sum((row.amounts for row in found.rows), Amounts()) == found.totals
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
        **{f"{name}_mgpu_s": total("mgpu_s", name) for name in UsageClass.values},
        **{f"{name}_cost_nano": total("billed_cost_nano", name) for name in PRICED_CLASSES},
        **{
            f"unpriced_{name}_mgpu_s": total("mgpu_s", name, unpriced=True)
            for name in PRICED_CLASSES
        },
    )


def in_buckets(actor: Actor, edges: Sequence[int]) -> list[Amounts]:
    """The same periods as the rows of one report by day, with these times in the place of days."""
    buckets = [Bucket(str(a), at(a), at(b)) for a, b in itertools.pairwise(edges)]
    with patch("chargeback.reports.buckets_of", lambda *_: buckets):
        found = grouped_report(
            actor=actor,
            by=[Dimension.DAY, Dimension.USAGE_CLASS],
            asked=Asked(at(edges[0]), at(edges[-1])),
            now=LATER,
        )
    assert found.segments_mgpu_s == found.totals.mgpu_s
    sums = {bucket.label: Amounts() for bucket in buckets}
    for row in found.rows:
        sums[row.keys[0]] += row.amounts
    return [without_jobs(sums[bucket.label]) for bucket in buckets]


def plain(prices: Prices, start: int, end: int) -> Amounts:
    """The same totals, second by second and in Python."""
    usage, cost, unpriced = (dict.fromkeys(UsageClass.values, 0) for _ in range(3))
    lines = {name: spans(changes) for name, changes in prices.items()}
    attempts: dict[MeteredAttempt, list[UsageSegment]] = {}
    for segment in UsageSegment.objects.select_related("attempt"):
        attempts.setdefault(segment.attempt, []).append(segment)
    for attempt, segments in attempts.items():
        for name in usage:
            counts: dict[Line | None, list[int]] = {}
            for moment in range(end):
                mgpu = sum(
                    mgpu_in(s, name)
                    for s in segments
                    if s.start <= at(moment) and (s.end is None or at(moment) < s.end)
                )
                count = counts.setdefault(line_at(lines, name, moment), [0, 0])
                count[1] += mgpu
                if moment < start:
                    count[0] += mgpu
            for line, (before, until_now) in counts.items():
                usage[name] += until_now - before
                if line is not None:
                    terms = {"price_nano": line[2], "multiplier_ppm": attempt.multiplier_ppm}
                    cost[name] += cost_nano(until_now, **terms) - cost_nano(before, **terms)
                elif name != "fault":
                    unpriced[name] += until_now - before
    return Amounts(
        **{f"{name}_mgpu_s": amount for name, amount in usage.items()},
        **{f"{name}_cost_nano": cost[name] for name in PRICED_CLASSES},
        **{f"unpriced_{name}_mgpu_s": unpriced[name] for name in PRICED_CLASSES},
    )


#: (class, place among the lines of the class and gaps between unpaid lines, price)
Line = tuple[str, tuple[int, int], int]


def line_at(
    lines: dict[str, list[tuple[int, int | None, int]]], name: str, at_s: int
) -> Line | None:
    """The price of the class in this second; unpaid use has that of borrowed use without one."""
    passed = sum(since <= at_s for since, _, _ in lines["unpaid"]) if name == "unpaid" else 0
    for source in ("unpaid", "borrowed") if name == "unpaid" else (name,):
        for index, (since, until, price_nano) in enumerate(lines.get(source, [])):
            if since <= at_s and (until is None or at_s < until):
                return source, (index, passed), price_nano
    return None


def mgpu_in(segment: UsageSegment, name: str) -> int:
    if segment.fault:
        return segment.guaranteed_mgpu + segment.borrowed_mgpu if name == "fault" else 0
    return {
        "guaranteed": segment.guaranteed_mgpu,
        "borrowed": segment.borrowed_mgpu - segment.unpaid_mgpu,
        "unpaid": segment.unpaid_mgpu,
        "fault": 0,
    }[name]


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(uses, min_size=2, max_size=5),
    tariffs,
    tariffs,
    tariffs,
    st.lists(second, min_size=2, max_size=5),
)
def test_charges(
    worked: list[Use],
    guaranteed: list[tuple[int, int | None]],
    borrowed: list[tuple[int, int | None]],
    unpaid: list[tuple[int, int | None]],
    cuts: list[int],
) -> None:
    """Usage, cost and unpriced usage of any period are as plain arithmetic says, second by
    second; periods that make up a longer one sum to it; teams sum to the segments, and the charges
    of attempts and the jobs behind the total to the report."""
    try:
        with transaction.atomic():
            prices: Prices = {"guaranteed": guaranteed, "borrowed": borrowed, "unpaid": unpaid}
            actor = build(worked, prices)
            edges = sorted({0, *cuts, 3 * SECONDS})
            parts = [report(actor, a, b) for a, b in itertools.pairwise(edges)]
            whole = report(actor, 0, 3 * SECONDS)
            behind = all_jobs(
                actor,
                Period(at(0), at(3 * SECONDS), LATER),
                Narrowed(node_path="ai-company"),
                page=7,
            )
            assert sum(job.mgpu_s for job in behind) == whole.mgpu_s
            assert sum(job.cost_nano for job in behind) == whole.cost_nano
            total = sum(parts, Amounts())
            for (a, b), part in zip(itertools.pairwise(edges), parts, strict=True):
                assert charged(actor, a, b) == without_jobs(part), (a, b)
            assert without_jobs(total) == without_jobs(whole)
            assert in_buckets(actor, edges) == [without_jobs(part) for part in parts]
            for (a, b), part in zip(itertools.pairwise(edges), parts, strict=True):
                assert without_jobs(part) == plain(prices, a, b), (a, b)
            raise Undo
    except Undo:
        pass


def without_jobs(amounts: Amounts) -> Amounts:
    counts = {name: 0 for item in fields(amounts) if (name := item.name).endswith("jobs")}
    return replace(amounts, **counts)
