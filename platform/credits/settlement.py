"""The settlement of credits: transfers, limits, expiry, dividend, holds (R-89 to R-94).

The model follows Karma (Vuppalapati et al., OSDI 2023), with the whole guarantee protected. All
amounts are integers in millionths of a GPU-second of the reference GPU: milli-GPU-seconds times the
pool's weight per mille. Each pool has accounts of its own. Every transfer takes from one account
what it gives to another. So the balances of all teams and POOL always sum to 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import lcm

from arbiter.fairshare.decay import CHARGED_AT_START_S
from arbiter.quota.ratio import exact_ratio
from primitives.units import largest_remainder

#: A hold is dead after this many settlements in a row that did not renew it.
SETTLEMENTS_MISSED = 2


class TransferKind(StrEnum):
    """The reason for which credits move."""

    LENT = "lent"
    COMMON = "common"
    ABOVE_CAP = "above_cap"
    EXPIRED = "expired"
    DIVIDEND = "dividend"
    TRANSFERRED = "transferred"
    #: The reversal of a payment after late news, and after a fault.
    CORRECTION = "correction"
    REFUND = "refund"


@dataclass(frozen=True, slots=True)
class Transfer:
    """One payment of `amount`, above 0, from `payer` to `payee`; None is POOL."""

    payer: str | None
    payee: str | None
    amount: int
    kind: TransferKind


@dataclass(frozen=True, slots=True)
class Earning:
    """Earnings that are not spent yet. POOL gets the rest of them at `expires_at`."""

    amount: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Account:
    """The credits of one team.

    `guaranteed` is the worth of the team's guarantee per second, in milli-GPU times weight.
    `earnings` are ordered by when they were earned, first to last. They sum to the balance where it
    is above 0.
    """

    team: str
    guaranteed: int
    balance: int = 0
    earnings: tuple[Earning, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a balance: how deep borrowing may take it, how high earning, in s of guarantee."""

    floor_s: int = 7 * 86_400
    cap_s: int = 14 * 86_400


