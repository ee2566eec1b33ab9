"""A rank's own view of the machine: user, mount, PID and IPC namespaces, and their contents.

The view is an empty root. Only what a job needs is mounted into it: the system's programs read
only, the folders that its cluster lists, its work folder and home, a private `/tmp` and `/dev`, and
a `/proc` of its own processes. The portal's folders and other jobs are never part of it. The
network is the machine's, so ranks find each other on loopback.

The process that enters the namespaces (the builder) starts two children and ends. The first is
process 1 in the namespace: it reaps orphans and dies with its keeper, which ends everything left.
The second becomes the rank. Both are then children of the keeper, a subreaper, which waits for them
as for any rank.

A view has mounts below folders that other ranks of the job can write meanwhile: `/tmp`, and the
folders that an administrator lists. An attacker could redirect a path there with a symbolic link.
So every step of a path is opened from the folder before it, and mounts go onto the opened folder
(`_place`).

Like the supervisor, this module uses small parts of the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import stat
from collections.abc import Callable, Mapping, Sequence

from connectors.local.attempt_files import CorruptRecord, text

_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
#: Flags to keep when a mount is remounted: from their values in statvfs(3) to those in mount(2).
_KEPT_FLAGS = {1: 1, 2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
_MNT_DETACH = 2
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38

_TMPFS = "mode=0755,size=1m,nr_inodes=4k"
_SHARED_MEMORY = "mode=1777,size=25%"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
#: Devices for computing. Their own modes decide which of them a job may open.
_GPU_DEVICES = ("nvidia", "dri", "kfd", "infiniband")
_LINKS = {
    "dev/ptmx": "pts/ptmx",
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
    "var/run": "/run",
}
#: Of `/run`, which has the sockets of services, jobs see only these and the file of the resolver.
_RUN = ("/run/nvidia-persistenced",)

_libc = ctypes.CDLL(None, use_errno=True)


class Sandbox:
    """The contents of a rank's view. All paths are real ones, without symbolic links.

    `stage` is an empty folder on which the view is built. `tmp` appears as `/tmp`, and the file
    `hosts`, if there is one, as `/etc/hosts`. `read_only` and
    `writable` appear under their own names. `hidden` is covered where it would be visible through
    them. Finally `own`, the attempt's folders, appear.
    """

    def __init__(
        self,
        *,
        stage: str,
        needs_user_namespace: bool,
        read_only: Sequence[str],
        writable: Sequence[str],
        hidden: Sequence[str],
        own: Sequence[str],
        tmp: str,
        hosts: str = "",
    ) -> None:
        self.stage = stage
        self.needs_user_namespace = needs_user_namespace
        self.read_only = tuple(read_only)
        self.writable = tuple(writable)
        self.hidden = tuple(hidden)
        self.own = tuple(own)
        self.tmp = tmp
        self.hosts = hosts

    def to_json(self) -> dict[str, object]:
        """Return the record that `read_sandbox` reads."""
        return {
            "stage": self.stage,
            "needs_user_namespace": self.needs_user_namespace,
            "read_only": list(self.read_only),
            "writable": list(self.writable),
            "hidden": list(self.hidden),
            "own": list(self.own),
            "tmp": self.tmp,
            "hosts": self.hosts,
        }


def read_sandbox(record: Mapping[str, object]) -> Sandbox:
    """Read the sandbox of `to_json`. Raises CorruptRecord."""
    return Sandbox(
        stage=text(record, "stage"),
        needs_user_namespace=record.get("needs_user_namespace") is True,
        read_only=_paths(record, "read_only"),
        writable=_paths(record, "writable"),
        hidden=_paths(record, "hidden"),
        own=_paths(record, "own"),
        tmp=text(record, "tmp"),
        # Records of earlier versions have none.
        hosts=text(record, "hosts") if record.get("hosts") else "",
    )


def _paths(record: Mapping[str, object], name: str) -> list[str]:
    value = record.get(name)
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        raise CorruptRecord(f"{name} is {value!r}, not a list of paths")
    return value


class Inhabitant:
    """The first process of a rank, `pid` as seen by the machine.

    In a sandbox, `leash` controls the sandbox's reaper. `problem` says why there is no such
    process; then `pid` is 0.
    """

    def __init__(self, pid: int, leash: int | None = None, problem: str = "") -> None:
        self.pid = pid
        self.problem = problem
        self._leash = leash

    def let_go(self) -> None:
        """Tell the reaper that the process has ended, so that it ends after the last descendant."""
        if self._leash is not None:
            with contextlib.suppress(OSError):
                os.write(self._leash, b"x")

    def end(self) -> None:
        """End the reaper now, and with it every process left in the sandbox."""
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None


def spawn(
    sandbox: Sandbox, become: Callable[[], None], *, before: Callable[[], None]
) -> Inhabitant:
    """Start a process in `sandbox` that calls `become`, which must not return.

    The builder calls `before` while it still sees the machine. The caller is a subreaper, and
    single-threaded. Its other descriptors are closed in the reaper. Raises OSError when it cannot
    fork.
    """
    told, telling = os.pipe()
    leash_end, leash = os.pipe()
    builder = os.fork()
    if builder == 0:
        try:
            os.close(told)
            os.close(leash)
            before()
            pid = _build(sandbox, leash_end, become)
            os.write(telling, str(pid).encode())
        except BaseException as error:  # reported through the pipe
            os.write(telling, f"no sandbox: {error}".encode()[:1000])
        finally:
            os._exit(0)
    os.close(telling)
    os.close(leash_end)
    with open(told, "rb") as pipe:
        words = pipe.read().decode(errors="replace")
    os.waitpid(builder, 0)
    if words.isdigit():
        return Inhabitant(int(words), leash)
    return Inhabitant(0, leash, words or "no sandbox: its builder was killed")


def forbid_new_privileges() -> None:
    """Keep every later program of this process from gaining rights (set-user-ID, capabilities)."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")


