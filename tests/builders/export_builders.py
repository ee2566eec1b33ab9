"""Requested exports for tests, with defaults."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from builders.billing_builders import DAY, LATER
from exports.files import file_of
from exports.models import Delivery, DeliverySchedule, Export
from exports.requests import request_export
from exports.running import run_next
from focus.columns import DATASETS
from focus.files import opened
from focus.rules import faults_of
from tenants.access import Actor
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


def exported(actor: Actor, now: datetime, **changes: Any) -> Export:
    """A file that was requested and written at `now`: CSV of ai-company, unless told otherwise.

    The checker found no fault in a FOCUS file.
    """
    given: dict[str, Any] = {
        "format_name": "csv", "node_path": "ai-company", "as_of": None, "pool_name": None,
    }  # fmt: skip
    export = request_export(actor=actor, now=now, **{**given, **changes})
    assert run_next(lambda: now)
    export.refresh_from_db()
    assert export.state == "done", export.message
    if export.dataset.startswith("focus_") and export.format != "xlsx":
        _check_focus(export)
    return export


def _check_focus(export: Export) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / export.file_name
        path.write_bytes(file_of(export.pk).read_bytes())
        dataset = export.dataset.removeprefix("focus_").title().replace("_", "")
        name = next(one for one in DATASETS if one.casefold() == dataset.casefold())
        with opened(path) as (header, rows):
            assert faults_of(name, header, rows) == []


def cells_of(export: Export) -> list[dict[str, str]]:
    """The rows of a CSV file, by column."""
    return list(csv.DictReader(file_of(export.pk).read_text().splitlines()))
