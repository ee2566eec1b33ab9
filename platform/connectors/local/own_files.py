"""The folder and the output files that a job's author named, opened by the rank itself.

A rank enters its folder and opens its files with its own rights, inside its own view of the
machine. It writes to them directly, as under Slurm. A small process beside it, the follower, copies
what is added to the logs, which the portal shows. The follower hears no signal, and is no child of
the rank, which may wait for all of its children. It ends when the rank has ended and none of its
descendants can write to the file. Other jobs may write to it for longer.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import time
from collections.abc import Mapping

from batch.file_names import file_name
from connectors.local.processes import descendants
from connectors.protocol import JobFiles

_CHUNK_BYTES = 1 << 16
_POLL_S = 0.2
_DESCRIPTORS_MAX = 1024


class OwnFiles:
    """The folder and the files of one rank; None for the job's own folder, or the log alone."""

    def __init__(
        self, folder: str | None, output: str | None, error: str | None, *, appends: bool
    ) -> None:
        self.folder = folder
        self.output = output
        self.error = error
        self.appends = appends


def own_files(files: JobFiles, rank: int, node: str) -> OwnFiles:
    """Return the files of `rank`, which runs on `node`, by their names."""
    output, error = files.of_rank(rank)
    values = {**_values(files, rank), "N": node.partition(".")[0]}
    return OwnFiles(
        files.folder,
        None if output is None else file_name(output, values),
        None if error is None else file_name(error, values),
        appends=files.appends,
    )


def _values(files: JobFiles, rank: int) -> Mapping[str, str]:
    # The script is step `batch`, which %J leaves out.
    number = files.values.get("j", "")
    return {**files.values, "J": number, "n": str(rank), "s": "batch", "t": str(rank)}


def enter(own: OwnFiles) -> None:
    """Go to the folder, and let descriptors 1 and 2 write to the files instead of to the logs.

    The folder of the job must be the current one. Starts the followers. Raises OSError where the
    folder cannot be used. A file that cannot be used is told in the log, which has its text then.
    """
    if own.folder is not None:
        if not own.folder.startswith("/"):
            os.makedirs(own.folder, exist_ok=True)
        os.chdir(own.folder)
    followed: dict[int, int] = {}
    for descriptor in (1, 2):
        path = own.output if descriptor == 1 else own.error
        if path is None:
            continue
        if descriptor == 2 and path == own.output:
            os.dup2(1, 2)
            continue
        log = os.dup(descriptor)
        source = None
        try:
            source = _open(path, descriptor, appends=own.appends)
        except OSError as error:
            told = f"{refusal_text(error)}; the output is in the log alone\n"
            os.write(2, told.encode())
            # The same name fails for the errors, too.
            own.error = None if own.error == path else own.error
        if source is None:
            os.close(log)
        else:
            followed[source] = log
    for source, log in followed.items():
        _follow(source, log)
    for descriptor in (*followed, *followed.values()):
        os.close(descriptor)


def refusal_text(error: OSError) -> str:
    """Return what the log says of a folder or file that cannot be used."""
    return f"tidegate: cannot use {error.filename}: {error.strerror}"


def _open(path: str, descriptor: int, *, appends: bool) -> int | None:
    """Open `path` as `descriptor`, and return one to read what will be written; None for a device.

    Folders on the way are made: the folder of a job is new, so its author's folders are not there.
    """
    if folder := os.path.dirname(path):
        os.makedirs(folder, exist_ok=True)
    mode = os.O_APPEND if appends else os.O_APPEND | os.O_TRUNC
    # A pipe without a reader is refused. Otherwise its opening would never return.
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    opened = os.open(path, flags | mode, 0o666)
    os.set_blocking(opened, True)
    os.dup2(opened, descriptor)
    os.close(opened)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.lseek(source, 0, os.SEEK_END)
    return source


def _follow(source: int, log: int) -> None:
    """Start a follower, which copies what is added to `source` to `log`."""
    # In a view of its own, the rank does not see its keeper; process 1 there takes orphans.
    top = os.getppid() or 1
    leader = os.pidfd_open(os.getpid())
    starter = os.fork()
    if starter == 0:
        try:
            if os.fork() == 0:
                _become_follower(source, log, leader, top)
        finally:
            os._exit(0)
    os.waitpid(starter, 0)
    os.close(leader)


def _become_follower(source: int, log: int, leader: int, top: int) -> None:
    os.setsid()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    # One of the others tells the keeper that the rank has started, once all have closed it.
    for descriptor, kept in enumerate((source, log, leader)):
        os.dup2(kept, descriptor)
    os.closerange(3, _DESCRIPTORS_MAX)
    _copy(top)


def _copy(top: int) -> None:
    """Copy from descriptor 0 to 1, until the process of descriptor 2 and all writers have ended."""
    leader = select.poll()
    leader.register(2, select.POLLIN)
    while True:
        # Asked before the last look: what is written in between is still copied.
        is_over = bool(leader.poll(0)) and not _is_written_below(top)
        while chunk := os.read(0, _CHUNK_BYTES):
            view = memoryview(chunk)
            while view:
                view = view[os.write(1, view) :]
        if is_over:
            return
        time.sleep(_POLL_S)


def _is_written_below(top: int) -> bool:
    """Return whether a process below `top` can write to the file at descriptor 0."""
    found = os.fstat(0)
    for pid in descendants(top):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    other = os.stat(f"/proc/{pid}/fd/{name}")
                    is_same = (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino)
                    if is_same and _is_writable(pid, name):
                        return True
    return False


def _is_writable(pid: int, descriptor: str) -> bool:
    # Other followers read only, as does what shows the file.
    with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="ascii") as file:
        flags = next(line for line in file if line.startswith("flags:"))
    return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
