"""HTTP requests as the event loop gets them, answered in threads."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.signals import request_finished
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse

from portal import serving
from portal.serving import Message, ThreadedHandler
from webapi.streams import PartwiseResponse

WHOLE: tuple[Message, ...] = ({"type": "http.request", "body": b""},)
#: In place of a message: the client stays, and sends nothing.
NOBODY_LEAVES: Message = {}


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
    body: Sequence[Message] = WHOLE,
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
        if incoming[0] is NOBODY_LEAVES:
            await asyncio.Event().wait()
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


def test_a_download_is_sent_part_by_part_and_closed() -> None:
    """Planted: all parts in one message. Planted: the parts are not closed at the end."""
    closed = []

    def parts() -> Iterator[bytes]:
        try:
            yield b"one"
            yield b"two"
        finally:
            closed.append(True)

    response = PartwiseResponse(parts(), file_name="ä b.txt", content_type="text/plain", size=6)
    start, *bodies = ask(a_handler(lambda _: response), body=[*WHOLE, NOBODY_LEAVES])
    assert dict(start["headers"])[b"Content-Disposition"] == (
        b"attachment; filename=\"_ b.txt\"; filename*=UTF-8''%C3%A4%20b.txt"
    )
    assert dict(start["headers"])[b"Content-Length"] == b"6"
    assert bodies == [
        {"type": "http.response.body", "body": b"one", "more_body": True},
        {"type": "http.response.body", "body": b"two", "more_body": True},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ]
    assert (closed, response.closed) == ([True], True)


def test_a_download_stops_when_its_reader_leaves() -> None:
    """Planted: the parts of an endless download go on without a reader."""
    response = PartwiseResponse(
        itertools.repeat(b"more"), file_name="log.txt", content_type="text/plain"
    )
    left = {"type": "http.disconnect"}
    _, *bodies = ask(a_handler(lambda _: response), body=[*WHOLE, left])
    assert all(body["more_body"] for body in bodies)
    assert response.closed


@pytest.mark.parametrize("bound", ["DOWNLOADS_MAX", "DOWNLOADS_OF_ONE_MAX"])
def test_downloads_have_a_bound_of_their_own(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """A refused one is closed. Planted: without a bound; without the end of the earlier one."""
    monkeypatch.setattr(serving, bound, 1)
    opened: list[PartwiseResponse] = []

    def answer(_: HttpRequest) -> PartwiseResponse:
        opened.append(
            PartwiseResponse(iter([b"one"]), file_name="a.txt", content_type="text/plain")
        )
        return opened[-1]

    handler = a_handler(answer)
    body = [*WHOLE, NOBODY_LEAVES]
    assert [ask(handler, body=list(body))[0]["status"] for _ in range(2)] == [200, 200]
    monkeypatch.setattr(serving, bound, 0)
    start, refused = ask(handler, body=list(body))
    assert (start["status"], dict(start["headers"])[b"Retry-After"]) == (503, b"2")
    assert json.loads(refused["body"])["detail"].startswith("Only ")
    assert all(response.closed for response in opened)


def test_a_download_takes_no_place_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a download counts as in hand until its end."""
    seen: list[int] = []

    def parts() -> Iterator[bytes]:
        seen.append(handler._in_hand)
        yield b"one"

    handler = a_handler(
        lambda _: PartwiseResponse(parts(), file_name="a.txt", content_type="text/plain")
    )
    ask(handler, body=[*WHOLE, NOBODY_LEAVES])
    assert seen == [0]


def test_an_error_in_a_part_breaks_the_download_off() -> None:
    """Planted: the error ends the body, as if it were whole."""

    def parts() -> Iterator[bytes]:
        yield b"one"
        raise OSError("gone")

    response = PartwiseResponse(parts(), file_name="log.txt", content_type="text/plain")
    with pytest.raises(OSError, match="gone"):
        ask(a_handler(lambda _: response), body=[*WHOLE, NOBODY_LEAVES])
    assert response.closed


def test_head_of_a_download_reads_no_part() -> None:
    """Planted: all parts are read, and sent to nobody."""
    read = []
    response = PartwiseResponse(map(read.append, [1]), file_name="a", content_type="text/plain")
    assert ask(a_handler(lambda _: response), method="HEAD")[1]["body"] == b""
    assert (read, response.closed) == ([], True)


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
