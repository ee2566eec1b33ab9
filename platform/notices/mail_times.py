"""The time at which a notice is mailed: by digest and quiet hours, in the person's time zone."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from notices.mail_models import Digest, MailSettings
from notices.models import NoticeEvent

#: The local hour of a daily digest.
DAILY_HOUR = 8
#: Events that do not wait for a digest. Quiet hours count for them, too.
URGENT = frozenset(
    {NoticeEvent.JOB_PREEMPTING, NoticeEvent.TIME_LIMIT_NEAR, NoticeEvent.CLUSTER_STALE}
)


def mail_due_at(event: str, settings: MailSettings, now: datetime) -> datetime:
    """Return the moment from which a notice of `event` may be mailed."""
    zone = ZoneInfo(settings.time_zone)
    due = now
    if event not in URGENT:
        due = _next_digest(settings.digest, zone, now)
    return _after_quiet_hours(settings, zone, due)


def _next_digest(digest: str, zone: ZoneInfo, now: datetime) -> datetime:
    local = now.astimezone(zone)
    if digest == Digest.HOURLY:
        # Counted in UTC, so that no hour is lost when clocks change.
        begun = timedelta(minutes=local.minute, seconds=local.second, microseconds=now.microsecond)
        return now - begun + timedelta(hours=1)
    if digest == Digest.DAILY:
        day = local.date() + timedelta(days=local.hour >= DAILY_HOUR)
        return datetime.combine(day, time(DAILY_HOUR), zone).astimezone(UTC)
    return now


def _after_quiet_hours(settings: MailSettings, zone: ZoneInfo, moment: datetime) -> datetime:
    start, end = settings.quiet_from, settings.quiet_until
    if start is None or end is None:
        return moment
    local = moment.astimezone(zone)
    minute = local.hour * 60 + local.minute
    if not (start <= minute < end if start < end else minute >= start or minute < end):
        return moment
    day = local.date() + timedelta(days=minute >= end)
    return datetime.combine(day, time(end // 60, end % 60), zone).astimezone(UTC)
