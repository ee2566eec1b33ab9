"""Statements in the ledger of money: one transfer per team, from what it owes to revenue (R-102).

A team's account has the cost of its statements as debits. The organization's account of revenue has
them as credits. Amounts are in nano-currency. The ledger of a currency is `money:EUR`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID, uuid5

from ledger.accounts import find_account, open_account
from ledger.transfers import NewTransfer, find_transfers, record, reversal_of
from periods.statement_models import Statement
from primitives.units import NANO_PER_UNIT

TEAM, REVENUE = "team", "revenue"
#: A cent in nano-currency.
NANO_PER_CENT = NANO_PER_UNIT // 100
_KEYS = UUID("7d0f0f0e-32a4-5b1f-9a3c-5f7a8f3f2a19")


def ledger_of(currency: str) -> str:
    """Return the name of the ledger of a currency."""
    return f"money:{currency}"


def post_statements(statements: Sequence[Statement], *, now: datetime) -> None:
    """Post what each team owes by statements. A repeat changes nothing.

    Corrections may make that negative, which moves revenue back to the team.
    """
    transfers = []
    for statement in statements:
        ledger = ledger_of(statement.currency)
        revenue = open_account(ledger, str(statement.organization_id), REVENUE).pk
        for team_id, cents in sorted(_cents_by_team(statement).items()):
            team = open_account(ledger, str(team_id), TEAM).pk
            debit, credit = (team, revenue) if cents > 0 else (revenue, team)
            transfers.append(
                NewTransfer(
                    key=_key(statement, team_id),
                    debit_id=debit,
                    credit_id=credit,
                    amount=abs(cents) * NANO_PER_CENT,
                    code="statement",
                    effective_at=statement.issued_at,
                    reference=statement.number,
                )
            )
    record(transfers, now=now)


def post_credit_note(note: Statement, *, now: datetime) -> None:
    """Reverse the transfers of the credited statement. A repeat changes nothing."""
    assert note.credits is not None
    teams = sorted(_cents_by_team(note.credits))
    posted = find_transfers([_key(note.credits, team_id) for team_id in teams])
    record(
        [
            reversal_of(
                posted[_key(note.credits, team_id)],
                key=_key(note, team_id),
                effective_at=note.issued_at,
                code="credit_note",
                reference=note.number,
            )
            for team_id in teams
        ],
        now=now,
    )


def posted_nano(statements: Sequence[Statement]) -> int:
    """Return what teams owe by these statements in the ledger, less what notes credited back.

    It is that of all transfers from teams to the revenue of the organization. Credit notes are
    among the statements.
    """
    keys = [_key(each, team_id) for each in statements for team_id in _cents_by_team(each)]
    revenues = {
        account.pk
        for ledger, owner in {
            (ledger_of(each.currency), str(each.organization_id)) for each in statements
        }
        if (account := find_account(ledger, owner, REVENUE)) is not None
    }
    return sum(
        transfer.amount if transfer.credit_id in revenues else -transfer.amount
        for transfer in find_transfers(keys).values()
    )


def _cents_by_team(statement: Statement) -> dict[UUID, int]:
    sums: Counter[UUID] = Counter()
    for team_id, cents in statement.lines.values_list("team", "amount_cents"):
        sums[team_id] += cents
    return {team_id: cents for team_id, cents in sums.items() if cents}


def _key(statement: Statement, team_id: UUID) -> UUID:
    return uuid5(_KEYS, f"{statement.pk}:{team_id}")
