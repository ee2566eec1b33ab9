"""The moments of cron expressions, with changes of clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.recurring.cron import BadCron, check_cron, latest_moment, next_moment, next_moments

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_next_moments_are_in_the_time_zone() -> None:
    """Planted: the expression read in UTC."""
    assert next_moments("0 3 * * *", BERLIN, after=at("2026-11-29T02:00:00"), count=3) == [
        at("2026-11-30T02:00:00"),
        at("2026-12-01T02:00:00"),
        at("2026-12-02T02:00:00"),
    ]


def test_a_run_in_the_hour_that_is_left_out_is_moved_to_its_end() -> None:
    """On 29 March 2026 Berlin has no half past two; 3:00 there is 1:00 UTC."""
    assert next_moments("30 2 * * *", BERLIN, after=at("2026-03-28T12:00:00"), count=2) == [
        at("2026-03-29T01:00:00"),
        at("2026-03-30T00:30:00"),
    ]


def test_a_run_in_the_hour_that_comes_twice_happens_once() -> None:
    """On 25 October 2026 Berlin has half past two at 0:30 and at 1:30 UTC. Planted: moments that
    the library finds before `after`, in the first of the two hours."""
    assert next_moments("30 2 * * *", BERLIN, after=at("2026-10-24T12:00:00"), count=2) == [
        at("2026-10-25T00:30:00"),
        at("2026-10-26T01:30:00"),
    ]
    # 2:10 for the second time.
    assert next_moment("30 2 * * *", BERLIN, after=at("2026-10-25T01:10:00")) == at(
        "2026-10-26T01:30:00"
    )


def test_every_quarter_of_an_hour_follows_the_real_time() -> None:
    found = next_moments("*/15 * * * *", BERLIN, after=at("2026-10-25T00:00:00"), count=8)
    assert found == [at("2026-10-25T00:00:00") + timedelta(minutes=15 * n) for n in range(1, 9)]


def test_the_latest_moment_is_up_to_now() -> None:
    """Against: without the moment that is now."""
    first = at("2026-11-01T00:00:00")
    assert latest_moment("0 * * * *", "UTC", first=first, until=at("2026-11-29T05:59:59")) == at(
        "2026-11-29T05:00:00"
    )
    now = at("2026-11-29T05:00:00") + timedelta(microseconds=1)
    for moment in (at("2026-11-29T05:00:00"), now):
        assert latest_moment("0 * * * *", "UTC", first=first, until=moment) == at(
            "2026-11-29T05:00:00"
        )


def test_the_latest_moment_may_be_in_the_first_of_two_equal_hours() -> None:
    """It is 2:10 for the second time in Berlin. Planted: the search backward alone, which finds
    the moment of the day before."""
    first = at("2026-10-20T00:30:00")
    until = at("2026-10-25T01:10:00")
    assert latest_moment("30 2 * * *", BERLIN, first=first, until=until) == at(
        "2026-10-25T00:30:00"
    )


def test_the_latest_moment_is_never_before_the_first_one() -> None:
    """The rules of a time zone changed after `first` was stored. Planted: the moment that the
    expression has now, which may have run already."""
    first = at("2026-10-25T00:10:00")
    until = at("2026-10-25T00:20:00")
    assert latest_moment("0 * * * *", "UTC", first=first, until=until) == first


@given(
    cron=st.sampled_from(
        ["0 * * * *", "*/7 * * * *", "30 2 * * *", "0 0 1 * *", "15 1,13 * * MON-FRI", "@weekly"]
    ),
    zone=st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe"]),
    start_s=st.integers(1_767_225_600, 1_798_761_600),
    gap_s=st.integers(0, 3 * 86_400),
)
def test_the_latest_moment_is_one_of_those_found_forward(
    cron: str, zone: str, start_s: int, gap_s: int
) -> None:
    """Whatever the clocks do, it is a moment of the schedule, and no later one is due."""
    first = next_moment(cron, zone, after=datetime.fromtimestamp(start_s, UTC))
    until = first + timedelta(seconds=gap_s)
    found = latest_moment(cron, zone, first=first, until=until)
    assert first <= found <= until
    assert next_moment(cron, zone, after=found) > until
    if found != first:
        assert next_moment(cron, zone, after=found - timedelta(seconds=1)) == found


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("0 3 * *", "must have five fields: minute, hour, day of month, month, day of week, such"),
        ("0 0 3 * * *", "must have five fields"),
        ("CRON_TZ=UTC 0 3 * * *", "must have five fields"),
        ("@reboot", "must have five fields"),
        ("61 * * * *", "has a wrong minute; write it as in crontab, such as 0 3 * * *"),
        ("0 24 * * *", "has a wrong hour"),
        ("0 0 30 2 *", "has a wrong day-of-month"),
        ("0 0 * * FRI-MON-SAT", "has a wrong day-of-week"),
        ("0 0 L * *", "may have numbers, names of months and days, and the signs * , - / only"),
        ("0 0 * * MON#2", "may have numbers"),
        ("0 0 ? * *", "may have numbers"),
        ("0 " * 60, "must have at most 100 characters"),
    ],
)
def test_what_is_no_expression_is_refused_with_what_is_wrong(text: str, detail: str) -> None:
    with pytest.raises(BadCron) as refusal:
        check_cron(text)
    assert str(refusal.value).startswith(detail)


@pytest.mark.parametrize("text", ["*/5 * * * *", "0 3 1 jan-JUL *", "0 3 * * mon-fri", "@Weekly"])
def test_what_crontab_knows_is_an_expression(text: str) -> None:
    """Planted: names of months and days were refused."""
    assert check_cron(text) == text


def test_white_space_is_made_single() -> None:
    assert check_cron(" 0  3 * * * ") == "0 3 * * *"
    assert check_cron("@Daily") == "@Daily"
    assert next_moment("@Daily", "UTC", after=at("2026-11-29T05:00:00")) == at(
        "2026-11-30T00:00:00"
    )
