"""Writes changes of objects to the cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from connectors.errors import ClusterUnavailable
from connectors.kubernetes.client.api import Conflict, KubeApi, KubeRefused, NotFound
from connectors.kubernetes.informers.caches import Caches
from connectors.kubernetes.objects.reading import Object
from connectors.kubernetes.objects.resources import resource_of


@contextlib.contextmanager
def insisting() -> Iterator[None]:
    """Do what no job's owner is to blame for. A refusal is the cluster's fault and must be fixed.

    Raises ClusterUnavailable instead of KubeRefused, except for NotFound and Conflict.
    """
    try:
        yield
    except (NotFound, Conflict):
        raise
    except KubeRefused as error:
        raise ClusterUnavailable(f"the cluster does not let us: {error}") from error


def path_to(item: Object) -> str:
    """Return the path of `item`."""
    return resource_of(item).path(item["metadata"]["namespace"], item["metadata"]["name"])


class Writer:
    """Changes objects, and adds the server's answers to the watched state."""

    def __init__(self, api: KubeApi, caches: Caches) -> None:
        self._api = api
        self._caches = caches

    def patch(self, path: str, patch: Mapping[str, Any]) -> None:
        """Write a patch and cache the answer. Raises NotFound."""
        try:
            with insisting():
                self._caches.took(self._api.merge_patch(path, patch))
        except Conflict as error:
            raise ClusterUnavailable(f"{path} has just changed: {error}") from error

    def delete(self, path: str, uid: str, *, grace_s: int | None = None) -> None:
        """Delete the object that has this uid. Raises ClusterUnavailable."""
        with insisting():
            self._api.delete(path, uid=uid, grace_s=grace_s, propagation="Background")
