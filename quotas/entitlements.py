"""Computes the entitlements of all tree nodes on one cluster.

An entitlement is global, but a cluster's limits are local. Neither guarantees nor ceilings are
divided among the clusters of a pool. The arbiter may place all of a team's jobs on one of them, and
they must start there. The arbiter sees all clusters and native jobs, and enforces the sum. A
cluster's limits only keep each team within its own entitlement there. They do not depend on the
cluster's capacity, which changes with every drained node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import Max, Sum

from clusters.models import Cluster, ClusterNode
from clusters.observation import GONE
from connectors.entitlements import Entitlement, Entitlements, Share, Terms
from connectors.errors import ClusterUnavailable
from primitives.units import MGPU_PER_GPU
from quotas.models import ClusterUser, OrganizationPolicy, Quota
from tenants.models import GRANT_IN_FORCE, Node, NodeKind, RoleGrant
from tenants.roles import PERMISSIONS, Permission

_GRACE_S = 300
_WEIGHT = 100
_SUBMITTERS = [role.value for role, may in PERMISSIONS.items() if Permission.SUBMIT_JOBS in may]


def entitlements_on(cluster: Cluster) -> Entitlements:
    """Return the entitlements of all organizations with quota in a pool of `cluster`.

    Takes seven queries. Only a transaction with a snapshot makes them consistent. Raises
    ClusterUnavailable until the cluster has reported its nodes: before that, no pool is known to be
    on it, and all its objects would look obsolete.
    """
    if cluster.seen_at is None or not ClusterNode.objects.filter(cluster=cluster).exists():
        raise ClusterUnavailable(
            f"{cluster.name} has not reported its nodes yet, so no team's share of it is known"
        )
    quotas = _quotas(cluster)
    pools = sorted(quotas)
    nodes = list(Node.objects.order_by("path"))
    served = {path.partition("/")[0] for pool in pools for path in quotas[pool]}
    users = _Submitters(cluster)
    return Entitlements(
        nodes=tuple(
            Entitlement(
                path=node.display_path,
                is_team=node.kind == NodeKind.TEAM,
                shares={
                    pool: Share(
                        _guaranteed_gpus(node, quotas[pool].get(node.path)),
                        _ceiling_gpus(node, quotas[pool].get(node.path)),
                    )
                    for pool in pools
                },
                weight=max(
                    (quotas[pool][node.path].weight for pool in pools if node.path in quotas[pool]),
                    default=_WEIGHT,
                ),
                users=users.of(node.path) if node.kind == NodeKind.TEAM else (),
                terms={pool: _terms(node, quotas[pool].get(node.path)) for pool in pools},
            )
            for node in nodes
            if node.organization_slug in served
        ),
        organizations=frozenset(node.slug for node in nodes if node.parent_id is None),
        grace_s=OrganizationPolicy.objects.aggregate(most=Max("grace_period_s"))["most"]
        or _GRACE_S,
        spare_mgpu=_spare_mgpu(quotas),
    )


def _quotas(cluster: Cluster) -> dict[str, dict[str, Quota]]:
    """Return the quotas in the pools of `cluster`, by pool and path."""
    pools = ClusterNode.objects.filter(cluster=cluster).values("pool")
    found: dict[str, dict[str, Quota]] = {}
    for quota in Quota.objects.filter(pool__in=pools).select_related("pool", "node"):
        found.setdefault(quota.pool.name, {})[quota.node.path] = quota
    return found


def _guaranteed_gpus(node: Node, quota: Quota | None) -> int:
    """Return the guarantee of a team. Other nodes start no jobs, so they need none."""
    if quota is None or node.kind != NodeKind.TEAM:
        return 0
    return quota.guaranteed_mgpu // MGPU_PER_GPU


def _ceiling_gpus(node: Node, quota: Quota | None) -> int | None:
    """Return the most that the node may use, or None without a limit of its own.

    An organization without quota in a pool may not use it. For other nodes, no quota means a
    guarantee of 0 without limits.
    """
    if quota is None:
        return 0 if node.parent_id is None else None
    if quota.borrow_limit_mgpu is None:
        return None
    return (quota.guaranteed_mgpu + quota.borrow_limit_mgpu) // MGPU_PER_GPU


def _terms(node: Node, quota: Quota | None) -> Terms:
    """Return the complete quota. An organization without one may not use the pool."""
    if quota is None:
        return Terms(0, borrow_limit_mgpu=0 if node.parent_id is None else None)
    return Terms(quota.guaranteed_mgpu, quota.lend_limit_mgpu, quota.borrow_limit_mgpu)


def _spare_mgpu(quotas: Mapping[str, Mapping[str, Quota]]) -> dict[str, int]:
    """Return the part of each pool that no organization is guaranteed.

    Drained and broken nodes count too. Otherwise the limit would change with every repair.
    """
    nodes = ClusterNode.objects.filter(pool__name__in=quotas, cluster__is_enabled=True)
    installed = dict(
        nodes.exclude(state=GONE).values_list("pool__name").annotate(Sum("capacity_mgpu"))
    )
    return {
        pool: max(
            0,
            installed.get(pool, 0)
            - sum(
                quota.guaranteed_mgpu for quota in by_path.values() if quota.node.parent_id is None
            ),
        )
        for pool, by_path in quotas.items()
    }


class _Submitters:
    """The users that may submit, among those known on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        names: dict[UUID, str] = dict(
            ClusterUser.objects.filter(cluster=cluster, user__is_active=True).values_list(
                "user_id", "name"
            )
        )
        self._by_path: dict[str, set[str]] = {}
        for user, path in RoleGrant.objects.filter(
            GRANT_IN_FORCE, user__in=list(names), role__in=_SUBMITTERS
        ).values_list("user_id", "node__path"):
            self._by_path.setdefault(path or "", set()).add(names[user])

    def of(self, path: str) -> tuple[str, ...]:
        """Return the cluster's names of the users who may submit for the team at `path`."""
        found: set[str] = set()
        for above in _prefixes(path):
            found |= self._by_path.get(above, set())
        return tuple(sorted(found))


def _prefixes(path: str) -> Iterable[str]:
    """Yield "", "a/", "a/b/" for "a/b/"."""
    yield ""
    for at, character in enumerate(path, start=1):
        if character == "/":
            yield path[:at]
