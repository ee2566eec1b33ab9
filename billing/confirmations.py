"""Days of an organization that no comparison with a cluster's account confirms (R-100)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from django.db.models import Min, Q

from billing.models import MeteredParty, UsageSegment
from billing.reconciliation_models import ReconciledAccount, Reconciliation, ReconciliationStatus
from billing.reconciliations import start_of
from clusters.models import CapacitySegment, Cluster
from connectors.registry import kind_named

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class UnconfirmedDay:
    """A UTC day of a cluster that is not green, and not acknowledged.

    A `status` of None means that it was never compared.
    """

    cluster: str
    day: date
    status: ReconciliationStatus | None


def unconfirmed_days(
    organization_id: UUID, start: datetime, end: datetime
) -> Iterator[UnconfirmedDay]:
    """Yield what is not confirmed of `[start, end)`, by cluster and day.

    Clusters count that the organization used then and that have an account, from the first day on
    which they were watched until their archiving. A day that is red only for accounts of other
    organizations counts as green.
    """
    used = MeteredParty.objects.filter(organization=organization_id).values("cluster")
    for cluster in Cluster.objects.filter(pk__in=used).order_by("name"):
        if kind_named(cluster.kind).open_account is None:
            continue
        in_use = UsageSegment.objects.filter(
            Q(end=None) | Q(end__gt=start),
            attempt__cluster=cluster,
            attempt__organization=organization_id,
            start__lt=end,
        )
        if in_use.exists():
            yield from _of_cluster(cluster, organization_id, start, end)


def _of_cluster(
    cluster: Cluster, organization_id: UUID, start: datetime, end: datetime
) -> Iterator[UnconfirmedDay]:
    watched = CapacitySegment.objects.filter(cluster=cluster).aggregate(first=Min("start"))["first"]
    day = max(start, watched or start).astimezone(UTC).date()
    found = {row.day: row for row in Reconciliation.objects.filter(cluster=cluster, day__gte=day)}
    red = set(
        ReconciledAccount.objects.filter(
            Q(team=None) | Q(team__organization=organization_id),
            reconciliation__cluster=cluster,
            reconciliation__day__gte=day,
            is_green=False,
        ).values_list("reconciliation__day", flat=True)
    )
    while start_of(day) < end:
        row = found.get(day)
        is_over = cluster.archived_at is not None and start_of(day) > cluster.archived_at
        if row is None and not is_over:
            yield UnconfirmedDay(cluster.name, day, None)
        elif row is not None and not _is_confirmed(row, is_red=day in red):
            yield UnconfirmedDay(cluster.name, day, ReconciliationStatus(row.status))
        day += _DAY


def _is_confirmed(row: Reconciliation, *, is_red: bool) -> bool:
    return row.is_whole and (not is_red or row.acknowledged_at is not None)
