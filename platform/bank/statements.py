"""Credits for people: the balances of an organization, and a team's statement of a month."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection

from arbiter.fairshare.credits import TENTH_OF_A_DAY_S
from bank.borrowers import Borrowing, borrowed_by_day
from bank.models import CreditBank, CreditLot, CreditNotice, CreditPool
from bank.settling import MONTHS_KEPT, POOL, TEAM, expiry, zone_of
from clusters.models import Pool
from credits.settlement import TransferKind
from ledger.accounts import accounts_of, find_account
from primitives.days import midnight
from quotas.installation import installation_policy
from quotas.models import Quota
from quotas.queries import ranks_of
from tenants.access import Actor
from tenants.models import Node, NodeKind

#: The most notices of a statement.
NOTICES_SHOWN = 100
_DAY = timedelta(days=1)
#: Kinds of transfers that earn credits of their own expiry.
_EARNED = (TransferKind.LENT, TransferKind.DIVIDEND)


@dataclass(frozen=True, slots=True)
class TeamCredits:
    """A team's credits, in millionths of a GPU-second; `tenths` are those of a day of guarantee.

    `rank` is the team's rank for spare GPUs; 0 without one. `transferable_ugpu_s` is what it can
    transfer: the balance above 0, less pending transfers.
    """

    team: Node
    rank: int
    guaranteed_mgpu: int
    balance_ugpu_s: int
    floor_ugpu_s: int
    cap_ugpu_s: int
    tenths: int
    transferable_ugpu_s: int


@dataclass(frozen=True, slots=True)
class PoolCredits:
    """All credits of an organization in a pool: of its teams, and of the account POOL.

    The teams are in their order for spare GPUs: by rank, then by credits over guarantee. Balances
    and `pool_ugpu_s` sum to 0. `settled_until` is None before the first settlement.
    """

    organization: Node
    pool: Pool
    is_on: bool
    settled_until: datetime | None
    pool_ugpu_s: int
    teams: tuple[TeamCredits, ...]


def credits_in(organization: Node, pool: Pool) -> PoolCredits:
    """Return the credits of all teams of the organization that have a quota in `pool`."""
    bank = CreditBank.objects.filter(organization=organization).first()
    credit_pool = CreditPool.objects.filter(organization=organization, pool=pool).first()
    accounts = (
        {}
        if credit_pool is None
        else {(one.kind, one.owner): one for one in accounts_of(credit_pool.ledger)}
    )
    common = accounts.get((POOL, POOL))
    quotas = Quota.objects.filter(
        node__organization=organization,
        node__kind=NodeKind.TEAM,
        pool=pool,
    ).select_related("node")
    ranks = ranks_of(organization)
    teams = []
    for quota in quotas:
        unit = quota.guaranteed_mgpu * pool.weight
        floor, cap = limits_of(bank, unit)
        account = accounts.get((TEAM, str(quota.node_id)))
        balance = 0 if account is None else account.balance
        if quota.node.archived_at is not None and not balance:
            continue
        teams.append(
            TeamCredits(
                team=quota.node,
                rank=ranks.get(quota.node_id, 0),
                guaranteed_mgpu=quota.guaranteed_mgpu,
                balance_ugpu_s=balance,
                floor_ugpu_s=floor,
                cap_ugpu_s=cap,
                tenths=balance // (max(1, quota.guaranteed_mgpu) * pool.weight * TENTH_OF_A_DAY_S),
                transferable_ugpu_s=0 if account is None else max(0, account.available),
            )
        )
    teams.sort(key=lambda one: (-one.rank, -one.tenths, one.team.path))
    return PoolCredits(
        organization=organization,
        pool=pool,
        is_on=bank is not None and bank.is_on,
        settled_until=None if credit_pool is None else credit_pool.settled_until,
        pool_ugpu_s=0 if common is None else common.balance,
        teams=tuple(teams),
    )


def balances_in(organization: Node, pool: Pool) -> Mapping[str, int] | None:
    """Return the balances of the organization's teams in `pool`, by the id of the team.

    In millionths of a GPU-second; None where the credit bank is off. Teams without an account are
    absent.
    """
    if not CreditBank.objects.filter(organization=organization, is_on=True).exists():
        return None
    credit_pool = CreditPool.objects.filter(organization=organization, pool=pool).first()
    if credit_pool is None:
        return {}
    return {one.owner: one.balance for one in accounts_of(credit_pool.ledger).filter(kind=TEAM)}


def limits_of(bank: CreditBank | None, weighted_mgpu: int) -> tuple[int, int]:
    """Return floor and cap of a balance for a guarantee times the weight of its pool."""
    cap_s = CreditBank._meta.get_field("cap_s").default if bank is None else bank.cap_s
    return -installation_policy().credit_floor_s * weighted_mgpu, cap_s * weighted_mgpu


@dataclass(frozen=True, slots=True)
class StatementLine:
    """All transfers of one day, of one kind, with one other account.

    `other` is the path of a team, or empty for POOL. `amount_ugpu_s` is above 0 for credits that
    the team got. `balance_ugpu_s` is the balance after it. `reason` is that of a
    correction or of a transfer between teams. `expires_on` is the last day of what the line earned,
    unless it is spent before; None for lines that earn nothing, and for credits of another team.
    """

    day: date
    kind: str
    other: str
    amount_ugpu_s: int
    balance_ugpu_s: int
    reason: str
    expires_on: date | None


@dataclass(frozen=True, slots=True)
class Earned:
    """Earnings of a month by lending to `other`; an empty one is the dividend."""

    other: str
    amount_ugpu_s: int


@dataclass(frozen=True, slots=True)
class Expiring:
    """Earnings that are not spent yet, and the day at the end of which they expire.

    `earned_in` is the first day of the month in which they were earned, by this team or by one that
    transferred them.
    """

    earned_in: date
    last_day: date
    amount_ugpu_s: int


@dataclass(frozen=True, slots=True)
class EarnedIn:
    """All earnings of a team in a month, spent or not, the largest first."""

    month: date
    earned: tuple[Earned, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that `amount_ugpu_s` expires at the end of `last_day`, at most `days` later."""

    last_day: date
    amount_ugpu_s: int
    days: int
    given_at: datetime


