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
    """One reservation: `job` starts at `start_at` at the latest, on the nodes of `place`.

    It is gone by `end`, if that is known. `needs` is what it takes then of each node and of its CPU
    and memory. `source` is the node on whose guarantee it draws, or ROOT.

    `ledger` is the state of quota at `start_at` without the job. Quota allows it then with at least
    `spare_mgpu` to spare.
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

    def leaves_enough(self, team: int, mgpu: int) -> bool:
        """Return whether quota still lets the job start if `mgpu` of `team` is in use then."""
        if mgpu <= self.spare_mgpu:
            return True
        self._settle()
        return mgpu <= self.spare_mgpu or self.leaves_enough_after(((team, mgpu),))

    def leaves_enough_after(self, others: Collection[tuple[int, int]]) -> bool:
        """Return whether quota lets the job start with all these (team, milli-GPU) in use then."""
        self._settle()
        with Transaction() as trial:
            for team, mgpu in others:
                trial.charge(self.ledger, team, mgpu)
            return self.ledger.allows(self.team, self.job.mgpu)

    def available(self, team: int) -> int:
        """Return what quota lets `team` start then if the job itself does not."""
        self._settle()
        return self.ledger.available(team)

    def charge(self, team: int, mgpu: int) -> None:
        """Add `mgpu` of `team` to the use at `start_at`; a negative amount reduces it."""
        self._changes.append((team, mgpu))
        self.spare_mgpu -= max(0, mgpu)

    def _settle(self) -> None:
        for team, mgpu in self._changes:
            self.ledger.charge(team, mgpu)
        self._changes.clear()
        self.spare_mgpu = max(0, self.ledger.available(self.team) - self.job.mgpu)
