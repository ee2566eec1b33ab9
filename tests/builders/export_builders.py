"""Requested exports for tests, with defaults."""

from __future__ import annotations

from datetime import timedelta

from builders.billing_builders import DAY, LATER
from exports.models import Export
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
