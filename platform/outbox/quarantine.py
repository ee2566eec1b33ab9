"""Quarantine: no job is started while clusters may have done more than the database knows.

A database that was restored from a backup has lost the starts since then. Any job that it would
start may have run already. So it waits in quarantine until the clusters were asked and a person has
looked (`jobs.execution.restoring`, docs/operate/restore.md).
"""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction

from outbox.models import Quarantine


def open_quarantine() -> Quarantine | None:
    """Return the open quarantine, or None."""
    return Quarantine.objects.filter(ended_at=None).first()


def is_quarantined() -> bool:
    """Return whether a quarantine is open, so that no job may be started."""
    return Quarantine.objects.filter(ended_at=None).exists()


def begin_quarantine(reason: str, *, since: datetime, now: datetime) -> tuple[Quarantine, bool]:
    """Forbid every start, and return the quarantine and whether it is new.

    `since` is the time of the backup, or earlier. Actions of clusters from then on may be missing.
    """
    try:
        with transaction.atomic():
            return Quarantine.objects.create(
                reason=reason, since=min(since, now), began_at=now
            ), True
    except IntegrityError:
        return Quarantine.objects.get(ended_at=None), False


def last_end() -> datetime | None:
    """Return the end of the last quarantine, or None. All that clusters did before is known."""
    return (
        Quarantine.objects.exclude(ended_at=None)
        .order_by("-ended_at")
        .values_list("ended_at", flat=True)
        .first()
    )


def sentence_of(quarantine: Quarantine) -> str:
    """Return the sentence that users see during a quarantine."""
    return (
        f"In quarantine since {quarantine.began_at:%Y-%m-%d %H:%M:%S} UTC: nothing is started "
        "until an administrator of the platform ends it. What runs goes on."
    )
