"""What could be asked for instead of a waiting job, over REST."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.job_builders import SCRIPT, a_job, an_array, an_attempt, tasks_of
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_grant,
    a_pool,
    a_priority_class,
    a_quota,
    a_user,
    an_organization,
)
from jobs.api import alternatives as alternative_views
from jobs.models import Dependency, Job
from jobs.whatif import alternatives
from jobs.whatif.alternatives import Alternatives, alternatives_to
from jobs.whatif.heavy_answers import SEVERAL_CYCLES
from outbox.quarantine import begin_quarantine
from quotas.models import PriorityClass, Quota
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


class Now:
    def now(self) -> datetime:
        return NOW


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alternative_views, "SystemClock", Now)


@pytest.fixture
def company() -> Company:
    return a_company()


def explained(code: str, **numbers: int) -> dict[str, Any]:
    """What the last cycle stored on a job."""
    return {
        "code": code,
        "sentence": "It waits.",
        "numbers": numbers,
        "node": None,
        "jobs_ahead": 0,
        "estimated_start": None,
        "as_of": "2026-11-21T12:00:00Z",
    }


FREE = explained("waiting_for_free_gpus", free_mgpu=8_000)


def occupy(company: Company, user: User, *nodes: int, **changes: Any) -> Job:
    """Whole nodes, each held by a job of inference within its guarantee."""
    for node in nodes:
        job = a_job(
            company,
            user,
            team=company.inference,
            state="running",
            mgpu_per_node=8_000,
            **changes,
        )
        an_attempt(job, cluster=company.cluster, nodes=(f"ai-company-{node:03d}",), started_at=NOW)
    return job


def asked(job: Job, user: User) -> dict[str, Any]:
    answer = by_token(user).post(f"jobs/{job.pk}/alternatives", {})
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def outcomes(body: dict[str, Any]) -> list[tuple[str, str]]:
    """The label of each, and what would become of it."""
    return [
        (
            one["label"],
            "now" if one["plan"]["would_start_now"] else one["plan"]["explanation"]["code"],
        )
        for one in body["items"]
    ]


def test_the_best_outcome_comes_first(company: Company, bob: User) -> None:
    """One node of four is free, and the job needs two of them. Planted: in the order of the
    concessions alone; the job still in its line."""
    occupy(company, bob, 0, 1, 2)
    waiting = a_job(
        company,
        bob,
        mgpu_per_node=8_000,
        node_count=2,
        time_limit_s=7_200,
        explanation=FREE,
        notice_signal="USR1",
        type="distributed",
    )
    before = Job.objects.count()
    body = asked(waiting, bob)
    assert outcomes(body) == [
        ("With 8 GPUs on 1 node", "now"),
        ("With 4 GPUs on 1 node", "now"),
        ("With a time limit of 1 h", "waiting_for_reclaim"),
    ]
    assert (body["as_of"], body["untried"], body["sentence"]) == (
        "2026-11-21T12:00:00Z",
        0,
        "2 of 3 alternatives would start now.",
    )
    first = body["items"][0]
    assert first["changes"] == {"nodes": 1}
    assert first["request"] == {
        "team": "ai-company/research/nlp",
        "name": "train",
        "pool": "h100",
        "gpus_per_node": 8,
        "nodes": 1,
        "time_limit_s": 7_200,
        "priority_class": "normal",
        "is_preemptible": False,
        "is_requeueable": True,
        "notice_signal": "USR1",
        "environment": {"SEED": "1"},
        "script": SCRIPT,
        "launch": "per_node",
        "arguments": [],
        "appends_output": False,
        "is_singleton": False,
        "requeue_on": [],
        "requeue_max": 10,
        "signals_shell_only": False,
    }
    plan = first["plan"]
    assert (plan["fits"], plan["cluster"], plan["mgpu"], plan["guaranteed_mgpu"]) == (
        True,
        "local",
        8_000,
        8_000,
    )
    assert (Job.objects.count(), AuditEvent.objects.count()) == (before, 0)


def test_a_request_can_be_sent_as_it_is_and_is_what_was_tried(company: Company, bob: User) -> None:
    """Planted: a body that only this endpoint could read."""
    occupy(company, bob, 0, 1, 2)
    waiting = a_job(
        company,
        bob,
        mgpu_per_node=8_000,
        node_count=4,
        node_count_min=2,
        is_requeueable=False,
        checkpoint_path="/save",
        preferred_topology="rack",
        explanation=explained("topology_fragmented"),
    )
    items = asked(waiting, bob)["items"]
    assert len(items) == 5
    for one in items:
        sent = by_token(bob).post("jobs?dry_run=true", one["request"])
        assert sent.status_code == 200, sent.content
        assert sent.json()["job"] == one["plan"]["job"]
        # There are 4 nodes, which cannot be 8 parts.
        status = by_token(bob).post("jobs", one["request"]).status_code
        assert status == (201 if one["plan"]["fits"] else 400)
    assert [one["plan"]["fits"] for one in items] == [True, True, True, True, False]
    stored = Job.objects.exclude(pk=waiting.pk).filter(state="queued")
    same = ("is_requeueable", "checkpoint_path", "preferred_topology", "script", "name", "team_id")
    assert set(stored.values_list(*same)) == {
        (False, "/save", "rack", SCRIPT, "train", company.nlp.pk)
    }


def test_each_is_tried_alone_and_in_place_of_the_job(company: Company, bob: User) -> None:
    """The team may hold 16 of its own and borrowed; 8 are free of quota. Planted: variants that
    stand in each other's way; a time limit, which is nothing to a quota."""
    Quota.objects.filter(node=company.nlp).update(borrow_limit_mgpu=0)
    waiting = a_job(
        company,
        bob,
        mgpu_per_node=4_000,
        node_count=3,
        explanation=explained("borrow_limit_reached", available_by_quota_mgpu=8_000),
        submitted_at=NOW - timedelta(hours=1),
    )
    body = asked(waiting, bob)
    assert outcomes(body) == [
        ("With 8 GPUs on 2 nodes", "now"),
        ("With 4 GPUs on 1 node", "now"),
        ("With 3 GPUs on 1 node", "now"),
    ]


