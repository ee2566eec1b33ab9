"""What is asked of a cluster about its natives after a listing, and what is remembered of that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar
from uuid import UUID

from connectors.errors import AccountUndecided, ConnectorError, NativeRefused
from connectors.natives import NativeRef
from jobs.execution.withdrawing import StillHeld

log = logging.getLogger(__name__)

One = TypeVar("One")

#: Of each kind, what is asked of the cluster after one listing at most; the next one goes on.
CALLS_MAX = 20
#: Most of these say nothing to the cluster, as it has stopped; victims wait for no others.
STOPS_MAX = 500
_NEVER = datetime.fromtimestamp(0, UTC)


class Told(NamedTuple):
    """Why a workload waits, as it was last written onto it, and when."""

    code: str
    sentence: str
    at: datetime


class Memory:
    """What one observer remembers of the natives of one cluster: only what saves calls."""

    def __init__(self) -> None:
        self.told: dict[UUID, Told] = {}
        #: By kind and workload, when the cluster was last asked for it.
        self.asked: dict[tuple[str, UUID], datetime] = {}
        self.still_held = StillHeld()
        self.still_stuck = StillHeld()

    def forget_all_but(self, known: Collection[UUID]) -> None:
        """Nothing is asked any more for workloads that are not `known`."""
        for kind, key in list(self.asked):
            if key not in known:
                del self.asked[kind, key]


class Asking:
    """Asks a cluster for one native after the other, of each kind no more than is allowed after one
    listing."""

    def __init__(self, memory: Memory, now: datetime) -> None:
        self._asked = memory.asked
        self._now = now
        self._calls: dict[str, int] = {}

    def in_turn(
        self, kinds: Collection[str], ones: Iterable[One], key_of: Callable[[One], UUID]
    ) -> list[One]:
        """`ones`, those first for which it was asked longest ago for anything of `kinds`."""

        def turn(one: One) -> tuple[datetime, UUID]:
            key = key_of(one)
            return max(self._asked.get((kind, key), _NEVER) for kind in kinds), key

        return sorted(ones, key=turn)

    def call(self, kind: str, job: UUID, act: Callable[[NativeRef], None], ref: NativeRef) -> bool:
        """Ask the cluster for it, unless enough of this kind was asked for; whether it was done."""
        most = STOPS_MAX if kind == "stop" else CALLS_MAX
        if self._calls.get(kind, 0) >= most:
            return False
        self._calls[kind] = self._calls.get(kind, 0) + 1
        self._asked[kind, job] = self._now
        try:
            act(ref)
        except (NativeRefused, AccountUndecided) as error:
            # It answers, and says so of this one alone.
            log.warning("%s of native job %s: %s", kind, job, error)
            return False
        except ConnectorError as error:
            log.warning("%s of native job %s: %s", kind, job, error)
            # A cluster that does not answer is not waited for once for each of them.
            self._calls[kind] = most
            return False
        return True
