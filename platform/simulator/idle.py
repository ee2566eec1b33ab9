"""Why GPUs are idle while jobs wait: all idle GPU time, split by cause.

In every state of the run the free GPUs are assigned to causes in four steps:

1. Free GPUs held by claims (R-62) count as `CLAIM`.
2. The other waiting jobs are placed virtually, all at the same time, while free nodes can hold
   them. The GPUs of each placed job count for the rule that refused the job.
3. `FRAGMENTATION` is the demand of jobs that fit in the sum of the rest but not on its nodes. It
   is at most the rest.
4. The remainder is `LARGER` if jobs with a larger demand wait, and `NOBODY` otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from arbiter.api.snapshot import Slot
from arbiter.placement.free_devices import Shape
from simulator.fleet import Fleet


class Cause(StrEnum):
    """Why GPUs are idle."""

    QUOTA = "quota"
    PLACE = "place_in_guarantee"
    RESERVATION = "reservation"
    CLAIM = "claim"
    ORDER = "order"
    CYCLE = "next_cycle"
    #: A refusal by a policy that reports no causes.
    POLICY = "policy"
    FRAGMENTATION = "fragmentation"
    LARGER = "larger"
    NOBODY = "nobody"


#: The causes that keep a job waiting although the free nodes could hold it.
REFUSALS = (
    Cause.QUOTA,
    Cause.PLACE,
    Cause.RESERVATION,
    Cause.CLAIM,
    Cause.ORDER,
    Cause.CYCLE,
    Cause.POLICY,
)


class Refused(NamedTuple):
    """The number of waiting jobs of one shape, and the cause that refused them."""

    shape: Shape
    jobs: int
    cause: Cause


@runtime_checkable
class ReportsCauses(Protocol):
    """A scheduler that reports why its jobs wait."""

    def claimed(self) -> Iterable[tuple[Shape, Sequence[Slot]]]:
        """Return the jobs that wait for claimed GPUs, with these GPUs, free or not."""
        ...

    def refused(self) -> Iterable[Refused]:
        """Return the other waiting jobs, in the order of their virtual placement."""
        ...


class IdleTime:
    """The integral of idle GPUs by cause, in milli-GPU-seconds, until `horizon_s`."""

    def __init__(self, fleet: Fleet, horizon_s: int) -> None:
        self.mgpu_s = dict.fromkeys(Cause, 0)
        self._fleet = fleet
        self._horizon_s = horizon_s
        self._waiting: dict[Shape, int] = {}
        self._parts: Mapping[Cause, int] = {}
        self._since_s = 0

    def queued(self, shape: Shape) -> None:
        """Count one more waiting job."""
        self._waiting[shape] = self._waiting.get(shape, 0) + 1

    def started(self, shape: Shape) -> None:
        """Count one waiting job less."""
        left = self._waiting[shape] - 1
        if left:
            self._waiting[shape] = left
        else:
            del self._waiting[shape]

    def has_fitting(self) -> bool:
        """Return whether the free nodes could hold any waiting job."""
        return any(self._fleet.find(shape) is not None for shape in self._waiting)

    def settle(self, now: int, reporter: ReportsCauses | None) -> None:
        """Close the instant `now`; its state lasts until the next call.

        `reporter` reports why jobs wait. None counts every refusal as `POLICY`.
        """
        self._add_up(now)
        if now < self._horizon_s:
            self._parts = self._split(reporter)

    def close(self) -> None:
        """Complete the integral up to the horizon at the end of the run."""
        self._add_up(self._horizon_s)

    def _add_up(self, now: int) -> None:
        until = min(now, self._horizon_s)
        for cause, mgpu in self._parts.items():
            self.mgpu_s[cause] += mgpu * (until - self._since_s)
        self._since_s = until

    def _split(self, reporter: ReportsCauses | None) -> Mapping[Cause, int]:
        """Return the GPUs that are free now, by cause, in milli-GPU."""
        fleet = self._fleet
        free = fleet.total_free
        if not free or not self._waiting:
            return {Cause.NOBODY: free}
        parts: dict[Cause, int] = {}
        taken: list[Slot] = []
        left = dict(self._waiting)
        if reporter is not None:
            parts[Cause.CLAIM] = self._take_claimed(reporter.claimed(), left, taken)
        if self.has_fitting():
            refused: Iterable[Refused]
            if reporter is None:
                refused = [Refused(*one, Cause.POLICY) for one in self._waiting.items()]
            else:
                refused = reporter.refused()
            self._place(refused, left, parts, taken)
        rest = fleet.total_free
        fleet.give_back(taken)
        asked = sum(shape.total_mgpu * count for shape, count in left.items())
        fitting = sum(
            shape.total_mgpu * count for shape, count in left.items() if shape.total_mgpu <= rest
        )
        parts[Cause.FRAGMENTATION] = min(fitting, rest)
        parts[Cause.LARGER if asked > fitting else Cause.NOBODY] = max(0, rest - fitting)
        return parts

    def _take_claimed(
        self,
        claimed: Iterable[tuple[Shape, Sequence[Slot]]],
        left: dict[Shape, int],
        taken: list[Slot],
    ) -> int:
        """Take the free part of claimed slots and return its size in milli-GPU."""
        fleet = self._fleet
        before = fleet.total_free
        for shape, slots in claimed:
            left[shape] -= 1
            for node, amount in slots:
                if found := min(amount, fleet.free[node]):
                    fleet.take([(node, found)])
                    taken.append(Slot(node, found))
        return before - fleet.total_free

    def _place(
        self,
        refused: Iterable[Refused],
        left: dict[Shape, int],
        parts: dict[Cause, int],
        taken: list[Slot],
    ) -> None:
        """Place jobs virtually, at most as many as GPUs are free.

        After the first job of a shape that finds no nodes, no other job of that shape is tried.
        """
        fleet = self._fleet
        hopeless: set[Shape] = set()
        for shape, count, cause in refused:
            if not fleet.total_free:
                return
            for _ in range(count):
                nodes = None if shape in hopeless else fleet.find(shape)
                if nodes is None:
                    hopeless.add(shape)
                    break
                slots = fleet.slots_of(shape, nodes)
                fleet.take(slots)
                taken += slots
                left[shape] -= 1
                parts[cause] = parts.get(cause, 0) + shape.total_mgpu
