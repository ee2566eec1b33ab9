"""Caps for the users of a team: which jobs they withhold, and what reasons and plans say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from builders.api_callers import by_token
from builders.budget_builders import an_evaluated_budget
from builders.cast import Cast, a_cast
from builders.clocks import ClockAt
from builders.job_builders import a_body, a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company, a_pool, a_priority_class, a_quota
from jobs.api import alternatives as alternative_views
from jobs.api import jobs as job_views
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.memory import Memory
from jobs.arbitration.snapshots import read_queue
from jobs.models import Attempt, Job
from jobs.queue.user_caps import Asking, CapPool, CapUse, beyond_user_caps
from primitives.units import DeviceKind
from quotas.models import UserCap
from quotas.user_caps import Cap, caps_of
from tenants.models import User

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for views in (job_views, alternative_views):
        monkeypatch.setattr(views, "SystemClock", lambda: ClockAt(NOW))


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def capped(company: Company, gpus: int | None, **changes: Any) -> UserCap:
    """A cap of nlp: for each user in all pools, unless changed."""
    cap_mgpu = None if gpus is None else gpus * 1_000
    return UserCap.objects.create(**{"team": company.nlp, "cap_mgpu": cap_mgpu, **changes})


def queued(company: Company, user: User, gpus: int, **changes: Any) -> Job:
    return a_job(company, user, mgpu_per_node=gpus * 1_000, **changes)


def cycle() -> set[str]:
    """Run one cycle of a new leader; return the names of all jobs that have started so far."""
    Cycles(Fenced("arbiter")).run(NOW)  # type: ignore[arg-type]
    return set(Attempt.objects.values_list("job__name", flat=True))


def reason(job: Job) -> dict[str, Any]:
    job.refresh_from_db()
    assert job.explanation is not None
    return job.explanation


def test_of_three_jobs_of_two_two_start_below_a_cap_of_four(company: Company, cast: Cast) -> None:
    """The example of R-110. Other users and teams are not bound.

    Against: one cap for all users together; the jobs offered before not counted.
    """
    capped(company, 4)
    jobs = [queued(company, cast.bob, 2, name=f"bob-{number}") for number in range(3)]
    queued(company, cast.nlp_lead, 4, name="lead")
    queued(company, cast.bob, 8, name="elsewhere", team=company.inference)
    assert cycle() == {"bob-0", "bob-1", "lead", "elsewhere"}
    assert reason(jobs[2]) == {
        "code": "user_cap_reached",
        "sentence": "Its user may use at most 4 GPUs of all pools at once in "
        "ai-company/research/nlp, and uses 0 now. Jobs of this user come first.",
        "numbers": {"need_mgpu": 2_000, "user_cap_mgpu": 4_000, "user_in_use_mgpu": 0},
        "node": "ai-company/research/nlp",
        "jobs_ahead": 0,
        "estimated_start": None,
        "pool": None,
        "elsewhere": [],
        "as_of": "2026-11-21T12:00:00Z",
    }
    cycle()
    assert reason(jobs[2])["sentence"] == (
        "Its user may use at most 4 GPUs of all pools at once in ai-company/research/nlp, and "
        "uses 4 now."
    )


def test_a_job_that_a_budget_stops_takes_no_room_of_the_cap(company: Company, cast: Cast) -> None:
    """And the other way round. Planted: caps before budgets; budgets before caps."""
    capped(company, 4)
    an_evaluated_budget(company.nlp, 20)
    queued(company, cast.bob, 4, name="over the budget", time_limit_s=36_000)
    queued(company, cast.bob, 5, name="over the cap", time_limit_s=3_600 * 4)
    queued(company, cast.bob, 1, name="small", time_limit_s=3_600)
    queued(company, cast.nlp_lead, 4, name="of the lead", time_limit_s=3_600 * 4)
    assert cycle() == {"small", "of the lead"}


def test_native_jobs_count(company: Company, cast: Cast) -> None:
    """Against: attempts of jobs from the portal alone."""
    capped(company, 4)
    native = queued(company, cast.bob, 3, state="running", origin="native", script="")
    an_attempt(native, cluster=company.cluster, granted_at=NOW, started_at=NOW)
    job = queued(company, cast.bob, 2)
    assert [one.job for one in beyond_user_caps(())] == [str(job.pk)]


def test_the_value_of_a_person_comes_before_the_default(company: Company, cast: Cast) -> None:
    """Bob has 2 of h100 and no cap in all. Against: the smaller of both rows counts."""
    capped(company, 1)
    capped(company, None, user=cast.bob)
    capped(company, 2, user=cast.bob, pool=company.pool)
    for user in (cast.bob, cast.nlp_lead):
        queued(company, user, 2, name=user.username)
    assert cycle() == {"bob"}


def test_cores_are_no_gpus(company: Company, cast: Cast) -> None:
    """A cap of all pools counts GPUs alone; one of the pool of cores binds there."""
    cores = a_pool("cores", device="cpu")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, cores, 8)
    capped(company, 1)
    job = queued(company, cast.bob, 4, pool=cores)
    assert beyond_user_caps(()) == ()
    capped(company, 3, pool=cores)
    (found,) = beyond_user_caps(())
    assert (found.job, found.numbers["user_cap_mgpu"]) == (str(job.pk), 3_000)


def test_higher_priority_comes_first(company: Company, cast: Cast) -> None:
    """Against: by submission alone."""
    capped(company, 2)
    high = a_priority_class(company.organization, "high", order=20)
    queued(company, cast.bob, 2, name="normal")
    queued(company, cast.bob, 2, name="high", priority_class=high)
    assert cycle() == {"high"}


def test_a_job_that_waits_for_another_reason_takes_no_room(company: Company, cast: Cast) -> None:
    """Neither of the cap nor of a budget. Against: jobs with a begin time counted."""
    capped(company, 2)
    an_evaluated_budget(company.nlp, 4)
    queued(company, cast.bob, 2, name="later", begin_at=NOW + timedelta(hours=1))
    first = queued(company, cast.bob, 2, name="first", time_limit_s=7_200)
    queued(company, cast.bob, 2, name="beyond", time_limit_s=7_200)
    assert [job.id for job in read_queue(NOW).snapshot.queued] == [str(first.pk)]


def test_memory_and_database_agree(company: Company, cast: Cast) -> None:
    """Through a cap that is set, raised and removed."""
    memory = Memory()
    queued(company, cast.bob, 2)
    cap = capped(company, 1)
    for step, gpus in enumerate((1, 2, None)):
        if gpus is None:
            cap.delete()
        else:
            UserCap.objects.filter(pk=cap.pk).update(cap_mgpu=gpus * 1_000)
        moment = NOW + timedelta(seconds=2 * step)
        remembered, whole = memory.read(moment), read_queue(moment)
        assert (remembered.snapshot, remembered.withheld) == (whole.snapshot, whole.withheld)
        assert len(whole.withheld) == (gpus == 1)


def test_a_job_larger_than_the_cap_is_refused(company: Company, cast: Cast) -> None:
    """An elastic job counts with its most nodes. Against: its fewest."""
    capped(company, 8)
    answer = by_token(cast.bob).post("jobs", a_body(gpus=12))
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "In ai-company/research/nlp you may use at most 8 GPUs of all pools at once, and the job "
        "asks for 12. Ask for at most that.",
    )
    elastic = a_body(gpus=..., gpus_per_node=8, nodes=2, nodes_min=1)
    assert by_token(cast.bob).post("jobs", elastic).json()["errors"][0]["code"] == (
        "user_cap_reached"
    )
    assert by_token(cast.bob).post("jobs", a_body(gpus=8, array="0-9")).status_code == 201


def test_a_job_queued_before_the_cap_is_told_that_it_is_larger(
    company: Company, cast: Cast
) -> None:
    """A cap that is lowered below a waiting job. Against: "and uses 0 now"."""
    job = queued(company, cast.bob, 8)
    capped(company, 4, pool=company.pool)
    assert cycle() == set()
    assert reason(job)["sentence"] == (
        "Its user may use at most 4 GPUs of h100 at once in ai-company/research/nlp, and the job "
        "asks for 8. A smaller job may fit, or a lead of the team raises the cap."
    )


def test_plans_and_alternatives_know_caps(company: Company, cast: Cast) -> None:
    """Against: it would start now; "It no longer waits for GPUs"."""
    capped(company, 4)
    running = queued(company, cast.bob, 1, state="running")
    an_attempt(running, cluster=company.cluster, granted_at=NOW, started_at=NOW)
    plan = by_token(cast.bob).post("jobs?dry_run=true", a_body(gpus=4)).json()
    assert (plan["would_start_now"], plan["explanation"]["code"]) == (False, "user_cap_reached")
    waiting = queued(company, cast.bob, 4)
    cycle()
    found = by_token(cast.bob).post(f"jobs/{waiting.pk}/alternatives", {}).json()
    starting = [one["label"] for one in found["items"] if one["plan"]["would_start_now"]]
    assert starting == ["With 3 GPUs", "With 2 GPUs", "With 1 GPU"]


def test_a_waiting_job_makes_room_for_its_alternatives(company: Company, cast: Cast) -> None:
    """It takes all of a cap and of a budget itself. Against: it does so beside its alternatives."""
    capped(company, 8)
    an_evaluated_budget(company.nlp, 8)
    why = {
        "code": "waiting_for_free_gpus",
        "sentence": "It waits.",
        "numbers": {"free_mgpu": 4_000},
        "node": None,
        "jobs_ahead": 0,
        "estimated_start": None,
        "as_of": "2026-11-21T12:00:00Z",
    }
    waiting = queued(company, cast.bob, 8, time_limit_s=3_600, explanation=why, explained_at=NOW)
    found = by_token(cast.bob).post(f"jobs/{waiting.pk}/alternatives", {}).json()
    outcomes = {one["label"]: one["plan"]["explanation"]["code"] for one in found["items"]}
    assert outcomes["With 4 GPUs"] == "would_start"


A, B, CORES = UUID(int=1), UUID(int=2), UUID(int=3)
POOLS = {
    A: CapPool("a", DeviceKind.GPU),
    B: CapPool("b", DeviceKind.GPU),
    CORES: CapPool("cores", DeviceKind.CPU),
}


def naive(
    caps: Sequence[Cap], in_use: Sequence[tuple[UUID, int]], asking: Sequence[Asking]
) -> list[str]:
    """The jobs that fit, each checked anew against every cap and every placement so far."""
    offered: list[Asking] = []
    for one in asking:
        fits = True
        for cap in caps:
            counted = {
                pool
                for pool, kind in POOLS.items()
                if (pool == cap.pool if cap.pool else kind.device is DeviceKind.GPU)
            }
            total = sum(mgpu for pool, mgpu in in_use if pool in counted)
            total += sum(other.mgpu for other in offered if counted & set(other.pools))
            if counted & set(one.pools) and total + one.mgpu > cap.mgpu:
                fits = False
        if fits:
            offered.append(one)
    return [one.job for one in offered]


def test_rooms_agree_with_a_naive_count() -> None:
    """Planted: a job of two pools counted twice in a cap of all. Against: ">=" for ">"."""
    draw = random.Random(110)
    for _ in range(2_000):
        scopes = draw.sample([None, A, B, CORES], draw.randint(1, 3))
        caps = tuple(Cap(pool, draw.randint(0, 8)) for pool in scopes)
        in_use = [(draw.choice([A, B, CORES]), draw.randint(0, 4)) for _ in range(2)]
        asking = [
            Asking(str(number), tuple(draw.sample([A, B, CORES], draw.randint(1, 2))), size)
            for number, size in enumerate(draw.choices([1, 2, 3, 4], k=5))
        ]
        room = CapUse(caps, "lab/nlp", POOLS)
        for pool, mgpu in in_use:
            room.in_use[pool] += mgpu
        assert [one.job for one in asking if room.take(one) is None] == naive(caps, in_use, asking)


def test_which_rows_bind_a_user() -> None:
    """Planted: a default read after the person's row replaces it."""
    bob, lead = UUID(int=7), UUID(int=8)
    rows = [(bob, None, None), (None, None, 4), (None, A, 3), (bob, A, 9), (lead, B, 1)]
    for order in (rows, rows[::-1]):
        assert set(caps_of(order, bob)) == {Cap(A, 9)}
        assert set(caps_of(order, lead)) == {Cap(None, 4), Cap(A, 3), Cap(B, 1)}
