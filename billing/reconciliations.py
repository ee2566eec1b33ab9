"""Reconciled days: their schedule, requests, results and visibility.

A request is a message in the outbox, handled by the code that talks to clusters. Each request has
its own id, so that a day can be requested again.
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
from billing.models import MeteredAttempt, UsageSegment
from billing.reconciliation import AccountReport, Difference, MeteredRun, Piece
from billing.reconciliation_models import ReconciledAccount, Reconciliation, ReconciliationStatus
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
#: Earliest time after the end of a day for its comparison, when its last jobs are in the account.
SETTLING = timedelta(hours=1)
#: Pause after which a day that is not green is compared again,
RETRY_AFTER = timedelta(minutes=30)
#: as long as it is not older than this many days.
DAYS_MAX = 7
#: Days after the end of a day when it is compared again in any case: accounts may be changed later.
REPEATED_AFTER_DAYS = (1, 2, 4, 7, 14, 21, 28, 35)
#: Age limit of manual requests, in days. It is longer than accounting is usually stored.
DAYS_BACK_MAX = 400
#: Most differences stored per account and pool, the largest ones. The others are counted and
#: summed.
DIFFERENCES_MAX = 200
_MESSAGE_LENGTH_MAX = 2_000
_DAY = timedelta(days=1)


def account_shard(cluster_id: UUID) -> str:
    """Return the outbox shard for requests to a cluster's accounting, which may take minutes."""
    return f"{cluster_id}/account"


def start_of(day: date) -> datetime:
    """Return the first second of the UTC day."""
    return datetime.combine(day, time(), UTC)


def plan_days(cluster: Cluster, *, now: datetime) -> int:
    """Request the comparison of every due day of `cluster`, and return how many.

    Due are days whose next comparison has come. Due are also the last seven days that are over and
    settled, if they were never compared and the cluster was watched then. Must run behind the
    caller's fence.
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
    """Return whether the day is compared: until the archiving, and later while a job still ran."""
    if cluster.archived_at is None or day <= cluster.archived_at.astimezone(UTC).date():
        return True
    start = start_of(day)
    return bool(attempts_between(cluster, start, start + _DAY))


def request_day(cluster_name: str, day: date, *, actor: Actor, now: datetime) -> Reconciliation:
    """Request that the cluster's agent compares this day (again) as soon as possible.

    For users who manage prices anywhere: finance and administrators. An open request is reused.
    Raises Forbidden, and NotFound for an unknown cluster. Raises InvalidRequest for a day that has
    not begun or is too long ago. Raises Conflict for a cluster that is disabled, archived or has no
    account.
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
    kind = kind_named(cluster.kind)
    if kind.open_account is None:
        raise Conflict(
            f"{cluster.name} is a {cluster.kind} cluster, which has no accounting of its own to "
            "compare the meter with."
        )
    if kind.account_days is not None and now >= _gone_at(day, kind.account_days):
        raise Conflict(
            f"{cluster.name} no longer has all runs of this day: it forgets a run "
            f"{kind.account_days} days after its end. Choose a later day."
        )
    if cluster.archived_at is not None:
        raise Conflict(f"{cluster.name} is archived, so it is not asked. Restore it first.")
    if not cluster.is_enabled:
        raise Conflict(f"{cluster.name} is disabled, so it is not asked. Enable it first.")
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
    ids: Collection[UUID],
    *,
    account_of: Mapping[UUID, str],
    natives: Mapping[UUID, tuple[str, int]],
    native_ids: Mapping[UUID, str],
) -> list[MeteredRun]:
    """Return the attempts of `cluster` with these ids, by id.

    Each has all its segments. `account_of` is the cluster's account of each team. `natives` are
    number and submit time of attempts that the portal did not submit. `native_ids` are the recorded
    numbers of the others.
    """
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
    """Return the metered attempts on `cluster` at any time of `[start, end)`."""
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
    metered_at: datetime,
    now: datetime,
) -> None:
    """Store the results of the comparison up to `until`, in place of the previous ones.

    `teams` are the teams of accounts, and `metered_at` is when the meter was read. A day is green
    without unexpected differences. A day that is red, or was not over, is compared again soon.
    Every day is compared again at `REPEATED_AFTER_DAYS`. A request that was answered already
    changes nothing. Must run behind the caller's fence.
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
        row.next_at = _repeated(row, now) if is_green else _again(row, now)
        row.green_at = metered_at if is_green else row.green_at
    accounts = [_account_row(row, report, teams.get(report.account)) for report in reports]
    drop_if_outdated(row, accounts, now=now)
    _answer(row, now)
    row.accounts.all().delete()
    ReconciledAccount.objects.bulk_create(accounts)


def store_failure(
    request_id: UUID, status: ReconciliationStatus, message: str, *, now: datetime
) -> None:
    """Store that the account was not available, or not yet. It is requested again later.

    Results of an earlier comparison stay, with their time. If that was of the whole day, its status
    stays, too: a cluster that is away takes back no confirmation. Must run behind the caller's
    fence.
    """
    row = _asked_for(request_id)
    if row is None:
        return
    if not row.is_whole:
        row.status = status
    row.message = message[:_MESSAGE_LENGTH_MAX]
    row.next_at = _again(row, now)
    _answer(row, now)


def _asked_for(request_id: UUID) -> Reconciliation | None:
    asked = Reconciliation.objects.select_for_update(of=("self",)).select_related("cluster")
    return asked.filter(request_id=request_id).first()


def _again(row: Reconciliation, now: datetime) -> datetime | None:
    """Return when a day without a green result is compared again; None if it is too old."""
    too_old = start_of(row.day) + (DAYS_MAX + 1) * _DAY
    return now + RETRY_AFTER if now < too_old else _repeated(row, now)


def _repeated(row: Reconciliation, now: datetime) -> datetime | None:
    """Return when the day is compared again in any case; None if it is too old for its account."""
    account_days = kind_named(row.cluster.kind).account_days
    for days in REPEATED_AFTER_DAYS:
        at = start_of(row.day) + (days + 1) * _DAY + SETTLING
        if at > now and (account_days is None or at < _gone_at(row.day, account_days)):
            return at
    return None


def _gone_at(day: date, account_days: int) -> datetime:
    """Return from when on an account that has runs for `account_days` lacks some of `day`."""
    return start_of(day) + account_days * _DAY


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
    """Return a difference as JSON, in the form of the API. Account and pool are in the row."""
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
    """A reconciled day as a user may see it: only the visible accounts, and a status from these.

    `message` is the cluster's own message, for users who manage clusters.
    """

    row: Reconciliation
    accounts: tuple[ReconciledAccount, ...]
    status: ReconciliationStatus
    message: str

    @property
    def metered_mgpu_s(self) -> int:
        """Return the use by our meter."""
        return sum(item.metered_mgpu_s for item in self.accounts)

    @property
    def accounted_mgpu_s(self) -> int:
        """Return the use by the cluster's account."""
        return sum(item.accounted_mgpu_s for item in self.accounts)

    @property
    def by_device(self) -> list[dict[str, Any]]:
        """Return both sums for each kind of devices. Cores and GPUs have no common unit."""
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
        """Return the number of all differences, including those that are not stored."""
        return sum(item.difference_count for item in self.accounts)

    @property
    def is_complete(self) -> bool:
        """Return whether the whole day was compared."""
        return self.row.is_whole


