"""Records of started processes, so that a signal never reaches another process.

A process id alone is no identity, because the kernel reuses it. A record holds the id and the birth
mark of the process. A signal is sent only while both match.
"""

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

_POLL_S = 0.05


@dataclass(frozen=True)
class ProcessRecord:
    """A process that was started here. `birth` is its `birth_mark` right after the start."""

    name: str
    pid: int
    birth: str
    stop_signal: int = signal.SIGTERM


def birth_mark(pid: int) -> str | None:
    """Return a string that no other process with this id ever has, or None without such a process.

    On Linux, it is the boot id and the start time in ticks since boot. Neither changes when the
    clock is set. Elsewhere, it is the start time that the system reports. A zombie counts as gone.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return None
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.Error:
        return None


def record_of(name: str, pid: int, *, stop_signal: int = signal.SIGTERM) -> ProcessRecord:
    """Return the record of a process that was just started.

    A process that is gone already gets an empty birth mark, which matches nothing.
    """
    return ProcessRecord(name, pid, birth_mark(pid) or "", stop_signal)


def write_record(folder: Path, record: ProcessRecord) -> None:
    """Store `record` as `<folder>/<name>.json`. The file appears completely or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{record.name}.json"
    draft = folder / f".{record.name}.json.{os.getpid()}"
    draft.write_text(json.dumps(asdict(record)) + "\n", encoding="utf-8")
    draft.replace(target)


def read_record(folder: Path, name: str) -> ProcessRecord | None:
    """Return the record of `name`, or None when it is missing or cannot be read."""
    try:
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        return ProcessRecord(
            str(found["name"]), int(found["pid"]), str(found["birth"]), int(found["stop_signal"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_records(folder: Path) -> list[ProcessRecord]:
    """Return all readable records in `folder`, by name."""
    names = sorted(p.stem for p in folder.glob("*.json")) if folder.is_dir() else []
    return [record for name in names if (record := read_record(folder, name)) is not None]


def forget_record(folder: Path, name: str) -> None:
    """Delete the record of `name`, if it exists."""
    (folder / f"{name}.json").unlink(missing_ok=True)


def is_alive(record: ProcessRecord) -> bool:
    """Return whether the recorded process still runs, not just another one with its id."""
    return bool(record.birth) and birth_mark(record.pid) == record.birth


def wait_until_gone(record: ProcessRecord, *, within_s: float) -> bool:
    """Wait until the recorded process is gone. False when it outlives `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while is_alive(record):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def send_signal(record: ProcessRecord, number: int) -> bool:
    """Send a signal to the recorded process.

    False when it is gone or its id is another process's.
    """
    if not is_alive(record):
        return False
    try:
        os.kill(record.pid, number)
    except ProcessLookupError:
        return False
    return True
