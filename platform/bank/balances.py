"""Balances for the arbiter: those of the ledger, less pending transfers and the holds of jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection

from arbiter.api.snapshot import Balance, PoolWeight, Quota, RunningJob
from bank.settling import SETTLED_AFTER
from credits.settlement import held_credits


class _Epoch(NamedTuple):
    """The state of the credits of one organization in one pool."""

    credit_pool: int
    organization: UUID
    pool: str
    epoch: int
    settled_until: datetime


@dataclass(frozen=True, slots=True)
class StoredBalances:
    """The balances in the ledger as of `epochs`: (team, pool, credits, epoch, settled_until).

    Every team of an organization whose bank is on has a balance in each of its pools.
    """

    epochs: tuple[_Epoch, ...] = ()
    rows: tuple[tuple[str, str, int, int, datetime], ...] = ()


def read_balances(before: StoredBalances | None = None) -> StoredBalances:
    """Return the balances of all banks that are on; `before` itself while no epoch changed.

    The caller gives no `before` where the tree may have changed. Takes one query, or three.
    """
    with connection.cursor() as cursor:
        cursor.execute(_EPOCHS)
        epochs = tuple(_Epoch(*row) for row in cursor.fetchall())
        if before is not None and before.epochs == epochs:
            return before
        if not epochs:
            return StoredBalances()
        cursor.execute(_TEAMS, [list({one.organization for one in epochs})])
        teams: dict[UUID, list[str]] = {}
        for organization, team in cursor.fetchall():
            teams.setdefault(organization, []).append(team)
        cursor.execute(_ACCOUNTS, [[f"credits:{one.credit_pool}" for one in epochs]])
        balances = {(ledger, team): balance for ledger, team, balance in cursor.fetchall()}
    rows = [
        (
            team,
            one.pool,
            balances.get((f"credits:{one.credit_pool}", team), 0),
            one.epoch,
            one.settled_until,
        )
        for one in epochs
        for team in teams.get(one.organization, ())
    ]
    return StoredBalances(epochs, tuple(rows))


def balances_of(
    stored: StoredBalances,
    running: Iterable[RunningJob],
    quotas: Iterable[Quota],
    weights: Iterable[PoolWeight],
    now: datetime,
) -> tuple[Balance, ...]:
    """Return the balances with what is on hold for the borrowed GPUs in use (R-94).

    A hold is the credits of an hour. Each settlement renews it; after two missed ones it is dead.
    """
    if not stored.rows:
        return ()
    in_use: dict[tuple[str, str], int] = {}
    for run in running:
        key = run.team, run.pool
        in_use[key] = in_use.get(key, 0) + run.mgpu
    guaranteed = {(quota.node, quota.pool): quota.guaranteed_mgpu for quota in quotas}
    weight_of = {one.pool: one.permille for one in weights}
    found = []
    for team, pool, credits, epoch, settled_until in stored.rows:
        borrowed_mgpu = in_use.get((team, pool), 0) - guaranteed.get((team, pool), 0)
        held = held_credits(
            borrowed_mgpu * weight_of[pool],
            unsettled_s=(now - settled_until - SETTLED_AFTER).total_seconds(),
            settled_every_s=settings.CREDITS_SETTLED_EVERY_S,
        )
        found.append(Balance(team, pool, credits, held, epoch))
    return tuple(found)


_EPOCHS = """
SELECT c.id, c.organization_id, c.pool_id::text, c.epoch, c.settled_until
FROM bank_creditpool c
JOIN bank_creditbank b ON b.organization_id = c.organization_id AND b.is_on
ORDER BY c.id
"""
_TEAMS = """
SELECT organization_id, id::text FROM tenants_node
WHERE organization_id = ANY(%s) AND kind = 'team' AND archived_at IS NULL
ORDER BY id
"""
_ACCOUNTS = """
SELECT ledger, owner, posted_credits - posted_debits - pending_debits FROM ledger_account
WHERE ledger = ANY(%s) AND kind = 'team'
"""
