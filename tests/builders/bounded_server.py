"""The web process's server in a thread, with the bounds of production, and raw clients of it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from embedded.services import web_command

WITHIN_S = 30


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def problem(self) -> dict[str, Any]:
        """The body of a refusal."""
        assert self.headers["content-type"] == "application/problem+json"
        found: dict[str, Any] = json.loads(self.body)
        assert found["status"] == self.status
        return found


class RawClient:
    """One connection that sends what it is told, byte by byte."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._reader = connection.makefile("rb")

    def send(self, data: bytes | str) -> RawClient:
        """Send `data` as it is."""
        self.connection.sendall(data.encode() if isinstance(data, str) else data)
        return self

    def ask(self, path: str = "/healthz", *headers: str) -> RawClient:
        """Send a whole request without a body."""
        return self.send("\r\n".join([f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]))

    def begin(self, *headers: str, path: str = "/api/v1/jobs") -> RawClient:
        """Send the headers of a request with a body."""
        return self.send(
            "\r\n".join([f"POST {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""])
        )

    def answer(self) -> Answer:
        """Wait for one answer."""
        first = self._reader.readline()
        assert first.startswith(b"HTTP/1.1 "), first
        headers = {}
        while line := self._reader.readline().strip():
            name, _, value = line.decode("latin1").partition(": ")
            headers[name.lower()] = value
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self._reader.readline(), 16):
                body += self._reader.read(size)
                self._reader.readline()
            self._reader.readline()
        else:
            body = self._reader.read(int(headers.get("content-length", "0")))
        return Answer(int(first[9:12]), headers, body)

    def rest(self) -> bytes:
        """Wait until the server closes; what it sent until then."""
        try:
            return self._reader.read()
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()
        self.connection.close()


@dataclass
class BoundedServer:
    """A running server."""

    port: int
    clients: list[RawClient]

    def client(self) -> RawClient:
        """A new connection."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN_S)
        self.clients.append(RawClient(connection))
        return self.clients[-1]


@contextmanager
def a_bounded_server(application: Any) -> Iterator[BoundedServer]:
    """Serve `application` as a worker of `make up` does: its protocol and its loop."""
    options = dict(zip(web_command(0), web_command(0)[1:], strict=False))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    # Whoever connects before the server runs waits in this queue.
    listener.listen(128)
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            http=options["--http"],
            loop=options["--loop"],
            ws_max_size=int(options["--ws-max-size"]),
            proxy_headers=False,
            server_header=False,
            log_level="critical",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    found = BoundedServer(listener.getsockname()[1], [])
    try:
        yield found
    finally:
        for client in found.clients:
            client.close()
        server.should_exit = True
        thread.join(WITHIN_S)
        listener.close()
    assert not thread.is_alive()
