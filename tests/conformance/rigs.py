"""The clusters that the conformance suite runs against.

A rig opens connectors to one cluster that nobody else uses. Its `scratch` directory is seen by
the test and by the jobs under the same name.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, Protocol

from builders.connector_builders import eventually, until_released
from connectors.local.attempt_files import is_locked
from connectors.protocol import ClusterConnector
from connectors.registry import open_connector

LOG_CAP_BYTES = 256 << 10
CLUSTER_ID = "cluster-of-the-rig"


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
        self.connector.prepare()

    def open(self) -> ClusterConnector:
        """Another connector to the same cluster, as another process would have."""
        return open_connector(self.kind, self.options, CLUSTER_ID)

    def attempt(self, key: str) -> Path:
        """Directory of the attempt `key`."""
        return self.root / "attempts" / key

    def record(self, key: str, name: str) -> dict[str, Any]:
        """A record of the attempt `key`, as soon as it is there."""
        path = self.attempt(key) / name
        eventually(path.exists)
        record: dict[str, Any] = json.loads(path.read_bytes())
        return record

    def supervisor(self, key: str) -> int:
        """Process number of the supervisor of `key`."""
        return int(self.record(key, "state.json")["supervisor"])

    def kill_supervisor(self, key: str) -> None:
        """kill -9 the supervisor of `key`; nobody looks at the attempt until `observe`."""
        pid = self.supervisor(key)
        assert str(self.attempt(key)) in Path(f"/proc/{pid}/cmdline").read_text()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_locked(f"{self.attempt(key)}/supervisor.lock"))

    def close(self) -> None:
        """End whatever still runs."""
        for key, seen in self.connector.observe().observations.items():
            if not seen.is_released:
                self.connector.stop(key)
                until_released(self.connector, key)


RIGS = (LocalRig,)
