"""The report of closed months beside their frozen charges, their statements and the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, Sum

from billing.scopes import nodes_of
from chargeback.dimensions import Dimension
from chargeback.reports import Asked, Narrowed, grouped_report, zone_for
from periods.models import BillingPeriod, ChargeRow
from periods.months import month_of
from periods.posting import NANO_PER_CENT, posted_nano
from periods.statements import statements_of
from tenants.access import Actor
from tenants.models import NodeKind
from tenants.places import placed_between
from tenants.roles import Permission

#: The most closed months of one check, the latest. Each of them is a report of its whole month.
MONTHS_MAX = 3

_CHANGED = (
    "Use changed after the month was closed. Close the next month: the difference becomes a "
    "correction in it."
)
_NOT_POSTED = (
    "The ledger has other amounts than the statements. Issue no statement, and tell an "
    "administrator, who runs `tidegate-admin check-ledgers`."
)


@dataclass(frozen=True, slots=True)
class MonthCheck:
    """A closed month of an organization, in nano-currency.

    `report_nano` is its cost by the segments of today. `billed_nano` are its frozen charges, and
    `corrections_nano` those of later months that correct it. `statements_nano` are all statements
    that were issued for it, less credit notes, and `ledger_nano` what the ledger has for them. Both
    are None without statements.
    """

    organization: str
    month: str
    currency: str
    closed_at: datetime
    report_mgpu_s: int
    billed_mgpu_s: int
    report_nano: int
    billed_nano: int
    corrections_nano: int
    statements_nano: int | None
    ledger_nano: int | None

    @property
    def difference_nano(self) -> int:
        """Return the report less the charges and their corrections."""
        return self.report_nano - self.billed_nano - self.corrections_nano

    @property
    def is_as_billed(self) -> bool:
        """Return whether use and cost of the report are those that were billed."""
        return self.difference_nano == 0 and self.report_mgpu_s == self.billed_mgpu_s

    @property
    def is_posted(self) -> bool:
        """Return whether the ledger has the amounts of the statements."""
        return self.statements_nano == self.ledger_nano

    @property
    def advice(self) -> str:
        """Return a sentence that says what to do, or an empty text."""
        wrong = [_CHANGED] * (not self.is_as_billed) + [_NOT_POSTED] * (not self.is_posted)
        return " ".join(wrong)


def closed_months(*, actor: Actor, asked: Asked, now: datetime) -> list[MonthCheck]:
    """Return a check of each closed month inside of the period, the latest first, at most 3.

    They are those of the organizations whose costs the actor sees completely. Raises as
    `grouped_report`.
    """
    period = asked.period(zone_for(actor, None), now)
    nodes = nodes_of(placed_between(actor, Permission.VIEW_COSTS, period.start, period.end))
    organizations = [node.pk for node in nodes if node.kind == NodeKind.ORGANIZATION]
    closed = BillingPeriod.objects.filter(
        organization__in=organizations, start__gte=period.start, end__lte=period.end
    )
    months = closed.select_related("organization").order_by("-month", "organization__path")
    return [_check(month, actor, now) for month in months[:MONTHS_MAX]]


def _check(closed: BillingPeriod, actor: Actor, now: datetime) -> MonthCheck:
    organization = closed.organization.display_path
    report = grouped_report(
        actor=actor,
        by=[Dimension.ORGANIZATION],
        asked=Asked(closed.start, closed.end),
        narrowed=Narrowed(node_path=organization),
        now=now,
    )
    rows = ChargeRow.objects.filter(
        period__organization=closed.organization_id, month=closed.month
    ).aggregate(
        mgpu_s=Sum("mgpu_s"),
        billed_nano=Sum("cost_nano", filter=Q(is_correction=False)),
        corrections_nano=Sum("cost_nano", filter=Q(is_correction=True)),
    )
    statements = list(statements_of(closed))
    total_cents = sum(statement.total_cents for statement in statements)
    return MonthCheck(
        organization=organization,
        month=month_of(closed).name,
        currency=closed.currency,
        closed_at=closed.closed_at,
        report_mgpu_s=report.totals.mgpu_s,
        billed_mgpu_s=int(rows["mgpu_s"] or 0),
        report_nano=report.totals.cost_nano,
        billed_nano=int(rows["billed_nano"] or 0),
        corrections_nano=int(rows["corrections_nano"] or 0),
        statements_nano=total_cents * NANO_PER_CENT if statements else None,
        ledger_nano=posted_nano(statements) if statements else None,
    )
