"""`manage.py begin_quarantine`: before the portal is started on a restored database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from clusters.models import Cluster
from jobs.execution.restoring import freeze
from outbox.quarantine import sentence_of
from primitives.clock import SystemClock


class Command(BaseCommand):
    """Freezes every start until `end_quarantine`. Safe to repeat."""

    help = "Start nothing until the clusters have been compared with this restored database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """From when on clusters may have done what this database does not know."""
        parser.add_argument(
            "--since",
            help="time of the backup, like 2026-11-21T12:00:00Z; left out, the last answer of a "
            "cluster that the database knows",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Begin, and say what comes next."""
        now = SystemClock().now()
        quarantine = freeze(
            "An operator began it, as after a restore from a backup.",
            since=_since(options["since"], now),
            now=now,
        )
        self.stdout.write(sentence_of(quarantine))
        self.stdout.write("Start the portal, let the clusters answer, then `end_quarantine`.")


def _since(text: str | None, now: datetime) -> datetime:
    if text is None:
        answers = Cluster.objects.exclude(observed_at=None).order_by("observed_at")
        return answers.values_list("observed_at", flat=True).first() or now - timedelta(days=1)
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise CommandError("--since must be a time like 2026-11-21T12:00:00Z.") from error
