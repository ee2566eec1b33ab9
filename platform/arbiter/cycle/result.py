"""The decisions of one cycle, and the explanations that can be requested afterwards.

Starts do not wait for explanations. The service of a pool stops when no job can start or reclaim
GPUs any more. When reasons are requested it continues from there, in the same order and by the same
rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from arbiter.api.errors import TooLate
from arbiter.api.plan import Classed, NodeUse, Plan, Reclaim, Reservation, Start, Waiting
from arbiter.api.snapshot import QueuedJob
from arbiter.cycle.multi_pool import Rounds, merge_reasons
from arbiter.cycle.pool_reasons import explain
from arbiter.explain.usage import in_use_after, node_use, outcome, part_of, starts_of


class Decided:
    """The decision of one cycle. `plan` has no reasons, uses and reservations.

    The pools stay as the cycle left them until `close`. The core calls it before any of its data
    change.
    """

    def __init__(
        self,
        rounds: Rounds,
        shared: Mapping[str, QueuedJob],
        claimed: Mapping[str, str],
        *,
        now: int,
        parts: bool,
    ) -> None:
        """Combine the cycles of all pools in `rounds`, which have agreed.

        `shared` and `claimed` are as in `Rounds`, `parts` as in `Core.cycle`.
        """
        self._cycles = {name: rounds.cycles[name] for name in sorted(rounds.cycles)}
        self._rounds: Rounds | None = rounds
        self._shared = shared
        starts: list[Start] = []
        reclaims: list[Reclaim] = []
        dropped: set[str] = set()
        classed: list[Classed] = []
        for cycle in self._cycles.values():
            reclaims.extend(cycle.reclaims)
            dropped.update(cycle.pool.dropped)
            if not parts:
                starts.extend(starts_of(cycle.starts, {}))
                continue
            found = outcome(cycle.pool, cycle.starts)
            starts.extend(starts_of(cycle.starts, found.guaranteed_mgpu))
            classed.extend(found.classed)
        # A job that starts in another pool than that of its claim drops the claim.
        dropped.update(
            start.job for start in starts if start.pool != claimed.get(start.job, start.pool)
        )
        self.plan = Plan(
            taken_at=now,
            starts=tuple(starts),
            reclaims=tuple(reclaims),
            dropped_claims=tuple(sorted(dropped)),
            classed=tuple(classed),
        )

    def explained(self) -> Plan:
        """Return `plan` with the reasons of waiting jobs, the use of all nodes and reservations.

        Raises TooLate after `close`.
        """
        if self._rounds is None:
            raise TooLate("a cycle can be explained until its core is told or decides anything")
        reasons: dict[str, list[Waiting]] = {}
        use: list[NodeUse] = []
        reservations: list[Reservation] = []
        for name, cycle in self._cycles.items():
            cycle.explain()
            used = in_use_after(cycle.pool, cycle.starts)
            reasons[name], waiting_mgpu = explain(cycle, used)
            use.extend(node_use(cycle.pool, used, waiting_mgpu))
            reservations.extend(cycle.reserved.reservations())
        return replace(
            self.plan,
            waiting=tuple(merge_reasons(reasons, self._shared)),
            use=tuple(use),
            reservations=tuple(reservations),
        )

    def guaranteed_of(self, job: QueuedJob) -> int:
        """Return how much of a waiting `job` its team's guarantee would cover if it started now.

        The amount is in milli-GPU. The job counts in the pool that it names first, in addition to
        everything that runs after the plan.

        Raises TooLate after `close`.
        """
        if self._rounds is None:
            raise TooLate("a cycle can be asked until its core is told or decides anything")
        cycle = self._cycles[job.pool]
        return part_of(cycle.pool, cycle.starts, job)

    def close(self) -> None:
        """End the cycle: restore the state of the pools from before it."""
        if self._rounds is not None:
            self._rounds.close()
            self._rounds = None
            self._cycles.clear()
