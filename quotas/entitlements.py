"""What each node of the tree is entitled to on one cluster.

An entitlement is global and a cluster's limits are local. Neither guarantees nor ceilings are cut
among the clusters of a pool: what a team has, the arbiter may place in one of them, and it must
start there. The arbiter, who sees all clusters and what people start beside the portal, keeps the
sum; a cluster's limits only keep each team to its own there. Nor are they cut to what a cluster can
hold, which changes with every node that is drained.
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
from tenants.models import Node, NodeKind, RoleGrant
from tenants.roles import PERMISSIONS, Permission

_GRACE_S = 300
_WEIGHT = 100
_SUBMITTERS = [role.value for role, may in PERMISSIONS.items() if Permission.SUBMIT_JOBS in may]


def entitlements_on(cluster: Cluster) -> Entitlements:
    """What the nodes of every organization with quota in a pool of `cluster` have there.

    Seven queries, whatever the size; one instant only inside a transaction that reads one.

    Raises ClusterUnavailable until the cluster has told its nodes: without them no pool is known
    to be on it, and everything that it has would look as if it had left.
    """
    if cluster.seen_at is None or not ClusterNode.objects.filter(cluster=cluster).exists():
        raise ClusterUnavailable(
            f"{cluster.name} has not told its nodes yet, so nobody's share of it is known"
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
    """The quotas in the pools of `cluster`, by pool and path."""
    pools = ClusterNode.objects.filter(cluster=cluster).values("pool")
    found: dict[str, dict[str, Quota]] = {}
    for quota in Quota.objects.filter(pool__in=pools).select_related("pool", "node"):
        found.setdefault(quota.pool.name, {})[quota.node.path] = quota
    return found


def _guaranteed_gpus(node: Node, quota: Quota | None) -> int:
    """What the team is guaranteed; others start nothing themselves, so they need nothing of it."""
    if quota is None or node.kind != NodeKind.TEAM:
        return 0
    return quota.guaranteed_mgpu // MGPU_PER_GPU


def _ceiling_gpus(node: Node, quota: Quota | None) -> int | None:
    """What the node may use at most. An organization without quota in a pool may use none; for
    others that is a guarantee of 0 without limits of their own."""
    if quota is None:
        return 0 if node.parent_id is None else None
    if quota.borrow_limit_mgpu is None:
        return None
    return (quota.guaranteed_mgpu + quota.borrow_limit_mgpu) // MGPU_PER_GPU


def _terms(node: Node, quota: Quota | None) -> Terms:
    """The node's quota in full; an organization without any may not use the pool at all."""
    if quota is None:
        return Terms(0, borrow_limit_mgpu=0 if node.parent_id is None else None)
    return Terms(quota.guaranteed_mgpu, quota.lend_limit_mgpu, quota.borrow_limit_mgpu)


def _spare_mgpu(quotas: Mapping[str, Mapping[str, Quota]]) -> dict[str, int]:
    """What no organization is guaranteed of the pools. Nodes that are drained or broken count too:
    a limit that followed them would differ from the tree with every repair."""
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
    """Who of the users that are known on a cluster may submit where."""

    def __init__(self, cluster: Cluster) -> None:
        names: dict[UUID, str] = dict(
            ClusterUser.objects.filter(cluster=cluster, user__is_active=True).values_list(
                "user_id", "name"
            )
        )
        self._by_path: dict[str, set[str]] = {}
        for user, path in RoleGrant.objects.filter(
            user__in=list(names), role__in=_SUBMITTERS
        ).values_list("user_id", "node__path"):
            self._by_path.setdefault(path or "", set()).add(names[user])

    def of(self, path: str) -> tuple[str, ...]:
        """The cluster's names of those who may submit for the team at `path`."""
        found: set[str] = set()
        for above in _prefixes(path):
            found |= self._by_path.get(above, set())
        return tuple(sorted(found))


def _prefixes(path: str) -> Iterable[str]:
    """ "", "a/", "a/b/" for "a/b/"."""
    yield ""
    for at, character in enumerate(path, start=1):
        if character == "/":
            yield path[:at]
