"""Alerts of budgets: at 50, 80, 90 and 100 % of the limit, and when the forecast reaches it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from audit.recording import record
from budgets.models import AlertKind, Budget, BudgetAlert, BudgetState, WindowKind
from live.publishing import publish
from notices.giving import NewNotice, for_node, give_notices
from notices.models import NoticeEvent
from notices.recipients import active_people, nearest_people_of
from primitives.days import midnight
from tenants.roles import Permission

#: Percentages of use with holds at which a budget alerts.
ALERTS_AT = (50, 80, 90, 100)


def alert(
    budgets: Sequence[Budget], states: Sequence[BudgetState], zone: ZoneInfo, now: datetime
) -> None:
    """Store an alert for each percentage that a budget has newly reached, with an audit event.

    Once in each window and for each limit. A rolling window of N days begins anew every N days for
    this. `states` are those of `budgets`, in their order. Must run in a transaction.
    """
    due = [
        BudgetAlert(
            budget=budget,
            window_start=_window_start(budget, state, zone, now),
            kind=kind.value,
            percent=percent,
            at=now,
            amount=amount,
            limit=budget.limit,
        )
        for budget, state in zip(budgets, states, strict=True)
        for kind, percent, amount in _reached(budget, state)
    ]
    if not due:
        return
    known = set(
        BudgetAlert.objects.filter(
            budget__in={one.budget_id for one in due},
            window_start__gte=min(one.window_start for one in due),
        ).values_list("budget_id", "window_start", "kind", "percent", "limit")
    )
    new = [
        one
        for one in due
        if (one.budget_id, one.window_start, one.kind, one.percent, one.limit) not in known
    ]
    BudgetAlert.objects.bulk_create(new)
    give_notices(_notices(new))
    organizations: set[UUID] = set()
    for one in new:
        organizations.add(one.budget.organization_id)
        record(
            action="budget.alerted",
            subject_kind="budget",
            subject_id=one.budget_id,
            now=now,
            organization_id=one.budget.organization_id,
            node_path=one.budget.node.path,
            detail={
                "name": one.budget.name,
                "kind": one.kind,
                "percent": one.percent,
                "amount": one.amount,
                "limit": one.limit,
            },
        )
    for organization in organizations:
        publish("reports", organization_id=organization)


def _notices(alerts: Sequence[BudgetAlert]) -> Iterator[NewNotice]:
    """Yield the notices for people who manage the node's quotas, and for the budget's user.

    A deactivated user and a service account get none.
    """
    paths = {alert.budget.node.path for alert in alerts}
    people = nearest_people_of(Permission.MANAGE_QUOTA, paths)
    users = active_people({alert.budget.user_id for alert in alerts if alert.budget.user_id})
    for alert in alerts:
        budget = alert.budget
        recipients = {*people[budget.node.path], *users & {budget.user_id}}
        reached = (
            f"has reached {alert.percent} % of its limit"
            if alert.kind == AlertKind.USED
            else "is forecast to reach its limit"
        )
        notice = NewNotice(
            user_id=None,
            event=NoticeEvent.BUDGET_ALERT,
            key=f"budget:{budget.pk}:{alert.window_start.isoformat()}:{alert.kind}:"
            f"{alert.percent}:{alert.limit}",
            subject_kind="budget",
            subject_id=budget.pk,
            sentence=f"The budget {budget.name} of {budget.node.display_path} {reached}.",
            link=f"/budgets?scope={budget.node.display_path}",
            at=alert.at,
            # The channel of a team does not tell of a person's budget.
            node_path="" if budget.user_id else budget.node.path,
        )
        yield from for_node(notice, recipients)


def _reached(budget: Budget, state: BudgetState) -> Iterator[tuple[AlertKind, int, int]]:
    """Yield kind, percentage and amount of each alert that is due by the amounts alone."""
    taken = state.used + state.on_hold
    for percent in ALERTS_AT:
        if taken * 100 >= percent * budget.limit:
            yield AlertKind.USED, percent, taken
    if state.forecast is not None and state.forecast >= budget.limit:
        yield AlertKind.FORECAST, 100, state.forecast


def _window_start(budget: Budget, state: BudgetState, zone: ZoneInfo, now: datetime) -> datetime:
    if budget.window != WindowKind.ROLLING:
        return state.window_start
    assert budget.rolling_days is not None
    today = now.astimezone(zone).date().toordinal()
    return midnight(date.fromordinal(today - today % budget.rolling_days), zone)
