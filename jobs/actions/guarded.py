"""Moves and deletions of tree nodes, as writes that a second person may approve."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.operations import add_operation
from jobs.actions.deleting import delete_node
from jobs.actions.moving import move
from primitives.clock import SystemClock
from tenants.access import Actor


def _move(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    # A move reads the clock itself, after its locks.
    return move(UUID(given["node"]), given["parent"], actor=actor, clock=SystemClock())


def _delete(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    return delete_node(UUID(given["node"]), actor=actor, now=now)


def register() -> None:
    """Add both to the writes that a second person may approve."""
    add_operation("node.move", _move)
    add_operation("node.delete", _delete)
