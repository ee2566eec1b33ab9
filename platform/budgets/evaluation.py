"""The evaluation of budgets: use, holds, forecast and alerts, stored for pages and the scheduler.

Complete days are stored and counted once. Today and yesterday are counted anew each time, and once
a day the whole window, because late events may change older use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache, cached_property
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.models import QuerySet

from bank.settling import zone_of
from billing.spending import SPANS_MAX, Span, spent_in
from budgets.alerts import alert
from budgets.amounts import Rates, read_rates
from budgets.models import (
    AMOUNT_MAX,
    Budget,
    BudgetDay,
    BudgetEvaluation,
    BudgetState,
    WindowKind,
)
from budgets.running import Running, running_attempts
from budgets.subtrees import paths_above
from budgets.windows import Window, days_from, window_at
from clusters.models import Pool
from primitives.days import left_of_day_permille, midnight
from primitives.forecast import HISTORY_DAYS, Forecast, forecast_of
from tenants.models import FormerPlace, Node, NodeKind
from tenants.places import Place, places_of

#: An attempt that was granted in this time before an evaluation may not be committed yet.
UNCERTAIN = timedelta(seconds=60)


def organizations_with_budgets() -> list[UUID]:
    """Return the organizations that have budgets, least recently evaluated first."""
    found = Budget.objects.values_list("organization_id", flat=True).distinct()
    last = dict(BudgetEvaluation.objects.values_list("organization_id", "as_of"))
    never = [pk for pk in found if pk not in last]
    return never + sorted((pk for pk in found if pk in last), key=lambda pk: last[pk])


def lock_budgets(organization: UUID) -> None:
    """Keep evaluations and changes of the organization's budgets out until the transaction ends.

    Take it before any row of a budget, as evaluations do, so that no two wait for each other.
    """
    # A lock on the organization's row would wait for transactions that read it for share.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"budgets {organization}"]
        )


def evaluate_after_change(budget: Budget, now: datetime) -> None:
    """Evaluate a new or changed budget as of the last evaluation of all; where there was none, all.

    The caller holds the lock of the organization's budgets.
    """
    organization = budget.organization_id
    last = BudgetEvaluation.objects.filter(pk=organization).first()
    if last is None:
        evaluate(organization, now)
        return
    # Readers add the other attempts of this time to what an evaluation counted.
    recent = set(last.recent_attempts)
    running = [
        one
        for one in running_attempts(organization)
        if one.granted_at <= last.as_of - UNCERTAIN or one.attempt in recent
    ]
    _evaluate(_Moment(organization, [budget], last.as_of), running, is_whole=False)


@transaction.atomic
def evaluate(organization: UUID, now: datetime) -> None:
    """Evaluate all budgets of the organization as of `now`.

    Evaluations of one organization happen one after the other. An evaluation older than the stored
    one changes nothing. About twelve queries, whatever the number of budgets.
    """
    lock_budgets(organization)
    last = BudgetEvaluation.objects.filter(pk=organization).first()
    if last is not None and last.as_of > now:
        return
    budgets = list(
        Budget.objects.filter(organization=organization)
        .select_related("node")
        .defer("created_at", "node__created_at", "node__archived_at", "node__moved_at")
    )
    if not budgets:
        return
    moment = _Moment(organization, budgets, now)
    running = running_attempts(organization)
    _evaluate(moment, running, is_whole=last is None or last.whole_day != moment.today)
    BudgetEvaluation.objects.update_or_create(
        organization_id=organization,
        defaults={
            "as_of": now,
            "whole_day": moment.today,
            "recent_attempts": [one.attempt for one in running if one.granted_at > now - UNCERTAIN],
        },
    )


def _evaluate(moment: _Moment, running: Sequence[Running], *, is_whole: bool) -> None:
    """Store the days and states of the moment's budgets, and alert.

    With `is_whole`, all days are counted anew.
    """
    days = _stored_days(moment.budgets)
    needed = {
        budget.pk: _days_to_count(budget, moment, days[budget.pk], is_whole=is_whole)
        for budget in moment.budgets
    }
    _store_days(_count(moment, needed), days)
    holds = moment.holds(running)
    states = [
        _state_of(budget, moment, days[budget.pk], holds.get(budget.pk, 0))
        for budget in moment.budgets
    ]
    BudgetState.objects.bulk_create(
        states,
        update_conflicts=True,
        unique_fields=["budget"],
        update_fields=[
            field.name for field in BudgetState._meta.concrete_fields if not field.primary_key
        ],
    )
    alert(moment.budgets, states, moment.zone, moment.now)


@dataclass(frozen=True)
class _Moment:
    """The input of an evaluation of an organization's budgets at `now`."""

    organization: UUID
    budgets: Sequence[Budget]
    now: datetime

    @cached_property
    def zone(self) -> ZoneInfo:
        return zone_of(self.organization)

    @cached_property
    def today(self) -> date:
        """The day of the organization's time zone."""
        return self.now.astimezone(self.zone).date()

    @cached_property
    def rates(self) -> Rates:
        return read_rates(self.organization, self.now)

    @cached_property
    def windows(self) -> Mapping[UUID, Window]:
        kinds = {(budget.window, budget.rolling_days) for budget in self.budgets}
        found = {kind: window_at(*kind, self.zone, self.now) for kind in kinds}
        return {budget.pk: found[budget.window, budget.rolling_days] for budget in self.budgets}

    @cached_property
    def left_of_today_permille(self) -> int:
        """The part of today that is still to come."""
        return left_of_day_permille(self.now, self.zone)

    @cached_property
    def days_since(self) -> Callable[[date], Sequence[date]]:
        """The function from a day to the days from it until today, each list made once."""
        return cache(lambda first: days_from(first, self.today))

    @cached_property
    def places(self) -> Sequence[Place]:
        """Past and present places of the organization's teams."""
        teams = Node.objects.filter(organization=self.organization, kind=NodeKind.TEAM)
        return [
            place
            for place in places_of(list(teams.values_list("pk", flat=True)))
            if place.end is None or place.end > self.now - timedelta(days=500)
        ]

    @cached_property
    def by_path(self) -> Mapping[str, Collection[Budget]]:
        """The budgets by each path that their nodes have or had.

        The present path of a node that moved away and back is among its former ones.
        """
        found: dict[str, set[Budget]] = defaultdict(set)
        by_node: dict[UUID, list[Budget]] = defaultdict(list)
        for budget in self.budgets:
            found[budget.node.path].add(budget)
            by_node[budget.node_id].append(budget)
        former = FormerPlace.objects.filter(node__in=by_node).distinct()
        for node, path in former.values_list("node_id", "path"):
            found[path].update(by_node[node])
        return found

    def above(self, path: str) -> Iterable[Budget]:
        """Yield the budgets of all nodes at or above the path of a team."""
        for each in paths_above(path):
            yield from self.by_path.get(each, ())

    def holds(self, running: Iterable[Running]) -> Mapping[UUID, int]:
        """Return by budget the most that running attempts may still use in its window."""
        found: dict[UUID, int] = defaultdict(int)
        paths = {place.node.pk: place.node.path for place in self.places if place.end is None}
        for one in running:
            for budget in self.above(paths.get(one.team, "")):
                if counts(budget, one.pool, one.user):
                    seconds = seconds_left(
                        budget, self.windows[budget.pk].end, one.ends_at, self.now
                    )
                    found[budget.pk] += self.rates.on_hold(
                        budget.measure,
                        one.pool,
                        guaranteed_mgpu=one.guaranteed_mgpu,
                        borrowed_mgpu=one.borrowed_mgpu,
                        multiplier_ppm=one.multiplier_ppm,
                        seconds=seconds,
                    )
        return found


