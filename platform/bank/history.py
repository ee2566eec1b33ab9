"""The history of a team's balance by day, what is on hold now, and the end of the month."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection

from bank.borrowers import Borrowing, borrowing_now, mgpu_in_use
from bank.models import CreditBank, CreditLot, CreditPool
from bank.settling import SETTLED_AFTER, TEAM, zone_of
from bank.statements import limits_of, month_of
from clusters.models import Pool
from credits.settlement import TransferKind, held_credits
from primitives.days import left_of_day_permille, midnight
from primitives.forecast import HISTORY_DAYS, forecast_of
from quotas.models import Quota
from tenants.access import Actor
from tenants.models import Node

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DayBalance:
    """The balance at the end of a day; of the present day, the settled one."""

    day: date
    balance: int


@dataclass(frozen=True, slots=True)
class BalanceForecast:
    """The expected balance at the end of `last_day`, and its range.

    `flow` are the expected earnings less payments until then, and `expiring` the earnings that
    expire unspent. Dividends and transfers of people are not foreseen.
    """

    last_day: date
    low: int
    middle: int
    high: int
    flow: int
    expiring: int


@dataclass(frozen=True, slots=True)
class History:
    """A team's balance over a month of its organization, in millionths of a GPU-second.

    `held` is on hold for the running jobs of `borrowing`, and `pending` for transfers that wait.
    `floor` and `cap` are those of the present. A past month has no forecast.
    """

    team: Node
    pool: Pool
    settled_until: datetime | None
    opening: int
    balance: int
    floor: int
    cap: int
    held: int
    pending: int
    days: tuple[DayBalance, ...]
    borrowing: tuple[Borrowing, ...]
    forecast: BalanceForecast | None


def history_of(
    team: Node, pool: Pool, year: int, month: int, *, actor: Actor, now: datetime
) -> History:
    """Return the team's history of a month. The ledger is read in one statement."""
    zone = zone_of(team.organization_id)
    start, end = month_of(year, month, zone)
    quota = Quota.objects.filter(node=team, pool=pool).first()
    guaranteed_mgpu = 0 if quota is None else quota.guaranteed_mgpu
    bank = CreditBank.objects.filter(organization=team.organization_id).first()
    limits = limits_of(bank, guaranteed_mgpu * pool.weight)
    credit_pool = CreditPool.objects.filter(organization=team.organization_id, pool=pool).first()
    if bank is None or credit_pool is None:
        return History(team, pool, None, 0, 0, *limits, 0, 0, (), (), None)
    settled = credit_pool.settled_until
    # A transfer at midnight belongs to the day before, as in the statement.
    moment = settled - _SECOND
    today = moment.astimezone(zone).date()
    first, last = date(year, month, 1), (end - _SECOND).astimezone(zone).date()
    known_from = min(first, today - timedelta(days=HISTORY_DAYS))
    found = _read_changes(credit_pool, team, midnight(known_from, zone), end, zone)
    opening, days = _days(found, first, min(last, today))
    forecast, held = None, 0
    if bank.is_on and start <= settled < end:
        begun = (credit_pool.settled_since - _SECOND).astimezone(zone).date() + _DAY
        forecast = _forecast(
            found,
            moment,
            (max(known_from, begun), today, last),
            zone,
            limits=limits,
            expiring=_expiring(credit_pool, team, end),
        )
        held = held_credits(
            (mgpu_in_use(team, pool) - guaranteed_mgpu) * pool.weight,
            unsettled_s=(now - settled - SETTLED_AFTER).total_seconds(),
            settled_every_s=settings.CREDITS_SETTLED_EVERY_S,
        )
    return History(
        team=team,
        pool=pool,
        settled_until=settled,
        opening=opening,
        balance=found.balance,
        floor=limits[0],
        cap=limits[1],
        held=held,
        pending=found.pending,
        days=days,
        borrowing=borrowing_now(team, pool, zone, now, actor=actor) if held else (),
        forecast=forecast,
    )


class _Changes(NamedTuple):
    """The present sums of an account, and its changes of each day since the first one asked for.

    A change is all transfers, and the part that lending and borrowing made. `later` is the sum of
    the transfers after the days.
    """

    balance: int
    pending: int
    later: int
    by_day: Mapping[date, tuple[int, int]]


