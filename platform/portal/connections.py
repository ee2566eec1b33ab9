"""Limits connections while their requests are read: in time, in bytes of headers, in number.

A connection waits until its request is complete, and again between requests. Waiting connections
are counted by source, or by person once a request on them was authenticated. One above the limit
closes the connection that has waited longest. So many slow clients displace only each other, and a
client that sends its request at once is never affected. Bodies are limited in `portal.serving`.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from primitives.addresses import is_in, network_of

#: Time limit for the headers and the body of one request.
REQUEST_S = 15.0
#: Time limit for an answer that is larger than the buffers between the server and the reader.
ANSWER_S = 120.0
HEADERS_BYTES_MAX = 32 * 1024
#: Size up to which a refused body is read, so that the client sees the error.
DISCARDED_BYTES_MAX = 8 * 1024 * 1024
#: Limits of waiting connections per worker: of unknown callers together, per source, per person.
UNKNOWN_MAX = 400
SOURCE_MAX = 100
PERSON_MAX = 64
#: The scope's extension that assigns a connection to a person.
BELONGS_TO = "tidegate.belongs_to"


class WaitingConnections:
    """The waiting connections of a worker by owner, the longest waiting first."""

    def __init__(self) -> None:
        self._pools: dict[str, dict[BoundedProtocol, None]] = {}
        self._unknown = 0

    def add(self, connection: BoundedProtocol) -> None:
        """Count `connection` as waiting. Above a limit, close the one that has waited longest."""
        pool = self._pools.setdefault(connection.owner, {})
        if connection in pool:
            return
        pool[connection] = None
        self._unknown += not connection.is_known
        if len(pool) > connection.pool_max:
            self._close_first(pool)
        elif self._unknown > UNKNOWN_MAX:
            unknown = (pool for pool in self._pools.values() if not next(iter(pool)).is_known)
            self._close_first(max(unknown, key=len))

    def remove(self, connection: BoundedProtocol) -> None:
        """Stop counting `connection` as waiting."""
        pool = self._pools.get(connection.owner, {})
        if connection not in pool:
            return
        del pool[connection]
        self._unknown -= not connection.is_known
        if not pool:
            del self._pools[connection.owner]

    def _close_first(self, pool: dict[BoundedProtocol, None]) -> None:
        connection = next(iter(pool))
        self.remove(connection)
        connection.crowd_out()


#: The waiting connections of this process. Each worker has its own.
WAITING = WaitingConnections()


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits. For uvicorn's `--http`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self.deadline: asyncio.TimerHandle | None = None
        self.answer_deadline: asyncio.TimerHandle | None = None
        self.header_bytes = 0
        self.discarded_bytes = 0
        #: Whether a request has begun and is not complete, and whether its headers are complete.
        self.is_in_request = False
        self.has_headers = False
        self.is_refused = False
        self.is_known = False
        peer = self.client[0] if self.client else ""
        self.is_proxy = is_in(settings.TRUSTED_PROXIES, peer)
        self.owner = f"source {network_of(peer)}"
        self._wait()

    @property
    def pool_max(self) -> int:
        """Return the limit of waiting connections of this owner."""
        if self.is_proxy:
            return UNKNOWN_MAX
        return PERSON_MAX if self.is_known else SOURCE_MAX

    def belongs_to(self, person: str) -> None:
        """Count this connection for the person whose request was just answered."""
        if self.is_proxy:
            return
        WAITING.remove(self)
        self.is_known, self.owner = True, f"person {person}"

    def crowd_out(self) -> None:
        """Close this connection, because too many connections of its owner wait."""
        if self.transport.get_write_buffer_size() > 0:
            self.transport.abort()
            return
        self._refuse(
            503,
            "unavailable",
            "Try again in a moment",
            "Too many connections from your address are waiting for a request. Close some, and "
            "send each request at once.",
        )

    def data_received(self, data: bytes) -> None:
        """Read on, unless this request was refused."""
        if self.is_refused:
            return
        super().data_received(data)
        if self.header_bytes > HEADERS_BYTES_MAX and not self.transport.is_closing():
            self._refuse(
                431,
                "headers_too_large",
                "The request's headers are too large",
                f"The address and the headers may have {HEADERS_BYTES_MAX:,} bytes together. "
                "Send fewer cookies or a shorter address.",
            )

    def on_message_begin(self) -> None:
        """Start a request and its time limit."""
        super().on_message_begin()
        extensions: Any = {BELONGS_TO: self.belongs_to}
        self.scope["extensions"] = extensions
        self.header_bytes = self.discarded_bytes = 0
        self.is_in_request, self.has_headers = True, False
        self._wait()

    def on_url(self, url: bytes) -> None:
        """Count a part of the address."""
        self.header_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header or a trailer."""
        self.header_bytes += len(name) + len(value) + 4
        if self.header_bytes <= HEADERS_BYTES_MAX:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Answer the request, unless its headers are too large."""
        if self.header_bytes <= HEADERS_BYTES_MAX and not self.is_refused:
            super().on_headers_complete()
            self.has_headers = True

    def on_body(self, body: bytes) -> None:
        """Read a part of the body. A refused body is read up to a limit only."""
        if self.is_refused or self.header_bytes > HEADERS_BYTES_MAX:
            return
        if self.cycle.response_complete:
            self.discarded_bytes += len(body)
            if self.discarded_bytes > DISCARDED_BYTES_MAX:
                self.is_refused = True
                self.transport.abort()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the time limit of the request. The time limit of the answer follows."""
        if self.is_refused or self.header_bytes > HEADERS_BYTES_MAX:
            return
        self.is_in_request = False
        if self.cycle is not None and self.cycle.response_complete:
            self._wait()
        else:
            self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the end of this one."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            WAITING.add(self)

    def handle_websocket_upgrade(self) -> None:
        """Stop waiting, as the connection is a WebSocket now, which `live.consumers` limits."""
        self._stop_waiting()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        """Start a time limit, because the reader is slower than the answer."""
        super().pause_writing()
        if self.answer_deadline is None:
            self.answer_deadline = self.loop.call_later(ANSWER_S, self.transport.abort)

    def resume_writing(self) -> None:
        """End the time limit, because the reader has nearly all of the answer."""
        super().resume_writing()
        if self.answer_deadline is not None:
            self.answer_deadline.cancel()
            self.answer_deadline = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting and end all time limits."""
        self._stop_waiting()
        if self.answer_deadline is not None:
            self.answer_deadline.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self.deadline = self.loop.call_later(REQUEST_S, self._is_late)
        WAITING.add(self)

    def _stop_waiting(self) -> None:
        WAITING.remove(self)
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _is_late(self) -> None:
        if self.flow.read_paused or self._is_answering_another():
            # The server is late, with the answer before this one or with reading.
            self.deadline = self.loop.call_later(1.0, self._is_late)
            return
        self.deadline = None
        self._refuse(
            408,
            "too_slow",
            "The request took too long",
            f"Headers and body must arrive within {REQUEST_S:.0f} s. Send less at once, or use a "
            "faster connection.",
        )

    def _refuse(self, status: int, code: str, title: str, detail: str) -> None:
        """Answer the request that is being read, if there is one, and close the connection."""
        if self.transport.is_closing():
            return
        self.is_refused = True
        self._stop_waiting()
        cycle = self.cycle
        is_answered = self.has_headers and cycle.response_started
        if self.is_in_request and not is_answered and not self._is_answering_another():
            self.transport.write(_answer(status, code, title, detail))
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _is_answering_another(self) -> bool:
        """Return whether the request before the one that is being read has no answer yet."""
        return not self.has_headers and self.cycle is not None and not self.cycle.response_complete


def _answer(status: int, code: str, title: str, detail: str) -> bytes:
    # Imported here, because uvicorn imports this module before Django is set up.
    from webapi.problems import CONTENT_TYPE, problem

    body = json.dumps(problem(status, code=code, title=title, detail=detail)).encode()
    return (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"content-type: {CONTENT_TYPE}\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    ).encode() + body
