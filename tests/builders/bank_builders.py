"""Credit banks for tests, with teams and their guarantees."""

from __future__ import annotations

from datetime import datetime

from bank.models import CreditBank, CreditLot, CreditPool
from builders.portal_builders import a_quota, a_team
from clusters.models import Pool
from ledger.accounts import accounts_of
from tenants.models import Node

DAY_S = 86_400


def a_bank(organization: Node, since: datetime, *, cap_s: int = 14 * DAY_S) -> CreditBank:
    """A bank that was switched on at `since`."""
    return CreditBank.objects.create(
        organization=organization, is_on=True, cap_s=cap_s, switched_at=since
    )


def teams_of(organization: Node, pool: Pool, **gpus: int) -> dict[str, Node]:
    """Teams by name, with so many guaranteed GPUs each."""
    a_quota(organization, pool, sum(gpus.values()))
    teams = {name: a_team(organization, name) for name in gpus}
    for name, team in teams.items():
        a_quota(team, pool, gpus[name])
    return teams


def balances(credit_pool: CreditPool, teams: dict[str, Node], unit: int = 1) -> dict[str, float]:
    """Balances by name of the team, and `pool`, in multiples of `unit`."""
    names = {str(team.pk): name for name, team in teams.items()}
    return {
        names.get(one.owner, one.owner): one.balance / unit
        for one in accounts_of(credit_pool.ledger)
    }


def lots_are_right(credit_pool: CreditPool) -> bool:
    """Whether the earnings of each team sum to its balance where that is above 0."""
    lots: dict[str, int] = {}
    for lot in CreditLot.objects.filter(credit_pool=credit_pool):
        lots[str(lot.team_id)] = lots.get(str(lot.team_id), 0) + lot.amount
    return all(
        lots.get(one.owner, 0) == max(0, one.balance)
        for one in accounts_of(credit_pool.ledger).filter(kind="team")
    )
