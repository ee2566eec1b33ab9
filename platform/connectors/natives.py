"""Workloads that were given to a cluster beside the portal: what may be done to them.

They are found in `Listing.natives`. A cluster whose kind has no
`ClusterKind.control_natives` has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from typing import Protocol

from connectors.protocol import NativeWorkload


@dataclass(frozen=True, slots=True)
class NativeRef:
    """Which native workload is meant. A cluster may give its numbers again: only all three
    together are one workload for ever."""

    native_id: str
    submitted_at: int
    user: str


@dataclass(frozen=True, slots=True)
class NativeSize:
    """What a workload asks for: so many ranks with so many milli-GPU of a pool each."""

    pool: str
    mgpu_per_rank: int
    rank_count: int


def size_of(pool: str, ranks_mgpu: Sequence[int]) -> NativeSize | None:
    """What a workload asks for whose ranks ask for `ranks_mgpu`; None for no GPUs at all.

    Where they differ, as with a leader that has fewer than its workers, it is counted as ranks of
    their greatest common divisor: the sum is exact, and its cluster's own scheduler finds the
    nodes.
    """
    asking = [mgpu for mgpu in ranks_mgpu if mgpu > 0]
    if not asking:
        return None
    each = reduce(gcd, asking)
    return NativeSize(pool, each, sum(asking) // each)


class NativeStarter(Protocol):
    """What is done with natives that wait for us, on a cluster that starts none before.

    Every method may raise ClusterUnavailable, as NativeRefused where it is about this workload
    alone. A workload that is not there is left alone: the next listing says so.
    """

    def start(self, ref: NativeRef, granted: NativeSize | None) -> None:
        """Let the workload run, once: whatever ends this run, it waits for the next `start`.

        Only while it asks for exactly what was `granted` (None: no GPUs): its owner may change that
        as long as it waits. Idempotent, and repeated while it is still listed as held."""
        ...

    def cancel(self, ref: NativeRef) -> None:
        """End it for good: it is never started again, and is listed as ended from then on.
        Idempotent."""
        ...

    def explain(self, ref: NativeRef, code: str, sentence: str) -> None:
        """Write onto the workload why it waits, for those who look at it on its cluster."""
        ...


class NativeControl(Protocol):
    """Every method may raise ClusterUnavailable; then nothing is known to have happened."""

    @property
    def tool(self) -> str:
        """The program with which people look at workloads there."""
        ...

    @property
    def starter(self) -> NativeStarter | None:
        """How natives are started where they wait for us; None where their cluster starts them.

        Where there is one, `stop` ends the run of a workload only: it is listed as held again as
        soon as nothing of it is left.
        """
        ...

    def team_of(self, account: str) -> str | None:
        """Path of the team whose account this would be ("ai-company/research/nlp"), or None for
        a name that no team's account has."""
        ...

    def notify(self, ref: NativeRef) -> None:
        """Tell the workload that it will be stopped. One that is not `ref`, or does not run, is
        left alone."""
        ...

    def stop(self, ref: NativeRef) -> None:
        """End the workload. Idempotent; one that is not `ref` is left alone."""
        ...

    def find_ended(self, ref: NativeRef) -> NativeWorkload | None:
        """What the cluster's accounting says of a workload that is listed no more.

        None when the accounting answers and does not know it. Raises ClusterUnavailable while it
        cannot answer, or may be late.
        """
        ...
