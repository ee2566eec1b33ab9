"""A collection of a cluster, kept up to date by watches: one Reflector for each collection.

A list comes first, then watches that continue from it, each for some seconds. The list is repeated
every few minutes, and when the server cannot continue. Only a complete list or a deletion event
makes an object absent. Objects that we write are added at once (`offer`), before the watch reports
them.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from connectors.errors import ClusterUnavailable, ConnectorError
from connectors.kubernetes.client.api import Event, Forbidden, Gone, KubeList, NotFound, Watch

log = logging.getLogger(__name__)

Json = dict[str, Any]
#: Trims an object before it is cached; None for an object without use.
Trim = Callable[[Json], Json | None]
#: Called for each change with the cached object before and after, or None.
Changed = Callable[[Json | None, Json | None], None]

#: However well the watch works, the whole list is compared at least this often.
LIST_EVERY_S = 600.0
#: Seconds of silence after which a watch is no longer trusted.
SILENT_S = 30.0
#: How long a look waits for a watch that was dropped to be open again.
WAIT_S = 3.0
#: Seconds between two requests for a kind that the cluster does not know.
MISSING_AGAIN_S = 60.0
PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 5.0
#: Deleted objects that are remembered, so that a late answer does not bring them back.
_DELETED_MAX = 4_096


class Source(Protocol):
    """The part of `KubeApi` that this module needs."""

    def list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList: ...

    def watch(
        self, path: str, *, labels: str = "", fields: str = "", resource_version: str
    ) -> Watch: ...

    def version(self, path: str) -> int: ...


#: What to do about rights that are missing.
_LOAD_THE_ROLE = "load the deploy/kubernetes/role.yaml of this version on the cluster"


class Reflector:
    """The objects of the collection `path`, for several threads at once.

    A collection that `may_be_missing` is empty on a cluster that lacks the kind.
    """

    def __init__(
        self,
        api: Source,
        path: str,
        *,
        labels: str = "",
        trim: Trim = lambda found: found,
        changed: Changed = lambda before, now: None,
        may_be_missing: bool = False,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._path = path
        self._labels = labels
        self._trim = trim
        self._changed = changed
        self._may_be_missing = may_be_missing
        self._monotonic_s = monotonic_s
        # Its own generator: using the module's one would disturb callers that seed it.
        self._chance = random.Random()  # noqa: S311 - no secret
        self._condition = threading.Condition()
        # Held from a change until its callback has run, so that callbacks run in order. It is
        # always taken before the condition.
        self._reporting = threading.RLock()
        self._objects: dict[str, Json] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._version = ""
        self._listed_s = -float("inf")
        self._alive_s = -float("inf")
        self._is_open = self._is_missing = False
        self._stopping = threading.Event()
        self._watch: Watch | None = None
        self._thread: threading.Thread | None = None
        self._failure = "it was not listed yet"

    def start(self) -> None:
        """Begin, if it has not begun."""
        with self._condition:
            if self._thread is None and not self._stopping.is_set():
                name = "watch " + self._path.rsplit("/", 1)[-1]
                self._thread = threading.Thread(target=self._run, daemon=True, name=name)
                self._thread.start()

    def stop(self) -> None:
        """End the watch. Returns at once."""
        self._stopping.set()
        with self._condition:
            watch = self._watch
            self._condition.notify_all()
        if watch is not None:
            watch.close()

    def listed(self) -> tuple[Json, ...]:
        """Return the objects as the server lists them now. Raises ClusterUnavailable."""
        try:
            items = self._api.list(self._path, labels=self._labels).items
        except NotFound:
            if self._may_be_missing:
                return ()
            raise
        found = (self._trim(item) for item in items)
        return tuple(item for item in found if item is not None)

    @property
    def is_fresh(self) -> bool:
        """Return whether the known state is complete and current."""
        with self._condition:
            return self._is_fresh()

    def snapshot(self, wait_s: float = WAIT_S) -> tuple[Json, ...]:
        """Return all objects, in the order in which they were first seen.

        Raises ClusterUnavailable unless they are complete and the watch is open within `wait_s`.
        """
        with self._condition:
            if not self._condition.wait_for(self._is_fresh, timeout=wait_s):
                raise ClusterUnavailable(f"{self._path} cannot be watched: {self._failure}")
            return tuple(self._objects.values())

    def peek(self) -> tuple[Json, ...]:
        """Return the known objects, which may be old or incomplete."""
        with self._condition:
            return tuple(self._objects.values())

    def offer(self, found: Json) -> None:
        """Add an object that the server has just returned, unless a newer version is known."""
        uid = _uid(found)
        with self._reporting:
            with self._condition:
                if uid in self._deleted:
                    return
                kept = self._objects.get(uid)
                if kept is not None and _version(kept) >= _version(found):
                    return
            self._keep(found)

    def remove(self, found: Json) -> None:
        """Remove an object that the server has just deleted for us."""
        self._drop(found)

    def _run(self) -> None:
        pause_s = PAUSE_MIN_S
        while not self._stopping.is_set():
            try:
                self._follow()
                pause_s = PAUSE_MIN_S
                continue
            except Exception as error:
                # One invalid object must not end the watch of all others.
                if self._failed(error):
                    self._stopping.wait(MISSING_AGAIN_S)
                    continue
            if self._monotonic_s() - self._alive_s < PAUSE_MAX_S:
                pause_s = PAUSE_MIN_S
            # Jitter, so that the watches do not all reconnect at once when a server comes back.
            self._stopping.wait(pause_s * self._chance.uniform(0.5, 1.5))
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    def _failed(self, error: Exception) -> bool:
        """Note why the watch ended. Return True when there is no such collection."""
        if isinstance(error, NotFound) and self._may_be_missing:
            self._nothing_of_it()
            return True
        if not isinstance(error, ConnectorError):
            log.error("the watch over %s stumbled", self._path, exc_info=error)
        with self._condition:
            self._is_open = False
            if isinstance(error, Gone):
                self._failure = "the server has forgotten from where to go on"
            else:
                self._failure = str(error) if isinstance(error, ConnectorError) else repr(error)
                if isinstance(error, Forbidden) and error.is_for_all:
                    self._failure += f" ({_LOAD_THE_ROLE})"
            if isinstance(error, Gone) or not isinstance(error, ConnectorError):
                self._version = ""
        return False

    def _nothing_of_it(self) -> None:
        """Empty the collection, because the cluster does not have it."""
        for one in self.peek():
            self._drop(one)
        with self._condition:
            self._is_open = self._is_missing = True
            self._condition.notify_all()

    def _follow(self) -> None:
        """List if a list is due, then run one watch to its end."""
        if not self._version or self._monotonic_s() - self._listed_s > LIST_EVERY_S:
            self._list()
        elif not self._is_open and self._api.version(self._path) < int(self._version):
            # A restored server is silent until it has caught up, because all known objects are
            # newer than its own.
            for one in self.peek():
                self._drop(one)
            with self._condition:
                # Objects whose deletion it has forgotten exist again.
                self._deleted.clear()
            self._list()
        watch = self._api.watch(self._path, labels=self._labels, resource_version=self._version)
        with self._condition:
            self._watch = watch
            self._is_open, self._is_missing = True, False
            self._alive_s = self._monotonic_s()
            self._condition.notify_all()
        try:
            if self._stopping.is_set():
                return
            for event in watch:
                self._apply(event)
        finally:
            watch.close()
            with self._condition:
                self._watch = None

    def _list(self) -> None:
        listed = self._api.list(self._path, labels=self._labels)
        found = {_uid(one): one for one in listed.items}
        listed_version = int(listed.resource_version)
        with self._condition:
            # Objects offered meanwhile are newer than the list, and the watch will report them.
            gone = [
                one
                for uid, one in self._objects.items()
                if uid not in found and _version(one) <= listed_version
            ]
            versions = {uid: _version(one) for uid, one in self._objects.items()}
        for one in gone:
            self._drop(one)
        for uid, one in found.items():
            if versions.get(uid) != _version(one):
                self._keep(one)
        with self._condition:
            self._version = listed.resource_version
            self._listed_s = self._alive_s = self._monotonic_s()

    def _apply(self, event: Event) -> None:
        if event.kind == "DELETED":
            self._drop(event.object)
        elif event.kind != "BOOKMARK":
            self._keep(event.object)
        with self._condition:
            self._version = str(event.object["metadata"]["resourceVersion"])
            self._alive_s = self._monotonic_s()

    def _keep(self, found: Json) -> None:
        uid = _uid(found)
        kept = self._trim(found)
        with self._reporting:
            with self._condition:
                before = self._objects.get(uid)
                if before is not None and _version(before) > _version(found):
                    return
                if kept is not None:
                    self._objects[uid] = kept
                elif before is not None:
                    del self._objects[uid]
            if kept is not None or before is not None:
                self._changed(before, kept)

    def _drop(self, found: Json) -> None:
        uid = _uid(found)
        with self._reporting:
            with self._condition:
                before = self._objects.pop(uid, None)
                self._deleted[uid] = None
                if len(self._deleted) > _DELETED_MAX:
                    self._deleted.popitem(last=False)
            if before is not None:
                # Only the deletion event has its last state.
                self._changed(self._trim(found) or before, None)

    def _is_fresh(self) -> bool:
        is_heard = bool(self._version) and self._monotonic_s() - self._alive_s <= SILENT_S
        return self._is_open and (is_heard or self._is_missing)


def _uid(found: Mapping[str, Any]) -> str:
    return str(found["metadata"]["uid"])


def _version(found: Mapping[str, Any]) -> int:
    """Return the version, a growing number within a kind (guaranteed since Kubernetes 1.35)."""
    return int(found["metadata"].get("resourceVersion", 0))
