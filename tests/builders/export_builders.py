"""Requested exports for tests, with defaults."""

from __future__ import annotations

from datetime import timedelta

from builders.billing_builders import DAY, LATER
from exports.models import Delivery, DeliverySchedule, Export
from tenants.models import Node, User


def an_export(node: Node, user: User, **changes: object) -> Export:
    """A requested file with the charges of the node on DAY."""
    values = {
        "organization": node.organization,
        "node_path": node.path,
        "requested_by": user,
        "dataset": "charges",
        "format": "csv",
        "start": DAY,
        "end": DAY + timedelta(days=1),
        "as_of": LATER,
        "created_at": LATER,
    }
    return Export.objects.create(**{**values, **changes})


def a_delivery_schedule(organization: Node, user: User, **changes: object) -> DeliverySchedule:
    """A schedule that delivers the charges to `finance` each day."""
    values = {
        "organization": organization,
        "dataset": "charges",
        "format": "csv",
        "frequency": "daily",
        "target": "finance",
        "created_by": user,
        "created_at": LATER,
    }
    return DeliverySchedule.objects.create(**{**values, **changes})


def a_delivery(schedule: DeliverySchedule, **changes: object) -> Delivery:
    """A delivery of the day before LATER, which waits."""
    values = {
        "schedule": schedule,
        "due_on": (LATER - timedelta(days=1)).date(),
        "created_at": LATER,
        "next_at": LATER,
    }
    return Delivery.objects.create(**{**values, **changes})