def _build(sandbox: Sandbox, leash_end: int, become: Callable[[], None]) -> int:
    """Enter the namespaces, build the view, start reaper and rank. Return the rank's pid."""
    flags = _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC
    if sandbox.needs_user_namespace:
        uid, gid = os.geteuid(), os.getegid()
        _check(_libc.unshare(flags | _CLONE_NEWUSER), "unshare")
        # Without this, only root may write the group map.
        for name, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(line)
    else:
        _check(_libc.unshare(flags), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    _show(sandbox)
    reaper = _start_reaper(sandbox.stage, leash_end)
    try:
        os.chdir(sandbox.stage)
        _check(_libc.pivot_root(b".", b"."), "pivot_root")
        # The old root now covers the new one.
        _check(_libc.umount2(b".", _MNT_DETACH), "umount2")
        os.chdir("/")
        pid = os.fork()
    except OSError:
        os.kill(reaper, signal.SIGKILL)
        raise
    if pid == 0:
        os.close(leash_end)
        try:
            become()
        finally:
            os._exit(127)
    return pid


def _show(sandbox: Sandbox) -> None:
    """Build the view on its stage."""
    stage = sandbox.stage
    os.umask(0o022)  # the job's user passes through the folders that are made here
    _mount("tmpfs", stage, "tmpfs", _MS_NOSUID | _MS_NODEV, _TMPFS)
    for path in ("/tmp", "/var/tmp"):  # noqa: S108 - the attempt's own
        # Mounted first, because other paths may lie below it.
        _bind(sandbox.tmp, stage, path)
    for path in sandbox.read_only:
        if os.path.islink(path):
            _link(os.readlink(path), stage, path)
        else:
            _bind(path, stage, path, is_read_only=True)
    if sandbox.hosts and os.path.exists("/etc/hosts"):
        _bind(sandbox.hosts, stage, "/etc/hosts", is_read_only=True)
    for path in sandbox.writable:
        _bind(path, stage, path)
    for folder in ("dev", "dev/pts", "dev/shm", "proc", "run", "sys"):
        os.makedirs(f"{stage}/{folder}", exist_ok=True)
    _bind("/sys", stage, "/sys", is_read_only=True)
    covered = [path for path in ("/sys/fs/cgroup", *sandbox.hidden) if _cover(path, stage)]
    for name in _DEVICES:
        _bind(f"/dev/{name}", stage, f"/dev/{name}", may_be_devices=True)
    for name in os.listdir("/dev"):
        if name.startswith(_GPU_DEVICES):
            _bind(f"/dev/{name}", stage, f"/dev/{name}", may_be_devices=True)
    flags = _MS_NOSUID | _MS_NODEV
    _mount("tmpfs", f"{stage}/dev/shm", "tmpfs", flags, _SHARED_MEMORY)  # noqa: S108
    flags = _MS_NOSUID | _MS_NOEXEC
    _mount("devpts", f"{stage}/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620")
    resolver = os.path.realpath("/etc/resolv.conf")
    for path in (*_RUN, resolver):
        if path.startswith("/run/") and os.path.exists(path):
            _bind(path, stage, path, is_read_only=True)
    for name, target in _LINKS.items():
        with contextlib.suppress(FileExistsError):
            os.symlink(target, f"{stage}/{name}")
    for path in sandbox.own:
        _bind(path, stage, path)
    # The view becomes read only without its mounts: jobs write only to their own folders.
    flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV
    for path in ("", *covered):
        with _place(stage, path) as place:
            _mount("none", place.path, None, flags)


def _start_reaper(stage: str, leash_end: int) -> int:
    """Start process 1 of the new PID namespace, which mounts `/proc`. Return its outer number."""
    ready, saying = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            # No process of the sandbox may inspect it: it holds memory of the supervisor.
            _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "PR_SET_DUMPABLE")
            flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
            _mount("proc", f"{stage}/proc", "proc", flags)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans
            os.write(saying, b"!")
            _keep_reaping(leash_end)
        except BaseException as error:
            os.write(saying, f"cannot mount /proc: {error}".encode()[:500])
        finally:
            os._exit(0)
    os.close(saying)
    with open(ready, "rb", buffering=0) as pipe:
        word = pipe.read(500)
    if word != b"!":
        os.waitpid(pid, 0)
        raise OSError(word.decode(errors="replace") or "process 1 was killed")
    return pid


