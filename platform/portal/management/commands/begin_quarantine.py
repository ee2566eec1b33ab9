"""`manage.py begin_quarantine`: run it before the portal starts on a restored database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from clusters.models import Cluster
from jobs.execution.restoring import freeze
from outbox.quarantine import sentence_of
from primitives.clock import SystemClock


class Command(BaseCommand):
    """Forbids every start until `end_quarantine`. Safe to repeat."""

    help = "Forbid all starts until clusters were compared with this restored database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the time since which clusters may have done more than this database knows."""
        parser.add_argument(
            "--since",
            help="time of the backup, like 2026-11-21T12:00:00Z (default: the oldest last answer "
            "of a cluster in the database)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Begin the quarantine, and print the next step."""
        now = SystemClock().now()
        quarantine = freeze(
            "Started by an operator, for example after a restore from a backup.",
            since=_since(options["since"], now),
            now=now,
        )
        self.stdout.write(sentence_of(quarantine))
        self.stdout.write("Start the portal, wait for the clusters, then run `end_quarantine`.")


def _since(text: str | None, now: datetime) -> datetime:
    if text is None:
        answers = Cluster.objects.exclude(observed_at=None).order_by("observed_at")
        return answers.values_list("observed_at", flat=True).first() or now - timedelta(days=1)
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise CommandError("--since must be a time like 2026-11-21T12:00:00Z.") from error
