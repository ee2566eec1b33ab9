"""Lines for the person at the terminal."""

import os
import sys
import time
from contextlib import suppress

_STARTED_AT = float(os.environ.get("TIDEGATE_STARTED_AT") or time.time())


def say(text: str) -> None:
    """One line of progress, after the seconds since `make` began.

    A terminal that has gone away must not stop what it was watching.
    """
    with suppress(OSError):
        print(f"{max(0.0, time.time() - _STARTED_AT):6.1f} s  {text}", flush=True)


def show(text: str = "") -> None:
    """A line without the clock."""
    with suppress(OSError):
        print(text, flush=True)


def complain(text: str) -> None:
    """What went wrong, in one sentence."""
    with suppress(OSError):
        print(f"\nTidegate: {text}", file=sys.stderr, flush=True)
