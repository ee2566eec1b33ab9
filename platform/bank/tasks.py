"""The timer of credits. The task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from bank.correcting import correct_due
from bank.notices import give_notices
from bank.settling import settle_due
from bank.transfers import expire_transfers
from primitives.clock import SystemClock


@shared_task
def settle_credits() -> None:
    """Settle intervals, up to a day of each pool. Close expired transfers, and give notices.

    Past intervals whose use changed are settled anew, up to a day of each pool, too.
    """
    now = SystemClock().now()
    settle_due(now)
    correct_due(now)
    expire_transfers(now)
    give_notices(now)
