"""The entitlement of a person in a team: what the team has of each pool, and what may start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Min, Sum

from arbiter.explain.fair_shares import NodeFairShare
from clusters.models import Pool
from jobs.models import Attempt, AttemptState, StopReason
from jobs.whatif.starts_by_size import SizeStart, starts_by_size
from primitives.errors import FieldError, InvalidRequest, TooManyRequests
from quotas.entitlement_amounts import EntitlementAmounts, entitlement_amounts
from quotas.models import NodeUse, Quota
from shares.contacts import Contact, contacts_of
from shares.fair_shares import FairShareReading
from shares.lending import Loans, Partner, loans_in
from shares.waits_by_size import SizeWaits, waits_by_size
from tenants.access import Actor, visible_node
from tenants.models import Node, NodeKind
from tenants.roles import Permission

#: The most pools in one answer.
POOLS_MAX = 20


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Running jobs of a team that got notice of a reclaim; the first must stop by `until`."""

    jobs: int = 0
    mgpu: int = 0
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PoolEntitlement:
    """The entitlement of a team in a pool.

    `starts` is None for a person without the right to submit, and while other what-ifs are
    computed. `waits` has only sizes of which a job started.
    """

    pool: Pool
    as_of: datetime | None
    amounts: EntitlementAmounts
    sentence: str
    fair_share: NodeFairShare
    reclaimed: Reclaimed
    borrowers: Sequence[Partner]
    lenders: Sequence[Partner]
    starts: Sequence[SizeStart] | None
    waits: Sequence[SizeWaits]


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The entitlement of a person in a team, in all pools in which its organization has quota."""

    team: Node
    contacts: Sequence[Contact]
    pools: Sequence[PoolEntitlement]


def entitlement_of(
    path: str,
    *,
    pool: Pool | None = None,
    with_starts: bool = True,
    actor: Actor,
    now: datetime,
) -> Entitlement:
    """Return the entitlement of the actor in the team at `path`, in `pool` or all pools.

    Must be outside of transactions. Raises NotFound for an invisible team, and InvalidRequest for a
    node that is no team, or a pool in which the organization has no quota.
    """
    team = visible_node(actor, path)
    if team.kind != NodeKind.TEAM:
        raise InvalidRequest(
            f"{team.display_path} is no team. Give the path of a team.",
            errors=[FieldError("/team", "is no team")],
        )
    pools = _pools_of(team, pool)
    reading = FairShareReading(now)
    quotas = {each.pool_id: each for each in Quota.objects.filter(node=team, pool__in=pools)}
    uses = {each.pool_id: each for each in NodeUse.objects.filter(node=team, pool__in=pools)}
    reclaimed = _reclaimed(team)
    waits = waits_by_size(team, now=now)
    starts = _starts(team, pools, actor, now) if with_starts else None
    return Entitlement(
        team,
        contacts_of(team, actor=actor),
        [
            _in_pool(
                team,
                each,
                entitlement_amounts(quotas.get(each.pk), uses.get(each.pk)),
                uses.get(each.pk),
                reading.of(each)[str(team.pk)],
                reclaimed.get(each.pk, Reclaimed()),
                loans_in(team.organization, each),
                None if starts is None else starts[each.pk],
                waits.get(each.pk, ()),
            )
            for each in pools
        ],
    )


def _pools_of(team: Node, pool: Pool | None) -> list[Pool]:
    found = Pool.objects.filter(quotas__node=team.organization_id, archived_at=None)
    if pool is None:
        return list(found.order_by("name")[:POOLS_MAX])
    if not found.filter(pk=pool.pk).exists():
        raise InvalidRequest(
            f"{team.organization.display_path} has no quota in {pool.name}. Choose another pool.",
            errors=[FieldError("/pool", "has no quota here")],
        )
    return [pool]


def _in_pool(
    team: Node,
    pool: Pool,
    amounts: EntitlementAmounts,
    use: NodeUse | None,
    fair_share: NodeFairShare,
    reclaimed: Reclaimed,
    loans: Loans,
    starts: Sequence[SizeStart] | None,
    waits: Sequence[SizeWaits],
) -> PoolEntitlement:
    return PoolEntitlement(
        pool=pool,
        as_of=None if use is None else use.as_of,
        amounts=amounts,
        sentence=amounts.sentence(team.slug, pool.kind),
        fair_share=fair_share,
        reclaimed=reclaimed,
        borrowers=loans.borrowers_from(team.display_path),
        lenders=loans.lenders_to(team.display_path),
        starts=starts,
        waits=waits,
    )


def _reclaimed(team: Node) -> Mapping[UUID, Reclaimed]:
    """Return the jobs of the team on notice, by pool."""
    rows = (
        Attempt.objects.filter(
            job__team=team,
            state=AttemptState.STOPPING,
            stop_reason=StopReason.PREEMPTED,
            released_at=None,
        )
        .values_list("job__pool")
        .annotate(Count("pk"), Sum("mgpu"), Min("grace_until"))
    )
    return {pool: Reclaimed(jobs, mgpu, until) for pool, jobs, mgpu, until in rows}


def _starts(
    team: Node, pools: Sequence[Pool], actor: Actor, now: datetime
) -> Mapping[UUID, Sequence[SizeStart]] | None:
    if team.archived_at is not None or not actor.holds(Permission.SUBMIT_JOBS, team.path):
        return None
    try:
        return starts_by_size(team, pools, actor=actor, now=now)
    except TooManyRequests:
        return None
