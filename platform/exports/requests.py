"""Requests of exports, and the exports that an actor may see."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from secrets import token_bytes
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from audit.recording import record
from bank.settling import zone_of
from bank.statements import month_of
from billing.periods import Period, period_of
from billing.scopes import pools_named
from exports.files import file_of
from exports.models import (
    FOCUS_DATASETS,
    PSEUDONYM_KEY_BYTES,
    Export,
    ExportDataset,
    ExportFormat,
    ExportState,
    PseudonymKey,
    UserNaming,
)
from exports.policies import policy_of
from live.publishing import publish
from periods.charges import closed_until
from primitives.errors import Conflict, FieldError, InvalidRequest, NotFound
from tenants.access import Actor
from tenants.models import Node
from tenants.places import visible_ever, visible_place
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: Exports of one organization that are not finished.
UNFINISHED_MAX = 20


@transaction.atomic
def request_export(
    *,
    actor: Actor,
    dataset: str,
    format_name: str,
    node_path: str,
    start: datetime,
    end: datetime,
    as_of: datetime | None,
    pool_name: str | None,
    now: datetime,
) -> Export:
    """Store a request, which a worker carries out within seconds.

    The actor needs the rights to see the costs and the jobs of the node. Raises InvalidRequest for
    a period as `period_of`, and for a FOCUS file of other than a month. The same goes for
    invoices of one pool, and for charges of closed months where one is open. Raises NotFound and
    Forbidden as `charges_of`, and Conflict where too many exports of the organization are not
    finished.
    """
    path = visible_place(actor, node_path, Permission.VIEW_COSTS, Permission.VIEW_JOBS)
    if any(moment.microsecond for moment in (start, end, as_of or now.replace(microsecond=0))):
        raise InvalidRequest(
            "start, end and as_of must be in whole seconds.",
            errors=[FieldError("/start", "is not in whole seconds")],
        )
    period = period_of(start, end, as_of=as_of, now=now)
    pools_named(pool_name)
    # The lock makes the bound exact.
    organization = Node.objects.select_for_update(no_key=True).get(
        path=path.partition("/")[0] + "/"
    )
    if dataset == ExportDataset.CLOSED_CHARGES:
        _refuse_open_months(period, organization)
    if dataset == ExportDataset.FOCUS_INVOICE_DETAIL and pool_name:
        raise InvalidRequest(
            "An invoice has all of its lines. Leave the pool out.",
            errors=[FieldError("/pool", "does not go with invoices")],
        )
    if dataset in FOCUS_DATASETS and format_name == ExportFormat.PDF:
        raise InvalidRequest(
            "FOCUS files are for programs. Choose CSV or Parquet, or another dataset for a PDF.",
            errors=[FieldError("/format", "does not go with FOCUS")],
        )
    if dataset in FOCUS_DATASETS:
        _refuse_other_than_a_month(period, organization)
    users = _users_in(dataset, format_name, organization)
    if users == UserNaming.PSEUDONYMS:
        PseudonymKey.objects.get_or_create(
            organization=organization, defaults={"key": token_bytes(PSEUDONYM_KEY_BYTES)}
        )
    unfinished = Export.objects.filter(
        organization=organization, state__in=[ExportState.QUEUED, ExportState.RUNNING]
    )
    if unfinished.count() >= UNFINISHED_MAX:
        raise Conflict(
            f"{UNFINISHED_MAX} exports of {organization.display_path} are not finished. Wait until "
            "one is."
        )
    export = Export.objects.create(
        organization=organization,
        node_path=path,
        requested_by=actor.user,
        dataset=dataset,
        format=format_name,
        start=period.start,
        end=period.end,
        time_zone=zone_of(organization.pk).key,
        as_of=period.as_of.replace(microsecond=0),
        pool=pool_name or "",
        users=users,
        created_at=now,
    )
    record(
        action="export.requested",
        subject_kind="export",
        subject_id=export.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=organization.pk,
        node_path=path,
        detail={
            "dataset": dataset,
            "format": format_name,
            "file": export.file_name,
            "users": users or None,
        },
        request_id=current_request_id(),
    )
    publish("reports", organization_id=organization.pk)
    return export


def _users_in(dataset: str, format_name: str, organization: Node) -> str:
    """Return how a file of the organization names users; empty for a file without users."""
    if dataset == ExportDataset.FOCUS_COST_AND_USAGE:
        return policy_of(organization).users
    has_users = dataset not in FOCUS_DATASETS and format_name != ExportFormat.PDF
    return UserNaming.NAMES if has_users else ""


def _refuse_open_months(period: Period, organization: Node) -> None:
    """Raise InvalidRequest unless all of the period lies in closed months."""
    until = closed_until(organization.pk)
    if until is None or period.end > until:
        known = "no month is closed"
        if until is not None:
            known = f"months are closed until {until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        raise InvalidRequest(
            f"Charges of closed months end with the last closed month; {known}. Close the month "
            "first, or choose charges.",
            errors=[FieldError("/end", "is not in a closed month")],
        )


def _refuse_other_than_a_month(period: Period, organization: Node) -> None:
    """Raise InvalidRequest unless the period is a month of the organization's time zone."""
    zone = zone_of(organization.pk)
    first = period.start.astimezone(zone)
    start, end = month_of(first.year, first.month, zone)
    if (period.start, period.end) != (start, end):
        such = " to ".join(f"{one.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for one in (start, end))
        raise InvalidRequest(
            f"A FOCUS file is of one month of {zone}, such as from {such}.",
            errors=[FieldError("/start", "is not the beginning of a month")],
        )


def visible_exports(actor: Actor) -> QuerySet[Export]:
    """Return the exports of nodes whose costs and jobs the actor may see.

    As in a request, a node may have its former path.
    """
    return visible_ever(
        actor,
        Export.objects.select_related("requested_by"),
        Permission.VIEW_COSTS,
        Permission.VIEW_JOBS,
        path_field="node_path",
    )


def export_by_id(actor: Actor, export_id: UUID) -> Export:
    """Return one export. Raises NotFound for an absent or invisible one."""
    export = visible_exports(actor).filter(pk=export_id).first()
    if export is None:
        raise NotFound("It does not exist, or you may not see it.")
    return export


def finished_file(export: Export) -> Path:
    """Return the file of an export.

    Raises Conflict before it is done, and NotFound where the file was removed.
    """
    if export.state != ExportState.DONE:
        raise Conflict(
            f"The export is {export.state}. A file is there once it is done.", state=export.state
        )
    path = file_of(export.pk)
    if export.removed_at is not None or not path.is_file():
        raise NotFound("The file was removed. Make it again.")
    return path


def make_again(export_id: UUID, *, actor: Actor, now: datetime) -> Export:
    """Request the file of a removed or failed export once more, of the same moment.

    It names users as the organization chooses now.

    Raises as `export_by_id` and `request_export`, and Conflict for a file that is there or comes.
    """
    export = export_by_id(actor, export_id)
    is_gone = export.removed_at is not None or not file_of(export.pk).is_file()
    if export.state != ExportState.FAILED and not (export.state == ExportState.DONE and is_gone):
        raise Conflict("The file is there or is being written. Download it once it is done.")
    return request_export(
        actor=actor,
        dataset=export.dataset,
        format_name=export.format,
        node_path=export.node_path,
        start=export.start,
        end=export.end,
        as_of=export.as_of,
        pool_name=export.pool or None,
        now=now,
    )
