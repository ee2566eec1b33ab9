"""Budgets in the cycle: which jobs they stop, what the reasons say, and that replays stay exact."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from budgets.evaluation import evaluate
from budgets.models import Budget
from builders.billing_builders import a_rate_card, at
from builders.budget_builders import GPU_HOUR, a_budget
from builders.cast import Cast, a_cast
from builders.job_builders import a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company, a_pool, a_priority_class, a_quota, a_user
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.memory import Memory
from jobs.arbitration.snapshots import read_queue
from jobs.models import Attempt, Job, Reclaim
from jobs.queue.budget_stops import budget_stops
from tenants.models import Node, User

pytestmark = pytest.mark.django_db

HOUR = 3_600


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def queued(company: Company, user: User, gpus: int, hours: int | None, **changes: object) -> Job:
    limit_s = None if hours is None else hours * HOUR
    return a_job(
        company,
        user,
        mgpu_per_node=gpus * 1_000,
        time_limit_s=limit_s,
        **changes,  # type: ignore[arg-type]
    )


def evaluated(*budgets: Budget, now: datetime = NOW) -> None:
    for organization in {budget.organization_id for budget in budgets}:
        evaluate(organization, now)


def cycle(now: datetime = NOW) -> set[str]:
    """Run one cycle of a new leader; return the names of all jobs that have started so far."""
    Cycles(Fenced("arbiter")).run(now)  # type: ignore[arg-type]
    return set(Attempt.objects.values_list("job__name", flat=True))


def reason(job: Job) -> dict[str, object]:
    job.refresh_from_db()
    assert job.explanation is not None
    return job.explanation


def test_a_job_that_does_not_fit_into_what_is_left_waits_and_says_when(
    company: Company, cast: Cast
) -> None:
    """Of 100 GPU-hours, 8 GPUs for 12 hours use 96; 4 more do not fit, and 1 for 4 hours does.

    Everybody who sees the job reads the reason, so it has no amounts. Planted: a job compared with
    the whole limit; a start that takes nothing from the next; the limit among the numbers.
    """
    evaluated(a_budget(company.research, 100))
    first = queued(company, cast.bob, 8, 12, name="first")
    large = queued(company, cast.bob, 4, 2, name="large")
    small = queued(company, cast.bob, 1, 4, name="small")
    elsewhere = queued(company, cast.bob, 8, 99, name="elsewhere", team=company.inference)
    assert cycle() == {"first", "small", "elsewhere"}
    assert reason(large) == {
        "code": "budget_exhausted",
        "sentence": "Budget budget of research of ai-company/research has too little left beside "
        "the jobs before this one. It has room again at 2026-12-01 00:00 UTC at the latest.",
        "numbers": {"room_at": 1_796_083_200},
        "node": "ai-company/research",
        "jobs_ahead": 0,
        "estimated_start": None,
        "pool": None,
        "elsewhere": [],
        "as_of": "2026-11-21T12:00:00Z",
    }
    # The next cycle counts the holds of what was started, without an evaluation in between.
    cycle(NOW + timedelta(seconds=2))
    assert reason(large)["sentence"] == (
        "Budget budget of research of ai-company/research is used up, or held by running jobs "
        "until they end. It has room again at 2026-12-01 00:00 UTC at the latest."
    )
    assert {job.name for job in (first, small, elsewhere)} == cycle(NOW + timedelta(seconds=4))


def test_a_job_beyond_the_whole_budget_is_told_so(company: Company, cast: Cast) -> None:
    """A job without a limit holds the rest of the window: 9 days and a half.

    Against: "It has room again", where no room is ever enough.
    """
    evaluated(a_budget(company.nlp, 100))
    job = queued(company, cast.bob, 1, None)
    assert cycle() == set()
    assert reason(job)["sentence"] == (
        "Budget budget of nlp of ai-company/research/nlp is smaller than what this job may use. "
        "Give the job a time limit, a shorter one, or fewer GPUs."
    )


def test_the_first_jobs_of_all_teams_come_before_second_ones(company: Company, cast: Cast) -> None:
    """Room for two of three jobs: one of each team. Planted: in the order of submission alone."""
    evaluated(a_budget(company.organization, 16))
    for number in range(2):
        queued(company, cast.bob, 8, 1, name=f"nlp-{number}", team=company.nlp)
    queued(company, cast.bob, 8, 1, name="inference", team=company.inference)
    assert cycle() == {"nlp-0", "inference"}


def test_inside_a_team_higher_priority_comes_first(company: Company, cast: Cast) -> None:
    evaluated(a_budget(company.nlp, 8))
    high = a_priority_class(company.organization, "high", order=20)
    queued(company, cast.bob, 8, 1, name="normal")
    queued(company, cast.bob, 8, 1, name="high", priority_class=high)
    assert cycle() == {"high"}


def test_a_job_with_a_claim_comes_first(company: Company, cast: Cast) -> None:
    """GPUs were taken back for it already. Planted: claims are not looked at."""
    evaluated(a_budget(company.nlp, 8))
    queued(company, cast.bob, 8, 1, name="first")
    claimed = queued(company, cast.bob, 8, 1, name="claimed")
    Reclaim.objects.create(
        job=claimed,
        cluster=company.cluster,
        pool=company.pool,
        slots=[{"node": "ai-company-000", "mgpu": 8_000}],
        grace_until=NOW,
        created_at=NOW,
    )
    offered = {job.id for job in read_queue(NOW).snapshot.queued}
    assert offered == {str(claimed.pk)}


def test_a_job_that_can_never_fit_takes_no_room(company: Company, cast: Cast) -> None:
    evaluated(a_budget(company.nlp, 80))
    never = queued(company, cast.bob, 9, 8, name="never")
    assert cycle() == set()
    assert reason(never)["code"] == "never_fits"
    queued(company, cast.bob, 8, 10, name="fits")
    assert cycle(NOW + timedelta(seconds=2)) == {"fits"}


def test_a_budget_of_a_user_or_pool_stops_only_that(company: Company, cast: Cast) -> None:
    """A job that accepts two pools counts if one of them does. Planted: the first pool only."""
    other = a_pool("a100")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, other, 8)
    dana = a_user(company.organization, "dana")
    used_up = a_budget(company.research, 1, name="dana", user=dana)
    of_pool = a_budget(company.nlp, 1, name="a100", pool=other)
    evaluated(used_up, of_pool)
    queued(company, dana, 2, 1, name="of dana")
    queued(company, cast.bob, 2, 1, name="of bob")
    both = [company.pool.pk, other.pk]
    queued(company, cast.bob, 2, 1, name="in both", pools=both)
    assert cycle() == {"of bob"}


def test_money_is_reckoned_at_the_dearer_class(company: Company, cast: Cast) -> None:
    """8 GPUs for an hour cost 16 EUR guaranteed and 8 borrowed; with a multiplier of 1.5, 24.

    Planted: borrowed prices; no multiplier.
    """
    a_rate_card(company.organization, start=int((NOW - at(0)).total_seconds()))
    urgent = a_priority_class(company.organization, "urgent", price_multiplier_ppm=1_500_000)
    budget = a_budget(company.nlp, measure="money", limit=24 * 10**9 - 1)
    evaluated(budget)
    job = queued(company, cast.bob, 8, 1, priority_class=urgent)
    assert cycle() == set()
    assert "is smaller than what this job may use" in str(reason(job)["sentence"])
    Budget.objects.update(limit=24 * 10**9)
    evaluated(budget, now=NOW + timedelta(seconds=1))
    assert cycle(NOW + timedelta(seconds=2)) == {"train"}


def test_a_budget_that_only_notifies_stops_nothing(company: Company, cast: Cast) -> None:
    evaluated(a_budget(company.nlp, 1, policy="notify"))
    queued(company, cast.bob, 8, 99)
    assert cycle() == {"train"}


def test_a_used_up_budget_stops_borrowing_alone(company: Company, cast: Cast) -> None:
    """The team is guaranteed 8. The job of 8 starts, and the next of 2 would borrow.

    Planted: the guarantee stopped too; the arbiter's own code shown.
    """
    evaluated(a_budget(company.research, 1, policy="stop_borrowing"))
    running = queued(company, cast.bob, 8, 1, name="running", state="running")
    an_attempt(running, cluster=company.cluster)
    evaluate(company.organization.pk, NOW + timedelta(seconds=1))
    borrows = queued(company, cast.bob, 2, 1, name="borrows")
    queued(company, cast.bob, 8, 1, name="guaranteed", team=company.vision)
    queued(company, cast.bob, 8, 1, name="elsewhere", team=company.inference)
    assert cycle(NOW + timedelta(seconds=2)) == {"running", "guaranteed", "elsewhere"}
    found = reason(borrows)
    assert (found["code"], found["node"]) == ("budget_exhausted", "ai-company/research")
    assert found["sentence"] == (
        "Budget budget of research of ai-company/research is used up, so the team cannot borrow "
        "GPUs. The job starts within the team's guarantee, or when the budget has room again: at "
        "2026-12-01 00:00 UTC at the latest."
    )


def test_a_window_that_ended_makes_room_for_the_next_alone(company: Company, cast: Cast) -> None:
    """December has room for one job beside the rest of the running one, before any evaluation.

    Planted: no holds. Against: the old window goes on; no budget until the next evaluation.
    """
    december = datetime.fromisoformat("2026-12-01T00:00:00Z")
    hours = (december - NOW) // timedelta(hours=1)
    running = queued(company, cast.bob, 1, hours + 2, name="running", state="running")
    an_attempt(running, cluster=company.cluster, granted_at=NOW, started_at=NOW)
    evaluated(a_budget(company.nlp, 3))
    first = queued(company, cast.bob, 1, 1, name="first")
    queued(company, cast.bob, 1, 1, name="second")
    assert read_queue(december - timedelta(seconds=1)).snapshot.queued == ()
    queue = read_queue(december)
    assert [job.id for job in queue.snapshot.queued] == [str(first.pk)]
    assert [one.numbers["room_at"] for one in queue.withheld] == [1_798_761_600]


def test_memory_and_database_agree_on_what_budgets_stop(company: Company, cast: Cast) -> None:
    """Through a budget that runs out, gets room, and stops borrowing instead.

    Planted: quotas told to the core without the stop; a stop that is never taken back.
    """
    budget = a_budget(company.nlp, 8)
    memory = Memory()
    moment = NOW
    steps = [
        {"policy": "stop_starts", "limit": 8 * GPU_HOUR},
        {"policy": "stop_starts", "limit": GPU_HOUR},
        {"policy": "stop_borrowing", "limit": 1},
        {"policy": "stop_borrowing", "limit": 8 * GPU_HOUR},
    ]
    running = queued(company, cast.bob, 1, 2, state="running")
    an_attempt(running, cluster=company.cluster, granted_at=NOW)
    queued(company, cast.bob, 8, 1)
    for step in steps:
        moment += timedelta(seconds=2)
        Budget.objects.filter(pk=budget.pk).update(**step)
        evaluate(company.organization.pk, moment)
        remembered, whole = memory.read(moment), read_queue(moment)
        assert (remembered.snapshot, remembered.withheld) == (whole.snapshot, whole.withheld)
        memory.decide(moment)
    limits = {one.node: one.borrow_limit_mgpu for one in whole.snapshot.quotas}
    assert limits[str(company.nlp.pk)] is None


def test_an_attempt_committed_during_an_evaluation_counts(company: Company, cast: Cast) -> None:
    """It was granted before the evaluation, which did not see it. Planted: by time alone."""
    budget = a_budget(company.nlp, 8)
    evaluated(budget)
    job = queued(company, cast.bob, 8, 1, name="unseen", state="running")
    an_attempt(job, cluster=company.cluster, granted_at=NOW - timedelta(seconds=1))
    queued(company, cast.bob, 1, 1, name="next")
    assert read_queue(NOW).snapshot.queued == ()
    # Seen, it counts once.
    evaluated(budget, now=NOW + timedelta(seconds=1))
    Budget.objects.update(limit=10 * GPU_HOUR)
    assert len(read_queue(NOW + timedelta(seconds=2)).snapshot.queued) == 1


def test_without_budgets_a_cycle_asks_one_question(
    company: Company, django_assert_num_queries: object
) -> None:
    a_budget(company.nlp, policy="notify")
    evaluate(company.organization.pk, NOW)
    with django_assert_num_queries(1):  # type: ignore[operator]
        budget_stops(NOW)


def test_below_is_by_whole_names(company: Company, cast: Cast) -> None:
    """ "nlp-2" is not below "nlp". Planted: paths without their last slash."""
    other = Node.objects.create(
        kind="team",
        parent=company.research,
        organization=company.organization,
        slug="nlp-2",
        name="nlp-2",
        path="ai-company/research/nlp-2/",
        created_at=NOW,
    )
    evaluated(a_budget(company.nlp, 1))
    queued(company, cast.bob, 2, 1, team=other)
    assert cycle() == {"train"}


def test_a_used_up_budget_stops_no_job_that_uses_none_of_it(company: Company, cast: Cast) -> None:
    """Cores are no GPU-hours, and a pool without a price is free. Planted: uses of 0 as well."""
    cores = a_pool("cores", device="cpu")
    a_rate_card(company.organization, {})
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, cores, 8)
    running = queued(company, cast.bob, 1, 2, name="running", state="running")
    an_attempt(running, cluster=company.cluster)
    evaluated(
        a_budget(company.nlp, 1),
        a_budget(company.nlp, name="borrowing", policy="stop_borrowing", limit=GPU_HOUR),
        a_budget(company.nlp, name="money", measure="money", limit=1),
    )
    of_cores = queued(company, cast.bob, 1, 1, name="cores", pool=cores)
    queued(company, cast.bob, 1, 1, name="gpus")
    queue = read_queue(NOW)
    assert {job.id for job in queue.snapshot.queued} == {str(of_cores.pk)}
    stopped = {(one.node, one.pool): one.borrow_limit_mgpu for one in queue.snapshot.quotas}
    assert stopped[str(company.nlp.pk), str(company.pool.pk)] == 0
    assert stopped[str(company.nlp.pk), str(cores.pk)] is None


def test_an_elastic_job_may_start_with_its_most_nodes(company: Company, cast: Cast) -> None:
    """Up to 2 nodes of 8 GPUs for an hour: 16 GPU-hours. Planted: its fewest nodes."""
    budget = a_budget(company.nlp, 15)
    evaluated(budget)
    queued(company, cast.bob, 8, 1, node_count=2, node_count_min=1, name="elastic")
    assert read_queue(NOW).snapshot.queued == ()
    Budget.objects.update(limit=16 * GPU_HOUR)
    evaluated(budget, now=NOW + timedelta(seconds=1))
    assert len(read_queue(NOW + timedelta(seconds=1)).snapshot.queued) == 1
