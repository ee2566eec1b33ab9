"""What the Pods wrote."""

from __future__ import annotations

from connectors.errors import LogUnavailable
from connectors.kubernetes.api import KubeApi
from connectors.kubernetes.options import KubernetesOptions
from connectors.protocol import Listing, LogChunk


class Logs:
    """The outputs of jobs of one cluster."""

    def __init__(self, options: KubernetesOptions) -> None:
        self._options = options

    def follow(self, api: KubeApi, listing: Listing) -> None:
        """Keep what the Pods of `listing` write."""

    def read_log(
        self,
        key: str,
        *,
        rank: int,
        stream: str,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> LogChunk:
        """See `ClusterConnector.read_log`."""
        raise LogUnavailable("the outputs of this cluster are not kept")

    def forget(self, key: str) -> None:
        """Drop what was kept of `key`."""
