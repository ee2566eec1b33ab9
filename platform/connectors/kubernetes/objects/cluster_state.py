"""One state of a cluster as its API server sends it, and which of its Pods are ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.reading import Object, Odd, flag, needed, parts, text, texts
from connectors.kubernetes.objects.resources import JOBSET_UID, RAYJOB

#: The most steps from owner to owner.
OWNERS_MAX = 8


@dataclass(frozen=True, slots=True)
class KubeState:
    """One complete state of a cluster, with objects as the API server sends them.

    - `objects` are those that Kueue makes Workloads of, of every kind in use and every owner (Jobs,
      JobSets, ...). Each has its own `apiVersion` and `kind`, which lists leave out of their items.
    - `pods` have our label or ask for GPUs.
    - `gone_pods` are the last states of deleted Pods of ours whose object still exists, as far as
      remembered. Their ends are recorded nowhere else.
    - `gone_objects` are the last states of deleted objects of ours, as far as remembered. A Pod
      with any other missing owner belongs to nobody.
    - `events` are warnings on objects, where they were requested. They alone have the reason why
      Pods could not be created.
    - `observed_at` is the time of the API server's clock.
    """

    objects: tuple[Mapping[str, Any], ...]
    workloads: tuple[Mapping[str, Any], ...]
    pods: tuple[Mapping[str, Any], ...]
    nodes: tuple[Mapping[str, Any], ...]
    observed_at: int
    gone_pods: tuple[Mapping[str, Any], ...] = ()
    gone_objects: tuple[Mapping[str, Any], ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()


def pods_of_ours(state: KubeState, *, cluster_id: str) -> tuple[tuple[str, int, Object], ...]:
    """Return key, rank and Pod of every existing rank of our attempts.

    Invalid objects are left out. So are Pods that only claim to be ours: the object of their
    attempt must exist, or have existed, in their namespace.
    """
    parents: dict[str, str] = {}
    ours: dict[str, tuple[str, str]] = {}
    rays: set[tuple[str, str]] = set()
    for item in (*state.objects, *state.gone_objects):
        try:
            uid, parent = needed(item, "metadata", "uid"), controller_of(item)
            key = naming.key_of(item, cluster_id)
            if parent:
                parents[uid] = parent
            elif key is not None:
                ours[uid] = (text(item, "metadata", "namespace"), key)
                if item.get("kind") == RAYJOB.kind:
                    rays.add(ours[uid])
        except (Odd, AttributeError):
            continue
    found: list[tuple[str, int, Object]] = []
    for source in state.pods:
        try:
            rank = rank_of_ours(source, cluster_id=cluster_id)
            if rank is None:
                continue
            owner = texts(source, "metadata", "labels").get(JOBSET_UID) or controller_of(source)
            for _ in range(OWNERS_MAX):
                owner = parents.get(owner, owner)
            whose = (text(source, "metadata", "namespace"), rank[0])
        except Odd:
            continue
        if ours.get(owner) == whose or (owner and owner not in ours and whose in rays):
            found.append((*rank, source))
    return tuple(found)


def rank_of_ours(source: Object, *, cluster_id: str) -> tuple[str, int] | None:
    """Return the key and rank of our Pod `source`; None for another Pod. Raises Odd."""
    labels = texts(source, "metadata", "labels")
    key = texts(source, "metadata", "annotations").get(naming.KEY)
    if labels.get(naming.CLUSTER) != naming.cluster_label(cluster_id) or not key:
        return None
    rank = naming.rank_of(source)
    return None if rank is None else (key, rank)


def controller_of(item: Object) -> str:
    """Return the uid of the controller of `item`; "" without one. Raises Odd."""
    for owner in parts(item, "metadata", "ownerReferences"):
        if flag(owner, "controller"):
            return needed(owner, "uid")
    return ""
