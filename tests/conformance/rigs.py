"""The clusters that the conformance suite runs against.

A rig opens connectors to one cluster that nobody else uses. Its `scratch` directory is seen by
the test and by the jobs under the same name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from builders.connector_builders import until_released
from connectors.protocol import ClusterConnector
from connectors.registry import open_connector

LOG_CAP_BYTES = 256 << 10


class Rig(Protocol):
    """One cluster. `kind` and `options` open it, from any process."""

    kind: str
    options: dict[str, Any]
    scratch: Path
    connector: ClusterConnector

    def close(self) -> None:
        """End whatever still runs."""
        ...


class LocalRig:
    """This machine with 130 virtual nodes of 8 H100 each."""

    kind = "local"

    def __init__(self, directory: Path) -> None:
        self.scratch = directory / "scratch"
        self.scratch.mkdir()
        self.root = directory / "root"
        self.options: dict[str, Any] = {
            "root": str(self.root),
            "nodes": {"count": 130, "gpus": 8, "pool": "h100", "prefix": "node-"},
            "use_real_gpus": False,
            "log_cap_bytes": LOG_CAP_BYTES,
        }
        self.connector = self.open()

    def open(self) -> ClusterConnector:
        """Another connector to the same cluster, as another process would have."""
        return open_connector(self.kind, self.options)

    def close(self) -> None:
        """End whatever still runs."""
        for key, seen in self.connector.observe().observations.items():
            if not seen.is_released:
                self.connector.stop(key)
                until_released(self.connector, key)


RIGS = (LocalRig,)
