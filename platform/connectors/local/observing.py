"""Reads the state of the attempts under a root."""

from __future__ import annotations

import os
from collections.abc import Mapping

from connectors.local.attempt_files import (
    AttemptFiles,
    CorruptRecord,
    integer,
    integer_or_none,
    is_locked,
    mapping,
    read_json,
    text,
)
from connectors.local.attempt_spec import read_spec
from connectors.protocol import Observation, Outcome, WorkloadPhase
from connectors.workload_checks import is_key

#: Inode of the attempt's directory, then inode and time of the record that was read.
_Stamp = tuple[int, int, int]


class AttemptReader:
    """Lists attempts. It caches parsed records, which affects only the cost.

    A finished attempt never changes and costs one stat. Every other attempt costs a stat, a check
    of its lock, and a read if its state has changed.
    """

    def __init__(self) -> None:
        self._parsed: Mapping[str, tuple[_Stamp, Observation]] = {}

    def list(self, attempts: str) -> tuple[dict[str, Observation], list[AttemptFiles]]:
        """Return every attempt in the directory `attempts`, and those without a supervisor.

        An attempt with unreadable records is listed as running and `unreadable`. It may hold GPUs,
        so it is neither left out nor treated as finished. Raises OSError.
        """
        parsed: dict[str, tuple[_Stamp, Observation]] = {}
        orphans = []
        with os.scandir(attempts) as entries:
            for entry in entries:
                if not is_key(entry.name):
                    continue
                known = self._parsed.get(entry.name)
                if known and known[1].is_released and _is_as_it_was(entry, known[0]):
                    parsed[entry.name] = known
                    continue
                files = AttemptFiles(entry.path)
                is_supervised = is_locked(files.supervisor_lock)
                found = _read(entry.name, entry.inode(), files, known)
                if found is None:
                    continue
                parsed[entry.name] = found
                if not is_supervised and not found[1].is_released:
                    orphans.append(files)
        self._parsed = parsed
        return {key: observation for key, (_, observation) in parsed.items()}, orphans


def _is_as_it_was(entry: os.DirEntry[str], stamp: _Stamp) -> bool:
    """Return whether an ended attempt is unchanged. The time decides, because inodes are reused."""
    try:
        status = os.stat(f"{entry.path}/end.json")
    except OSError:
        return False
    return stamp == (entry.inode(), status.st_ino, status.st_mtime_ns)


def _read(
    key: str, inode: int, files: AttemptFiles, known: tuple[_Stamp, Observation] | None
) -> tuple[_Stamp, Observation] | None:
    """Return the observation from the records; None when the attempt has just been forgotten."""
    nothing: _Stamp = (inode, 0, 0)
    problem = ""
    for path in (files.end, files.state):
        try:
            status = os.stat(path)
            stamp = (inode, status.st_ino, status.st_mtime_ns)
            if known and known[0] == stamp:
                return known
            return stamp, _observation(key, read_json(path))
        except FileNotFoundError:
            continue
        except (OSError, CorruptRecord, ValueError) as error:
            problem = str(error)
    try:
        if not problem:
            read_spec(files.spec)
            return nothing, Observation(key, key, "submitted", WorkloadPhase.STARTING)
    except (OSError, CorruptRecord) as error:
        if not os.path.isdir(files.path):
            return None
        problem = str(error)
    message = f"its record cannot be read ({problem}); stop it to be rid of it"
    return nothing, Observation(key, key, "unreadable", WorkloadPhase.RUNNING, message=message)


def _observation(key: str, record: Mapping[str, object]) -> Observation:
    """Return the observation of one record.

    Raises CorruptRecord, or ValueError for a value that is not in the protocol.
    """
    outcome = record.get("outcome")
    released_at = integer_or_none(record, "released_at")
    codes = mapping(record, "exit_codes")
    return Observation(
        key=key,
        native_id=key,
        native_state=text(record, "native_state"),
        phase=WorkloadPhase(text(record, "phase")),
        started_at=integer_or_none(record, "started_at"),
        ended_at=integer_or_none(record, "ended_at"),
        released_at=released_at,
        is_released=released_at is not None,
        outcome=None if outcome is None else Outcome(str(outcome)),
        exit_codes={int(rank): integer(codes, rank) for rank in codes},
        message=text(record, "message"),
    )
