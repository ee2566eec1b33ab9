"""The size cap of logs: the head of a log is kept, and everything after the cap is dropped.

Ranks append to plain files, so the cap is enforced afterwards: a file that exceeds it is cut back,
and the rank goes on appending. Between two checks a file may exceed the cap. Readers never see more
than the cap, so what they have seen never changes.
"""

from __future__ import annotations

import os


def cut_log(path: str, cap_bytes: int) -> bool:
    """Cut the log at `path` back to its cap. Return whether there was something to cut."""
    try:
        if os.stat(path).st_size <= cap_bytes:
            return False
        os.close(os.open(f"{path}.cut", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.truncate(path, cap_bytes)
    except FileNotFoundError:
        return False
    return True


def log_size(path: str, cap_bytes: int) -> tuple[int, bool]:
    """Return the log's readable bytes, and whether the cap cut it. Raises FileNotFoundError."""
    size = os.stat(path).st_size
    return min(size, cap_bytes), size > cap_bytes or os.path.exists(f"{path}.cut")
