"""What budgets count, to the unit: windows, measures, users, pools, moves, holds and late facts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from billing.periods import Period
from budgets import evaluation, tasks
from budgets.evaluation import evaluate, evaluate_after_change, organizations_with_budgets
from budgets.models import AMOUNT_MAX, LIMIT_MAX, Budget, BudgetAlert, BudgetDay, BudgetState
from budgets.stopping import enforced_budgets
from builders.billing_builders import a_metered_attempt, a_rate_card, at, record_ended
from builders.budget_builders import GPU_HOUR, a_budget, state_of
from builders.chargeback_builders import report_of
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import Company, a_company, a_pool, a_user, an_actor
from quotas.models import OrganizationPolicy, Quota
from tenants.models import Node
from tenants.moving import move_node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR, DAY = 3_600, 86_400
#: Noon of 20 November. `at` counts from 1 November.
NOON = at(19 * DAY + 12 * HOUR)


def use(team: Node, day: int, hours: int = 1, *, gpus: int = 8, **changes: object) -> None:
    """Use by `team` from the midnight that begins `day` of November."""
    start = (day - 1) * DAY
    a_metered_attempt(team, start, start + hours * HOUR, mgpu=gpus * 1_000, **changes)  # type: ignore[arg-type]


def test_many_teams_are_counted_in_several_statements(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three spans of one day, two at a time. Against: the rest of a day left out."""
    monkeypatch.setattr(evaluation, "SPANS_MAX", 2)
    for team in (company.nlp, company.vision, company.inference):
        use(team, 20)
    budget = a_budget(company.organization)
    evaluate(company.organization.pk, NOON)
    assert state_of(budget) == (24, 0)


def test_amounts_beyond_every_limit_are_stored_as_such(company: Company) -> None:
    """10,000 GPUs for a day at a million an hour, more than the database's integers hold.

    Against: amounts stored as they are.
    """
    a_rate_card(company.organization, {"guaranteed": 10**15})
    use(company.nlp, 19, 24, gpus=10_000)
    budget = a_budget(company.nlp, measure="money", limit=LIMIT_MAX)
    evaluate(company.organization.pk, NOON)
    state = BudgetState.objects.get(budget=budget)
    assert (state.used, state.forecast) == (AMOUNT_MAX, AMOUNT_MAX)
    assert BudgetAlert.objects.filter(budget=budget, kind="used").count() == 4


def test_a_budget_made_between_evaluations_counts_each_hold_once(company: Company) -> None:
    """Two jobs of 8 GPUs and an hour, granted at the evaluation and 5 s after it.

    Against: the later one on hold in the state, and counted again by its readers.
    """
    bob = a_user(company.organization, "bob")
    first = a_budget(company.nlp, name="first")
    for seconds in (0, 5):
        if seconds:
            evaluate(company.organization.pk, NOON)
        job = a_job(company, bob, state="running", mgpu_per_node=8_000, time_limit_s=3_600)
        granted = NOON + timedelta(seconds=seconds)
        an_attempt(job, cluster=company.cluster, granted_at=granted, started_at=granted)
    second = a_budget(company.nlp, name="second")
    evaluate_after_change(second, NOON + timedelta(seconds=10))
    assert [state_of(one) for one in (first, second)] == [(0, 8), (0, 8)]
    left = {one.budget.name: one.left for one in enforced_budgets(NOON + timedelta(seconds=10))}
    assert left == {"first": 84 * GPU_HOUR, "second": 84 * GPU_HOUR}


def test_each_window_counts_its_days(company: Company) -> None:
    """Month, quarter, year, and seven days. Planted: a quarter of the month; a day too many."""
    organization = company.organization
    kinds = {
        "month": {"window": "month"},
        "quarter": {"window": "quarter"},
        "year": {"window": "year"},
        "week": {"window": "rolling", "rolling_days": 7},
    }
    budgets = {name: a_budget(organization, name=name, **window) for name, window in kinds.items()}
    for day in (20, 14, 13, 1, 0, -31, -400):
        use(company.nlp, day)
    evaluate(organization.pk, NOON)
    assert {name: state_of(budget)[0] for name, budget in budgets.items()} == {
        "month": 32,
        "quarter": 40,
        "year": 48,
        "week": 16,
    }
    state = BudgetState.objects.get(budget=budgets["quarter"])
    assert (state.window_start, state.window_end) == (
        datetime(2026, 10, 1, tzinfo=UTC),
        datetime(2027, 1, 1, tzinfo=UTC),
    )
    assert state.room_at == state.window_end


