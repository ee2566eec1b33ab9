"""Clients of a web process, in a process of their own, as cheap as Python allows.

One thread, one socket per client, one `select` over all of them: about a tenth of a millisecond
of CPU per request, so that what is measured is the server. Read from standard input: JSON with
`port`, `clients`, `requests`, and `head` and `body` of the request; `{key}` in the head becomes a
fresh UUID each time. Written to standard output: JSON with `times_ms` (one per request, from the
first byte sent to the last byte read), `wall_s`, `cpu_s`, and `refused`, the first answer that
was neither 200 nor 201, if there was one.

    python tests/performance/http_clients.py < load.json
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from uuid import uuid4

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_TIMEOUT_S = 60


@dataclass
class Client:
    """One connection: what it has got of its answer so far, and when it asked."""

    connection: socket.socket
    asked_at: float = 0.0
    got: bytearray = field(default_factory=bytearray)
    wanted: int = -1

    def ask(self, request: bytes) -> None:
        """Send a request, forget the last answer."""
        self.got.clear()
        self.wanted = -1
        self.asked_at = time.perf_counter()
        self.connection.sendall(request)

    def read(self) -> bool:
        """Take what has come; whether that completes the answer."""
        part = self.connection.recv(1 << 20)
        if not part:
            raise ConnectionError("the server hung up")
        self.got += part
        if self.wanted < 0:
            end = self.got.find(b"\r\n\r\n")
            if end < 0:
                return False
            length = _LENGTH.search(self.got, 0, end)
            if length is None:
                raise ValueError(f"no Content-Length: {bytes(self.got[:end])!r}")
            self.wanted = end + 4 + int(length[1])
        return len(self.got) >= self.wanted


def main() -> None:
    """Load the server as standard input says."""
    wanted = json.load(sys.stdin)
    head = wanted["head"].replace("\n", "\r\n") + "\r\n\r\n"
    body = wanted["body"].encode()

    def request() -> bytes:
        return head.replace("{key}", str(uuid4())).encode() + body

    clients = [
        Client(socket.create_connection(("127.0.0.1", wanted["port"]), timeout=_TIMEOUT_S))
        for _ in range(wanted["clients"])
    ]
    refused = None
    times_ms: list[float] = []
    begin, begin_cpu = time.perf_counter(), time.process_time()
    with selectors.DefaultSelector() as selector:
        sent = 0
        for client in clients[: wanted["requests"]]:
            client.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(client.connection, selectors.EVENT_READ, client)
            client.ask(request())
            sent += 1
        while len(times_ms) < wanted["requests"] and refused is None:
            ready = selector.select(_TIMEOUT_S)
            if not ready:
                raise TimeoutError(f"no answer within {_TIMEOUT_S} s")
            for key, _ in ready:
                client = key.data
                if not client.read():
                    continue
                times_ms.append((time.perf_counter() - client.asked_at) * 1000)
                if client.got[9:12] not in (b"200", b"201"):
                    refused = client.got[:800].decode(errors="replace")
                if sent < wanted["requests"]:
                    client.ask(request())
                    sent += 1
    answer = {
        "times_ms": times_ms,
        "wall_s": time.perf_counter() - begin,
        "cpu_s": time.process_time() - begin_cpu,
        "refused": refused,
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
