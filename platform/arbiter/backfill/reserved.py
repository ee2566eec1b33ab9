"""One reservation of a blocked job (R-73)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from arbiter.api.snapshot import QueuedJob
from arbiter.cache.running import Node
from arbiter.cache.transaction import Transaction
from arbiter.placement.free_devices import Place
from arbiter.quota.ledger import Ledger


@dataclass(slots=True, eq=False)
class Reserved:
    """`job` starts at `start_at` at the latest, on the nodes of `place`, and is gone by `end`, if
    that is known. `needs` is what it holds then of each node and room. `source` is on whose
    guarantee it draws, or ROOT.

    `ledger` is how the pool stands at `start_at` without the job; quota is `spare_mgpu` at least
    away from refusing it then.
    """

    job: QueuedJob
    team: int
    place: Place
    needs: Mapping[Node, int]
    start_at: int
    end: int | None
    source: int
    is_own: bool
    ledger: Ledger
    spare_mgpu: int = 0
    _changes: list[tuple[int, int]] = field(default_factory=list)

    def leaves_room(self, team: int, mgpu: int) -> bool:
        """Whether quota still lets the job start if `mgpu` of `team` is in use then."""
        if mgpu <= self.spare_mgpu:
            return True
        self._settle()
        return mgpu <= self.spare_mgpu or self.leaves_room_beside(((team, mgpu),))

    def leaves_room_beside(self, others: Collection[tuple[int, int]]) -> bool:
        """Whether quota still lets the job start if all of these (team, milli-GPU) are in use
        then."""
        self._settle()
        with Transaction() as beside:
            for team, mgpu in others:
                beside.charge(self.ledger, team, mgpu)
            return self.ledger.allows(self.team, self.job.mgpu)

    def available(self, team: int) -> int:
        """What quota lets `team` start then, if the job itself does not."""
        self._settle()
        return self.ledger.available(team)

    def charge(self, team: int, mgpu: int) -> None:
        """`mgpu` more of `team` is in use at `start_at`, or less."""
        self._changes.append((team, mgpu))
        self.spare_mgpu -= max(0, mgpu)

    def _settle(self) -> None:
        for team, mgpu in self._changes:
            self.ledger.charge(team, mgpu)
        self._changes.clear()
        self.spare_mgpu = max(0, self.ledger.available(self.team) - self.job.mgpu)
