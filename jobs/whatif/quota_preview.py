"""The preview of a planned change of quotas: two futures, limited to what the actor may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from approvals.changes import Terms, made_at, reverted_after_s, terms_as_asked, try_request
from approvals.deciders import may_decide
from approvals.models import OF_QUOTAS, OPEN
from approvals.reading import request_by_id
from arbiter.api.snapshot import Quota as ArbiterQuota
from billing.models import PriceMode, UsageClass
from billing.queries import PresentPrices, present_prices
from billing.rating import cost_nano
from clusters.models import Pool
from jobs.access import visible_jobs
from jobs.arbitration.snapshots import read_queue
from jobs.whatif.commitments import Guaranteed, guarantees_over
from jobs.whatif.heavy_answers import FUTURE, worked_out
from primitives.clock import from_epoch
from primitives.errors import Conflict, Forbidden
from primitives.units import PPM
from quotas.fleet import pool_rows
from quotas.models import PlannedStatus, PriorityClass, Quota
from quotas.planned_changes import trial_of
from quotas.planned_reading import planned_by_id, require_preview
from quotas.quota_store import values_of
from simulator.look_ahead import Loss
from simulator.what_if import Change, Difference, Shift, TeamTime, what_if
from tenants.access import Actor
from tenants.models import Node, NodeKind
from tenants.roles import Permission

#: Maximum number of named jobs of each kind. The rows of the teams count all jobs.
NAMED_MAX = 200


@dataclass(slots=True)
class TeamEffect:
    """The effect of a change on a team in a pool, with amounts before and after it.

    Costs are None if the actor may not see them, or if there is no price.
    """

    team: str
    pool: str
    device: str
    use_now_mgpu: int = 0
    use_before_mgpu: int = 0
    use_after_mgpu: int = 0
    guaranteed_before_mgpu_s: int = 0
    guaranteed_after_mgpu_s: int = 0
    borrowed_before_mgpu_s: int = 0
    borrowed_after_mgpu_s: int = 0
    cost_before_nano: int | None = None
    cost_after_nano: int | None = None
    jobs_sooner: int = 0
    jobs_later: int = 0
    jobs_reclaimed: int = 0
    at_risk_mgpu_s: int = 0
    jobs_spared: int = 0


@dataclass(slots=True)
class ChangePreview:
    """The effect of a planned change.

    `refusal` says why the rules would refuse the change now; then nothing else is known. Times are
    in UTC; see `simulator.what_if.Difference`.
    """

    as_of: datetime
    until: datetime
    asked_until: datetime
    precision_s: int
    assumed_ends: int
    refusal: str
    quotas: list[dict[str, Any]] = field(default_factory=list)
    pools: list[dict[str, Any]] = field(default_factory=list)
    starts: list[dict[str, Any]] = field(default_factory=list)
    reclaimed: list[dict[str, Any]] = field(default_factory=list)
    spared: list[dict[str, Any]] = field(default_factory=list)
    teams: list[TeamEffect] = field(default_factory=list)
    currency: str | None = None

    @property
    def is_cut(self) -> bool:
        """Return whether the look-ahead ended before its horizon, to limit the work."""
        return self.until < self.asked_until


def preview_change(
    planned_id: UUID, *, horizon_s: int, actor: Actor, now: datetime
) -> ChangePreview:
    """Look `horizon_s` seconds ahead, without and with a planned change. Changes nothing.

    The preview names nothing of other organizations. Raises NotFound, Forbidden, Conflict for a
    change that is decided already, and TooManyRequests while another look-ahead is computed.
    """
    planned = planned_by_id(actor, planned_id)
    require_preview(actor, planned)
    if planned.status not in (PlannedStatus.DRAFT, PlannedStatus.SCHEDULED):
        raise Conflict(f"This change is {planned.status}; only what is to come has a preview.")
    previewed = _Previewed(
        planned.node.organization_id,
        lambda: trial_of(planned),
        max(now, planned.apply_at or now),
        planned.revert_after_s,
    )
    return _preview(previewed, horizon_s, actor=actor, now=now)


def preview_request(
    request_id: UUID, terms: Terms | None, *, horizon_s: int, actor: Actor, now: datetime
) -> ChangePreview:
    """Look ahead as `preview_change` does, with the change of a request, or with other terms.

    Without `terms`, the change is as asked. Raises NotFound, Forbidden for people who may not
    decide it, Conflict for a closed request or a change of no quotas, and TooManyRequests.
    """
    request = request_by_id(actor, request_id)
    if not may_decide(actor, request):
        raise Forbidden("Only people who may decide this request may preview it.")
    if request.kind not in OF_QUOTAS or request.status not in OPEN:
        raise Conflict("Only an open request for a change of quotas has a preview.")
    wanted = terms_as_asked(request, {}) if terms is None else terms
    previewed = _Previewed(
        request.organization_id,
        lambda: try_request(request, wanted),
        now,
        reverted_after_s(wanted, made_at(request, now)),
    )
    return _preview(previewed, horizon_s, actor=actor, now=now)


@dataclass(frozen=True, slots=True)
class _Previewed:
    """A change to preview: its trial, when it begins, and after how many seconds it ends."""

    organization_id: UUID
    trial: Callable[[], tuple[list[tuple[Quota, dict[str, Any]]], str]]
    begins_at: datetime
    revert_after_s: int | None


def _preview(
    previewed: _Previewed, horizon_s: int, *, actor: Actor, now: datetime
) -> ChangePreview:
    with worked_out(FUTURE):
        changed, refusal = previewed.trial()
        # One snapshot of one instant: it must be the outermost transaction.
        snapshot, policy, _, stops = read_queue(now)
        quotas = stops.limit_some(_for_the_arbiter(quota) for quota, _ in changed)
        begins_at = int(previewed.begins_at.timestamp())
        after_s = previewed.revert_after_s
        change = Change(quotas, begins_at, None if after_s is None else begins_at + after_s)
        found = what_if(snapshot, policy, change, horizon_s)
    organization_id = previewed.organization_id
    return _shown(organization_id, changed, change, refusal, found, actor=actor, now=now)


def _for_the_arbiter(quota: Quota) -> ArbiterQuota:
    return ArbiterQuota(
        str(quota.node_id),
        str(quota.pool_id),
        quota.guaranteed_mgpu,
        quota.lend_limit_mgpu,
        quota.borrow_limit_mgpu,
        quota.weight,
    )


def _shown(
    organization_id: UUID,
    changed: list[tuple[Quota, dict[str, Any]]],
    change: Change,
    refusal: str,
    found: Difference,
    *,
    actor: Actor,
    now: datetime,
) -> ChangePreview:
    preview = ChangePreview(
        as_of=from_epoch(found.taken_at),
        until=from_epoch(found.until),
        asked_until=from_epoch(found.asked_until),
        precision_s=found.precision_s,
        assumed_ends=found.assumed_ends,
        refusal=refusal,
    )
    if refusal:
        return preview
    teams = {
        str(node.pk): node
        for node in Node.objects.filter(organization=organization_id, kind=NodeKind.TEAM)
        if actor.holds(Permission.VIEW_TREE, node.path)
    }
    pools = {str(pool.pk): pool for pool in Pool.objects.all()}
    preview.quotas.extend(
        {
            "quota": quota.pk,
            "node": quota.node.display_path,
            "pool": quota.pool.name,
            "device": quota.pool.device,
            "before": before,
            "after": values_of(quota),
        }
        for quota, before in changed
    )
    preview.pools.extend(_pools(changed, actor, now))
    losses = [*found.reclaimed, *found.spared]
    named = _named(actor, found.shifts, losses)
    preview.starts.extend(_start(one, named, pools) for one in found.shifts if one.job in named)
    preview.reclaimed.extend(
        _loss(one, named, pools) for one in found.reclaimed if one.job in named
    )
    preview.spared.extend(_loss(one, named, pools) for one in found.spared if one.job in named)
    for rows in (preview.starts, preview.reclaimed, preview.spared):
        del rows[NAMED_MAX:]
    present = present_prices(organization_id, {quota.pool_id for quota, _ in changed}, now=now)
    preview.currency = present.currency
    effects = _effects(found, teams, pools)
    committed = [pool for pool, mode in present.modes.items() if mode == PriceMode.COMMITMENT]
    guarantees = guarantees_over(found, change, teams, committed)
    for key, guaranteed in guarantees.items():
        if guaranteed.before_mgpu_s != guaranteed.after_mgpu_s:
            effects.setdefault(key, _effect_on(key, teams, pools))
    for key, effect in effects.items():
        if actor.holds(Permission.VIEW_COSTS, teams[key[0]].path):
            times = [one for one in found.time if (one.team, one.pool) == key]
            guaranteed = guarantees.get(key, Guaranteed(0, 0))
            effect.cost_before_nano, effect.cost_after_nano = (
                _with_commitment(cost, UUID(key[1]), mgpu_s, present)
                for cost, mgpu_s in zip(_costs(times, present.billed_nano), guaranteed, strict=True)
            )
    preview.teams.extend(sorted(effects.values(), key=lambda one: (one.team, one.pool)))
    return preview


def _pools(
    changed: list[tuple[Quota, dict[str, Any]]], actor: Actor, now: datetime
) -> Iterator[dict[str, Any]]:
    """Yield the pools of the change, each with the guarantees of all organizations after it."""
    more: dict[UUID, int] = {}
    touched = {quota.pool_id: quota.pool for quota, _ in changed}
    for quota, before in changed:
        if quota.node.parent_id is None:
            change_mgpu = quota.guaranteed_mgpu - before["guaranteed_mgpu"]
            more[quota.pool_id] = more.get(quota.pool_id, 0) + change_mgpu
    for row in pool_rows(actor, sorted(touched.values(), key=lambda pool: pool.name), now=now):
        guaranteed_mgpu, is_over = row.guaranteed_mgpu, row.is_overcommitted
        if guaranteed_mgpu is not None:
            guaranteed_mgpu += more.get(row.pool.pk, 0)
            is_over = guaranteed_mgpu > row.capacity_mgpu
        yield {
            "pool": row.pool.name,
            "device": row.pool.device,
            "capacity_mgpu": row.capacity_mgpu,
            "guaranteed_mgpu": guaranteed_mgpu,
            "is_overcommitted": is_over,
        }


def _named(
    actor: Actor, shifts: tuple[Shift, ...], losses: list[Loss]
) -> dict[str, dict[str, str]]:
    """Return name, team and user of the jobs that the actor may see, by id."""
    ids = {one.job for one in shifts} | {one.job for one in losses}
    ids |= {one.beneficiary for one in losses}
    rows = visible_jobs(actor).filter(pk__in=ids)
    return {
        str(pk): {"job": str(pk), "name": name, "team": path.rstrip("/"), "user": username}
        for pk, name, path, username in rows.values_list(
            "pk", "name", "team__path", "user__username"
        )
    }


def _start(one: Shift, named: dict[str, dict[str, str]], pools: dict[str, Pool]) -> dict[str, Any]:
    return {
        **named[one.job],
        "pool": pools[one.pool].name,
        "device": pools[one.pool].device,
        "mgpu": one.mgpu,
        "before": None if one.before is None else from_epoch(one.before),
        "after": None if one.after is None else from_epoch(one.after),
        "sooner_s": one.sooner_s,
        "is_at_least": one.is_at_least,
    }


def _loss(one: Loss, named: dict[str, dict[str, str]], pools: dict[str, Pool]) -> dict[str, Any]:
    return {
        **named[one.job],
        "pool": pools[one.pool].name,
        "device": pools[one.pool].device,
        "mgpu": one.mgpu,
        "noticed_at": from_epoch(one.noticed_at),
        "at_risk_mgpu_s": one.at_risk_mgpu_s,
        "beneficiary": one.beneficiary if one.beneficiary in named else None,
    }


def _effects(
    found: Difference, teams: dict[str, Node], pools: dict[str, Pool]
) -> dict[tuple[str, str], TeamEffect]:
    effects: dict[tuple[str, str], TeamEffect] = {}

    def of(team: str, pool: str) -> TeamEffect | None:
        if team not in teams:
            return None
        if (team, pool) not in effects:
            effects[team, pool] = _effect_on((team, pool), teams, pools)
        return effects[team, pool]

    for use in found.use:
        if (effect := of(use.team, use.pool)) is not None:
            effect.use_now_mgpu = use.now_mgpu
            effect.use_before_mgpu = use.before_mgpu
            effect.use_after_mgpu = use.after_mgpu
    for time in found.time:
        if (effect := of(time.team, time.pool)) is not None:
            effect.guaranteed_before_mgpu_s += time.guaranteed_before_mgpu_s
            effect.guaranteed_after_mgpu_s += time.guaranteed_after_mgpu_s
            effect.borrowed_before_mgpu_s += time.borrowed_before_mgpu_s
            effect.borrowed_after_mgpu_s += time.borrowed_after_mgpu_s
    for shift in found.shifts:
        if (effect := of(shift.team, shift.pool)) is not None:
            effect.jobs_sooner += shift.sooner_s > 0
            effect.jobs_later += shift.sooner_s < 0
    for loss in found.reclaimed:
        if (effect := of(loss.team, loss.pool)) is not None:
            effect.jobs_reclaimed += 1
            effect.at_risk_mgpu_s += loss.at_risk_mgpu_s
    for loss in found.spared:
        if (effect := of(loss.team, loss.pool)) is not None:
            effect.jobs_spared += 1
    return effects


def _effect_on(
    key: tuple[str, str], teams: Mapping[str, Node], pools: Mapping[str, Pool]
) -> TeamEffect:
    """Return no effect on a team in a pool yet."""
    team, pool = teams[key[0]], pools[key[1]]
    return TeamEffect(team.display_path, pool.name, pool.device)


def _with_commitment(
    cost: int | None, pool: UUID, guaranteed_mgpu_s: int, prices: PresentPrices
) -> int | None:
    """Return the cost of use with that of the guarantee, in nano-currency; None without a price."""
    if cost is None or guaranteed_mgpu_s == 0:
        return cost
    price_nano = prices.listed_nano.get((pool, UsageClass.GUARANTEED.value))
    if price_nano is None:
        return None
    return cost + cost_nano(guaranteed_mgpu_s, price_nano=price_nano, multiplier_ppm=PPM)


def _costs(
    times: list[TeamTime], prices: Mapping[tuple[UUID, str], int]
) -> tuple[int | None, int | None]:
    """Return the cost of the GPU time at today's prices, without and with the change.

    In nano-currency; None if a price is missing.
    """
    multipliers = dict(
        PriorityClass.objects.filter(pk__in={one.priority_class for one in times}).values_list(
            "pk", "price_multiplier_ppm"
        )
    )
    sums: list[int | None] = [0, 0]
    for one in times:
        for usage_class, amounts in (
            (
                UsageClass.GUARANTEED.value,
                (one.guaranteed_before_mgpu_s, one.guaranteed_after_mgpu_s),
            ),
            (UsageClass.BORROWED.value, (one.borrowed_before_mgpu_s, one.borrowed_after_mgpu_s)),
        ):
            price_nano = prices.get((UUID(one.pool), usage_class))
            for place, mgpu_s in enumerate(amounts):
                so_far = sums[place]
                if mgpu_s == 0 or so_far is None:
                    continue
                sums[place] = (
                    None
                    if price_nano is None
                    else so_far
                    + cost_nano(
                        mgpu_s,
                        price_nano=price_nano,
                        multiplier_ppm=multipliers[UUID(one.priority_class)],
                    )
                )
    return sums[0], sums[1]
