"""The cost of a longer time limit, and the budgets and the cost cap that do not cover it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from arbiter.explain.phrases import duration_text
from billing.queries import PresentCost, highest_cost
from billing.spending import cost_of_jobs
from budgets.administration import visible_budgets
from budgets.evaluation import seconds_left
from budgets.models import Policy
from budgets.stopping import CurrentBudget, budgets_of
from jobs.actions.extending import ends_at
from jobs.models import Attempt, Job
from jobs.queue.budget_stops import most_used
from jobs.whatif.budget_effects import BudgetEffect, shape_of
from tenants.access import Actor


@dataclass(frozen=True, slots=True)
class ExtensionCosts:
    """The cost of a longer time limit, and the budgets in which it counts.

    `cost` is the most that the longer run costs at present prices; None without a price. `budgets`
    has those that the actor may see. `notes` are sentences for a person. `refusal` is "" unless a
    budget that stops starts has too little left.
    """

    cost: PresentCost | None
    budgets: Sequence[BudgetEffect]
    notes: Sequence[str]
    refusal: str


def extension_costs(
    job: Job, attempt: Attempt | None, limit_s: int, *, actor: Actor, now: datetime
) -> ExtensionCosts:
    """Return the costs of a time limit of `limit_s`. `attempt` is the running one, if any."""
    before_s = job.time_limit_s
    assert before_s is not None
    effects = [
        BudgetEffect(one.budget, one.left, needed, one.room_at, one.currency)
        for one in budgets_of(job.team, job.user_id, now)
        if (needed := _needed(one, job, attempt, limit_s, now)) > 0
    ]
    shown = set(
        visible_budgets(actor)
        .filter(pk__in=[one.budget.pk for one in effects])
        .values_list("pk", flat=True)
    )
    notes = [_cap_note(job, attempt, limit_s, now)]
    refusal = ""
    for one in effects:
        if one.needed <= one.left:
            continue
        name = f"Budget {one.budget.name} of {one.budget.node.display_path}"
        is_binding = one.budget.policy == Policy.STOP_STARTS
        if is_binding and (attempt is not None or one.needed > one.budget.limit):
            refusal = refusal or (
                f"{name} has too little left for the longer time limit. Ask for less, or ask "
                "somebody who may change the budget for more."
            )
        elif is_binding:
            notes.append(f"{name} has too little left, so the job would wait for it.")
        else:
            notes.append(f"{name} has too little left and would be exceeded.")
    return ExtensionCosts(
        cost=_cost(job, attempt, limit_s - before_s, now),
        budgets=[one for one in effects if one.budget.pk in shown],
        notes=[note for note in notes if note],
        refusal=refusal,
    )


def _needed(
    one: CurrentBudget, job: Job, attempt: Attempt | None, limit_s: int, now: datetime
) -> int:
    """Return what a running job would use of the budget beyond its hold, or a waiting job in all.

    It is 0 for a budget that does not concern the job.
    """
    pools = _pools(job, attempt)
    if not one.concerns(job.user_id, pools):
        return 0
    if attempt is None:
        return most_used(one, shape_of(job)._replace(time_limit_s=limit_s), now)
    assert job.time_limit_s is not None
    before_s, after_s = (
        seconds_left(one.budget, one.window_end, ends_at(job, attempt, limit), now)
        for limit in (job.time_limit_s, limit_s)
    )
    return one.rates.on_hold(
        one.budget.measure,
        job.pool_id,
        guaranteed_mgpu=attempt.guaranteed_mgpu,
        borrowed_mgpu=attempt.mgpu - attempt.guaranteed_mgpu,
        multiplier_ppm=job.priority_class.price_multiplier_ppm,
        seconds=after_s - before_s,
    )


def _pools(job: Job, attempt: Attempt | None) -> list[UUID]:
    """Return the pools in which the job may run, or does."""
    return [job.pool_id] if attempt is not None else job.pools or [job.pool_id]


def _cost(job: Job, attempt: Attempt | None, seconds: int, now: datetime) -> PresentCost | None:
    """Return the most that `seconds` of the job cost. The class of a running job may change."""
    return highest_cost(
        organization_id=job.organization_id,
        pools=_pools(job, attempt),
        mgpu=job.mgpu if attempt is None else attempt.mgpu,
        multiplier_ppm=job.priority_class.price_multiplier_ppm,
        seconds=seconds,
        now=now,
    )


def _cap_note(job: Job, attempt: Attempt | None, limit_s: int, now: datetime) -> str:
    """Return the sentence for a cost cap that may be reached before the new end, or ""."""
    if job.cost_cap_nano is None:
        return ""
    end = ends_at(job, attempt, limit_s)
    left_s = limit_s if end is None else int((end - now).total_seconds())
    cost = _cost(job, attempt, left_s, now)
    left_nano = max(0, job.cost_cap_nano - cost_of_jobs([job.pk], now).get(job.pk, 0))
    if cost is None or cost.billed_nano <= left_nano:
        return ""
    reached_s = left_nano * left_s // cost.billed_nano
    when = "of its run" if attempt is None else "more"
    return (
        "At present prices the job may reach its cost cap after "
        f"{duration_text(reached_s)} {when}, before its new end. It is stopped at the cap."
    )
