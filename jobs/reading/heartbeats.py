"""The health of the loops: whether the arbiter decides and the observer watches clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.models import Heartbeat

#: Both work every few seconds. A loop that did no work for so many seconds is late.
LATE_AFTER_S = 15
ROLES = ("arbiter", "observer")


@dataclass(frozen=True, slots=True)
class LoopHealth:
    """The time of a loop's last work (None: never), and whether it is too long ago."""

    worked_at: datetime | None
    is_late: bool


def loop_health(now: datetime) -> Mapping[str, LoopHealth]:
    """Return the health of each role's loop."""
    worked = dict(Heartbeat.objects.filter(role__in=ROLES).values_list("role", "worked_at"))
    since = now - timedelta(seconds=LATE_AFTER_S)
    return {
        role: LoopHealth(at, at is None or at < since)
        for role in ROLES
        for at in (worked.get(role),)
    }
