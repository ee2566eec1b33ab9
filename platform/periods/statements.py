"""Statements of closed months: issued by unit, credited, and never changed (R-103)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Sum

from adjustments.adjusting import adjustments_in, lock_organization
from adjustments.disputed_charges import adjusted_path, used_month_of
from adjustments.models import Adjustment
from audit.recording import record
from billing.models import PriceMode
from live.publishing import COSTS, publish
from notices.giving import NewNotice, for_node, give_notices
from notices.models import NoticeEvent
from notices.recipients import nearest_people
from periods.closing import one_month, organization_of
from periods.code_book import code_book
from periods.models import BillingPeriod
from periods.posting import NANO_PER_CENT, post_credit_note, post_statements
from periods.statement_models import (
    PROVIDER_LENGTH_MAX,
    Statement,
    StatementKind,
    StatementLine,
)
from primitives.currencies import cents_text, digits_of
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from primitives.units import DeviceKind, div_half_even
from tenants.access import Actor
from tenants.models import NodeKind
from tenants.places import nodes_by_path
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: The most lines of a month, over all of its statements.
LINES_MAX = 50_000


class Unit(StrEnum):
    """The nodes that get a statement each. A team without a department is a unit of its own."""

    DEPARTMENT = "department"
    TEAM = "team"


class LineKey(NamedTuple):
    """The use that one line charges, or the adjustment."""

    is_correction: bool
    month: date
    team_path: str
    team_id: UUID
    pool: str
    device: str
    usage_class: str
    cost_centre: str = ""
    project_code: str = ""
    adjustment_id: UUID | None = None


class LineSums(NamedTuple):
    """Use in milli-GPU-seconds, its cost in nano-currency, and the cents of it.

    Commitments and top-ups count as use of their own classes.
    """

    mgpu_s: int
    cost_nano: int
    amount_cents: int


_OF_USE = LineKey._fields[:-1]


def lines_of(period: BillingPeriod) -> dict[LineKey, LineSums]:
    """Return the lines of all statements of a closed month, in their order, adjustments last.

    Their cents are those of `cents_of`, so they sum to the charges and adjustments of the month.
    Use of pools that only show their costs is billed to nobody.
    """
    billed = period.rows.exclude(mode=PriceMode.SHOWBACK)
    rows = billed.values_list(*_OF_USE).annotate(
        billed_mgpu_s=Sum(F("mgpu_s") + F("extra_mgpu_s")), billed_nano=Sum("cost_nano")
    )
    found = [
        (LineKey(*values), int(mgpu_s), int(cost_nano))
        for *values, mgpu_s, cost_nano in rows.order_by(*_OF_USE)
    ]
    found += _adjustment_lines(period)
    cents = cents_of([cost_nano for _, _, cost_nano in found], period.currency)
    return {
        key: LineSums(mgpu_s, cost_nano, amount_cents)
        for (key, mgpu_s, cost_nano), amount_cents in zip(found, cents, strict=True)
    }


def _adjustment_lines(period: BillingPeriod) -> list[tuple[LineKey, int, int]]:
    """Return the lines of adjustments, without use, with the codes of their months."""
    adjusted = [
        (line_of_adjustment(one, period), one.amount_nano)
        for one in adjustments_in(period.organization_id, period.month)
    ]
    first = min((key.month for key, _ in adjusted), default=period.month)
    book = code_book([period.organization_id], first, period.month)
    return [
        (key._replace(**book.codes(key.team_path, key.month)._asdict()), 0, amount_nano)
        for key, amount_nano in adjusted
    ]


def line_of_adjustment(adjustment: Adjustment, period: BillingPeriod) -> LineKey:
    """Return the line of an adjustment, without codes. A correction names the month of the use."""
    zone = ZoneInfo(period.time_zone)
    month, dispute, pool = adjustment.month, adjustment.dispute, adjustment.pool
    if adjustment.is_correction and dispute is not None:
        month = used_month_of(dispute, zone) or month
    return LineKey(
        is_correction=adjustment.is_correction,
        month=month,
        team_path=adjusted_path(adjustment, zone),
        team_id=adjustment.team_id,
        pool="" if pool is None else pool.name,
        device=DeviceKind.GPU if pool is None else pool.kind,
        usage_class="adjustment" if adjustment.dispute_id is None else "refund",
        adjustment_id=adjustment.pk,
    )


def cents_of(costs_nano: Sequence[int], currency: str) -> list[int]:
    """Return costs in cents, by largest remainder. They sum to the total, rounded half to even.

    Each cost gets its floor. The cents that are left go to the largest remainders, ties in order.
    A currency without cents has whole units, as hundreds of cents.
    """
    cents_per_step = 10 ** max(0, 2 - digits_of(currency))
    step_nano = NANO_PER_CENT * cents_per_step
    steps = [cost_nano // step_nano for cost_nano in costs_nano]
    missing = div_half_even(sum(costs_nano), step_nano) - sum(steps)
    places = sorted(range(len(steps)), key=lambda place: -(costs_nano[place] % step_nano))
    for place in places[:missing]:
        steps[place] += 1
    return [step * cents_per_step for step in steps]


def issue_statements(
    organization_id: UUID,
    month: str,
    unit: Unit,
    *,
    due_on: date | None = None,
    terms: str = "",
    actor: Actor,
    now: datetime,
) -> list[Statement]:
    """Issue a statement to each unit whose charges of a closed month have none.

    Each is posted in the ledger of money. Use of a team counts for its department at that time.
    Raises Conflict where the month is not closed, has no currency, or has no charges left. Raises
    InvalidRequest for a due date in the past.
    """
    organization = organization_of(actor, organization_id, Permission.MANAGE_PRICES)
    now = now.replace(microsecond=0)
    with transaction.atomic():
        # Two issues of one organization wait for each other.
        lock_organization(organization.pk)
        period = one_month(organization, month, now=now).period
        if period is None:
            raise Conflict(f"{month} is not closed. Close it first.")
        if not period.currency:
            raise Conflict(f"{month} has no currency, because there was no price.")
        zone = ZoneInfo(period.time_zone)
        if due_on is not None and due_on < now.astimezone(zone).date():
            raise InvalidRequest(
                "The due date has passed. Take a later one.",
                errors=[FieldError("/due_on", "is in the past")],
            )
        by_unit = _by_unit(period, unit)
        if not by_unit:
            raise Conflict(f"All charges of {month} have a statement. Credit one to issue it anew.")
        names = _names(by_unit)
        issued = []
        for path, lines in by_unit.items():
            statement = Statement(
                period=period,
                organization=organization,
                kind=StatementKind.STATEMENT,
                year=now.astimezone(zone).year,
                unit_path=path,
                unit_name=names.get(path, path),
                organization_name=organization.name,
                provider=settings.PROVIDER_NAME[:PROVIDER_LENGTH_MAX],
                currency=period.currency,
                total_cents=sum(sums.amount_cents for sums in lines.values()),
                line_count=len(lines),
                issued_at=now,
                issued_by=actor.user.login,
                due_on=due_on,
                terms=terms,
            )
            _store(statement, lines)
            _tell("statement.issued", statement, actor, now)
            issued.append(statement)
        post_statements(issued, now=now)
        _give_notices(issued, month, actor=actor, now=now)
    return issued


def _give_notices(issued: Sequence[Statement], month: str, *, actor: Actor, now: datetime) -> None:
    """Tell the others who manage the organization's charges that statements are ready."""
    organization, currency = issued[0].organization, issued[0].currency
    total = cents_text(sum(statement.total_cents for statement in issued), currency)
    statements = "1 statement" if len(issued) == 1 else f"{len(issued)} statements"
    people = nearest_people(Permission.MANAGE_PRICES, organization.path, without=actor.user.pk)
    notice = NewNotice(
        user_id=None,
        event=NoticeEvent.STATEMENT_READY,
        key=f"statement:{issued[0].pk}",
        subject_kind="period",
        subject_id=issued[0].period_id,
        sentence=f"{organization.display_path} has {statements} of {month} over {total} "
        f"{currency}.",
        link=f"/periods?month={month}",
        at=now,
        node_path=organization.path,
    )
    give_notices(for_node(notice, people))


