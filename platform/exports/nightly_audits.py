"""Audits of the charges by the worker: each result is stored and shown to finance."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime, timedelta

from django.db.models import QuerySet

from adjustments.months import first_day_of
from bank.settling import zone_of
from exports.auditing import AuditedLine, audit_organization
from exports.models import DIFFERENCES_MAX, ChargeAudit
from live.publishing import COSTS, publish
from tenants.access import Actor, visible
from tenants.models import Node, NodeKind
from tenants.roles import Permission

logger = logging.getLogger(__name__)


def audit_lately(now: datetime) -> int:
    """Audit the month of `now` and the one before, of each organization that used something.

    The months are those of the organization's time zone. Stores each result at once, logs each
    difference, and returns how many there are. An organization whose audit fails is logged, and the
    others follow.
    """
    found = 0
    for organization in Node.objects.filter(kind=NodeKind.ORGANIZATION).order_by("path"):
        try:
            found += _audit(organization, now)
        except Exception:
            logger.exception("the charges of %s cannot be audited", organization.slug)
    return found


def _audit(organization: Node, now: datetime) -> int:
    """Audit both months of one organization, and return how many differences there are."""
    first = first_day_of(now, zone_of(organization.pk))
    before = (first - timedelta(days=1)).replace(day=1)
    found = 0
    for month in (before, first):
        lines = audit_organization(organization, month.year, month.month, now=now)
        if lines:
            found += _store(organization, month, lines, now).difference_count
    return found


def _store(
    organization: Node, month: date, lines: Sequence[AuditedLine], now: datetime
) -> ChargeAudit:
    different = [line for line in lines if not line.is_equal]
    for line in different:
        logger.error("the charges differ from the audit: %s", line)
    logger.info(
        "audited %d sums of %s in %s: %d differ",
        len(lines), organization.slug, f"{month:%Y-%m}", len(different),
    )  # fmt: skip
    audit = ChargeAudit.objects.create(
        organization=organization,
        month=month,
        audited_at=now,
        line_count=len(lines),
        difference_count=len(different),
        difference_mgpu_s=sum(abs(line.charged_mgpu_s - line.audited_mgpu_s) for line in different),
        difference_nano=sum(abs(line.charged_nano - line.audited_nano) for line in different),
        differences=[asdict(line) for line in different[:DIFFERENCES_MAX]],
    )
    publish("reports", organization_id=organization.pk, audience=COSTS)
    return audit


def latest_audits(since: date | None = None) -> QuerySet[ChargeAudit]:
    """Return the latest audit of each organization and month, from the month `since` on."""
    rows = (
        ChargeAudit.objects.all() if since is None else ChargeAudit.objects.filter(month__gte=since)
    )
    newest = rows.order_by("organization", "month", "-pk").distinct("organization", "month")
    return ChargeAudit.objects.select_related("organization").filter(pk__in=newest.values("pk"))


def visible_audits(actor: Actor) -> QuerySet[ChargeAudit]:
    """Return the latest audits of organizations all of whose costs the actor may see."""
    return visible(actor, latest_audits(), Permission.VIEW_COSTS, path_field="organization__path")
