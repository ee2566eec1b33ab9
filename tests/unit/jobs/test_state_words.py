"""What sentences say of a job's state: a phrase for each, never the name of the state alone."""

from __future__ import annotations

from jobs.models import JobState
from primitives.state_words import state_phrase


def test_each_state_has_a_phrase() -> None:
    """Planted: a state is left out, and told by its name."""
    assert {state.value: state_phrase(state) for state in JobState} == {
        "held": "is held",
        "queued": "is queued",
        "starting": "is being started",
        "running": "is running",
        "preempting": "is being stopped to make room for others",
        "succeeded": "has succeeded",
        "failed": "has failed",
        "cancelled": "was cancelled",
        "timed_out": "ran until its time limit",
    }
