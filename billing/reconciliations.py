"""Days that are reconciled: when, on whose request, with what result, and who may see it.

A run is an intention in the outbox, carried out where clusters are spoken to. Each request has
an id of its own, so that a day can be asked for again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Min, OuterRef, Prefetch, Q, QuerySet, Subquery
from uuid_utils.compat import uuid7

from audit.recording import record
from billing.acknowledgements import drop_if_outdated
from billing.models import (
    MeteredAttempt,
    ReconciledAccount,
    Reconciliation,
    ReconciliationStatus,
    UsageSegment,
)
from billing.reconciliation import AccountReport, Difference, MeteredRun, Piece
from clusters.models import CapacitySegment, Cluster, Pool
from connectors.registry import kind_named
from live.publishing import COSTS, publish
from live.waking import wake
from outbox.recording import Intention, intend
from primitives.clock import from_epoch
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest, NotFound
from primitives.units import DeviceKind
from tenants.access import PLATFORM, Actor, visible
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: The kind of message whose subject is a `Reconciliation.request_id`.
RECONCILE_DAY = "reconcile_day"
#: A day is reconciled this long after its end at the earliest, when its last jobs are on account.
SETTLING = timedelta(hours=1)
#: A day that is not green is compared again after this pause,
RETRY_AFTER = timedelta(minutes=30)
#: as long as it is not older than this many days.
DAYS_MAX = 7
#: How far back a day may be asked for by hand: further back than accounting is usually kept.
DAYS_BACK_MAX = 400
#: Differences kept of each account and pool, the largest ones; the others are counted and summed.
DIFFERENCES_MAX = 200
_MESSAGE_LENGTH_MAX = 2_000
_DAY = timedelta(days=1)


def account_shard(cluster_id: UUID) -> str:
    """Where what is asked of the accounting of a cluster queues: it may take minutes."""
    return f"{cluster_id}/account"


def start_of(day: date) -> datetime:
    """The first second of the UTC day."""
    return datetime.combine(day, time(), UTC)


def plan_days(cluster: Cluster, *, now: datetime) -> int:
    """Ask for every day of `cluster` that is due; returns how many.

    Those are the last seven days that are over and settled, from the first on which the cluster
    was watched, unless they were compared, and whichever day is to be compared again. Must run
    behind the caller's fence.
    """
    if kind_named(cluster.kind).open_account is None:
        return 0
    watched = CapacitySegment.objects.filter(cluster=cluster).aggregate(first=Min("start"))
    if watched["first"] is None:
        return 0
    last = (now - SETTLING).astimezone(UTC).date() - _DAY
    wanted = {last - number * _DAY for number in range(DAYS_MAX)}
    known = set(
        Reconciliation.objects.filter(cluster=cluster, day__in=wanted).values_list("day", flat=True)
    )
    new = sorted(
        day
        for day in wanted - known
        if day >= watched["first"].astimezone(UTC).date() and _was_in_use(cluster, day)
    )
    Reconciliation.objects.bulk_create(
        [
            Reconciliation(
                cluster=cluster, day=day, status=ReconciliationStatus.PENDING, next_at=now
            )
            for day in new
        ],
        ignore_conflicts=True,
    )
    due = list(
        Reconciliation.objects.select_for_update()
        .filter(cluster=cluster, next_at__lte=now, request_id=None)
        .order_by("day")[: 2 * DAYS_MAX]
    )
    for row in due:
        _ask(row, now=now)
    return len(due)


def _was_in_use(cluster: Cluster, day: date) -> bool:
    """Days are compared until the cluster is archived, and later ones while a job still ran."""
    if cluster.archived_at is None or day <= cluster.archived_at.astimezone(UTC).date():
        return True
    start = start_of(day)
    return bool(attempts_between(cluster, start, start + _DAY))


def request_day(cluster_name: str, day: date, *, actor: Actor, now: datetime) -> Reconciliation:
    """Let the day of the cluster be compared (again) as soon as its agent comes to it.

    For whoever keeps prices anywhere: finance and administrators. While an earlier request
    waits, this is that one. Raises Forbidden, NotFound for an unknown cluster, InvalidRequest
    for a day that has not begun or is too long ago, and Conflict where nobody would ask: the
    cluster is disabled or keeps no account.
    """
    if not actor.prefixes(Permission.MANAGE_PRICES):
        raise Forbidden(
            "Only finance and administrators of an organization or of the platform may have a "
            "day reconciled.",
            permission=Permission.MANAGE_PRICES.value,
        )
    cluster = Cluster.objects.filter(name=cluster_name).first()
    if cluster is None:
        raise NotFound(f"There is no cluster {cluster_name[:63]!r}.", cluster=cluster_name[:63])
    today = now.astimezone(UTC).date()
    if not today - DAYS_BACK_MAX * _DAY <= day <= today:
        raise InvalidRequest(
            f"day must be one of the last {DAYS_BACK_MAX} days, today (UTC) at the latest.",
            errors=[FieldError("/day", "has not begun or is too long ago")],
        )
    if kind_named(cluster.kind).open_account is None:
        raise Conflict(
            f"{cluster.name} is a {cluster.kind} cluster, which keeps no account of its own: "
            "there is nothing to compare the meter with."
        )
    if cluster.archived_at is not None:
        raise Conflict(f"{cluster.name} is archived, so nothing is asked of it; restore it first.")
    if not cluster.is_enabled:
        raise Conflict(f"{cluster.name} is disabled, so nothing is asked of it; enable it first.")
    with transaction.atomic():
        Reconciliation.objects.bulk_create(
            [Reconciliation(cluster=cluster, day=day, status=ReconciliationStatus.PENDING)],
            ignore_conflicts=True,
        )
        row = (
            Reconciliation.objects.select_for_update(of=("self",))
            .select_related("cluster")
            .get(cluster=cluster, day=day)
        )
        if row.request_id is None:
            _ask(row, now=now)
        record(
            action="reconciliation.requested",
            subject_kind="reconciliation",
            subject_id=row.pk,
            now=now,
            actor_id=actor.user.pk,
            actor=actor.user.login,
            organization_id=actor.user.organization_id,
            detail={"cluster": cluster.name, "day": day.isoformat()},
            request_id=current_request_id(),
        )
        publish("reports", organization_id=None, audience=COSTS)
        wake("observer")
    return row


def _ask(row: Reconciliation, *, now: datetime) -> None:
    row.request_id = uuid7()
    row.requested_at = now
    row.save(update_fields=["request_id", "requested_at"])
    intend([Intention(RECONCILE_DAY, row.request_id, account_shard(row.cluster_id))], now=now)


def metered_runs(
    cluster: Cluster,
    start: datetime,
    end: datetime,
    *,
    also: Collection[UUID],
    account_of: Mapping[UUID, str],
    natives: Mapping[UUID, tuple[str, int]],
    native_ids: Mapping[UUID, str],
) -> list[MeteredRun]:
    """Every attempt that held GPUs of `cluster` in `[start, end)`, and those of `also`, each with
    all its segments; by id.

    `account_of` has the cluster's account of each team; `natives` number and submit time of the
    attempts that were not given to the cluster by us, `native_ids` the recorded number of the
    others.
    """
    ids = attempts_between(cluster, start, end) | set(also)
    attempts = MeteredAttempt.objects.filter(cluster=cluster, pk__in=ids).order_by("pk")
    pieces: dict[UUID, list[Piece]] = {}
    segments = UsageSegment.objects.filter(attempt_id__in=ids).order_by("attempt_id", "start")
    for pk, since, until, guaranteed_mgpu, borrowed_mgpu in segments.values_list(
        "attempt_id", "start", "end", "guaranteed_mgpu", "borrowed_mgpu"
    ):
        pieces.setdefault(pk, []).append(
            Piece(
                int(since.timestamp()),
                None if until is None else int(until.timestamp()),
                guaranteed_mgpu + borrowed_mgpu,
            )
        )
    found = []
    for attempt in attempts.select_related("pool"):
        native_id, submitted_at = natives.get(attempt.pk, (native_ids.get(attempt.pk), None))
        found.append(
            MeteredRun(
                attempt_id=attempt.pk,
                job_id=attempt.job_id,
                account=account_of[attempt.team_id],
                pool=attempt.pool.name,
                pieces=tuple(pieces.get(attempt.pk, ())),
                key=None if attempt.pk in natives else f"tg-{attempt.pk}",
                native_id=native_id,
                submitted_at=submitted_at,
            )
        )
    return found


def attempts_between(cluster: Cluster, start: datetime, end: datetime) -> set[UUID]:
    """The attempts that the meter has on `cluster` at any moment of `[start, end)`."""
    return set(
        UsageSegment.objects.filter(
            Q(end=None) | Q(end__gt=start), attempt__cluster=cluster, start__lt=end
        ).values_list("attempt_id", flat=True)
    )


def store_result(
    request_id: UUID,
    reports: Sequence[AccountReport],
    *,
    as_of: datetime,
    until: datetime,
    teams: Mapping[str, UUID],
    now: datetime,
) -> None:
    """Store what the comparison up to `until` found, in place of the one before.

    `teams` are the teams of accounts. Green is a day without unexpected differences; one that is
    not, or was not over, is compared again. A request that was answered already changes nothing.
    Must run behind the caller's fence.
    """
    row = _asked_for(request_id)
    if row is None:
        return
    is_green = all(report.is_green for report in reports)
    row.status = ReconciliationStatus.GREEN if is_green else ReconciliationStatus.RED
    row.as_of, row.until, row.message = as_of, until, ""
    day_end = start_of(row.day) + _DAY
    if until < day_end:
        row.next_at = day_end + SETTLING
    else:
        row.next_at = None if is_green else _again(row, now)
    accounts = [_account_row(row, report, teams.get(report.account)) for report in reports]
    drop_if_outdated(row, accounts, now=now)
    _answer(row, now)
    row.accounts.all().delete()
    ReconciledAccount.objects.bulk_create(accounts)


def store_failure(
    request_id: UUID, status: ReconciliationStatus, message: str, *, now: datetime
) -> None:
    """Store that the account could not be had, or not yet; it is asked for again later.

    What an earlier comparison found stays, with its time. Must run behind the caller's fence.
    """
    row = _asked_for(request_id)
    if row is None:
        return
    row.status = status
    row.message = message[:_MESSAGE_LENGTH_MAX]
    row.next_at = _again(row, now)
    _answer(row, now)


def _asked_for(request_id: UUID) -> Reconciliation | None:
    return Reconciliation.objects.select_for_update().filter(request_id=request_id).first()


def _again(row: Reconciliation, now: datetime) -> datetime | None:
    """When a day is compared again; None for one that is too old to be."""
    too_old = start_of(row.day) + (DAYS_MAX + 1) * _DAY
    return now + RETRY_AFTER if now < too_old else None


def _answer(row: Reconciliation, now: datetime) -> None:
    row.request_id = None
    row.tried_at = now
    row.save()
    publish("reports", organization_id=None, audience=COSTS)


def _account_row(
    row: Reconciliation, report: AccountReport, team_id: UUID | None
) -> ReconciledAccount:
    kept, cut = report.differences[:DIFFERENCES_MAX], report.differences[DIFFERENCES_MAX:]
    return ReconciledAccount(
        reconciliation=row,
        account=report.account[:255],
        pool=report.pool,
        team_id=team_id,
        is_green=report.is_green,
        metered_mgpu_s=report.metered_mgpu_s,
        accounted_mgpu_s=report.accounted_mgpu_s,
        differences=[_stored(difference) for difference in kept],
        difference_count=len(report.differences),
        cut_count=len(cut),
        cut_mgpu_s=sum(difference.mgpu_s for difference in cut),
    )


_TIMES = ("metered_start", "metered_end", "accounted_start", "accounted_end")


def _stored(difference: Difference) -> dict[str, Any]:
    """As JSON, as the API shows it; account and pool are the row's."""
    values = asdict(difference)
    del values["account"], values["pool"]
    for name in ("attempt_id", "job_id"):
        found = values.pop(name)
        values[name.removesuffix("_id")] = None if found is None else str(found)
    for name in _TIMES:
        if values[name] is not None:
            values[name] = f"{from_epoch(values[name]):%Y-%m-%dT%H:%M:%SZ}"
    values["user"] = values["user"][:64]
    values["state"] = values["state"][:100]
    return values


