"""The cost of parts of attempts, such as lost work, for those who see the cost of the job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from billing.attempt_costs import PartCost, costs_of_parts
from billing.models import PriceMode
from billing.scopes import currencies_of
from jobs.reading.costs import sees_cost
from tenants.access import Actor

#: The mode of a cost that is not billed partly by showback, and partly by a commitment.
MIXED = "mixed"


class Part(NamedTuple):
    """An attempt from one moment to another."""

    attempt: UUID
    since: datetime
    until: datetime


class Work(NamedTuple):
    """Parts of the attempts of one job. `team_path` ends with a slash."""

    user_id: UUID
    team_path: str
    organization_id: UUID
    parts: Sequence[Part]


class WorkCost(NamedTuple):
    """The billed cost in nano-currency, and the cost beside it that is not billed.

    `price_mode` says why it is not billed: showback, use that a commitment pays, or `MIXED` for
    both.
    """

    cost_nano: int
    unbilled_nano: int
    price_mode: str
    currency: str


def costs_of_work(work: Sequence[Work], actor: Actor) -> list[WorkCost | None]:
    """Return the cost of each work, in the order given. An attempt is in one work only.

    None where the actor may not see it, without a rate card, and for use without a price.
    """
    seen = [bool(one.parts) and sees_cost(one.user_id, one.team_path, actor) for one in work]
    wanted = [one for one, is_seen in zip(work, seen, strict=True) if is_seen]
    currencies = currencies_of({one.organization_id for one in wanted}) if wanted else {}
    parts = [part for one in wanted if one.organization_id in currencies for part in one.parts]
    costs = costs_of_parts({one.attempt: (one.since, one.until) for one in parts})
    return [
        sum_of([costs[part.attempt] for part in one.parts], currencies[one.organization_id])
        if is_seen
        and one.organization_id in currencies
        and all(part.attempt in costs for part in one.parts)
        else None
        for one, is_seen in zip(work, seen, strict=True)
    ]


def sum_of(costs: Sequence[PartCost], currency: str) -> WorkCost:
    """Return the cost of several parts, and why some of it is not billed."""
    billed_nano, unbilled_nano, showback_nano = (sum(nanos) for nanos in zip(*costs, strict=True))
    if unbilled_nano == 0:
        mode = PriceMode.PAY_PER_USE.value
    elif showback_nano == unbilled_nano:
        mode = PriceMode.SHOWBACK.value
    else:
        mode = PriceMode.COMMITMENT.value if showback_nano == 0 else MIXED
    return WorkCost(billed_nano, unbilled_nano, mode, currency)
