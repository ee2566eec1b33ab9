"""The meter told by several processes at once: one fact, one segment, never a second twice.

The first test is the control: what each thread would store is different.
"""

from __future__ import annotations

import pytest

from billing.metering import record_classed, record_started
from billing.models import MeterAnomaly, MeterEvent, UsageSegment
from builders.billing_builders import LATER, a_metered_attempt, at, record_ended
from builders.parallel import at_once
from builders.portal_builders import a_company

pytestmark = pytest.mark.django_db(transaction=True)


def test_control_the_tellers_disagree() -> None:
    company = a_company()
    for start in range(3):
        a_metered_attempt(company.nlp, start, None)
    assert UsageSegment.objects.values("start").distinct().count() == 3


def test_one_start_counts_and_the_others_are_kept_aside() -> None:
    attempt = a_metered_attempt(a_company().nlp, None, None)
    at_once([lambda s=s: record_started(attempt.pk, at(s), LATER) for s in range(8)])  # type: ignore[misc]
    started = MeterEvent.objects.get(attempt=attempt, kind="started")
    assert UsageSegment.objects.get(attempt=attempt).start == started.at
    others = set(MeterAnomaly.objects.values_list("at", flat=True))
    assert others == {at(s) for s in range(8)} - {started.at}


def test_classes_of_the_same_attempts_in_any_order_do_not_deadlock() -> None:
    company = a_company()
    attempts = [a_metered_attempt(company.nlp, 0, None).pk for _ in range(6)]

    def classed(second: int) -> None:
        order = attempts if second % 2 else attempts[::-1]
        record_classed([(pk, 1_000 * second) for pk in order], at(second), LATER)

    at_once(
        [lambda s=s: classed(s) for s in range(1, 7)]  # type: ignore[misc]
        + [lambda pk=pk: record_ended(pk, at(10), LATER) for pk in attempts[:2]]  # type: ignore[misc]
    )
    for index, pk in enumerate(attempts):
        segments = list(
            UsageSegment.objects.filter(attempt_id=pk)
            .order_by("start")
            .values_list("start", "end", "guaranteed_mgpu")
        )
        assert segments == [
            (at(0), at(1), 8_000),
            *[(at(s), at(s + 1), 1_000 * s) for s in range(1, 6)],
            (at(6), at(10) if index < 2 else None, 6_000),
        ]
