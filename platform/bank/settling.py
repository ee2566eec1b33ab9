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
from typing import NamedTuple
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Min, Q

from bank.models import (
    CreditBank,
    CreditLot,
    CreditPool,
    Settlement,
    SettlementLine,
    SettlementTransfer,
)
from bank.usage import TeamUse, unpaid_spans, uses_of
from billing.metering import record_unpaid
from credits import settlement as rules
from credits.settlement import Account, Earning, Interval, Limits, Transfer
from ledger.accounts import accounts_of, open_account
from ledger.transfers import NewTransfer, record
from primitives.errors import Conflict
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
    """Settle every interval that is over, of all banks; return how many.

    A bank that is off is settled until it was switched off.
    After a pause it catches up in the order of time. A fault in one pool is logged and does not
    keep the others from being settled.
    """
    settled = 0
    for bank in CreditBank.objects.order_by("pk"):
        for credit_pool in _pools_of(bank):
            try:
                for _ in range(INTERVALS_MAX):
                    if not settle_next_interval(credit_pool.pk, now):
                        break
                    settled += 1
            except Exception:
                log.exception("%s: not settled since %s", credit_pool, credit_pool.settled_until)
    return settled


def settle_rest(bank: CreditBank, now: datetime) -> None:
    """Settle a bank that is off until it was switched off, without waiting for late news.

    Raises Conflict where more than `INTERVALS_MAX` intervals of a pool are left, or where another
    process settles it.
    """
    until = bank.switched_at.replace(microsecond=0)
    for credit_pool in [] if bank.is_on else _pools_of(bank):
        for _ in range(INTERVALS_MAX):
            if not settle_next_interval(credit_pool.pk, now, waits=False):
                break
        credit_pool.refresh_from_db(fields=["settled_until"])
        if credit_pool.settled_until < until:
            raise Conflict(
                "The use before the bank was switched off is still being settled. "
                "Switch it on again in some minutes."
            )


