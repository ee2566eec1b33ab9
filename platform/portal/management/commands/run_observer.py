"""`manage.py run_observer`: watch the clusters, execute decisions, send hints to open pages."""

from __future__ import annotations

from threading import Thread
from typing import Any

from django.core.management.base import BaseCommand

from jobs.access import readers_of_jobs
from jobs.loops.observer import run_observer
from live.pulse import pulse_here
from live.relay import run_relay
from portal.signals import stop_on_signal
from portal.startup import refuse_or_exit
from primitives.clock import SystemClock


class Command(BaseCommand):
    """Watches every cluster while this process is the leader, and relays hints to open pages."""

    help = "Run the observer: watch clusters, execute decisions, send hints to open pages."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        refuse_or_exit()
        stopping = stop_on_signal()
        relay = Thread(
            target=run_relay, args=(stopping, readers_of_jobs), daemon=True, name="relay"
        )
        relay.start()
        run_observer(stopping, SystemClock(), pulse_here())
        relay.join(timeout=5)
