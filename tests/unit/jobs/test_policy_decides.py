"""Every knob of the policies: another value in the database is another decision.

`credit_floor_s` and the two orders of `spare_order` that go by credits need balances, which no
ledger posts yet.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from arbiter.api.plan import Plan
from arbiter.cycle.decide import decide
from billing.fair_use import carry_on
from builders.api_callers import by_token
from builders.arbiter_plans import started, victims
from builders.billing_builders import a_metered_attempt, at
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_grant,
    a_priority_class,
    a_user,
    an_actor,
)
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import read_queue
from jobs.models import Attempt, Job, Reclaim
from quotas.models import InstallationPolicy, OrganizationPolicy, PriorityClass
from tenants.models import Node, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db
GRACES = {"grace_period_s": 1_200}


def plan_at(moment: datetime) -> Plan:
    """What would be decided on what the database says."""
    reading = read_queue(moment)
    return decide(reading.snapshot, reading.policy)


def installation(**values: int) -> None:
    InstallationPolicy.objects.update_or_create(pk=1, defaults=values)


def organization(company: Company, **values: Any) -> None:
    OrganizationPolicy.objects.filter(organization=company.organization).update(**values)


def one_node() -> tuple[Company, User]:
    """8 GPUs: nlp and vision 2 each, inference 4."""
    company = a_company(nodes=1)
    return company, a_user(company.organization, "bob")


def queued(
    company: Company, user: User, team: Node, gpus: int, *, after_s: int = 0, **more: Any
) -> Job:
    submitted_at = NOW + timedelta(seconds=after_s)
    return a_job(
        company, user, team=team, mgpu_per_node=gpus * 1_000, submitted_at=submitted_at, **more
    )


def running(
    company: Company,
    user: User,
    team: Node,
    gpus: int,
    *,
    ago_s: int,
    node: str = "ai-company-000",
    number: int = 1,
    **more: Any,
) -> Job:
    """A job that began so many seconds ago."""
    job = queued(company, user, team, gpus, state="running", **more)
    began = NOW - timedelta(seconds=ago_s)
    an_attempt(
        job,
        cluster=company.cluster,
        number=number,
        nodes=(node,),
        granted_at=began,
        started_at=began,
    )
    return job


def graces(plan: Plan) -> list[int]:
    return [victim.grace_s for reclaim in plan.reclaims for victim in reclaim.victims]


# -- the installation ---------------------------------------------------------------------------


def test_how_many_start_in_one_cycle_is_changed_over_rest(cycles: Cycles) -> None:
    company, bob = one_node()
    root = a_user(None, "root")
    a_grant(root, Role.PLATFORM_ADMIN, None)
    changed = by_token(root).patch("policy", {"starts_max": 1}, If_Match='"v1"')
    assert changed.status_code == 200
    for _ in range(2):
        queued(company, bob, company.nlp, 1)
    assert cycles.run(NOW).started == 1
    assert cycles.run(NOW).started == 1


def test_how_many_get_gpus_back_in_one_cycle() -> None:
    company, bob = one_node()
    for ago_s in (5_000, 4_000, 3_000, 2_000):
        running(company, bob, company.inference, 2, ago_s=ago_s)
    for team in (company.nlp, company.vision):
        queued(company, bob, team, 2)
    assert len(plan_at(NOW).reclaims) == 2
    installation(reclaims_max=1)
    assert len(plan_at(NOW).reclaims) == 1


def test_the_notice_is_what_the_class_and_its_organization_say_up_to_the_installations() -> None:
    company, bob = one_node()
    PriorityClass.objects.update(**GRACES)
    running(company, bob, company.inference, 8, ago_s=5_000)
    queued(company, bob, company.nlp, 2)
    assert graces(plan_at(NOW)) == [300]
    organization(company, **GRACES)
    assert graces(plan_at(NOW)) == [1_200]
    installation(grace_period_s_max=60)
    assert graces(plan_at(NOW)) == [60]


def test_when_a_claim_on_what_does_not_come_back_is_given_up() -> None:
    company, bob = one_node()
    victim = running(company, bob, company.inference, 8, ago_s=5_000)
    lender = queued(company, bob, company.nlp, 2)
    reclaim = Reclaim.objects.create(
        job=lender,
        cluster=company.cluster,
        slots=[{"node": "ai-company-000", "mgpu": 2_000}],
        created_at=NOW - timedelta(seconds=300),
        grace_until=NOW,
    )
    Attempt.objects.filter(job=victim).update(
        state="stopping", stop_reason="preempted", reclaim=reclaim, grace_until=NOW
    )
    late = NOW + timedelta(seconds=500)
    company.cluster.seen_at = late
    company.cluster.save()
    assert plan_at(late).dropped_claims == ()
    installation(claim_overdue_s=499)
    assert plan_at(late).dropped_claims == (str(lender.id),)


@pytest.mark.parametrize("changes", [{"reservations_max": 0}, {"reservation_horizon_s": 3_599}])
def test_how_many_blocked_jobs_hold_a_reservation_and_how_far_ahead(
    changes: dict[str, int],
) -> None:
    company, bob = one_node()
    running(company, bob, company.vision, 4, ago_s=0, time_limit_s=3_600)
    large = queued(company, bob, company.nlp, 6)
    small = queued(company, bob, company.nlp, 4, after_s=1)
    plan = plan_at(NOW)
    assert (started(plan), [one.job for one in plan.reservations]) == ([], [str(large.id)])
    installation(**changes)
    plan = plan_at(NOW)
    assert (started(plan), plan.reservations) == ([str(small.id)], ())


@pytest.mark.parametrize("changes", [{"min_run_s": 1_000}, {"preemptions_max": 1}])
def test_who_is_spared_where_another_organization_takes_its_gpus_back(
    changes: dict[str, int],
) -> None:
    """The organization's own rules do not count there."""
    company, bob = one_node()
    rival = a_company("rival", nodes=1)
    dave = a_user(rival.organization, "dave")
    for ago_s in (9_000, 8_000):
        running(company, bob, company.inference, 4, ago_s=ago_s)
    old = running(company, bob, company.inference, 4, ago_s=5_000, node="rival-000")
    young = running(company, bob, company.inference, 4, ago_s=700, node="rival-000", number=2)
    was_preempted(young, old)
    queued(rival, dave, rival.nlp, 2)
    organization(company, **changes)
    assert victims(plan_at(NOW)) == [str(young.id)]
    installation(**changes)
    assert victims(plan_at(NOW)) == [str(old.id)]


