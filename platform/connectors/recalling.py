"""What a cluster remembers of our workloads that its listing has no more.

A kind of cluster without `ClusterKind.open_recaller` lists everything that it ever did and was not
told to forget; there is nothing else to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from connectors.protocol import Observation


class Recaller(Protocol):
    """May raise ClusterUnavailable; then nothing is known."""

    def ended_since(
        self, since: int, *, listed: Collection[str] = ()
    ) -> Mapping[str, tuple[Observation, ...]]:
        """Every workload of ours that ran and ended after `since` (epoch seconds, by the
        cluster's clock), by key, in the order of their ends. `listed` are the native ids of what
        the cluster lists at this moment, whose records may still be on their way."""
        ...
