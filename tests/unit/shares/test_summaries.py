"""Fair-share, credits and the last week of the nodes of a tree."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bank.settling import settle_due
from builders.api_callers import by_token
from builders.bank_builders import a_bank
from builders.billing_builders import a_metered_attempt, at
from builders.portal_builders import Company, a_company, a_grant, a_user, an_actor
from quotas.models import OrganizationPolicy
from shares.summaries import NodeSummary, summaries_below, zone_edges
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

DAY_S = 86_400
#: Noon of the third day.
NOON = at(2 * DAY_S + DAY_S // 2)
GPU_HOUR = 3_600 * 1_000_000


@pytest.fixture
def company() -> Company:
    return a_company()


def summaries(
    company: Company, path: str = "ai-company", now: datetime = NOON
) -> dict[str, NodeSummary]:
    reader = an_actor(company.nlp, Role.RESEARCHER)
    found = summaries_below(path, company.pool, actor=reader, now=now)
    return {one.node.slug: one for one in found}


def test_the_week_has_averages_of_each_day(company: Company) -> None:
    """nlp uses 8 GPUs for a day from noon on, and 4 that still run since the third midnight.

    Planted: today is averaged over a whole day. Against: departments have no use; a segment counts
    in the day of its start.
    """
    a_metered_attempt(company.nlp, DAY_S // 2, DAY_S + DAY_S // 2, mgpu=8_000)
    a_metered_attempt(company.nlp, 2 * DAY_S, None, mgpu=4_000, now=NOON)
    a_metered_attempt(company.vision, 0, DAY_S // 2, mgpu=1_000)
    found = summaries(company)
    assert found["nlp"].week_mgpu == [0, 0, 0, 0, 4_000, 4_000, 4_000]
    assert found["vision"].week_mgpu == [0, 0, 0, 0, 500, 0, 0]
    assert found["research"].week_mgpu == found["ai-company"].week_mgpu
    assert found["research"].week_mgpu == [0, 0, 0, 0, 4_500, 4_000, 4_000]
    assert found["inference"].week_mgpu == [0] * 7


def test_days_are_those_of_the_organization(company: Company) -> None:
    """Against: a day of 23 hours is one of 24."""
    OrganizationPolicy.objects.update(time_zone="Europe/Berlin")
    edges = zone_edges(company.organization.pk, datetime(2026, 3, 30, 12, tzinfo=UTC))
    assert [edge.hour for edge in edges] == [23] * 6 + [22, 12]
    assert (edges[6] - edges[5]).total_seconds() == 23 * 3_600


def test_credits_are_summed_up_the_tree(company: Company) -> None:
    """Without a bank there are none; with it nlp pays 8 GPU-hours."""
    assert {one.credits_ugpu_s for one in summaries(company).values()} == {None}
    a_bank(company.organization, at(0))
    a_metered_attempt(company.nlp, 0, 3_600, pool=company.pool, mgpu=16_000)
    settle_due(at(3_660))
    found = summaries(company)
    own = {slug: one.credits_ugpu_s for slug, one in found.items()}
    assert own["nlp"] == -8 * GPU_HOUR
    assert own["research"] == (own["nlp"] or 0) + (own["vision"] or 0)
    assert own["ai-company"] == (own["research"] or 0) + (own["production"] or 0)


def test_nodes_below_one_and_no_archived_ones(company: Company) -> None:
    """Against: "research" begins the path of "research-2"; an organization shows others."""
    Node.objects.filter(pk=company.vision.pk).update(archived_at=NOON)
    assert list(summaries(company, "ai-company/research")) == ["research", "nlp"]
    top = summaries(company)["ai-company"].share
    assert (top.siblings, top.weight_permille) == (1, 1_000)


def test_the_resource(company: Company) -> None:
    user = a_user(company.organization)
    a_grant(user, Role.RESEARCHER, company.nlp)
    answer = by_token(user).get("node-summaries?node=ai-company/research&pool=h100")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert [one["node"] for one in body["nodes"]] == [
        "ai-company/research",
        "ai-company/research/nlp",
        "ai-company/research/vision",
    ]
    assert (body["pool"], body["nodes"][1]["weight_permille"]) == ("h100", 500)
    assert (body["nodes"][1]["credits_ugpu_s"], len(body["nodes"][1]["week_mgpu"])) == (None, 7)
