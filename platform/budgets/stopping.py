"""Amounts that budgets have left at a moment, for the scheduler and for plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet

from bank.settling import zone_of
from budgets.amounts import Rates, read_rates
from budgets.evaluation import UNCERTAIN, counts, seconds_left
from budgets.models import Budget, BudgetEvaluation, BudgetState, Measure, Policy, WindowKind
from budgets.running import Running, running_attempts
from budgets.subtrees import paths_above
from budgets.windows import window_at
from tenants.models import Node


@dataclass(frozen=True, slots=True)
class CurrentBudget:
    """A budget at a moment. `left` is its limit less use and holds; 0 or less: used up."""

    budget: Budget
    left: int
    window_end: datetime
    room_at: datetime
    rates: Rates

    @property
    def currency(self) -> str | None:
        """The currency of a budget in money; None of another measure."""
        return self.rates.currency if self.budget.measure == Measure.MONEY else None

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


def enforced_budgets(now: datetime) -> tuple[CurrentBudget, ...]:
    """Return the budgets that stop starts or borrowing when used up, by name.

    A budget that was not evaluated yet stops nothing. One query, and four more for each
    organization that has such budgets, or six after the end of a window.
    """
    return _current(BudgetState.objects.exclude(budget__policy=Policy.NOTIFY), now)


def budgets_of(team: Node, user: UUID, now: datetime) -> tuple[CurrentBudget, ...]:
    """Return the budgets in which jobs of a user in a team may count, by name.

    All policies. At most eight queries.
    """
    states = BudgetState.objects.filter(
        Q(budget__user=None) | Q(budget__user=user),
        budget__organization=team.organization_id,
        budget__node__path__in=list(paths_above(team.path)),
    )
    return _current(states, now)


def _current(rows: QuerySet[BudgetState], now: datetime) -> tuple[CurrentBudget, ...]:
    """Return the budgets of `rows` by name.

    The amount left is that of the last evaluation, less the holds of attempts granted since. Where
    a calendar window ended since, it is that of the next window, less the holds of all attempts.
    """
    states = list(
        rows.select_related("budget__node")
        .defer("as_of", "budget__created_at")
        .defer("budget__node__created_at", "budget__node__archived_at", "budget__node__moved_at")
        .order_by("budget__name", "budget_id")
    )
    if not states:
        return ()
    of: dict[UUID, list[BudgetState]] = defaultdict(list)
    for state in states:
        of[state.budget.organization_id].append(state)
    evaluations = BudgetEvaluation.objects.in_bulk(of)
    return tuple(
        each
        for organization, theirs in of.items()
        for each in _of_organization(organization, theirs, evaluations[organization], now)
    )


def _of_organization(
    organization: UUID,
    states: Sequence[BudgetState],
    evaluation: BudgetEvaluation,
    now: datetime,
) -> list[CurrentBudget]:
    rates = read_rates(organization, now)
    ended = [one for one in states if _has_ended(one, now)]
    current = [one for one in states if not _has_ended(one, now)]
    known = set(evaluation.recent_attempts)
    since = [
        one
        for one in running_attempts(organization, evaluation.as_of - UNCERTAIN)
        if one.attempt not in known
    ]
    if ended:
        _begin_next_windows(ended, zone_of(organization), now)
    holds = _holds(current, since, rates)
    if ended:
        holds |= _holds(ended, running_attempts(organization), rates)
    taken = {one.budget_id: one.used + one.on_hold + holds[one.budget_id] for one in states}
    return [
        CurrentBudget(
            budget=state.budget,
            left=state.budget.limit - taken[state.budget_id],
            window_end=state.window_end,
            room_at=state.room_at,
            rates=rates,
        )
        for state in states
    ]


def _has_ended(state: BudgetState, now: datetime) -> bool:
    return state.budget.window != WindowKind.ROLLING and state.window_end <= now


def _begin_next_windows(states: Sequence[BudgetState], zone: ZoneInfo, now: datetime) -> None:
    """Set states, which are not saved, to the begin of the window that contains `now`."""
    for state in states:
        window = window_at(state.budget.window, None, zone, now)
        state.window_start, state.window_end = window.start, window.end
        state.used = state.on_hold = 0
        state.room_at = window.end


def _holds(
    states: Sequence[BudgetState], attempts: Sequence[Running], rates: Rates
) -> dict[UUID, int]:
    """Return by budget the most that these attempts use in its window; 0 without one."""
    found = {state.budget_id: 0 for state in states}
    teams = {one.team for one in attempts}
    paths = dict(Node.objects.filter(pk__in=teams).values_list("pk", "path"))
    by_path: dict[str, list[BudgetState]] = defaultdict(list)
    for state in states:
        by_path[state.budget.node.path].append(state)
    for one in attempts:
        for state in (each for path in paths_above(paths[one.team]) for each in by_path[path]):
            if counts(state.budget, one.pool, one.user):
                # From its grant or the window's start on, because its use is not counted yet.
                since = max(one.granted_at, state.window_start)
                found[state.budget_id] += rates.on_hold(
                    state.budget.measure,
                    one.pool,
                    guaranteed_mgpu=one.guaranteed_mgpu,
                    borrowed_mgpu=one.borrowed_mgpu,
                    multiplier_ppm=one.multiplier_ppm,
                    seconds=seconds_left(state.budget, state.window_end, one.ends_at, since),
                )
    return found
