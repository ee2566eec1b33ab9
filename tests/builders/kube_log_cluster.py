"""A cluster whose Pods write what a test says, and a keeper of their logs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.kubernetes.client.api import NotFound
from connectors.kubernetes.logs.log_keeping import LogKeeper
from connectors.kubernetes.logs.log_reading import read_log
from connectors.kubernetes.logs.pod_logs import LogStream
from connectors.kubernetes.objects import naming
from connectors.protocol import LogChunk

NANOS = 1_000_000_000


START = 1_795_294_377


CLUSTER = "a-cluster"


NAMESPACE = "tg-0123456789abcdef"


class FakePod:
    """A Pod that writes what the test says, as its node tells it."""

    def __init__(self, name: str, *, key: str = "tg-a", rank: int = 0) -> None:
        self.name, self.key, self.rank = name, key, rank
        self.container = "main"
        self.lines: list[tuple[int, bytes]] = []
        self.state = "running"
        self.is_deleting = False

    def writes(self, *texts: str, second: int | None = None) -> None:
        """Lines of one moment, by default the next second's."""
        at = START + len(self.lines) if second is None else second
        self.lines += [(at * NANOS, text.encode()) for text in texts]

    def seen(self) -> tuple[str, int, Mapping[str, Any]]:
        """As `cluster_state.pods_of_ours` tells it."""
        return self.key, self.rank, self.as_listed()

    def as_listed(self) -> dict[str, Any]:
        """As the API server sends it."""
        metadata: dict[str, Any] = {
            "name": self.name,
            "namespace": NAMESPACE,
            "uid": f"uid-{self.name}",
            "labels": {
                naming.CLUSTER: naming.cluster_label(CLUSTER),
                naming.ROLE: naming.ROLE_RANK,
                naming.INDEX_OF_JOB: str(self.rank),
            },
            "annotations": {naming.KEY: self.key},
        }
        if self.is_deleting:
            metadata["deletionTimestamp"] = "2026-11-21T20:00:00Z"
        phase = {"running": "Running", "waiting": "Pending", "terminated": "Succeeded"}[self.state]
        status = {
            "phase": phase,
            "containerStatuses": [{"name": self.container, "state": {self.state: {}}}],
        }
        spec = {"containers": [{"name": "a-sidecar"}, {"name": self.container}]}
        return {"metadata": metadata, "spec": spec, "status": status}


class FakeStream:
    """A log as it comes; followed, it ends with its Pod or when it is closed."""

    def __init__(self, cluster: FakeCluster, pod: FakePod, query: Mapping[str, str]) -> None:
        self._cluster, self._pod, self._query = cluster, pod, query
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        since = self._query.get("sinceTime")
        first = 0 if since is None else int(datetime.fromisoformat(since).timestamp())
        sent = 0
        while True:
            with self._cluster.changed:
                if self.is_closed:
                    raise ClusterUnavailable("closed")
                new = self._pod.lines[sent:]
                sent += len(new)
                is_over = self._pod.state == "terminated" and not self._cluster.hangs
                is_over = is_over or "follow" not in self._query
                if not new and not is_over:
                    self._cluster.changed.wait(1)
            for nano, text in new:
                if nano // NANOS >= first:
                    moment = datetime.fromtimestamp(nano // NANOS, UTC)
                    yield f"{moment:%Y-%m-%dT%H:%M:%S}.{nano % NANOS:09d}Z ".encode() + text
                    if self._cluster.breaks_after > 0:
                        self._cluster.breaks_after -= 1
                        if self._cluster.breaks_after == 0:
                            raise ClusterUnavailable("the connection broke")
            if is_over and not new:
                return

    def close(self) -> None:
        with self._cluster.changed:
            self.is_closed = True
            self._cluster.changed.notify_all()


class FakeCluster:
    """Where logs are asked for. `asked` are the requests: Pod, and whether it was followed."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.pods: dict[str, FakePod] = {}
        self.asked: list[tuple[str, bool, str | None]] = []
        self.breaks_after = 0
        self.hangs = False
        self.refusal: Exception | None = None

    def pod(self, name: str, *, key: str = "tg-a", rank: int = 0) -> FakePod:
        """A Pod that runs."""
        self.pods[name] = FakePod(name, key=key, rank=rank)
        return self.pods[name]

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, silence_s: float = 10
    ) -> LogStream:
        """See `pod_logs.LogSource`."""
        name = path.removesuffix("/log").rpartition("/")[2]
        assert path == f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/log"
        assert query is not None
        assert query["timestamps"] == "true"
        if name in self.pods:
            assert query["container"] == self.pods[name].container
        with self.changed:
            self.asked.append((name, "follow" in query, query.get("sinceTime")))
        if self.refusal is not None:
            raise self.refusal
        if name not in self.pods:
            raise NotFound(404, "NotFound", "gone", ())
        return FakeStream(self, self.pods[name], query)

    def told(self, change: Callable[[], None]) -> None:
        """Change Pods while they are followed."""
        with self.changed:
            change()
            self.changed.notify_all()


@pytest.fixture
def cluster() -> FakeCluster:
    """Without Pods yet."""
    return FakeCluster()


@pytest.fixture
def keeper_of(cluster: FakeCluster, tmp_path: Path) -> Iterator[Callable[..., LogKeeper]]:
    """Opens keepers of that cluster's logs, which are closed after the test."""
    keepers: list[LogKeeper] = []

    def open_one(*, cap_bytes: int = 1 << 20, root: Path = tmp_path / "logs") -> LogKeeper:
        keeper = LogKeeper(cluster, root=str(root), cluster_id=CLUSTER, cap_bytes=cap_bytes)
        keepers.append(keeper)
        return keeper

    yield open_one
    for keeper in keepers:
        keeper.close()


def chunk_of(tmp_path: Path, key: str = "tg-a", *, rank: int = 0, offset: int = 0) -> LogChunk:
    """What is kept of a rank's log."""
    return read_log(
        str(tmp_path / "logs"), key, rank=rank, stream="stdout", offset=offset, limit=1 << 20
    )


def eventually(true: Callable[[], bool], within_s: float = 10) -> None:
    """Wait until it is so."""
    until = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < until, "it never was so"
        time.sleep(0.005)


def is_there(tmp_path: Path, data: bytes, key: str = "tg-a", *, rank: int = 0) -> bool:
    """Whether this is what is kept of a rank's log."""
    try:
        return chunk_of(tmp_path, key, rank=rank).data == data
    except LogUnavailable:
        return False


def tend(keeper: LogKeeper, *pods: FakePod) -> None:
    """Show the keeper these Pods, and no others."""
    keeper.tend([pod.seen() for pod in pods])
