"""The cost of one job so far."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

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
    is_own = job.user_id == actor.user.pk
    if not is_own and not actor.holds(Permission.VIEW_COSTS, job.team__path):
        return None
    currency = currencies_of([job.organization_id]).get(job.organization_id)
    if currency is None:
        return None
    return JobCost(cost_of_jobs([job.id], now).get(job.id, 0), currency)
