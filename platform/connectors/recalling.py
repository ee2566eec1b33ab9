"""The cluster's memory of our workloads that it no longer lists.

A kind of cluster without `ClusterKind.open_recaller` lists every workload until the portal tells it
to forget it. It has nothing else to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from connectors.protocol import Observation


class Recaller(Protocol):
    """Finds ended workloads that the listing lacks.

    May raise ClusterUnavailable; then nothing is known.
    """

    def ended_since(
        self, since: int, *, listed: Collection[str] = ()
    ) -> Mapping[str, tuple[Observation, ...]]:
        """Return our workloads that ran and ended after `since`, by key, in order of their ends.

        `since` is epoch seconds by the cluster's clock. `listed` are the native ids in the
        cluster's current listing; their records may not have arrived yet.
        """
        ...
