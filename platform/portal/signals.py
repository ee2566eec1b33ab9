"""Orderly ends of long-running commands."""

from __future__ import annotations

import signal
from threading import Event
from types import FrameType


def stop_on_signal() -> Event:
    """Return an event that SIGTERM and SIGINT set, so that no write is interrupted."""
    stopping = Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return stopping
