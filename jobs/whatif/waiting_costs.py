"""The cost of a waiting job, and its effect on budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from billing.queries import PresentCost, highest_cost
from jobs.models import Job
from jobs.whatif.budget_effects import BudgetEffect, budget_effects, shape_of
from tenants.access import Actor

#: A job without a time limit is priced for this time.
HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class WaitingCosts:
    """The most that the next attempt of a waiting job costs, and the budgets in which it counts.

    `cost` is that of `seconds` at present prices: its time limit, or an hour without one. No more
    is billed than the job's cost cap leaves. None without a price, and for an actor who may not see
    it. `budgets` has those that the actor may see.
    """

    seconds: int
    cost: PresentCost | None
    budgets: Sequence[BudgetEffect]


def waiting_costs(
    job_id: UUID, *, sees_cost: bool, charged_nano: int, actor: Actor, now: datetime
) -> WaitingCosts | None:
    """Return the costs of a visible job that waits. None for a job that was deleted meanwhile.

    `charged_nano` is what its earlier attempts were charged.
    """
    job = Job.objects.select_related("team", "priority_class").filter(pk=job_id).first()
    if job is None:
        return None
    shape = shape_of(job)
    seconds = HOUR_S if job.time_limit_s is None else job.time_limit_s
    cost = None
    if sees_cost:
        cost = highest_cost(
            organization_id=job.organization_id,
            pools=shape.pools,
            mgpu=shape.mgpu,
            multiplier_ppm=shape.multiplier_ppm,
            seconds=seconds,
            now=now,
        )
    if cost is not None and job.cost_cap_nano is not None:
        left_nano = max(0, job.cost_cap_nano - charged_nano)
        cost = cost._replace(billed_nano=min(cost.billed_nano, left_nano))
    return WaitingCosts(seconds, cost, budget_effects(shape, job.team, actor=actor, now=now))
