"""Which process is which: a record per process we started, and never a signal to anybody else.

A process id alone is not an identity, because the kernel uses it again. A record keeps the id and
the birth mark of the process; a signal is sent only while both still agree.
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
    """One process that we started. `birth` is what `birth_mark` said right after its start."""

    name: str
    pid: int
    birth: str
    stop_signal: int = signal.SIGTERM


def birth_mark(pid: int) -> str | None:
    """A string that no other process with this id ever had, or None when there is no such process.

    On Linux the boot id and the start time in ticks since boot: neither moves when somebody sets
    the clock. Elsewhere the start time that the system reports. A zombie counts as gone.
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
    """The record of a process that has just been started.

    A process that is gone already gets an empty birth mark, which matches nothing.
    """
    return ProcessRecord(name, pid, birth_mark(pid) or "", stop_signal)


def write_record(folder: Path, record: ProcessRecord) -> None:
    """Keep `record` as `<folder>/<name>.json`; the file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{record.name}.json"
    draft = folder / f".{record.name}.json.{os.getpid()}"
    draft.write_text(json.dumps(asdict(record)) + "\n", encoding="utf-8")
    draft.replace(target)


def read_record(folder: Path, name: str) -> ProcessRecord | None:
    """The record kept under `name`, or None when there is none or it cannot be read."""
    try:
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        return ProcessRecord(
            str(found["name"]), int(found["pid"]), str(found["birth"]), int(found["stop_signal"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_records(folder: Path) -> list[ProcessRecord]:
    """Every readable record in `folder`, by name."""
    names = sorted(p.stem for p in folder.glob("*.json")) if folder.is_dir() else []
    return [record for name in names if (record := read_record(folder, name)) is not None]


def forget_record(folder: Path, name: str) -> None:
    """Remove the record of `name`; nothing happens when there is none."""
    (folder / f"{name}.json").unlink(missing_ok=True)


def is_alive(record: ProcessRecord) -> bool:
    """Whether the very process of the record still runs, not merely one with its id."""
    return bool(record.birth) and birth_mark(record.pid) == record.birth


def wait_until_gone(record: ProcessRecord, *, within_s: float) -> bool:
    """Wait until the process of the record is gone; False when it outlives `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while is_alive(record):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def send_signal(record: ProcessRecord, number: int) -> bool:
    """Signal the process of the record; False when it is gone or its id belongs to another."""
    if not is_alive(record):
        return False
    try:
        os.kill(record.pid, number)
    except ProcessLookupError:
        return False
    return True
