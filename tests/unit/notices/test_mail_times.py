"""The moment from which a notice is mailed: digests and quiet hours in the person's zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from notices.mail_models import MailSettings
from notices.mail_times import mail_due_at

#: 13:30 in Berlin.
NOON = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def due(event: str = "job_failed", now: datetime = NOON, **settings: object) -> str:
    found = MailSettings(**{"time_zone": "Europe/Berlin", **settings})
    return f"{mail_due_at(event, found, now):%d %H:%M}"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "21 12:30"),
        ({"digest": "hourly"}, "21 13:00"),
        # 08:00 of the next day in Berlin.
        ({"digest": "daily"}, "22 07:00"),
        # From 13:00 until 14:00 in Berlin.
        ({"quiet_from": 780, "quiet_until": 840}, "21 13:00"),
        # Quiet hours over midnight, of which this moment is none.
        ({"quiet_from": 1320, "quiet_until": 420}, "21 12:30"),
        # The digest of 13:00 UTC falls into quiet hours from 14:00 until 15:00 in Berlin.
        ({"digest": "hourly", "quiet_from": 840, "quiet_until": 900}, "21 14:00"),
    ],
)
def test_digest_and_quiet_hours_delay_a_mail(settings: dict[str, object], expected: str) -> None:
    """Planted: quiet hours in UTC; the digest after the quiet hours."""
    assert due(**settings) == expected


@pytest.mark.parametrize(
    ("hour", "expected"),
    [(20, "21 20:00"), (21, "22 06:00"), (23, "22 06:00")],
)
def test_quiet_hours_over_midnight_end_on_the_right_day(hour: int, expected: str) -> None:
    """From 22:00 until 07:00 in Berlin; 23:00 UTC is after midnight there.

    Planted: the end is always on the next day.
    """
    now = NOON.replace(hour=hour, minute=0)
    assert due(now=now, quiet_from=1320, quiet_until=420) == expected


def test_a_daily_digest_before_eight_is_of_the_same_day() -> None:
    """06:59 UTC is 07:59 in Berlin. Planted: always the next day."""
    assert due(now=NOON.replace(hour=6, minute=59), digest="daily") == "21 07:00"
    assert due(now=NOON.replace(hour=7, minute=0), digest="daily") == "22 07:00"


def test_a_preemption_waits_for_no_digest_but_for_quiet_hours() -> None:
    """Planted: the digest counts for urgent events."""
    assert due("job_preempting", digest="daily") == "21 12:30"
    assert due("job_preempting", digest="daily", quiet_from=780, quiet_until=840) == "21 13:00"
