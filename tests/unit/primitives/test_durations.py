"""Lengths of time: one grammar, held against the file that the frontend's tests read, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from primitives.durations import duration_of_seconds, seconds_of_duration, seconds_of_time_limit

LIMITS = json.loads(
    (Path(__file__).parents[2] / "recordings" / "time_limits.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(("text", "limit_s"), LIMITS["read"].items())
def test_a_time_limit_is_read(text: str, limit_s: int) -> None:
    """Against: "10:30" as hours and minutes."""
    assert seconds_of_time_limit(text) == limit_s


@pytest.mark.parametrize(("text", "sentence"), LIMITS["refused"].items())
def test_a_time_limit_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    """Against: a number alone as minutes."""
    with pytest.raises(ValueError, match=r"has no unit|is not a duration") as refusal:
        seconds_of_time_limit(text)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize("text", ["10:00", "1-0", "m", "٣m", "1000000000s", "soon"])
def test_a_length_of_time_has_no_colons(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no unit|is not a duration") as refusal:
        seconds_of_duration(text)
    expected = f"{text!r} is not a duration. Write 90s, 30m, 2h or 1d12h."
    assert str(refusal.value) == expected


@given(st.integers(0, 400 * 86_400))
def test_what_is_written_is_read_as_the_same(seconds: int) -> None:
    assert seconds_of_duration(duration_of_seconds(seconds)) == seconds


def test_a_length_of_time_is_written_in_full() -> None:
    assert [duration_of_seconds(each) for each in (0, 59, 5_400, 90_061, 31_536_000)] == [
        "0s",
        "59s",
        "1h30m",
        "1d1h1m1s",
        "365d",
    ]
