"""A cluster in this process's memory: the smallest connector that the portal can use."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.options import option, read_record, text, whole
from connectors.protocol import (
    ClusterConnector,
    Inventory,
    Listing,
    LogChunk,
    NodeCapacity,
    Observation,
    Outcome,
    Workload,
    WorkloadPhase,
)
from connectors.workload_checks import check_workload

#: The clusters that answer, by the option `address`. A test adds its own.
CLUSTERS: dict[str, ToyCluster] = {}


@dataclass(slots=True)
class ToyRun:
    """One workload on the cluster. Times are epoch seconds."""

    workload: Workload
    started_at: int
    ended_at: int | None = None
    outcome: Outcome | None = None


@dataclass(slots=True)
class ToyCluster:
    """What an API server or a controller is elsewhere. A workload runs until somebody ends it."""

    pool: str
    node_count: int
    runs: dict[str, ToyRun] = field(default_factory=dict)

    def end(self, key: str, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        """End a workload that runs; others are left alone."""
        run = self.runs.get(key)
        if run is not None and run.ended_at is None:
            run.ended_at, run.outcome = now_s(), outcome


def now_s() -> int:
    """The cluster's own clock, in epoch seconds."""
    return int(time.time())


def check_address(option: str, value: object) -> str:
    """Return the checked address. Raises ValueError."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"option {option} is needed: the name of the cluster")
    return value


@dataclass(frozen=True, slots=True)
class ToyOptions:
    """The options of a cluster: how each is checked, and what forms show of it."""

    address: str = option(
        text(check_address), title="Address", help="The name of the cluster.", example="lab"
    )
    gpus_per_node: int = option(whole(1, 16), title="GPUs per node", default=8)


def parse_options(options: Mapping[str, Any]) -> ToyOptions:
    """Raises OptionsRefused for options that no such cluster can have."""
    return ToyOptions(**read_record(ToyOptions, options, "unknown options of a toy cluster"))


def check_toy_options(options: Mapping[str, Any]) -> None:
    """Raises ValueError for options that no such cluster can have."""
    parse_options(options)


def open_toy(
    options: Mapping[str, Any], cluster_id: str, known_as: Mapping[str, str]
) -> ClusterConnector:
    """The connector for `options`; speaks to nobody yet. Raises ValueError for bad options."""
    return ToyConnector(parse_options(options))


class ToyConnector:
    """Implements `connectors.protocol.ClusterConnector`."""

    submits_held = False
    settle_s = 0

    def __init__(self, options: ToyOptions) -> None:
        self._options = options

    def prepare(self) -> None:
        """See the protocol. There is nothing to prepare."""

    def submit(self, workload: Workload, *, is_first: bool = False) -> str:
        """See the protocol. The workload runs at once."""
        check_workload(workload)
        self.cluster().runs.setdefault(workload.key, ToyRun(workload, now_s()))
        return workload.key

    def release(self, key: str, native_id: str) -> None:
        """See the protocol. Nothing is ever held."""

    def remove_copy(self, key: str, native_id: str) -> None:
        """See the protocol. Nothing is ever held."""

    def observe(self) -> Listing:
        """See the protocol."""
        runs = self.cluster().runs
        return Listing(now_s(), {key: _observation(key, run) for key, run in runs.items()})

    def find_ended(self, key: str, native_id: str) -> Observation | None:
        """See the protocol. There is no accounting."""
        return None

    def notify(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. Workloads here have nothing to save."""

    def stop(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol."""
        self.cluster().end(key, Outcome.STOPPED)

    def set_time_limit(self, key: str, time_limit_s: int, *, native_id: str | None = None) -> None:
        """See the protocol. Toy clusters end nothing at a limit."""

    def inventory(self) -> Inventory:
        """See the protocol."""
        cluster = self.cluster()
        nodes = tuple(
            NodeCapacity(f"toy-{n}", cluster.pool, self._options.gpus_per_node * 1000, True, "up")
            for n in range(cluster.node_count)
        )
        return Inventory(now_s(), nodes)

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
        """See the protocol. There are no logs."""
        raise LogUnavailable("Toy clusters keep no logs.")

    def forget(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol."""
        self.cluster().runs.pop(key, None)

    def cluster(self) -> ToyCluster:
        """The cluster. Raises ClusterUnavailable while nothing answers."""
        found = CLUSTERS.get(self._options.address)
        if found is None:
            raise ClusterUnavailable(f"No cluster answers at {self._options.address}.")
        return found


def _observation(key: str, run: ToyRun) -> Observation:
    has_ended = run.ended_at is not None
    return Observation(
        key=key,
        native_id=key,
        native_state="ended" if has_ended else "running",
        phase=WorkloadPhase.ENDED if has_ended else WorkloadPhase.RUNNING,
        submitted_at=run.started_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        released_at=run.ended_at,
        is_released=has_ended,
        outcome=run.outcome,
        exit_codes={0: 0} if run.outcome == Outcome.SUCCEEDED else {},
    )
