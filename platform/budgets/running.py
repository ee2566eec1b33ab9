"""Jobs that hold GPUs, as far as budgets need them. The package above provides them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class Running(NamedTuple):
    """An attempt that holds GPUs. `ends_at` is the end of its time limit; None without one."""

    attempt: UUID
    granted_at: datetime
    team: UUID
    user: UUID
    pool: UUID
    guaranteed_mgpu: int
    borrowed_mgpu: int
    multiplier_ppm: int
    ends_at: datetime | None


#: Return the attempts of an organization that hold GPUs; those granted since a time, if given.
Source = Callable[[UUID, datetime | None], list[Running]]

_sources: list[Source] = []


def provide(source: Source) -> None:
    """Set the source of running attempts. The package of jobs calls it once, at its start."""
    _sources[:] = [source]


def running_attempts(organization: UUID, granted_since: datetime | None = None) -> list[Running]:
    """Return the attempts of an organization that hold GPUs, or only those granted since a time."""
    return [one for source in _sources for one in source(organization, granted_since)]
