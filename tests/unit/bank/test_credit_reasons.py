"""Reasons that name credits: settled balances, a cycle, and what REST says of the jobs (R-117)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from bank.models import CreditBank
from bank.settling import settle_due
from billing.metering import register_attempts
from builders.api_callers import by_token
from builders.billing_builders import a_grant_of, a_metered_attempt, at
from builders.job_builders import an_attempt
from builders.loop_builders import Fenced, a_job
from builders.portal_builders import Company, a_company, a_grant, a_user
from jobs.arbitration.arbitration import Cycles
from jobs.models import Attempt, Job, JobState
from tenants.models import Node, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

DAY_S = 86_400
NOW: datetime = at(DAY_S + 60)


@pytest.fixture
def company() -> Company:
    """nlp borrowed 8 GPUs for a day. vision lent 8/3 GPUs, and inference the rest."""
    company = a_company()
    CreditBank.objects.create(organization=company.organization, is_on=True, switched_at=at(0))
    a_metered_attempt(company.nlp, 0, DAY_S, pool=company.pool, mgpu=16_000)
    assert settle_due(NOW) == 96
    return company


@pytest.fixture
def bob(company: Company) -> User:
    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    return user


def a_running_job(company: Company, team: Node, user: User, *nodes: int) -> Attempt:
    """A job of `team` that has run on whole nodes of 8 GPUs for an hour."""
    job = a_job(
        team,
        user,
        company.pool,
        gpus=8,
        nodes=len(nodes),
        state=JobState.RUNNING,
        now=at(DAY_S - 3_600),
        attempt_number=1,
        time_limit_s=DAY_S,
    )
    attempt = an_attempt(
        job,
        cluster=company.cluster,
        slots=[{"node": f"ai-company-{node:03d}", "mgpu": 8_000} for node in nodes],
        mgpu=len(nodes) * 8_000,
        granted_at=at(DAY_S - 3_600),
        started_at=at(DAY_S - 3_600),
        native_id=f"{team.slug}-{nodes[0]}",
    )
    grant = a_grant_of(
        team,
        user=user,
        attempt_id=attempt.pk,
        job_id=job.pk,
        pool=company.pool,
        mgpu=attempt.mgpu,
        granted=DAY_S - 3_600,
    )
    register_attempts([grant], now=NOW)
    return attempt


def explained(user: User, job: Job) -> dict[str, Any]:
    found: dict[str, Any] = by_token(user).get(f"jobs/{job.pk}/explanation").json()
    return found


def test_a_job_behind_a_team_that_lent_says_so_with_both_balances(
    company: Company, bob: User
) -> None:
    """nlp owes a day of its guarantee, and vision lent a third of a day. All GPUs are in use."""
    for team, *nodes in (
        (company.nlp, 0),
        (company.vision, 1),
        (company.inference, 2, 3),
    ):
        a_running_job(company, team, bob, *nodes)
    poor = a_job(company.nlp, bob, company.pool, gpus=8, now=at(DAY_S))
    a_job(company.vision, bob, company.pool, gpus=8, now=at(DAY_S + 30))
    Cycles(Fenced("arbiter")).run(NOW)  # type: ignore[arg-type]
    told = explained(bob, poor)
    assert (told["code"], told["node"]) == ("behind_credits", "ai-company/research/vision")
    assert (told["numbers"]["credits_tenths"], told["numbers"]["ahead_credits_tenths"]) == (-10, 3)
    assert told["sentence"] == (
        "It needs 8 GPUs; 0 are free. ai-company/research/vision comes first, because it has more"
        " credits: 0.3 days of its guarantee, against -1 day of your team. 1 job is ahead of it."
    )


def test_a_victim_of_credits_says_so_on_its_page_and_in_its_history(
    company: Company, bob: User
) -> None:
    """nlp and vision borrow a node of inference each, which wants one back."""
    borrowed = {}
    for team, own, other in ((company.nlp, 0, 2), (company.vision, 1, 3)):
        a_running_job(company, team, bob, own)
        borrowed[team.slug] = a_running_job(company, team, bob, other)
    a_job(company.inference, bob, company.pool, gpus=8, now=at(DAY_S))
    Cycles(Fenced("arbiter")).run(NOW)  # type: ignore[arg-type]
    victim = borrowed["nlp"].job
    why = (
        "It was chosen because its team has fewer credits than others: -1.1 days of its guarantee,"
        " against 0.2 days of ai-company/research/vision."
    )
    assert explained(bob, victim)["sentence"].endswith(why)
    history = by_token(bob).get(f"jobs/{victim.pk}/history").json()["items"]
    assert [item["detail"]["why"] for item in history if item["event"] == "preempting"] == [why]