def days_of_window(budget: Budget) -> QuerySet[BudgetDay]:
    """Return the counted days of the budget's window at its last evaluation, oldest first."""
    zone = zone_of(budget.organization_id)
    first, last = (
        moment.astimezone(zone).date() for moment in (budget.state.window_start, budget.state.as_of)
    )
    return BudgetDay.objects.filter(budget=budget, day__range=(first, last)).order_by("day")


def seconds_left(
    budget: Budget, window_end: datetime, ends_at: datetime | None, now: datetime
) -> int:
    """Return for how long a job that ends at `ends_at` (None: never) may use the budget.

    That is until its window ends. A rolling window is all its days long.
    """
    if budget.window == WindowKind.ROLLING:
        assert budget.rolling_days is not None
        window_end = now + timedelta(days=budget.rolling_days)
    end = window_end if ends_at is None else min(window_end, ends_at)
    return max(0, int((end - now).total_seconds()))


def counts(budget: Budget, pool: UUID, user: UUID | None) -> bool:
    """Return whether use of a pool by a user below the budget's node counts."""
    return (budget.pool_id is None or budget.pool_id == pool) and (
        budget.user_id is None or budget.user_id == user
    )


def _stored_days(budgets: Sequence[Budget]) -> dict[UUID, dict[date, int]]:
    """Return the stored use of each budget by day. One row a budget, because days are many."""
    found: dict[UUID, dict[date, int]] = {budget.pk: {} for budget in budgets}
    with connection.cursor() as cursor:
        cursor.execute(_DAYS, [list(found)])
        for budget, days, used in cursor.fetchall():
            found[budget] = {
                date.fromordinal(day): amount for day, amount in zip(days, used, strict=True)
            }
    return found


