"""HTTP in threads: one of a few threads answers a request from its first middleware to its last.

Django's own ASGI handler starts a thread per request and goes back and forth between that and the
event loop at every step, since none of our middleware and views is asynchronous; that costs more
CPU than a page of jobs does. Here the event loop reads the request's body, so that a slow sender
keeps no thread busy, a thread does everything else, and the loop sends what the thread made.
WebSockets do not come here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http import HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from webapi.problems import CONTENT_TYPE, problem

log = logging.getLogger(__name__)

#: As many as there are connections in the pool: a thread more would only wait for one.
THREADS = 16
#: Requests in one process, answered or waiting for a thread, before more are sent away.
IN_HAND_MAX = 512

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ThreadedHandler(BaseHandler):
    """The ASGI application for HTTP. Django has to be set up before one is made."""

    def __init__(self) -> None:
        self.load_middleware()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="http")
        self._in_hand = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; nothing is done for a client that left before it was read."""
        if self._in_hand >= IN_HAND_MAX:
            for message in _too_busy():
                await send(message)
            return
        self._in_hand += 1
        try:
            with SpooledTemporaryFile(max_size=settings.FILE_UPLOAD_MAX_MEMORY_SIZE) as body:
                if not await _read(receive, body):
                    return
                loop = asyncio.get_running_loop()
                messages = await loop.run_in_executor(self._threads, self._answer, scope, body)
        finally:
            self._in_hand -= 1
        for message in messages:
            await send(message)

    def _answer(self, scope: Mapping[str, Any], body: IO[bytes]) -> list[Message]:
        """What is to be sent, whole: when it goes out, the thread and its connection are free."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        try:
            request = ASGIRequest(scope, body)
        except UnicodeDecodeError:
            log.warning("a request's path or headers cannot be decoded", exc_info=True)
            response: HttpResponseBase = HttpResponseBadRequest()
        except RequestDataTooBig:
            response = HttpResponse("413 Payload too large", status=413)
        else:
            response = self.get_response(request)
        try:
            return _messages(response)
        finally:
            # Sends `request_finished`, which gives the database connection back.
            response.close()


async def _read(receive: Receive, body: IO[bytes]) -> bool:
    """Fill `body`; False when the client left in between."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return False
        body.write(message.get("body", b""))
        if not message.get("more_body", False):
            body.seek(0)
            return True


def _messages(response: HttpResponseBase) -> list[Message]:
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in response.items()]
    headers += [
        (b"Set-Cookie", cookie.output(header="").encode("ascii").strip())
        for cookie in response.cookies.values()
    ]
    return [
        {"type": "http.response.start", "status": response.status_code, "headers": headers},
        # Files of the frontend are the only streams, and small.
        {"type": "http.response.body", "body": b"".join(response)},
    ]


def _too_busy() -> list[Message]:
    body = problem(
        503,
        code="unavailable",
        title="Try again in a moment",
        detail="This server has more requests in hand than it can answer in time.",
    )
    headers = [(b"Content-Type", CONTENT_TYPE.encode()), (b"Retry-After", b"2")]
    return [
        {"type": "http.response.start", "status": 503, "headers": headers},
        {"type": "http.response.body", "body": json.dumps(body).encode()},
    ]
