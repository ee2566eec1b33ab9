"""Clients that keep a web process waiting, in a process of their own.

A quarter each: nothing is ever sent; headers, a byte a second; a body, a byte a second; a page is
asked for and never read. A connection that the server closes is opened again after 5 s. Runs until
standard input ends, then writes JSON: `opened`, `closed_by_server`, `open_mean`.

    python tests/performance/slow_clients.py PORT CLIENTS
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

PAUSE_S = 5.0
_HEADERS = b"Host: 127.0.0.1\r\nX-Slow: "
_BODY = b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n"
_PAGE = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 4
#: By kind: what is sent at once, and whether bytes follow.
KINDS = (
    (b"", False),
    (b"GET / HTTP/1.1\r\n" + _HEADERS, True),
    (_BODY, True),
    (_PAGE, False),
)


class Crowd:
    """How many connections there were."""

    def __init__(self) -> None:
        self.opened = self.closed_by_server = self.open_now = 0
        self.samples: list[int] = []

    async def keep_one(self, port: int, number: int) -> None:
        """Keep one slow connection for ever."""
        first, drips = KINDS[number % len(KINDS)]
        await asyncio.sleep(number / 1000)
        while True:
            with contextlib.suppress(OSError):
                await self._once(port, first, drips)
            await asyncio.sleep(PAUSE_S)

    async def _once(self, port: int, first: bytes, drips: bool) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        self.opened += 1
        self.open_now += 1
        try:
            writer.write(first)
            while not reader.at_eof() and reader.exception() is None:
                await asyncio.sleep(1)
                if drips:
                    writer.write(b"x")
                    await writer.drain()
        finally:
            self.open_now -= 1
            self.closed_by_server += 1
            writer.transport.abort()


async def main(port: int, clients: int) -> None:
    """Keep `clients` slow connections until standard input ends."""
    crowd = Crowd()
    tasks = [asyncio.create_task(crowd.keep_one(port, number)) for number in range(clients)]
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    while not ended.done():
        await asyncio.sleep(1)
        crowd.samples.append(crowd.open_now)
    opened, closed = crowd.opened, crowd.closed_by_server
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    mean = sum(crowd.samples) / len(crowd.samples) if crowd.samples else 0
    print(json.dumps({"opened": opened, "closed_by_server": closed, "open_mean": mean}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
