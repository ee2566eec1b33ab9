"""The settlement of credits: transfers, limits, lots that expire, dividend, holds (R-89 to R-94).

Rests on Karma (Vuppalapati et al., OSDI 2023) with the whole guarantee protected. All amounts are
integers in millionths of a GPU-second of the reference GPU: milli-GPU-seconds times the pool's
weight per mille. Everything is per pool. Every transfer takes from one account what it gives to
another, so the balances of all teams and POOL sum to 0 always.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import lcm

from arbiter.quota.ratio import exact_ratio
from primitives.units import largest_remainder

#: A hold that so many settlements in a row did not renew is dead.
SETTLEMENTS_MISSED = 2


class TransferKind(StrEnum):
    """Why credits move."""

    LENT = "lent"
    COMMON = "common"
    ABOVE_CAP = "above_cap"
    EXPIRED = "expired"
    DIVIDEND = "dividend"


@dataclass(frozen=True, slots=True)
class Transfer:
    """`amount`, above 0, goes from `payer` to `payee`; None is POOL."""

    payer: str | None
    payee: str | None
    amount: int
    kind: TransferKind


@dataclass(frozen=True, slots=True)
class Lot:
    """Earnings that are not spent yet; what is left of them at `expires_at` goes to POOL."""

    amount: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Account:
    """A team's credits. `guaranteed` is what its guarantee is worth a second (milli-GPU times
    weight). The lots, first earned first, sum to the balance where that is above 0."""

    team: str
    guaranteed: int
    balance: int = 0
    lots: tuple[Lot, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """How deep a balance may go by borrowing and how high by earning, in seconds of guarantee."""

    floor_s: int = 7 * 86_400
    cap_s: int = 14 * 86_400


@dataclass(frozen=True, slots=True)
class Interval:
    """A time in which nobody's use changed. `used` by team, a second, as `Account.guaranteed`.

    `lendable` says how much of a team's guarantee others may use at most; those it does not
    name lend all of theirs.
    """

    seconds: int
    used: Mapping[str, int]
    lendable: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What was paid and lent, and how the accounts and POOL stand after it.

    `paid`, `unpaid` and `lent` by team; a team that has none is left out.
    """

    accounts: tuple[Account, ...]
    pool: int
    transfers: tuple[Transfer, ...]
    paid: Mapping[str, int]
    unpaid: Mapping[str, int]
    lent: Mapping[str, int]


def settle(
    accounts: Iterable[Account],
    pool: int,
    interval: Interval,
    *,
    expires_at: int,
    limits: Limits | None = None,
) -> Settlement:
    """Charge what was borrowed and credit those whose idle guarantees it came from.

    A borrower pays for what it used above its guarantee, down to the floor and no further: the
    rest is unpaid. What was paid goes to the lenders, as much as their idle guarantees
    could give, the poorest (balance over guarantee) raised first until the next is as poor; the
    rest of it, for GPUs that nobody was guaranteed, goes to POOL. What a lender would earn
    above its cap goes to POOL too. Earnings expire at `expires_at`. The richest payer
    is matched with the poorest lender; ties go by id.
    """
    limits = limits or Limits()
    books = {account.team: account for account in sorted(accounts, key=lambda one: one.team)}
    paid: dict[str, int] = {}
    unpaid: dict[str, int] = {}
    idle: dict[str, int] = {}
    for team, account in books.items():
        above = (interval.used.get(team, 0) - account.guaranteed) * interval.seconds
        if above > 0:
            most = max(0, account.balance + limits.floor_s * account.guaranteed)
            paid[team] = min(above, most)
            unpaid[team] = above - paid[team]
        elif above < 0:
            lendable = (interval.lendable or {}).get(team, account.guaranteed)
            idle[team] = min(-above, lendable * interval.seconds)
    total = sum(paid.values())
    earned = _raise_poorest(books, idle, min(total, sum(idle.values())))
    transfers = _matched(books, paid, earned, limits)
    pool = _book(books, pool, transfers, expires_at)
    return Settlement(
        tuple(books.values()),
        pool,
        tuple(transfers),
        _above_0(paid),
        _above_0(unpaid),
        _above_0(earned),
    )


def expire(accounts: Iterable[Account], pool: int, *, at: int) -> Settlement:
    """What is left of earnings that expire until `at` goes to POOL."""
    books = {account.team: account for account in sorted(accounts, key=lambda one: one.team)}
    transfers = []
    for team, account in books.items():
        dead = sum(lot.amount for lot in account.lots if lot.expires_at <= at)
        if dead:
            transfers.append(Transfer(team, None, dead, TransferKind.EXPIRED))
            lots = tuple(lot for lot in account.lots if lot.expires_at > at)
            books[team] = replace(account, balance=account.balance - dead, lots=lots)
            pool += dead
    return Settlement(tuple(books.values()), pool, tuple(transfers), {}, {}, {})


def share_out(
    accounts: Iterable[Account], pool: int, *, expires_at: int, limits: Limits | None = None
) -> Settlement:
    """The dividend: POOL goes to the teams in proportion to their guarantees, by largest
    remainder; what would lift a team above its cap stays in POOL."""
    limits = limits or Limits()
    books = {account.team: account for account in sorted(accounts, key=lambda one: one.team)}
    weights = {team: account.guaranteed for team, account in books.items() if account.guaranteed}
    transfers = []
    if pool > 0 and weights:
        shares = largest_remainder(pool, weights, out_of=sum(weights.values()))
        for team, share in shares.items():
            amount = min(share, _room(books[team], limits))
            if amount > 0:
                transfers.append(Transfer(None, team, amount, TransferKind.DIVIDEND))
    pool = _book(books, pool, transfers, expires_at)
    return Settlement(tuple(books.values()), pool, tuple(transfers), {}, {}, {})


