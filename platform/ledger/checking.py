"""The nightly check: every ledger is proved and sealed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from django.db import connection, transaction

from ledger.models import Account
from ledger.proof import Fault, find_faults
from ledger.sealing import seal

log = logging.getLogger(__name__)


def ledger_names() -> list[str]:
    """Return the names of all ledgers that have an account."""
    return list(Account.objects.order_by("ledger").values_list("ledger", flat=True).distinct())


def check_ledgers() -> Mapping[str, list[Fault]]:
    """Return the faults of each ledger, as of one moment each. Transfers go on meanwhile."""
    return {name: _faults_of(name) for name in ledger_names()}


def check_and_seal(*, now: datetime) -> int:
    """Log the faults of all ledgers, and seal each ledger without any. Return how many faults.

    A ledger with faults is not sealed, so that its last seal stays the last proof.
    """
    found = check_ledgers()
    for name, faults in found.items():
        for fault in faults:
            log.error("ledger: %s", fault.sentence)
        if not faults:
            seal(name, now=now)
    return sum(map(len, found.values()))


def _faults_of(name: str) -> list[Fault]:
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return find_faults(name)
