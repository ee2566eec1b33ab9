"""The container runtime: starts containers, writes down what they print, learns how they end.

Serves one UNIX socket with a JSON document a line. It asks nothing of the API server and outlives
the runner; when it ends, the kernel ends its containers. Requests carry `request`, which the answer
repeats:

    start   id, spec, folder   answered once the command runs or cannot: the container's state
    signal  id, number         to the container's main process
    list                       the state of every container
    forget  id                 one that has ended
    grown   id, size           answered when the log is longer than that, or the container over

When a container ends, every client is told {"ended": state}.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubebed.runner.isolation import CannotStart, ContainerSpec, Mount, adopt_orphans, spawn
from kubebed.runner.output import OutputFile

SOCKET = "run/runtime.sock"
LOG = "log"
TERMINATION = "termination"
TERMINATION_BYTES = 4096
STARTED = "started"
_PIECE_BYTES = 65536
_REQUEST_BYTES = 4 * 1024 * 1024
_Answer = dict[str, Any]


@dataclass(slots=True)
class _Client:
    link: socket.socket
    begun: bytes = b""
    unsent: bytes = b""


@dataclass(slots=True)
class _Container:
    id: str
    folder: Path
    pid: int = 0
    pid_file: int = -1
    output: int = -1
    told: int = -1
    log: OutputFile | None = None
    trouble: bytes = b""
    is_set_up: bool = False
    started_ns: int = 0
    ended_ns: int = 0
    status: int | None = None
    message: str = ""
    starters: list[tuple[_Client, object]] = field(default_factory=list)
    readers: list[tuple[_Client, object, int]] = field(default_factory=list)

    def state(self) -> _Answer:
        """What clients are told of it."""
        start_error = self.trouble.decode(errors="replace")
        return {
            "id": self.id,
            "is_over": self.status is not None,
            "started_s": self.started_ns // 10**9,
            "ended_s": self.ended_ns // 10**9,
            "exit_code": 128 if start_error else _exit_code(self.status),
            "start_error": start_error,
            "message": self.message,
        }


class Runtime:
    """The server: one thread, which waits for sockets, pipes and processes at once."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._clients: list[_Client] = []
        self._containers: dict[str, _Container] = {}
        self._is_ending = False

    def serve(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        adopt_orphans()
        self._watch(wake_read, lambda: os.read(wake_read, 64))
        listener = socket.socket(socket.AF_UNIX)
        Path(SOCKET).unlink(missing_ok=True)
        listener.bind(SOCKET)
        listener.listen()
        self._watch(listener.fileno(), lambda: self._accept(listener))
        while not self._is_ending:
            for key, _ in self._selector.select():
                # One event may have ended what another is about.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
        for container in self._containers.values():
            self._signal(container, signal.SIGKILL)

    def _end(self, number: int, frame: object) -> None:
        self._is_ending = True

    def _watch(self, file: int, act: Callable[[], object]) -> None:
        self._selector.register(file, selectors.EVENT_READ, act)

    def _unwatch(self, file: int) -> None:
        self._selector.unregister(file)
        os.close(file)

    def _accept(self, listener: socket.socket) -> None:
        link, _ = listener.accept()
        link.setblocking(False)
        client = _Client(link)
        self._clients.append(client)
        self._selector.register(link, selectors.EVENT_READ, lambda: self._read(client))

    def _read(self, client: _Client) -> None:
        try:
            piece = client.link.recv(_PIECE_BYTES)
        except BlockingIOError:
            piece = None
        except OSError:
            piece = b""
        if piece == b"" or len(client.begun) > _REQUEST_BYTES:
            self._drop(client)
            return
        *lines, client.begun = (client.begun + (piece or b"")).split(b"\n")
        for line in lines:
            self._handle(client, json.loads(line))
        self._send(client, b"")

    def _drop(self, client: _Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._selector.unregister(client.link)
            client.link.close()
        for container in self._containers.values():
            container.starters = [one for one in container.starters if one[0] is not client]
            container.readers = [one for one in container.readers if one[0] is not client]

    def _send(self, client: _Client, data: bytes) -> None:
        client.unsent += data
        try:
            sent = client.link.send(client.unsent) if client.unsent else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(client)
            return
        client.unsent = client.unsent[sent:]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        self._selector.modify(client.link, wanted, self._selector.get_key(client.link).data)

    def _answer(self, client: _Client, request: object, told: object) -> None:
        document = {"request": request, "answer": told}
        if client in self._clients:
            self._send(client, json.dumps(document).encode() + b"\n")

    def _handle(self, client: _Client, asked: _Answer) -> None:
        request = asked["request"]
        container = self._containers.get(asked.get("id", ""))
        match asked["do"]:
            case "list":
                states = [one.state() for one in self._containers.values()]
                self._answer(client, request, states)
            case "start":
                self._start(client, asked, container)
            case "signal" if container:
                self._answer(client, request, self._signal(container, asked["number"]))
            case "forget" if container and container.status is not None:
                del self._containers[container.id]
                self._answer(client, request, True)
            case "grown" if container and container.status is None:
                container.readers.append((client, request, asked["size"]))
                self._tell_readers(container)
            case _:
                self._answer(client, request, False)

    def _start(self, client: _Client, asked: _Answer, container: _Container | None) -> None:
        if container and container.is_set_up:
            self._answer(client, asked["request"], container.state())
            return
        if container is None:
            container = _Container(asked["id"], Path(asked["folder"]))
            self._containers[container.id] = container
            self._begin(container, asked["spec"])
        container.starters.append((client, asked["request"]))
        if container.status is not None:
            self._tell_starters(container)

    def _begin(self, container: _Container, told: _Answer) -> None:
        spec = ContainerSpec(**(told | {"mounts": [Mount(**one) for one in told["mounts"]]}))
        output_read, output_write = os.pipe()
        container.started_ns = time.time_ns()
        (container.folder / STARTED).touch()
        try:
            spawned = spawn(spec, output_write)
        except (CannotStart, OSError) as error:
            os.close(output_read)
            container.trouble = str(error).encode()
            self._is_over(container, 128 << 8)
            return
        finally:
            os.close(output_write)
        container.pid = spawned.pid
        container.pid_file = os.pidfd_open(spawned.pid)
        container.output = output_read
        container.log = OutputFile(container.folder / LOG)
        container.told = spawned.told
        self._watch(spawned.told, lambda: self._hear(container))
        self._watch(output_read, lambda: self._take_output(container))
        self._watch(container.pid_file, lambda: self._reap(container))

    def _hear(self, container: _Container) -> None:
        """The set-up pipe: closed when the command runs; before that it says why it cannot."""
        if piece := os.read(container.told, _PIECE_BYTES):
            container.trouble += piece
            return
        self._unwatch(container.told)
        container.told = -1
        if not container.trouble:
            container.is_set_up = True
            self._tell_starters(container)

    def _take_output(self, container: _Container) -> None:
        piece = os.read(container.output, _PIECE_BYTES)
        if piece and container.log:
            container.log.take(piece)
            self._tell_readers(container)
        elif not piece:
            self._unwatch(container.output)
            container.output = -1

    def _reap(self, container: _Container) -> None:
        pid, status = os.waitpid(container.pid, os.WNOHANG)
        if pid == 0:
            return
        self._unwatch(container.pid_file)
        # All its processes are over, and what they have said is in the pipes.
        while container.told >= 0:
            self._hear(container)
        while container.output >= 0:
            self._take_output(container)
        if container.log:
            container.log.close()
        self._is_over(container, status)

    def _is_over(self, container: _Container, status: int) -> None:
        container.status = status
        container.ended_ns = time.time_ns()
        container.is_set_up = True
        container.message = _read_message(container.folder / TERMINATION)
        self._tell_starters(container)
        self._tell_readers(container)
        news = json.dumps({"ended": container.state()}).encode() + b"\n"
        for client in list(self._clients):
            self._send(client, news)

    def _tell_starters(self, container: _Container) -> None:
        starters, container.starters = container.starters, []
        for client, request in starters:
            self._answer(client, request, container.state())

    def _tell_readers(self, container: _Container) -> None:
        if not container.readers:
            return
        size = (container.folder / LOG).stat().st_size
        is_over = container.status is not None
        ready = [one for one in container.readers if is_over or size > one[2]]
        container.readers = [one for one in container.readers if one not in ready]
        for client, request, _ in ready:
            self._answer(client, request, not is_over)

    def _signal(self, container: _Container, number: int) -> bool:
        if container.status is not None or container.pid_file < 0:
            return False
        try:
            signal.pidfd_send_signal(container.pid_file, number)
        except ProcessLookupError:
            return False
        return True


def _exit_code(status: int | None) -> int:
    if status is None:
        return 0
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _read_message(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(TERMINATION_BYTES).decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    Runtime().serve()
