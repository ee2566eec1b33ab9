"""The running jobs that a write of quotas or rules would stop, for the guard of such writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from arbiter.api.snapshot import Snapshot
from clusters.models import Pool
from jobs.arbitration.snapshots import Reading, read_queue
from jobs.whatif.heavy_answers import GUARDED_WRITE, worked_out
from quotas.guarding import StoppedJobs, provide_look_ahead
from quotas.queries import quota_snapshot
from simulator.look_ahead import Loss
from simulator.what_if import what_if
from tenants.models import Node, NodeKind
from webapi.row_access import all_rows

#: How far the look-ahead goes after the write begins, in seconds.
HORIZON_S = 3_600
#: The longest look-ahead; a write that begins later counts as if it began then.
BEGINS_WITHIN_S = 30 * 86_400


@dataclass(frozen=True, slots=True)
class _Written:
    """The tree and the rules of `after`, from `begins_at` on."""

    after: Snapshot
    pools: frozenset[str]
    begins_at: int

    def course(self, snapshot: Snapshot) -> list[tuple[int, Snapshot]]:
        """See `simulator.what_if.Alternative`."""
        # Jobs that accept several pools join these to the pools of the write.
        pools = self.pools | {quota.pool for quota in snapshot.quotas}
        changed = replace(
            snapshot,
            nodes=self.after.nodes,
            quotas=tuple(quota for quota in self.after.quotas if quota.pool in pools),
            priority_classes=self.after.priority_classes,
        )
        if self.begins_at <= snapshot.taken_at:
            return [(snapshot.taken_at, changed)]
        return [(snapshot.taken_at, snapshot), (self.begins_at, changed)]


class WriteLookAhead:
    """The queue before a write; see `quotas.guarding.LookAhead`."""

    def __init__(self, now: datetime) -> None:
        self._before: Reading = read_queue(now)

    def after_write(
        self, organization: Node, pools: Collection[UUID] | None, *, begins_at: datetime | None
    ) -> list[StoppedJobs]:
        """Return the jobs that only the write would stop, by team and pool.

        Raises TooManyRequests while another write is checked.
        """
        snapshot, policy = self._before.snapshot, self._before.policy
        with all_rows():
            tree = quota_snapshot()
        after = replace(
            snapshot,
            nodes=tree.nodes,
            quotas=self._before.stops.limit(tree.quotas),
            priority_classes=tree.priority_classes,
        )
        wanted = {str(pool) for pool in pools or Pool.objects.values_list("pk", flat=True)}
        begins = snapshot.taken_at
        if begins_at is not None:
            begins = min(max(begins, int(begins_at.timestamp())), begins + BEGINS_WITHIN_S)
        with worked_out(GUARDED_WRITE):
            found = what_if(
                snapshot,
                policy,
                _Written(after, frozenset(wanted), begins),
                begins - snapshot.taken_at + HORIZON_S,
            )
        return _by_team(found.reclaimed, organization)


def _by_team(losses: Iterable[Loss], organization: Node) -> list[StoppedJobs]:
    """Return the losses by team and pool. Teams of other organizations have no name."""
    teams = {
        str(node.pk): node.display_path
        for node in Node.objects.filter(organization=organization, kind=NodeKind.TEAM)
    }
    pools = {str(pool.pk): pool.name for pool in Pool.objects.all()}
    jobs: Counter[tuple[str, str]] = Counter()
    at_risk_mgpu_s: Counter[tuple[str, str]] = Counter()
    for loss in losses:
        key = (teams.get(loss.team, ""), pools[loss.pool])
        jobs[key] += 1
        at_risk_mgpu_s[key] += loss.at_risk_mgpu_s
    return [
        StoppedJobs(team, pool, jobs[team, pool], at_risk_mgpu_s[team, pool])
        for team, pool in sorted(jobs)
    ]


def register() -> None:
    """Tell the guard how to look ahead."""
    provide_look_ahead(WriteLookAhead)
