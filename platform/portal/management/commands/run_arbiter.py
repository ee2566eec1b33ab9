"""`manage.py run_arbiter`: decide which jobs start, wait or are preempted."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from jobs.loops.arbiter import run_arbiter
from live.pulse import pulse_here
from portal.signals import stop_on_signal
from portal.startup import refuse_or_exit
from primitives.clock import SystemClock


class Command(BaseCommand):
    """Runs cycles while this process is the leader. Of several processes, one leads."""

    help = "Run the arbiter: decide which jobs start, wait or are preempted."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        refuse_or_exit()
        run_arbiter(stop_on_signal(), SystemClock(), pulse_here())
