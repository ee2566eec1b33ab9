"""Timers of the workers."""

from __future__ import annotations

from portal.celeryapp import app


def test_tasks_of_timers_do_not_pile_up() -> None:
    """At most one of each waits, or those of a minute; a clock that is late drops none of these.

    Planted: timers without an expiry; the period of write-export itself (5 s)."""
    found = {
        name: (timer["schedule"], timer["options"]["expires"])
        for name, timer in app.conf.beat_schedule.items()
    }
    assert found["write-export"] == (5.0, 60.0)
    assert found["evaluate-budgets"] == (30.0, 60.0)
    assert found["audit-charges"] == (86_400.0, 86_400.0)
    assert {name for name, (period, expires) in found.items() if expires > max(period, 60)} == set()