def credit_statement(statement_id: UUID, reason: str, *, actor: Actor, now: datetime) -> Statement:
    """Take all of a statement back by a credit note. Its charges may be issued anew then.

    Raises NotFound, Forbidden, and Conflict where it was credited or is a credit note.
    """
    original = statement_by_id(actor, statement_id, Permission.MANAGE_PRICES)
    now = now.replace(microsecond=0)
    with transaction.atomic():
        lock_organization(original.organization_id)
        if original.kind == StatementKind.CREDIT_NOTE:
            raise Conflict(f"{original.number} is a credit note. Issue the statement anew instead.")
        if Statement.objects.filter(credits=original).exists():
            raise Conflict(f"{original.number} is credited already.")
        lines = {
            LineKey(*(getattr(line, name) for name in LineKey._fields)): LineSums(
                -line.mgpu_s, -line.cost_nano, -line.amount_cents
            )
            for line in original.lines_in_order
        }
        note = Statement(
            period=original.period,
            organization=original.organization,
            kind=StatementKind.CREDIT_NOTE,
            year=now.astimezone(ZoneInfo(original.period.time_zone)).year,
            unit_path=original.unit_path,
            unit_name=original.unit_name,
            organization_name=original.organization_name,
            provider=original.provider,
            currency=original.currency,
            total_cents=-original.total_cents,
            line_count=len(lines),
            issued_at=now,
            issued_by=actor.user.login,
            credits=original,
            reason=reason,
        )
        _store(note, lines)
        post_credit_note(note, now=now)
        _tell("statement.credited", note, actor, now)
    return note


