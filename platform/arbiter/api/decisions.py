"""What a cycle can do with a job, and by what right it stops one."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a cycle can do with a job. `WAITS` also stands for a job that went on running."""

    STARTED = "started"
    CLAIMED = "claimed"
    STOPPED = "stopped"
    CLAIM_DROPPED = "claim_dropped"
    WAITS = "waits"


class Right(StrEnum):
    """By what right a running job was stopped for another one."""

    BORROWED = "borrowed"
    BORROWED_ABOVE = "borrowed_above"
    PREEMPTIBLE = "preemptible"
    PRIORITY = "priority"
