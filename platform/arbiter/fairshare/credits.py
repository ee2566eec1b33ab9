"""Credits in a cycle: how much teams can spend, and whose borrowing is unpaid (R-89 to R-92).

All amounts are integers in millionths of a GPU-second of the reference GPU: milli-GPU-seconds times
the pool's weight per mille. All values are per pool. The package `credits` settles the accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arbiter.api.snapshot import Balance
from arbiter.fairshare.decay import CHARGED_AT_START_S
from arbiter.quota.tree import ROOT, Tree

#: Credits are compared in tenths of a day of guarantee.
TENTH_OF_A_DAY_S = 8_640


class Credits:
    """The credits that the teams of one pool can spend in a cycle.

    A borrowed start holds the credits for an hour. `weight` is the pool's, per mille. Credits are
    in millionths of a GPU-second of the reference GPU. A team without a balance has no credit bank:
    it counts with 0 credits and pays nothing.
    """

    __slots__ = (
        "_first",
        "_floor_s",
        "_guaranteed",
        "_tenths_unpaid",
        "_to_spend",
        "_tree",
        "_weight",
    )

    def __init__(
        self,
        tree: Tree,
        guaranteed: Sequence[int],
        balances: Iterable[Balance],
        *,
        weight: int,
        floor_s: int,
    ) -> None:
        self._tree = tree
        self._guaranteed = guaranteed
        self._weight = weight
        self._floor_s = floor_s
        self._to_spend: dict[int, int] = {}
        # A paying team is above the floor, so its value is at least that of the floor, rounded
        # down.
        self._tenths_unpaid = -floor_s // TENTH_OF_A_DAY_S - 1
        for balance in balances:
            team = tree.index.get(balance.team, ROOT)
            if team != ROOT:
                self._to_spend[team] = balance.credits - balance.held
        #: A copy from before this cycle's holds; None while there are none.
        self._first: Credits | None = None

    @property
    def at_first(self) -> Credits:
        """Return the credits as they were before any start of this cycle."""
        return self if self._first is None else self._first

    def tenths(self, team: int) -> int:
        """Return the team's credits in whole tenths of a day of its guarantee, rounded down.

        Teams with unpaid borrowing come behind all paying ones. A team without a guarantee counts
        as one with the smallest possible guarantee.
        """
        tenths = self.exact_tenths(team)
        return min(tenths, self._tenths_unpaid) if self.is_unpaid(team) else tenths

    def exact_tenths(self, team: int) -> int:
        """Return the same, even where the team's borrowing is unpaid."""
        day = max(1, self._guaranteed[team]) * self._weight * TENTH_OF_A_DAY_S
        return self._to_spend.get(team, 0) // day

    @property
    def are_any(self) -> bool:
        """Return whether any team has a balance."""
        return bool(self._to_spend)

    @property
    def floor_tenths(self) -> int:
        """Return the floor in tenths of a day of a guarantee, rounded down."""
        return -self._floor_s // TENTH_OF_A_DAY_S

    def is_unpaid(self, team: int) -> bool:
        """Return whether the team's borrowing is unpaid, because its credits are at the floor."""
        if team not in self._to_spend:
            return False
        floor = -self._guaranteed[team] * self._weight * self._floor_s
        return self._to_spend[team] <= floor

    def hold(self, team: int, mgpu: int) -> None:
        """Hold the credits for the first hour of a borrowed start."""
        if team in self._to_spend:
            if self._first is None:
                self._first = self._copy()
            self._to_spend[team] -= mgpu * self._weight * CHARGED_AT_START_S

    def _copy(self) -> Credits:
        twin = Credits(self._tree, self._guaranteed, (), weight=self._weight, floor_s=self._floor_s)
        twin._to_spend = self._to_spend.copy()
        return twin
