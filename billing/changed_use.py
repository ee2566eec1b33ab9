"""Late news of use, for those who counted the use before: read once, then forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Greatest

from billing.models import ChangedUse


@dataclass(frozen=True, slots=True)
class Change:
    """A job whose use is other than recorded before; `fault` is the reason of a fault, or empty."""

    job_name: str
    fault: str


def changed_pools() -> list[tuple[UUID, UUID]]:
    """Return the organizations and pools with changed use, as pairs."""
    pairs = ChangedUse.objects.values_list("attempt__organization_id", "attempt__pool_id")
    return sorted(pairs.distinct())


def first_change(organization_id: UUID, pool_id: UUID) -> datetime | None:
    """Return the start of the earliest changed use in a pool, or None."""
    found = _of(organization_id, pool_id).order_by("start").first()
    return None if found is None else found.start


def changes_in(
    organization_id: UUID, pool_id: UUID, start: datetime, end: datetime
) -> Iterable[Change]:
    """Return what changed in `[start, end)`, in the order of recording."""
    found = _of(organization_id, pool_id).filter(start__lt=end, end__gt=start).order_by("pk")
    return [Change(*row) for row in found.values_list("attempt__job_name", "fault")]


def forget_changes(organization_id: UUID, pool_id: UUID, until: datetime | None) -> None:
    """Forget changes before `until`; all of them for None."""
    stored = _of(organization_id, pool_id)
    if until is None:
        stored.delete()
        return
    stored.filter(end__lte=until).delete()
    stored.filter(start__lt=until).update(start=Greatest("start", until))


def _of(organization_id: UUID, pool_id: UUID) -> QuerySet[ChangedUse]:
    return ChangedUse.objects.filter(
        attempt__organization_id=organization_id, attempt__pool_id=pool_id
    )
