"""What each node of the tree is entitled to on one cluster.

An entitlement is global and a cluster's limits are local, so guarantees are cut among the clusters
of a pool, by their healthy capacity. Ceilings are not: what a team may use at most it may use in
one place, and the arbiter, who sees all clusters, keeps the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import Max, Sum

from clusters.models import Cluster, ClusterNode
from connectors.entitlements import Entitlement, Entitlements, Share
from connectors.errors import ClusterUnavailable
from primitives.units import MGPU_PER_GPU, largest_remainder
from quotas.models import ClusterUser, OrganizationPolicy, Quota
from tenants.models import Node, NodeKind, RoleGrant
from tenants.roles import PERMISSIONS, Permission

_GRACE_S = 300
_WEIGHT = 100
_SUBMITTERS = [role.value for role, may in PERMISSIONS.items() if Permission.SUBMIT_JOBS in may]


def split_guarantees(
    guaranteed: Mapping[str, int], capacity: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Whole GPUs of every team on every cluster of one pool: {team: {cluster: GPUs}}.

    A team's GPUs are cut by the clusters' capacity; what rounding leaves over goes, one each, to
    the largest remainders where there is room. Teams have their whole guarantee, and clusters
    never more than they can hold, unless more is guaranteed than there is: then all have
    less, in proportion. Ties go by name, so that the same input gives the same cut.
    """
    whole = sum(capacity.values())
    if sum(guaranteed.values()) > whole:
        guaranteed = largest_remainder(whole, guaranteed, out_of=sum(guaranteed.values()))
    room = dict(capacity)
    cut: dict[str, dict[str, int]] = {}
    for team, gpus in guaranteed.items():
        cut[team] = {cluster: gpus * size // whole for cluster, size in capacity.items() if whole}
        for cluster, share in cut[team].items():
            room[cluster] -= share
    for team in sorted(cut):
        left = guaranteed[team] - sum(cut[team].values())
        while left:
            # At most as many as there are clusters; floors leave room for all of them.
            most = max(
                (cluster for cluster in room if room[cluster] > 0),
                key=lambda name: (guaranteed[team] * capacity[name] % whole, room[name], name),
            )
            cut[team][most] += 1
            room[most] -= 1
            left -= 1
    return cut


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
    shares = _local_guarantees(cluster, quotas)
    pools = sorted(shares)
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
                        shares[pool].get(node.path, 0),
                        _ceiling_gpus(node, quotas[pool].get(node.path)),
                    )
                    for pool in pools
                },
                weight=max(
                    (quotas[pool][node.path].weight for pool in pools if node.path in quotas[pool]),
                    default=_WEIGHT,
                ),
                users=users.of(node.path) if node.kind == NodeKind.TEAM else (),
            )
            for node in nodes
            if node.organization_slug in served
        ),
        organizations=frozenset(node.slug for node in nodes if node.parent_id is None),
        grace_s=OrganizationPolicy.objects.aggregate(most=Max("grace_period_s"))["most"]
        or _GRACE_S,
    )


def _quotas(cluster: Cluster) -> dict[str, dict[str, Quota]]:
    """The quotas in the pools of `cluster`, by pool and path."""
    pools = ClusterNode.objects.filter(cluster=cluster).values("pool")
    found: dict[str, dict[str, Quota]] = {}
    for quota in Quota.objects.filter(pool__in=pools).select_related("pool", "node"):
        found.setdefault(quota.pool.name, {})[quota.node.path] = quota
    return found


def _local_guarantees(
    cluster: Cluster, quotas: Mapping[str, Mapping[str, Quota]]
) -> dict[str, dict[str, int]]:
    """GPUs that each team is guaranteed on `cluster`, by pool and path."""
    capacity: dict[str, dict[str, int]] = {pool: {} for pool in quotas}
    for pool, name, mgpu in (
        ClusterNode.objects.filter(
            pool__name__in=quotas, is_schedulable=True, cluster__is_enabled=True
        )
        .values_list("pool__name", "cluster__name")
        .annotate(Sum("capacity_mgpu"))
    ):
        capacity[pool][name] = int(mgpu) // MGPU_PER_GPU
    local: dict[str, dict[str, int]] = {}
    for pool, of_pool in quotas.items():
        teams = {
            path: quota.guaranteed_mgpu // MGPU_PER_GPU
            for path, quota in of_pool.items()
            if quota.node.kind == NodeKind.TEAM
        }
        cut = split_guarantees(teams, capacity[pool])
        local[pool] = {path: cut[path].get(cluster.name, 0) for path in teams}
    return local


def _ceiling_gpus(node: Node, quota: Quota | None) -> int | None:
    """What the node may use at most. An organization without quota in a pool may use none; for
    others that is a guarantee of 0 without limits of their own."""
    if quota is None:
        return 0 if node.parent_id is None else None
    if quota.borrow_limit_mgpu is None:
        return None
    return (quota.guaranteed_mgpu + quota.borrow_limit_mgpu) // MGPU_PER_GPU


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
