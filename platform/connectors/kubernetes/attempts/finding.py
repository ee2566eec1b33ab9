"""Finds the attempts of a key on the cluster, in the watches or, if they are silent, by request."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from connectors.kubernetes.admission.admission_check import KUEUE_VERSION, is_owned_by
from connectors.kubernetes.client.api import KubeApi, NotFound
from connectors.kubernetes.informers.caches import Caches, trimmed
from connectors.kubernetes.informers.writing import path_to
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.attempts import Attempt, has_controller
from connectors.kubernetes.objects.reading import Object
from connectors.kubernetes.objects.resources import OF_MANIFESTS, POD, Resource, resource_of
from connectors.kubernetes.options.options import KubernetesOptions


class Finder:
    """Finds attempts and their Pods."""

    def __init__(
        self, api: KubeApi, caches: Caches, options: KubernetesOptions, cluster_id: str
    ) -> None:
        self._api = api
        self._caches = caches
        self._options = options
        self._cluster_id = cluster_id

    def attempt_of(self, key: str, native_id: str) -> Attempt | None:
        """Return the attempt of `key` with this uid; None where the cluster has none."""
        if self._caches.is_fresh:
            attempt = self._caches.attempts.of_uid(native_id)
            return attempt if attempt is not None and attempt.key == key else None
        found = self.attempts_of(key)
        return next((attempt for attempt in found if attempt.uid == native_id), None)

    def attempts_of(self, key: str) -> tuple[Attempt, ...]:
        """Return every attempt of `key` on the cluster.

        It asks the server when the watches know none, or are not fresh. Raises ClusterUnavailable.
        """
        is_fresh = self._caches.is_fresh
        known = self._caches.attempts.of_key(key)
        if known and is_fresh:
            return known
        items = [*self._of_kinds(naming.workload_name(key)), *self._of_earlier_kinds(known)]
        found: list[Attempt] = []
        for item in items:
            if naming.key_of(item, self._cluster_id) == key and not has_controller(item):
                self._caches.took(item)
                found.append(self._joined(key, item))
        return tuple(found)

    def pods_in(self, namespace: str) -> Sequence[dict[str, Any]]:
        """Return the Pods of all attempts in a namespace, as the server lists them now."""
        selector = naming.selector(self._cluster_id)
        return self._api.list(POD.collection(namespace), labels=selector).items

    def _kinds(self) -> tuple[Resource, ...]:
        """Return the kinds of new objects: that of the option, and those of manifests."""
        own = self._options.resource
        if not self._options.has_kueue:
            return (own,)
        return (own, *(kind for kind in OF_MANIFESTS if kind is not own))

    def _of_kinds(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield our objects with this name."""
        for kind in self._kinds():
            try:
                yield from self._api.list(
                    kind.collection(),
                    labels=naming.selector(self._cluster_id),
                    fields=f"metadata.name={name}",
                ).items
            except NotFound:
                # The operator of a manifest's kind may not be installed.
                if kind is self._options.resource:
                    raise

    def _of_earlier_kinds(self, known: Sequence[Attempt]) -> Iterator[dict[str, Any]]:
        """Yield the current objects of `known` attempts that an earlier option `kind` made."""
        for attempt in known:
            if resource_of(attempt.item) not in self._kinds():
                with contextlib.suppress(NotFound):
                    now = self._api.get(path_to(attempt.item))
                    if now["metadata"]["uid"] == attempt.uid:
                        yield now

    def _joined(self, key: str, item: Object) -> Attempt:
        workload = None
        if self._options.has_kueue:
            workload = next(
                (
                    one
                    for one in self._api.list(
                        f"/apis/{KUEUE_VERSION}/namespaces/{item['metadata']['namespace']}/workloads",
                        labels=f"kueue.x-k8s.io/job-uid={item['metadata']['uid']}",
                    ).items
                    if is_owned_by(one, item)
                ),
                None,
            )
        attempt = Attempt(key, trimmed(item), workload, ())
        return replace(attempt, pods=self._pods_of(attempt))

    def _pods_of(self, attempt: Attempt) -> tuple[dict[str, Any], ...]:
        """Return its Pods, as the server lists them now."""
        listed = self.pods_in(attempt.item["metadata"]["namespace"])
        return tuple(pod for pod in listed if naming.key_of(pod, self._cluster_id) == attempt.key)


def in_same_namespace(attempts: Sequence[Attempt], native_id: str | None) -> tuple[Attempt, ...]:
    """Return the recorded attempt of one key, and the other attempts in its namespace.

    Anybody can write the key onto an object of another namespace. Such an object must not block
    anything.
    """
    where = {one.item["metadata"]["namespace"] for one in attempts if one.uid == native_id}
    return tuple(one for one in attempts if one.item["metadata"]["namespace"] in where)
