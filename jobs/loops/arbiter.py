"""The arbiter's loop: a cycle at each notice, and at least every few seconds.

The loop survives a loss of the database. It logs the loss once, waits a little and tries again.
"""

from __future__ import annotations

import logging
from threading import Event

from django.conf import settings

from jobs.arbitration.arbitration import Cycles
from jobs.leadership import STEP_WITHIN_S, Leadership, lead
from live.pulse import Pulse
from live.waking import Listener, dedicated_connection
from primitives.clock import Clock

log = logging.getLogger(__name__)

#: Like `STEP_WITHIN_S`, for a cycle. The statements of the largest cycle alone may take longer.
CYCLE_WITHIN_S = 180.0


def run_arbiter(stopping: Event, clock: Clock, pulse: Pulse | None = None) -> None:
    """Run cycles until `stopping`: at each notice, and at least every few seconds."""
    pulse = pulse or Pulse(None)

    def act(leadership: Leadership) -> None:
        cycles = Cycles(leadership)
        with dedicated_connection("tidegate-arbiter-listener") as own:
            listener = Listener(own, "arbiter")
            while leadership.is_leading and not stopping.is_set():
                pulse.promise(CYCLE_WITHIN_S)
                report = cycles.run(clock.now())
                leadership.note_work()
                if report.started or report.reclaims:
                    log.info(
                        "cycle: %d started, %d reclaims of %d victims",
                        report.started,
                        report.reclaims,
                        report.victims,
                    )
                pulse.promise(settings.CYCLE_PERIOD_S + STEP_WITHIN_S)
                listener.wait(settings.CYCLE_PERIOD_S)

    lead("arbiter", stopping, act, pulse)
