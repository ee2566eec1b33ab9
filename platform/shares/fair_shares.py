"""The fair-share of tree nodes at this moment, computed by the arbiter's own functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from arbiter.api.snapshot import PoolWeight
from arbiter.explain.fair_shares import NodeFairShare, fair_shares
from billing.fair_use import read_usage
from clusters.models import Pool
from jobs.arbitration.snapshots import one_instant, running_attempts
from quotas.installation import arbiter_policy
from quotas.queries import quota_snapshot


class FairShareReading:
    """The input of all fair-shares, read at one instant.

    Nine queries. It must be made outside of transactions, or within `one_instant`.
    """

    def __init__(self, now: datetime) -> None:
        with one_instant():
            self._tree = quota_snapshot()
            self._usage = read_usage(now)
            self._running = tuple(running_attempts())
            weights = Pool.objects.values_list("pk", "weight")
            self._weights = tuple(PoolWeight(str(pk), weight) for pk, weight in weights)
            self._policy = arbiter_policy()
        self._at = int(now.timestamp())

    def of(self, pool: Pool) -> Mapping[str, NodeFairShare]:
        """Return the fair-share of all nodes in a pool, by id."""
        tree = self._tree
        return fair_shares(
            str(pool.pk),
            nodes=tree.nodes,
            quotas=tree.quotas,
            priority_classes=tree.priority_classes,
            pool_weights=self._weights,
            usage=self._usage,
            running=self._running,
            policy=self._policy,
            at=self._at,
        )


def alone(share: NodeFairShare) -> NodeFairShare:
    """Return the fair-share of an organization without anything of other organizations."""
    return replace(
        share,
        weight_of_siblings=share.weight,
        used_of_siblings=share.used,
        place=1,
        siblings=1,
    )
