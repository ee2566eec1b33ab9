"""Prove all ledgers: balances, sums, chains of hashes and seals are computed again."""

from __future__ import annotations

from typing import Any

from django.core.management import BaseCommand, CommandError

from ledger.checking import check_ledgers


class Command(BaseCommand):
    """Print each ledger with its faults. Fail where there is a fault."""

    help = "Prove all ledgers: balances, sums, chains of hashes and seals are computed again."

    def handle(self, *args: Any, **options: Any) -> None:
        """Check, and print the result."""
        found = check_ledgers()
        for name, faults in found.items():
            self.stdout.write(f"{name}: {len(faults)} faults" if faults else f"{name}: proved")
            for fault in faults:
                self.stdout.write(f"  {fault.sentence}")
        if not found:
            self.stdout.write("No ledger yet.")
        if any(found.values()):
            raise CommandError(
                "A ledger has faults. Keep the database as it is, and compare it with a backup."
            )
