"""What a claim may not take of what comes free by itself: reservations count on it.

A reservation begins once enough of those who run on its nodes are gone. If GPUs of theirs were
taken back before, for a job that is still there then, the reserved one would have to wait anew, and
for good where such jobs keep coming. What those hold who would run on for longer may be taken: the
reservation does not count on that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from arbiter.holdings import Holding, Node


class Due(NamedTuple):
    """Of a node, or of a room of it: how much of what comes free there until the last of some
    reservations begins at `by` none of them needs."""

    spare: int
    by: int


class Owed:
    """What one claim, or some together, owe to the reservations that they may not delay."""

    __slots__ = ("_dues", "_end_of")

    def __init__(self, dues: Mapping[Node, Due], end_of: Callable[[Holding], int | None]) -> None:
        """`end_of`: when what runs, or has a claim, is gone at the latest, if that is known."""
        self._dues = dues
        self._end_of = end_of

    def spare_on(self, cluster: str) -> dict[str, int]:
        """By node or room of a cluster that is owed anything: what of it is not."""
        return {node: due.spare for (at, node), due in self._dues.items() if at == cluster}

    def is_due(self, holding: Holding, node: str) -> bool:
        """Whether what an attempt or a claim holds on a node or room that is owed comes free until
        a reservation begins there."""
        end = self._end_of(holding)
        return end is not None and end <= self._dues[holding.run.cluster, node].by


#: Where nothing is reserved.
NOTHING_OWED = Owed({}, lambda holding: None)
