"""Starting, ending, freezing and finding the bed's own processes.

A process is known by its pid and the moment it began, so that a number that the system has given
to another one is never signalled.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

from kubebed.servers import Server
from kubebed.settings import HOST, SOURCE, BedError, Settings

_PAUSE_S = 0.05
_ANSWER_S = 2
_PORT_FREE_S = 10


def process_of(settings: Settings, name: str) -> int | None:
    """The pid that this bed started for server `name`, if that very process still runs."""
    try:
        pid, began = (settings.run / f"{name}.pid").read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if _began(int(pid)) == began else None


def launch(settings: Settings, server: Server) -> None:
    """Start a server; one that runs goes on, also when it was frozen.

    Raises BedError when its ports are another's.
    """
    if pid := process_of(settings, server.name):
        _signal(pid, signal.SIGCONT)
        return
    for port in server.ports:
        _wait_until_free(settings.port(port), server.name)
    with (settings.log / f"{server.name}.log").open("ab") as log:
        process = subprocess.Popen(
            server.command,
            cwd=settings.folder,
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    began = _began(process.pid) or "0"
    (settings.run / f"{server.name}.pid").write_text(f"{process.pid} {began}\n")
    process.returncode = 0  # it stays; nobody is to wait for it


def wait_for(settings: Settings, servers: Iterable[Server], within_s: int = 150) -> None:
    """Return once all of them say that they are ready. Raises BedError when one does not."""
    deadline = time.monotonic() + within_s
    for server in servers:
        while not answers(settings, server):
            look = f"see {settings.log / server.name}.log"
            if not process_of(settings, server.name):
                raise BedError(f"{server.name} ended by itself: {look}.")
            if time.monotonic() > deadline:
                raise BedError(f"{server.name} does not answer after {within_s} s: {look}.")
            time.sleep(_PAUSE_S)


def answers(settings: Settings, server: Server) -> bool:
    """Whether the server says that it is ready."""
    if server.ready_url.startswith("unix:"):
        return _listens(Path(server.ready_url.removeprefix("unix:")))
    tls = administrator_tls(settings) if server.ready_url.startswith("https:") else None
    try:
        with urllib.request.urlopen(  # noqa: S310 - an address of our own
            server.ready_url, timeout=_ANSWER_S, context=tls
        ) as response:
            return int(response.status) == 200
    except OSError:
        return False


def administrator_tls(settings: Settings) -> ssl.SSLContext:
    """How to speak to the bed's servers as its administrator."""
    return client_tls(settings, "admin")


def client_tls(settings: Settings, user: str) -> ssl.SSLContext:
    """How to speak to the bed's servers with the client certificate of `user`."""
    tls = ssl.create_default_context(cafile=str(settings.pki / "ca.crt"))
    tls.load_cert_chain(settings.pki / f"{user}.crt", settings.pki / f"{user}.key")
    return tls


def end(settings: Settings, name: str, how: signal.Signals = signal.SIGTERM) -> None:
    """End a server; one that does not obey within 5 s is killed."""
    pid = process_of(settings, name)
    if pid is None:
        return
    began = _began(pid)
    _signal(pid, signal.SIGCONT)
    _signal(pid, how)
    if not _is_gone(pid, began, within_s=5):
        _signal(pid, signal.SIGKILL)
        if not _is_gone(pid, began, within_s=10):
            raise BedError(f"{name} (process {pid}) cannot be killed.")
    (settings.run / f"{name}.pid").unlink(missing_ok=True)


def freeze(settings: Settings, name: str) -> None:
    """Let a server hang: its port stays open and nothing answers."""
    _signal_server(settings, name, signal.SIGSTOP)


def thaw(settings: Settings, name: str) -> None:
    """Let a frozen server go on."""
    _signal_server(settings, name, signal.SIGCONT)


def memory_mib(pid: int) -> int:
    """How much memory the process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_ANSWER_S)
        try:
            # Addresses of sockets are short, and the folder's may be long.
            folder = os.open(path.parent, os.O_PATH)
            try:
                probe.connect(f"/proc/self/fd/{folder}/{path.name}")
            finally:
                os.close(folder)
        except OSError:
            return False
        return True


def _signal_server(settings: Settings, name: str, how: signal.Signals) -> None:
    pid = process_of(settings, name)
    if pid is None:
        raise BedError(f"{name} does not run: `control.py run {name}` starts it.")
    _signal(pid, how)


def _signal(pid: int, how: signal.Signals) -> None:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return


def _began(pid: int) -> str | None:
    """When the process began, in the kernel's own count; None if there is none or it is over."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _is_gone(pid: int, began: str | None, within_s: int) -> bool:
    deadline = time.monotonic() + within_s
    while _began(pid) == began:
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _wait_until_free(port: int, name: str) -> None:
    # A killed API server keeps its port for a moment after it has left the process table.
    deadline = time.monotonic() + _PORT_FREE_S
    while not _is_free(port):
        if time.monotonic() > deadline:
            raise BedError(
                f"port {port}, which {name} needs, is taken by another program: end it, or set "
                "KUBE_BED_PORT to the first of 17 free ports and TIDEGATE_KUBE_BED to a new folder."
            )
        time.sleep(_PAUSE_S)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
