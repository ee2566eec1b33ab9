"""On which clusters a job may run at all: where its user is known, its GPUs can be cut, and its
container image be run."""

from __future__ import annotations

from clusters.models import Cluster
from connectors.registry import KINDS_WITH_USERS, KINDS_WITH_WHOLE_GPUS, runs_images
from primitives.units import MGPU_PER_GPU
from quotas.models import ClusterUser


class UsableClusters:
    """The rules of one moment, read once; at most two queries. Ids are texts, as in snapshots."""

    def __init__(self) -> None:
        rows = list(Cluster.objects.values_list("pk", "kind", "options"))
        kinds = {str(pk): kind for pk, kind, _ in rows}
        self._runs_images = frozenset(
            str(pk) for pk, kind, options in rows if runs_images(kind, options)
        )
        self._all = frozenset(kinds)
        self._needs_user = frozenset(pk for pk in kinds if kinds[pk] in KINDS_WITH_USERS)
        self._needs_whole = frozenset(pk for pk in kinds if kinds[pk] in KINDS_WITH_WHOLE_GPUS)
        self._mapped: dict[str, set[str]] = {}
        if self._needs_user:
            for cluster, user in ClusterUser.objects.values_list("cluster_id", "user_id"):
                self._mapped.setdefault(str(user), set()).add(str(cluster))
        self._known: dict[tuple[str | None, str, bool, bool], frozenset[str] | None] = {}

    def of(
        self, *, user: str, mgpu_per_node: int, pinned: str | None, has_image: bool
    ) -> frozenset[str] | None:
        """The clusters that may run a job of `user` with `mgpu_per_node`; None when all may.

        The same answer is the same object, which keeps 100,000 queued jobs small.
        """
        if pinned is None and not has_image and not self._needs_user and not self._needs_whole:
            return None
        is_whole = mgpu_per_node % MGPU_PER_GPU == 0
        key = (pinned, user if self._needs_user else "", is_whole, has_image)
        if key not in self._known:
            usable = self._all - (self._needs_user - self._mapped.get(user, set()))
            if not is_whole:
                usable -= self._needs_whole
            if has_image:
                usable &= self._runs_images
            if pinned is not None:
                usable &= {pinned}
            self._known[key] = None if usable == self._all and pinned is None else usable
        return self._known[key]

    def without(self, usable: frozenset[str] | None, avoided: frozenset[str]) -> frozenset[str]:
        """`usable`, as `of` gave it, less the `avoided` clusters."""
        return (self._all if usable is None else usable) - avoided
