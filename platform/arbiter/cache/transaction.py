"""Changes of a pool that can be undone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Self, TypeVar

from arbiter.placement.free_devices import FreeDevices
from arbiter.quota.ledger import Ledger

_Key = TypeVar("_Key", bound=Hashable)


class Transaction:
    """Makes changes, and undoes them in reverse order.

    As a context manager it undoes uncommitted changes at its end:

        with Transaction() as attempt:
            attempt.charge(pool.now, team, -mgpu)
            is_allowed = pool.now.blocker(team, asked_mgpu) is None
    """

    __slots__ = ("_log",)

    def __init__(self) -> None:
        #: The calls that undo the changes.
        self._log: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._log:
            undo, given = self._log.pop()
            undo(*given)

    def commit(self) -> None:
        """Keep all changes for good."""
        self._log.clear()

    def charge(self, ledger: Ledger, team: int, mgpu: int) -> None:
        """Add `mgpu` to the use of `team`."""
        ledger.charge(team, mgpu)
        self._log.append((ledger.charge, (team, -mgpu)))

    def take(self, free: FreeDevices, cluster: str, node: str, amount: int) -> None:
        """Take GPUs of a node, or its CPU or memory."""
        free.take(cluster, node, amount)
        self._log.append((free.take, (cluster, node, -amount)))

    def add(self, amounts: dict[_Key, int], key: _Key, amount: int) -> None:
        """Add to one entry of `amounts`; a missing entry counts as 0."""
        _add(amounts, key, amount)
        self._log.append((_add, (amounts, key, -amount)))


def _add(amounts: dict[_Key, int], key: _Key, amount: int) -> None:
    amounts[key] = amounts.get(key, 0) + amount