@dataclass(frozen=True, slots=True)
class Interval:
    """A time span in which no team's use changed.

    `used` is the use per second by team, in the unit of `Account.guaranteed`. `lendable` is the
    part of a team's guarantee that others may use at most. A team that it does not name lends all
    of its guarantee.
    """

    seconds: int
    used: Mapping[str, int]
    lendable: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The payments and loans of one settlement, with the accounts and POOL after it.

    `paid`, `unpaid` and `lent` are amounts by team. A team with an amount of 0 is left out.
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
    """Charge teams for the GPUs that they borrowed, and credit teams whose guarantees were idle.

    - A borrower pays for its use above its guarantee, down to the floor of its balance. The rest is
      unpaid.
    - Lenders share the payments, each at most as much as its idle guarantee could give. The poorest
      lender (balance over guarantee) is raised first, until the next one is as poor.
    - POOL gets the rest, which paid for GPUs that no team was guaranteed. It also gets the earnings
      of a lender above its cap.

    Earnings expire at `expires_at`. The richest payer is matched with the poorest lender. Ties are
    broken by team id.
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
    """Move earnings that expired by `at` and were not spent to POOL."""
    books = {account.team: account for account in sorted(accounts, key=lambda one: one.team)}
    transfers = []
    for team, account in books.items():
        dead = sum(earning.amount for earning in account.earnings if earning.expires_at <= at)
        if dead:
            transfers.append(Transfer(team, None, dead, TransferKind.EXPIRED))
            earnings = tuple(earning for earning in account.earnings if earning.expires_at > at)
            books[team] = replace(account, balance=account.balance - dead, earnings=earnings)
            pool += dead
    return Settlement(tuple(books.values()), pool, tuple(transfers), {}, {}, {})


def share_out(
    accounts: Iterable[Account], pool: int, *, expires_at: int, limits: Limits | None = None
) -> Settlement:
    """Pay the dividend: split POOL among the teams in proportion to their guarantees.

    Units that do not divide go by largest remainder. A share that would lift a team above its cap
    stays in POOL.
    """
    limits = limits or Limits()
    books = {account.team: account for account in sorted(accounts, key=lambda one: one.team)}
    weights = {team: account.guaranteed for team, account in books.items() if account.guaranteed}
    transfers = []
    if pool > 0 and weights:
        shares = largest_remainder(pool, weights, out_of=sum(weights.values()))
        for team, share in shares.items():
            amount = min(share, _earnable(books[team], limits))
            if amount > 0:
                transfers.append(Transfer(None, team, amount, TransferKind.DIVIDEND))
    pool = _book(books, pool, transfers, expires_at)
    return Settlement(tuple(books.values()), pool, tuple(transfers), {}, {}, {})


def move(sender: Account, recipient: Account, amount: int) -> tuple[Account, Account]:
    """Return both accounts after a transfer of `amount`, above 0.

    The oldest earnings of the sender move first, with their expiry. They pay off a debt of the
    recipient before they become its earnings. Raises ValueError unless the sender has that much.
    """
    if amount > sum(earning.amount for earning in sender.earnings):
        raise ValueError(f"{sender.team} has no {amount} credits to transfer")
    after = _spend(sender, amount)
    kept = {earning.expires_at: earning.amount for earning in after.earnings}
    earnings = {earning.expires_at: earning.amount for earning in recipient.earnings}
    debt = max(0, -recipient.balance)
    for earning in sender.earnings:
        moved = earning.amount - kept.get(earning.expires_at, 0)
        repaid = min(debt, moved)
        debt -= repaid
        if moved > repaid:
            known = earnings.get(earning.expires_at, 0)
            earnings[earning.expires_at] = known + moved - repaid
    received = tuple(Earning(earnings[expires_at], expires_at) for expires_at in sorted(earnings))
    balance = recipient.balance + amount
    return after, Account(recipient.team, recipient.guaranteed, balance, received)


def correct(
    accounts: Iterable[Account], pool: int, transfers: Iterable[Transfer], *, expires_at: int
) -> Settlement:
    """Apply reversals and the payments in their place.

    Only the difference counts for the earnings of a team. Credits that come back expire at
    `expires_at`, and credits that a team loses are spent like a payment. No limit applies.
    """
    books = {account.team: account for account in sorted(accounts, key=lambda one: one.team)}
    transfers = tuple(transfers)
    gained = dict.fromkeys(books, 0)
    for one in transfers:
        if one.payer is None:
            pool -= one.amount
        else:
            gained[one.payer] -= one.amount
        if one.payee is None:
            pool += one.amount
        else:
            gained[one.payee] += one.amount
    for team, amount in gained.items():
        if amount > 0:
            books[team] = _earn(books[team], amount, expires_at)
        elif amount < 0:
            books[team] = _spend(books[team], -amount)
    return Settlement(tuple(books.values()), pool, transfers, {}, {}, {})


def held_credits(borrowed: int, *, unsettled_s: float, settled_every_s: int) -> int:
    """Return the credits that a team holds for the further run of its `borrowed` use per second.

    It is an hour of that use. Each settlement renews it. After `SETTLEMENTS_MISSED` intervals
    without one it is 0, so no hold lasts for ever.
    """
    if borrowed <= 0 or unsettled_s >= SETTLEMENTS_MISSED * settled_every_s:
        return 0
    return borrowed * CHARGED_AT_START_S


def _richness(account: Account) -> int:
    """Return a sort key that orders accounts by balance over guarantee.

    An account without a guarantee counts as if its guarantee were the smallest possible.
    """
    return exact_ratio(account.balance, max(1, account.guaranteed))


def _earnable(account: Account, limits: Limits) -> int:
    """Return how much the account may still earn before it reaches its cap."""
    return max(0, limits.cap_s * account.guaranteed - account.balance)


def _raise_poorest(
    books: Mapping[str, Account], most: Mapping[str, int], total: int
) -> dict[str, int]:
    """Give out `total`, to each team at most its share in `most`, the poorest team first.

    The poorest team is raised to the level of the next, then both, and so on. Units that do not
    divide go by largest remainder, then by id. Levels are integers: balance over guarantee, times a
    multiple of all guarantees. A team that lost its guarantee meanwhile counts as in `_richness`.
    """
    if total <= 0:
        return {}
    parts_of = {team: max(1, books[team].guaranteed) for team in most}
    scale = lcm(*parts_of.values())
    per_unit = {team: scale // parts_of[team] for team in most}
    low = {team: books[team].balance * per_unit[team] for team in most}
    high = {team: low[team] + most[team] * per_unit[team] for team in most}
    # At each level: by how much the sum of the guarantees that are being raised changes.
    changes: dict[int, int] = {}
    for team in most:
        changes[low[team]] = changes.get(low[team], 0) + parts_of[team]
        changes[high[team]] = changes.get(high[team], 0) - parts_of[team]
    left, level, slope = total * scale, min(low.values()), 0
    for until in sorted(changes):
        if slope * (until - level) >= left:
            break
        left -= slope * (until - level)
        level = until
        slope += changes[until]
    # The level reached, and the share of each team, as fractions over these denominators.
    parts = slope or 1
    reached, unit = level * parts + (left if slope else 0), parts * scale
    exact = {
        team: min(most[team] * unit, max(0, (reached - low[team] * parts) * parts_of[team]))
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
    """Match payers with payees: the richest payer with the poorest lender first, POOL last."""
    payees: list[tuple[str | None, int, TransferKind]] = []
    for team in sorted(earned, key=lambda team: (_richness(books[team]), team)):
        accepted = min(earned[team], _earnable(books[team], limits))
        payees.append((team, accepted, TransferKind.LENT))
        payees.append((None, earned[team] - accepted, TransferKind.ABOVE_CAP))
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
    """Apply `transfers` to the accounts, and return the new balance of POOL.

    No team both pays and earns in `transfers`.
    """
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
    """Return the account reduced by `amount`; the oldest earnings are spent first."""
    earnings, left, spent = account.earnings, amount, 0
    while spent < len(earnings) and earnings[spent].amount <= left:
        left -= earnings[spent].amount
        spent += 1
    earnings = earnings[spent:]
    if left and earnings:
        earnings = (Earning(earnings[0].amount - left, earnings[0].expires_at), *earnings[1:])
    return Account(account.team, account.guaranteed, account.balance - amount, earnings)


def _earn(account: Account, amount: int, expires_at: int) -> Account:
    """Return the account increased by `amount`; what pays off no debt becomes an earning."""
    balance = account.balance + amount
    earnings = account.earnings
    fresh = min(amount, balance)
    if fresh > 0:
        if earnings and earnings[-1].expires_at == expires_at:
            fresh += earnings[-1].amount
            earnings = earnings[:-1]
        earnings = (*earnings, Earning(fresh, expires_at))
    return Account(account.team, account.guaranteed, balance, earnings)


def _above_0(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the entries of `amounts` that are above 0."""
    return {team: amount for team, amount in amounts.items() if amount > 0}
