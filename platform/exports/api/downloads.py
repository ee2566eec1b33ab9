"""Sends a file in chunks, by an asynchronous server as well, with bounded memory."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, Any

from django.http import StreamingHttpResponse

_CHUNK_BYTES = 1 << 16


class FileResponse(StreamingHttpResponse):
    """The bytes of one file. Django's own class reads all of it first under ASGI."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._file: IO[bytes] = path.open("rb")
        super().__init__(_chunks(self._file), **options)
        self.headers["Content-Length"] = str(path.stat().st_size)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await to_thread(self._file.read, _CHUNK_BYTES):
                yield chunk
        finally:
            self._file.close()


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
