"""Credits in a cycle: who is rich and who is unpaid (R-89 to R-92).

All amounts are integers in millionths of a GPU-second of the reference GPU: milli-GPU-seconds times
the pool's weight per mille. Everything is per pool. The package `credits` settles the accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arbiter.api.snapshot import Balance
from arbiter.fairshare.decay import CHARGED_AT_START_S
from arbiter.quota.tree import ROOT, Tree

#: Credits are compared in tenths of a day of guarantee.
TENTH_OF_A_DAY_S = 8_640


class Credits:
    """What the teams of one pool have to spend in a cycle; what they borrow holds an hour of it.

    `weight` is the pool's, per mille; credits are in millionths of a GPU-second of the
    reference. Without any balance there is no bank: all are equal and nothing is unpaid.
    """

    __slots__ = (
        "_first",
        "_floor_s",
        "_guaranteed",
        "_has_bank",
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
        self._has_bank = False
        # A debtor who pays stands above the floor: no less than its tenth, which is rounded down.
        self._tenths_unpaid = -floor_s // TENTH_OF_A_DAY_S - 1
        for balance in balances:
            self._has_bank = True
            team = tree.index.get(balance.team, ROOT)
            if team != ROOT:
                self._to_spend[team] = balance.credits - balance.held
        #: The same for how it was before this cycle's holds; None while there are none.
        self._first: Credits | None = None

    @property
    def at_first(self) -> Credits:
        """The credits as they were before anything started."""
        return self if self._first is None else self._first

    def tenths(self, team: int) -> int:
        """Whole tenths of a day of its guarantee that the team has to spend, rounded down. Who
        borrows unpaid comes behind all who pay; a team without a guarantee counts as one with the
        least there is."""
        day = max(1, self._guaranteed[team]) * self._weight * TENTH_OF_A_DAY_S
        tenths = self._to_spend.get(team, 0) // day
        return min(tenths, self._tenths_unpaid) if self.is_unpaid(team) else tenths

    def is_unpaid(self, team: int) -> bool:
        """Whether what the team borrows is unpaid: its credits are down at the floor."""
        if not self._has_bank or team == ROOT:
            return False
        floor = -self._guaranteed[team] * self._weight * self._floor_s
        return self._to_spend.get(team, 0) <= floor

    def hold(self, team: int, mgpu: int) -> None:
        """A borrowed start holds the credits for its first hour."""
        if self._has_bank:
            if self._first is None:
                self._first = self._copy()
            cost = mgpu * self._weight * CHARGED_AT_START_S
            self._to_spend[team] = self._to_spend.get(team, 0) - cost

    def _copy(self) -> Credits:
        twin = Credits(self._tree, self._guaranteed, (), weight=self._weight, floor_s=self._floor_s)
        twin._has_bank, twin._to_spend = self._has_bank, self._to_spend.copy()
        return twin