def statements_of(period: BillingPeriod) -> QuerySet[Statement]:
    """Return the statements and credit notes of a month, in the order of their numbers."""
    found = Statement.objects.filter(period=period).select_related("credits", "credit_note")
    return found.order_by("year", "sequence")


def statement_by_id(actor: Actor, statement_id: UUID, permission: Permission) -> Statement:
    """Return a statement. Raises NotFound and Forbidden as `organization_of`."""
    related = ("period", "organization", "credits", "credit_note")
    statement = Statement.objects.select_related(*related).filter(pk=statement_id).first()
    if statement is None or not actor.holds(Permission.VIEW_COSTS, statement.organization.path):
        raise NotFound("There is no such statement, or you may not see it.")
    organization_of(actor, statement.organization_id, permission)
    return statement


def _by_unit(period: BillingPeriod, unit: Unit) -> Mapping[str, dict[LineKey, LineSums]]:
    """Return the lines without a statement, by the path of their unit."""
    lines = lines_of(period)
    if len(lines) > LINES_MAX:
        raise Conflict(f"{len(lines)} lines are too many; at most {LINES_MAX} fit into a month.")
    charged = set(
        StatementLine.objects.filter(
            statement__period=period,
            statement__kind=StatementKind.STATEMENT,
            statement__credit_note=None,
        ).values_list("team_path", flat=True)
    )
    found: dict[str, dict[LineKey, LineSums]] = defaultdict(dict)
    for key, sums in lines.items():
        if key.team_path not in charged:
            steps = key.team_path.split("/")
            path = key.team_path if unit is Unit.TEAM else "/".join(steps[:2])
            found[path][key] = sums
    return dict(sorted(found.items()))


def _names(paths: Mapping[str, object]) -> Mapping[str, str]:
    found = nodes_by_path(list(paths), NodeKind.DEPARTMENT)
    found = {**found, **nodes_by_path(list(paths), NodeKind.TEAM)}
    return {path: node.name for path, node in found.items()}


def _store(statement: Statement, lines: Mapping[LineKey, LineSums]) -> None:
    """Store the lines first: the database accepts none for a statement that exists."""
    StatementLine.objects.bulk_create(
        [
            StatementLine(statement=statement, number=number, **key._asdict(), **sums._asdict())
            for number, (key, sums) in enumerate(lines.items(), 1)
        ],
        batch_size=5_000,
    )
    statement.save(force_insert=True)
    statement.refresh_from_db(fields=["sequence"])


def _tell(action: str, statement: Statement, actor: Actor, now: datetime) -> None:
    record(
        action=action,
        subject_kind="statement",
        subject_id=statement.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=statement.organization_id,
        detail={
            "number": statement.number,
            "unit": statement.unit_path,
            "total_cents": statement.total_cents,
            "currency": statement.currency,
            "reason": statement.reason,
        },
        request_id=current_request_id(),
    )
    publish("reports", organization_id=statement.organization_id, audience=COSTS)
