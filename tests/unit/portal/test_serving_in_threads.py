"""HTTP requests as the event loop gets them, answered in threads."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.signals import request_finished
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse

from portal import serving
from portal.serving import Message, ThreadedHandler


def a_handler(answer: Any) -> ThreadedHandler:
    """One without middleware, whose every answer is `answer(request)`."""
    handler = ThreadedHandler()
    handler._middleware_chain = answer
    return handler


def ask(
    handler: ThreadedHandler,
    *,
    method: str = "GET",
    path: str = "/api/v1/jobs",
    query: bytes = b"",
    headers: Sequence[tuple[bytes, bytes]] = (),
    body: Sequence[Message] = ({"type": "http.request", "body": b""},),
) -> list[Message]:
    """What one request is sent back."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": list(headers),
        "http_version": "1.1",
        "scheme": "http",
    }
    incoming, sent = list(body), []

    async def receive() -> Message:
        return incoming.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(handler(scope, receive, send))
    return sent


def test_an_answer_is_sent_as_it_was_made() -> None:
    def answer(request: HttpRequest) -> HttpResponse:
        response = HttpResponse(
            f"{request.method} {request.get_full_path()} {request.headers['X-One']}".encode()
            + request.body,
            status=201,
        )
        response["X-Two"] = "é"
        response.set_cookie("three", "3", path="/")
        return response

    sent = ask(
        a_handler(answer),
        method="POST",
        path="/a b",
        query=b"c=%20d",
        headers=[(b"x-one", b"1")],
        body=[
            {"type": "http.request", "body": b" first", "more_body": True},
            {"type": "http.request", "body": b" second"},
        ],
    )
    assert sent == [
        {
            "type": "http.response.start",
            "status": 201,
            "headers": [
                (b"Content-Type", b"text/html; charset=utf-8"),
                (b"X-Two", b"\xe9"),
                (b"Set-Cookie", b"three=3; Path=/"),
            ],
        },
        {"type": "http.response.body", "body": b"POST /a%20b?c=%20d 1 first second"},
    ]


def test_an_answer_in_parts_is_sent_whole_and_closed(tmp_path: Path) -> None:
    (tmp_path / "app.js").write_bytes(b"one")
    parts = StreamingHttpResponse(iter([b"one", b"two"]))
    file = FileResponse((tmp_path / "app.js").open("rb"))
    assert ask(a_handler(lambda _: parts))[1]["body"] == b"onetwo"
    assert ask(a_handler(lambda _: file))[1]["body"] == b"one"
    assert parts.closed
    assert file.closed


def test_one_thread_does_all_of_a_request_and_not_the_loops() -> None:
    threads = []

    def answer(request: HttpRequest) -> HttpResponse:
        threads.append(threading.current_thread())
        return HttpResponse()

    def finished(**_: Any) -> None:
        threads.append(threading.current_thread())

    request_finished.connect(finished)
    try:
        ask(a_handler(answer))
    finally:
        request_finished.disconnect(finished)
    assert len(threads) == 2
    assert threads[0] is threads[1] is not threading.current_thread()


def test_nothing_is_done_for_a_client_that_leaves_before_its_body_is_whole() -> None:
    seen: list[HttpRequest] = []
    sent = ask(
        a_handler(seen.append),
        method="POST",
        body=[
            {"type": "http.request", "body": b"{", "more_body": True},
            {"type": "http.disconnect"},
        ],
    )
    assert (seen, sent) == ([], [])


def test_headers_that_cannot_be_decoded_are_refused() -> None:
    sent = ask(a_handler(lambda _: HttpResponse()), headers=[(b"cookie", b"a=\xff")], query=b"\xff")
    assert sent[0]["status"] == 400


def test_a_full_house_sends_more_away_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "IN_HAND_MAX", 0)
    start, body = ask(a_handler(lambda _: HttpResponse()))
    assert (start["status"], dict(start["headers"])) == (
        503,
        {
            b"Content-Type": b"application/problem+json",
            b"Content-Length": str(len(body["body"])).encode(),
            b"Retry-After": b"2",
        },
    )
    assert json.loads(body["body"])["code"] == "unavailable"


def test_a_place_is_free_again_after_every_request() -> None:
    def broken(request: HttpRequest) -> HttpResponse:
        raise ZeroDivisionError

    handler = a_handler(broken)
    with pytest.raises(ZeroDivisionError):
        ask(handler)
    assert handler._in_hand == 0


def test_requests_beside_each_other_have_a_thread_each() -> None:
    meet = threading.Barrier(4, timeout=30)

    def answer(request: HttpRequest) -> HttpResponse:
        meet.wait()
        return HttpResponse()

    handler = a_handler(answer)
    with ThreadPoolExecutor(4) as clients:
        answers = list(clients.map(lambda _: ask(handler), range(4)))
    assert [sent[0]["status"] for sent in answers] == [200] * 4
