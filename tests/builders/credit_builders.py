"""Credits: a transfer that waits for a second person."""

from __future__ import annotations

from bank.models import CreditPool, CreditTransfer
from builders.api_callers import FAR_AHEAD
from builders.portal_builders import NOW, Company
from ledger.accounts import open_account
from ledger.models import TransferState
from ledger.transfers import NewTransfer, record
from tenants.models import User


def a_pending_transfer(company: Company, asked_by: User) -> CreditTransfer:
    """One GPU-second from nlp to inference, in the ledger too. The bank stays as it is."""
    credit_pool = CreditPool.objects.create(
        organization=company.organization,
        pool=company.pool,
        settled_since=NOW,
        settled_until=NOW,
    )
    transfer = CreditTransfer.objects.create(
        credit_pool=credit_pool,
        sender=company.nlp,
        recipient=company.inference,
        amount=1_000_000,
        reason="for the deadline",
        status="pending",
        asked_by=asked_by,
        asked_at=NOW,
        expires_at=FAR_AHEAD,
    )
    debit, credit = (
        open_account(credit_pool.ledger, str(team.pk), "team").pk
        for team in (company.nlp, company.inference)
    )
    new = NewTransfer(
        key=transfer.pk,
        debit_id=debit,
        credit_id=credit,
        amount=transfer.amount,
        code="transferred",
        effective_at=NOW,
        state=TransferState.PENDING,
        expires_at=FAR_AHEAD,
    )
    record([new], now=NOW)
    return transfer