def was_preempted(job: Job, beneficiary: Job) -> None:
    """The first attempt of a job in its second was stopped for somebody."""
    cluster = job.attempts.get().cluster
    reclaim = Reclaim.objects.create(
        job=beneficiary,
        cluster=cluster,
        slots=[],
        created_at=NOW,
        grace_until=NOW,
        closed_at=NOW,
    )
    over = {"started_at": NOW, "ended_at": NOW, "released_at": NOW, "outcome": "preempted"}
    an_attempt(job, cluster=cluster, state="ended", reclaim=reclaim, **over)
    Job.objects.filter(pk=job.pk).update(attempt_number=2)


# -- an organization ----------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"min_run_s": 1_000}, {"preemptions_max": 1}])
def test_who_is_spared_within_the_organization(changes: dict[str, int]) -> None:
    company, bob = one_node()
    running(company, bob, company.inference, 4, ago_s=9_000)
    old = running(company, bob, company.inference, 2, ago_s=5_000)
    young = running(company, bob, company.inference, 2, ago_s=700, number=2)
    was_preempted(young, old)
    queued(company, bob, company.nlp, 2)
    installation(**changes)
    assert victims(plan_at(NOW)) == [str(young.id)]
    organization(company, **changes)
    assert victims(plan_at(NOW)) == [str(old.id)]


