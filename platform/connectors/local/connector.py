"""This machine as a cluster: every attempt runs as real processes under its own supervisor.

All state is in files under the root (see `attempt_files`). So any number of portal processes may
use one root at the same time, and attempts go on without any of them. `prepare` creates the root
once and writes the cluster's name into it (see `identity`).

One rename of a finished directory creates an attempt. That rename decides between concurrent
submits, and between `submit` and `stop`. Every method that finds an unfinished attempt without a
supervisor starts one. So the next `observe` repairs whatever a killed process left undone.

An attempt that exits by itself after a notice keeps the outcome of its exit codes. Only `stop`
makes it `stopped`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from connectors.errors import ClusterUnavailable, LogUnavailable, NodeRefused, WorkloadRejected
from connectors.local import publishing
from connectors.local.allocations import MGPU_PER_DEVICE
from connectors.local.attempt_files import (
    STREAMS,
    AttemptFiles,
    CorruptRecord,
    has_ended,
    is_locked,
    wake,
    write_json,
)
from connectors.local.attempt_spec import read_spec
from connectors.local.draining import drain_node, drained_nodes, resume_node
from connectors.local.identity import NAME as IDENTITY_NAME
from connectors.local.identity import check_root, give_root
from connectors.local.isolation import UNISOLATED, Isolation, isolation_here
from connectors.local.log_caps import log_size
from connectors.local.log_times import log_times
from connectors.local.observing import AttemptReader
from connectors.local.options import LocalOptions, nodes_of, parse_options
from connectors.local.run_records import run_records
from connectors.local.supervising import start_supervisors
from connectors.protocol import (
    ClusterConnector,
    Inventory,
    Listing,
    LogChunk,
    NodeCapacity,
    Observation,
    Workload,
)
from connectors.workload_checks import check_key, check_workload

LOG_CHUNK_BYTES_MAX = 1 << 20
#: With fewer free bytes nothing is started: running attempts still need space for their records.
DISK_FREE_BYTES_MIN = 64 << 20
#: The most supervisors that one `observe` starts; the next one starts more.
_SUPERVISORS_PER_LISTING_MAX = 64


def open_local(
    options: Mapping[str, Any], cluster_id: str, known_as: Mapping[str, str] | None = None
) -> ClusterConnector:
    """Return the connector for `options` (see `connectors.local.options`), touching nothing yet.

    `known_as` is unused: the root contains the id of its cluster. Raises ValueError for bad
    options.
    """
    return LocalConnector(parse_options(options), cluster_id)


def check_local_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError for options that no local cluster can have. Touches nothing."""
    parse_options(options)


def first_inventory(connector: ClusterConnector) -> Inventory:
    """See `ClusterKind.first_inventory`."""
    assert isinstance(connector, LocalConnector)
    return connector.first_inventory()


