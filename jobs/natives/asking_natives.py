"""Calls to a cluster about its native jobs after a listing, and the memory that saves calls."""

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

Item = TypeVar("Item")

#: Maximum number of calls of each kind after one listing. The next listing continues.
CALLS_MAX = 20
#: Maximum number of stops. Most find the workload stopped already, and victims must not wait.
STOPS_MAX = 500
_NEVER = datetime.fromtimestamp(0, UTC)


class Reported(NamedTuple):
    """The reason that was last written onto a waiting workload, and when."""

    code: str
    sentence: str
    at: datetime


class Memory:
    """The memory of one observer about the native jobs of one cluster. It only saves calls."""

    def __init__(self) -> None:
        self.reported: dict[UUID, Reported] = {}
        #: By kind and workload, when the cluster was last called for it.
        self.asked: dict[tuple[str, UUID], datetime] = {}
        self.still_held = StillHeld()
        self.still_stuck = StillHeld()

    def forget_all_but(self, known: Collection[UUID]) -> None:
        """Forget the calls for workloads that are not `known`."""
        for kind, key in list(self.asked):
            if key not in known:
                del self.asked[kind, key]


class Asking:
    """Calls to a cluster for one native job after the other.

    After one listing the number of calls of each kind is bounded.
    """

    def __init__(self, memory: Memory, now: datetime) -> None:
        self._asked = memory.asked
        self._now = now
        self._calls: dict[str, int] = {}

    def least_recent_first(
        self, kinds: Collection[str], items: Iterable[Item], key_of: Callable[[Item], UUID]
    ) -> list[Item]:
        """Return `items`, ordered by the last call for any of `kinds`, the longest ago first."""

        def last_call(item: Item) -> tuple[datetime, UUID]:
            key = key_of(item)
            return max(self._asked.get((kind, key), _NEVER) for kind in kinds), key

        return sorted(items, key=last_call)

    def call(self, kind: str, job: UUID, act: Callable[[NativeRef], None], ref: NativeRef) -> bool:
        """Call the cluster for the job; return whether the call succeeded.

        False without a call if enough calls of this kind were made after this listing.
        """
        most = STOPS_MAX if kind == "stop" else CALLS_MAX
        if self._calls.get(kind, 0) >= most:
            return False
        self._calls[kind] = self._calls.get(kind, 0) + 1
        self._asked[kind, job] = self._now
        try:
            act(ref)
        except (NativeRefused, AccountUndecided) as error:
            # The cluster answers, and refuses this workload alone.
            log.warning("%s of native job %s: %s", kind, job, error)
            return False
        except ConnectorError as error:
            log.warning("%s of native job %s: %s", kind, job, error)
            # The cluster does not answer: no further call of this kind waits for its time-out.
            self._calls[kind] = most
            return False
        return True
