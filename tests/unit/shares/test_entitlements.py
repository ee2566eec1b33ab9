"""The entitlement of a person in a team: amounts, starts by size, waits, and whom to talk to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_grant,
    a_pool,
    a_quota,
    a_user,
    an_actor,
    an_organization,
)
from clusters.models import Cluster
from jobs.arbitration.arbitration import Cycles
from jobs.models import Job, Reclaim
from jobs.submission.fitting import Fleet
from jobs.whatif.starts_by_size import StartKind, sizes_of
from primitives.clock import SystemClock
from primitives.errors import InvalidRequest, NotFound
from primitives.units import DeviceKind
from quotas.entitlement_amounts import EntitlementAmounts, entitlement_sentences
from quotas.models import Quota
from shares.entitlements import Entitlement, PoolEntitlement, Reclaimed, entitlement_of
from shares.lending import Loan, Partner, loans_in
from tenants.access import Actor
from tenants.models import Node, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NLP, VISION = "ai-company/research/nlp", "ai-company/research/vision"
ALL = ("000", "001", "002", "003")
INFERENCE = "ai-company/production/inference"


@pytest.fixture
def company() -> Company:
    """32 GPUs: nlp 8, vision 8, inference 16; all free."""
    company = a_company()
    Cluster.objects.update(seen_at=SystemClock().now())
    return company


def running(
    company: Company,
    team: Node,
    *nodes: str,
    mgpu: int = 8_000,
    guaranteed_mgpu: int | None = None,
) -> Job:
    """A job that runs on these nodes; the end of each name is given."""
    job = a_job(
        company,
        a_user(company.organization),
        team=team,
        state="running",
        mgpu_per_node=mgpu,
        node_count=len(nodes),
        started_at=NOW,
    )
    names = tuple(f"ai-company-{node}" for node in nodes)
    an_attempt(
        job,
        cluster=company.cluster,
        nodes=names,
        started_at=NOW,
        guaranteed_mgpu=guaranteed_mgpu,
    )
    return job


def decided() -> None:
    """A cycle of the arbiter, which stores what each node uses."""
    Cycles(Fenced("arbiter")).run(SystemClock().now())  # type: ignore[arg-type]


def entitlement(actor: Actor, path: str = NLP, **values: Any) -> Entitlement:
    return entitlement_of(path, actor=actor, now=SystemClock().now(), **values)


def in_pool(actor: Actor, path: str = NLP, **values: Any) -> PoolEntitlement:
    (found,) = entitlement(actor, path, **values).pools
    return found


def test_a_team_that_borrows(company: Company) -> None:
    """nlp, guaranteed 8, runs 12 on vision's idle GPUs; all 12 may be reclaimed.

    Planted: only what is borrowed counts as at risk.
    """
    running(company, company.nlp, "000", "001", mgpu=6_000, guaranteed_mgpu=8_000)
    decided()
    found = in_pool(an_actor(company.nlp, Role.RESEARCHER))
    assert found.amounts == EntitlementAmounts(
        guaranteed_mgpu=8_000,
        in_use_mgpu=12_000,
        at_risk_mgpu=12_000,
        borrowed_mgpu=4_000,
        available_mgpu=20_000,
    )
    assert found.sentence == (
        "nlp uses all of its 8 guaranteed GPUs and 4 borrowed ones; 12 may be reclaimed."
    )
    assert (found.lenders, found.borrowers) == ([Partner(VISION, 4_000)], [])
    assert (found.fair_share.weight_permille, found.fair_share.siblings) == (500, 2)


def test_a_team_that_lends(company: Company) -> None:
    """inference uses 26 of its 16: 10 of research, which nlp and vision lend in proportion.

    Planted: only siblings are asked whom they borrow from.
    """
    running(company, company.inference, *ALL, mgpu=6_500, guaranteed_mgpu=16_000)
    decided()
    found = in_pool(an_actor(company.nlp, Role.RESEARCHER))
    assert (found.amounts.lent_mgpu, found.amounts.at_risk_mgpu) == (5_000, 0)
    assert found.sentence == "nlp uses 0 of its 8 guaranteed GPUs; 5 are lent to others."
    assert found.borrowers == [Partner("ai-company/production", 5_000)]
    lender = in_pool(an_actor(company.inference, Role.RESEARCHER), INFERENCE)
    assert lender.lenders == [Partner("ai-company/research", 10_000)]


def test_loans_between_siblings_and_through_departments(company: Company) -> None:
    """nlp uses 20 of its 8: 8 come from vision, and 4 from inference, through research.

    Against: the loan of a department is one of its teams alone.
    """
    running(company, company.nlp, *ALL, mgpu=5_000, guaranteed_mgpu=8_000)
    decided()
    loans = loans_in(company.organization, company.pool)
    assert loans.rows == [
        Loan("ai-company/research", NLP, VISION, 8_000),
        Loan("ai-company/production", "(outside)", INFERENCE, 4_000),
        Loan("ai-company", "ai-company/research", "ai-company/production", 4_000),
        Loan("ai-company/research", NLP, "(outside)", 4_000),
    ]
    assert loans.lenders_to(NLP) == [
        Partner(VISION, 8_000),
        Partner("ai-company/production", 4_000),
    ]
    assert loans.borrowers_from(INFERENCE) == [Partner("ai-company/research", 4_000)]
    assert loans.borrowers_from(VISION) == [Partner(NLP, 8_000)]


def test_the_starts_of_each_size(company: Company) -> None:
    """With a busy node 8 GPUs start inside of the guarantee, 16 borrow, and 32 have no place.

    Planted: every start counts as guaranteed. Against: a job larger than a node asks for one.
    """
    running(company, company.vision, "003")
    found = in_pool(an_actor(company.nlp, Role.RESEARCHER))
    assert found.starts is not None
    assert [
        (one.devices, one.nodes, one.kind, one.borrowed_mgpu, one.cluster) for one in found.starts
    ] == [
        (1, 1, StartKind.GUARANTEED, 0, "local"),
        (2, 1, StartKind.GUARANTEED, 0, "local"),
        (4, 1, StartKind.GUARANTEED, 0, "local"),
        (8, 1, StartKind.GUARANTEED, 0, "local"),
        (16, 2, StartKind.BORROWED, 8_000, "local"),
        (32, 4, StartKind.WAITS, 0, None),
    ]
    assert found.starts[-1].code == "waiting_for_free_gpus"
    assert found.starts[3].sentence == "It would start now on local."


def test_a_start_within_the_guarantee_that_needs_a_reclaim(company: Company) -> None:
    """inference uses all 32; nlp's 8 come back within the grace of 300 s."""
    for node in ALL:
        running(company, company.inference, node)
    found = in_pool(an_actor(company.nlp, Role.RESEARCHER))
    assert found.starts is not None
    one = found.starts[3]
    assert (one.devices, one.kind, one.code) == (8, StartKind.RECLAIM, "waiting_for_reclaim")
    assert one.latest is not None
    assert [one.kind for one in found.starts[4:]] == [StartKind.RECLAIM, StartKind.WAITS]


