"""Jobs of the local cluster. They continue after `make down` on purpose; `make reset` ends them.

Each attempt has a supervisor, and a keeper per rank. All processes of the job are children of
these. They are identified by their command line, whose last word is the attempt's directory.
"""

import time
from contextlib import suppress

import psutil

from embedded.layout import Layout

_PROGRAM = "connectors/local/supervise.py"
_POLL_S = 0.1
_PATIENCE_S = 5


def _watchers(layout: Layout) -> dict[psutil.Process, str]:
    """Return supervisors and keepers of this state folder, with the attempt's directory."""
    found = {}
    # A cached process that ended may be confused with a new one with the same process id.
    psutil.process_iter.cache_clear()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if (
                len(words) >= 2
                and words[-2].endswith(_PROGRAM)
                and words[-1].startswith(f"{layout.state}/")
            ):
                found[process] = words[-1]
    return found


def count_running(layout: Layout) -> int:
    """Return how many attempts of the local cluster still have processes."""
    return len(set(_watchers(layout).values()))


def stop_all(layout: Layout) -> int:
    """End every job of the local cluster at once, then its supervisors, and return how many.

    The processes of a job are killed first. Its keepers and supervisor notice that, record it and
    end by themselves. Survivors are killed after a few seconds.
    """
    count = count_running(layout)
    deadline = time.monotonic() + _PATIENCE_S
    while watchers := _watchers(layout):
        is_late = time.monotonic() >= deadline
        for watcher in watchers:
            with suppress(psutil.Error):
                for process in watcher.children(recursive=True):
                    if process not in watchers:
                        process.kill()
                if is_late:
                    watcher.kill()
        if time.monotonic() >= deadline + _PATIENCE_S:
            break
        time.sleep(_POLL_S)
    return count
