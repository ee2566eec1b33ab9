"""Workloads that were given to a cluster beside the portal: what may be done to them.

They are found in `Listing.natives`. A cluster whose kind is not in `registry.NATIVE_CONTROLS` has
none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from connectors.protocol import NativeWorkload


@dataclass(frozen=True, slots=True)
class NativeRef:
    """Which native workload is meant. A cluster may give its numbers again: only all three
    together are one workload for ever."""

    native_id: str
    submitted_at: int
    user: str


class NativeControl(Protocol):
    """Every method but `team_of` may raise ClusterUnavailable; then nothing is known to have
    happened."""

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
