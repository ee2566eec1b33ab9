"""Prints lines for the person at the terminal."""

import os
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime

_SECONDS_SHOWN = 600
_STARTED_AT = float(os.environ.get("TIDEGATE_STARTED_AT") or time.time())


def say(text: str) -> None:
    """Print a line of progress, after the seconds since `make` began; later, after the time in UTC.

    Errors of the terminal are ignored, because they must not stop the work.
    """
    passed_s = max(0.0, time.time() - _STARTED_AT)
    clock = f"{passed_s:6.1f} s" if passed_s < _SECONDS_SHOWN else f"{datetime.now(UTC):%H:%M:%S}"
    with suppress(OSError):
        print(f"{clock}  {text}", flush=True)


def show(text: str = "") -> None:
    """Print a line without the time."""
    with suppress(OSError):
        print(text, flush=True)


def is_terminal() -> bool:
    """Return whether a person reads the output. A pipe may end in a log."""
    return sys.stdout.isatty()


def complain(text: str) -> None:
    """Print an error in one sentence."""
    with suppress(OSError):
        print(f"\nTidegate: {text}", file=sys.stderr, flush=True)