def test_days_are_those_of_the_organizations_time_zone(company: Company) -> None:
    """In New York the first hour of 1 November UTC is still October."""
    OrganizationPolicy.objects.update(time_zone="America/New_York")
    budget = a_budget(company.organization)
    use(company.nlp, 1, 5)
    evaluate(company.organization.pk, NOON)
    assert state_of(budget)[0] == 8
    assert BudgetDay.objects.get(budget=budget, day="2026-10-31").used == 32 * GPU_HOUR


def test_a_budget_counts_its_subtree_pool_and_user(company: Company) -> None:
    """Planted: the user's use in other teams; a pool that is not its own."""
    bob, dana = a_user(company.organization), a_user(company.organization)
    other = a_pool("a100")
    use(company.nlp, 2, 1, user=bob)
    use(company.nlp, 2, 2, user=dana)
    use(company.vision, 2, 4, user=bob, pool=other)
    use(company.inference, 2, 8, user=bob)
    expected = {
        a_budget(company.organization): 120,
        a_budget(company.research): 56,
        a_budget(company.nlp): 24,
        a_budget(company.research, name="of bob", user=bob): 40,
        a_budget(company.nlp, name="of bob in nlp", user=bob): 8,
        a_budget(company.organization, name="of a100", pool=other): 32,
        a_budget(company.organization, name="of bob in a100", user=bob, pool=other): 32,
    }
    evaluate(company.organization.pk, NOON)
    assert {budget.name: state_of(budget)[0] for budget in expected} == {
        budget.name: used for budget, used in expected.items()
    }


def test_money_is_that_of_the_chargeback_report(company: Company) -> None:
    """Prices by class with a multiplier, over a price change at noon and midnights. Exact.

    Planted: each day rounded apart; borrowed use at the price of guaranteed use.
    """
    prices = {"guaranteed": 1_999_999_999, "borrowed": 777_777_777}
    a_rate_card(company.organization, prices, end=3 * DAY + 12 * HOUR)
    a_rate_card(
        company.organization,
        {"guaranteed": 123_456_789, "borrowed": 1},
        start=3 * DAY + 12 * HOUR,
    )
    a_metered_attempt(
        company.nlp,
        2 * DAY + 7,
        5 * DAY + 11,
        mgpu=333,
        guaranteed_mgpu=100,
        classes=[(3 * DAY + 1, 50)],
        multiplier_ppm=1_234_567,
    )
    budget = a_budget(company.research, measure="money", limit=10**15)
    evaluate(company.organization.pk, NOON)
    finance = an_actor(company.organization, Role.FINANCE)
    report = report_of(finance, Period(at(0), at(30 * DAY), NOON))
    assert report.totals.cost_nano > 0
    assert BudgetState.objects.get(budget=budget).used == report.totals.cost_nano


def test_credits_are_weighted_and_hours_are_of_gpus(company: Company) -> None:
    """A pool of weight 500 counts half in credits. Cores are no GPU-hours."""
    half, cores = a_pool("l4", weight=500), a_pool("cpu", device="cpu", weight=10)
    use(company.nlp, 2)
    use(company.nlp, 3, pool=half)
    use(company.nlp, 4, pool=cores)
    hours = a_budget(company.nlp, name="hours")
    credits = a_budget(company.nlp, name="credits", measure="credits")
    evaluate(company.organization.pk, NOON)
    assert state_of(hours)[0] == 16
    assert BudgetState.objects.get(budget=credits).used == (8_000 + 4_000 + 80) * GPU_HOUR