# Ordinals of days, as Python counts them.
_DAYS = """
SELECT budget_id, array_agg(day - '0001-01-01'::date + 1), array_agg(used)
FROM budgets_budgetday WHERE budget_id = ANY(%s) GROUP BY budget_id
"""


def _days_to_count(
    budget: Budget, moment: _Moment, stored: Mapping[date, int], *, is_whole: bool
) -> set[date]:
    """Return the days of the window and of the forecast's history that must be counted."""
    first = moment.windows[budget.pk].first
    if budget.window != WindowKind.ROLLING:
        first = min(first, moment.today - timedelta(days=HISTORY_DAYS))
    wanted = moment.days_since(first)
    if is_whole:
        return set(wanted)
    return {*wanted[-2:], *(day for day in wanted if day not in stored)}


def _count(moment: _Moment, needed: Mapping[UUID, set[date]]) -> dict[tuple[UUID, date], int]:
    """Return the use of each budget on each day that it needs, in its measure."""
    found = {(budget, day): 0 for budget, days in needed.items() for day in days}
    pools = list(Pool.objects.values_list("pk", flat=True))
    users = {budget.user_id for budget in moment.budgets if budget.user_id is not None}
    of_nodes = {budget.pk for budget in moment.budgets if budget.user_id is None}
    for spans, where in _parts(moment, sorted({day for _, day in found}), needed):
        for wants, rows in (
            (of_nodes, spent_in(spans, pools) if of_nodes else ()),
            (needed.keys() - of_nodes, spent_in(spans, pools, users) if users else ()),
        ):
            for row in rows:
                path, day = where[row.span]
                for budget in moment.above(path):
                    key = budget.pk, day
                    if budget.pk in wants and key in found and counts(budget, row.pool, row.user):
                        found[key] += moment.rates.spent(
                            budget.measure, row.pool, row.mgpu_s, row.cost_nano
                        )
    return found


