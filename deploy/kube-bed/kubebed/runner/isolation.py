"""Starts one container: a process with files, a process table and a host name of its own.

The container sees this machine's files, with its own /dev, /proc and /run, its volumes, and nothing
that it creates beside them in the root. Its main process is number 1 in its process namespace: it
gets no signal that it has no handler for, except SIGKILL from outside, and when it ends the kernel
ends whatever it has left behind.

As root, `user_id` and `group_id` are taken on. A plain user gets a user namespace in which they
stand for himself.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_MS_RDONLY = 0x1
_MS_KEPT = 0x2 | 0x4 | 0x8 | 0x400  # nosuid, nodev, noexec, noatime: may be locked by the kernel
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_OWN = {"dev", "proc", "run"}
_MESSAGE_BYTES = 4096
_libc = ctypes.CDLL(None, use_errno=True)


class CannotStart(Exception):
    """The container's command cannot be started; the text is what a kubelet would say."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of this machine at a place in the container."""

    source: str
    target: str
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """All that is needed to start a container."""

    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: str
    host_name: str
    mounts: Sequence[Mount]
    root_folder: str
    user_id: int
    group_id: int
    groups: Sequence[int]
    has_new_privileges: bool


@dataclass(frozen=True, slots=True)
class Spawned:
    """A container that is being set up; `told` ends when its command runs, or says why not."""

    pid: int
    told: int


def adopt_orphans() -> None:
    """Make this process the parent of the containers that it starts."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def can_isolate() -> bool:
    """Whether the kernel lets this user make the namespaces that a container needs."""
    pid = os.fork()
    if pid == 0:
        try:
            _enter_namespaces(user_id=1, group_id=1)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def spawn(spec: ContainerSpec, output: int) -> Spawned:
    """Start a container that prints to `output`. Raises CannotStart where it cannot be made."""
    told_read, told_write = os.pipe()
    pid_read, pid_write = os.pipe()
    go_read, go_write = os.pipe()
    helper = os.fork()
    if helper == 0:
        _help(spec, output, told_write, pid_write, go_read, (told_read, pid_read, go_write))
    os.close(told_write)
    os.close(pid_write)
    os.close(go_read)
    with os.fdopen(pid_read, "rb") as file:
        said = file.read()
    # Only when it is over is the runtime the parent: the end of a parent kills the container, and a
    # parent that ends closes its files first.
    os.waitpid(helper, 0)
    with contextlib.suppress(BrokenPipeError), os.fdopen(go_write, "wb", 0) as file:
        if said.isdigit():
            file.write(b"!")
    if not said.isdigit():
        os.close(told_read)
        raise CannotStart(said.decode(errors="replace") or "the container's helper ended")
    return Spawned(int(said), told_read)


def _help(
    spec: ContainerSpec, output: int, told: int, answer: int, go: int, foreign: tuple[int, ...]
) -> NoReturn:
    """Enter new namespaces and start process 1 in them; then end, so that it is the runtime's."""
    try:
        for number in foreign:
            os.close(number)
        _enter_namespaces(spec.user_id, spec.group_id)
        pid = os.fork()
        if pid == 0:
            os.close(answer)
            if os.read(go, 1) != b"!":
                os._exit(128)  # there is no runtime any more
            _become_container(spec, output, told)
        os.write(answer, str(pid).encode())
    except OSError as error:
        os.write(answer, f"no container can be made on this machine: {error}".encode())
    os._exit(0)


def _enter_namespaces(user_id: int, group_id: int) -> None:
    kinds = _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWUTS | _CLONE_NEWIPC
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _check(_libc.unshare(kinds), "unshare")
        return
    _check(_libc.unshare(kinds | _CLONE_NEWUSER), "unshare")
    for file, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user_id} {user} 1"),
        ("gid_map", f"{group_id} {group} 1"),
    ):
        with open(f"/proc/self/{file}", "w") as opened:
            opened.write(text)


def _become_container(spec: ContainerSpec, output: int, told: int) -> NoReturn:
    try:
        os.setsid()
        _take_standard_streams(output)
        _View(spec).enter()
        socket.sethostname(spec.host_name)
        _drop_rights(spec)
        # What ignored signals here, as nohup does, is nothing to a container.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.umask(0o022)
        os.execvpe(spec.command[0], list(spec.command), dict(spec.environment))  # noqa: S606
    except OSError as error:
        os.write(told, _as_kubelet_says(spec, error).encode()[:_MESSAGE_BYTES])
    except CannotStart as error:
        os.write(told, str(error).encode()[:_MESSAGE_BYTES])
    os._exit(128)


