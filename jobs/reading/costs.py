"""The cost of one job so far, in all and by attempt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from billing.attempt_costs import AttemptCost, costs_by_attempt
from billing.scopes import currencies_of
from billing.spending import cost_of_jobs
from jobs.reading.queries import JobRow
from tenants.access import Actor
from tenants.roles import Permission


class JobCost(NamedTuple):
    """A cost in nano-currency, as billed."""

    cost_nano: int
    currency: str


def cost_of_job(job: JobRow, *, actor: Actor, now: datetime) -> JobCost | None:
    """Return the cost of all attempts of a visible job up to `now`.

    The owner sees it, and whoever may view the costs of the team. None for others, and where the
    organization has no rate card.
    """
    currency = _currency_for(job, actor)
    if currency is None:
        return None
    return JobCost(cost_of_jobs([job.id], now).get(job.id, 0), currency)


class AttemptCosts(NamedTuple):
    """Use and cost of each attempt by its id. `currency` is None for those who may not see it."""

    currency: str | None
    by_attempt: Mapping[UUID, AttemptCost]


def costs_of_job_attempts(job: JobRow, *, actor: Actor, now: datetime) -> AttemptCosts:
    """Return the cost of each attempt of a visible job up to `now`, for those who see the job's."""
    currency = _currency_for(job, actor)
    return AttemptCosts(currency, {} if currency is None else costs_by_attempt(job.id, now))


def sees_cost(user_id: UUID, team_path: str, actor: Actor) -> bool:
    """Return whether the actor owns the job of a user in a team, or may view the team's costs."""
    return user_id == actor.user.pk or actor.holds(Permission.VIEW_COSTS, team_path)


def _currency_for(job: JobRow, actor: Actor) -> str | None:
    if not sees_cost(job.user_id, job.team__path, actor):
        return None
    return currencies_of([job.organization_id]).get(job.organization_id)