def test_what_no_node_has_free_is_spread(company: Company, bob: User) -> None:
    """Three GPUs are free on each node. Planted: nothing but less than it needs."""
    for node in range(4):
        job = a_job(company, bob, team=company.vision, state="running", mgpu_per_node=5_000)
        an_attempt(job, cluster=company.cluster, nodes=(f"ai-company-{node:03d}",), started_at=NOW)
    Quota.objects.filter(node=company.nlp).update(guaranteed_mgpu=0)
    waiting = a_job(
        company,
        bob,
        mgpu_per_node=8_000,
        time_limit_s=3_600,
        explanation=explained("topology_fragmented", nodes_fitting=0, mgpu_per_node=8_000),
    )
    assert outcomes(asked(waiting, bob)) == [
        ("On 4 nodes with 2 GPUs each", "now"),
        ("With 2 GPUs", "now"),
        ("On 2 nodes with 4 GPUs each", "topology_fragmented"),
        ("With 4 GPUs", "topology_fragmented"),
    ]


def test_what_is_free_here_and_there_is_gathered() -> None:
    """Of 40 GPUs 20 are free: a whole node, and half of three others. How many nodes have a half is
    what the arbiter says. Planted: whole nodes only; the sum of what is free in halves."""
    company = a_company("scattered", nodes=7)
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    for node in range(6):
        team, gpus = (company.inference, 8) if node < 3 else (company.vision, 4)
        job = a_job(company, bob, team=team, state="running", mgpu_per_node=gpus * 1_000)
        an_attempt(job, cluster=company.cluster, nodes=(f"scattered-{node:03d}",), started_at=NOW)
    waiting = a_job(
        company,
        bob,
        team=company.nlp,
        mgpu_per_node=8_000,
        node_count=5,
        time_limit_s=3_600,
        explanation=explained("waiting_for_free_gpus", free_mgpu=20_000),
    )
    body = asked(waiting, bob)
    assert outcomes(body) == [
        ("With 16 GPUs on 4 nodes with 4 GPUs each", "now"),
        ("With 8 GPUs on 1 node", "now"),
        ("With 16 GPUs on 2 nodes", "topology_fragmented"),
    ]
    assert body["items"][0]["changes"] == {"gpus_per_node": 4, "nodes": 4}


