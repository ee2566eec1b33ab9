"""The partitions and nodes of a Slurm cluster, which change only when an administrator acts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from connectors.errors import ClusterUnavailable
from connectors.slurm.controller import SlurmController
from connectors.slurm.neutral import SlurmNode, SlurmPartition

Value = TypeVar("Value")
log = logging.getLogger(__name__)

#: Seconds for which an answer is reused.
KEPT_S = 60


@dataclass(frozen=True, slots=True)
class Hardware:
    """Partitions and nodes by name. Invalid records are left out and logged."""

    partitions: Mapping[str, SlurmPartition]
    nodes: Mapping[str, SlurmNode]


def read_hardware(controller: SlurmController) -> Hardware:
    """Read partitions and nodes. Raises ClusterUnavailable."""
    return Hardware(
        {partition.name: partition for partition in controller.partitions(odd=log.warning)},
        {node.name: node for node in controller.nodes(odd=log.warning)},
    )


class Kept(Generic[Value]):
    """A cached answer that is requested at most once in `KEPT_S` seconds.

    While one thread requests it, others wait for `left_s` seconds; for None, until it arrives.
    """

    def __init__(
        self, ask: Callable[[], Value], *, left_s: Callable[[], float | None] = lambda: None
    ) -> None:
        self._ask = ask
        self._left_s = left_s
        self._lock = threading.Lock()
        self._answer: tuple[float, Value] | None = None

    def get(self) -> Value:
        """Return the answer, requested again when it is old.

        Raises the errors of the request. Raises ClusterUnavailable when another thread's request
        takes too long.
        """
        left_s = self._left_s()
        if not self._lock.acquire(timeout=-1 if left_s is None else left_s):
            raise ClusterUnavailable("the cluster takes too long; no more is asked now")
        try:
            if self._answer is None or time.monotonic() - self._answer[0] > KEPT_S:
                self._answer = (time.monotonic(), self._ask())
            return self._answer[1]
        finally:
            self._lock.release()

    def drop(self) -> None:
        """Drop the answer, so that the next `get` requests it."""
        with self._lock:
            self._answer = None
