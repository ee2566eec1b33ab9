"""The effect of a requested or waiting job on the budgets in which it counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from budgets.administration import visible_budgets
from budgets.models import Budget
from budgets.stopping import CurrentBudget, budgets_of
from jobs.models import Job
from jobs.queue.budget_stops import JobShape, WantedJob, most_used
from jobs.submission.resolved_requests import ResolvedRequest
from tenants.access import Actor
from tenants.models import Node


@dataclass(frozen=True, slots=True)
class BudgetEffect:
    """The amount of a budget that a job may use, and the amount left before it, in its unit.

    Queued jobs are not reckoned with. `currency` is that of a budget in money.
    """

    budget: Budget
    left: int
    needed: int
    room_at: datetime
    currency: str | None


def wanted_job(job_id: str, resolved: ResolvedRequest, actor: Actor, now: datetime) -> WantedJob:
    """Return the request as budgets see a queued job."""
    return WantedJob(
        id=job_id,
        team=resolved.team.pk,
        pool=resolved.pool.pk,
        order=resolved.priority_class.order,
        submitted_at=now,
        shape=JobShape(
            path=resolved.team.path,
            user=actor.user.pk,
            pools=tuple(one.pool.pk for one in resolved.in_each_pool),
            mgpu=resolved.mgpu_max,
            time_limit_s=resolved.request.time_limit_s,
            multiplier_ppm=resolved.priority_class.price_multiplier_ppm,
        ),
    )


def shape_of(job: Job) -> JobShape:
    """Return a waiting job as budgets see it."""
    return JobShape(
        path=job.team.path,
        user=job.user_id,
        pools=tuple(job.pools or [job.pool_id]),
        mgpu=job.mgpu,
        time_limit_s=job.time_limit_s,
        multiplier_ppm=job.priority_class.price_multiplier_ppm,
    )


def budget_effects(
    shape: JobShape, team: Node, *, tasks: int = 1, actor: Actor, now: datetime
) -> Sequence[BudgetEffect]:
    """Return the effect of a job on each budget that the actor may see, by name.

    `tasks` are those of an array, which all count. A job without a time limit counts to the end of
    the window.
    """
    current = budgets_of(team, shape.user, now)
    shown = set(
        visible_budgets(actor)
        .filter(pk__in=[one.budget.pk for one in current])
        .values_list("pk", flat=True)
    )
    return [
        _effect(one, needed * tasks)
        for one in current
        if one.budget.pk in shown
        and one.concerns(shape.user, shape.pools)
        and (needed := most_used(one, shape, now)) > 0
    ]


def _effect(one: CurrentBudget, needed: int) -> BudgetEffect:
    return BudgetEffect(one.budget, one.left, needed, one.room_at, one.currency)