@dataclass(frozen=True, slots=True)
class Hold:
    """Credits that a borrowed attempt keeps for the time to come; renewed by each settlement."""

    team: str
    amount: int
    renewed_at: int


def held(holds: Iterable[Hold], *, at: int, settled_every_s: int) -> dict[str, int]:
    """What is held by team. A hold dies by itself at the second settlement that did not renew
    it, so none can stay for ever."""
    found: dict[str, int] = {}
    for hold in holds:
        if at - hold.renewed_at < SETTLEMENTS_MISSED * settled_every_s:
            found[hold.team] = found.get(hold.team, 0) + hold.amount
    return found


def _richness(account: Account) -> int:
    """Orders as balance over guarantee; without one it counts as the least there is."""
    return exact_ratio(account.balance, max(1, account.guaranteed))


def _room(account: Account, limits: Limits) -> int:
    """What the account may still earn."""
    return max(0, limits.cap_s * account.guaranteed - account.balance)


def _raise_poorest(
    books: Mapping[str, Account], most: Mapping[str, int], total: int
) -> dict[str, int]:
    """Give out `total`, to nobody more than `most` of it: the poorest is raised to the level of
    the next, then both, and so on. Units that do not divide go by largest remainder, then id.

    Levels are integers: balance over guarantee times a multiple of all guarantees.
    """
    if total <= 0:
        return {}
    scale = lcm(*(books[team].guaranteed for team in most))
    per_unit = {team: scale // books[team].guaranteed for team in most}
    low = {team: books[team].balance * per_unit[team] for team in most}
    high = {team: low[team] + most[team] * per_unit[team] for team in most}
    # By level, how much more guarantee is being raised from there on.
    changes: dict[int, int] = {}
    for team in most:
        changes[low[team]] = changes.get(low[team], 0) + books[team].guaranteed
        changes[high[team]] = changes.get(high[team], 0) - books[team].guaranteed
    left, level, slope = total * scale, min(low.values()), 0
    for until in sorted(changes):
        if slope * (until - level) >= left:
            break
        left -= slope * (until - level)
        level = until
        slope += changes[until]
    # The level that is reached, and what each gets, as fractions over these.
    parts = slope or 1
    reached, unit = level * parts + (left if slope else 0), parts * scale
    exact = {
        team: min(most[team] * unit, max(0, (reached - low[team] * parts) * books[team].guaranteed))
        for team in most
    }
    shares = {team: amount // unit for team, amount in exact.items()}
    by_remainder = sorted(exact, key=lambda team: (-(exact[team] % unit), team))
    for team in by_remainder[: total - sum(shares.values())]:
        shares[team] += 1
    return shares


def _matched(
    books: Mapping[str, Account],
    paid: Mapping[str, int],
    earned: Mapping[str, int],
    limits: Limits,
) -> list[Transfer]:
    """Who pays whom: the richest payer the poorest lender first, POOL last."""
    payees: list[tuple[str | None, int, TransferKind]] = []
    for team in sorted(earned, key=lambda team: (_richness(books[team]), team)):
        kept = min(earned[team], _room(books[team], limits))
        payees.append((team, kept, TransferKind.LENT))
        payees.append((None, earned[team] - kept, TransferKind.ABOVE_CAP))
    rest = sum(paid.values()) - sum(earned.values())
    payees.append((None, rest, TransferKind.COMMON))
    transfers = []
    payers = sorted(paid, key=lambda team: (-_richness(books[team]), team))
    left, at = dict(paid), 0
    for payee, wanted, kind in payees:
        while wanted and at < len(payers):
            payer = payers[at]
            amount = min(wanted, left[payer])
            if amount:
                transfers.append(Transfer(payer, payee, amount, kind))
                left[payer] -= amount
                wanted -= amount
            if not left[payer]:
                at += 1
    return transfers


def _book(
    books: dict[str, Account], pool: int, transfers: Iterable[Transfer], expires_at: int
) -> int:
    """Change the accounts by `transfers`, in which nobody both pays and earns; returns what POOL
    has then."""
    spent: dict[str, int] = {}
    earned: dict[str, int] = {}
    for one in transfers:
        if one.payer is None:
            pool -= one.amount
        else:
            spent[one.payer] = spent.get(one.payer, 0) + one.amount
        if one.payee is None:
            pool += one.amount
        else:
            earned[one.payee] = earned.get(one.payee, 0) + one.amount
    for team, amount in spent.items():
        books[team] = _spend(books[team], amount)
    for team, amount in earned.items():
        books[team] = _earn(books[team], amount, expires_at)
    return pool


def _spend(account: Account, amount: int) -> Account:
    """Less by `amount`: the lots that were earned first are spent first."""
    lots, left, spent = account.lots, amount, 0
    while spent < len(lots) and lots[spent].amount <= left:
        left -= lots[spent].amount
        spent += 1
    lots = lots[spent:]
    if left and lots:
        lots = (Lot(lots[0].amount - left, lots[0].expires_at), *lots[1:])
    return Account(account.team, account.guaranteed, account.balance - amount, lots)


def _earn(account: Account, amount: int, expires_at: int) -> Account:
    """More by `amount`: what a debt does not take up is a lot."""
    balance = account.balance + amount
    lots = account.lots
    fresh = min(amount, balance)
    if fresh > 0:
        if lots and lots[-1].expires_at == expires_at:
            fresh += lots[-1].amount
            lots = lots[:-1]
        lots = (*lots, Lot(fresh, expires_at))
    return Account(account.team, account.guaranteed, balance, lots)


def _above_0(amounts: Mapping[str, int]) -> dict[str, int]:
    return {team: amount for team, amount in amounts.items() if amount > 0}
