"""GPUs of a cluster that workloads hold which nobody here knows.

They belong to no team, so nobody can be charged for them and nobody's guarantee brings them back:
they are not offered, and not idle.
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

#: Holders that are told one by one, those with most GPUs.
HOLDERS_MAX = 50
_NAME_MAX = 64


class Stranger(StrEnum):
    """Why a workload counts for no team."""

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
    """What one account's user holds of one pool, by the cluster's names, and why outside."""

    account: str
    user: str
    pool: str
    reason: str
    mgpu: int
    workloads: int


@dataclass(frozen=True, slots=True)
class OutsideUse:
    """What a listing of `observed_at` (epoch seconds) says of workloads that are not ours.

    `by_node` is what unknown ones hold, by names of node and pool. `pending` waits for the
    cluster's own scheduler, whosever it is.
    """

    observed_at: int
    by_node: Mapping[tuple[str, str], int] = field(default_factory=dict)
    holders: Sequence[Holder] = ()
    pending: int = 0
    pending_mgpu: int = 0

    def plus(self, by_node: Mapping[tuple[str, str], int], holders: Sequence[Holder]) -> OutsideUse:
        """This, and what others hold besides."""
        places = self.by_node.keys() | by_node.keys()
        return replace(
            self,
            by_node={place: self.by_node.get(place, 0) + by_node.get(place, 0) for place in places},
            holders=(*self.holders, *holders),
        )

    def as_json(self) -> dict[str, object]:
        """The summary that is kept on the cluster."""
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
    """Store what is held outside on each node; says whether anything changed.

    What a node holds is known as soon as the node is. Capacity segments are cut where the sum
    changes, so that idle time is told from theirs. What was asked for with options that `cluster`
    has no more is dropped: another may have said it.
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