@dataclass(frozen=True, slots=True)
class DayView:
    """A reconciled day as somebody may see it: their accounts only, and what follows from them.

    `message` is the cluster's own words, for whoever manages clusters.
    """

    row: Reconciliation
    accounts: tuple[ReconciledAccount, ...]
    status: ReconciliationStatus
    message: str

    @property
    def metered_mgpu_s(self) -> int:
        """By our meter."""
        return sum(item.metered_mgpu_s for item in self.accounts)

    @property
    def accounted_mgpu_s(self) -> int:
        """By the cluster's account."""
        return sum(item.accounted_mgpu_s for item in self.accounts)

    @property
    def by_device(self) -> list[dict[str, Any]]:
        """Both, of each kind of devices that there is: those of cores and GPUs have no one unit."""
        sums: dict[DeviceKind, list[int]] = {}
        for item in self.accounts:
            of_kind = sums.setdefault(device_of_account(item), [0, 0])
            of_kind[0] += item.metered_mgpu_s
            of_kind[1] += item.accounted_mgpu_s
        return [
            {"device": kind, "metered_mgpu_s": sums[kind][0], "accounted_mgpu_s": sums[kind][1]}
            for kind in DeviceKind
            if kind in sums
        ]

    @property
    def difference_count(self) -> int:
        """All differences, also those that were not kept."""
        return sum(item.difference_count for item in self.accounts)

    @property
    def is_complete(self) -> bool:
        """Whether the whole day was compared."""
        return self.row.until is not None and self.row.until >= start_of(self.row.day) + _DAY


