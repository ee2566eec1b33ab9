"""A time in which nothing is started, because clusters may have done more than we remember.

A database that was restored from a backup has forgotten what was started since: whatever it would
start may have run already. So it waits, in quarantine, until the clusters have been asked and a
person has looked (`jobs.execution.restoring`, docs/operate/restore.md).
"""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction

from outbox.models import Quarantine


def open_quarantine() -> Quarantine | None:
    """The quarantine that goes on, or None."""
    return Quarantine.objects.filter(ended_at=None).first()


def is_quarantined() -> bool:
    """Whether nothing may be started now."""
    return Quarantine.objects.filter(ended_at=None).exists()


def begin_quarantine(reason: str, *, since: datetime, now: datetime) -> tuple[Quarantine, bool]:
    """Freeze every start, and say whether that is new. `since` is the time of the backup, or
    before it: what clusters did from then on may be unknown here."""
    try:
        with transaction.atomic():
            return Quarantine.objects.create(
                reason=reason, since=min(since, now), began_at=now
            ), True
    except IntegrityError:
        return Quarantine.objects.get(ended_at=None), False


def last_end() -> datetime | None:
    """When the last quarantine ended: what clusters did before has been looked at."""
    return (
        Quarantine.objects.exclude(ended_at=None)
        .order_by("-ended_at")
        .values_list("ended_at", flat=True)
        .first()
    )


def sentence_of(quarantine: Quarantine) -> str:
    """What everybody is told."""
    return (
        f"In quarantine since {quarantine.began_at:%Y-%m-%d %H:%M:%S} UTC: nothing is started "
        "until an administrator of the platform ends it. What runs goes on."
    )
