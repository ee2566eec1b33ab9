"""The list of organizations for administrators of the platform."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, QuerySet

from billing.models import RateCard
from jobs.lifecycle import ACTIVE
from jobs.models import Job, JobState
from primitives.units import DeviceKind
from quotas.models import OrganizationPolicy, Quota
from quotas.policies import DEFAULT_TIME_ZONE
from tenants.access import Actor, require_platform_admin
from tenants.models import Node, NodeKind, User, UserKind


@dataclass(frozen=True, slots=True)
class PoolGuarantee:
    """The guarantee of an organization in a pool."""

    pool: str
    device: DeviceKind
    guaranteed_mgpu: int


@dataclass(frozen=True, slots=True)
class OrganizationSummary:
    """An organization, with counts of its present people, teams and jobs.

    `currency` is empty without a rate card. People and teams exclude deactivated and archived ones.
    """

    node: Node
    time_zone: str
    currency: str
    people: int
    teams: int
    guarantees: Sequence[PoolGuarantee]
    jobs_running: int
    jobs_waiting: int


def organizations(actor: Actor) -> QuerySet[Node]:
    """Return all organizations. Raises Forbidden unless the actor is a platform admin."""
    require_platform_admin(actor)
    return Node.objects.filter(kind=NodeKind.ORGANIZATION)


def summaries_of(found: Sequence[Node]) -> list[OrganizationSummary]:
    """Return the summaries of organizations. Six queries for any number of them."""
    ids = [node.pk for node in found]
    zones = dict(
        OrganizationPolicy.objects.filter(organization__in=ids).values_list(
            "organization", "time_zone"
        )
    )
    currencies = dict(
        RateCard.objects.filter(organization__in=ids).values_list("organization", "currency")
    )
    people = _counts(
        User.objects.filter(organization__in=ids, kind=UserKind.PERSON, is_active=True)
        .order_by()
        .values_list("organization")
        .annotate(Count("pk"))
    )
    teams = _counts(
        Node.objects.filter(organization__in=ids, kind=NodeKind.TEAM, archived_at=None)
        .order_by()
        .values_list("organization")
        .annotate(Count("pk"))
    )
    running, waiting = Counter[UUID](), Counter[UUID]()
    states = [*ACTIVE, JobState.QUEUED]
    for organization, state, count in (
        Job.objects.filter(team__organization__in=ids, state__in=states)
        .order_by()
        .values_list("team__organization", "state")
        .annotate(Count("pk"))
    ):
        (waiting if state == JobState.QUEUED else running)[organization] += count
    guarantees: dict[UUID, list[PoolGuarantee]] = {}
    for quota in Quota.objects.filter(node__in=ids).select_related("pool").order_by("pool__name"):
        guarantees.setdefault(quota.node_id, []).append(
            PoolGuarantee(quota.pool.name, quota.pool.kind, quota.guaranteed_mgpu)
        )
    return [
        OrganizationSummary(
            node=node,
            time_zone=zones.get(node.pk, DEFAULT_TIME_ZONE),
            currency=currencies.get(node.pk, ""),
            people=people[node.pk],
            teams=teams[node.pk],
            guarantees=guarantees.get(node.pk, []),
            jobs_running=running[node.pk],
            jobs_waiting=waiting[node.pk],
        )
        for node in found
    ]


def _counts(rows: Iterable[tuple[UUID, int]]) -> Counter[UUID]:
    return Counter(dict(rows))
