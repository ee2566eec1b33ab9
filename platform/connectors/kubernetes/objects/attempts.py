"""Joins objects, Workloads and Pods on the cluster into our attempts.

The reflectors feed it; it is for several threads at once. The uid of its object identifies an
attempt. Two objects of one key are two attempts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import JOBSET_UID

Json = dict[str, Any]
Object = Mapping[str, Any]

#: The most deleted Pods whose last state is remembered.
_GONE_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One object of ours with its Workload and Pods."""

    key: str
    item: Json
    workload: Json | None
    pods: tuple[Json, ...]

    @property
    def uid(self) -> str:
        """The uid of the object, which is globally unique."""
        return str(self.item["metadata"]["uid"])


class Attempts:
    """All known attempts, and which of them have news."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._condition = threading.Condition()
        self._items: dict[str, Json] = {}
        self._of_key: dict[str, set[str]] = {}
        # By the uid of the owner, and then by their own.
        self._workloads: dict[str, dict[str, Json]] = {}
        # By namespace and key, and then by their own uid.
        self._pods: dict[tuple[str, str], dict[str, Json]] = {}
        # The deleted ones, with the same keys: only they have the ends of their ranks.
        self._gone: OrderedDict[tuple[str, str], dict[str, Json]] = OrderedDict()
        self._gone_count = 0
        self._touched: set[str] = set()

    def item_changed(self, before: Json | None, now: Json | None) -> None:
        """Process a changed object of a kind that attempts may have, ours or not.

        An object that loses our mark counts as removed. An object with a controller is never an
        attempt, because anybody's template may have given it these labels.
        """
        found = now or before
        if found is None:
            return
        uid = _uid(found)
        key = None if has_controller(found) else self._key(now)
        with self._condition:
            if key is None or self._key(self._items.get(uid)) != key:
                self._remove_item(uid)
            if now is not None and key is not None:
                self._items[uid] = now
                self._of_key.setdefault(key, set()).add(uid)
                self._touch(uid)

    def workload_changed(self, before: Json | None, now: Json | None) -> None:
        """Process a changed Workload of Kueue, ours or not."""
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
        """Process a changed Pod, ours or not."""
        known, key = self._key(before), self._key(now)
        with self._condition:
            if before is not None and known is not None and known != key:
                where = (before["metadata"]["namespace"], known)
                pods = self._pods.get(where, {})
                pods.pop(_uid(before), None)
                if not pods:
                    self._pods.pop(where, None)
                if now is None:
                    self._remember_gone(where, before)
            if now is not None and key is not None:
                where = (now["metadata"]["namespace"], key)
                self._pods.setdefault(where, {})[_uid(now)] = now
            for changed in {known, key} - {None}:
                for uid in self._of_key.get(str(changed), ()):
                    self._touch(uid)

    def gone_pods(self) -> tuple[Json, ...]:
        """Return the last states of deleted Pods, until their object is gone too."""
        with self._condition:
            return tuple(pod for pods in self._gone.values() for pod in pods.values())

    def forget_without_object(self) -> None:
        """Forget deleted Pods that outlived their object. All objects must be known."""
        with self._condition:
            for where in [where for where in self._gone if not self._has_item(*where)]:
                self._forget_gone(where)

    def has_pod(self, pod: Json) -> bool:
        """Return whether the Pod belongs directly to the object of an attempt.

        Pods of objects in between are found only by a look at the cluster.
        """
        metadata = pod["metadata"]
        owners = {one.get("uid") for one in metadata.get("ownerReferences") or ()}
        owners.add((metadata.get("labels") or {}).get(JOBSET_UID))
        key = naming.key_of(pod, self._cluster_id)
        with self._condition:
            items = [self._items[uid] for uid in owners & self._items.keys()]
        return key is not None and any(
            item["metadata"]["namespace"] == metadata["namespace"]
            and naming.key_of(item, self._cluster_id) == key
            for item in items
        )

    def knows(self, uid: str) -> bool:
        """Return whether an attempt's object has this uid."""
        with self._condition:
            return uid in self._items

    def of_key(self, key: str) -> tuple[Attempt, ...]:
        """Return all attempts of `key`."""
        with self._condition:
            return tuple(self._attempt(uid) for uid in self._of_key.get(key, ()))

    def of_uid(self, uid: str) -> Attempt | None:
        """Return the attempt whose object has this uid."""
        with self._condition:
            return self._attempt(uid) if uid in self._items else None

    def uids(self) -> tuple[str, ...]:
        """Return the uids of all known attempts."""
        with self._condition:
            return tuple(self._items)

    def touched(self, timeout_s: float) -> frozenset[str]:
        """Wait up to `timeout_s` for attempts with news since the last call, and return them."""
        with self._condition:
            self._condition.wait_for(lambda: bool(self._touched), timeout=timeout_s)
            touched, self._touched = frozenset(self._touched), set()
            return touched & self._items.keys()

    def touch(self, uid: str) -> None:
        """Mark the attempt as having news."""
        with self._condition:
            self._touch(uid)

    def _key(self, found: Json | None) -> str | None:
        return None if found is None else naming.key_of(found, self._cluster_id)

    def _remove_item(self, uid: str) -> None:
        item = self._items.pop(uid, None)
        key = self._key(item)
        if item is None or key is None:
            return
        of_key = self._of_key[key]
        of_key.discard(uid)
        if not of_key:
            del self._of_key[key]
        namespace = item["metadata"]["namespace"]
        if not self._has_item(namespace, key):
            self._forget_gone((namespace, key))

    def _has_item(self, namespace: str, key: str) -> bool:
        return any(
            self._items[uid]["metadata"]["namespace"] == namespace
            for uid in self._of_key.get(key, ())
        )

    def _remember_gone(self, where: tuple[str, str], pod: Json) -> None:
        pods = self._gone.setdefault(where, {})
        self._gone_count += _uid(pod) not in pods
        pods[_uid(pod)] = pod
        while self._gone_count > _GONE_MAX:
            self._forget_gone(next(iter(self._gone)))

    def _forget_gone(self, where: tuple[str, str]) -> None:
        self._gone_count -= len(self._gone.pop(where, {}))

    def _touch(self, uid: str) -> None:
        self._touched.add(uid)
        self._condition.notify_all()

    def _attempt(self, uid: str) -> Attempt:
        item = self._items[uid]
        key = naming.key_of(item, self._cluster_id) or ""
        namespace = item["metadata"]["namespace"]
        # A Workload that Kueue replaces may still exist for a moment. One in another namespace only
        # claims to belong to the object.
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


def has_controller(found: Object) -> bool:
    """Return whether the object belongs to another one that created it."""
    owners = found["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") is True for one in owners)


def _uid(found: Object) -> str:
    return str(found["metadata"]["uid"])


def _version(found: Object) -> int:
    return int(found["metadata"]["resourceVersion"])
