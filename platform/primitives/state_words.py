"""Phrases that describe the state of a job in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

_PHRASES: Mapping[str, str] = {
    "queued": "is queued",
    "held": "is held",
    "starting": "is being started",
    "running": "is running",
    "preempting": "is being stopped to make room for others",
    "succeeded": "has succeeded",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "timed_out": "ran until its time limit",
}


def state_phrase(state: str) -> str:
    """Return the phrase for a job in `state`, verb included: "is being started"."""
    return _PHRASES.get(state) or f"is {state.replace('_', ' ')}"