class LocalConnector:
    """Implements `connectors.protocol.ClusterConnector`; safe to use from several threads."""

    def __init__(self, options: LocalOptions, cluster_id: str) -> None:
        self._options = options
        self._root = Path(options.root)
        self._cluster_id = cluster_id
        self._reader = AttemptReader()

    def prepare(self) -> None:
        """See the protocol. Creates the root, which belongs to this cluster from then on."""
        with self._unavailable_on_error(f"use {self._root}"):
            publishing.make_root(self._root)
            give_root(self._root, self._cluster_id)
            check_root(self._root, self._cluster_id)

    @property
    def _isolation(self) -> Isolation:
        """The strongest isolation that this machine allows, unless the option turns it off."""
        if not self._options.is_isolating:
            return UNISOLATED
        return isolation_here(self._options.uids[0])

    @property
    def submits_held(self) -> bool:
        """Return False: one rename decides which submission of a key counts."""
        return False

    @property
    def settle_s(self) -> int:
        """Return 0: an accepted attempt is on the disk."""
        return 0

    def submit(self, workload: Workload, *, is_first: bool = False) -> str:
        """See the protocol. A forgotten attempt is not started again."""
        check_workload(workload)
        if workload.image is not None:
            raise WorkloadRejected(
                f"this cluster runs no container images, and the job names {workload.image}"
            )
        files = self._files(workload.key)
        with self._at_the_root(f"keep {workload.key}"):
            if not os.path.isdir(files.path):
                if publishing.was_forgotten(self._root, workload.key):
                    return workload.key
                nodes = {node.name: node for node in nodes_of(self._options)}
                publishing.publish_workload(self._options, nodes, workload, self._isolation)
            self._supervise(files)
        return workload.key

    def release(self, key: str, native_id: str) -> None:
        """Do nothing: this cluster holds no workloads."""

    def remove_copy(self, key: str, native_id: str) -> None:
        """Do nothing: this cluster has no copies."""

    def observe(self) -> Listing:
        """See the protocol. Also starts a supervisor for attempts whose supervisor was killed."""
        observed_at = int(time.time())
        with self._at_the_root(f"list {self._root}"):
            found, orphans = self._reader.list(str(self._root / "attempts"))
            # Checked again: the listing is complete only if the root was ours until its end.
            check_root(self._root, self._cluster_id)
            problems = start_supervisors(orphans[:_SUPERVISORS_PER_LISTING_MAX])
            for path, problem in problems.items():
                key = os.path.basename(path)
                found[key] = dataclasses.replace(found[key], message=problem)
        return Listing(observed_at, found)

    def find_ended(self, key: str, native_id: str) -> Observation | None:
        """Return None: nothing remembers an attempt that is no longer listed."""
        return None

    def notify(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. The notice is sent once per attempt, however often it is requested."""
        files = self._files(check_key(key))
        with self._at_the_root(f"notify {key}"):
            self._request(files, files.notify_request)

    def stop(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. A key that was never submitted is listed as stopped from then on."""
        files = self._files(check_key(key))
        with self._at_the_root(f"stop {key}"):
            if not os.path.isdir(files.path):
                if publishing.was_forgotten(self._root, key):
                    return
                if publishing.publish_tombstone(self._root, key):
                    return
            self._request(files, files.stop_request)

    def set_time_limit(self, key: str, time_limit_s: int, *, native_id: str | None = None) -> None:
        """See the protocol. The supervisor reads the request before it gives its next notice."""
        files = self._files(check_key(key))
        with self._at_the_root(f"extend {key}"):
            self._request(files, files.limit_request, {"time_limit_s": time_limit_s})

    def inventory(self) -> Inventory:
        """See the protocol. Nodes in `<root>/drained.json` take no new work.

        While the disk is full, no node does: the start could not be recorded.
        """
        observed_at = int(time.time())
        with self._at_the_root(f"look at {self._root}"):
            drained = drained_nodes(self._root)
            is_full = shutil.disk_usage(self._root).free < DISK_FREE_BYTES_MIN
        return self._inventory(observed_at, drained, is_full=is_full)

    def first_inventory(self) -> Inventory:
        """See `ClusterKind.first_inventory`. Raises ClusterUnavailable for another's root."""
        with self._unavailable_on_error(f"look at {self._root}"):
            is_prepared = (self._root / IDENTITY_NAME).exists()
        if is_prepared:
            return self.inventory()
        return self._inventory(int(time.time()), {}, is_full=False)

    def _inventory(
        self, observed_at: int, drained: Mapping[str, str], *, is_full: bool
    ) -> Inventory:
        nodes = tuple(
            NodeCapacity(
                name=node.name,
                pool=node.pool,
                capacity_mgpu=node.devices * MGPU_PER_DEVICE,
                is_schedulable=node.name not in drained and not is_full,
                state="drained" if node.name in drained else "disk full" if is_full else "up",
                reason=drained.get(node.name, ""),
                features=node.features,
                domains=node.domains,
                device=node.device,
            )
            for node in nodes_of(self._options)
        )
        isolation = self._isolation
        return Inventory(
            observed_at, nodes, isolation=isolation.level.value, isolation_reason=isolation.why
        )

    def drain(self, node: str, reason: str) -> None:
        """See `connectors.node_control`."""
        with self._at_the_root(f"drain {node}"):
            self._check_node(node)
            drain_node(self._root, node, reason)

    def resume(self, node: str) -> None:
        """See `connectors.node_control`. Also for a node that this machine no longer has."""
        with self._at_the_root(f"resume {node}"):
            resume_node(self._root, node)

    def _check_node(self, node: str) -> None:
        if all(known.name != node for known in nodes_of(self._options)):
            raise NodeRefused(f"this cluster has no node {node[:80]!r}")

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
        """See the protocol. At most 1 MiB at once; from an offset past the end, no bytes."""
        files = self._files(check_key(key))
        if stream not in STREAMS:
            raise LogUnavailable(f"there is no stream {stream[:40]!r}; use stdout or stderr")
        path = files.log(rank, stream)
        with self._at_the_root(f"read the log of {key}"):
            return self._log_chunk(files, path, rank, offset, limit)

    def _log_chunk(
        self, files: AttemptFiles, path: str, rank: int, offset: int, limit: int
    ) -> LogChunk:
        # Checked before the size is read: a log that is complete now cannot grow until then.
        is_over = os.path.exists(files.rank(rank, "gone")) or os.path.exists(files.end)
        try:
            size, is_truncated = log_size(path, read_spec(files.spec).log_cap_bytes)
            start = max(0, size + offset) if offset < 0 else min(offset, size)
            with open(path, "rb") as file:
                file.seek(start)
                data = file.read(max(0, min(limit, LOG_CHUNK_BYTES_MAX, size - start)))
            end = start + len(data)
            times = log_times(path, start, end, is_watched=is_locked(files.supervisor_lock))
        except FileNotFoundError:
            name = os.path.basename(path)
            raise LogUnavailable(f"there is no {name} of this attempt, or not yet") from None
        except CorruptRecord as error:
            raise ClusterUnavailable(f"cannot read {path}: {error}") from error
        return LogChunk(data, start, end, is_over and end == size, is_truncated, times)

    def forget(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. A running attempt is left alone. Its work files go with an attempt."""
        check_key(key)
        with self._at_the_root(f"forget {key}"):
            publishing.forget_attempt(self._root, key)
            publishing.tidy_sometimes(self._root)

    def run_records(self) -> list[tuple[str, Mapping[str, object]]]:
        """Return key and summary of all attempts that began, for `connectors.local.accounts`.

        Raises ClusterUnavailable.
        """
        with self._at_the_root("read the records of its runs"):
            return list(run_records(self._root))

    @property
    def root(self) -> str:
        """Return the folder of the cluster."""
        return str(self._root)

    def files_of(self, key: str) -> AttemptFiles:
        """Return the files of the attempt `key`, which may not exist."""
        return self._files(check_key(key))

    def reading(self, what: str) -> AbstractContextManager[None]:
        """Raise ClusterUnavailable if the root is not this cluster's, or on an OSError inside."""
        return self._at_the_root(what)

    def _files(self, key: str) -> AttemptFiles:
        return AttemptFiles(str(self._root / "attempts" / key))

    def _request(
        self, files: AttemptFiles, path: str, record: Mapping[str, object] | None = None
    ) -> None:
        """Leave a request for the supervisor of an attempt that has not ended, and wake it."""
        with contextlib.suppress(FileNotFoundError):
            if not os.path.isdir(files.path) or has_ended(files):
                return
            if record is None:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            else:
                write_json(path, record)
            wake(files.control)
            self._supervise(files)

    def _supervise(self, files: AttemptFiles) -> None:
        for problem in start_supervisors([files]).values():
            raise ClusterUnavailable(problem)

    @contextlib.contextmanager
    def _at_the_root(self, what: str) -> Iterator[None]:
        """Raise ClusterUnavailable if the root is not this cluster's, or on an OSError inside."""
        with self._unavailable_on_error(what):
            check_root(self._root, self._cluster_id)
            yield

    @contextlib.contextmanager
    def _unavailable_on_error(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ClusterUnavailable(f"cannot {what}: {error}") from error
