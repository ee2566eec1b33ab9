"""Makes deliveries: requests the file of each, sends it when it is written, and tries again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from celery.exceptions import SoftTimeLimitExceeded
from django.db import transaction

from bank.settling import zone_of
from exports.files import file_of
from exports.models import (
    Delivery,
    DeliveryFrequency,
    DeliverySchedule,
    DeliveryState,
    Export,
    ExportDataset,
    ExportState,
)
from exports.requests import finished_file, request_export
from exports.targets import DeliveryFailed, target_named
from live.publishing import publish
from periods.models import BillingPeriod
from periods.months import month_in
from primitives.errors import PortalError
from tenants.access import actor_of

#: Pauses after failures. After the last one the delivery has failed.
PAUSES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60))
#: How long a worker has a delivery for itself; more than the time limit of its task.
_LEASE = timedelta(minutes=6)
_EXPORT_PAUSE = timedelta(seconds=15)
_DAY = timedelta(days=1)

Clock = Callable[[], datetime]


def plan_deliveries(now: datetime) -> int:
    """Store what is due: closed months, and the last day of daily schedules. Return how many.

    Invoices of a closed month wait for its first statement. A repeat stores nothing. Days without a
    worker are left out, as the next file has them.
    """
    running = DeliverySchedule.objects.filter(
        ended_at=None, organization__archived_at=None
    ).select_related("organization")
    planned = 0
    for schedule in running:
        if schedule.frequency == DeliveryFrequency.MONTHLY:
            closed = BillingPeriod.objects.filter(
                organization=schedule.organization_id, closed_at__gte=schedule.created_at
            )
            if schedule.dataset == ExportDataset.FOCUS_INVOICE_DETAIL:
                closed = closed.filter(statements__isnull=False).distinct()
            known = schedule.deliveries.values("due_on")
            days = list(closed.exclude(month__in=known).values_list("month", flat=True))
        else:
            days = [now.astimezone(zone_of(schedule.organization_id)).date() - _DAY]
        for day in days:
            _, is_new = Delivery.objects.get_or_create(
                schedule=schedule, due_on=day, defaults={"created_at": now, "next_at": now}
            )
            planned += is_new
            if is_new and schedule.frequency == DeliveryFrequency.DAILY:
                # An older file of the month must not replace the newer one.
                schedule.deliveries.filter(state=DeliveryState.WAITING, due_on__lt=day).update(
                    state=DeliveryState.FAILED, message="A later file replaces it."
                )
    return planned


def deliver_next(clock: Clock) -> bool:
    """Take the next step of one delivery that is due.

    Return whether another may follow: False where none is due, and past the soft time limit.
    """
    delivery = _claim(clock())
    if delivery is None:
        return False
    try:
        export = delivery.export
        if export is None or (
            export.state == ExportState.DONE and not file_of(export.pk).is_file()
        ):
            export = _requested(delivery, clock())
        if export.state == ExportState.FAILED:
            raise DeliveryFailed(export.message)
        if export.state != ExportState.DONE:
            _update(delivery, next_at=clock() + _EXPORT_PAUSE)
            return True
        assert export.manifest is not None, "a file that is done has its manifest"
        target_named(delivery.schedule.target).deliver(
            _folder_of(delivery), export.file_name, finished_file(export), export.manifest
        )
    except DeliveryFailed as failure:
        _fail(delivery, str(failure), clock())
    except PortalError as refusal:
        _fail(delivery, refusal.detail, clock())
    except SoftTimeLimitExceeded:
        _fail(delivery, "The target took too long. Ask the operator.", clock())
        return False
    else:
        _update(
            delivery,
            state=DeliveryState.DONE,
            message="",
            delivered_at=clock(),
            sha256=export.sha256,
        )
    return True


@transaction.atomic
def _claim(now: datetime) -> Delivery | None:
    due = Delivery.objects.filter(state=DeliveryState.WAITING, next_at__lte=now)
    delivery = (
        due.select_for_update(skip_locked=True, of=("self",))
        .select_related("export", "schedule__organization", "schedule__created_by__organization")
        .order_by("next_at")
        .first()
    )
    if delivery is not None:
        _update(delivery, next_at=now + _LEASE)
    return delivery


def _requested(delivery: Delivery, now: datetime) -> Export:
    """Request the file of a delivery, on behalf of the author of its schedule."""
    schedule = delivery.schedule
    closed = BillingPeriod.objects.filter(
        organization=schedule.organization_id, month=delivery.due_on.replace(day=1)
    ).first()
    zone = zone_of(schedule.organization_id)
    month = month_in(delivery.due_on.replace(day=1), zone)
    start, end = (month.start, month.end) if closed is None else (closed.start, closed.end)
    as_of = now
    if schedule.frequency == DeliveryFrequency.DAILY:
        following = datetime.combine(delivery.due_on + _DAY, datetime.min.time(), zone)
        as_of = min(end, following.astimezone(UTC))
    with transaction.atomic():
        export = request_export(
            actor=actor_of(schedule.created_by),
            dataset=schedule.dataset,
            format_name=schedule.format,
            node_path=schedule.organization.display_path,
            start=start,
            end=end,
            as_of=as_of,
            pool_name=None,
            now=now,
        )
        _update(delivery, export_id=export.pk)
    return export


def _folder_of(delivery: Delivery) -> str:
    return f"{delivery.schedule.organization.slug}/{delivery.due_on:%Y-%m}"


def _fail(delivery: Delivery, message: str, now: datetime) -> None:
    """Try again after a pause, with another file where this one was not written."""
    values: dict[str, object] = {"tries": delivery.tries + 1, "message": message[:500]}
    if delivery.tries < len(PAUSES):
        values["next_at"] = now + PAUSES[delivery.tries]
    else:
        values["state"] = DeliveryState.FAILED
    if delivery.export is not None and delivery.export.state == ExportState.FAILED:
        values["export_id"] = None
    _update(delivery, **values)


def _update(delivery: Delivery, **values: object) -> None:
    """Change a delivery that still waits: its schedule may have been ended meanwhile."""
    changed = Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.WAITING)
    if changed.update(**values):
        publish("reports", organization_id=delivery.schedule.organization_id)
