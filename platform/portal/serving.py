"""HTTP in threads: one thread of a few handles a request from the first middleware to the last.

Django's own ASGI handler starts a thread per request and switches between it and the event loop at
every step, because our middleware and views are synchronous. That costs more CPU than a page of
jobs does.

Here, the event loop reads the request's body up to a limit, so that a slow sender occupies no
thread. A thread does everything else, and the loop sends its answer. `portal.connections` limits
the time. WebSockets do not come here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestDataTooBig
from django.core.handlers.asgi import ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.db import DatabaseError, close_old_connections
from django.http import HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from portal.connections import BELONGS_TO
from portal.known_callers import is_known, person_of
from webapi.problems import CONTENT_TYPE, problem
from webapi.streams import PartwiseResponse

log = logging.getLogger(__name__)

#: As many as connections in the pool. One more thread would only wait for a connection.
THREADS = 16
#: Requests in one process, answered or waiting for a thread, above which more are refused.
IN_HAND_MAX = 512
#: Downloads in one process, and those of one person, above which more are refused. They take as
#: long as their readers do, so they occupy no place of other requests.
DOWNLOADS_MAX = 128
DOWNLOADS_OF_ONE_MAX = 8
#: Limits of a body. The second one applies to a sender who is not known from the headers.
BODY_BYTES_MAX = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
UNKNOWN_BODY_BYTES_MAX = 64 * 1024

_NO_DATABASE = {
    "code": "unavailable",
    "title": "Try again in a moment",
    "detail": "The database does not answer; nothing was changed.",
}

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ThreadedHandler(BaseHandler):
    """The ASGI application for HTTP. Django must be set up before it is created."""

    def __init__(self) -> None:
        self.load_middleware()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="http")
        self._in_hand = 0
        self._downloads: Counter[str | None] = Counter()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request. A client that left before its request was read gets no answer."""
        with SpooledTemporaryFile(max_size=settings.FILE_UPLOAD_MAX_MEMORY_SIZE) as body:
            try:
                await self._read(scope, receive, body)
            except _ClientLeft:
                return
            except _BodyRefused as refused:
                messages: list[Message] = refused.answer
                parts, person = None, None
            else:
                messages, parts, person = await self._answered(scope, body)
        if parts is not None:
            await self._send_download(messages, parts, person, receive, send)
            return
        for message in messages:
            await send(message)

    async def _answered(
        self, scope: dict[str, Any], body: IO[bytes]
    ) -> tuple[list[Message], PartwiseResponse | None, str | None]:
        if self._in_hand >= IN_HAND_MAX:
            return _too_busy(), None, None
        self._in_hand += 1
        messages: list[Message]
        try:
            messages, parts, person = await self._in_thread(self._answer, scope, body)
        finally:
            self._in_hand -= 1
        belongs_to = scope.get("extensions", {}).get(BELONGS_TO)
        if person is not None and belongs_to is not None:
            belongs_to(person)
        return messages, parts, person

    async def _send_download(
        self,
        start: list[Message],
        response: PartwiseResponse,
        person: str | None,
        receive: Receive,
        send: Send,
    ) -> None:
        """Send a body part by part, until its end or until the client leaves."""
        if self._downloads.total() >= DOWNLOADS_MAX or (
            self._downloads[person] >= DOWNLOADS_OF_ONE_MAX
        ):
            await self._in_thread(response.close)
            for message in _too_many_downloads():
                await send(message)
            return
        self._downloads[person] += 1
        client_leaves = asyncio.ensure_future(receive())
        try:
            for message in start:
                await send(message)
            parts = iter(response)
            while not client_leaves.done():
                part = await self._in_thread(_next_part, parts)
                body = b"" if part is None else part
                more = part is not None
                await send({"type": "http.response.body", "body": body, "more_body": more})
                if not more:
                    return
        finally:
            self._downloads -= Counter([person])
            client_leaves.cancel()
            await self._in_thread(response.close)

    async def _read(self, scope: dict[str, Any], receive: Receive, body: IO[bytes]) -> None:
        """Fill `body`. Raises _ClientLeft, or _BodyRefused before more than allowed is kept."""
        allowed = await self._allow(_declared_size(scope), UNKNOWN_BODY_BYTES_MAX, scope)
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientLeft
            part = message.get("body", b"")
            size += len(part)
            allowed = await self._allow(size, allowed, scope)
            body.write(part)
            if not message.get("more_body", False):
                body.seek(0)
                return

    async def _allow(self, size: int, allowed: int, scope: dict[str, Any]) -> int:
        """Return how many bytes this sender may send. Raises _BodyRefused if `size` is more."""
        if size <= allowed:
            return allowed
        if size > BODY_BYTES_MAX:
            raise _too_large(
                f"A request may have {BODY_BYTES_MAX:,} bytes. Send less at once, such as a script "
                "that reads its data from a file."
            )
        try:
            sender_is_known = await self._in_thread(is_known, scope)
        except DatabaseError as error:
            raise _BodyRefused(refusal(503, **_NO_DATABASE)) from error
        if not sender_is_known:
            raise _too_large(
                f"A request of somebody who is not signed in may have {UNKNOWN_BODY_BYTES_MAX:,} "
                "bytes. Sign in, or send a valid access token."
            )
        return BODY_BYTES_MAX

    async def _in_thread(self, function: Callable[..., Any], *given: Any) -> Any:
        # A copy of the loop's context, so that a thread keeps nothing of an earlier request.
        run = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, run, function, *given
        )

    def _answer(
        self, scope: Mapping[str, Any], body: IO[bytes]
    ) -> tuple[list[Message], PartwiseResponse | None, str | None]:
        """Return the complete answer, and the person who asked if a view identified one.

        The thread and its database connection are free before the answer is sent. Of a download,
        it is the start only, and the response whose parts follow.
        """
        request = None
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
        if isinstance(response, PartwiseResponse) and scope["method"] != "HEAD":
            close_old_connections()
            return [_start(response)], response, person_of(request)
        try:
            return _messages(response), None, person_of(request)
        finally:
            # Sends `request_finished`, which returns the database connection.
            response.close()