def _keep_reaping(leash_end: int) -> None:
    if leash_end != 3:
        os.dup2(leash_end, 3)
    os.closerange(4, 1024)
    if os.read(3, 1) == b"":
        return  # the keeper is gone, and with process 1 goes all that is left in here
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


class _Place:
    """A file or folder of the view that was opened without following a symbolic link."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> _Place:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    @property
    def path(self) -> str:
        """A name that leads to it, whatever is renamed meanwhile."""
        return f"/proc/self/fd/{self._descriptor}"

    @property
    def flags(self) -> int:
        """The flags of its mount, as mount(2) takes them."""
        kept = os.fstatvfs(self._descriptor).f_flag
        return sum(flag for bit, flag in _KEPT_FLAGS.items() if kept & bit)


def _place(stage: str, path: str, *, makes: str = "") -> _Place:
    """Open `path` of the view. `makes` ("folder" or "file") creates what is missing.

    Raises OSError where it is missing, or where a symbolic link is on the way.
    """
    place = os.open(stage, os.O_PATH | os.O_DIRECTORY)
    *above, last = path.split("/")
    for name in above:
        if name:
            place = _step(place, name, makes="folder" if makes else "")
    return _Place(_step(place, last, makes=makes) if last else place)


def _step(folder: int, name: str, *, makes: str) -> int:
    """Open `name` in `folder`, and close `folder`."""
    try:
        try:
            found = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
        except FileNotFoundError:
            # Ranks of a job share `/tmp`, so another one may create it at the same moment.
            with contextlib.suppress(FileExistsError):
                if makes == "folder":
                    os.mkdir(name, 0o755, dir_fd=folder)
                elif makes == "file":
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                    os.close(os.open(name, flags, 0o444, dir_fd=folder))
                else:
                    raise
            found = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
    if stat.S_ISLNK(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.ELOOP, "a symbolic link is in the way of the sandbox", name)
    return found


def _bind(
    source: str, stage: str, path: str, *, is_read_only: bool = False, may_be_devices: bool = False
) -> None:
    """Show `source` at `path` of the view too; a missing source is left out."""
    if not os.path.exists(source):
        return
    with _place(stage, path, makes="folder" if os.path.isdir(source) else "file") as place:
        _mount(source, place.path, None, _MS_BIND | _MS_REC)
    flags = _MS_NOSUID | (0 if may_be_devices else _MS_NODEV)
    flags |= _MS_RDONLY if is_read_only else 0
    # Opened again, to get the new mount: only a mount can be remounted.
    with _place(stage, path) as place:
        _mount("none", place.path, None, _MS_REMOUNT | _MS_BIND | flags | place.flags)


def _cover(path: str, stage: str) -> bool:
    """Cover `path` with something empty, where it is visible. Return whether it is a folder."""
    if os.path.isdir(path):
        # Covered even if it was not visible: folders created for `own` are then in here, not
        # writable.
        with _place(stage, path, makes="folder") as place:
            _mount("tmpfs", place.path, "tmpfs", _MS_NOSUID | _MS_NODEV, _TMPFS)
        return True
    with contextlib.suppress(FileNotFoundError), _place(stage, path) as place:
        _mount("/dev/null", place.path, None, _MS_BIND)
    return False


def _link(target: str, stage: str, path: str) -> None:
    """Make a symbolic link at `path` of the view."""
    above, _, name = path.rpartition("/")
    folder = _place(stage, above, makes="folder")
    with folder:
        os.symlink(target, f"{folder.path}/{name}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    done = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(done, f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
