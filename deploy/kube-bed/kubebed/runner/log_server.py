"""The kubelet's port: logs of Pods, which the API server asks for.

A followed log ends when the container is over, as on a real kubelet. Pods that are not real are
asked of kwok, which has the port of its own.
"""

from __future__ import annotations

import http.client
import logging
import re
import select
import ssl
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kubebed.processes import client_tls
from kubebed.runner.logs import BadOption, LogReader, read_options
from kubebed.runner.pods import Handled, Pods, log_file
from kubebed.settings import HOST, Settings

_PATH = re.compile(r"/containerLogs/([^/]+)/([^/]+)/([^/]+)")
_PIECE_BYTES = 65536
_LOOK_S = 5
_LINK_S = 600
log = logging.getLogger(__name__)


class LogServer(ThreadingHTTPServer):
    """Serves whoever shows a certificate of the bed's authority."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, settings: Settings, pods: Pods) -> None:
        self.settings = settings
        self.pods = pods
        self._tls = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=str(settings.pki / "ca.crt")
        )
        self._tls.verify_mode = ssl.CERT_REQUIRED
        self._tls.load_cert_chain(settings.pki / "server.crt", settings.pki / "server.key")
        super().__init__((HOST, settings.port("runner")), _Handler)

    def get_request(self) -> tuple[Any, Any]:
        """A connection whose handshake its own thread will do."""
        link, address = super().get_request()
        link.settimeout(_LINK_S)
        wrapped = self._tls.wrap_socket(link, server_side=True, do_handshake_on_connect=False)
        return wrapped, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Readers go away when they like."""
        log.debug("a reader went away", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LogServer

    def do_GET(self) -> None:
        """One log, or that the server is well."""
        parts = urlsplit(self.path)
        if parts.path == "/healthz":
            self._answer(200, "ok")
            return
        found = _PATH.fullmatch(parts.path)
        if not found:
            self._answer(404, "404 page not found")
            return
        namespace, name, container = found.groups()
        handled = self.server.pods.find(namespace, name)
        if handled is None:
            self._ask_kwok()
            return
        try:
            self._serve(handled, container, dict(parse_qsl(parts.query)))
        except BadOption as error:
            self._answer(400, str(error))

    def _serve(self, handled: Handled, container: str, query: dict[str, str]) -> None:
        options = read_options(query, time.time_ns())
        name = handled.pod["metadata"]["name"]
        if query.get("previous") == "true":
            self._answer(
                400, f'previous terminated container "{container}" in pod "{name}" not found'
            )
            return
        try:
            file = log_file(handled).open("rb")
        except FileNotFoundError:
            self._answer(
                400,
                f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating',
            )
            return
        with file:
            reader = LogReader(file, options)
            self._begin(200)
            is_running = True
            while is_running and not reader.is_full and self._is_listening():
                self._send_all(reader)
                if not options.is_followed:
                    break
                is_running = self.server.pods.wait_grown(handled, reader.position, _LOOK_S)
            self._send_all(reader)
            self.wfile.write(b"0\r\n\r\n")

    def _send_all(self, reader: LogReader) -> None:
        gathered = b""
        for piece in reader.pieces():
            gathered += piece
            if len(gathered) > _PIECE_BYTES:
                self._send(gathered)
                gathered = b""
        if gathered:
            self._send(gathered)

    def _is_listening(self) -> bool:
        """A reader has nothing to say but that it goes."""
        return not select.select([self.connection], [], [], 0)[0]

    def _ask_kwok(self) -> None:
        settings = self.server.settings
        link = http.client.HTTPSConnection(
            HOST, settings.port("kubelet"), context=client_tls(settings, "admin"), timeout=_LINK_S
        )
        try:
            link.request("GET", self.path)
            response = link.getresponse()
            self._begin(response.status)
            while piece := response.read1(_PIECE_BYTES):
                self._send(piece)
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionRefusedError as error:
            self._answer(502, f"kwok does not answer: {error}")
        finally:
            link.close()

    def _begin(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def _send(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _answer(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: who reads which log is no news."""
