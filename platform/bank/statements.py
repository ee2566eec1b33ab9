"""Credits for people: the balances of an organization, and a team's statement of a month."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection

from arbiter.fairshare.credits import TENTH_OF_A_DAY_S
from bank.models import CreditBank, CreditLot, CreditNotice, CreditPool
from bank.settling import POOL, TEAM, zone_of
from clusters.models import Pool
from ledger.accounts import accounts_of, find_account
from quotas.installation import installation_policy
from quotas.models import Quota
from quotas.queries import ranks_of
from tenants.models import Node, NodeKind

#: The most notices of a statement.
NOTICES_SHOWN = 100


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
    floor_s = installation_policy().credit_floor_s
    cap_s = CreditBank._meta.get_field("cap_s").default if bank is None else bank.cap_s
    quotas = Quota.objects.filter(
        node__organization=organization,
        node__kind=NodeKind.TEAM,
        pool=pool,
    ).select_related("node")
    ranks = ranks_of(organization)
    teams = []
    for quota in quotas:
        unit = quota.guaranteed_mgpu * pool.weight
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
                floor_ugpu_s=-floor_s * unit,
                cap_ugpu_s=cap_s * unit,
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


@dataclass(frozen=True, slots=True)
class StatementLine:
    """All transfers of one day, of one kind, with one other account.

    `other` is the path of a team, or empty for POOL. `amount_ugpu_s` is above 0 for credits that
    the team got. `balance_ugpu_s` is the balance after it. `reason` is that of a
    correction or of a transfer between teams.
    """

    day: date
    kind: str
    other: str
    amount_ugpu_s: int
    balance_ugpu_s: int
    reason: str


@dataclass(frozen=True, slots=True)
class Expiring:
    """Earnings that are not spent yet, and the day at the end of which they expire."""

    last_day: date
    amount_ugpu_s: int


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
    expire first. `notices` are those of the month, the latest first, at most `NOTICES_SHOWN`.
    """

    team: Node
    pool: Pool
    start: datetime
    end: datetime
    opening_ugpu_s: int
    closing_ugpu_s: int
    lines: tuple[StatementLine, ...]
    expiring: tuple[Expiring, ...]
    notices: tuple[Notice, ...] = ()


def month_of(year: int, month: int, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the beginning of the month and of the next one in the zone."""
    start = datetime(year, month, 1, tzinfo=zone)
    end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=zone)
    return start.astimezone(UTC), end.astimezone(UTC)


def statement_of(team: Node, pool: Pool, year: int, month: int) -> Statement:
    """Return the team's statement, line by line from the ledger.

    A transfer belongs to the day in which its interval ended, and at midnight to the day before.
    """
    zone = zone_of(team.organization_id)
    start, end = month_of(year, month, zone)
    credit_pool = CreditPool.objects.filter(organization=team.organization_id, pool=pool).first()
    account = None
    if credit_pool is not None:
        account = find_account(credit_pool.ledger, str(team.pk), TEAM)
    if credit_pool is None or account is None:
        return Statement(team, pool, start, end, 0, 0, (), ())
    parameters: dict[str, Any] = {
        "account": account.pk,
        "start": start,
        "end": end,
        "zone": str(zone),
    }
    with connection.cursor() as cursor:
        cursor.execute(_OPENING, parameters)
        (opening,) = cursor.fetchone()
        cursor.execute(_LINES, parameters)
        rows = cursor.fetchall()
    balance, lines = int(opening), []
    names = _names({owner for _, _, owner, _, _ in rows})
    named = sorted(
        (day, reason, kind, names.get(owner, ""), int(amount))
        for day, kind, owner, reason, amount in rows
    )
    for day, reason, kind, other, amount in named:
        balance += amount
        lines.append(StatementLine(day, kind, other, amount, balance, reason))
    lots = CreditLot.objects.filter(credit_pool=credit_pool, team=team).order_by("expires_at")
    expiring = tuple(Expiring(_last_day(lot.expires_at, zone), lot.amount) for lot in lots)
    given = CreditNotice.objects.filter(
        credit_pool=credit_pool, team=team, given_at__gte=start, given_at__lt=end
    ).order_by("-given_at", "expires_at")
    notices = tuple(
        Notice(_last_day(one.expires_at, zone), one.amount, one.days, one.given_at)
        for one in given[:NOTICES_SHOWN]
    )
    return Statement(team, pool, start, end, int(opening), balance, tuple(lines), expiring, notices)


def _last_day(expires_at: datetime, zone: ZoneInfo) -> date:
    """Return the day at the end of which earnings expire."""
    return (expires_at - timedelta(seconds=1)).astimezone(zone).date()


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
