"""Transfers of the ledger: recorded in batches and one by one, and the proof over all of them.

    python tests/performance/bench_ledger.py [--smoke]

200 accounts and POOL; half of the transfers are holds, and each of these is posted in part. Target:
at least 2,000 transfers a second in batches of 1,000, each batch committed to the disk.
"""

from __future__ import annotations

import argparse
import statistics
import time
from datetime import UTC, datetime, timedelta

from bed import a_database

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TARGET_PER_S = 2_000
LEDGER = "credits:bench"


def main() -> None:
    """Record, prove, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a fiftieth of the size")
    arguments = parser.parse_args()
    with a_database():
        measure(2 if arguments.smoke else 30, 20 if arguments.smoke else 500)


def measure(batches: int, alone: int) -> None:
    """Print the figures for `batches` of 1,000 transfers, and for `alone` more one by one."""
    from uuid_utils.compat import uuid7

    from ledger.accounts import open_account
    from ledger.models import Transfer, TransferState
    from ledger.proof import find_faults
    from ledger.sealing import seal
    from ledger.transfers import NewTransfer, record

    pool = open_account(LEDGER, "bench", "pool").id
    teams = [open_account(LEDGER, f"team-{n}", "team").id for n in range(200)]

    def a_batch(size: int) -> list[NewTransfer]:
        batch = []
        for n in range(size // 2):
            hold = NewTransfer(
                uuid7(),
                teams[n % len(teams)],
                pool,
                3_600_000_000 + n,
                "hold",
                NOW,
                state=TransferState.PENDING,
                expires_at=NOW + timedelta(hours=1),
                reference="attempt 1",
            )
            post = NewTransfer(
                uuid7(), hold.debit_id, pool, 1_800_000_000, "hold", NOW, resolves_id=hold.key
            )
            batch += [hold, post]
        return batch

    speeds = []
    for _ in range(batches):
        batch = a_batch(1_000)
        began = time.perf_counter()
        record(batch, now=NOW)
        speeds.append(len(batch) / (time.perf_counter() - began))
    per_s = statistics.median(speeds)
    verdict = "met" if per_s >= TARGET_PER_S else "NOT met"
    print(
        f"batches of 1,000: median {per_s:,.0f} transfers/s, slowest {min(speeds):,.0f}, "
        f"target {TARGET_PER_S:,} {verdict}"
    )
    singles = a_batch(alone)
    began = time.perf_counter()
    for new in singles:
        record([new], now=NOW)
    print(f"one by one: {alone / (time.perf_counter() - began):,.0f} transfers/s")
    began = time.perf_counter()
    record(batch, now=NOW)
    print(f"a repeated batch: {len(batch) / (time.perf_counter() - began):,.0f} transfers/s")
    began = time.perf_counter()
    seal(LEDGER, now=NOW)
    print(f"a seal of {1 + len(teams)} accounts: {(time.perf_counter() - began) * 1_000:,.0f} ms")
    total = Transfer.objects.count()
    began = time.perf_counter()
    assert find_faults(LEDGER) == []
    print(f"proof: {total / (time.perf_counter() - began):,.0f} transfers/s, {total:,} in all")


if __name__ == "__main__":
    main()
