"""Which explanations a cycle writes: new causes first, then the oldest numbers, bounded."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from arbiter.api.plan import Code, Plan, Waiting
from jobs.arbitration import reasons
from jobs.arbitration.reasons import Reasons

FREE, LIMIT = Code.WAITING_FOR_FREE_GPUS, Code.BORROW_LIMIT_REACHED


def a_plan(*waiting: Waiting) -> Plan:
    return Plan(0, waiting=waiting)


def stored(*waiting: Waiting) -> Reasons:
    found = Reasons()
    found.remember(waiting)
    return found


def jobs(news: Iterable[Waiting]) -> list[str]:
    return [item.job for item in news]


def test_only_what_changed_is_news() -> None:
    known = stored(Waiting("a", FREE), Waiting("b", FREE), Waiting("c", FREE))
    plan = a_plan(
        Waiting("a", FREE),
        Waiting("b", LIMIT),
        Waiting("c", FREE, jobs_ahead=1),
        Waiting("d", FREE),
    )
    assert jobs(known.news(plan, ())) == ["b", "d", "c"]


def test_a_reason_that_was_taken_away_or_left_the_queue_is_news_when_it_waits_again() -> None:
    """Planted: jobs that no longer wait stay remembered; dies here."""
    known = stored(Waiting("a", FREE), Waiting("b", FREE))
    assert jobs(known.news(a_plan(Waiting("a", FREE)), {"a"})) == ["a"]
    assert jobs(known.news(a_plan(Waiting("b", FREE)), ())) == ["b"]


def test_both_portions_are_bounded_and_the_longest_unwritten_numbers_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: the plan's order instead of that of the writing; dies here."""
    monkeypatch.setattr(reasons, "NEW_CAUSES_MAX", 1)
    monkeypatch.setattr(reasons, "NEW_NUMBERS_MAX", 2)
    known = stored(Waiting("a", FREE), Waiting("b", FREE), Waiting("c", FREE))
    known.remember([Waiting("a", FREE, jobs_ahead=5)])
    moved = [Waiting(job, FREE, jobs_ahead=9) for job in "abc"]
    plan = a_plan(Waiting("x", FREE), Waiting("y", FREE), *moved)
    assert jobs(known.news(plan, ())) == ["x", "b", "c"]