def visible_days(actor: Actor, *, whole: bool = False) -> QuerySet[Reconciliation]:
    """Every reconciled day, each with the accounts that the actor may see costs of; with their
    differences when `whole`.

    That a cluster was reconciled is no secret to whoever sees costs. Raises Forbidden for
    anybody else.
    """
    if not actor.prefixes(Permission.VIEW_COSTS):
        raise Forbidden(
            f"You need the right {Permission.VIEW_COSTS.value} on a team, department or "
            "organization; ask an administrator of it.",
            permission=Permission.VIEW_COSTS.value,
        )
    devices = Pool.objects.filter(name=OuterRef("pool")).values("device")
    found = (
        ReconciledAccount.objects.select_related("team")
        .annotate(device=Subquery(devices))
        .order_by("account", "pool")
    )
    accounts = visible(
        actor,
        found if whole else found.defer("differences"),
        Permission.VIEW_COSTS,
        path_field="team__path",
    )
    return Reconciliation.objects.select_related("cluster").prefetch_related(
        Prefetch("accounts", accounts, to_attr="seen_accounts")
    )


def one_day(actor: Actor, reconciliation_id: UUID) -> DayView:
    """The day with its differences. Raises as `visible_days`, and NotFound."""
    row = visible_days(actor, whole=True).filter(pk=reconciliation_id).first()
    if row is None:
        raise NotFound("It does not exist, or you may not see it.")
    return day_view(actor, row)


def device_of_account(account: ReconciledAccount) -> DeviceKind:
    """What the devices of the account's pool are, of an account of `visible_days`."""
    # None: the pool is gone, and pools of cores came late.
    return DeviceKind(getattr(account, "device", None) or DeviceKind.GPU)


def day_view(actor: Actor, row: Reconciliation) -> DayView:
    """What `row`, of `visible_days` of the same actor, is to them.

    A day that is red for somebody else is green to whose own accounts agree.
    """
    accounts: tuple[ReconciledAccount, ...] = tuple(getattr(row, "seen_accounts", ()))
    status = ReconciliationStatus(row.status)
    if status == ReconciliationStatus.RED and all(item.is_green for item in accounts):
        status = ReconciliationStatus.GREEN
    manages = PLATFORM in actor.prefixes(Permission.MANAGE_CLUSTERS)
    return DayView(row, accounts, status, row.message if manages else "")


def team_nodes() -> Iterable[Node]:
    """Every team, for whoever names their accounts."""
    return Node.objects.filter(kind=NodeKind.TEAM).order_by("path")
