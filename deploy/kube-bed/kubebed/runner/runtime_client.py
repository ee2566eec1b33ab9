"""The runner's connection to the runtime."""

from __future__ import annotations

import itertools
import json
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kubebed.runner.isolation import ContainerSpec
from kubebed.runner.runtime import SOCKET

State = dict[str, Any]
_ANSWER_S = 60


class RuntimeGone(Exception):
    """The runtime does not answer, and its containers are over."""


class RuntimeClient:
    """One connection; `on_end` is called with the state of each container that ends."""

    def __init__(self, on_end: Callable[[State], None], on_gone: Callable[[], None]) -> None:
        self._link = socket.socket(socket.AF_UNIX)
        self._link.connect(SOCKET)
        self._on_end = on_end
        self._on_gone = on_gone
        self._numbers = itertools.count()
        self._waiting: dict[int, queue.SimpleQueue[Any]] = {}
        self._sending = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def states(self) -> list[State]:
        """Every container that the runtime knows."""
        return list(self._ask({"do": "list"}))

    def start(self, container_id: str, spec: ContainerSpec, folder: Path) -> State:
        """Start a container that is not there yet; its state once its command runs or cannot."""
        asked = {"do": "start", "id": container_id, "spec": asdict(spec), "folder": str(folder)}
        return dict(self._ask(asked))

    def signal(self, container_id: str, number: int) -> None:
        """Send a signal to the main process; to one that is over, nothing."""
        self._ask({"do": "signal", "id": container_id, "number": int(number)})

    def forget(self, container_id: str) -> None:
        """The runtime need not know the container any more; it is over."""
        self._ask({"do": "forget", "id": container_id})

    def wait_grown(self, container_id: str, size: int, within_s: float) -> bool:
        """Return when the log has more bytes than `size`; False when the container is over.

        Also True after `within_s`, so that the caller can look whether its reader is still there.
        """
        try:
            asked = {"do": "grown", "id": container_id, "size": size}
            return bool(self._ask(asked, within_s))
        except TimeoutError:
            return True

    def _ask(self, asked: dict[str, Any], within_s: float = _ANSWER_S) -> Any:
        number = next(self._numbers)
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting[number] = answers
        try:
            with self._sending:
                self._link.sendall(json.dumps(asked | {"request": number}).encode() + b"\n")
            answer = answers.get(timeout=within_s)
        except queue.Empty:
            raise TimeoutError(f"the runtime has not answered within {within_s} s") from None
        except OSError as error:
            raise RuntimeGone(str(error)) from error
        finally:
            self._waiting.pop(number, None)
        if isinstance(answer, RuntimeGone):
            raise answer
        return answer

    def _listen(self) -> None:
        try:
            with self._link.makefile("rb") as lines:
                for line in lines:
                    told = json.loads(line)
                    if "ended" in told:
                        self._on_end(told["ended"])
                    elif answers := self._waiting.get(told["request"]):
                        answers.put(told["answer"])
        except OSError:
            pass  # said below
        for answers in list(self._waiting.values()):
            answers.put(RuntimeGone("the runtime has ended"))
        self._on_gone()