class _ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


class _BodyRefused(Exception):
    """The body is not read any further; `answer` says why."""

    def __init__(self, answer: list[Message]) -> None:
        self.answer = answer


def _too_large(detail: str) -> _BodyRefused:
    return _BodyRefused(
        refusal(413, code="too_large", title="The request is too large", detail=detail)
    )


def _declared_size(scope: Mapping[str, Any]) -> int:
    """Return the size in the headers, in bytes; 0 without one. The server has checked it."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _next_part(parts: Iterator[bytes]) -> bytes | None:
    """Return the next part; None at the end. The thread's database connection is free then."""
    try:
        return next(parts, None)
    finally:
        close_old_connections()


def _start(response: HttpResponseBase) -> Message:
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in response.items()]
    headers += [
        (b"Set-Cookie", cookie.output(header="").encode("ascii").strip())
        for cookie in response.cookies.values()
    ]
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}


def _messages(response: HttpResponseBase) -> list[Message]:
    # Other streams are files of the frontend, and they are small. That of HEAD has no body.
    is_download = isinstance(response, PartwiseResponse)
    body = b"" if is_download else b"".join(response)
    return [_start(response), {"type": "http.response.body", "body": body}]


def _too_busy() -> list[Message]:
    return refusal(
        503,
        code="unavailable",
        title="Try again in a moment",
        detail="This server has more requests than it can answer in time.",
    )


def _too_many_downloads() -> list[Message]:
    return refusal(
        503,
        code="unavailable",
        title="Try again in a moment",
        detail=f"Only {DOWNLOADS_OF_ONE_MAX} downloads of a person run at once. Wait for one of "
        "yours, then try again.",
    )


def refusal(status: int, *, code: str, title: str, detail: str) -> list[Message]:
    """Return the messages of a problem that needs no thread."""
    body = json.dumps(problem(status, code=code, title=title, detail=detail)).encode()
    headers = [
        (b"Content-Type", CONTENT_TYPE.encode()),
        (b"Content-Length", str(len(body)).encode()),
    ]
    if status == 503:
        headers.append((b"Retry-After", b"2"))
    return [
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    ]