def visible_days(actor: Actor, *, whole: bool = False) -> QuerySet[Reconciliation]:
    """Return every reconciled day, each with the accounts whose costs the actor may see.

    With `whole`, the accounts have their differences. Every user who sees costs may know that a
    cluster was reconciled. Raises Forbidden for all others.
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
    """Return the day with its differences. Raises as `visible_days`, and NotFound."""
    row = visible_days(actor, whole=True).filter(pk=reconciliation_id).first()
    if row is None:
        raise NotFound("It does not exist, or you may not see it.")
    return day_view(actor, row)


def device_of_account(account: ReconciledAccount) -> DeviceKind:
    """Return the kind of the pool's devices, for an account of `visible_days`."""
    # None: the pool is gone. It had GPUs, because pools of cores came later.
    return DeviceKind(getattr(account, "device", None) or DeviceKind.GPU)


def day_view(actor: Actor, row: Reconciliation) -> DayView:
    """Return the view of `row` for the actor of `visible_days`.

    A day that is red only for other accounts is shown as green.
    """
    accounts: tuple[ReconciledAccount, ...] = tuple(getattr(row, "seen_accounts", ()))
    status = ReconciliationStatus(row.status)
    if status == ReconciliationStatus.RED and all(item.is_green for item in accounts):
        status = ReconciliationStatus.GREEN
    manages = PLATFORM in actor.prefixes(Permission.MANAGE_CLUSTERS)
    return DayView(row, accounts, status, row.message if manages else "")


def team_nodes() -> Iterable[Node]:
    """Return every team, so that callers can name the accounts."""
    return Node.objects.filter(kind=NodeKind.TEAM).order_by("path")