def test_running_jobs_hold_the_rest_of_their_limit_or_of_the_window(company: Company) -> None:
    """Two hours of a limit of five are over. The window ends ten and a half days from now.

    Planted: the whole limit; a hold beyond the window; an attempt that has ended.
    """
    bob = a_user(company.organization)
    of_limit = a_job(company, bob, state="running", time_limit_s=5 * HOUR, mgpu_per_node=8_000)
    an_attempt(
        of_limit, cluster=company.cluster, started_at=NOON - timedelta(hours=2), granted_at=NOON
    )
    beyond = a_job(company, bob, state="running", time_limit_s=30 * DAY, mgpu_per_node=1_000)
    an_attempt(beyond, cluster=company.cluster)
    unlimited = a_job(company, bob, state="running", mgpu_per_node=500)
    an_attempt(unlimited, cluster=company.cluster)
    done = a_job(company, bob, state="running", mgpu_per_node=8_000, time_limit_s=DAY)
    an_attempt(done, cluster=company.cluster, state="ended", ended_at=NOON, outcome="succeeded")
    month = a_budget(company.research)
    rolling = a_budget(company.nlp, window="rolling", rolling_days=2)
    evaluate(company.organization.pk, NOON)
    days = 10 * 24 + 12
    assert state_of(month) == (0, 24 + days + days // 2)
    assert state_of(rolling) == (0, 24 + 48 + 24)


def test_money_on_hold_is_by_class_at_present_prices(company: Company) -> None:
    """Six of eight GPUs are guaranteed. Planted: all at one price."""
    a_rate_card(company.organization)
    job = a_job(
        company,
        a_user(company.organization),
        state="running",
        time_limit_s=HOUR,
        mgpu_per_node=8_000,
    )
    an_attempt(job, cluster=company.cluster, guaranteed_mgpu=6_000, granted_at=NOON)
    budget = a_budget(company.nlp, measure="money", limit=10**12)
    evaluate(company.organization.pk, NOON)
    assert BudgetState.objects.get(budget=budget).on_hold == 6 * 2 * 10**9 + 2 * 10**9


def test_use_before_a_move_stays_with_the_former_department(company: Company) -> None:
    """As in the chargeback report. Planted: by the present path."""
    use(company.nlp, 2)
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    Quota.objects.all().delete()
    with transaction.atomic():
        move_node(actor=admin, node=company.nlp, parent=company.production, now=at(10 * DAY))
    use(Node.objects.get(pk=company.nlp.pk), 12, 2)
    research, production = a_budget(company.research), a_budget(company.production)
    nlp = a_budget(Node.objects.get(pk=company.nlp.pk))
    evaluate(company.organization.pk, NOON)
    assert [state_of(one)[0] for one in (research, production, nlp)] == [8, 16, 24]


def test_a_node_that_moved_away_and_back_counts_once(company: Company) -> None:
    """Its present path is among its former ones. Planted: a list of budgets for each path."""
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    Quota.objects.all().delete()
    for parent, day in ((company.production, 10), (company.research, 11)):
        node = Node.objects.get(pk=company.nlp.pk)
        with transaction.atomic():
            move_node(actor=admin, node=node, parent=parent, now=at(day * DAY))
    nlp = Node.objects.get(pk=company.nlp.pk)
    use(nlp, 14, 2)
    budget = a_budget(nlp)
    evaluate(company.organization.pk, NOON)
    assert state_of(budget)[0] == 16


def test_late_facts_of_older_days_count_from_the_next_day_on(company: Company) -> None:
    """Those of yesterday and today count at once. Planted: days that are never counted again."""
    budget = a_budget(company.nlp)
    old = a_metered_attempt(company.nlp, DAY, None)
    evaluate(company.organization.pk, NOON)
    assert state_of(budget)[0] == (18 * 24 + 12) * 8
    record_ended(old.pk, at(2 * DAY), NOON)
    evaluate(company.organization.pk, NOON + timedelta(seconds=30))
    assert state_of(budget)[0] == 17 * 24 * 8
    evaluate(company.organization.pk, NOON + timedelta(hours=12))
    assert state_of(budget)[0] == 24 * 8


def test_an_older_evaluation_changes_nothing(company: Company) -> None:
    budget = a_budget(company.nlp)
    use(company.nlp, 2)
    evaluate(company.organization.pk, NOON)
    evaluate(company.organization.pk, NOON - timedelta(days=40))
    assert state_of(budget)[0] == 8
    assert BudgetState.objects.get(budget=budget).as_of == NOON


def test_a_rolling_budget_has_room_when_enough_days_left_it(company: Company) -> None:
    """The uses of the 14th and 15th leave it at the midnights after the 20th and 21st.

    Planted: room at the end of today.
    """
    budget = a_budget(company.nlp, 20, window="rolling", rolling_days=7)
    for day in (14, 15, 19):
        use(company.nlp, day)
    evaluate(company.organization.pk, NOON)
    state = BudgetState.objects.get(budget=budget)
    assert (state.used // GPU_HOUR, state.room_at) == (24, at(20 * DAY))
    Budget.objects.filter(pk=budget.pk).update(limit=16 * GPU_HOUR)
    evaluate(company.organization.pk, NOON)
    assert BudgetState.objects.get(budget=budget).room_at == at(21 * DAY)


def test_each_percentage_alerts_once_a_window(company: Company) -> None:
    """Again with another limit, and in the next month. Planted: at each evaluation."""
    budget = a_budget(company.nlp, 10, policy="notify")
    use(company.nlp, 2)
    for seconds in (0, 30):
        evaluate(company.organization.pk, NOON + timedelta(seconds=seconds))

    def alerts() -> list[tuple[str, int, int]]:
        rows = BudgetAlert.objects.order_by("pk")
        return [(one.kind, one.percent, one.limit // GPU_HOUR) for one in rows]

    first = [("used", 50, 10), ("used", 80, 10)]
    assert alerts() == first
    Budget.objects.filter(pk=budget.pk).update(limit=16 * GPU_HOUR)
    evaluate(company.organization.pk, NOON + timedelta(seconds=60))
    assert alerts() == [*first, ("used", 50, 16)]
    december = at(30 * DAY)
    job = a_job(
        company,
        a_user(company.organization),
        state="running",
        time_limit_s=HOUR,
        mgpu_per_node=8_000,
    )
    an_attempt(job, cluster=company.cluster, granted_at=december)
    evaluate(company.organization.pk, december)
    assert alerts() == [*first, ("used", 50, 16), ("used", 50, 16)]


def test_organizations_take_turns() -> None:
    """The least recently evaluated one comes first, and those never evaluated before all."""
    first, second, third = (a_company(slug).organization for slug in ("a", "b", "c"))
    for organization in (first, second, third):
        a_budget(organization)
    evaluate(second.pk, NOON)
    evaluate(first.pk, NOON + timedelta(seconds=1))
    assert organizations_with_budgets() == [third.pk, second.pk, first.pk]


def test_each_organization_is_a_task_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails does not keep the next. Planted: all of them evaluated in the timer's task."""
    first, second = (a_company(slug).organization for slug in ("a", "b"))
    for organization in (first, second):
        a_budget(organization)
    evaluate(second.pk, NOON)
    asked: list[tuple[tuple[str], int]] = []
    monkeypatch.setattr(
        tasks.evaluate_budgets_of,
        "apply_async",
        lambda arguments, *, expires: asked.append((arguments, expires)),
    )
    tasks.evaluate_budgets()
    assert asked == [((str(first.pk),), 60), ((str(second.pk),), 60)]
    tasks.evaluate_budgets_of(str(first.pk))
    assert BudgetState.objects.filter(budget__organization=first).count() == 1


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"limit": 0}, "budget_limit_is_in_range"),
        ({"measure": "euros"}, "budget_measure_is_known"),
        ({"rolling_days": 7}, "budget_window_is_whole"),
        ({"window": "rolling"}, "budget_window_is_whole"),
        ({"policy": "kill"}, "budget_policy_is_possible"),
    ],
)
def test_the_database_refuses_impossible_budgets(
    company: Company, changes: dict[str, object], name: str
) -> None:
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        a_budget(company.nlp, **changes)  # type: ignore[arg-type]


def test_the_database_refuses_budgets_across_organizations(company: Company) -> None:
    """Its node and its user are of the organization, and a user's budget stops no borrowing."""
    rival = a_company("rival")
    bob = a_user(company.organization)
    for changes, name in (
        ({"organization_id": rival.organization.pk}, "is of its node"),
        ({"user": a_user(rival.organization)}, "is of its node"),
        ({"user": bob, "policy": "stop_borrowing"}, "budget_policy_is_possible"),
    ):
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            a_budget(company.nlp, **changes)  # type: ignore[arg-type]
