"""A real HTTP server for tests of webhooks, which answers as a test says."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Received:
    """A request of the portal."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class HookServer:
    """Answers every POST with the same status and body; keeps the requests."""

    port: int = 0
    status: int = 200
    answer: bytes = b"ok"
    location: str = ""
    #: Of a server that sends a byte now and then until this is set, and never a whole answer.
    drips_until: threading.Event | None = None
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


def self_signed(folder: Path) -> ssl.SSLContext:
    """A context with a certificate of this machine that nobody else has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "server.pem"
    file.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@contextmanager
def a_dripping_server(greeting: bytes = b"") -> Iterator[int]:
    """A server that sends `greeting`, then a byte now and then. Yields its port."""
    stopped = threading.Event()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.wfile.write(greeting)
                while not stopped.wait(0.05):
                    self.wfile.write(b"x")

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            stopped.set()
            server.shutdown()
            thread.join()


@contextmanager
def a_hook_server(tls: ssl.SSLContext | None = None) -> Iterator[HookServer]:
    """A server on a free port of this machine."""
    hooks = HookServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            hooks.received.append(Received(self.path, headers, body))
            if hooks.drips_until is not None:
                with suppress(OSError):
                    while not hooks.drips_until.wait(0.05):
                        self.wfile.write(b"x")
                return
            self.send_response(hooks.status)
            if hooks.location:
                self.send_header("Location", hooks.location)
            self.send_header("Content-Length", str(len(hooks.answer)))
            self.end_headers()
            self.wfile.write(hooks.answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    hooks.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hooks
    finally:
        if hooks.drips_until is not None:
            hooks.drips_until.set()
        server.shutdown()
        server.server_close()
        thread.join()
