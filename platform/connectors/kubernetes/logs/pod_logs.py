"""The log of one Pod: what the Pod says of it, and how far the keeping of it is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from connectors.kubernetes.logs.log_files import RANKS_MAX
from connectors.kubernetes.logs.log_positions import Position
from connectors.kubernetes.objects.naming import CONTAINER, CONTAINERS
from connectors.kubernetes.objects.reading import Object, Odd, needed, part, parts, text

#: The longest pause between two readings of a log.
AGAIN_MAX_S = 60.0
_DOUBLED_MAX = 16


class LogSource(Protocol):
    """Where logs come from; `api.KubeApi` is one."""

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, silence_s: float = ...
    ) -> LogStream:
        """See `api.KubeApi.stream`."""
        ...


class LogStream(Protocol):
    """See `api.Stream`."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """End it, from any thread."""
        ...


@dataclass(slots=True)
class PodLog:
    """The log of one Pod. `stream` is what is being read of it just now."""

    key: str
    rank: int
    uid: str
    path: str
    container: str = CONTAINER
    is_started: bool = False
    is_ended: bool = False
    is_gone: bool = False
    #: It was among all Pods once: where it is no longer, it is gone.
    was_told: bool = False
    is_urgent: bool = False
    is_complete: bool = False
    is_busy: bool = False
    is_followed: bool = False
    ended_at_s: float = 0.0
    heard_at_s: float = 0.0
    next_at_s: float = 0.0
    stream: LogStream | None = None
    is_stopped: bool = False
    has_begun: bool = False
    ended_before: bool = False
    #: So many readings in a row told nothing and ended at once.
    in_vain: int = 0


def log_of(key: str, rank: int, pod: Object) -> PodLog:
    """What the Pod says of its log. Raises Odd."""
    namespace, name = needed(pod, "metadata", "namespace"), needed(pod, "metadata", "name")
    phase = text(pod, "status", "phase")
    states = [part(one, "state") for one in parts(pod, "status", "containerStatuses")]
    is_ended = phase in ("Succeeded", "Failed") or (
        bool(states) and all("terminated" in state for state in states)
    )
    if not 0 <= rank < RANKS_MAX:
        raise Odd("the rank is no rank")
    now = time.monotonic()
    return PodLog(
        key=key,
        rank=rank,
        uid=needed(pod, "metadata", "uid"),
        path=f"/api/v1/namespaces/{namespace}/pods/{name}",
        container=_container_of(pod),
        is_started=is_ended or any(state.keys() & {"running", "terminated"} for state in states),
        is_ended=is_ended,
        is_urgent=bool(text(pod, "metadata", "deletionTimestamp")),
        ended_at_s=now if is_ended else 0.0,
        heard_at_s=now,
    )


def _container_of(pod: Object) -> str:
    """The name of the container that runs the script: some operators want one of their own."""
    names = [text(one, "name") for one in parts(pod, "spec", "containers")]
    return next((name for name in names if name in CONTAINERS), CONTAINER)


def query_of(container: str, position: Position, *, is_following: bool) -> dict[str, str]:
    """How the API server is asked for what comes after `position`."""
    query = {"container": container, "timestamps": "true"}
    if is_following:
        query["follow"] = "true"
    since = position.since()
    return query if since is None else {**query, "sinceTime": since}


def is_open(one: PodLog) -> bool:
    """Whether there is something to read, now or later."""
    return not one.is_complete and (one.is_started or one.is_ended)


def note_end(one: PodLog, *, is_ended: bool) -> None:
    """Whether its Pod has ended: the rest of it is fetched at once."""
    if is_ended and not one.is_ended:
        one.is_ended = True
        one.next_at_s = 0.0
        one.in_vain = 0
        one.ended_at_s = one.heard_at_s = time.monotonic()


def take_over(known: PodLog, new: PodLog) -> None:
    """`new` is what its Pod says now."""
    known.is_started = known.is_started or new.is_started
    known.is_urgent = new.is_urgent
    note_end(known, is_ended=new.is_ended)


def stop(one: PodLog) -> None:
    """End what is being read of it just now."""
    if one.stream is not None:
        one.is_stopped = True
        one.stream.close()


def pause_after(one: PodLog, *, began_s: float, now_s: float, again_s: float) -> float:
    """Count a reading of a log from `began_s` to `now_s`; returns for how many seconds the log is
    left alone.

    `again_s`, and twice as long after each reading that ended at once and told nothing, up to
    `AGAIN_MAX_S`: where a node gives no logs, hundreds of Pods would be asked for every second.
    """
    if one.heard_at_s >= began_s or now_s - began_s >= AGAIN_MAX_S:
        one.in_vain = 0
    pause_s = min(again_s * (1 << one.in_vain), AGAIN_MAX_S)
    one.in_vain = min(one.in_vain + 1, _DOUBLED_MAX)
    return pause_s
