"""The settlement of credits: each quarter of an hour of an organization and a pool, once.

The rules are those of `credits.settlement` (R-89 to R-93); this module reads their input and
records their transfers. One transaction settles one interval: the transfers, the earnings and
`CreditPool.settled_until` change together, so a crash at any moment loses and repeats nothing.
"""

from __future__ import annotations

import logging
from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction
from django.db.models import Min, Q

from bank.models import (
    CreditBank,
    CreditLot,
    CreditPool,
    Settlement,
    SettlementLine,
)
from bank.usage import TeamUse, uses_of
from credits import settlement as rules
from credits.settlement import Account, Earning, Interval, Limits, Transfer
from ledger.accounts import accounts_of, open_account
from ledger.transfers import NewTransfer, record
from quotas.installation import installation_policy
from quotas.models import OrganizationPolicy, Quota

#: The meter gets this much time to learn of the last events of an interval.
SETTLED_AFTER = timedelta(seconds=60)
#: The most intervals of one pool that one call settles. Others follow with the next call.
INTERVALS_MAX = 96
#: Earnings expire after this many months.
MONTHS_KEPT = 3
TEAM, POOL = "team", "pool"
log = logging.getLogger(__name__)
_KEYS = UUID("2b0d5f58-7c5e-5d0a-8e0a-6f0f9a5b7c11")


def settle_due(now: datetime) -> int:
    """Settle every interval that is over, of all banks that are on; return how many.

    After a pause it catches up in the order of time. A fault in one pool is logged and does not
    keep the others from being settled.
    """
    settled = 0
    for bank in CreditBank.objects.filter(is_on=True).order_by("pk"):
        for credit_pool in _pools_of(bank):
            try:
                for _ in range(INTERVALS_MAX):
                    if not settle_next_interval(credit_pool.pk, now):
                        break
                    settled += 1
            except Exception:
                log.exception("%s: not settled since %s", credit_pool, credit_pool.settled_until)
    return settled


