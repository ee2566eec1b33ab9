"""An event of a job, before it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Happening:
    """An event of a job; `detail` is JSON."""

    job_id: UUID
    at: datetime
    event: str
    detail: Mapping[str, Any] = field(default_factory=dict)
