"""The log of one Pod: the state of the Pod, and the progress of storing it."""

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
    """A source of logs, such as `api.KubeApi`."""

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
    """The log of one Pod. `stream` is the stream that is being read now."""

    key: str
    rank: int
    uid: str
    path: str
    container: str = CONTAINER
    is_started: bool = False
    is_ended: bool = False
    is_gone: bool = False
    #: A list of all Pods has contained it: if a later list does not, it is gone.
    was_listed: bool = False
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
    #: The number of consecutive readings that ended at once without data.
    in_vain: int = 0


def log_of(key: str, rank: int, pod: Object) -> PodLog:
    """Return the log of a Pod, from the Pod's status. Raises Odd."""
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
    """Return the name of the container that runs the script; some operators dictate it.

    In the Pods of a manifest it is the first container.
    """
    names = [text(one, "name") for one in parts(pod, "spec", "containers")]
    return next((name for name in names if name in CONTAINERS), (names or [CONTAINER])[0])


def query_of(container: str, position: Position, *, is_following: bool) -> dict[str, str]:
    """Return the query for the output after `position`."""
    query = {"container": container, "timestamps": "true"}
    if is_following:
        query["follow"] = "true"
    since = position.since()
    return query if since is None else {**query, "sinceTime": since}


def is_open(one: PodLog) -> bool:
    """Return whether there is something to read, now or later."""
    return not one.is_complete and (one.is_started or one.is_ended)


def note_end(one: PodLog, *, is_ended: bool) -> None:
    """Note that its Pod has ended, so that the rest is fetched at once."""
    if is_ended and not one.is_ended:
        one.is_ended = True
        one.next_at_s = 0.0
        one.in_vain = 0
        one.ended_at_s = one.heard_at_s = time.monotonic()


def take_over(known: PodLog, new: PodLog) -> None:
    """Update `known` from `new`, the current status of its Pod."""
    known.is_started = known.is_started or new.is_started
    known.is_urgent = new.is_urgent
    note_end(known, is_ended=new.is_ended)


def stop(one: PodLog) -> None:
    """End the stream that is being read now."""
    if one.stream is not None:
        one.is_stopped = True
        one.stream.close()


def pause_after(one: PodLog, *, began_s: float, now_s: float, again_s: float) -> float:
    """Count a reading of a log from `began_s` to `now_s`. Return the seconds to its next reading.

    The pause is `again_s`. It doubles after each reading that ended at once without data, up to
    `AGAIN_MAX_S`. Otherwise a node without logs would cause requests for hundreds of Pods every
    second.
    """
    if one.heard_at_s >= began_s or now_s - began_s >= AGAIN_MAX_S:
        one.in_vain = 0
    pause_s = min(again_s * (1 << one.in_vain), AGAIN_MAX_S)
    one.in_vain = min(one.in_vain + 1, _DOUBLED_MAX)
    return pause_s
