"""Log files of the services: rotated at start, limited in size, quoted when a service fails."""

import os
from pathlib import Path

KEPT_FILES = 3
MAX_BYTES = 50 * 1024**2
_QUOTED_LINES = 15
_QUOTED_BYTES = 16 * 1024


def rotate(file: Path) -> None:
    """Move `web.log` to `web.log.1`, that one to `web.log.2`, and so on. The oldest is deleted."""
    for number in range(KEPT_FILES - 1, -1, -1):
        older = file.with_name(f"{file.name}.{number}") if number else file
        if older.exists():
            older.replace(file.with_name(f"{file.name}.{number + 1}"))


def keep_bounded(file: Path) -> None:
    """Empty a log that is larger than `MAX_BYTES`, after a copy to `web.log.1`.

    The writer has opened the file for appending, so it continues at the new end.
    """
    try:
        if file.stat().st_size <= MAX_BYTES:
            return
        copy = file.with_name(f"{file.name}.1")
        copy.write_bytes(file.read_bytes())
        os.truncate(file, 0)
    except OSError:
        return  # a full disk must not stop the supervisor


def last_lines(file: Path) -> list[str]:
    """Return the last lines of a log, or none when it does not exist."""
    try:
        with file.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _QUOTED_BYTES))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-_QUOTED_LINES:]