def test_all_that_was_asked_for_comes_before_a_part_of_it(company: Company, bob: User) -> None:
    """Where racks are is not known, so nothing fits that needs one. Planted: the sooner a part of
    it, the better."""
    occupy(company, bob, 0, 1, 2, 3, time_limit_s=7_200)
    waiting = a_job(
        company, bob, mgpu_per_node=8_000, node_count=4, required_topology="rack", explanation=FREE
    )
    body = asked(waiting, bob)
    assert body["sentence"] == ("None of the alternatives tried would start now.")
    assert [
        (one["label"], one["plan"]["fits"], one["plan"]["explanation"]["estimated_start"])
        for one in body["items"]
    ] == [
        (
            "Not all in one rack",
            True,
            {"earliest": None, "latest": "2026-11-21T14:00:00Z", "method": "time_limits"},
        ),
        (
            "With 8 GPUs on 1 node",
            True,
            {
                "earliest": "2026-11-21T12:00:00Z",
                "latest": "2026-11-21T12:05:00Z",
                "method": "reclaim",
            },
        ),
        ("With a time limit of 1 h", False, None),
        ("With 16 GPUs on 2 nodes", False, None),
    ]


@pytest.mark.parametrize(
    ("own_latest", "first"),
    [
        ("2026-11-21T14:05:00Z", "With 8 GPUs on 1 node"),
        ("2026-11-21T15:00:00Z", "Not all in one rack"),
        # It should have started by now, which nobody would count on any more.
        ("2026-11-21T12:00:00Z", "Not all in one rack"),
    ],
)
def test_what_starts_no_sooner_than_the_job_itself_is_no_help(
    company: Company, bob: User, own_latest: str, first: str
) -> None:
    """It is offered, behind what helps. Planted: what the job itself waits for is not looked at; it
    is, though that is over."""
    occupy(company, bob, 0, 1, 2, 3, time_limit_s=7_200)
    own = {"earliest": None, "latest": own_latest, "method": "time_limits"}
    waiting = a_job(
        company,
        bob,
        mgpu_per_node=8_000,
        node_count=4,
        required_topology="rack",
        explanation={**FREE, "estimated_start": own},
    )
    assert asked(waiting, bob)["items"][0]["label"] == first


def test_all_of_it_elsewhere_comes_before_a_part_of_it_here(company: Company, bob: User) -> None:
    """Both now. Planted: in the order in which they were tried before, in which pools were last."""
    a100 = a_pool("a100")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, a100, 8)
    company.cluster.nodes.filter(name="ai-company-003").update(pool=a100)
    occupy(company, bob, 0, 1)
    held = a_job(company, bob, state="running", mgpu_per_node=4_000)
    an_attempt(held, cluster=company.cluster, nodes=("ai-company-002",), started_at=NOW)
    waiting = a_job(company, bob, mgpu_per_node=8_000, time_limit_s=600, explanation=FREE)
    assert outcomes(asked(waiting, bob))[:2] == [("In pool a100", "now"), ("With 4 GPUs", "now")]


def test_another_pool_and_a_lower_class(company: Company, bob: User) -> None:
    """Planted: a class that is higher."""
    a100, cores = a_pool("a100"), a_pool("cpu", device="cpu")
    for pool in (a100, cores):
        for node in (company.organization, company.research, company.nlp):
            a_quota(node, pool, 8)
    high = a_priority_class(company.organization, "high", order=300)
    PriorityClass.objects.filter(pk=high.pk).update(team_cap_mgpu=1_000)
    a_priority_class(company.organization, "top", order=400)
    company.cluster.nodes.filter(name="ai-company-003").update(pool=a100)
    waiting = a_job(
        company,
        bob,
        mgpu_per_node=2_000,
        time_limit_s=600,
        priority_class=high,
        explanation=explained("class_cap_reached", class_cap_mgpu=1_000, class_in_use_mgpu=0),
    )
    assert outcomes(asked(waiting, bob)) == [
        ("In the priority class normal", "now"),
        ("With 1 GPU", "now"),
        ("In pool a100", "never_fits"),
    ]


@pytest.mark.parametrize(("nodes", "is_offered"), [(1, False), (2, True)])
def test_a_pool_that_is_smaller_than_the_job_is_not_tried(
    company: Company, bob: User, nodes: int, is_offered: bool
) -> None:
    """16 GPUs fit in a pool of two nodes with 8, in one of one node never.

    Planted: every pool of the same devices; only pools that are larger."""
    a100 = a_pool("a100")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, a100, 16)
    company.cluster.nodes.filter(name__gte=f"ai-company-{4 - nodes:03d}").update(pool=a100)
    occupy(company, bob, 0)
    waiting = a_job(
        company, bob, mgpu_per_node=8_000, node_count=2, time_limit_s=600, explanation=FREE
    )
    found = [label for label, _ in outcomes(asked(waiting, bob))]
    assert ("In pool a100" in found) is is_offered


