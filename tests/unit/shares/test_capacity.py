"""The capacity of a pool now: free blocks by size, fragmentation, loans and starved teams."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company, a_company, a_grant, a_user, an_actor
from clusters.models import Cluster, ClusterNode
from jobs.arbitration.arbitration import Cycles
from jobs.models import Reclaim
from outbox.quarantine import begin_quarantine
from primitives.clock import SystemClock
from shares.capacity import (
    ClusterCapacity,
    FreeBlocks,
    PoolCapacity,
    StarvedTeam,
    capacity_of,
    free_blocks,
)
from shares.lending import Loan
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NLP, VISION = "ai-company/research/nlp", "ai-company/research/vision"


@pytest.fixture
def company() -> Company:
    """Four nodes of 8 GPUs: nlp 8, vision 8, inference 16."""
    company = a_company()
    Cluster.objects.update(seen_at=SystemClock().now())
    return company


def running(
    company: Company, team: Node, node: str, mgpu: int, guaranteed_mgpu: int | None = None
) -> None:
    job = a_job(
        company,
        a_user(company.organization),
        team=team,
        state="running",
        mgpu_per_node=mgpu,
        started_at=NOW,
    )
    an_attempt(
        job,
        cluster=company.cluster,
        nodes=(f"ai-company-{node}",),
        started_at=NOW,
        guaranteed_mgpu=guaranteed_mgpu,
    )


def capacity(company: Company) -> PoolCapacity:
    reader = an_actor(company.nlp, Role.RESEARCHER)
    return capacity_of(NLP, company.pool, actor=reader, now=SystemClock().now())


def blocks(*pairs: tuple[int, int]) -> list[FreeBlocks]:
    return [FreeBlocks(devices, count) for devices, count in pairs]


def test_free_blocks_and_fragmentation(company: Company) -> None:
    """Free: 1 and 3 on used nodes, and two whole nodes of 8; 4 of 20 are fragments.

    Planted: free devices of several nodes make a block of a node.
    """
    running(company, company.nlp, "000", 7_000)
    running(company, company.vision, "001", 5_000)
    (found,) = capacity(company).clusters
    assert found == ClusterCapacity(
        cluster="local",
        is_accepting=True,
        nodes=4,
        free_nodes=2,
        capacity_mgpu=32_000,
        free_mgpu=20_000,
        whole_mgpu=16_000,
        largest_mgpu=8_000,
        claimed_mgpu=0,
        blocks=blocks((1, 20), (2, 9), (4, 4), (8, 2), (16, 1)),
    )
    assert found.fragmented_permille == 200


def test_claims_drained_nodes_and_silent_clusters(company: Company) -> None:
    """Against: a drained node counts as free; a claim's GPUs that a victim holds count twice."""
    running(company, company.nlp, "000", 8_000)
    ClusterNode.objects.filter(name="ai-company-001").update(is_schedulable=False)
    Reclaim.objects.create(
        job=a_job(company, a_user(company.organization), team=company.vision),
        cluster=company.cluster,
        slots=[{"node": f"ai-company-00{n}", "mgpu": 6_000} for n in (0, 2)],
        created_at=NOW,
        grace_until=NOW,
    )
    Cluster.objects.update(seen_at=NOW - timedelta(days=1))
    (found,) = capacity(company).clusters
    assert (found.is_accepting, found.capacity_mgpu, found.free_mgpu) == (False, 24_000, 10_000)
    assert (found.claimed_mgpu, found.free_nodes, found.whole_mgpu) == (6_000, 1, 8_000)
    assert found.blocks == blocks((1, 10), (2, 5), (4, 2), (8, 1))


def test_in_quarantine_no_cluster_starts_jobs(company: Company) -> None:
    """Against: the page asks the clusters alone."""
    assert [one.is_accepting for one in capacity(company).clusters] == [True]
    begin_quarantine("restored", since=NOW, now=NOW)
    assert [one.is_accepting for one in capacity(company).clusters] == [False]


@pytest.mark.parametrize(
    ("free", "node", "expected"),
    [
        pytest.param([], 8_000, [], id="nothing"),
        pytest.param([500, 900], 1_000, [], id="parts of a GPU"),
        pytest.param([6_000] * 4, 6_000, [(1, 24), (2, 12), (4, 4), (8, 2), (16, 1)], id="six"),
        pytest.param([8_000, 4_000], 8_000, [(1, 12), (2, 6), (4, 3), (8, 1)], id="a half node"),
    ],
)
def test_blocks(free: list[int], node: int, expected: list[tuple[int, int]]) -> None:
    assert free_blocks(free, node) == blocks(*expected)


def test_who_borrows_and_who_starves(company: Company) -> None:
    """inference uses all 32; nlp waits for 12, of which it is guaranteed 8.

    Planted: a team that waits for borrowed GPUs starves.
    """
    for node in ("000", "001", "002", "003"):
        running(company, company.inference, node, 8_000, 8_000 if node < "002" else 0)
    user, since = a_user(company.organization), NOW - timedelta(hours=2)
    a_job(company, user, mgpu_per_node=6_000, node_count=2, submitted_at=since)
    a_job(company, user, team=company.inference, mgpu_per_node=8_000)
    now = SystemClock().now()
    Cycles(Fenced("arbiter")).run(now)  # type: ignore[arg-type]
    found = capacity(company)
    assert found.starved == [StarvedTeam(NLP, 8_000, 12_000, since)]
    assert found.loans[0] == Loan(
        "ai-company", "ai-company/production", "ai-company/research", 16_000
    )


def test_the_resource(company: Company) -> None:
    user = a_user(company.organization)
    a_grant(user, Role.RESEARCHER, company.nlp)
    answer = by_token(user).get(f"capacity?node={NLP}&pool=h100")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["organization"], body["pool"], body["device"]) == ("ai-company", "h100", "gpu")
    (cluster,) = body["clusters"]
    assert (cluster["free_nodes"], cluster["fragmented_permille"]) == (4, 0)
    assert cluster["blocks"][-1] == {"devices": 32, "blocks": 1}
    assert (body["loans"], body["starved"]) == ([], [])
