"""Which objects, Workloads and Pods on the cluster belong to which of our attempts.

Fed by the reflectors, for several threads at once. An attempt is found by the uid of its object;
two objects of one key are two attempts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes import naming

Json = dict[str, Any]
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One object of ours with what Kueue and the cluster made of it."""

    key: str
    item: Json
    workload: Json | None
    pods: tuple[Json, ...]

    @property
    def uid(self) -> str:
        """What no other object ever has."""
        return str(self.item["metadata"]["uid"])


class Attempts:
    """All attempts that are known now, and which of them have news."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._condition = threading.Condition()
        self._items: dict[str, Json] = {}
        self._of_key: dict[str, set[str]] = {}
        # By the uid of the owner, and then by their own.
        self._workloads: dict[str, dict[str, Json]] = {}
        # By namespace and key, and then by their own uid.
        self._pods: dict[tuple[str, str], dict[str, Json]] = {}
        self._touched: set[str] = set()

    def item_changed(self, before: Json | None, now: Json | None) -> None:
        """An object of a kind that attempts may have: ours or not."""
        found = now or before
        if found is None or (key := naming.key_of(found, self._cluster_id)) is None:
            return
        uid = _uid(found)
        with self._condition:
            if now is not None:
                self._items[uid] = now
                self._of_key.setdefault(key, set()).add(uid)
                self._touch(uid)
            else:
                self._items.pop(uid, None)
                of_key = self._of_key.get(key, set())
                of_key.discard(uid)
                if not of_key:
                    self._of_key.pop(key, None)

    def workload_changed(self, before: Json | None, now: Json | None) -> None:
        """A Workload of Kueue, of anybody's."""
        found = now or before
        if found is None:
            return
        with self._condition:
            for owner in found["metadata"].get("ownerReferences") or ():
                owned = self._workloads.setdefault(owner["uid"], {})
                if now is not None:
                    owned[_uid(found)] = now
                else:
                    owned.pop(_uid(found), None)
                if not owned:
                    del self._workloads[owner["uid"]]
                self._touch(owner["uid"])

    def pod_changed(self, before: Json | None, now: Json | None) -> None:
        """A Pod of anybody's."""
        found = now or before
        if found is None or (key := naming.key_of(found, self._cluster_id)) is None:
            return
        where = (found["metadata"]["namespace"], key)
        with self._condition:
            pods = self._pods.setdefault(where, {})
            if now is not None:
                pods[_uid(found)] = now
            else:
                pods.pop(_uid(found), None)
            if not pods:
                del self._pods[where]
            for uid in self._of_key.get(key, ()):
                self._touch(uid)

    def of_key(self, key: str) -> tuple[Attempt, ...]:
        """All attempts of `key`."""
        with self._condition:
            return tuple(self._attempt(uid) for uid in self._of_key.get(key, ()))

    def of_uid(self, uid: str) -> Attempt | None:
        """The attempt whose object has this uid."""
        with self._condition:
            return self._attempt(uid) if uid in self._items else None

    def uids(self) -> tuple[str, ...]:
        """Every attempt that is known."""
        with self._condition:
            return tuple(self._items)

    def touched(self, timeout_s: float) -> frozenset[str]:
        """The attempts with news since the last call; waits for some for so long."""
        with self._condition:
            self._condition.wait_for(lambda: bool(self._touched), timeout=timeout_s)
            touched, self._touched = frozenset(self._touched), set()
            return touched & self._items.keys()

    def touch(self, uid: str) -> None:
        """The attempt is to be looked at again."""
        with self._condition:
            self._touch(uid)

    def _touch(self, uid: str) -> None:
        self._touched.add(uid)
        self._condition.notify_all()

    def _attempt(self, uid: str) -> Attempt:
        item = self._items[uid]
        key = naming.key_of(item, self._cluster_id) or ""
        namespace = item["metadata"]["namespace"]
        # One that Kueue replaces may still be there for a moment; one of another namespace only
        # says that it is its.
        newest = max(
            (
                one
                for one in self._workloads.get(uid, {}).values()
                if one["metadata"]["namespace"] == namespace
            ),
            key=_version,
            default=None,
        )
        pods = self._pods.get((namespace, key), {})
        return Attempt(key, item, newest, tuple(pods.values()))


def _uid(found: Object) -> str:
    return str(found["metadata"]["uid"])


def _version(found: Object) -> int:
    return int(found["metadata"]["resourceVersion"])