def test_starts_are_of_people_who_may_submit(company: Company) -> None:
    """Against: an auditor is shown starts of jobs that the auditor may not submit."""
    assert in_pool(an_actor(company.organization, Role.AUDITOR)).starts is None
    assert in_pool(an_actor(company.vision, Role.RESEARCHER)).starts is None
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    assert in_pool(lead).starts is not None
    assert in_pool(lead, with_starts=False).starts is None


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param({}, [], id="no nodes"),
        pytest.param({6_000: 2}, [(1, 1), (2, 1), (4, 1), (8, 2)], id="six each"),
        pytest.param({500: 4}, [], id="shares of a GPU"),
        pytest.param({8_000: 1, 2_000: 1}, [(1, 1), (2, 1), (4, 1), (8, 1)], id="two sizes"),
    ],
)
def test_sizes_fill_nodes_in_equal_parts(
    sizes: dict[int, int], expected: list[tuple[int, int]]
) -> None:
    assert sizes_of(Fleet({"local": sizes} if sizes else {})) == expected


def test_waits_by_size(company: Company) -> None:
    """Planted: a size ends before its bound. Against: later attempts count; old jobs count."""
    user, now = a_user(company.organization), SystemClock().now()

    def started(mgpu: int, wait_s: int, *, days: int = 1, attempts: int = 1, **values: Any) -> None:
        submitted = now - timedelta(days=days)
        job = a_job(
            company, user, mgpu_per_node=mgpu, submitted_at=submitted, state="succeeded", **values
        )
        for number in range(1, attempts + 1):
            an_attempt(
                job,
                cluster=company.cluster,
                number=number,
                state="ended",
                ended_at=now,
                released_at=now,
                started_at=submitted + timedelta(seconds=wait_s * number),
            )

    for wait_s in (10, 20, 300):
        started(8_000, wait_s, attempts=2)
    started(5_000, 40)
    started(500, 7)
    started(8_001, 90)
    started(8_000, 9_999, days=29)
    started(8_000, 60, team=company.vision)
    a_job(company, user, mgpu_per_node=8_000, submitted_at=now)
    found = in_pool(an_actor(company.nlp, Role.RESEARCHER), with_starts=False)
    assert [
        (one.devices, one.waits.jobs, one.waits.p50_s, one.waits.p95_s) for one in found.waits
    ] == [(1, 1, 7, 7), (8, 4, 20, 300), (16, 1, 90, 90)]


def test_jobs_on_notice(company: Company) -> None:
    victim = running(company, company.nlp, "000", "001", mgpu=6_000)
    until = NOW + timedelta(seconds=252)
    reclaim = Reclaim.objects.create(
        job=a_job(company, a_user(company.organization), team=company.vision),
        cluster=company.cluster,
        slots=[],
        created_at=NOW,
        grace_until=until,
    )
    Job.objects.filter(pk=victim.pk).update(state="preempting")
    victim.attempts.update(
        state="stopping", stop_reason="preempted", grace_until=until, reclaim=reclaim
    )
    found = in_pool(an_actor(company.nlp, Role.RESEARCHER), with_starts=False)
    assert found.reclaimed == Reclaimed(1, 12_000, until)


