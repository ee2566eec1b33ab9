"""Seals: the heads of all accounts of a ledger at one moment, chained from seal to seal."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction

from bulk.inserting import insert_rows
from ledger.accounts import accounts_of
from ledger.hashing import hash_of_seal
from ledger.models import Seal, SealedHead

#: Heads that one statement stores.
_HEADS_AT_ONCE = 5_000


@transaction.atomic
def seal(ledger: str, *, now: datetime) -> Seal:
    """Seal the heads of all accounts of a ledger as they are now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [ledger])
    last = Seal.objects.filter(ledger=ledger).order_by("-number").first()
    number = last.number + 1 if last else 1
    # One statement, so that the heads are those of one moment.
    heads = [
        (account_id, sequence, bytes(head))
        for account_id, sequence, head in accounts_of(ledger).values_list("id", "sequence", "head")
    ]
    new = Seal.objects.create(
        ledger=ledger,
        number=number,
        sealed_at=now,
        hash=hash_of_seal(
            bytes(last.hash) if last else b"",
            ledger=ledger,
            number=number,
            sealed_at=now,
            heads=heads,
        ),
    )
    for first in range(0, len(heads), _HEADS_AT_ONCE):
        insert_rows(
            SealedHead,
            [
                {"account_id": account_id, "sequence": sequence, "head": f"\\x{head.hex()}"}
                for account_id, sequence, head in heads[first : first + _HEADS_AT_ONCE]
            ],
            same={"seal_id": new.id},
            returns_keys=False,
        )
    return new
