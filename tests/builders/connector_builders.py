"""Workloads for connectors, and waiting for what real processes do."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from connectors.protocol import (
    BatchLaunch,
    ClusterConnector,
    JobFiles,
    Observation,
    RankSlot,
    Workload,
    WorkloadPhase,
)
from connectors.registry import KINDS

Found = TypeVar("Found")

POLL_S = 0.01
DEADLINE_S = 60


def change_kind(monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any) -> None:
    """Give the registered kind of cluster `name` other fields, for one test."""
    monkeypatch.setitem(KINDS, name, replace(KINDS[name], **changes))


def a_key(prefix: str = "job") -> str:
    """A key that no other workload has."""
    return f"{prefix}-{uuid.uuid4().hex[:20]}"


def a_workload(
    script: str = "exit 0",
    *,
    key: str | None = None,
    ranks: int = 1,
    mgpu: int = 8000,
    node_prefix: str = "node-",
    slots: tuple[RankSlot, ...] | None = None,
    pool: str = "h100",
    user: str = "alice",
    environment: Mapping[str, str] | None = None,
    time_limit_s: int | None = None,
    notice_signal: str = "TERM",
    grace_s: int = 30,
    signal_ahead_s: int | None = None,
    signals_shell_only: bool = False,
    team: str = "",
    is_borrowed: bool = False,
    is_requeueable: bool = True,
    cluster_user: str | None = None,
    arguments: tuple[str, ...] = (),
    batch: BatchLaunch | None = None,
    files: JobFiles | None = None,
) -> Workload:
    """A workload of `ranks` whole nodes that succeeds at once unless `script` says otherwise."""
    if slots is None:
        slots = tuple(RankSlot(f"{node_prefix}{n:03d}", mgpu) for n in range(1, ranks + 1))
    return Workload(
        key=a_key() if key is None else key,
        name="a workload",
        pool=pool,
        user=user,
        script=script,
        slots=slots,
        environment=environment or {},
        time_limit_s=time_limit_s,
        notice_signal=notice_signal,
        grace_s=grace_s,
        signal_ahead_s=signal_ahead_s,
        signals_shell_only=signals_shell_only,
        team=team,
        is_borrowed=is_borrowed,
        is_requeueable=is_requeueable,
        cluster_user=cluster_user,
        arguments=arguments,
        batch=batch,
        files=files or JobFiles(),
    )


def eventually(
    look: Callable[[], Found | None],
    *,
    deadline_s: float = DEADLINE_S,
    told: Callable[[], object] | None = None,
) -> Found:
    """The first result of `look` that is true. Fails the test after `deadline_s`, with what is
    `told` then."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(POLL_S)
    raise AssertionError(f"not within {deadline_s} s: {told() if told else look}")


def lines(path: Path) -> list[str]:
    """Lines of a file that a job may not have written yet."""
    return path.read_text().splitlines() if path.exists() else []


def is_alive(pid: int) -> bool:
    """Whether process `pid` runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


#: What a job's shell says of its process, for `is_there`.
WHO_AM_I = "echo $$ $(readlink /proc/self/ns/pid)"


def is_there(who: str) -> bool:
    """Whether the process runs that said `who`: its number, and the name space that gave it."""
    number, _, space = who.partition(" ")
    if space == os.readlink("/proc/self/ns/pid"):
        return is_alive(int(number))
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            numbers = next(
                line for line in status.read_text().splitlines() if line.startswith("NSpid:")
            )
            is_it = numbers.split()[-1] == number
            if is_it and os.readlink(status.parent / "ns" / "pid") == space:
                return is_alive(int(status.parent.name))
        except (OSError, StopIteration):
            # It has just ended.
            continue
    return False


def observed(connector: ClusterConnector, key: str) -> Observation | None:
    """What the cluster says of `key` now."""
    return connector.observe().observations.get(key)


def until_running(connector: ClusterConnector, key: str) -> Observation:
    """Wait until every rank of `key` has been started."""

    def look() -> Observation | None:
        seen = observed(connector, key)
        return seen if seen and seen.phase is WorkloadPhase.RUNNING else None

    return eventually(look, told=lambda: observed(connector, key))


def until_released(
    connector: ClusterConnector, key: str, native_id: str | None = None
) -> Observation:
    """Wait until nothing of `key`, or of what was recorded for it as `native_id`, is left."""

    def look() -> Observation | None:
        seen = connector.observe().seen(key, native_id)
        return seen if seen and seen.is_released else None

    return eventually(look, told=lambda: connector.observe().all_of(key))


def whole_log(
    connector: ClusterConnector,
    key: str,
    *,
    rank: int = 0,
    stream: str = "stdout",
    cluster_user: str | None = None,
) -> str:
    """All that one stream of one rank holds now, read piece by piece."""
    data, offset = b"", 0
    while True:
        chunk = connector.read_log(
            key,
            rank=rank,
            stream=stream,
            offset=offset,
            limit=65_536,
            cluster_user=cluster_user,
        )
        data += chunk.data
        if chunk.next_offset == offset:
            return data.decode()
        offset = chunk.next_offset