def test_whom_to_talk_to(company: Company) -> None:
    """The lead comes before the department's administrator; strangers get no names.

    Planted: people of other teams read the names.
    """

    def named(actor: Actor) -> list[tuple[str, str]]:
        found = entitlement(actor, with_starts=False).contacts
        return [(one.username, one.role) for one in found]

    an_actor(company.research, Role.DEPARTMENT_ADMIN, "dora")
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "leo")
    an_actor(company.vision, Role.TEAM_LEAD, "vera")
    gone = a_user(company.organization, "gone")
    a_grant(gone, Role.TEAM_LEAD, company.nlp)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    everybody = [("leo", "team_lead"), ("dora", "department_admin")]
    assert named(an_actor(company.nlp, Role.RESEARCHER)) == everybody
    assert named(an_actor(company.organization, Role.AUDITOR)) == everybody
    assert named(lead) == [("dora", "department_admin")]
    assert named(an_actor(company.vision, Role.RESEARCHER)) == []


def test_pools_in_which_the_organization_has_quota(company: Company) -> None:
    """A team without a quota of its own in a pool is guaranteed nothing there."""
    second, third = a_pool("a100"), a_pool("b200")
    a_quota(company.organization, second, 8)
    actor = an_actor(company.nlp, Role.RESEARCHER)
    found = entitlement(actor).pools
    assert [(one.pool.name, one.sentence) for one in found] == [
        ("a100", "nlp is guaranteed no GPUs."),
        ("h100", "nlp uses 0 of its 8 guaranteed GPUs."),
    ]
    assert in_pool(actor, pool=second).pool == second
    with pytest.raises(InvalidRequest, match="ai-company has no quota in b200"):
        entitlement(actor, pool=third)


def test_what_is_no_team_or_of_another_organization(company: Company) -> None:
    with pytest.raises(InvalidRequest, match="ai-company/research is no team"):
        entitlement(an_actor(company.nlp, Role.RESEARCHER), "ai-company/research")
    with pytest.raises(NotFound):
        entitlement(an_actor(an_organization(), Role.ORGANIZATION_ADMIN))


def test_the_sentence_for_native_jobs(company: Company) -> None:
    """Against: a team without a quota raises an error."""
    running(company, company.nlp, "000")
    decided()
    Quota.objects.filter(node=company.vision).delete()
    place = (company.nlp.pk, company.pool.pk)
    assert entitlement_sentences({place, (company.vision.pk, company.pool.pk)}) == {
        place: "nlp uses all of its 8 guaranteed GPUs."
    }
    assert entitlement_sentences(set()) == {}


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        pytest.param(
            EntitlementAmounts(guaranteed_mgpu=1_000, in_use_mgpu=500),
            "nlp uses 0.5 of its 1 guaranteed GPU.",
            id="a half",
        ),
        pytest.param(
            EntitlementAmounts(in_use_mgpu=3_000, borrowed_mgpu=3_000, at_risk_mgpu=3_000),
            "nlp is guaranteed no GPUs and uses 3 borrowed ones; 3 may be reclaimed.",
            id="borrowed only",
        ),
    ],
)
def test_amounts_in_words(amounts: EntitlementAmounts, expected: str) -> None:
    assert amounts.sentence("nlp", DeviceKind.GPU) == expected


def test_the_resource(company: Company) -> None:
    user = a_user(company.organization, "rita")
    a_grant(user, Role.RESEARCHER, company.nlp)
    an_actor(company.nlp, Role.TEAM_LEAD, "leo")
    running(company, company.nlp, "000")
    Job.objects.update(submitted_at=NOW - timedelta(days=365))
    decided()
    answer = by_token(user).get(f"entitlement?team={NLP}&pool=h100")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["team"], body["team_id"]) == (NLP, str(company.nlp.pk))
    assert body["contacts"] == [
        {"username": "leo", "name": "Leo", "role": "team_lead", "node": NLP}
    ]
    (pool,) = body["pools"]
    assert pool["starts"][0]["kind"] == "borrowed"
    assert pool["sentence"] == "nlp uses all of its 8 guaranteed GPUs."
    assert (pool["in_use_mgpu"], pool["at_risk_mgpu"], pool["waits"]) == (8_000, 0, [])
    assert pool["fair_share"] == {
        "weight": 100,
        "weight_permille": 500,
        "used_mgpu_s": 0,
        "used_permille": 0,
        "level_permille": None,
        "place": 1,
        "siblings": 2,
        "half_life_s": 604_800,
    }
    quick = by_token(user).get(f"entitlement?team={NLP}&numbers_only=true").json()
    assert quick["pools"][0]["starts"] is None
