"""Metered attempts and prices for tests, with defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from uuid_utils.compat import uuid7

from billing.metering import (
    Grant,
    Observed,
    record_classed,
    record_observed,
    record_started,
    register_attempts,
)
from billing.models import MeteredAttempt, PoolTerms, RateCard, RateLine
from builders.portal_builders import a_cluster, a_pool, a_user
from clusters.models import Pool
from tenants.models import Node, User

#: Midnight: `at(3600)` is one o'clock.
DAY = datetime(2026, 11, 1, tzinfo=UTC)
LATER = DAY + timedelta(days=20)


def at(seconds: int) -> datetime:
    return DAY + timedelta(seconds=seconds)


def a_grant_of(
    team: Node,
    *,
    user: User | None = None,
    attempt_id: UUID | None = None,
    job_id: UUID | None = None,
    job_name: str = "train",
    number: int = 1,
    pool: Pool | None = None,
    multiplier_ppm: int = 1_000_000,
    mgpu: int = 8_000,
    guaranteed_mgpu: int | None = None,
    priority_class: str = "normal",
    job_type: str = "training",
    granted: int = 0,
) -> Grant:
    return Grant(
        attempt_id=attempt_id or uuid7(),
        job_id=job_id or uuid7(),
        job_name=job_name,
        number=number,
        organization_id=team.organization_id,
        team_id=team.pk,
        user_id=(user or a_user(team.organization)).pk,
        pool_id=(pool or a_pool()).pk,
        cluster_id=a_cluster().pk,
        priority_class=priority_class,
        multiplier_ppm=multiplier_ppm,
        job_type=job_type,
        mgpu=mgpu,
        guaranteed_mgpu=mgpu if guaranteed_mgpu is None else guaranteed_mgpu,
        at=at(granted),
    )


def register_attempt(grant: Grant, *, now: datetime) -> MeteredAttempt:
    """Open the account of one attempt."""
    register_attempts([grant], now=now)
    return MeteredAttempt.objects.get(pk=grant.attempt_id)


def record_ended(attempt_id: UUID, at: datetime, now: datetime) -> None:
    """The cluster says that the attempt ended at `at`."""
    record_observed([Observed(attempt_id, "ended", at)], now=now)


def record_fault(attempt_id: UUID, since: datetime, now: datetime, reason: str) -> None:
    """The attempt ended by a fault, and its work since then was lost."""
    record_observed([Observed(attempt_id, "fault", since, reason=reason)], now=now)


def a_metered_attempt(
    team: Node,
    start: int | None = 0,
    end: int | None = 3600,
    *,
    classes: Sequence[tuple[int, int]] = (),
    user: User | None = None,
    job_id: UUID | None = None,
    job_name: str = "train",
    number: int = 1,
    pool: Pool | None = None,
    multiplier_ppm: int = 1_000_000,
    mgpu: int = 8_000,
    guaranteed_mgpu: int | None = None,
    priority_class: str = "normal",
    job_type: str = "training",
    now: datetime = LATER,
) -> MeteredAttempt:
    """An attempt over [start, end) seconds of DAY; `classes` are (second, guaranteed_mgpu).

    All of it is recorded at `now`.
    """
    grant = a_grant_of(
        team,
        user=user,
        job_id=job_id,
        job_name=job_name,
        number=number,
        pool=pool,
        multiplier_ppm=multiplier_ppm,
        mgpu=mgpu,
        guaranteed_mgpu=guaranteed_mgpu,
        priority_class=priority_class,
        job_type=job_type,
        granted=0 if start is None else start,
    )
    attempt = register_attempt(grant, now=now)
    if start is not None:
        record_started(attempt.pk, at(start), now)
    for second, guaranteed in classes:
        record_classed([(attempt.pk, guaranteed)], at(second), now)
    if end is not None:
        record_ended(attempt.pk, at(end), now)
    return attempt


def a_rate_card(
    organization: Node,
    prices_nano: Mapping[str, int] | None = None,
    *,
    pool: Pool | None = None,
    currency: str = "EUR",
    start: int = -86_400,
    end: int | None = None,
) -> RateCard:
    """A card whose lines, one per usage class, hold over [start, end) seconds of DAY."""
    card, _ = RateCard.objects.get_or_create(
        organization=organization, defaults={"currency": currency}
    )
    prices = {"guaranteed": 2_000_000_000, "borrowed": 1_000_000_000}
    for usage_class, price_nano in (prices if prices_nano is None else prices_nano).items():
        RateLine.objects.create(
            card=card,
            pool=pool or a_pool(),
            usage_class=usage_class,
            price_nano=price_nano,
            start=at(start),
            end=None if end is None else at(end),
        )
    return card


def terms_of(
    card: RateCard,
    mode: str,
    *,
    pool: Pool | None = None,
    start: int = -86_400,
    end: int | None = None,
    **values: int,
) -> PoolTerms:
    """Terms of a pool over [start, end) seconds of DAY."""
    return PoolTerms.objects.create(
        card=card,
        pool=pool or a_pool(),
        mode=mode,
        start=at(start),
        end=None if end is None else at(end),
        **values,
    )
