"""Schedules of deliveries: made and ended by people with finance rights."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from audit.recording import record
from exports.models import (
    FOCUS_DATASETS,
    Delivery,
    DeliveryFrequency,
    DeliverySchedule,
    DeliveryState,
    ExportDataset,
    ExportFormat,
)
from exports.targets import target_named
from live.publishing import publish
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound
from tenants.access import Actor, require, visible, visible_node
from tenants.models import Node, NodeKind
from tenants.roles import Permission
from webapi.middleware import current_request_id

#: Schedules of one organization that are not ended.
SCHEDULES_MAX = 20
#: Datasets that have rows of closed months only.
_OF_CLOSED_MONTHS = (ExportDataset.CLOSED_CHARGES, ExportDataset.FOCUS_INVOICE_DETAIL)
_ENDED = "The schedule was ended before the delivery."


@transaction.atomic
def create_schedule(
    *,
    actor: Actor,
    organization: str,
    dataset: str,
    format_name: str,
    frequency: str,
    target: str,
    now: datetime,
) -> DeliverySchedule:
    """Order deliveries of an organization's files from now on.

    The actor needs the rights of finance on the organization, and those of an export. Raises
    NotFound, Forbidden, InvalidRequest for XLSX of a FOCUS dataset, and Conflict for a second one.
    """
    node = visible_node(actor, organization, Permission.MANAGE_PRICES)
    if node.kind != NodeKind.ORGANIZATION:
        raise InvalidRequest("Files are delivered for a whole organization. Name one.")
    for permission in (Permission.VIEW_COSTS, Permission.VIEW_JOBS):
        require(actor, permission, node)
    if dataset in FOCUS_DATASETS and format_name in (ExportFormat.XLSX, ExportFormat.PDF):
        raise InvalidRequest("FOCUS files are delivered as CSV or Parquet. Choose one of them.")
    if dataset in _OF_CLOSED_MONTHS and frequency == DeliveryFrequency.DAILY:
        raise InvalidRequest(
            "Closed charges and invoices are there once a month is closed. Choose monthly."
        )
    target_named(target)
    # The lock makes the bound and the refusal of a second one exact.
    node = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    running = DeliverySchedule.objects.filter(organization=node, ended_at=None)
    if running.count() >= SCHEDULES_MAX:
        raise Conflict(f"{node.slug} has {SCHEDULES_MAX} schedules. End one of them first.")
    same = {
        "dataset": ExportDataset(dataset),
        "format": ExportFormat(format_name),
        "frequency": frequency,
        "target": target,
    }
    if running.filter(**same).exists():
        raise Conflict("There is such a schedule already. Look at the deliveries of that one.")
    schedule = DeliverySchedule.objects.create(
        organization=node, created_by=actor.user, created_at=now, **same
    )
    _record("delivery_schedule.created", schedule, actor, now)
    return schedule


@transaction.atomic
def end_schedule(schedule_id: UUID, *, actor: Actor, now: datetime) -> None:
    """End a schedule. Delivered files stay. Raises NotFound and Forbidden.

    A second call changes nothing.
    """
    found = visible_schedules(actor).select_related(None)
    schedule = found.select_for_update(of=("self",)).filter(pk=schedule_id).first()
    if schedule is None:
        raise NotFound("There is no such schedule, or you may not see it.")
    _require_finance(actor, schedule)
    if schedule.ended_at is not None:
        return
    schedule.ended_at = now
    schedule.save(update_fields=["ended_at"])
    schedule.deliveries.filter(state=DeliveryState.WAITING).update(
        state=DeliveryState.FAILED, message=_ENDED
    )
    _record("delivery_schedule.ended", schedule, actor, now)


@transaction.atomic
def redeliver(delivery_id: UUID, *, actor: Actor, now: datetime) -> Delivery:
    """Make a delivery again, which replaces the file at the target.

    A monthly file is written anew, with the statements and credit notes that were issued since.

    Raises NotFound, Forbidden, and Conflict for one that waits or whose schedule was ended.
    """
    rows = visible_deliveries(actor).select_for_update(of=("self",))
    delivery = rows.filter(pk=delivery_id).first()
    if delivery is None:
        raise NotFound("There is no such delivery, or you may not see it.")
    _require_finance(actor, delivery.schedule)
    if delivery.schedule.ended_at is not None:
        raise Conflict("Its schedule was ended. Make a new one, or export the file.")
    if delivery.state == DeliveryState.WAITING:
        raise Conflict("The delivery is not made yet. Wait for it.")
    is_daily = delivery.schedule.frequency == DeliveryFrequency.DAILY
    if is_daily and delivery.schedule.deliveries.filter(due_on__gt=delivery.due_on).exists():
        raise Conflict("A later file replaced it. Deliver that one again.")
    delivery.state, delivery.tries, delivery.message = DeliveryState.WAITING, 0, ""
    delivery.next_at = now
    if not is_daily:
        delivery.export = None
    delivery.save(update_fields=["state", "tries", "message", "next_at", "export"])
    _record("delivery.repeated", delivery.schedule, actor, now)
    return delivery


def visible_schedules(actor: Actor) -> QuerySet[DeliverySchedule]:
    """Return the schedules of organizations all of whose costs the actor may see."""
    rows = DeliverySchedule.objects.select_related("organization", "created_by")
    return visible(actor, rows, Permission.VIEW_COSTS, path_field="organization__path")


def visible_deliveries(actor: Actor) -> QuerySet[Delivery]:
    """Return the deliveries of organizations all of whose costs the actor may see."""
    rows = Delivery.objects.select_related("schedule__organization", "export")
    return visible(actor, rows, Permission.VIEW_COSTS, path_field="schedule__organization__path")


def _require_finance(actor: Actor, schedule: DeliverySchedule) -> None:
    if not actor.holds(Permission.MANAGE_PRICES, schedule.organization.path):
        raise Forbidden(
            "Only finance and administrators of the organization change deliveries.",
            permission=Permission.MANAGE_PRICES.value,
        )


def _record(action: str, schedule: DeliverySchedule, actor: Actor, now: datetime) -> None:
    record(
        action=action,
        subject_kind="delivery_schedule",
        subject_id=schedule.pk,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
        organization_id=schedule.organization_id,
        node_path=schedule.organization.path,
        detail={
            "dataset": schedule.dataset,
            "format": schedule.format,
            "frequency": schedule.frequency,
            "target": schedule.target,
        },
        request_id=current_request_id(),
    )
    publish("reports", organization_id=schedule.organization_id)
