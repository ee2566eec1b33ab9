"""Lies between a client and slurmrestd and does to requests what networks and machines do.

Which fault a request meets depends on the seed, on whether it is a submission, another write or a
read, and on how many of its kind came before, so that a run can be repeated.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

_HEAD_BYTES_MAX = 64 << 10
_BODY_BYTES_MAX = 64 << 20
_CONNECTIONS_MAX = 64
_UPSTREAM_S = 60
_NEW_JOB = re.compile(rb'"job_id":\s*[1-9]')


class Fault(StrEnum):
    """What may happen to a request.

    `DELAY`: it is passed on late. `REFUSE`: the connection ends, and it is never passed on.
    `PARK`: the connection ends, and it is passed on late all the same. `DROP`: it is passed on,
    and the connection ends instead of the answer. `CUT`: the connection ends within the answer.
    """

    DELAY = "delay"
    REFUSE = "refuse"
    PARK = "park"
    DROP = "drop"
    CUT = "cut"


@dataclass(frozen=True)
class FaultPlan:
    """How many per mille of the submissions, other writes and reads meet a fault."""

    submit_ppt: int = 350
    write_ppt: int = 200
    read_ppt: int = 40
    delay_ms_max: int = 4_000

    def fault_of(self, seed: int, kind: str, number: int) -> tuple[Fault, int] | None:
        """The fault of the request with this number of its kind, with its delay in ms; or None."""
        dice = random.Random(f"{seed}/{kind}/{number}")
        odds = {"submit": self.submit_ppt, "write": self.write_ppt, "read": self.read_ppt}[kind]
        if dice.randrange(1_000) >= odds:
            return None
        return dice.choice(list(Fault)), dice.randrange(100, self.delay_ms_max + 1)


class FaultProxy:
    """An HTTP proxy before `upstream` ("http://host:port"), in a thread of its own.

    `counts` tells how many requests met which fault, `accepted` how many submissions made a job,
    whether or not anybody was told so. It passes everything on unharmed while not `is_armed`.
    """

    def __init__(self, upstream: str, *, seed: int, plan: FaultPlan | None = None) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        assert parts.port is not None
        self._upstream = (parts.hostname, parts.port)
        self._seed = seed
        self._plan = plan or FaultPlan()
        self._numbers: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()
        self.accepted = 0
        self.is_armed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="proxy")
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """End every connection and the thread."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        self._room = asyncio.Semaphore(_CONNECTIONS_MAX)
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD_BYTES_MAX)

    async def _end(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request; the connection ends after its answer."""
        try:
            async with self._room:
                with suppress(OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
                    request, kind = await asyncio.wait_for(_read_request(reader), _UPSTREAM_S)
                    await self._carry(request, kind, writer)
        finally:
            writer.close()

    async def _carry(self, request: bytes, kind: str, writer: asyncio.StreamWriter) -> None:
        fault, delay_ms = self._next_fault(kind)
        if fault is Fault.REFUSE:
            _reset(writer)
            return
        if fault is Fault.PARK:
            _reset(writer)
        if fault in (Fault.PARK, Fault.DELAY):
            await asyncio.sleep(delay_ms / 1_000)
        answer = await asyncio.wait_for(self._ask(request), _UPSTREAM_S)
        if kind == "submit" and _NEW_JOB.search(answer):
            self.accepted += 1
        if fault is Fault.PARK:
            return
        if fault is Fault.CUT:
            writer.write(answer[: len(answer) // 2])
            await writer.drain()
        if fault in (Fault.CUT, Fault.DROP):
            _reset(writer)
            return
        writer.write(answer)
        await writer.drain()

    def _next_fault(self, kind: str) -> tuple[Fault | None, int]:
        if not self.is_armed:
            return None, 0
        self._numbers[kind] += 1
        met = self._plan.fault_of(self._seed, kind, self._numbers[kind])
        if met is None:
            return None, 0
        self.counts[f"{kind} {met[0].value}"] += 1
        return met

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._upstream, limit=_HEAD_BYTES_MAX)
        try:
            writer.write(request)
            await writer.drain()
            return await _read_answer(reader)
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """A whole request, which asks for the end of its connection, and its kind."""
    first, headers = await _read_head(reader)
    method, path, _ = first.split(b" ", 2)
    body = await _read_body(reader, headers)
    headers[b"connection"] = b"close"
    is_submission = path.endswith(b"/job/submit")
    kind = "submit" if is_submission else "read" if method == b"GET" else "write"
    return _whole(first, headers, body), kind


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    first, headers = await _read_head(reader)
    if b"content-length" in headers or b" 304 " in first or b" 204 " in first:
        body = await _read_body(reader, headers)
    else:
        body = await reader.read(_BODY_BYTES_MAX)
    headers[b"connection"] = b"close"
    return _whole(first, headers, body)


async def _read_head(reader: asyncio.StreamReader) -> tuple[bytes, dict[bytes, bytes]]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    return first, {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[bytes, bytes]) -> bytes:
    length = int(headers.get(b"content-length", b"0"))
    if not 0 <= length <= _BODY_BYTES_MAX:
        raise EOFError("a body that is too long")
    return await reader.readexactly(length)


def _whole(first: bytes, headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    lines = b"".join(b"%s: %s\r\n" % pair for pair in headers.items())
    return first + b"\r\n" + lines + b"\r\n" + body


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@contextmanager
def a_fault_proxy(
    upstream: str, *, seed: int = 1, plan: FaultPlan | None = None
) -> Iterator[FaultProxy]:
    """A proxy that is closed at the end of the block; arm it to begin."""
    proxy = FaultProxy(upstream, seed=seed, plan=plan)
    try:
        yield proxy
    finally:
        proxy.close()
