"""The dry run: the arbiter's answer to a job that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from arbiter.cycle.decide import decide
from audit.models import AuditEvent
from billing.models import RateCard, RateLine
from builders.api_callers import by_token
from builders.billing_builders import terms_of
from builders.job_builders import a_body, a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_priority_class,
)
from builders.stored_members import STORED, STORED_ON_PAGES
from clusters.models import Cluster, ClusterNode
from connectors.kubernetes.quotas.wanted_objects import team_subject
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import load_snapshot
from jobs.models import Job
from primitives.clock import SystemClock
from quotas.installation import arbiter_policy
from quotas.models import QuotaPush
from tenants.models import User

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    company = a_company()
    Cluster.objects.update(seen_at=SystemClock().now())
    return company


def plan(user: User, **changes: Any) -> dict[str, Any]:
    answer = by_token(user).post("jobs?dry_run=true", a_body(**changes))
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def occupy(company: Company, user: User, *nodes: str) -> None:
    """Whole nodes held by jobs of inference."""
    for node in nodes:
        job = a_job(company, user, team=company.inference, state="running", mgpu_per_node=8_000)
        an_attempt(job, cluster=company.cluster, nodes=(node,), started_at=NOW)


def test_a_team_that_is_not_set_up_would_wait_and_says_for_whom(
    company: Company, bob: User
) -> None:
    """Planted: it would start now, on the cluster that would refuse it."""
    Cluster.objects.update(kind="kubernetes", options={"pools": {"h100": {"image": "any"}}})
    subject = team_subject("ai-company/research/nlp")
    made = {"kind": "create", "subject": subject, "after": {"team": "x"}}
    push = QuotaPush.objects.create(
        cluster=company.cluster,
        kind="check",
        status="done",
        requested_at=NOW,
        done_at=NOW,
        changes=[{**made, "result": "planned"}],
        change_count=1,
    )
    told = plan(bob)
    assert (told["would_start_now"], told["cluster"]) == (False, None)
    sentence = told["explanation"]["sentence"]
    assert sentence.endswith(
        " ai-company/research/nlp is not set up on local yet; an administrator of the platform "
        "pushes the quotas to it."
    )
    # The job itself says the same.
    job = by_token(bob).post("jobs", a_body()).json()
    Cycles(Fenced("arbiter")).run(SystemClock().now())  # type: ignore[arg-type]
    why = by_token(bob).get(f"jobs/{job['id']}/explanation").json()
    assert (why["code"], why["sentence"]) == ("cluster_unavailable", sentence)
    push.changes = [{**made, "result": "done"}]
    push.save()
    assert plan(bob)["would_start_now"]


def test_a_job_that_would_start(company: Company, bob: User) -> None:
    answer = by_token(bob).post("jobs?dry_run=true", a_body(gpus=12, name="try"))
    assert answer.status_code == 200
    body = answer.json()
    explanation = body.pop("explanation")
    assert (explanation["code"], explanation["sentence"]) == (
        "would_start",
        "It would start now on local.",
    )
    assert body == {
        "job": {
            "name": "try",
            "type": "distributed",
            "team": "ai-company/research/nlp",
            "pool": "h100",
            "pools": ["h100"],
            "device": "gpu",
            "priority_class": "normal",
            "mgpu_per_node": 4_000,
            "node_count": 3,
            "node_count_min": 3,
            "mgpu": 12_000,
            "mgpu_min": 12_000,
            "cluster": None,
            **STORED,
            **STORED_ON_PAGES,
            "held": False,
            "tasks": 1,
            "tasks_at_once": None,
        },
        "notes": [
            {
                "line": 0,
                "text": "",
                "verdict": "understood",
                "detail": "No node has 12 GPUs, so this job takes 3 nodes with 4 GPUs each. "
                "To choose the layout, ask for nodes and GPUs per node instead.",
            }
        ],
        "fits": True,
        "would_start_now": True,
        "mgpu": 12_000,
        "guaranteed_mgpu": 8_000,
        "borrowed_mgpu": 4_000,
        "cluster": "local",
        "pool": "h100",
        "cost_per_hour_nano": None,
        "unbilled_per_hour_nano": None,
        "price_mode": None,
        "currency": None,
        "budgets": [],
        "cost_cap_after_s": None,
    }
    assert not Job.objects.exists()
    assert not AuditEvent.objects.exists()


def test_features_that_no_node_has(company: Company, bob: User) -> None:
    body = plan(bob, features=["gold", "ib"])
    assert (body["fits"], body["would_start_now"]) == (False, False)
    assert body["job"]["features"] == ["gold", "ib"]
    assert (body["explanation"]["code"], body["explanation"]["sentence"]) == (
        "never_fits",
        "1 GPU of h100 can never run: no node of pool h100 has the features gold, ib together.",
    )
    assert body["explanation"]["numbers"]["nodes_with_features"] == 0


def test_a_job_that_would_wait_for_nodes_that_have_it(company: Company, bob: User) -> None:
    company.cluster.nodes.filter(name="ai-company-000").update(features=["ib"])
    assert plan(bob, features=["ib"])["would_start_now"] is True
    occupy(company, bob, "ai-company-000")
    body = plan(bob, features=["ib"])
    assert (body["fits"], body["would_start_now"]) == (True, False)
    assert body["explanation"]["numbers"]["free_mgpu"] == 0
    assert plan(bob)["would_start_now"] is True


def test_a_job_that_would_wait_for_free_gpus(company: Company, bob: User) -> None:
    occupy(company, bob, *(f"ai-company-{index:03d}" for index in range(2)))
    body = plan(bob, gpus=24)
    assert (body["fits"], body["would_start_now"], body["cluster"]) == (True, False, None)
    assert (body["guaranteed_mgpu"], body["borrowed_mgpu"]) == (8_000, 16_000)
    assert body["explanation"]["numbers"]["need_mgpu"] == 24_000
    assert body["explanation"]["victims"] == []


def test_a_job_that_would_reclaim(company: Company, bob: User) -> None:
    occupy(company, bob, *(f"ai-company-{index:03d}" for index in range(4)))
    body = plan(bob, gpus=8)
    assert (body["fits"], body["would_start_now"]) == (True, False)
    assert (body["guaranteed_mgpu"], body["borrowed_mgpu"]) == (8_000, 0)
    assert body["explanation"]["code"] == "waiting_for_reclaim"
    assert Job.objects.filter(state="preempting").count() == 0


@pytest.mark.parametrize(
    ("in_use", "priority_class", "guaranteed"),
    [(16, "high", 4), (16, "normal", 0), (6, "high", 4), (6, "normal", 2), (6, "low", 2)],
)
def test_what_of_a_job_that_waits_is_guaranteed_is_what_it_gets_when_it_starts(
    company: Company, bob: User, in_use: int, priority_class: str, guaranteed: int
) -> None:
    """nlp, guaranteed 8 GPUs, runs jobs of class normal; a higher class is protected before them.

    Planted: what of the guarantee is not in use (0 and 2 for class high); the class left out of the
    turn (the same)."""
    for name, order in (("high", 200), ("low", 1)):
        a_priority_class(company.organization, name, order=order)
    for index, mgpu in enumerate((min(8, in_use) * 1_000, (in_use - 8) * 1_000)):
        if mgpu > 0:
            job = a_job(company, bob, state="running", mgpu_per_node=mgpu)
            node = f"ai-company-{index:03d}"
            an_attempt(job, cluster=company.cluster, nodes=(node,), started_at=NOW)
    occupy(company, bob, "ai-company-002", "ai-company-003")
    ClusterNode.objects.filter(name="ai-company-001").update(is_schedulable=in_use > 8)
    ClusterNode.objects.filter(name="ai-company-000").update(capacity_mgpu=min(8, in_use) * 1_000)

    told = plan(bob, gpus=4, priority_class=priority_class)
    assert told["would_start_now"] is False
    assert (told["guaranteed_mgpu"], told["borrowed_mgpu"]) == (
        guaranteed * 1_000,
        (4 - guaranteed) * 1_000,
    )

    ClusterNode.objects.update(is_schedulable=True, capacity_mgpu=16_000)
    by_token(bob).post("jobs", a_body(gpus=4, priority_class=priority_class))
    (start,) = decide(load_snapshot(SystemClock().now()), arbiter_policy()).starts
    assert start.guaranteed_mgpu == guaranteed * 1_000


def test_a_job_that_never_fits_is_an_answer_here(company: Company, bob: User) -> None:
    body = plan(bob, gpus=40)
    assert (body["fits"], body["would_start_now"]) == (False, False)
    assert body["explanation"]["code"] == "never_fits"
    assert body["explanation"]["sentence"].startswith(
        "40 GPUs of h100 can never run: the pool h100 has 32 GPUs in all"
    )


def test_refused_lines_are_shown_and_fit_nothing(company: Company, bob: User) -> None:
    text = "#SBATCH -N 2\n#SBATCH --begin=1-9\n#SBATCH -o log\ntrue\n"
    body = plan(bob, gpus=..., gpus_per_node=8, script=..., sbatch=text)
    assert (body["fits"], body["would_start_now"]) == (False, False)
    assert [(note["line"], note["verdict"]) for note in body["notes"]] == [
        (1, "ignored"),
        (2, "refused"),
        (3, "understood"),
    ]
    assert body["cluster"] is None
    assert (body["explanation"]["code"], body["explanation"]["sentence"]) == (
        "never_fits",
        "It would be refused and could run nowhere: line 2: #SBATCH --begin=1-9: "
        f"{body['notes'][1]['detail'].rstrip('.')}.",
    )


def test_a_held_job(company: Company, bob: User) -> None:
    body = plan(bob, held=True)
    assert (body["fits"], body["would_start_now"]) == (True, False)
    assert body["explanation"]["code"] == "held_by_user"


def test_a_silent_cluster(company: Company, bob: User) -> None:
    Cluster.objects.update(seen_at=None)
    body = plan(bob)
    assert (body["fits"], body["would_start_now"]) == (True, False)
    assert body["explanation"]["code"] == "cluster_unavailable"


@pytest.mark.parametrize(
    ("mode", "costs"),
    [
        ("pay_per_use", [20_000_000_000, 0]),
        ("showback", [0, 20_000_000_000]),
        ("commitment", [4_000_000_000, 16_000_000_000]),
    ],
)
def test_what_it_costs(company: Company, bob: User, mode: str, costs: list[int]) -> None:
    """8 guaranteed and 4 borrowed GPUs. A commitment pays the guaranteed ones.

    Against: use in showback that costs 0, and nothing more is said."""
    card = RateCard.objects.create(organization=company.organization, currency="EUR")
    for usage_class, price_nano in (("guaranteed", 2_000_000_000), ("borrowed", 1_000_000_000)):
        RateLine.objects.create(
            card=card,
            pool=company.pool,
            usage_class=usage_class,
            price_nano=price_nano,
            start=NOW.replace(year=2020),
        )
    terms_of(card, mode)
    body = plan(bob, gpus=12)
    assert [body["cost_per_hour_nano"], body["unbilled_per_hour_nano"]] == costs
    assert (body["price_mode"], body["currency"]) == (mode, "EUR")


def test_bad_requests_are_refused_all_the_same(company: Company, bob: User) -> None:
    caller = by_token(bob)
    for query, changes, status in (
        ("dry_run=true", {"gpus": -1}, 400),
        ("dry_run=true", {"team": "rival/x"}, 404),
        ("dry_run=true", {"team": "ai-company/research/vision"}, 403),
        ("dry_run=yes", {}, 400),
        ("dryrun=true", {}, 400),
    ):
        assert caller.post(f"jobs?{query}", a_body(**changes)).status_code == status
    assert caller.post("jobs?dry_run=false", a_body()).status_code == 201


def test_every_line_is_judged_where_no_cluster_runs_its_image(company: Company, bob: User) -> None:
    text = "#SBATCH --gpus=8\n#SBATCH --container-image=x:1\n#SBATCH --mem=0\ntrue\n"
    body = plan(bob, gpus=..., script=..., sbatch=text)
    assert [(note["line"], note["verdict"]) for note in body["notes"]] == [
        (1, "understood"),
        (2, "refused"),
        (3, "ignored"),
    ]
    assert (body["fits"], body["would_start_now"]) == (False, False)
