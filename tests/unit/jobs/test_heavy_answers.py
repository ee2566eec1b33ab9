"""Answers that cost a run of the arbiter are worked out few at a time, in all web processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection

from builders.api_callers import by_token
from builders.job_builders import a_body, a_job
from builders.portal_builders import Company
from jobs.whatif import preview
from jobs.whatif.heavy_answers import (
    FUTURE,
    LOOK_AGAIN_S,
    ONE_CYCLE,
    SEVERAL_CYCLES,
    SIZES,
    TRIALS,
    HeavyAnswer,
    worked_out,
)
from primitives.errors import TooManyRequests
from tenants.models import User

pytestmark = pytest.mark.django_db


@contextmanager
def held_elsewhere(*slots: int) -> Iterator[Any]:
    """Other web processes are at it; what is yielded lets go of one slot."""
    other = connection.copy()
    with other.cursor() as cursor:
        for slot in slots:
            cursor.execute("SELECT pg_advisory_lock(%s)", [slot])
        try:
            yield lambda slot: cursor.execute("SELECT pg_advisory_unlock(%s)", [slot])
        finally:
            # The pool would give the connection to others with them.
            cursor.execute("SELECT pg_advisory_unlock_all()")
    other.close()


class Waiting:
    """A clock that goes on by what is waited."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses = 0

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        self.pauses += 1

    def enter(self, kind: HeavyAnswer) -> Any:
        return worked_out(kind, monotonic_s=lambda: self.now_s, pause=self.pause)


@pytest.mark.parametrize("kind", [ONE_CYCLE, SEVERAL_CYCLES, SIZES, FUTURE])
def test_there_is_an_answer_for_each_slot_and_no_more(kind: HeavyAnswer) -> None:
    """Planted: one slot taken twice; a slot that was never given back."""
    waiting = Waiting()
    with held_elsewhere(*kind.slots[1:]), waiting.enter(kind):
        pass
    with held_elsewhere(*kind.slots):
        with pytest.raises(TooManyRequests) as refusal, waiting.enter(kind):
            raise AssertionError("nothing is free")
        assert (refusal.value.detail, refusal.value.data) == (
            kind.refusal,
            {"retry_after_s": kind.retry_after_s},
        )
    # Given back by those before, whatever they came to.
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), waiting.enter(kind):
            raise ValueError("broken")
    with connection.cursor() as cursor:
        # The view shows the locks of all databases of the server, those of tests beside this one.
        cursor.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database "
            "WHERE locktype = 'advisory' AND datname = current_database() AND objid = ANY(%s)",
            [[slot & 0xFFFFFFFF for slot in kind.slots]],
        )
        assert cursor.fetchone() == (0,)


def test_one_cycle_is_waited_for_and_a_future_is_not() -> None:
    """Planted: refused at once, though one comes free in a moment; waited for without end."""
    waiting = Waiting()
    with held_elsewhere(*ONE_CYCLE.slots) as let_go:
        real_pause = waiting.pause

        def pause(seconds: float) -> None:
            real_pause(seconds)
            if waiting.pauses == 3:
                let_go(ONE_CYCLE.slots[1])

        with worked_out(ONE_CYCLE, monotonic_s=lambda: waiting.now_s, pause=pause):
            assert waiting.now_s == pytest.approx(3 * LOOK_AGAIN_S)
    waiting = Waiting()
    with held_elsewhere(*ONE_CYCLE.slots), pytest.raises(TooManyRequests):
        waiting.enter(ONE_CYCLE).__enter__()
    assert waiting.pauses == round(ONE_CYCLE.wait_s / LOOK_AGAIN_S)
    waiting = Waiting()
    with held_elsewhere(*FUTURE.slots), pytest.raises(TooManyRequests):
        waiting.enter(FUTURE).__enter__()
    assert waiting.pauses == 0


def test_a_preview_is_refused_with_what_to_do_and_a_submission_is_not(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: previews without a bound."""
    monkeypatch.setattr(preview, "ONE_CYCLE", replace(ONE_CYCLE, wait_s=0.0))
    caller = by_token(bob)
    body = a_body()
    with held_elsewhere(*ONE_CYCLE.slots):
        refused = caller.post("jobs?dry_run=true", body)
        assert caller.post("jobs", body).status_code == 201
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "2")
    assert refused.json()["detail"] == ONE_CYCLE.refusal
    assert caller.post("jobs?dry_run=true", body).status_code == 200


def test_a_look_ahead_keeps_no_preview_waiting(company: Company, bob: User) -> None:
    """Planted: one slot for both, so that no form had a plan while somebody looked ahead."""
    slots = [*FUTURE.slots, *SEVERAL_CYCLES.slots, *SIZES.slots, *TRIALS.slots, *ONE_CYCLE.slots]
    assert len(set(slots)) == len(slots)
    waiting = a_job(company, bob)
    with held_elsewhere(*ONE_CYCLE.slots):
        assert by_token(bob).post(f"jobs/{waiting.pk}/estimate", {}).status_code == 200
