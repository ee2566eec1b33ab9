"""Control of native workloads, which people submit to a cluster without the portal.

`Listing.natives` lists them. A kind without `ClusterKind.control_natives` has none.
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
    """The identity of a native workload on its cluster.

    A cluster may reuse its numbers. Only all three fields together are unique for ever.
    """

    native_id: str
    submitted_at: int
    user: str


@dataclass(frozen=True, slots=True)
class NativeSize:
    """The size of a workload: `rank_count` ranks with `mgpu_per_rank` milli-GPU of `pool` each."""

    pool: str
    mgpu_per_rank: int
    rank_count: int


def size_of(pool: str, ranks_mgpu: Sequence[int]) -> NativeSize | None:
    """Return the size of a workload whose ranks ask for `ranks_mgpu`; None without GPUs.

    Ranks of different sizes, such as a leader smaller than its workers, count as ranks of their
    greatest common divisor. The sum stays exact; the cluster's own scheduler chooses the nodes.
    """
    asking = [mgpu for mgpu in ranks_mgpu if mgpu > 0]
    if not asking:
        return None
    each = reduce(gcd, asking)
    return NativeSize(pool, each, sum(asking) // each)


class NativeStarter(Protocol):
    """Starts native workloads on a cluster where they wait until the portal admits them.

    Every method may raise ClusterUnavailable, or its subclass NativeRefused when only this workload
    is affected. A workload that no longer exists is ignored: the next listing shows that it is
    gone.
    """

    def start(self, ref: NativeRef, granted: NativeSize | None) -> None:
        """Let the workload run once. After that run, it waits for the next `start`.

        It starts only while it asks for exactly the size in `granted` (None: no GPUs), because its
        owner may edit a waiting workload. Idempotent: the caller repeats it while the workload is
        listed as held.
        """
        ...

    def cancel(self, ref: NativeRef) -> None:
        """End the workload for good. Idempotent.

        It is never started again, and is listed as ended from then on.
        """
        ...

    def explain(self, ref: NativeRef, code: str, sentence: str) -> None:
        """Write onto the workload why it waits, for people who look at it on its cluster."""
        ...


class NativeControl(Protocol):
    """Acts on native workloads.

    Every method may raise ClusterUnavailable; then nothing is known to have happened.
    """

    @property
    def tool(self) -> str:
        """The program with which people look at workloads there."""
        ...

    @property
    def starter(self) -> NativeStarter | None:
        """The starter of held native workloads; None where the cluster starts them itself.

        Where there is a starter, `stop` ends only the current run. The workload is listed as held
        again as soon as the run has released everything.
        """
        ...

    def team_of(self, account: str) -> str | None:
        """Return the path of the team ("ai-company/research/nlp") that `account` would belong to.

        None for a name that no team's account has.
        """
        ...

    def notify(self, ref: NativeRef) -> None:
        """Warn the workload that it will be stopped.

        A workload that is not exactly `ref`, or does not run, is left alone.
        """
        ...

    def stop(self, ref: NativeRef) -> None:
        """End the workload. Idempotent. A workload that is not exactly `ref` is left alone."""
        ...

    def find_ended(self, ref: NativeRef) -> NativeWorkload | None:
        """Look up in the cluster's accounting a workload that is no longer listed.

        None when the accounting does not know it. Raises ClusterUnavailable while the accounting
        cannot answer, or may be late.
        """
        ...
