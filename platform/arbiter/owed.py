"""What a claim may not take of what comes free by itself: reservations count on it (R-79).

A reservation begins once enough of those who run on its nodes are gone. If GPUs of theirs were
taken back before, for a job that is still there then, the reserved one would have to wait anew, and
for good where such jobs keep coming. What those hold who would run on for longer may be taken: the
reservation does not count on that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from arbiter.holdings import Holding, Node


class Due(NamedTuple):
    """How much of what comes free on a node, or in a room of it, until a reservation `begins` there
    is not needed by it or by others that have begun by then."""

    begins: int
    spare: int


class Owed:
    """What one claim, or some together, owe to the reservations that they may not delay, as things
    stand; what is found out of that is remembered for others that owe the same."""

    __slots__ = ("_dues", "_end_of", "_grace_on", "could_have", "helping")

    def __init__(
        self,
        dues: Mapping[Node, Sequence[Due]],
        end_of: Callable[[Holding], int | None],
        grace_on: Callable[[Node], int],
    ) -> None:
        """`end_of`: when what runs, or has a claim, is gone at the latest, if that is known.
        `grace_on`: when all that is being stopped on a node is."""
        self._dues = dues
        self._end_of = end_of
        self._grace_on = grace_on
        #: What could be had of a node if nobody ran on there, by cluster and node.
        self.could_have: dict[Node, int] = {}
        #: Whether it alone would leave anything to a claim if it were stopped, by the identity of
        #: what runs.
        self.helping: dict[int, bool] = {}

    def on(self, cluster: str) -> dict[str, OwedHere]:
        """The nodes and rooms of a cluster of which anything is owed, when nobody is stopped."""
        return {node: OwedHere(dues) for (at, node), dues in self._dues.items() if at == cluster}

    def end_of(self, holding: Holding) -> int | None:
        """When an attempt or the job of a claim is gone at the latest."""
        return self._end_of(holding)

    def back_at(self, cluster: str, node: str) -> int:
        """When that is back which comes back on a node or in a room already."""
        return self._grace_on((cluster, node))


class OwedHere:
    """What is owed on one node or in one room, while some are stopped on it and others not."""

    __slots__ = ("_dues", "_taken")

    def __init__(self, dues: Sequence[Due]) -> None:
        self._dues = dues
        #: What of that which comes free by itself until each begins is taken before.
        self._taken = [0] * len(dues)

    def take(self, amount: int, end: int | None) -> int:
        """Take back `amount` that would come free by `end` (less than 0: let it run on after all);
        how much more the job may have here then."""
        before = self._owing()
        for at, due in enumerate(self._dues):
            if end is not None and end <= due.begins:
                self._taken[at] += amount
        return amount - self._owing() + before

    def _owing(self) -> int:
        """What of that which is taken back the job has to leave here."""
        pairs = zip(self._dues, self._taken, strict=True)
        return max(0, *(taken - due.spare for due, taken in pairs))


#: Where nothing is reserved.
NOTHING_OWED = Owed({}, lambda holding: None, lambda node: 0)
