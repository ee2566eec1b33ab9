"""What accounting is asked, and when not.

Planted and seen to die: no end of a round after the first silence; no pause after it; no turn, so
that the first always comes first; an undecided answer taken for silence; no limit by number; no
limit by time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

import pytest

from connectors.errors import AccountUndecided, ClusterUnavailable
from jobs.execution.questions import ACCOUNTING_MAX, ASKING_S_MAX, PAUSE_S, NotAsked, Questions
from jobs.models import Attempt


@dataclass
class AnAccounting:
    """Answers its names; `silent` and `undecided` are those of whom it does not tell."""

    now_s: float = 100.0
    takes_s: float = 0.0
    silent: frozenset[int] = frozenset()
    undecided: frozenset[int] = frozenset()
    asked: list[int] = field(default_factory=list)

    def tell(self, number: int) -> int:
        self.asked.append(number)
        self.now_s += self.takes_s
        if number in self.silent:
            raise ClusterUnavailable("no answer")
        if number in self.undecided:
            raise AccountUndecided("it still runs")
        return number


def attempts(count: int) -> list[Attempt]:
    return [Attempt(job_id=UUID(int=number)) for number in range(count)]


def a_round(questions: Questions, accounting: AnAccounting, count: int) -> list[int]:
    """Ask about all of `count` attempts; who was really asked about."""
    questions.begin_round()
    accounting.asked.clear()
    for attempt in questions.in_turn("portal", attempts(count)):
        number = cast("UUID", attempt.job_id).int
        try:
            answer = questions.ask("portal", attempt, lambda number=number: accounting.tell(number))
            assert answer == number
        except (NotAsked, ClusterUnavailable):
            pass
    return list(accounting.asked)


def on(accounting: AnAccounting) -> Questions:
    return Questions(lambda: accounting.now_s)


def test_the_first_silence_ends_the_round_and_the_next_goes_on_behind_it() -> None:
    accounting = AnAccounting(silent=frozenset({0, 3}))
    questions = on(accounting)
    assert a_round(questions, accounting, 5) == [0]
    accounting.now_s += PAUSE_S
    assert a_round(questions, accounting, 5) == [1, 2, 3]
    accounting.now_s += PAUSE_S
    assert a_round(questions, accounting, 5) == [4, 0]


def test_one_that_did_not_answer_is_left_alone_for_a_while() -> None:
    accounting = AnAccounting(silent=frozenset({0}))
    questions = on(accounting)
    a_round(questions, accounting, 3)
    accounting.now_s += PAUSE_S - 1
    assert a_round(questions, accounting, 3) == []
    accounting.now_s += 1
    assert a_round(questions, accounting, 3) == [1, 2, 0]


def test_an_answer_that_settles_nothing_is_an_answer() -> None:
    accounting = AnAccounting(undecided=frozenset({0, 1}))
    assert a_round(on(accounting), accounting, 4) == [0, 1, 2, 3]


def test_so_many_in_one_round() -> None:
    accounting = AnAccounting()
    questions = on(accounting)
    count = ACCOUNTING_MAX + 5
    assert a_round(questions, accounting, count) == list(range(ACCOUNTING_MAX))
    later = a_round(questions, accounting, count)
    assert later[:6] == [*range(ACCOUNTING_MAX, count), 0]


def test_so_long_in_one_round() -> None:
    accounting = AnAccounting(takes_s=ASKING_S_MAX / 2)
    assert a_round(on(accounting), accounting, 9) == [0, 1, 2]


def test_nobody_is_asked_about_by_turns_of_another_kind() -> None:
    accounting = AnAccounting()
    questions = on(accounting)
    a_round(questions, accounting, 2)
    assert [one.job_id for one in questions.in_turn("native", attempts(3))] == [
        UUID(int=number) for number in range(3)
    ]


def test_without_an_answer_the_question_raises_what_it_raised() -> None:
    accounting = AnAccounting(silent=frozenset({0}))
    questions = on(accounting)
    questions.begin_round()
    with pytest.raises(ClusterUnavailable, match="no answer"):
        questions.ask("portal", attempts(1)[0], lambda: accounting.tell(0))
