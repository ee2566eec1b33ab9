"""The digest of a closed month: SHA-256 over one JSON line per charge, in their order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from periods.models import BillingPeriod, ChargeRow


def canonical_line(row: ChargeRow) -> bytes:
    """Return the line of a charge. Its form never changes."""
    values = [
        row.number,
        row.is_correction,
        row.month.isoformat(),
        row.day.isoformat(),
        str(row.team_id),
        row.team_path,
        row.pool,
        row.device,
        row.usage_class,
        row.mgpu_s,
        row.unpriced_mgpu_s,
        row.cost_nano,
    ]
    return json.dumps(values, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def digest_of(period: BillingPeriod, rows: Iterable[ChargeRow]) -> str:
    """Return the digest of `period` with `rows` in the order of their numbers."""
    head = [
        str(period.organization_id),
        period.month.isoformat(),
        int(period.start.timestamp()),
        int(period.end.timestamp()),
        period.time_zone,
        period.currency,
    ]
    digest = hashlib.sha256(json.dumps(head, separators=(",", ":")).encode() + b"\n")
    for row in rows:
        digest.update(canonical_line(row))
    return digest.hexdigest()
