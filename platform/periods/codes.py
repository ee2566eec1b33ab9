"""Accounting codes of nodes, set by finance for months that are not closed (R-103)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Min, Q, QuerySet

from adjustments.adjusting import lock_organization
from audit.recording import record
from live.publishing import COSTS, publish
from periods.closing import organization_of
from periods.code_models import CODE_LENGTH_MAX, AccountingCode, CodeKind
from periods.models import BillingPeriod
from primitives.days import next_month
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: The most codes that one request sets, and that one organization has.
SET_MAX = 1_000
CODES_MAX = 20_000
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/-]*", re.ASCII)


class NewCode(NamedTuple):
    """A code of a node from the month `start` until the month `end`; None: until the next one."""

    node: str
    kind: CodeKind
    code: str
    start: date
    end: date | None = None


def codes_of(organization: Node) -> QuerySet[AccountingCode]:
    """Return all codes of an organization, past and scheduled ones included."""
    return AccountingCode.objects.filter(node__organization=organization).select_related("node")


def set_codes(
    organization_id: UUID, wanted: Sequence[NewCode], *, actor: Actor, now: datetime
) -> list[AccountingCode]:
    """Set codes of nodes, all or none. A repeat changes nothing.

    A code ends the one before it, replaces one of the same first month, and without an end lasts
    until the next one. Raises NotFound and Forbidden as `organization_of`, and InvalidRequest for
    unknown nodes and odd values. Raises Conflict for months that are closed, or have another code.
    """
    organization = organization_of(actor, organization_id, Permission.MANAGE_PRICES)
    now = now.replace(microsecond=0)
    _refuse_odd(wanted)
    with transaction.atomic():
        lock_organization(organization.pk)
        found = Node.objects.filter(
            organization=organization, path__in=[f"{one.node}/" for one in wanted]
        )
        nodes = {node.display_path: node for node in found}
        opens = first_open_month(organization.pk)
        rows = []
        for place, one in enumerate(wanted):
            if one.node not in nodes:
                raise InvalidRequest(
                    f"{organization.display_path} has no node {one.node}. Give its path.",
                    errors=[FieldError(f"/codes/{place}/node", "is not a node")],
                )
            rows.append(_set(nodes[one.node], one, opens, actor, now))
        if codes_of(organization).count() > CODES_MAX:
            raise Conflict(f"An organization has at most {CODES_MAX} codes. Remove some first.")
        publish("reports", organization_id=organization.pk, audience=COSTS)
    return rows


def end_code(code_id: UUID, end: date, *, actor: Actor, now: datetime) -> AccountingCode:
    """End a code before the month `end`. Then the code of the node above applies.

    Raises NotFound, Forbidden, and Conflict where `end` would change a closed month, is not after
    the start, or is after the present end.
    """
    organization = _organization_of_code(code_id, actor)
    with transaction.atomic():
        lock_organization(organization.pk)
        row = AccountingCode.objects.select_related("node").get(pk=code_id)
        _refuse_closed(end, first_open_month(organization.pk))
        if end <= row.start or (row.end is not None and end > row.end):
            raise Conflict(f"{_words(row)} End it after its start and not after its end.")
        if row.end != end:
            _end(row, end, actor, now)
            publish("reports", organization_id=organization.pk, audience=COSTS)
    return row


def remove_code(code_id: UUID, *, actor: Actor, now: datetime) -> None:
    """Remove a code that no closed month has. Raises NotFound, Forbidden and Conflict."""
    organization = _organization_of_code(code_id, actor)
    with transaction.atomic():
        lock_organization(organization.pk)
        row = AccountingCode.objects.select_related("node").get(pk=code_id)
        opens = first_open_month(organization.pk)
        if opens is not None and row.start < opens:
            raise Conflict(f"{_words(row)} Closed months have it. End it instead.")
        _remove(row, actor, now)
        publish("reports", organization_id=organization.pk, audience=COSTS)


def first_open_month(organization_id: UUID) -> date | None:
    """Return the first day after the closed months of an organization; None: none is closed."""
    closed = BillingPeriod.objects.filter(organization=organization_id)
    last: date | None = closed.aggregate(last=Max("month"))["last"]
    return None if last is None else next_month(last)


def _refuse_odd(wanted: Sequence[NewCode]) -> None:
    errors = []
    for place, one in enumerate(wanted):
        if len(one.code) > CODE_LENGTH_MAX or _CODE.fullmatch(one.code) is None:
            errors.append(
                FieldError(
                    f"/codes/{place}/code",
                    f"must be at most {CODE_LENGTH_MAX} letters, digits, spaces and . _ / -",
                )
            )
        if one.end is not None and one.end <= one.start:
            errors.append(FieldError(f"/codes/{place}/end", "must be after start"))
    if errors:
        raise InvalidRequest(f"{errors[0].pointer[1:]} {errors[0].detail}.", errors=errors)


def _refuse_closed(month: date, opens: date | None) -> None:
    if opens is not None and month < opens:
        raise Conflict(
            f"Closed months keep their codes, and the months before {opens:%Y-%m} are closed. "
            f"Give {opens:%Y-%m} or a later month."
        )


def _set(
    node: Node, wanted: NewCode, opens: date | None, actor: Actor, now: datetime
) -> AccountingCode:
    same = AccountingCode.objects.filter(node=node, kind=wanted.kind).select_related("node")
    later = same.filter(start__gt=wanted.start).aggregate(at=Min("start"))["at"]
    end = wanted.end or later
    current = same.filter(Q(end=None) | Q(end__gt=wanted.start), start__lte=wanted.start).first()
    if current is not None and (current.code, current.end) == (wanted.code, end):
        return current
    _refuse_closed(wanted.start, opens)
    if later is not None and end > later:
        raise Conflict(
            f"{node.display_path} has another code from {later:%Y-%m} on. End yours there or "
            "earlier, or remove that one first."
        )
    if current is not None and current.start == wanted.start:
        _remove(current, actor, now)
    elif current is not None:
        _end(current, wanted.start, actor, now)
    row = AccountingCode.objects.create(
        node=node,
        kind=wanted.kind,
        code=wanted.code,
        start=wanted.start,
        end=end,
        set_at=now,
        set_by=actor.user.login,
    )
    _note("set", row, actor, now)
    return row


def _end(row: AccountingCode, end: date, actor: Actor, now: datetime) -> None:
    row.end = end
    row.save(update_fields=["end"])
    _note("ended", row, actor, now)


def _remove(row: AccountingCode, actor: Actor, now: datetime) -> None:
    _note("removed", row, actor, now)
    row.delete()


def _words(row: AccountingCode) -> str:
    until = "further notice" if row.end is None else f"{row.end:%Y-%m}"
    what = CodeKind(row.kind).label.lower()
    return f"{row.node.display_path} has the {what} {row.code} from {row.start:%Y-%m} to {until}."


def _organization_of_code(code_id: UUID, actor: Actor) -> Node:
    row = AccountingCode.objects.select_related("node__organization").filter(pk=code_id).first()
    if row is None or not actor.holds(Permission.VIEW_COSTS, row.node.organization.path):
        raise NotFound("There is no such accounting code, or you may not see it.")
    return organization_of(actor, row.node.organization_id, Permission.MANAGE_PRICES)


def _note(act: str, row: AccountingCode, actor: Actor, now: datetime) -> None:
    record(
        action=f"accounting_code.{act}",
        subject_kind="accounting_code",
        subject_id=row.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=row.node.organization_id,
        detail={
            "node": row.node.display_path,
            "kind": str(row.kind),
            "code": row.code,
            "start": f"{row.start:%Y-%m}",
            "end": None if row.end is None else f"{row.end:%Y-%m}",
        },
        request_id=current_request_id(),
    )
