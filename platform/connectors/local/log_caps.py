"""The size cap of logs: the head of a log is kept, what comes after the cap is dropped.

Ranks append to plain files, so the cap is enforced after the fact: a file that has grown past it
is cut back, and the rank goes on appending from there. Between two looks a file may be longer
than the cap; nobody is shown more than the cap, so what a reader has seen never changes.
"""

from __future__ import annotations

import os


def cut_log(path: str, cap_bytes: int) -> bool:
    """Cut the log at `path` back to its cap; whether there was something to cut."""
    try:
        if os.stat(path).st_size <= cap_bytes:
            return False
        os.close(os.open(f"{path}.cut", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.truncate(path, cap_bytes)
    except FileNotFoundError:
        return False
    return True


def log_size(path: str, cap_bytes: int) -> tuple[int, bool]:
    """Bytes of the log that may be shown, and whether the cap cut it. Raises FileNotFoundError."""
    size = os.stat(path).st_size
    return min(size, cap_bytes), size > cap_bytes or os.path.exists(f"{path}.cut")