def test_whether_a_job_starts_before_an_earlier_one_of_its_team_is_changed_over_rest() -> None:
    company, bob = one_node()
    running(company, bob, company.inference, 4, ago_s=0)
    first = queued(company, bob, company.nlp, 8)
    second = queued(company, bob, company.nlp, 1, after_s=1)
    other = queued(company, bob, company.vision, 1, after_s=2)
    assert set(started(plan_at(NOW))) == {str(second.id), str(other.id)}
    admin = by_token(an_actor(company.organization, Role.ORGANIZATION_ADMIN).user)
    path = f"organizations/{company.organization.pk}/policy"
    assert (
        admin.patch(path, {"skips_blocked_within_team": False}, If_Match='"v1"').status_code == 200
    )
    plan = plan_at(NOW)
    assert started(plan) == [str(other.id)]
    assert {one.job: one.code for one in plan.waiting}[str(second.id)] == "behind_higher_priority"
    assert str(first.id) in {one.job for one in plan.waiting}


def test_what_one_organization_says_of_its_queues_is_not_said_of_another() -> None:
    company, bob = one_node()
    rival = a_company("rival", nodes=1)
    dave = a_user(rival.organization, "dave")
    running(company, bob, company.inference, 4, ago_s=0)
    running(rival, dave, rival.inference, 4, ago_s=0, node="rival-000")
    organization(company, skips_blocked_within_team=False)
    small = queued(rival, dave, rival.nlp, 1, after_s=1)
    queued(rival, dave, rival.nlp, 8)
    queued(company, bob, company.nlp, 8)
    queued(company, bob, company.nlp, 1, after_s=1)
    assert started(plan_at(NOW)) == [str(small.id)]


def test_whose_spare_gpus_come_first() -> None:
    company, bob = one_node()
    serving = queued(company, bob, company.inference, 8)
    seeing = queued(company, bob, company.vision, 8)
    assert started(plan_at(NOW)) == [str(serving.id)]
    organization(company, rank=["ai-company/research"])
    assert started(plan_at(NOW)) == [str(seeing.id)]


@pytest.mark.parametrize(("half_life_s", "first"), [(7 * 86_400, "vision"), (3_600, "nlp")])
def test_after_how_long_use_counts_half(half_life_s: int, first: str) -> None:
    """nlp used more, but long ago; vision is the heavier one only where that is forgotten."""
    company, bob = one_node()
    a_metered_attempt(company.nlp, 0, 4 * 3_600, mgpu=8_000)
    a_metered_attempt(company.vision, 23 * 3_600, 24 * 3_600, mgpu=8_000)
    now = at(24 * 3_600)
    organization(company, fair_share_half_life_s=half_life_s)
    carry_on(now)
    for team in (company.nlp, company.vision):
        a_job(company, bob, team=team, mgpu_per_node=8_000, submitted_at=now)
    company.cluster.seen_at = now
    company.cluster.save()
    (start,) = plan_at(now).starts
    assert Job.objects.get(pk=start.job).team == getattr(company, first)


# -- a priority class ---------------------------------------------------------------------------


def test_a_class_stops_others_teams_jobs_up_to_its_cap_only_where_it_may() -> None:
    company, bob = one_node()
    running(company, bob, company.inference, 4, ago_s=5_000)
    running(company, bob, company.vision, 2, ago_s=5_000)
    running(company, bob, company.nlp, 2, ago_s=5_000)
    critical = a_priority_class(company.organization, "critical", order=1_000)
    queued(company, bob, company.nlp, 2, priority_class=critical)
    assert victims(plan_at(NOW)) == []
    may = {"preempts_across_teams": True, "team_cap_mgpu": 2_000}
    PriorityClass.objects.filter(pk=critical.pk).update(**may)
    assert len(victims(plan_at(NOW))) == 1
    PriorityClass.objects.filter(pk=critical.pk).update(team_cap_mgpu=1_999)
    assert victims(plan_at(NOW)) == []