@dataclass(frozen=True, slots=True)
class Statement:
    """A team's credits in a month of the organization's time zone.

    `opening_ugpu_s` plus all lines is `closing_ugpu_s`. `expiring` is as of now, the first to
    expire first, and `earned_in` has the months in which it was earned. `borrowing` are the jobs
    behind the payments, of those that the reader may see. `notices` are those of the month, the
    latest first, at most `NOTICES_SHOWN`.
    """

    team: Node
    pool: Pool
    start: datetime
    end: datetime
    opening_ugpu_s: int
    closing_ugpu_s: int
    lines: tuple[StatementLine, ...]
    expiring: tuple[Expiring, ...] = ()
    earned_in: tuple[EarnedIn, ...] = ()
    borrowing: tuple[Borrowing, ...] = ()
    notices: tuple[Notice, ...] = ()


def month_of(year: int, month: int, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the beginning of the month and of the next one in the zone."""
    start = datetime(year, month, 1, tzinfo=zone)
    end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=zone)
    return start.astimezone(UTC), end.astimezone(UTC)


def statement_of(
    team: Node, pool: Pool, year: int, month: int, *, actor: Actor | None = None
) -> Statement:
    """Return the team's statement, line by line from the ledger, with the jobs that `actor` sees.

    A transfer belongs to the day in which its interval ended, and at midnight to the day before.
    """
    zone = zone_of(team.organization_id)
    start, end = month_of(year, month, zone)
    credit_pool = CreditPool.objects.filter(organization=team.organization_id, pool=pool).first()
    account = None
    if credit_pool is not None:
        account = find_account(credit_pool.ledger, str(team.pk), TEAM)
    if credit_pool is None or account is None:
        return Statement(team, pool, start, end, 0, 0, ())
    opening, rows = _read_lines(account.pk, start, end, zone)
    balance, lines = opening, []
    for day, reason, kind, other, amount in rows:
        balance += amount
        expires_on = None
        if amount > 0 and kind in _EARNED:
            expires_at = datetime.fromtimestamp(expiry(midnight(day + _DAY, zone), zone), UTC)
            expires_on = _last_day(expires_at, zone)
        lines.append(StatementLine(day, kind, other, amount, balance, reason, expires_on))
    expiring = _expiring(credit_pool, team, zone)
    settled_until = min(end, credit_pool.settled_until)
    return Statement(
        team=team,
        pool=pool,
        start=start,
        end=end,
        opening_ugpu_s=opening,
        closing_ugpu_s=balance,
        lines=tuple(lines),
        expiring=expiring,
        earned_in=_earned_in(account.pk, expiring, zone),
        borrowing=()
        if actor is None
        else borrowed_by_day(team, pool, start, settled_until, zone, actor=actor),
        notices=_notices(credit_pool, team, start, end, zone),
    )


def _read_lines(
    account: int, start: datetime, end: datetime, zone: ZoneInfo
) -> tuple[int, list[tuple[date, str, str, str, int]]]:
    """Return the opening balance, and (day, reason, kind, other, amount) in their order."""
    parameters: dict[str, Any] = {"account": account, "start": start, "end": end, "zone": str(zone)}
    with connection.cursor() as cursor:
        cursor.execute(_OPENING, parameters)
        (opening,) = cursor.fetchone()
        cursor.execute(_LINES, parameters)
        rows = cursor.fetchall()
    names = _names({owner for _, _, owner, _, _ in rows})
    return int(opening), sorted(
        (day, reason, kind, names.get(owner, ""), int(amount))
        for day, kind, owner, reason, amount in rows
    )


def _expiring(credit_pool: CreditPool, team: Node, zone: ZoneInfo) -> tuple[Expiring, ...]:
    lots = CreditLot.objects.filter(credit_pool=credit_pool, team=team).order_by("expires_at")
    return tuple(
        Expiring(earned_month(lot.expires_at, zone), _last_day(lot.expires_at, zone), lot.amount)
        for lot in lots
    )


def _earned_in(account: int, expiring: Sequence[Expiring], zone: ZoneInfo) -> tuple[EarnedIn, ...]:
    """Return who paid for the earnings of the months in which the unspent ones were earned."""
    months = sorted({one.earned_in for one in expiring})
    if not months:
        return ()
    with connection.cursor() as cursor:
        cursor.execute(
            _EARNINGS,
            {
                "account": account,
                "since": midnight(months[0], zone),
                "zone": str(zone),
                "kinds": [kind.value for kind in _EARNED],
                "months": months,
            },
        )
        rows = cursor.fetchall()
    names = _names({owner for _, owner, _ in rows})
    earned: dict[date, list[Earned]] = {month: [] for month in months}
    for month, owner, amount in rows:
        earned[month].append(Earned(names.get(owner, ""), int(amount)))
    return tuple(
        EarnedIn(month, tuple(sorted(found, key=lambda one: (-one.amount_ugpu_s, one.other))))
        for month, found in earned.items()
    )


def _notices(
    credit_pool: CreditPool, team: Node, start: datetime, end: datetime, zone: ZoneInfo
) -> tuple[Notice, ...]:
    given = CreditNotice.objects.filter(
        credit_pool=credit_pool, team=team, given_at__gte=start, given_at__lt=end
    ).order_by("-given_at", "expires_at")
    return tuple(
        Notice(_last_day(one.expires_at, zone), one.amount, one.days, one.given_at)
        for one in given[:NOTICES_SHOWN]
    )


def _last_day(expires_at: datetime, zone: ZoneInfo) -> date:
    """Return the day at the end of which earnings expire."""
    return (expires_at - timedelta(seconds=1)).astimezone(zone).date()


def earned_month(expires_at: datetime, zone: ZoneInfo) -> date:
    """Return the first day of the month in which earnings were earned that expire then."""
    months = expires_at.astimezone(zone)
    number = months.year * 12 + months.month - 1 - MONTHS_KEPT
    return date(number // 12, number % 12 + 1, 1)


def _names(owners: set[str]) -> dict[str, str]:
    teams = Node.objects.filter(pk__in=[UUID(owner) for owner in owners if owner != POOL])
    return {str(team.pk): team.display_path for team in teams}


_POSTED = """
    FROM ledger_entry e JOIN ledger_transfer t ON t.number = e.transfer_id
    WHERE e.account_id = %(account)s AND t.state = 'posted'
"""
_SIGNED = "CASE WHEN t.credit_id = %(account)s THEN t.amount ELSE -t.amount END"
_OPENING = f"""
SELECT COALESCE(SUM({_SIGNED}), 0) {_POSTED} AND t.effective_at <= %(start)s
"""
_LINES = f"""
SELECT one.day, one.code, o.owner, one.reason, SUM(one.amount)
FROM (
    SELECT ((t.effective_at - interval '1 second') AT TIME ZONE %(zone)s)::date AS day,
        t.code, t.reason, {_SIGNED} AS amount,
        CASE WHEN t.credit_id = %(account)s THEN t.debit_id ELSE t.credit_id END AS other
    {_POSTED} AND t.effective_at > %(start)s AND t.effective_at <= %(end)s
) AS one
JOIN ledger_account o ON o.id = one.other
GROUP BY one.day, one.code, o.owner, one.reason, sign(one.amount)
"""  # noqa: S608 - made of constants only
_EARNINGS = f"""
SELECT one.month, o.owner, SUM(one.amount)
FROM (
    SELECT date_trunc('month', (t.effective_at - interval '1 second') AT TIME ZONE %(zone)s)::date
            AS month,
        t.debit_id, t.amount
    {_POSTED} AND t.credit_id = %(account)s AND t.code = ANY(%(kinds)s)
        AND t.effective_at > %(since)s
) AS one
JOIN ledger_account o ON o.id = one.debit_id
WHERE one.month = ANY(%(months)s)
GROUP BY one.month, o.owner
"""  # noqa: S608 - made of constants only