def test_nodes_of_another_size_get_parts_that_they_can_hold(company: Company, bob: User) -> None:
    """Planted: nodes as large as those here."""
    a100 = a_pool("a100")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, a100, 8)
    company.cluster.nodes.filter(name__in=["ai-company-002", "ai-company-003"]).update(
        pool=a100, capacity_mgpu=4_000
    )
    occupy(company, bob, 0, 1)
    waiting = a_job(company, bob, mgpu_per_node=8_000, time_limit_s=600, explanation=FREE)
    assert ("In pool a100 on 2 nodes with 4 GPUs each", "now") in outcomes(asked(waiting, bob))


def test_the_pool_with_the_most_room_says_how_much_would_start(company: Company, bob: User) -> None:
    """Planted: the room of the first pool only, and half or a quarter of the job."""
    a100 = a_pool("a100")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, a100, 8)
    company.cluster.nodes.filter(name="ai-company-003").update(pool=a100)
    occupy(company, bob, 0, 1, 2)
    small = a_job(company, bob, state="running", mgpu_per_node=2_000, pool=a100)
    an_attempt(small, cluster=company.cluster, nodes=("ai-company-003",), started_at=NOW)
    there = {"pool": "a100", "code": "waiting_for_free_gpus", "sentence": "It waits."}
    waiting = a_job(
        company,
        bob,
        mgpu_per_node=8_000,
        time_limit_s=600,
        pools=[company.pool.pk, a100.pk],
        explanation=explained("waiting_for_free_gpus", free_mgpu=0)
        | {"pool": "h100", "elsewhere": [{**there, "numbers": {"free_mgpu": 6_000}}]},
    )
    assert outcomes(asked(waiting, bob)) == [
        ("With 6 GPUs", "now"),
        ("With 4 GPUs", "now"),
        ("With 2 GPUs", "now"),
    ]


def test_a_task_of_an_array_is_asked_for_alone(company: Company, bob: User) -> None:
    occupy(company, bob, 0, 1, 2, 3)
    task = tasks_of(an_array(company, bob, mgpu_per_node=2_000, explanation=FREE))[1]
    request = asked(task, bob)["items"][0]["request"]
    assert (request["name"], request["array"], "type" in request) == ("sweep", "1", False)


def test_what_asking_otherwise_does_not_help(company: Company, bob: User) -> None:
    """Each says why in words. Planted: an empty list and no more."""
    running = occupy(company, bob, 0)
    dependent = a_job(company, bob, explanation=explained("dependency", jobs_waited_for=1))
    Dependency.objects.create(job=dependent, predecessor=running, condition="ended")
    later = explained("begin_time") | {"sentence": "It begins at noon."}
    native = a_job(
        company,
        bob,
        origin="native",
        script="",
        native_id="7",
        cluster=company.cluster,
        explanation=FREE,
    )
    small = a_job(company, bob, time_limit_s=600, explanation=FREE)
    no_help = "No other request would start sooner."
    a_grant(bob, Role.RESEARCHER, company.inference)
    told = {
        running: "It does not wait: it is running.",
        a_job(company, bob, state="held"): f"The job is held until a person releases it. {no_help}",
        dependent: f"It waits until train has ended (it is running). {no_help}",
        a_job(company, bob, explanation=later): f"It begins at noon. {no_help}",
        native: "It was submitted directly to its cluster, so it can be changed only there.",
        a_job(company, bob): "The scheduler has not looked at it yet. Ask again in a few seconds.",
        a_job(
            company, bob, begin_at=NOW + timedelta(hours=1), explanation=FREE
        ): f"It no longer waits for GPUs. {no_help}",
        small: "The request is minimal already: there are no alternatives.",
    }
    for job, sentence in told.items():
        assert asked(job, bob) == {
            "as_of": "2026-11-21T12:00:00Z",
            "sentence": sentence,
            "items": [],
            "untried": 0,
        }


