"""GPUs of a cluster that are held by workloads unknown to the portal.

They belong to no team, so nobody can be charged for them, and no guarantee reclaims them. They are
neither offered nor idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from django.db import transaction
from django.db.models import Q

from clusters.models import Cluster, ClusterNode
from clusters.observation import plain, store_capacity
from live.publishing import publish
from live.waking import wake
from primitives.clock import from_epoch

#: The most holders that are listed, those with most GPUs first.
HOLDERS_MAX = 50
_NAME_MAX = 64


class Stranger(StrEnum):
    """The reason why a workload counts for no team."""

    ACCOUNT = "unknown_account"
    USER = "unknown_user"
    ORGANIZATION = "other_organization"
    CLASS = "no_priority_class"
    GIVEN_UP = "given_up"
    NOT_YET = "not_yet_counted"
    COPY = "copy_of_ours"
    BACK = "ended_and_back"
    ODD = "makes_no_sense"
    MIXED = "several_pools"


@dataclass(frozen=True, slots=True)
class Holder:
    """The resources of one account's user in one pool, by the cluster's names, and why outside."""

    account: str
    user: str
    pool: str
    reason: str
    mgpu: int
    workloads: int


@dataclass(frozen=True, slots=True)
class OutsideUse:
    """The workloads in a listing of `observed_at` (epoch seconds) that are not ours.

    `by_node` is the milli-GPU of unknown workloads, by names of node and pool. `pending` counts
    workloads of any owner that wait for the cluster's own scheduler.
    """

    observed_at: int
    by_node: Mapping[tuple[str, str], int] = field(default_factory=dict)
    holders: Sequence[Holder] = ()
    pending: int = 0
    pending_mgpu: int = 0

    def plus(self, by_node: Mapping[tuple[str, str], int], holders: Sequence[Holder]) -> OutsideUse:
        """Return the sum of this and of what others hold."""
        places = self.by_node.keys() | by_node.keys()
        return replace(
            self,
            by_node={place: self.by_node.get(place, 0) + by_node.get(place, 0) for place in places},
            holders=(*self.holders, *holders),
        )

    def as_json(self) -> dict[str, object]:
        """Return the summary that is stored on the cluster."""
        ordered = sorted(self.holders, key=lambda one: (-one.mgpu, one.account, one.user, one.pool))
        return {
            "running": sum(holder.workloads for holder in ordered),
            "running_mgpu": sum(holder.mgpu for holder in ordered),
            "pending": self.pending,
            "pending_mgpu": self.pending_mgpu,
            "holders": [
                asdict(holder)
                | {
                    "account": plain(holder.account)[:_NAME_MAX],
                    "user": plain(holder.user)[:_NAME_MAX],
                }
                for holder in ordered[:HOLDERS_MAX]
            ],
        }


@transaction.atomic
def record_outside_use(cluster: Cluster, use: OutsideUse) -> bool:
    """Store the outside use of each node. Return whether anything changed.

    A node must be known before its use is stored. A capacity segment ends where the sum changes, so
    that idle time can be distinguished from outside use. A listing that was requested with outdated
    options of `cluster` is dropped: another cluster may have given it.
    """
    known = Cluster.objects.select_for_update().get(pk=cluster.pk)
    if known.options != cluster.options:
        return False
    changed: list[ClusterNode] = []
    suspects = Q(outside_mgpu__gt=0) | Q(name__in={name for name, _ in use.by_node})
    for node in known.nodes.filter(suspects).select_related("pool"):
        held_mgpu = use.by_node.get((node.name, node.pool.name), 0)
        if node.outside_mgpu != held_mgpu:
            node.outside_mgpu = held_mgpu
            changed.append(node)
    ClusterNode.objects.bulk_update(changed, ["outside_mgpu"], batch_size=1_000)
    if changed:
        store_capacity(known, from_epoch(use.observed_at))
    summary = use.as_json()
    if not changed and known.outside == summary:
        return False
    known.outside = summary
    known.save(update_fields=["outside"])
    publish("clusters", ids=[known.pk], organization_id=None)
    if changed:
        wake("arbiter")
    return True
