"""Commitments of an organization: the terms of its pools in that mode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from billing.models import PoolTerms, PriceMode


class Commitments:
    """The commitments of an organization, by pool and start.

    `known_at` leaves out those that were added later. None means all.
    """

    def __init__(self, organization_id: UUID, known_at: datetime | None) -> None:
        """Read the commitments."""
        found = PoolTerms.objects.filter(
            card__organization=organization_id, mode=PriceMode.COMMITMENT
        ).select_related("pool", "card")
        if known_at is not None:
            found = found.filter(Q(added_at=None) | Q(added_at__lte=known_at))
        self._by_pool: dict[str, list[PoolTerms]] = defaultdict(list)
        for terms in found.order_by("pool__name", "start"):
            self._by_pool[terms.pool.name].append(terms)

    def of(self, pool: str, start: datetime, end: datetime) -> PoolTerms | None:
        """Return the first commitment to a pool that overlaps `[start, end)`.

        A day on which another one begins counts for the first.
        """
        return next(iter(_overlapping(self._by_pool.get(pool, ()), start, end)), None)

    def during(self, start: datetime, end: datetime) -> list[PoolTerms]:
        """Return all commitments that overlap `[start, end)`, by pool and start."""
        return [
            terms for rows in self._by_pool.values() for terms in _overlapping(rows, start, end)
        ]

    def is_followed(self, terms: PoolTerms) -> bool:
        """Return whether another commitment to the pool begins where this one ends."""
        return any(one.start == terms.end for one in self._by_pool[terms.pool.name])


def commitment_id(terms: PoolTerms) -> str:
    """Return the id of a commitment in FOCUS files."""
    return f"urn:tidegate:commitment:{terms.pk}"


def _overlapping(rows: Sequence[PoolTerms], start: datetime, end: datetime) -> list[PoolTerms]:
    return [one for one in rows if one.start < end and (one.end is None or one.end > start)]
