"""Acknowledgements of red days by a person, with a reason.

The day stays red. The acknowledgement means that a person knows the differences and why they stay.
It lapses when a later comparison finds other differences.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction

from audit.recording import record
from billing.reconciliation_models import ReconciledAccount, Reconciliation, ReconciliationStatus
from live.publishing import COSTS, publish
from primitives.errors import Conflict, Forbidden, NotFound
from tenants.access import PLATFORM, Actor
from tenants.roles import Permission
from webapi.middleware import current_request_id
from webapi.row_access import all_rows

REASON_LENGTH_MAX = 500


def digest_of(accounts: Iterable[ReconciledAccount]) -> str:
    """Return a digest of a comparison. It stays equal as long as no account's sums change."""
    found = sorted(
        [
            item.account,
            item.pool,
            item.metered_mgpu_s,
            item.accounted_mgpu_s,
            item.difference_count,
            item.is_green,
        ]
        for item in accounts
    )
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


@transaction.atomic
def acknowledge_day(
    reconciliation_id: UUID, reason: str, *, actor: Actor, now: datetime
) -> Reconciliation:
    """Store that the actor knows the differences of a red day, and why they stay.

    The actor needs rights (finance or administrator) on every team whose account is red there. An
    account of no team needs rights on the platform. A second acknowledgement replaces the first.
    Raises Forbidden, NotFound, and Conflict for a day that is not red.
    """
    if not actor.prefixes(Permission.MANAGE_PRICES):
        raise Forbidden(
            "Only finance and administrators may acknowledge a red day.",
            permission=Permission.MANAGE_PRICES.value,
        )
    row = Reconciliation.objects.select_for_update().filter(pk=reconciliation_id).first()
    if row is None:
        raise NotFound("It does not exist, or you may not see it.")
    # Red accounts of other organizations count, too.
    with all_rows():
        accounts = list(row.accounts.select_related("team"))
    red = [item for item in accounts if not item.is_green]
    if row.status != ReconciliationStatus.RED or not red:
        raise Conflict(
            "Only a red day can be acknowledged. This one has no unexpected difference.",
            status=row.status,
        )
    paths = {PLATFORM if item.team is None else item.team.path for item in red}
    if not all(actor.holds(Permission.MANAGE_PRICES, path) for path in paths):
        raise Forbidden(
            "This day is red for accounts that you do not manage, too. Ask finance or an "
            "administrator of the platform to acknowledge it.",
            permission=Permission.MANAGE_PRICES.value,
        )
    row.acknowledged_at = now
    row.acknowledged_by = actor.user.login
    row.acknowledged_reason = reason
    row.acknowledged_digest = digest_of(accounts)
    row.save()
    record(
        action="reconciliation.acknowledged",
        subject_kind="reconciliation",
        subject_id=row.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=actor.user.organization_id,
        detail={"day": row.day.isoformat(), "reason": reason},
        request_id=current_request_id(),
    )
    publish("reports", organization_id=None, audience=COSTS)
    return row


def drop_if_outdated(
    row: Reconciliation, accounts: Iterable[ReconciledAccount], *, now: datetime
) -> None:
    """Remove a locked day's acknowledgement if `accounts` differ from the acknowledged ones.

    Does not save the row.
    """
    if row.acknowledged_at is None or row.acknowledged_digest == digest_of(accounts):
        return
    record(
        action="reconciliation.acknowledgement_lapsed",
        subject_kind="reconciliation",
        subject_id=row.pk,
        now=now,
        detail={
            "day": row.day.isoformat(),
            "by": row.acknowledged_by,
            "reason": row.acknowledged_reason,
        },
    )
    row.acknowledged_at = None
    row.acknowledged_by = row.acknowledged_reason = row.acknowledged_digest = ""
