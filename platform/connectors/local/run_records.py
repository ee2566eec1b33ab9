"""The record of what an attempt used, from its supervisor's records and from its mark.

The directory of an attempt has `spec.json` from before its start, `state.json` while it runs, and
`end.json` from its end on. When the attempt is forgotten, the summary goes into its mark.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from connectors.local.attempt_files import (
    AttemptFiles,
    CorruptRecord,
    integer_or_none,
    read_json,
    text,
)
from connectors.local.attempt_spec import read_spec
from connectors.workload_checks import is_key

#: A mark holds a summary of some hundred bytes, or nothing.
_SUMMARY_BYTES_MAX = 1 << 14
log = logging.getLogger(__name__)


def run_record(files: AttemptFiles) -> Mapping[str, object] | None:
    """Return the summary of an attempt that began; None before that, or if it never began.

    Times are epoch seconds; a `released_at` of None means that it still uses its devices. Raises
    OSError or CorruptRecord.
    """
    state = next((path for path in (files.end, files.state) if os.path.exists(path)), None)
    if state is None:
        return None
    record = read_json(state)
    started_at = integer_or_none(record, "started_at")
    if started_at is None:
        return None
    spec = read_spec(files.spec)
    return {
        "started_at": started_at,
        "released_at": integer_or_none(record, "released_at"),
        "native_state": text(record, "native_state"),
        "submitted_at": int(os.stat(files.spec).st_mtime),
        "mgpu": sum(slot.mgpu for slot in spec.slots),
        # The portal puts both into every environment, and no author can replace them.
        "team": spec.environment.get("TIDEGATE_TEAM", ""),
        "pool": spec.environment.get("TIDEGATE_POOL", ""),
        "user": spec.environment.get("USER", ""),
    }


def run_records(root: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield key and summary of all attempts under `root`, and of forgotten ones.

    Unreadable records are left out with a warning: a missing run shows in a comparison. An attempt
    that is forgotten meanwhile may come twice. Raises OSError.
    """
    with os.scandir(root / "attempts") as entries:
        for entry in entries:
            if is_key(entry.name):
                yield from _readable(entry.name, AttemptFiles(entry.path))
    with os.scandir(root / "forgotten") as entries:
        for entry in entries:
            if not is_key(entry.name):
                continue
            try:
                if 0 < entry.stat().st_size <= _SUMMARY_BYTES_MAX:
                    yield entry.name, read_json(entry.path)
            except FileNotFoundError:
                continue
            except CorruptRecord as error:
                log.warning("the mark of %s cannot be read: %s", entry.name, error)


def _readable(key: str, files: AttemptFiles) -> Iterator[tuple[str, Mapping[str, object]]]:
    try:
        found = run_record(files)
    except FileNotFoundError:
        # Forgotten meanwhile: its mark is read next.
        return
    except CorruptRecord as error:
        log.warning("the records of %s cannot be read: %s", key, error)
        return
    if found is not None:
        yield key, found
