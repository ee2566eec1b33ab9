"""Corrections of settled intervals after late news of use, and refunds after faults (R-95).

An interval whose use changed is settled anew as its next revision: from the same balances, limits
and weight as before, and from the use as it is known now. Payments that are no longer right are
reversed once, and the right ones posted. Both take effect at `CreditPool.settled_until`, so no
balance of the past changes. Later intervals stay as they are. One transaction corrects one
interval.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from django.db import connection, transaction

from bank.models import CreditBank, CreditPool, Settlement, SettlementLine
from bank.settling import (
    INTERVALS_MAX,
    POOL,
    Basis,
    Books,
    expiry,
    first_boundary,
    key_of,
    last_number,
    lines_of,
    locked_pool,
    record_unpaid_use,
    settled,
    store_settlement,
    summed,
    zone_of,
)
from bank.usage import uses_of
from billing.changed_use import (
    Change,
    changed_pools,
    changes_in,
    first_change,
    forget_changes,
)
from credits import settlement as rules
from credits.settlement import Limits, TransferKind
from ledger.models import REASON_LENGTH_MAX, Transfer
from ledger.transfers import find_transfers, reversal_of
from quotas.installation import installation_policy

log = logging.getLogger(__name__)
_REVERSALS = UUID("b1d9f3ce-6f1a-5a0e-9a44-0c9d3f0a1e27")
#: The most jobs that a reason names.
NAMED_MAX = 3
#: What became of the use of a job after a fault, by its reason.
_FAULTS: Mapping[str, str] = {
    "node_failed": "a node failed",
    "lost": "the cluster lost it",
    "preempted": "it was preempted soon after its start",
}


def correct_due(now: datetime) -> int:
    """Settle anew every settled interval whose use changed; return how many were corrected.

    One call looks at `INTERVALS_MAX` intervals of each pool. Others follow with the next call. A
    fault in one pool is logged and does not keep the others from being corrected.
    """
    corrected = 0
    for organization_id, pool_id in changed_pools():
        found = CreditPool.objects.filter(organization=organization_id, pool=pool_id).first()
        if found is None:
            forget_changes(organization_id, pool_id, None)
            continue
        try:
            for _ in range(INTERVALS_MAX):
                is_corrected = correct_next_interval(found.pk, now)
                if is_corrected is None:
                    break
                corrected += is_corrected
        except Exception:
            log.exception("%s: late use is not corrected", found)
    return corrected


@transaction.atomic
def correct_next_interval(credit_pool_id: int, now: datetime) -> bool | None:
    """Settle the earliest interval with changed use anew, and return whether that posted anything.

    Return None where no changed use is left, or where another process settles the pool.
    """
    credit_pool = locked_pool(credit_pool_id)
    if credit_pool is None:
        return None
    where = credit_pool.organization_id, credit_pool.pool_id
    first = first_change(*where)
    if first is None:
        return None
    if first >= credit_pool.settled_until:
        # The interval is settled later, from what is known then.
        forget_changes(*where, None)
        return None
    before = (
        Settlement.objects.filter(credit_pool=credit_pool, start__lte=first, end__gt=first)
        .order_by("-revision")
        .first()
    )
    if before is not None:
        start, end = before.start, before.end
    else:
        end = first_boundary(first + timedelta(seconds=1))
        start = end - _length(end)
    is_settled = start >= credit_pool.settled_since and end <= credit_pool.settled_until
    posted = False
    if before is not None or is_settled:
        again = Settlement(
            credit_pool=credit_pool,
            start=start,
            end=end,
            revision=1 if before is None else before.revision + 1,
        )
        posted = _settle_again(again, before, now)
    forget_changes(*where, end)
    return posted


def _length(end: datetime) -> timedelta:
    """Return the length of the interval that ends at a boundary."""
    return first_boundary(end + timedelta(seconds=1)) - end


def _settle_again(again: Settlement, before: Settlement | None, now: datetime) -> bool:
    """Post what differs between a revision and the one before; return whether anything does."""
    credit_pool, start, end = again.credit_pool, again.start, again.end
    where = credit_pool.organization_id, credit_pool.pool_id
    changes = changes_in(*where, start, end)
    again.reason = reason_of(changes, start, end)
    zone = zone_of(credit_pool.organization_id)
    uses = uses_of(*where, start, end)
    basis = _basis_of(credit_pool, before, start)
    books = Books(credit_pool, uses, basis.weight)
    later = _later_amounts(credit_pool, basis.after_number)
    accounts = [
        replace(one, balance=one.balance - later.get(one.team, 0), earnings=())
        for one in books.accounts
    ]
    result = settled(
        accounts,
        books.pool - later.get(POOL, 0),
        uses,
        basis,
        expires_at=expiry(end, zone),
    )
    lines = lines_of(uses, result, basis.weight)
    old = _payments_of(before)
    new = {
        (one.kind.value, books.id_of(one.payer), books.id_of(one.payee)): one
        for one in summed(result.transfers)
    }
    same = {key for key in old.keys() & new.keys() if old[key].amount == new[key].amount}
    wrong = [old[key] for key in sorted(old.keys() - same)]
    right = [new[key] for key in sorted(new.keys() - same)]
    if not wrong and not right and _amounts(lines) == _amounts_of(before):
        if before is not None:
            record_unpaid_use(again, lines, basis.weight, now)
        return False
    kind = _reversal_kind(changes)
    at = credit_pool.settled_until
    reversals = [
        reversal_of(
            one,
            key=uuid5(_REVERSALS, str(one.key)),
            effective_at=at,
            code=kind.value,
            reason=again.reason,
        )
        for one in wrong
    ]
    payments = [
        books.new_transfer(
            one,
            key_of(credit_pool, start, one, again.revision),
            effective_at=at,
            reason=again.reason,
        )
        for one in right
    ]
    moved = [
        rules.Transfer(
            books.owner_of(one.credit_id), books.owner_of(one.debit_id), one.amount, kind
        )
        for one in wrong
    ]
    books.take(
        rules.correct(books.accounts, books.pool, [*moved, *right], expires_at=expiry(at, zone))
    )
    books.record([*reversals, *payments], now)
    keys = {old[key].key for key in same} | {one.key for one in payments}
    store_settlement(again, basis, lines, keys, now)
    record_unpaid_use(again, lines, basis.weight, now)
    if reversals or payments:
        credit_pool.epoch += 1
        credit_pool.save(update_fields=["epoch"])
    return True


def _basis_of(credit_pool: CreditPool, before: Settlement | None, start: datetime) -> Basis:
    """Return the basis of the revision before, or that of the next settled interval.

    Nobody borrowed in an interval without a settlement, so no payments followed it.
    """
    known = before or (
        Settlement.objects.filter(credit_pool=credit_pool, start__gt=start)
        .order_by("start", "revision")
        .first()
    )
    if known is not None:
        return Basis(Limits(known.floor_s, known.cap_s), known.weight, known.after_number)
    bank = CreditBank.objects.get(pk=credit_pool.organization_id)
    limits = Limits(floor_s=installation_policy().credit_floor_s, cap_s=bank.cap_s)
    return Basis(limits, credit_pool.pool.weight, last_number(credit_pool))


def _later_amounts(credit_pool: CreditPool, number: int) -> dict[str, int]:
    """Return by team, and for POOL, what transfers after this one changed its balance by."""
    with connection.cursor() as cursor:
        cursor.execute(_LATER, {"ledger": credit_pool.ledger, "number": number})
        return {owner: int(amount) for owner, amount in cursor.fetchall()}


_LATER = """
SELECT a.owner, SUM(CASE WHEN t.credit_id = a.id THEN t.amount ELSE -t.amount END)
FROM ledger_transfer t JOIN ledger_account a ON a.id IN (t.debit_id, t.credit_id)
WHERE t.number > %(number)s AND t.state = 'posted' AND a.ledger = %(ledger)s
GROUP BY a.owner
"""


def _payments_of(before: Settlement | None) -> dict[tuple[str, int, int], Transfer]:
    """Return the payments of a revision, by code, payer and payee."""
    if before is None:
        return {}
    found = find_transfers(list(before.transfers.values_list("key", flat=True)))
    return {(one.code, one.debit_id, one.credit_id): one for one in found.values()}


def _amounts(lines: Iterable[SettlementLine]) -> set[tuple[object, ...]]:
    return {
        (one.team_id, one.guaranteed, one.used, one.paid, one.unpaid, one.waived, one.lent)
        for one in lines
    }


def _amounts_of(before: Settlement | None) -> set[tuple[object, ...]]:
    return set() if before is None else _amounts(before.lines.all())


def _reversal_kind(changes: Iterable[Change]) -> TransferKind:
    """Return a refund where all changes are faults."""
    is_fault = all(one.fault for one in changes)
    return TransferKind.REFUND if is_fault else TransferKind.CORRECTION


def reason_of(changes: Iterable[Change], start: datetime, end: datetime) -> str:
    """Return the reason of a correction, as a sentence for the statement. Times are UTC."""
    when = f"{start:%Y-%m-%d %H:%M} to {end:%H:%M} UTC"
    told = list(
        dict.fromkeys(
            f"{one.job_name}: {_FAULTS[one.fault]}" if one.fault else f"{one.job_name}: late news"
            for one in changes
        )
    )
    more = f"; {len(told) - NAMED_MAX} more" if len(told) > NAMED_MAX else ""
    text = f"Use from {when} changed ({'; '.join(told[:NAMED_MAX])}{more})."
    return text if len(text) <= REASON_LENGTH_MAX else f"Use from {when} changed."