def test_in_quarantine_nothing_helps(company: Company, bob: User) -> None:
    begin_quarantine("restored", since=NOW, now=NOW)
    waiting = a_job(company, bob, mgpu_per_node=4_000, explanation=explained("cluster_unavailable"))
    body = asked(waiting, bob)
    assert body["items"] == []
    assert body["sentence"].startswith("In quarantine since 2026-11-21 12:00:00 UTC")
    assert body["sentence"].endswith("No other request would start sooner.")


def test_who_may_ask(company: Company, bob: User) -> None:
    """Planted: for everybody who may see the job."""
    waiting = a_job(company, bob, mgpu_per_node=2_000, explanation=FREE)
    path = f"jobs/{waiting.pk}/alternatives"
    alice = a_user(company.organization, "alice")
    a_grant(alice, Role.ORGANIZATION_ADMIN, company.organization)
    auditor = a_user(company.organization, "auditor")
    a_grant(auditor, Role.AUDITOR, company.organization)
    stranger = a_user(an_organization("rival"), "dave")
    a_grant(stranger, Role.ORGANIZATION_ADMIN, stranger.organization)
    colleague = a_user(company.organization, "colleague")
    a_grant(colleague, Role.RESEARCHER, company.nlp)
    statuses = {
        user.username: by_token(user).post(path, {}).status_code
        for user in (bob, alice, auditor, stranger, colleague)
    }
    assert statuses == {
        bob.username: 200,
        alice.username: 200,
        "auditor": 403,
        "dave": 404,
        "colleague": 404,
    }
    # Neither is told of a job for which nothing is tried.
    held = a_job(company, bob, state="held")
    assert by_token(auditor).post(f"jobs/{held.pk}/alternatives", {}).status_code == 403


def test_who_may_not_read_the_script_is_told_the_changes_only(company: Company, bob: User) -> None:
    """Finance sees jobs but not what they run, and a researcher may submit. Planted: the script in
    the request."""
    waiting = a_job(company, bob, mgpu_per_node=2_000, explanation=FREE)
    both = a_user(company.organization, "both")
    a_grant(both, Role.FINANCE, company.organization)
    a_grant(both, Role.RESEARCHER, company.nlp)
    items = asked(waiting, both)["items"]
    assert [(one["label"], one["request"]) for one in items][-1] == ("With 1 GPU", None)
    assert items[-1]["changes"] == {"gpus_per_node": 1}
    assert items[-1]["plan"]["would_start_now"]
    assert SCRIPT not in str(items)


def test_one_snapshot_for_all(company: Company, bob: User) -> None:
    """Planted: a dry run for each."""
    waiting = a_job(company, bob, mgpu_per_node=8_000, node_count=2, explanation=FREE)
    with CaptureQueriesContext(connection) as queries:
        assert len(asked(waiting, bob)["items"]) == 3
    reads = [query for query in queries if "FROM jobs_attempt a" in query["sql"]]
    assert len([query for query in reads if "released_at IS NULL" in query["sql"]]) == 1


def test_time_is_bounded(company: Company, bob: User) -> None:
    """Planted: all of them, however long they take."""
    waiting = a_job(company, bob, mgpu_per_node=8_000, node_count=2, explanation=FREE)

    def took(seconds: float) -> Alternatives:
        ticks = iter(range(100))
        return alternatives_to(
            waiting.pk, actor=actor_of(bob), now=NOW, monotonic_s=lambda: next(ticks) * seconds
        )

    slow = took(alternatives.TRYING_S_MAX / 2)
    assert (len(slow.found), slow.untried) == (2, 1)
    assert slow.sentence.endswith(" 1 more was not tried, for lack of time.")
    # At least one is told, and the last cannot come too late.
    assert (len(took(1_000).found), took(alternatives.TRYING_S_MAX / 4).untried) == (1, 0)


def test_one_at_a_time(company: Company, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alternatives, "SEVERAL_CYCLES", replace(SEVERAL_CYCLES, wait_s=0.0))
    waiting = a_job(company, bob, mgpu_per_node=2_000, explanation=FREE)
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [SEVERAL_CYCLES.slots[0]])
        refused = by_token(bob).post(f"jobs/{waiting.pk}/alternatives", {})
        # What needs no arbiter is told all the same.
        held = a_job(company, bob, state="held")
        assert asked(held, bob)["items"] == []
        cursor.execute("SELECT pg_advisory_unlock(%s)", [SEVERAL_CYCLES.slots[0]])
    other.close()
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert asked(waiting, bob)["items"] != []
