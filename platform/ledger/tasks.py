"""Timers of the ledger. A task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from ledger.checking import check_and_seal
from ledger.transfers import void_expired
from primitives.clock import SystemClock


@shared_task
def void_expired_transfers() -> None:
    """Void pending transfers that expired, up to a thousand. Others follow the next time."""
    void_expired(now=SystemClock().now())


@shared_task
def check_ledgers() -> None:
    """Prove all ledgers, log their faults, and seal those without any."""
    check_and_seal(now=SystemClock().now())
