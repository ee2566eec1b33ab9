"""What a cycle decided, and what is only told of it, which may be asked later.

Nobody who is to start waits until it is worked out why the others do not: the service of a pool
stops where nobody can start or take anything back any more, and goes on from there, in the same
order and by the same rules, when somebody asks for reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from arbiter.api.errors import TooLate
from arbiter.api.plan import Classed, NodeUse, Plan, Reclaim, Reservation, Start, Waiting
from arbiter.api.snapshot import QueuedJob
from arbiter.cycle.multi_pool import Rounds, in_one
from arbiter.cycle.pool_reasons import explain
from arbiter.explain.usage import in_use_after, node_use, outcome, part_of, starts_of


class Decided:
    """The decision of one cycle. `plan` is what is to be done, without reasons, uses and
    reservations.

    The pools stand as the cycle left them until `close`, which the core calls before anything that
    it knows changes.
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
        """Of all pools, in `rounds` that have agreed; `shared` and `claimed` as there, `parts` as
        in `Core.cycle`."""
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
        # Who starts in another pool than that of its claim gives that claim up.
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
        """`plan` with why the rest wait, where all nodes stand after it, and what is reserved.

        Raises TooLate once it is closed.
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
            reservations.extend(cycle.reserved.told())
        return replace(
            self.plan,
            waiting=tuple(in_one(reasons, self._shared)),
            use=tuple(use),
            reservations=tuple(reservations),
        )

    def guaranteed_of(self, job: QueuedJob) -> int:
        """What would be inside its team's guarantee of `job`, which waits in the pool that it names
        first, if it started there beside all that runs after the plan.

        Raises TooLate once it is closed.
        """
        if self._rounds is None:
            raise TooLate("a cycle can be asked until its core is told or decides anything")
        cycle = self._cycles[job.pool]
        return part_of(cycle.pool, cycle.starts, job)

    def close(self) -> None:
        """The cycle is over: what the pools remember is as it was before it."""
        if self._rounds is not None:
            self._rounds.close()
            self._rounds = None
            self._cycles.clear()
