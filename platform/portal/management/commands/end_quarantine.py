"""`manage.py end_quarantine`: starts go on after a restore."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.execution.restoring import end_quarantine, silent_clusters
from outbox.quarantine import open_quarantine
from primitives.clock import SystemClock
from primitives.errors import PortalError


class Command(BaseCommand):
    """Ends the quarantine; jobs that may have run on clusters that are silent are held."""

    help = "Let starts go on after a restore."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Whether to go on without the clusters that have not answered."""
        parser.add_argument(
            "--hold-rest",
            action="store_true",
            help="also when a cluster has not answered yet: hold the jobs that may have run there",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """End it, and say what became of it."""
        quarantine = open_quarantine()
        silent = [] if quarantine is None else silent_clusters(quarantine)
        if silent and not options["hold_rest"]:
            raise CommandError(
                f"These clusters have not been asked yet: {', '.join(silent)}. Wait for them, or "
                "use --hold-rest to hold every job that may have run there."
            )
        try:
            ended = end_quarantine(actor_id=None, actor="operator", now=SystemClock().now())
        except PortalError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(
            f"Starts go on. Taken over: {ended.adopted} attempts. Of no job here: "
            f"{ended.strangers} workloads. Held for a person to look at: {ended.held} jobs."
        )
