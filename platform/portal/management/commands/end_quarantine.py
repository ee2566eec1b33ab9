"""`manage.py end_quarantine`: allow starts again after a restore."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.execution.restoring import end_quarantine, silent_clusters
from outbox.quarantine import open_quarantine
from primitives.clock import SystemClock
from primitives.errors import PortalError


class Command(BaseCommand):
    """Ends the quarantine. Jobs that may have run on silent clusters are held."""

    help = "Allow starts again after a restore."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the option to end without the clusters that have not answered."""
        parser.add_argument(
            "--hold-rest",
            action="store_true",
            help="end even if clusters have not answered: hold the jobs that may have run there",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """End the quarantine, and print its results."""
        quarantine = open_quarantine()
        silent = [] if quarantine is None else silent_clusters(quarantine)
        if silent and not options["hold_rest"]:
            raise CommandError(
                f"These clusters have not answered yet: {', '.join(silent)}. Wait for them, or "
                "use --hold-rest to hold every job that may have run there."
            )
        try:
            ended = end_quarantine(actor_id=None, actor="operator", now=SystemClock().now())
        except PortalError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(
            f"Jobs may start again. Attempts taken over: {ended.adopted}. Workloads of no known "
            f"job: {ended.strangers}. Jobs held for review: {ended.held}."
        )
