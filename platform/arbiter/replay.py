"""Snapshots and plans as JSON, so that a decision can be stored, read and made again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any

from arbiter.decisions import Plan
from arbiter.snapshot import (
    Claim,
    Device,
    Phase,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Slot,
    Snapshot,
    TreeNode,
)


def snapshot_to_json(snapshot: Snapshot) -> str:
    """Readable JSON; fields that have their default are left out."""
    return json.dumps(_plain(snapshot), indent=1, sort_keys=True)


def plan_to_json(plan: Plan) -> str:
    """Readable JSON; fields that have their default are left out."""
    return json.dumps(_plain(plan), indent=1, sort_keys=True)


def snapshot_from_json(text: str) -> Snapshot:
    """The snapshot that `snapshot_to_json` wrote.

    Raises ValueError, naming what is wrong, for JSON that is no snapshot.
    """
    try:
        given = json.loads(text)
        return Snapshot(
            taken_at=given["taken_at"],
            nodes=tuple(TreeNode(**row) for row in given["nodes"]),
            quotas=tuple(Quota(**row) for row in given["quotas"]),
            priority_classes=tuple(PriorityClass(**row) for row in given["priority_classes"]),
            devices=tuple(_device(row) for row in given["devices"]),
            clusters=frozenset(given["clusters"]),
            running=tuple(_running(row) for row in given["running"]),
            queued=tuple(_queued(row) for row in given["queued"]),
            claims=tuple(Claim(**{**row, "slots": _slots(row)}) for row in given.get("claims", ())),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this JSON is no snapshot: {error!r}") from error


def _running(row: Mapping[str, Any]) -> RunningJob:
    phase = Phase(row.get("phase", Phase.RUNNING))
    return RunningJob(**{**row, "slots": _slots(row), "phase": phase})


def _device(row: Mapping[str, Any]) -> Device:
    return Device(**{**row, "features": frozenset(row.get("features", ()))})


def _queued(row: Mapping[str, Any]) -> QueuedJob:
    sets = {
        name: None if row.get(name) is None else frozenset(row[name])
        for name in ("clusters", "features")
    }
    return QueuedJob(**{**row, **sets})


def _slots(row: Mapping[str, Any]) -> tuple[Slot, ...]:
    return tuple(Slot(**slot) for slot in row["slots"])


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if field.default is MISSING or getattr(value, field.name) != field.default
        }
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value
