"""Connections fall evenly on the web's workers.

All workers wait at one listening socket. A worker whose event loop is told that somebody came takes
whoever else is there too, so of eight connections of one browser one worker got five to eight, and
the other one's core stood idle. Here a thread of each worker waits inside `accept`: the kernel
wakes those who wait there one at a time and in turn.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import uvloop

from live.pulse import BEAT_S, pulse_here

log = logging.getLogger(__name__)

#: After each connection, so that of several that come at once others take the next.
PAUSE_S = 0.001
#: How long a closed server's thread may stay.
ACCEPT_TIMEOUT_S = 0.2
#: Where none can be taken now (no files are left, the network is down), until it tries again.
FAILED_PAUSE_S = 0.1
#: An event loop that does not come round in so long hangs.
LOOP_WITHIN_S = 10.0
#: What says that the listening socket itself is none any more. All else passes: Linux tells here
#: also what became of the connection that would have been taken (accept(2)).
_FOR_EVER = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


def end_worker() -> None:
    """End this process as its supervisor would, which then starts another one."""
    os.kill(os.getpid(), signal.SIGTERM)


class SharingLoop(uvloop.Loop):
    """uvloop, but a server on a given socket takes its connections in turn with other processes."""

    async def create_server(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        """As asyncio's; the server for a plain TCP socket can only be closed and waited for."""
        sock = options.get("sock")
        if sock is None or options.get("ssl") is not None:
            return await super().create_server(protocol_factory, *args, **options)
        return Acceptor(self, protocol_factory, sock, backlog=options.get("backlog", 100))


class Acceptor:
    """Takes connections from `sock` in a thread of its own and gives them to `loop`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol_factory: ProtocolFactory,
        sock: socket.socket,
        *,
        backlog: int,
    ) -> None:
        self._loop = loop
        self._protocol_factory = protocol_factory
        self._socket = sock
        self._is_closed = False
        self._beginning: set[asyncio.Task[Any]] = set()
        self._pulse = pulse_here()
        self._beat()
        sock.listen(backlog)
        # A wait in the kernel and not in a poll before it: only that is one at a time.
        sock.setblocking(True)
        timeout = struct.pack("ll", 0, int(ACCEPT_TIMEOUT_S * 1_000_000))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        self._thread = threading.Thread(target=self._accept, name="accept", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more connections; those that were taken live on."""
        self._is_closed = True

    async def wait_closed(self) -> None:
        """Until nothing more can come."""
        await asyncio.to_thread(self._thread.join)

    def _beat(self) -> None:
        """Show the supervisor that this event loop gets on. All workers touch one file."""
        self._pulse.promise(LOOP_WITHIN_S)
        if self._is_closed:
            self._pulse.end()
        else:
            self._loop.call_later(BEAT_S, self._beat)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except OSError as error:
                if self._is_closed:
                    return
                if error.errno in _FOR_EVER:
                    log.critical(
                        "no connection can ever be taken again, this worker ends: %s", error
                    )
                    end_worker()
                    return
                log.error("no connection can be taken now: %s", error)
                time.sleep(FAILED_PAUSE_S)
                continue
            try:
                self._loop.call_soon_threadsafe(self._begin, connection)
            except RuntimeError:
                # The loop was closed in between.
                connection.close()
                return
            time.sleep(PAUSE_S)

    def _begin(self, connection: socket.socket) -> None:
        if self._is_closed:
            connection.close()
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        beginning = self._loop.create_task(
            self._loop.connect_accepted_socket(self._protocol_factory, connection)
        )
        self._beginning.add(beginning)
        beginning.add_done_callback(self._begun)

    def _begun(self, beginning: asyncio.Task[Any]) -> None:
        self._beginning.discard(beginning)
        if not beginning.cancelled() and (error := beginning.exception()) is not None:
            log.warning("a connection could not be begun: %s", error)