def _read_changes(
    credit_pool: CreditPool, team: Node, since: datetime, end: datetime, zone: ZoneInfo
) -> _Changes:
    with connection.cursor() as cursor:
        cursor.execute(
            _CHANGES,
            {
                "ledger": credit_pool.ledger,
                "owner": str(team.pk),
                "kind": TEAM,
                "flows": [kind.value for kind in _FLOWS],
                "since": since,
                "end": end,
                "zone": str(zone),
            },
        )
        rows = cursor.fetchall()
    if not rows:
        return _Changes(0, 0, 0, {})
    balance, pending = rows[0][:2]
    by_day = {
        day: (int(amount), int(flow or 0)) for _, _, day, amount, flow in rows if day is not None
    }
    later = sum(int(amount or 0) for _, _, day, amount, _ in rows if day is None)
    return _Changes(balance, pending, later, by_day)


def _days(found: _Changes, first: date, last: date) -> tuple[int, tuple[DayBalance, ...]]:
    """Return the balance before `first`, and that of each day until `last`."""
    since = sum(amount for day, (amount, _) in found.by_day.items() if day >= first)
    opening = balance = found.balance - found.later - since
    days = []
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        balance += found.by_day.get(day, (0, 0))[0]
        days.append(DayBalance(day, balance))
    return opening, tuple(days)


def _expiring(credit_pool: CreditPool, team: Node, end: datetime) -> int:
    lots = CreditLot.objects.filter(credit_pool=credit_pool, team=team, expires_at__lte=end)
    return sum(lots.values_list("amount", flat=True))


def _forecast(
    found: _Changes,
    moment: datetime,
    days: tuple[date, date, date],
    zone: ZoneInfo,
    *,
    limits: tuple[int, int],
    expiring: int,
) -> BalanceForecast | None:
    """Return the forecast of a balance; `days` are the first known one, today and the last one.

    Payments spend the credits first that expire first. Earnings stop at the cap, and payments at
    the floor.
    """
    known_from, today, last = days
    flows = {
        day: found.by_day.get(day, (0, 0))[1]
        for day in (known_from + timedelta(days=n) for n in range((today - known_from).days))
    }
    flow = forecast_of(
        0, flows, today=today, left_of_today_permille=left_of_day_permille(moment, zone), last=last
    )
    if flow is None:
        return None
    floor, cap = min(limits[0], found.balance), max(limits[1], found.balance)

    def after(amount: int) -> tuple[int, int]:
        expired = max(0, expiring - max(0, -amount))
        return max(floor, min(cap, found.balance + amount - expired)), expired

    middle, expired = after(flow.middle)
    return BalanceForecast(
        last, after(flow.low)[0], middle, after(flow.high)[0], flow.middle, expired
    )


#: Payments of settlements and their corrections: what lending and borrowing make of a balance.
_FLOWS = (
    TransferKind.LENT,
    TransferKind.COMMON,
    TransferKind.ABOVE_CAP,
    TransferKind.CORRECTION,
    TransferKind.REFUND,
)
#: One row of the account even without transfers, and one without a day for all transfers later.
_CHANGES = """
SELECT a.posted_credits - a.posted_debits, a.pending_debits, one.day, one.amount, one.flow
FROM ledger_account a
LEFT JOIN LATERAL (
    SELECT d.day, SUM(d.amount) AS amount, SUM(d.amount) FILTER (WHERE d.is_flow) AS flow
    FROM (
        SELECT CASE WHEN t.effective_at <= %(end)s THEN
                ((t.effective_at - interval '1 second') AT TIME ZONE %(zone)s)::date END AS day,
            CASE WHEN t.credit_id = a.id THEN t.amount ELSE -t.amount END AS amount,
            t.code = ANY(%(flows)s) AS is_flow
        FROM ledger_entry e JOIN ledger_transfer t ON t.number = e.transfer_id
        WHERE e.account_id = a.id AND t.state = 'posted' AND t.effective_at > %(since)s
    ) AS d
    GROUP BY d.day
) AS one ON true
WHERE a.ledger = %(ledger)s AND a.owner = %(owner)s AND a.kind = %(kind)s
"""