def first_boundary(moment: datetime) -> datetime:
    """Return the first boundary of intervals at or after `moment`."""
    length_s = settings.CREDITS_SETTLED_EVERY_S
    return datetime.fromtimestamp(-(-moment.timestamp() // length_s) * length_s, UTC)


def _pools_of(bank: CreditBank) -> Sequence[CreditPool]:
    """Return the credits of each pool in which the organization has a guarantee.

    A pool without credits yet begins with its first quota there, but not before the switch.
    """
    pools = Quota.objects.filter(
        node__organization=bank.organization_id, guaranteed_mgpu__gt=0, pool__archived_at=None
    )
    known = CreditPool.objects.filter(organization=bank.organization_id).values("pool_id")
    first = (
        pools.exclude(pool__in=known)
        .values_list("pool_id")
        .annotate(since=Min("changes__at", filter=Q(changes__before=None)))
    )
    CreditPool.objects.bulk_create(
        [
            CreditPool(
                organization_id=bank.organization_id,
                pool_id=pool,
                settled_until=first_boundary(max(bank.switched_at, since or bank.switched_at)),
            )
            for pool, since in first
        ],
        ignore_conflicts=True,
    )
    return list(CreditPool.objects.filter(organization=bank.organization_id).order_by("pk"))


@transaction.atomic
def settle_next_interval(credit_pool_id: int, now: datetime) -> bool:
    """Settle the next interval of the pool.

    Return False where it was not over by `now`, or where another process settles the pool.
    """
    locked = CreditPool.objects.select_for_update(of=("self",), skip_locked=True)
    credit_pool = locked.select_related("pool").filter(pk=credit_pool_id).first()
    if credit_pool is None:
        return False
    bank = CreditBank.objects.get(pk=credit_pool.organization_id)
    start = credit_pool.settled_until
    end = first_boundary(start + timedelta(seconds=1))
    if not bank.is_on or end + SETTLED_AFTER > now:
        return False
    zone = zone_of(credit_pool.organization_id)
    uses = uses_of(credit_pool.organization_id, credit_pool.pool_id, start, end)
    weight = credit_pool.pool.weight
    books = _Books(credit_pool, uses)
    limits = Limits(floor_s=installation_policy().credit_floor_s, cap_s=bank.cap_s)
    if any(use.used_mgpu_s > use.guaranteed_mgpu_s for use in uses):
        paid = rules.settle(
            books.accounts,
            books.pool,
            _interval(uses, weight),
            expires_at=_expiry(end, zone),
            limits=limits,
        )
        books.take(paid)
        _store_lines(credit_pool, (start, end), uses, paid, now)
    # Not every day of every zone has a midnight, and intervals may be longer than a quarter.
    day_before, day = (moment.astimezone(zone).date() for moment in (start, end))
    if day_before != day:
        books.take(rules.expire(books.accounts, books.pool, at=int(end.timestamp())))
        if day_before.month != day.month:
            books.take(
                rules.share_out(
                    books.accounts, books.pool, expires_at=_expiry(end, zone), limits=limits
                )
            )
    books.store(start, end, now)
    credit_pool.settled_until = end
    credit_pool.epoch += 1 if books.transfers else 0
    credit_pool.save(update_fields=["settled_until", "epoch"])
    return True


class _Books:
    """The accounts of one pool while an interval is settled, and the transfers so far."""

    def __init__(self, credit_pool: CreditPool, uses: Sequence[TeamUse]) -> None:
        self._credit_pool = credit_pool
        found = {
            (one.kind, one.owner): (one.pk, one.balance) for one in accounts_of(credit_pool.ledger)
        }
        self._ids = {key: pk for key, (pk, _) in found.items()}
        guaranteed = {str(use.team): use.guaranteed_mgpu * credit_pool.pool.weight for use in uses}
        self._lots = lots_of(credit_pool)
        teams = {owner for kind, owner in found if kind == TEAM} | guaranteed.keys()
        self.accounts: tuple[Account, ...] = tuple(
            Account(
                team,
                guaranteed.get(team, 0),
                found[TEAM, team][1] if (TEAM, team) in found else 0,
                self._lots.get(team, ()),
            )
            for team in sorted(teams)
        )
        self.pool = found[POOL, POOL][1] if (POOL, POOL) in found else 0
        self.transfers: list[Transfer] = []

    def take(self, settled: rules.Settlement) -> None:
        """Take over the accounts after a step, and its transfers."""
        self.accounts, self.pool = settled.accounts, settled.pool
        self.transfers += settled.transfers

    def store(self, start: datetime, end: datetime, now: datetime) -> None:
        """Record the transfers, and the earnings that they leave."""
        if not self.transfers:
            return
        record(
            [
                NewTransfer(
                    key=uuid5(
                        _KEYS,
                        f"{self._credit_pool.pk} {start:%Y%m%dT%H%MZ} {one.kind} "
                        f"{one.payer or POOL} {one.payee or POOL}",
                    ),
                    debit_id=self._id_of(one.payer),
                    credit_id=self._id_of(one.payee),
                    amount=one.amount,
                    code=one.kind.value,
                    effective_at=end,
                    # The rules of settlement keep the limits. Corrections may exceed them.
                    enforces_limits=False,
                )
                for one in _summed(self.transfers)
            ],
            now=now.replace(microsecond=0),
        )
        store_lots(
            self._credit_pool,
            self._lots,
            {account.team: account.earnings for account in self.accounts},
        )

    def _id_of(self, team: str | None) -> int:
        kind, owner = (POOL, POOL) if team is None else (TEAM, team)
        if (kind, owner) not in self._ids:
            self._ids[kind, owner] = open_account(self._credit_pool.ledger, owner, kind).pk
        return self._ids[kind, owner]


def _summed(transfers: Iterable[Transfer]) -> list[Transfer]:
    """Return one transfer for each kind, payer and payee.

    A payer pays the account of the pool once for each lender that is at its cap.
    """
    amounts: dict[tuple[rules.TransferKind, str | None, str | None], int] = {}
    for one in transfers:
        key = one.kind, one.payer, one.payee
        amounts[key] = amounts.get(key, 0) + one.amount
    return [
        Transfer(payer, payee, amount, kind) for (kind, payer, payee), amount in amounts.items()
    ]


def _interval(uses: Iterable[TeamUse], weight: int) -> Interval:
    """Return the use as an interval of one second that holds the whole integrals.

    So a team that borrowed for a part of it and lent for another counts with the difference.
    """
    used, lendable = {}, {}
    for use in uses:
        above = (use.used_mgpu_s - use.guaranteed_mgpu_s) * weight
        used[str(use.team)] = use.guaranteed_mgpu * weight + above
        lendable[str(use.team)] = use.lendable_mgpu_s * weight
    return Interval(1, used, lendable)


def _store_lines(
    credit_pool: CreditPool,
    interval: tuple[datetime, datetime],
    uses: Sequence[TeamUse],
    settled: rules.Settlement,
    now: datetime,
) -> None:
    start, end = interval
    settlement = Settlement.objects.create(
        credit_pool=credit_pool, start=start, end=end, recorded_at=now
    )
    weight = credit_pool.pool.weight
    lines = []
    for use in uses:
        team = str(use.team)
        amounts = [part.get(team, 0) for part in (settled.paid, settled.unpaid, settled.lent)]
        if any(amounts):
            lines.append(
                SettlementLine(
                    settlement=settlement,
                    team_id=use.team,
                    guaranteed=use.guaranteed_mgpu_s * weight,
                    used=use.used_mgpu_s * weight,
                    paid=amounts[0],
                    unpaid=amounts[1],
                    lent=amounts[2],
                )
            )
    SettlementLine.objects.bulk_create(lines)


def lots_of(credit_pool: CreditPool) -> dict[str, tuple[Earning, ...]]:
    """Return the earnings of each team that are not spent yet, the first to expire first."""
    lots: dict[str, tuple[Earning, ...]] = {}
    rows = CreditLot.objects.filter(credit_pool=credit_pool).order_by("team_id", "expires_at")
    for team, expires_at, amount in rows.values_list("team_id", "expires_at", "amount"):
        earning = Earning(amount, int(expires_at.timestamp()))
        lots[str(team)] = (*lots.get(str(team), ()), earning)
    return lots


def store_lots(
    credit_pool: CreditPool,
    before: Mapping[str, Sequence[Earning]],
    after: Mapping[str, Sequence[Earning]],
) -> None:
    """Replace the earnings of the teams whose earnings changed."""
    changed = [team for team in after if tuple(before.get(team, ())) != tuple(after[team])]
    teams = [UUID(team) for team in changed]
    CreditLot.objects.filter(credit_pool=credit_pool, team_id__in=teams).delete()
    CreditLot.objects.bulk_create(
        [
            CreditLot(
                credit_pool=credit_pool,
                team_id=UUID(team),
                expires_at=datetime.fromtimestamp(earning.expires_at, UTC),
                amount=earning.amount,
            )
            for team in changed
            for earning in after[team]
        ]
    )


def zone_of(organization: UUID) -> ZoneInfo:
    """Return the time zone of the organization's days and months."""
    policy = OrganizationPolicy.objects.filter(organization=organization).first()
    return ZoneInfo("UTC" if policy is None else policy.time_zone)


def _expiry(earned_at: datetime, zone: ZoneInfo) -> int:
    """Return the midnight in `zone`, as epoch, of the same day `MONTHS_KEPT` months later.

    A day that the month lacks is its last one.
    """
    # A day's last interval ends at the midnight of the next day.
    day = (earned_at - timedelta(seconds=1)).astimezone(zone)
    month = day.month - 1 + MONTHS_KEPT
    year, month = day.year + month // 12, month % 12 + 1
    last = monthrange(year, month)[1]
    return int(datetime(year, month, min(day.day, last), tzinfo=zone).timestamp())
