"""Compute the use and the cost of a month again with DuckDB, and compare with the charges."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management import BaseCommand, CommandError

from exports.auditing import audit_month
from primitives.clock import SystemClock
from primitives.days import month_named


class Command(BaseCommand):
    """Print use and cost of each organization, pool and class. Fail where they differ."""

    help = "Compute the use and the cost of a month again with DuckDB, and compare."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the month."""
        parser.add_argument(
            "--month", required=True, help="such as 2026-11, in each organization's time zone"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Audit, and print the result."""
        first = month_named(options["month"])
        if first is None:
            raise CommandError(
                f"--month must be a month such as 2026-11, not {options['month']!r}."
            )
        lines = audit_month(first.year, first.month, now=SystemClock().now())
        for line in lines:
            self.stdout.write(
                f"{line.organization} {line.pool} {line.usage_class}: charged "
                f"{line.charged_mgpu_s} mGPU-s and {line.charged_nano} nano, audited "
                f"{line.audited_mgpu_s} mGPU-s and {line.audited_nano} nano: "
                f"{'equal' if line.is_equal else 'DIFFERENT'}"
            )
        if not lines:
            self.stdout.write("No use in this month.")
        if not all(line.is_equal for line in lines):
            raise CommandError("The charges differ from the audit. Do not send this month's bill.")
