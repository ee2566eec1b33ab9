"""The application behind a real socket, for clients that are programs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from django.core.asgi import get_asgi_application

from builders.connector_builders import eventually


@contextmanager
def serving() -> Iterator[str]:
    """Serve the application in a thread. Yields its address.

    The caller sets CONN_MAX_AGE to 0: the thread must give its connection back after each request,
    so that the test database can be emptied.
    """
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(get_asgi_application(), log_level="warning", lifespan="off", ws="none")
    )
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    eventually(lambda: server.started or None)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=30)
    listener.close()
    assert not thread.is_alive()