def _parts(
    moment: _Moment, days: Sequence[date], needed: Mapping[UUID, set[date]]
) -> Iterable[tuple[list[Span], list[tuple[str, date]]]]:
    """Yield the spans of all teams on these days, with path and day, for one statement each."""
    size = max(1, min(31, SPANS_MAX // max(1, len(moment.places))))
    for first in range(0, len(days), size):
        spans, where = _spans(moment, days[first : first + size], needed)
        for start in range(0, len(spans), SPANS_MAX):
            yield spans[start : start + SPANS_MAX], where[start : start + SPANS_MAX]


def _spans(
    moment: _Moment, days: Sequence[date], needed: Mapping[UUID, set[date]]
) -> tuple[list[Span], list[tuple[str, date]]]:
    """Return the spans of all teams on these days that a budget needs, with path and day."""
    spans: list[Span] = []
    where: list[tuple[str, date]] = []
    bounds = {
        day: (
            midnight(day, moment.zone),
            min(moment.now, midnight(day + timedelta(days=1), moment.zone)),
        )
        for day in days
    }
    for place in moment.places:
        wanted: set[date] = set()
        for budget in moment.above(place.node.path):
            wanted |= needed[budget.pk]
        for day in days:
            if day not in wanted:
                continue
            start, end = bounds[day]
            start = start if place.start is None else max(start, place.start)
            end = end if place.end is None else min(end, place.end)
            if start < end:
                spans.append(Span(place.node.pk, start, end))
                where.append((place.node.path, day))
    return spans, where


def _store_days(
    counted: Mapping[tuple[UUID, date], int], stored: Mapping[UUID, dict[date, int]]
) -> None:
    """Write the days whose use changed, into `stored` too."""
    changed = [
        BudgetDay(budget_id=budget, day=day, used=min(used, AMOUNT_MAX))
        for (budget, day), used in counted.items()
        if stored[budget].get(day) != min(used, AMOUNT_MAX)
    ]
    for one in changed:
        stored[one.budget_id][one.day] = one.used
    BudgetDay.objects.bulk_create(
        changed,
        batch_size=5_000,
        update_conflicts=True,
        unique_fields=["budget", "day"],
        update_fields=["used"],
    )


def _state_of(
    budget: Budget, moment: _Moment, days: Mapping[date, int], on_hold: int
) -> BudgetState:
    window = moment.windows[budget.pk]
    used = sum(days.get(day, 0) for day in window.days if day <= moment.today)
    forecast = _forecast(budget, moment, days, used, moment.today)
    return BudgetState(
        budget=budget,
        as_of=moment.now,
        window_start=window.start,
        window_end=window.end,
        used=min(used, AMOUNT_MAX),
        on_hold=min(on_hold, AMOUNT_MAX),
        room_at=_room_at(budget, window, days, used + on_hold),
        forecast_low=None if forecast is None else min(forecast.low, AMOUNT_MAX),
        forecast=None if forecast is None else min(forecast.middle, AMOUNT_MAX),
        forecast_high=None if forecast is None else min(forecast.high, AMOUNT_MAX),
    )


def _forecast(
    budget: Budget, moment: _Moment, days: Mapping[date, int], used: int, today: date
) -> Forecast | None:
    if budget.window == WindowKind.ROLLING:
        return None
    # Days before the first use say nothing about the rate.
    first = min((day for day, amount in days.items() if amount), default=today)
    return forecast_of(
        used,
        {day: amount for day, amount in days.items() if first <= day < today},
        today=today,
        left_of_today_permille=moment.left_of_today_permille,
        last=moment.windows[budget.pk].last,
    )


def _room_at(budget: Budget, window: Window, days: Mapping[date, int], taken: int) -> datetime:
    """Return when a used-up budget has room again, if nothing more is used.

    A calendar window: at its end. A rolling one: at the first midnight after which the days that
    left it leave less than the limit.
    """
    if budget.window != WindowKind.ROLLING:
        return window.end
    moved = 0
    for day in window.days:
        moved += 1
        taken -= days.get(day, 0)
        if taken < budget.limit:
            break
    return midnight(window.last + timedelta(days=moved), window.zone)
