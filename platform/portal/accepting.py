"""Distributes connections evenly over the web workers.

All workers listen on one socket. An event loop that accepts connections takes all that wait at
once. Then one worker got five to eight of a browser's eight connections, and the other worker's
core was idle. So a thread of each worker waits inside `accept`: the kernel wakes these threads one
at a time, in turn.
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

log = logging.getLogger(__name__)

#: Pause after each connection, so that another worker takes the next one.
PAUSE_S = 0.001
#: The longest time that the thread of a closed server stays.
ACCEPT_TIMEOUT_S = 0.2
#: Pause after an error that may pass, such as no free file descriptors or no network.
FAILED_PAUSE_S = 0.1
#: Errors after which the listening socket never works again. Other errors pass. On Linux, `accept`
#: also reports errors of the connection it would have returned (accept(2)).
_FOR_EVER = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


def end_worker() -> None:
    """End this process as its supervisor would. The supervisor then starts another one."""
    os.kill(os.getpid(), signal.SIGTERM)


class SharingLoop(uvloop.Loop):
    """uvloop, but a server on a given socket shares its connections evenly with other processes."""

    async def create_server(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        """Create a server as asyncio does. On a plain TCP socket it can only be closed."""
        sock = options.get("sock")
        if sock is None or options.get("ssl") is not None:
            return await super().create_server(protocol_factory, *args, **options)
        return Acceptor(self, protocol_factory, sock, backlog=options.get("backlog", 100))


class Acceptor:
    """Accepts connections of `sock` in a thread of its own and passes them to `loop`."""

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
        sock.listen(backlog)
        # The thread must wait inside `accept` and not in `poll`, because only `accept` wakes one at
        # a time.
        sock.setblocking(True)
        timeout = struct.pack("ll", 0, int(ACCEPT_TIMEOUT_S * 1_000_000))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        self._thread = threading.Thread(target=self._accept, name="accept", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections. Accepted ones stay open."""
        self._is_closed = True

    async def wait_closed(self) -> None:
        """Wait until no connection can arrive any more."""
        await asyncio.to_thread(self._thread.join)

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
                # The loop was closed meanwhile.
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
