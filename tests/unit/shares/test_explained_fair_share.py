"""The fair-share of a node as a page shows it, and as the scheduler counts it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arbiter.api.plan import Code
from arbiter.cycle.decide import decide
from arbiter.fairshare.decay import decay_of
from billing.models import DecayedUntil, DecayedUse
from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_grant,
    a_user,
    an_actor,
    an_organization,
)
from clusters.models import Cluster, ClusterNode
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import load_snapshot
from primitives.clock import SystemClock
from primitives.errors import NotFound
from quotas.installation import arbiter_policy
from quotas.models import OrganizationPolicy, Quota
from shares.explained_fair_share import (
    ExplainedFairShare,
    OutlookPoint,
    explained_fair_share,
    outlook,
)
from shares.fair_shares import FairShareReading
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NLP = "ai-company/research/nlp"
HOUR_S = 3_600
WEEK_S = 604_800


@pytest.fixture
def company() -> Company:
    return a_company()


def used(company: Company, **gpu_hours: int) -> None:
    """Decayed use as of now, in GPU-hours by the slug of the team."""
    user = a_user(company.organization)
    for slug, hours in gpu_hours.items():
        DecayedUse.objects.create(
            team=Node.objects.get(slug=slug),
            user=user,
            pool=company.pool,
            mgpu_s=hours * HOUR_S * 1_000,
        )
    DecayedUntil.objects.create(pk=1, at=NOW)


def page_of(company: Company, path: str = NLP) -> ExplainedFairShare:
    reader = an_actor(company.nlp, Role.RESEARCHER)
    return explained_fair_share(path, company.pool, actor=reader, now=NOW)


def test_the_place_and_the_reason_in_one_sentence(company: Company) -> None:
    """Planted: siblings with the same place count as ahead."""
    used(company, nlp=300, vision=100, inference=100)
    page = page_of(company)
    assert page.row.sentence == (
        "nlp comes after vision: it has 50 % of the weight and 75 % of the recent use in research."
    )
    assert (page.row.share.level_permille, page.row.share.place) == (666, 2)
    assert [(row.node.slug, row.sentence) for row in page.above] == [
        ("ai-company", "ai-company is an organization."),
        (
            "research",
            "research comes after production: it has 50 % of the weight and 80 % of the recent use "
            "in ai-company.",
        ),
    ]
    below = page_of(company, "ai-company/research").below
    assert [(row.node.slug, row.share.place) for row in below] == [("vision", 1), ("nlp", 2)]
    (inference,) = page_of(company, "ai-company/production").below
    assert inference.sentence == "inference has no siblings in production."


def test_even_use_and_many_ahead(company: Company) -> None:
    for number in range(4):
        Node.objects.create(
            kind="team",
            parent=company.research,
            organization=company.organization,
            slug=f"t{number}",
            name=f"t{number}",
            path=f"ai-company/research/t{number}/",
            created_at=NOW,
        )
    used(company, nlp=100, vision=100)
    assert page_of(company).row.sentence.startswith("nlp comes after ")
    assert " and 2 more: it has 16.6 % of the weight" in page_of(company).row.sentence
    assert page_of(company).row.share.place == 5


def test_nothing_of_other_organizations(company: Company) -> None:
    """Planted: an organization shows its part of all use."""
    other = an_organization()
    Quota.objects.create(node=other, pool=company.pool, guaranteed_mgpu=0, weight=300)
    used(company, nlp=100)
    DecayedUse.objects.create(
        team=other, user=a_user(other), pool=company.pool, mgpu_s=HOUR_S * 1_000
    )
    share = page_of(company).above[0].share
    assert (share.weight_permille, share.used_permille, share.place, share.siblings) == (
        1_000,
        1_000,
        1,
        1,
    )
    with pytest.raises(NotFound):
        explained_fair_share(
            NLP, company.pool, actor=an_actor(other, Role.ORGANIZATION_ADMIN), now=NOW
        )


def test_the_numbers_are_those_by_which_the_scheduler_decides(company: Company) -> None:
    """A stored world: a job waits behind fair-share, with the numbers of the page.

    Against: the half-life of the policy is not that of the organization.
    """
    OrganizationPolicy.objects.update(rank=[], fair_share_half_life_s=HOUR_S)
    Quota.objects.exclude(node=company.organization).update(guaranteed_mgpu=0)
    ClusterNode.objects.exclude(name="ai-company-000").delete()
    now = SystemClock().now().replace(microsecond=0)
    Cluster.objects.update(seen_at=now)
    used(company, nlp=300, vision=100)
    DecayedUntil.objects.update(at=now - timedelta(hours=1))
    for team in (company.nlp, company.vision):
        a_job(company, a_user(company.organization), team=team, mgpu_per_node=8_000)
    snapshot = load_snapshot(now)
    (waiting,) = decide(snapshot, arbiter_policy()).waiting
    assert (waiting.code, waiting.node) == (Code.BEHIND_FAIR_SHARE, str(company.nlp.pk))
    share = FairShareReading(now).of(company.pool)[str(company.nlp.pk)]
    assert share.weight_permille == waiting.numbers["weight_permille"] == 500
    assert share.used_mgpu_s == 150 * HOUR_S * 1_000
    assert share.used_permille == 750


def test_the_outlook_decays_as_the_scheduler_does(company: Company) -> None:
    """Against: the outlook without use grows; the steady one forgets what was used before."""
    used(company, nlp=64)
    share = page_of(company).row.share
    points = outlook(share, 1_000)
    assert len(points) == 29
    assert points[0] == OutlookPoint(0, 64 * HOUR_S * 1_000, 64 * HOUR_S * 1_000)
    assert [points[7 * n].idle_mgpu_s for n in range(1, 5)] == [
        n * HOUR_S * 1_000 for n in (32, 16, 8, 4)
    ]
    assert points[7].after_s == WEEK_S
    steady = points[7].steady_mgpu_s - points[7].idle_mgpu_s
    assert steady == decay_of(WEEK_S).use_of(1_000, WEEK_S)


def test_the_use_of_now_goes_on(company: Company) -> None:
    """Planted: the weight of the pool is left out."""
    job = a_job(
        company, a_user(company.organization), state="running", mgpu_per_node=8_000, started_at=NOW
    )
    an_attempt(job, cluster=company.cluster, started_at=NOW)
    Cluster.objects.update(seen_at=SystemClock().now())
    Cycles(Fenced("arbiter")).run(SystemClock().now())  # type: ignore[arg-type]
    company.pool.weight = 500
    company.pool.save()
    assert page_of(company).in_use_mgpu == 4_000


def test_the_resource(company: Company) -> None:
    user = a_user(company.organization)
    a_grant(user, Role.RESEARCHER, company.nlp)
    used(company, nlp=300, vision=100)
    answer = by_token(user).get(f"fair-share?node={NLP}&pool=h100")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["node"]["node"], body["node"]["used_permille"]) == (NLP, 750)
    assert [row["node"] for row in body["above"]] == ["ai-company", "ai-company/research"]
    assert (body["below"], len(body["outlook"])) == ([], 29)
