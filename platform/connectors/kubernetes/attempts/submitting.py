"""Creates the objects of an attempt once, however often the call is repeated."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.errors import ClusterUnavailable, NotPrepared, WorkloadRejected
from connectors.kubernetes.admission.token_secrets import TokenWatch
from connectors.kubernetes.client.api import (
    AlreadyExists,
    Conflict,
    Forbidden,
    KubeApi,
    KubeRefused,
    NotFound,
)
from connectors.kubernetes.informers.caches import Caches
from connectors.kubernetes.informers.writing import insisting
from connectors.kubernetes.manifests.building import (
    check_manifest_sizes,
    objects_for,
    owned,
    owner_patch,
)
from connectors.kubernetes.nodes.inventory import nodes_of
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.adoption import is_as_made
from connectors.kubernetes.objects.reading import Object
from connectors.kubernetes.objects.resources import SECRET, resource_of
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import Workload

#: The cause of a refusal in a namespace that is being deleted, and the text of one by a full
#: ResourceQuota. If others change the quota's use at the same time, that is a Conflict.
_TERMINATING = "NamespaceTerminating"
_FULL = "is forbidden: exceeded quota: "
#: Seconds for which the sizes of the largest nodes are cached.
_SIZES_S = 60.0


class Submitter:
    """Creates objects that were not created before."""

    def __init__(
        self,
        api: KubeApi,
        caches: Caches,
        options: KubernetesOptions,
        cluster_id: str,
        tokens: TokenWatch,
    ) -> None:
        self._api = api
        self._tokens = tokens
        self._caches = caches
        self._options = options
        self._cluster_id = cluster_id
        self._sizes: tuple[float, Mapping[str, int]] | None = None

    def submit(self, workload: Workload) -> str:
        """Submit `workload` and return the uid of its object. Raises what the protocol says."""
        objects = objects_for(workload, self._options, cluster_id=self._cluster_id)
        check_manifest_sizes(objects)
        self._check_size(workload)
        for needed in objects.before:
            self.created(workload.key, needed)
        main = self.created(workload.key, objects.main, after=objects.before)
        for needed in objects.before:
            metadata = needed["metadata"]
            path = resource_of(needed).path(metadata["namespace"], metadata["name"])
            with insisting():
                self._api.merge_patch(path, owner_patch(main))
        for other in objects.others:
            self._create_owned(workload.key, owned(other, main))
        if objects.secret is not None and not self._tokens.unguarded():
            self._create_secret(workload.key, owned(objects.secret, main))
        self._caches.took(main)
        return str(main["metadata"]["uid"])

    def _create_secret(self, key: str, body: Object) -> None:
        """Create the Secret of the attempt of `key`, where our account may. Raises as `submit`."""
        try:
            self._create_owned(key, body)
        except ClusterUnavailable as error:
            refused = error.__cause__
            if not (isinstance(refused, Forbidden) and refused.is_for_all):
                raise

    def created(self, key: str, body: Object, after: Sequence[Object] = ()) -> dict[str, Any]:
        """Return the object of `key`, created now or before. The objects in `after` exist.

        Raises ClusterUnavailable, WorkloadRejected and NotPrepared.
        """
        kind = resource_of(body)
        namespace = body["metadata"]["namespace"]
        try:
            return self._api.create(kind.collection(namespace), body)
        except AlreadyExists:
            pass
        except KubeRefused as error:
            if _is_early(error, after):
                raise ClusterUnavailable(
                    f"the cluster does not see all of it yet: {error}"
                ) from error
            raise self._refused(error, namespace) from error
        try:
            found = self._api.get(kind.path(namespace, body["metadata"]["name"]))
        except NotFound as error:
            raise ClusterUnavailable(f"{key} has just been deleted; try again") from error
        if naming.key_of(found, self._cluster_id) != key or not is_as_made(body, found):
            raise WorkloadRejected(
                f"the cluster has another {kind.kind} named {body['metadata']['name']} in "
                f"namespace {namespace}, which is not ours; an administrator there must remove it"
            )
        return found

    def _check_size(self, workload: Workload) -> None:
        """Raise WorkloadRejected for ranks that are larger than every node of their pool.

        A pool without any nodes is not checked.
        """
        wanted_mgpu = max(slot.mgpu for slot in workload.slots)
        largest_mgpu = self._largest_mgpu().get(workload.pool)
        if largest_mgpu is not None and wanted_mgpu > largest_mgpu:
            # The sizes are read again before a job is refused because of them.
            self._sizes = None
            largest_mgpu = self._largest_mgpu().get(workload.pool)
        if largest_mgpu is not None and wanted_mgpu > largest_mgpu:
            device = self._options.pools[workload.pool].device
            raise WorkloadRejected(
                f"a rank asks for {device.text(wanted_mgpu)}, and the largest node of pool "
                f"{workload.pool} on this cluster has {device.text(largest_mgpu)}; ask for fewer "
                "on each node"
            )

    def _largest_mgpu(self) -> Mapping[str, int]:
        """Return the capacity of the largest node by pool, cached for `_SIZES_S`."""
        known, now_s = self._sizes, time.monotonic()
        if known is None or now_s - known[0] > _SIZES_S:
            nodes, _ = nodes_of(self._caches.nodes(), self._options.pools, self._options.features)
            largest: dict[str, int] = {}
            for node in nodes:
                largest[node.pool] = max(node.capacity_mgpu, largest.get(node.pool, 0))
            known = self._sizes = (now_s, largest)
        return known[1]

    def _create_owned(self, key: str, body: Object) -> None:
        """Create a dependent of the object of `key`. Raises WorkloadRejected and NotPrepared."""
        kind = resource_of(body)
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        try:
            self._api.create(kind.collection(namespace), body)
            return
        except AlreadyExists:
            if kind is SECRET:
                # The portal reads no Secrets. Its name is that of the attempt, so it is ours.
                return
        except KubeRefused as error:
            raise self._refused(error, namespace) from error
        try:
            found = self._api.get(kind.path(namespace, name))
        except NotFound as error:
            raise ClusterUnavailable(f"{name} has just been deleted; try again") from error
        if naming.key_of(found, self._cluster_id) != key or not is_as_made(body, found):
            raise WorkloadRejected(
                f"the cluster has another {kind.kind} named {name} in namespace {namespace}, which "
                "is not ours; an administrator there must remove it"
            )
        owners = {one["uid"] for one in found["metadata"].get("ownerReferences") or ()}
        wanted = {one["uid"] for one in body["metadata"]["ownerReferences"]}
        if owners != wanted:
            raise ClusterUnavailable(
                f"the {kind.kind} {name} of an earlier object of this name is still being removed"
            )

    def _refused(self, error: KubeRefused, namespace: str) -> Exception:
        """Translate a refused creation into the error for the caller."""
        if isinstance(error, NotFound):
            if error.message == f'namespaces "{namespace}" not found':
                return NotPrepared(
                    f"It has no namespace {namespace} for the team yet: an administrator pushes "
                    "the quotas to it (Quotas on it, on the cluster's page)."
                )
            return NotPrepared(
                f"It does not know this kind of object ({error}): an administrator installs its "
                "operator there, or chooses another kind in the cluster's options."
            )
        if isinstance(error, Conflict) or is_passing(error):
            return ClusterUnavailable(f"the cluster cannot store it now: {error}")
        if isinstance(error, Forbidden) and " cannot " in error.message:
            return ClusterUnavailable(f"the cluster does not let us: {error}")
        return WorkloadRejected(f"Kubernetes refuses it: {error}")


def _is_early(error: KubeRefused, existing: Sequence[Object]) -> bool:
    """Return whether a webhook misses one of the `existing` objects: its cache is behind."""
    return "not found" in error.message and any(
        one["metadata"]["name"] in error.message for one in existing
    )


def is_passing(error: KubeRefused) -> bool:
    """Return whether the namespace refuses every object now: it is full, or being deleted."""
    return _FULL in error.message or any(one.reason == _TERMINATING for one in error.causes)
