"""Hours, days, weeks and months of a zone, where its clocks change and where they do not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from billing.periods import Period
from chargeback.buckets import BUCKETS_MAX, Bucket, buckets_of
from chargeback.dimensions import Dimension
from primitives.days import midnight
from primitives.errors import InvalidRequest


def buckets(zone: str, first: date, last: date, dimension: Dimension) -> list[Bucket]:
    """The buckets from the midnight of `first` to that of `last`."""
    known = ZoneInfo(zone)
    start, end = midnight(first, known), midnight(last, known)
    found = buckets_of(Period(start, end, end), dimension, known)
    assert (found[0].start, found[-1].end) == (start, end)
    assert all(one.end == two.start for one, two in pairwise(found))
    assert len({bucket.label for bucket in found}) == len(found)
    return found


@pytest.mark.parametrize(
    ("month", "hours", "shortest_s"),
    [(date(2026, 11, 1), 721, 3_600), (date(2026, 3, 1), 743, 3_600)],
)
def test_months_of_new_york_have_their_hours(month: date, hours: int, shortest_s: int) -> None:
    """November 2026 has 721 hours in New York, and March 743.

    Against: hours labelled without their offset, so two hours of November are one."""
    after = date(month.year, month.month + 1, 1)
    found = buckets("America/New_York", month, after, Dimension.HOUR)
    assert len(found) == hours
    assert {(bucket.end - bucket.start).total_seconds() for bucket in found} == {shortest_s}
    (whole,) = buckets("America/New_York", month, after, Dimension.MONTH)
    assert whole.end - whole.start == timedelta(hours=hours)


def test_an_hour_occurs_twice_where_the_clock_goes_back() -> None:
    found = buckets("America/New_York", date(2026, 11, 1), date(2026, 11, 2), Dimension.HOUR)
    assert [bucket.label for bucket in found[:4]] == [
        "2026-11-01T00:00-04:00",
        "2026-11-01T01:00-04:00",
        "2026-11-01T01:00-05:00",
        "2026-11-01T02:00-05:00",
    ]
    assert len(found) == 25


@pytest.mark.parametrize(
    ("day", "labels", "hours"),
    [
        (
            date(2026, 4, 5),
            ["2026-04-05T01:00+11:00", "2026-04-05T01:30+10:30", "2026-04-05T02:00+10:30"],
            24.5,
        ),
        (
            date(2026, 10, 4),
            ["2026-10-04T01:00+10:30", "2026-10-04T02:30+11:00", "2026-10-04T03:00+11:00"],
            23.5,
        ),
    ],
)
def test_clocks_that_change_by_half_an_hour_make_an_hour_of_thirty_minutes(
    day: date, labels: list[str], hours: float
) -> None:
    """The clock of Lord Howe goes back and forth by 30 minutes.

    Against: the change of the clock begins no hour, so an hour of 90 minutes."""
    found = buckets("Australia/Lord_Howe", day, day + timedelta(days=1), Dimension.HOUR)
    assert [bucket.label for bucket in found[1:4]] == labels
    lengths = [(bucket.end - bucket.start).total_seconds() / 60 for bucket in found]
    assert sorted(set(lengths)) == [30, 60]
    assert lengths.count(30) == 1
    assert sum(lengths) / 60 == hours


def test_hours_of_a_zone_with_a_quarter_begin_with_its_clock() -> None:
    found = buckets("Asia/Kathmandu", date(2026, 11, 1), date(2026, 11, 2), Dimension.HOUR)
    assert (found[1].label, found[1].start) == (
        "2026-11-01T01:00+05:45",
        datetime(2026, 10, 31, 19, 15, tzinfo=UTC),
    )


def test_a_day_without_a_midnight_begins_with_its_first_hour() -> None:
    """In Beirut the clock goes from midnight to one o'clock."""
    found = buckets("Asia/Beirut", date(2026, 3, 28), date(2026, 3, 31), Dimension.DAY)
    assert [
        (bucket.label, (bucket.end - bucket.start) // timedelta(hours=1)) for bucket in found
    ] == [
        ("2026-03-28", 24),
        ("2026-03-29", 23),
        ("2026-03-30", 24),
    ]


def test_weeks_begin_on_monday_and_are_cut_by_the_period() -> None:
    found = buckets("Europe/Berlin", date(2026, 12, 30), date(2027, 1, 5), Dimension.WEEK)
    assert [(bucket.label, bucket.start) for bucket in found] == [
        ("2026-W53", datetime(2026, 12, 29, 23, tzinfo=UTC)),
        ("2027-W01", datetime(2027, 1, 3, 23, tzinfo=UTC)),
    ]


def test_a_period_inside_an_hour_is_one_bucket() -> None:
    start = datetime(2026, 11, 1, 10, 20, 30, tzinfo=UTC)
    end = start + timedelta(minutes=5)
    (only,) = buckets_of(Period(start, end, end), Dimension.HOUR, ZoneInfo("UTC"))
    assert only == Bucket("2026-11-01T10:00+00:00", start, end)


def test_too_many_hours_are_refused() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    end = start + timedelta(hours=BUCKETS_MAX + 1)
    with pytest.raises(InvalidRequest, match="Ask for at most two months, or for days"):
        buckets_of(Period(start, end, end), Dimension.HOUR, ZoneInfo("UTC"))
    assert (
        len(
            buckets_of(
                Period(start, end - timedelta(hours=1), end), Dimension.HOUR, ZoneInfo("UTC")
            )
        )
        == BUCKETS_MAX
    )
