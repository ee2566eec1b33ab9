"""Days on which meter and account agreed, and whose account was changed since (R-100).

Accounting is no fixed witness: administrators may change records of ended jobs. The meter says when
each of its facts was recorded. So a difference on a day that was green comes from the account,
unless the meter of its attempt has changed since.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from billing.metering import attempts_not_folded
from billing.models import MeterEvent
from billing.reconciliation import AccountReport, Cause, with_changes
from billing.reconciliation_models import Reconciliation


def with_agreement(
    row: Reconciliation, reports: Sequence[AccountReport]
) -> tuple[AccountReport, ...]:
    """Return `reports`, with the differences that the account caused since the day was green.

    A day that was never green as a whole stays as it is.
    """
    if row.green_at is None:
        return tuple(reports)
    ids = {
        difference.attempt_id
        for report in reports
        for difference in report.differences
        if difference.attempt_id is not None
    }
    return with_changes(
        reports,
        metered_since=_metered_since(ids, row.green_at),
        known_natives={
            difference["native_id"]
            for account in row.accounts.all()
            for difference in account.differences
            if difference["cause"] == Cause.NATIVE_UNMAPPED
        },
    )


def _metered_since(ids: Collection[UUID], since: datetime) -> frozenset[UUID]:
    """Return the attempts of `ids` whose use by the meter may have changed since then.

    Segments that are not the fold of their events count as changed.
    """
    changed = MeterEvent.objects.filter(attempt_id__in=ids, recorded_at__gt=since)
    return frozenset(changed.values_list("attempt_id", flat=True)) | attempts_not_folded(ids)
