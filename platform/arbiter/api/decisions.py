"""Outcomes of a cycle for a job, and the rules by which a job may be stopped."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The outcome of a cycle for one job. `WAITS` also stands for a job that kept running."""

    STARTED = "started"
    CLAIMED = "claimed"
    STOPPED = "stopped"
    CLAIM_DROPPED = "claim_dropped"
    WAITS = "waits"


class Right(StrEnum):
    """The rule that allowed a running job to be stopped for another one."""

    BORROWED = "borrowed"
    BORROWED_ABOVE = "borrowed_above"
    PREEMPTIBLE = "preemptible"
    PRIORITY = "priority"
