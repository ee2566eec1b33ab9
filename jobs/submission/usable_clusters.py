"""The clusters on which a job may run at all.

They know its team and user, can cut its GPUs, and allow its time limit and container image.
"""

from __future__ import annotations

from clusters.models import Cluster, Pool
from connectors.registry import kind_named
from quotas.models import ClusterUser
from quotas.unprepared import unprepared_teams
from quotas.user_numbers import demo_users, is_for_the_demo

_NONE: frozenset[str] = frozenset()


class UsableClusters:
    """The rules of one moment, read once with at most six queries.

    Ids are texts, as in snapshots.
    """

    def __init__(self) -> None:
        rows = list(Cluster.objects.only("kind", "options", "time_limits", "isolation"))
        self._rules = {str(one.pk): (one.kind, one.options) for one in rows}
        self._time_limits = {str(one.pk): one.time_limits for one in rows if one.time_limits}
        kinds = [kind_named(name) for name in {name for name, _ in self._rules.values()}]
        self._all = frozenset(self._rules)
        self._batch_nodes_max = {
            pk: most
            for pk, (kind, _) in self._rules.items()
            if (most := kind_named(kind).batch_nodes_max) is not None
        }
        self._without_manifests = frozenset(
            pk
            for pk, (kind, options) in self._rules.items()
            if not kind_named(kind).runs_manifests(options)
        )
        unisolated = {str(one.pk) for one in rows if is_for_the_demo(one)}
        self._needs_user = unisolated | frozenset(
            pk for pk, (kind, _) in self._rules.items() if kind_named(kind).has_users
        )
        #: Whether some cluster may refuse a job that names no image.
        self._needs_image = any(kind.refuse_image for kind in kinds)
        self._has_units = any(kind.gpu_unit for kind in kinds)
        self._pools: dict[str, str] = {}
        if self._needs_image or self._has_units or self._time_limits:
            self._pools = {str(pk): name for pk, name in Pool.objects.values_list("pk", "name")}
        self._mapped: dict[str, set[str]] = {}
        for person in demo_users() if unisolated else ():
            self._mapped[str(person)] = set(unisolated)
        if self._needs_user > unisolated:
            for cluster, user in ClusterUser.objects.values_list("cluster_id", "user_id"):
                self._mapped.setdefault(str(user), set()).add(str(cluster))
        self._unprepared: dict[str, frozenset[str]] = {}
        if any(kind.team_subject for kind in kinds):
            for team, clusters in unprepared_teams().items():
                self._unprepared[str(team)] = frozenset(map(str, clusters))
        self._units: dict[str, dict[str, int]] = {}
        self._running: dict[tuple[str, str | None], frozenset[str]] = {}
        self._known: dict[tuple[str | frozenset[str] | None, ...], frozenset[str] | None] = {}

    def has_rules_of(self, other: UsableClusters) -> bool:
        """Return whether both objects give the same answer for every job."""
        return self._said() == other._said()

    def _said(self) -> tuple[object, ...]:
        return (
            *(self._rules, self._time_limits, self._pools, self._mapped, self._unprepared),
            self._needs_user,
        )

    def of(
        self,
        *,
        team: str,
        user: str,
        pool: str,
        mgpu_per_node: int,
        time_limit_s: int | None,
        pinned: str | None,
        image: str | None,
        batch_nodes: int = 0,
        is_manifest: bool = False,
        is_native: bool = False,
    ) -> frozenset[str] | None:
        """Return the clusters that may run such a job; None when all may.

        The job belongs to `user` in `team` and `pool`, and asks for `mgpu_per_node` for
        `time_limit_s` seconds. `batch_nodes` are the most nodes of a batch job, 0 for other
        jobs. A job that `is_manifest` runs only where manifests do.

        Rules about GPU parts and images hold only for jobs that the portal submits. A native job
        waits on its cluster as that has accepted it, possibly with parts of CPU cores.

        Equal answers are the same object, which saves memory with 100,000 queued jobs.
        """
        # A manifest without an image has that of its runtime on the cluster.
        needs_image = self._needs_image and not is_manifest
        asks_image = not is_native and (image is not None or needs_image)
        has_units = self._has_units and not is_native
        refusing = self._too_short(pool, time_limit_s) | self._unprepared.get(team, _NONE)
        if batch_nodes:
            refusing |= self._too_small_for_batch(batch_nodes)
        if is_manifest:
            refusing |= self._without_manifests
        if not (pinned or asks_image or self._needs_user or has_units or refusing):
            return None
        key = (
            pinned,
            user if self._needs_user else "",
            pool if self._pools else "",
            "native" if is_native else str(mgpu_per_node) if has_units else "",
            image,
            "of its own" if asks_image else "",
            refusing,
        )
        if key not in self._known:
            usable = self._all - (self._needs_user - self._mapped.get(user, set())) - refusing
            if has_units:
                units = self._units_of(pool)
                usable = frozenset(pk for pk in usable if mgpu_per_node % units[pk] == 0)
            if asks_image:
                usable &= self._running_image(pool, image)
            if pinned is not None:
                usable &= {pinned}
            self._known[key] = None if usable == self._all and pinned is None else usable
        return self._known[key]

    def _too_short(self, pool: str, time_limit_s: int | None) -> frozenset[str]:
        """Return the clusters whose time limit for `pool` is below `time_limit_s`."""
        if time_limit_s is None or not self._time_limits:
            return _NONE
        name = self._pools.get(pool, "")
        return frozenset(
            pk
            for pk, limits in self._time_limits.items()
            if limits.get(name, time_limit_s) < time_limit_s
        )

    def _too_small_for_batch(self, nodes: int) -> frozenset[str]:
        """Return the clusters that run no batch job of so many nodes."""
        return frozenset(pk for pk, most in self._batch_nodes_max.items() if nodes > most)

    def _units_of(self, pool: str) -> dict[str, int]:
        if pool not in self._units:
            name = self._pools.get(pool, "")
            self._units[pool] = {
                pk: kind_named(kind).gpu_unit_mgpu(options, name)
                for pk, (kind, options) in self._rules.items()
            }
        return self._units[pool]

    def _running_image(self, pool: str, image: str | None) -> frozenset[str]:
        if (pool, image) not in self._running:
            name = self._pools.get(pool, "")
            self._running[pool, image] = frozenset(
                pk
                for pk, (kind, options) in self._rules.items()
                if not kind_named(kind).image_refusal(options, name, image)
            )
        return self._running[pool, image]

    def without(self, usable: frozenset[str] | None, avoided: frozenset[str]) -> frozenset[str]:
        """Return `usable`, an answer of `of`, without the `avoided` clusters."""
        return (self._all if usable is None else usable) - avoided
