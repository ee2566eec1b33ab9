"""Where the output of a step's tasks goes: to srun's own, or to files.

Lines of several tasks are never mixed: a line is written when it is complete, or when its task has
closed its output. `srun --unbuffered` writes everything at once instead.
"""

from __future__ import annotations

import contextlib
import os
import selectors

_CHUNK = 1 << 16
#: A line that is longer is written in parts, so a task without line ends cannot fill the memory.
_LINE_BYTES_MAX = 1 << 20


class Outputs:
    """Copies what tasks write into pipes to the descriptors behind them."""

    def __init__(self, *, is_buffered: bool) -> None:
        self._selector = selectors.DefaultSelector()
        self._is_buffered = is_buffered
        self._rest: dict[int, bytes] = {}

    def add(self, descriptor: int, target: int, label: bytes) -> None:
        """Copy from `descriptor`, which is closed at its end, to `target`: `label`, then a line."""
        os.set_blocking(descriptor, False)
        self._rest[descriptor] = b""
        self._selector.register(descriptor, selectors.EVENT_READ, (target, label))

    def watch(self, descriptor: int) -> None:
        """Return from `copy` too when `descriptor` can be read, and drop what it says."""
        os.set_blocking(descriptor, False)
        self._selector.register(descriptor, selectors.EVENT_READ, None)

    @property
    def is_open(self) -> bool:
        """Return whether any task may still write."""
        return bool(self._rest)

    def copy(self, timeout_s: float | None) -> None:
        """Copy what there is. Waits up to `timeout_s` (None: without an end) for something."""
        for key, _ in self._selector.select(timeout_s):
            descriptor = key.fd
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    os.read(descriptor, _CHUNK)
                continue
            target, label = key.data
            try:
                chunk = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                continue
            text = self._rest[descriptor] + chunk
            if chunk and self._is_buffered and len(text) < _LINE_BYTES_MAX:
                whole, end, self._rest[descriptor] = text.rpartition(b"\n")
                text = whole + end
            else:
                self._rest[descriptor] = b""
            if text:
                _write(target, _labelled(text, label))
            if not chunk:
                self._selector.unregister(descriptor)
                os.close(descriptor)
                del self._rest[descriptor]


def _labelled(text: bytes, label: bytes) -> bytes:
    if not label:
        return text
    lines = text.splitlines(keepends=True)
    return b"".join(label + line for line in lines)


def _write(target: int, text: bytes) -> None:
    """Write everything. A reader that went away ends nothing: the tasks run on."""
    view = memoryview(text)
    with contextlib.suppress(BrokenPipeError):
        while view:
            view = view[os.write(target, view) :]