def first_boundary(moment: datetime) -> datetime:
    """Return the first boundary of intervals at or after `moment`."""
    length_s = settings.CREDITS_SETTLED_EVERY_S
    return datetime.fromtimestamp(-(-moment.timestamp() // length_s) * length_s, UTC)


def _pools_of(bank: CreditBank) -> Sequence[CreditPool]:
    """Return the credits of each pool in which the organization has a guarantee.

    A pool without credits yet begins with its first quota there, but not before the switch. Of a
    bank that is off, these are the pools that are not settled until then.
    """
    if not bank.is_on:
        return list(
            CreditPool.objects.filter(
                organization=bank.organization_id, settled_until__lt=bank.switched_at
            ).order_by("pk")
        )
    pools = Quota.objects.filter(
        node__organization=bank.organization_id, guaranteed_mgpu__gt=0, pool__archived_at=None
    )
    known = CreditPool.objects.filter(organization=bank.organization_id).values("pool_id")
    first = (
        pools.exclude(pool__in=known)
        .values_list("pool_id")
        .annotate(since=Min("changes__at", filter=Q(changes__before=None)))
    )
    begins = {
        pool: first_boundary(max(bank.switched_at, since or bank.switched_at))
        for pool, since in first
    }
    CreditPool.objects.bulk_create(
        [
            CreditPool(
                organization_id=bank.organization_id,
                pool_id=pool,
                settled_since=begin,
                settled_until=begin,
            )
            for pool, begin in begins.items()
        ],
        ignore_conflicts=True,
    )
    return list(CreditPool.objects.filter(organization=bank.organization_id).order_by("pk"))


@transaction.atomic
def settle_next_interval(credit_pool_id: int, now: datetime, *, waits: bool = True) -> bool:
    """Settle the next interval of the pool; of a bank that is off, until it was switched off.

    Return False where it was not over by `now`, or where another process settles the pool. Without
    `waits`, it does not wait for the last events of the interval, which then count as late.
    """
    credit_pool = locked_pool(credit_pool_id)
    if credit_pool is None:
        return False
    bank = CreditBank.objects.get(pk=credit_pool.organization_id)
    start = credit_pool.settled_until
    end = first_boundary(start + timedelta(seconds=1))
    if not bank.is_on:
        end = min(end, bank.switched_at.replace(microsecond=0))
    if end <= start or end + (SETTLED_AFTER if waits else timedelta(0)) > now:
        return False
    zone = zone_of(credit_pool.organization_id)
    uses = uses_of(credit_pool.organization_id, credit_pool.pool_id, start, end)
    basis = Basis(
        Limits(floor_s=installation_policy().credit_floor_s, cap_s=bank.cap_s),
        credit_pool.pool.weight,
        last_number(credit_pool),
    )
    books = Books(credit_pool, uses, basis.weight)
    lines: list[SettlementLine] = []
    if any(use.used_mgpu_s > use.guaranteed_mgpu_s for use in uses):
        paid = settled(books.accounts, books.pool, uses, basis, expires_at=expiry(end, zone))
        books.take(paid)
        lines = lines_of(uses, paid, basis.weight)
    payments = len(books.transfers)
    # Not every day of every zone has a midnight, and intervals may be longer than a quarter.
    day_before, day = (moment.astimezone(zone).date() for moment in (start, end))
    if day_before != day:
        books.take(rules.expire(books.accounts, books.pool, at=int(end.timestamp())))
        if day_before.month != day.month:
            books.take(
                rules.share_out(
                    books.accounts,
                    books.pool,
                    expires_at=expiry(end, zone),
                    limits=basis.limits,
                )
            )
    new = [
        books.new_transfer(one, key_of(credit_pool, start, one), effective_at=end)
        for one in summed(books.transfers)
    ]
    books.record(new, now)
    if lines:
        paid_keys = {key_of(credit_pool, start, one) for one in books.transfers[:payments]}
        settlement = Settlement(credit_pool=credit_pool, start=start, end=end)
        store_settlement(settlement, basis, lines, paid_keys, now)
        record_unpaid_use(settlement, lines, basis.weight, now)
    credit_pool.settled_until = end
    credit_pool.epoch += 1 if books.transfers else 0
    credit_pool.save(update_fields=["settled_until", "epoch"])
    return True


class Basis(NamedTuple):
    """The basis of a settlement, which later revisions keep; see `models.Settlement`."""

    limits: Limits
    weight: int
    after_number: int


def locked_pool(credit_pool_id: int) -> CreditPool | None:
    """Return the credits of a pool, locked; None where another process settles them."""
    locked = CreditPool.objects.select_for_update(of=("self",), skip_locked=True)
    return locked.select_related("pool").filter(pk=credit_pool_id).first()


def settled(
    accounts: Iterable[Account],
    pool: int,
    uses: Sequence[TeamUse],
    basis: Basis,
    *,
    expires_at: int,
) -> rules.Settlement:
    """Return the settlement of an interval with these uses, from these balances."""
    return rules.settle(
        accounts, pool, _interval(uses, basis.weight), expires_at=expires_at, limits=basis.limits
    )


def lines_of(
    uses: Iterable[TeamUse], settled: rules.Settlement, weight: int
) -> list[SettlementLine]:
    """Return the line of each team that borrowed or earned, without their settlement."""
    lines = []
    for use in uses:
        team = str(use.team)
        paid, unpaid, lent = (
            part.get(team, 0) for part in (settled.paid, settled.unpaid, settled.lent)
        )
        waived = use.waived_mgpu_s * weight
        if any((paid, unpaid, waived, lent)):
            lines.append(
                SettlementLine(
                    team_id=use.team,
                    guaranteed=use.guaranteed_mgpu_s * weight,
                    used=use.used_mgpu_s * weight,
                    paid=paid,
                    unpaid=unpaid,
                    waived=waived,
                    lent=lent,
                )
            )
    return lines


def store_settlement(
    settlement: Settlement,
    basis: Basis,
    lines: Sequence[SettlementLine],
    keys: Iterable[UUID],
    now: datetime,
) -> None:
    """Store a revision with its lines and the keys of its payments."""
    settlement.floor_s, settlement.cap_s = basis.limits.floor_s, basis.limits.cap_s
    settlement.weight, settlement.after_number = basis.weight, basis.after_number
    settlement.recorded_at = now
    settlement.save()
    for line in lines:
        line.settlement = settlement
    SettlementLine.objects.bulk_create(lines)
    SettlementTransfer.objects.bulk_create(
        [SettlementTransfer(settlement=settlement, key=key) for key in sorted(keys)]
    )


def record_unpaid_use(
    settlement: Settlement, lines: Iterable[SettlementLine], weight: int, now: datetime
) -> None:
    """Tell the meter which use of the interval stayed unpaid.

    A milli-GPU-second that was paid in part counts as paid.
    """
    credit_pool = settlement.credit_pool
    where = credit_pool.organization_id, credit_pool.pool_id
    unpaid = {line.team_id: line.unpaid // weight for line in lines if line.unpaid}
    if unpaid or settlement.revision > 1:
        start, end = settlement.start, settlement.end
        record_unpaid(
            unpaid_spans(*where, start, end, unpaid),
            organization_id=where[0],
            pool_id=where[1],
            start=start,
            end=end,
            now=now,
        )


def last_number(credit_pool: CreditPool) -> int:
    """Return the number of the last transfer in the ledger of the pool; 0 without any."""
    with connection.cursor() as cursor:
        cursor.execute(_LAST_NUMBER, [credit_pool.ledger])
        (number,) = cursor.fetchone()
    return int(number)


_LAST_NUMBER = """
SELECT COALESCE(MAX(e.transfer_id), 0)
FROM ledger_account a JOIN ledger_entry e ON e.account_id = a.id AND e.sequence = a.sequence
WHERE a.ledger = %s
"""


def key_of(credit_pool: CreditPool, start: datetime, one: Transfer, revision: int = 1) -> UUID:
    """Return the key of a payment of an interval in the ledger."""
    again = f" {revision}" if revision > 1 else ""
    return uuid5(
        _KEYS,
        f"{credit_pool.pk} {start:%Y%m%dT%H%MZ} {one.kind} "
        f"{one.payer or POOL} {one.payee or POOL}{again}",
    )


class Books:
    """The accounts of one pool while an interval is settled, and the transfers so far."""

    def __init__(self, credit_pool: CreditPool, uses: Sequence[TeamUse], weight: int) -> None:
        self._credit_pool = credit_pool
        found = {
            (one.kind, one.owner): (one.pk, one.balance) for one in accounts_of(credit_pool.ledger)
        }
        self._ids = {key: pk for key, (pk, _) in found.items()}
        guaranteed = {str(use.team): use.guaranteed_mgpu * weight for use in uses}
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

    def new_transfer(
        self, one: Transfer, key: UUID, *, effective_at: datetime, reason: str = ""
    ) -> NewTransfer:
        """Return the transfer of the ledger for a payment."""
        return NewTransfer(
            key=key,
            debit_id=self.id_of(one.payer),
            credit_id=self.id_of(one.payee),
            amount=one.amount,
            code=one.kind.value,
            effective_at=effective_at,
            # The rules of settlement keep the limits. Corrections may exceed them.
            enforces_limits=False,
            reason=reason,
        )

    def record(self, new: Sequence[NewTransfer], now: datetime) -> None:
        """Record transfers, and the earnings that they leave."""
        if new:
            record(new, now=now.replace(microsecond=0))
            store_lots(
                self._credit_pool,
                self._lots,
                {account.team: account.earnings for account in self.accounts},
            )

    def owner_of(self, account_id: int) -> str | None:
        """Return the team of an account; None for that of the pool."""
        kind, owner = next(key for key, pk in self._ids.items() if pk == account_id)
        return None if kind == POOL else owner

    def id_of(self, team: str | None) -> int:
        """Return the account of a team, or of the pool for None; it is opened where needed."""
        kind, owner = (POOL, POOL) if team is None else (TEAM, team)
        if (kind, owner) not in self._ids:
            self._ids[kind, owner] = open_account(self._credit_pool.ledger, owner, kind).pk
        return self._ids[kind, owner]


def summed(transfers: Iterable[Transfer]) -> list[Transfer]:
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

    So a team that borrowed for a part of it and lent for another counts with the difference. Use
    that a fault made free does not count as borrowed.
    """
    used, lendable = {}, {}
    for use in uses:
        above = (use.used_mgpu_s - use.guaranteed_mgpu_s - use.waived_mgpu_s) * weight
        used[str(use.team)] = use.guaranteed_mgpu * weight + above
        lendable[str(use.team)] = use.lendable_mgpu_s * weight
    return Interval(1, used, lendable)


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


def expiry(earned_at: datetime, zone: ZoneInfo) -> int:
    """Return the midnight in `zone`, as epoch, of the same day `MONTHS_KEPT` months later.

    A day that the month lacks is its last one.
    """
    # A day's last interval ends at the midnight of the next day.
    day = (earned_at - timedelta(seconds=1)).astimezone(zone)
    month = day.month - 1 + MONTHS_KEPT
    year, month = day.year + month // 12, month % 12 + 1
    last = monthrange(year, month)[1]
    return int(datetime(year, month, min(day.day, last), tzinfo=zone).timestamp())
