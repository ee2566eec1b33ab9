"""Budgets that stop starts or borrowing, for the scheduler."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from budgets.amounts import Rates, read_rates
from budgets.evaluation import UNCERTAIN, counts, seconds_left
from budgets.models import Budget, BudgetEvaluation, BudgetState, Policy, WindowKind
from budgets.running import running_attempts
from budgets.subtrees import paths_above
from tenants.models import Node


@dataclass(frozen=True, slots=True)
class EnforcedBudget:
    """A budget that may stop jobs. `left` is its limit less use and holds; 0 or less: used up."""

    budget: Budget
    left: int
    window_end: datetime
    room_at: datetime
    rates: Rates

    def concerns(self, user: UUID, pools: Sequence[UUID]) -> bool:
        """Return whether a job below the budget's node counts in one of the pools it accepts."""
        budget = self.budget
        return budget.user_id in (None, user) and (
            budget.pool_id is None or budget.pool_id in pools
        )

    def counts(self, pool: UUID) -> bool:
        """Return whether use of the pool by anybody below the budget's node counts."""
        return self.budget.pool_id in (None, pool) and self.rates.counts(self.budget.measure, pool)

    def most_used(
        self,
        pools: Sequence[UUID],
        *,
        mgpu: int,
        multiplier_ppm: int,
        time_limit_s: int | None,
        now: datetime,
    ) -> int:
        """Return the most that a job uses of the budget if it starts now in one of its pools.

        The budget must concern it.
        """
        ends_at = None if time_limit_s is None else now + timedelta(seconds=time_limit_s)
        seconds = seconds_left(self.budget, self.window_end, ends_at, now)
        return max(
            self.rates.most(
                self.budget.measure,
                pool,
                mgpu=mgpu,
                multiplier_ppm=multiplier_ppm,
                seconds=seconds,
            )
            for pool in pools
            if self.budget.pool_id in (None, pool)
        )


def enforced_budgets(now: datetime) -> tuple[EnforcedBudget, ...]:
    """Return the budgets that stop starts or borrowing when used up, by name.

    Their room is that of the last evaluation, less the holds of attempts granted since. A budget
    that was not evaluated yet, or whose calendar window ended since, stops nothing until then. One
    query, and three more for each organization that has such budgets.
    """
    states = list(
        BudgetState.objects.exclude(budget__policy=Policy.NOTIFY)
        .select_related("budget__node")
        .defer("as_of", "window_start", "budget__created_at")
        .defer("budget__node__created_at", "budget__node__archived_at", "budget__node__moved_at")
        .order_by("budget__name", "budget_id")
    )
    if not states:
        return ()
    of: dict[UUID, list[BudgetState]] = defaultdict(list)
    for state in states:
        if state.budget.window == WindowKind.ROLLING or now < state.window_end:
            of[state.budget.organization_id].append(state)
    evaluations = BudgetEvaluation.objects.in_bulk(of)
    return tuple(
        each
        for organization, theirs in of.items()
        for each in _enforced(organization, theirs, evaluations[organization], now)
    )


def _enforced(
    organization: UUID,
    states: Sequence[BudgetState],
    evaluation: BudgetEvaluation,
    now: datetime,
) -> list[EnforcedBudget]:
    rates = read_rates(organization, now)
    known = set(evaluation.recent_attempts)
    since = [
        one
        for one in running_attempts(organization, evaluation.as_of - UNCERTAIN)
        if one.attempt not in known
    ]
    paths = dict(Node.objects.filter(pk__in={one.team for one in since}).values_list("pk", "path"))
    taken = {state.budget_id: state.used + state.on_hold for state in states}
    by_path: dict[str, list[BudgetState]] = defaultdict(list)
    for state in states:
        by_path[state.budget.node.path].append(state)
    for one in since:
        for state in (each for path in paths_above(paths[one.team]) for each in by_path[path]):
            if counts(state.budget, one.pool, one.user):
                taken[state.budget_id] += rates.on_hold(
                    state.budget.measure,
                    one.pool,
                    guaranteed_mgpu=one.guaranteed_mgpu,
                    borrowed_mgpu=one.borrowed_mgpu,
                    multiplier_ppm=one.multiplier_ppm,
                    # From its grant on, because its use is not counted yet.
                    seconds=seconds_left(
                        state.budget, state.window_end, one.ends_at, one.granted_at
                    ),
                )
    return [
        EnforcedBudget(
            budget=state.budget,
            left=state.budget.limit - taken[state.budget_id],
            window_end=state.window_end,
            room_at=state.room_at,
            rates=rates,
        )
        for state in states
    ]
