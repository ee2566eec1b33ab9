"""What plans say about budgets before a job is submitted, over REST."""

from __future__ import annotations

from typing import Any

import pytest

from builders.api_callers import by_token
from builders.budget_builders import GPU_HOUR, an_evaluated_budget
from builders.cast import Cast, a_cast
from builders.clocks import ClockAt
from builders.job_builders import a_body, a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company
from jobs.api import alternatives as alternative_views
from jobs.api import jobs as job_views
from jobs.arbitration.arbitration import Cycles
from jobs.models import Job
from quotas.models import UserCap
from tenants.models import User

pytestmark = pytest.mark.django_db

HOUR = 3_600


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for views in (job_views, alternative_views):
        monkeypatch.setattr(views, "SystemClock", lambda: ClockAt(NOW))


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def plan(user: User, **changes: Any) -> dict[str, Any]:
    answer = by_token(user).post("jobs?dry_run=true", a_body(**changes))
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def queued(company: Company, user: User, gpus: int, hours: int, **changes: Any) -> Job:
    return a_job(company, user, mgpu_per_node=gpus * 1_000, time_limit_s=hours * HOUR, **changes)


def test_a_plan_says_what_is_left_after_it(company: Company, cast: Cast) -> None:
    """100 GPU-hours, 8 held, 20 for the plan: 72 left, for those who may see the budget.

    Against: holds left out; budgets of other teams; all budgets shown to a member.
    """
    running = queued(company, cast.bob, 1, 8, state="running")
    an_attempt(running, cluster=company.cluster, granted_at=NOW, started_at=NOW)
    budget = an_evaluated_budget(company.nlp, 100)
    an_evaluated_budget(company.inference, 5, policy="notify")
    own = an_evaluated_budget(company.nlp, 30, name="own", user=cast.bob, policy="notify")
    asked = {"gpus": 4, "time_limit_s": 5 * HOUR}
    found = plan(cast.nlp_lead, **asked)
    assert found["would_start_now"]
    assert found["budgets"] == [
        {
            "id": str(budget.pk),
            "name": "budget of nlp",
            "node": "ai-company/research/nlp",
            "measure": "gpu_hours",
            "currency": None,
            "policy": "stop_starts",
            "limit": 100 * GPU_HOUR,
            "needed": 20 * GPU_HOUR,
            "left_after": 72 * GPU_HOUR,
            "room_at": "2026-12-01T00:00:00Z",
        }
    ]
    shown = {one["id"]: one["left_after"] for one in plan(cast.bob, **asked)["budgets"]}
    assert shown == {str(own.pk): 2 * GPU_HOUR}


def test_all_tasks_of_an_array_count(company: Company, cast: Cast) -> None:
    """Ten tasks of an hour. Planted: the first task alone."""
    an_evaluated_budget(company.nlp, 100)
    found = plan(cast.nlp_lead, gpus=1, time_limit_s=HOUR, array="0-9")
    assert [one["needed"] for one in found["budgets"]] == [10 * GPU_HOUR]


def test_a_plan_that_does_not_fit_would_wait_and_says_until_when(
    company: Company, cast: Cast
) -> None:
    """The plan and the job itself say the same. Against: the plan would start now."""
    an_evaluated_budget(company.nlp, 10)
    found = plan(cast.bob, gpus=4, time_limit_s=3 * HOUR)
    assert (found["would_start_now"], found["fits"]) == (False, True)
    explanation = found["explanation"]
    assert (explanation["code"], explanation["sentence"]) == (
        "budget_exhausted",
        "Budget budget of nlp of ai-company/research/nlp is smaller than what this job may use. "
        "Give the job a time limit, a shorter one, or fewer GPUs.",
    )
    job = queued(company, cast.bob, 4, 3)
    Cycles(Fenced("arbiter")).run(NOW)  # type: ignore[arg-type]
    job.refresh_from_db()
    assert job.explanation is not None
    assert explanation == {**job.explanation, "victims": []}


def test_a_plan_comes_after_the_jobs_that_are_offered_before_it(
    company: Company, cast: Cast
) -> None:
    """Room for 16: the first job of inference and the plan of nlp; after a job of nlp, none.

    Against: only the room of the last evaluation; the plan first of all.
    """
    an_evaluated_budget(company.organization, 16)
    for number in range(2):
        queued(company, cast.bob, 8, 1, name=f"inference-{number}", team=company.inference)
    asked = {"gpus": 8, "time_limit_s": HOUR}
    assert plan(cast.bob, **asked)["would_start_now"]
    queued(company, cast.bob, 1, 1, name="nlp")
    assert plan(cast.bob, **asked)["explanation"]["sentence"] == (
        "Budget budget of ai-company of ai-company has too little left beside the jobs before this "
        "one. It has room again at 2026-12-01 00:00 UTC at the latest."
    )


def test_a_plan_counts_what_the_scheduler_counts(company: Company, cast: Cast) -> None:
    """A job that the budget stops takes no room of the cap, and one beyond the cap none of the
    budget.

    Against: the cap counts the job that the budget stops.
    """
    UserCap.objects.create(team=company.nlp, cap_mgpu=8_000)
    an_evaluated_budget(company.nlp, 10)
    queued(company, cast.bob, 8, 4, name="over the budget")
    queued(company, cast.bob, 9, 1, name="over the cap")
    found = plan(cast.bob, gpus=4, time_limit_s=HOUR)
    assert found["would_start_now"], found["explanation"]["sentence"]
    asked = {"gpus": 8, "time_limit_s": 2 * HOUR}
    assert plan(cast.bob, **asked)["explanation"]["code"] == "budget_exhausted"


def test_alternatives_to_a_job_that_a_budget_stops(company: Company, cast: Cast) -> None:
    """10 left: 8 GPUs for an hour fit instead of 8 for 4 hours, and so do 2 for 4 hours.

    Against: "It no longer waits for GPUs".
    """
    an_evaluated_budget(company.nlp, 10)
    job = queued(company, cast.bob, 8, 4)
    Cycles(Fenced("arbiter")).run(NOW)  # type: ignore[arg-type]
    found = by_token(cast.bob).post(f"jobs/{job.pk}/alternatives", {}).json()
    starting = [one["label"] for one in found["items"] if one["plan"]["would_start_now"]]
    assert starting == ["With a time limit of 1 h", "With 2 GPUs"]