def _take_standard_streams(output: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _drop_rights(spec: ContainerSpec) -> None:
    if os.geteuid() == 0 and os.getuid() == 0 and spec.user_id != 0:
        os.setgroups(list(spec.groups))
        os.setresgid(spec.group_id, spec.group_id, spec.group_id)
        os.setresuid(spec.user_id, spec.user_id, spec.user_id)
    if not spec.has_new_privileges:
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    # The last: a change of rights takes it back.
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def _as_kubelet_says(spec: ContainerSpec, error: OSError) -> str:
    name = spec.command[0]
    if error.errno == errno.ENOENT and "/" not in name:
        return f'exec: "{name}": executable file not found in $PATH'
    why = (error.strerror or str(error)).lower()
    return f'exec: "{error.filename or name}": {why}'


class _View:
    """The container's view of the file system, made inside its mount namespace."""

    def __init__(self, spec: ContainerSpec) -> None:
        self._spec = spec
        self._root = spec.root_folder
        self._own_devices: set[int] = set()
        self._volumes: list[str] = []

    def enter(self) -> None:
        """Make the view and go into it. Raises OSError or CannotStart."""
        _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
        # Opened before anything is hidden, and reached through /proc afterwards.
        sources = [os.open(mount.source, os.O_PATH) for mount in self._spec.mounts]
        self._fresh(self._root, "755")
        for name in os.listdir("/"):
            if name not in _OWN:
                _show(f"/{name}", f"{self._root}/{name}")
        self._make_own()
        os.chroot(self._root)
        os.chdir("/")
        in_order = sorted(
            zip(self._spec.mounts, sources, strict=True), key=lambda pair: pair[0].target
        )
        for mount, source in in_order:
            self._attach(mount, source)
        folder = self._spec.working_directory
        self._make_folder(folder)
        os.chdir(folder)

    def _make_own(self) -> None:
        for name in _OWN:
            os.mkdir(f"{self._root}/{name}")
        try:
            _mount("proc", f"{self._root}/proc", "proc", 0)
        except PermissionError:  # where parts of it are hidden, as in some containers
            _mount("/proc", f"{self._root}/proc", None, _MS_BIND | _MS_REC)
        self._fresh(f"{self._root}/run", "755")
        dev = f"{self._root}/dev"
        self._fresh(dev, "755")
        for name in _DEVICES:
            _show(f"/dev/{name}", f"{dev}/{name}")
        os.mkdir(f"{dev}/shm")
        self._fresh(f"{dev}/shm", "1777")
        os.symlink("/proc/self/fd", f"{dev}/fd")
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.symlink(f"/proc/self/fd/{number}", f"{dev}/{name}")

    def _fresh(self, folder: str, mode: str) -> None:
        _mount("tmpfs", folder, "tmpfs", 0, f"mode={mode}")
        self._own_devices.add(os.stat(folder).st_dev)

    def _attach(self, mount: Mount, source: int) -> None:
        shown = f"/proc/self/fd/{source}"
        if os.path.isdir(shown):
            self._make_folder(mount.target)
        else:
            self._make_file(mount.target)
        _mount(shown, mount.target, None, _MS_BIND | _MS_REC)
        if mount.is_read_only:
            kept = os.statvfs(mount.target).f_flag & _MS_KEPT
            _mount(None, mount.target, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)
        os.close(source)
        self._volumes.append(os.path.realpath(mount.target))

    def _make_folder(self, path: str) -> None:
        path = os.path.realpath(path)
        if os.path.isdir(path):
            return
        self._make_folder(os.path.dirname(path))
        self._open_up(os.path.dirname(path))
        os.mkdir(path, 0o755)

    def _make_file(self, path: str) -> None:
        path = os.path.realpath(path)
        if os.path.exists(path):
            return
        self._make_folder(os.path.dirname(path))
        self._open_up(os.path.dirname(path))
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))

    def _open_up(self, folder: str) -> None:
        """Let entries be added to a folder of this machine for the container alone."""
        if os.stat(folder).st_dev in self._own_devices or any(
            folder == one or folder.startswith(f"{one}/") for one in self._volumes
        ):
            return
        hidden = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        names = os.listdir(folder)
        self._fresh(folder, "755")
        for name in names:
            _show(f"/proc/self/fd/{hidden}/{name}", f"{folder}/{name}")
        os.close(hidden)


def _show(source: str, target: str) -> None:
    """The same entry at another place: a link as a link, anything else bound."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    try:
        if os.path.isdir(source):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        _mount(source, target, None, _MS_BIND | _MS_REC)
    except FileNotFoundError:  # it has gone meanwhile
        return


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    if _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
