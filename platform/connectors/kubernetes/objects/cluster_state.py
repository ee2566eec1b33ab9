"""One look at a cluster as its API server sends it, and which of its Pods are ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.reading import Object, Odd, flag, needed, parts, text, texts
from connectors.kubernetes.objects.resources import JOBSET_UID, RAYJOB

#: Owners of owners are followed so far.
OWNERS_MAX = 8


@dataclass(frozen=True, slots=True)
class KubeState:
    """One complete look at a cluster: its objects as the API server sends them.

    `objects` are those that Kueue makes Workloads of, of every kind in use and of everybody (Jobs,
    JobSets, ...), each with its own `apiVersion` and `kind`, which lists leave out of their items.
    `pods` are those with our label or a request for GPUs. `gone_pods` are the last known states of
    Pods of ours that were deleted while their object is still there, as far as anybody remembers
    them: how they ended is known from nowhere else. `gone_objects` are the last known states of
    objects of ours that were deleted, remembered likewise: Pods that name any other owner that is
    not there are nobody's. `events` are warnings on objects, where they
    were asked for: why Pods could not be made stands nowhere else. `observed_at` is the API
    server's clock.
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
    """The ranks of our attempts that are there: key, rank and Pod. What is odd is left out, and so
    are Pods that only say that they are ours: the object of their attempt is, or was, in their
    namespace."""
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
    """The key of the attempt of which the Pod `source` is a rank, and which; None where it is none
    of ours. Raises Odd."""
    labels = texts(source, "metadata", "labels")
    key = texts(source, "metadata", "annotations").get(naming.KEY)
    if labels.get(naming.CLUSTER) != naming.cluster_label(cluster_id) or not key:
        return None
    rank = naming.rank_of(source)
    return None if rank is None else (key, rank)


def controller_of(item: Object) -> str:
    """The uid of the controller that `item` belongs to, "" where there is none. Raises Odd."""
    for owner in parts(item, "metadata", "ownerReferences"):
        if flag(owner, "controller"):
            return needed(owner, "uid")
    return ""
