"""Jobs over REST: who sees what, what is answered, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from builders.api_callers import as_nobody, by_session, by_token
from builders.job_builders import SCRIPT, a_body, a_job, an_attempt
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_grant,
    a_user,
)
from jobs.models import Job, Reclaim
from jobs.timeline import Happening, record_events
from tenants.models import User
from tenants.roles import Role
from webapi.models import IdempotentAnswer

pytestmark = pytest.mark.django_db

SOMEBODY = "00000000-0000-7000-8000-000000000000"


@dataclass(frozen=True)
class World:
    """Alice administers ai-company, Bob and Dana research in nlp, Charlie administers rival."""

    company: Company
    rival: Company
    alice: User
    bob: User
    dana: User
    charlie: User


@pytest.fixture
def world() -> World:
    company, rival = a_company(), a_company("rival")

    def person(company: Company, name: str, role: Role, *, on_team: bool) -> User:
        user = a_user(company.organization, name)
        a_grant(user, role, company.nlp if on_team else company.organization)
        return user

    return World(
        company,
        rival,
        person(company, "alice", Role.ORGANIZATION_ADMIN, on_team=False),
        person(company, "bob", Role.RESEARCHER, on_team=True),
        person(company, "dana", Role.RESEARCHER, on_team=True),
        person(rival, "charlie", Role.ORGANIZATION_ADMIN, on_team=False),
    )


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [item["name"] for item in answer.json()["items"]]


# -- submitting -------------------------------------------------------------------------------


def test_a_submitted_job_is_answered_whole(world: World) -> None:
    answer = by_token(world.bob).post("jobs", a_body(name="bert", time_limit_s=60))
    assert answer.status_code == 201
    body = answer.json()
    job = Job.objects.get()
    assert body.pop("submitted_at") == job.submitted_at.isoformat().replace("+00:00", "Z")
    assert body == {
        "id": str(job.pk),
        "name": "bert",
        "type": "training",
        "origin": "portal",
        "team": "ai-company/research/nlp",
        "user": "bob",
        "organization": "ai-company",
        "pool": "h100",
        "pools": ["h100"],
        "device": "gpu",
        "state": "queued",
        "priority_class": "normal",
        "mgpu_per_node": 1_000,
        "node_count": 1,
        "mgpu_min": 1_000,
        "node_count_min": 1,
        "begin_at": None,
        "mgpu": 1_000,
        "time_limit_s": 60,
        "is_preemptible": False,
        "is_requeueable": True,
        "checkpoint_path": None,
        "cluster": None,
        "features": [],
        "image": None,
        "required_topology": None,
        "preferred_topology": None,
        "cpus_per_node": None,
        "memory_mib_per_node": None,
        "array": None,
        "started_at": None,
        "ended_at": None,
        "end_reason": None,
        "exit_code": None,
        "attempt": 0,
        "current_attempt": None,
        "explanation": None,
        "usage": {"guaranteed_mgpu_s": 0, "borrowed_mgpu_s": 0},
        "can": ["cancel", "hold"],
        "notes": [],
    }


def test_features_and_image_are_shown_and_listed(world: World) -> None:
    company = world.company
    for node in company.cluster.nodes.all()[:2]:
        node.features = ["nvlink", "ib"]
        node.save()
    caller = by_token(world.bob)
    asked = a_body(features=["nvlink", "ib"], nodes=2, gpus=2)
    job = caller.post("jobs", asked).json()
    Job.objects.filter(pk=job["id"]).update(image="nvcr.io#nvidia/x:1")
    shown = {"features": ["ib", "nvlink"], "image": "nvcr.io#nvidia/x:1"}
    for found in (caller.get(f"jobs/{job['id']}").json(), caller.get("jobs").json()["items"][0]):
        assert {name: found[name] for name in shown} == shown
    Job.objects.filter(pk=job["id"]).update(required_topology="rack")
    found = caller.get(f"jobs/{job['id']}").json()
    assert (found["required_topology"], found["preferred_topology"]) == ("rack", None)
    refused = caller.post("jobs", a_body(features=["gold"]))
    assert (refused.status_code, refused.json()["code"]) == (400, "never_fits")
    assert refused.json()["detail"] == (
        "1 GPU of h100 can never run: no node of pool h100 has the feature gold."
    )
    no_image = caller.post("jobs", a_body(image="x:1"))
    assert no_image.status_code == 400
    assert [error["pointer"] for error in no_image.json()["errors"]] == ["/image"]


def test_from_a_browser_too(world: World) -> None:
    assert by_session(world.bob).post("jobs", a_body()).status_code == 201


def test_an_answer_stored_before_there_were_arrays_is_replayed(world: World) -> None:
    """Planted: `array` taken for granted, which is an error 500 for the repeat; dies here."""
    caller = by_token(world.bob)
    caller.post("jobs", a_body(), Idempotency_Key="old")
    stored = IdempotentAnswer.objects.get()
    del stored.body["array"]
    stored.save()
    again = caller.post("jobs", a_body(), Idempotency_Key="old")
    assert (again.status_code, again.json()) == (201, stored.body)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Location" not in again.headers


def test_an_idempotency_key_makes_one_job(world: World) -> None:
    caller = by_token(world.bob)
    first = caller.post("jobs", a_body(), Idempotency_Key="k1")
    again = caller.post("jobs", a_body(), Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    other = caller.post("jobs", a_body(gpus=2), Idempotency_Key="k1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert by_token(world.dana).post("jobs", a_body(), Idempotency_Key="k1").status_code == 201
    assert Job.objects.count() == 2


def test_a_refused_request_may_be_sent_again_under_its_key(world: World) -> None:
    caller = by_token(world.bob)
    assert caller.post("jobs", a_body(gpus=999), Idempotency_Key="k").status_code == 400
    assert caller.post("jobs", a_body(gpus=1), Idempotency_Key="k").status_code == 201


@pytest.mark.parametrize(
    ("changes", "status", "code", "pointers"),
    [
        ({"team": "ai-company/nowhere"}, 404, "not_found", ["/team"]),
        ({"team": "rival/research/nlp"}, 404, "not_found", ["/team"]),
        ({"team": "ai-company/research/vision"}, 403, "forbidden", None),
        ({"team": "ai-company/research"}, 403, "forbidden", None),
        ({"pool": "tpu"}, 400, "invalid_request", ["/pool"]),
        ({"priority_class": "urgent"}, 400, "invalid_request", ["/priority_class"]),
        ({"cluster": "moon"}, 400, "invalid_request", ["/cluster"]),
        ({"gpus": 33}, 400, "never_fits", ["/gpus"]),
        ({"gpus": 10**20}, 400, "invalid_request", ["/gpus"]),
        ({"gpus": "8", "nodes": True}, 400, "invalid_request", ["/gpus", "/nodes"]),
        ({"name": "x\n#SBATCH --account=other"}, 400, "invalid_request", ["/name"]),
        ({"environment": {"A\nB": "x"}}, 400, "invalid_request", ["/environment/A\nB"]),
        ({"script": "x" * 1_048_577}, 400, "invalid_request", ["/script"]),
        ({"script": ..., "sbatch": "#SBATCH -b now\nx"}, 400, "invalid_request", ["/sbatch"]),
    ],
)
def test_bad_requests_change_nothing(
    world: World, changes: dict[str, Any], status: int, code: str, pointers: list[str] | None
) -> None:
    answer = by_token(world.bob).post("jobs", a_body(**changes))
    assert (answer.status_code, answer.headers["Content-Type"]) == (
        status,
        "application/problem+json",
    )
    body = answer.json()
    assert body["code"] == code
    if pointers is not None:
        assert [error["pointer"] for error in body["errors"]] == pointers
    assert not Job.objects.exists()
    assert not AuditEvent.objects.filter(action="job_submitted").exists()


def test_who_may_submit(world: World) -> None:
    assert as_nobody().post("jobs", a_body()).status_code == 401
    assert by_token(world.charlie).post("jobs", a_body()).status_code == 404
    assert by_token(world.bob, ["read"]).post("jobs", a_body()).status_code == 403
    assert by_token(world.bob, ["jobs"]).post("jobs", a_body()).status_code == 201
    assert by_token(world.alice).post("jobs", a_body()).status_code == 201
    assert Job.objects.count() == 2


# -- seeing -----------------------------------------------------------------------------------


def test_everybody_sees_their_own_jobs_and_leads_those_of_their_teams(world: World) -> None:
    a_job(world.company, world.bob, name="of bob")
    a_job(world.company, world.dana, name="of dana")
    a_job(world.rival, world.charlie, name="of charlie")
    assert names(by_token(world.bob).get("jobs")) == ["of bob"]
    assert names(by_token(world.dana).get("jobs")) == ["of dana"]
    assert names(by_token(world.alice).get("jobs")) == ["of dana", "of bob"]
    assert names(by_token(world.charlie).get("jobs")) == ["of charlie"]
    assert as_nobody().get("jobs").status_code == 401


@pytest.mark.parametrize(
    "path", ["", "/explanation", "/attempts", "/history", "/logs", "/cancel", "/hold", "/release"]
)
def test_a_foreign_job_looks_absent(world: World, path: str) -> None:
    job = a_job(world.company, world.bob)
    before = Job.objects.values().get()
    for caller in (by_token(world.charlie), by_token(world.dana), by_session(world.charlie)):
        answers = [
            caller.post(f"jobs/{pk}{path}", None)
            if path in {"/cancel", "/hold", "/release"}
            else caller.get(f"jobs/{pk}{path}")
            for pk in (job.pk, SOMEBODY)
        ]
        assert [answer.status_code for answer in answers] == [404, 404]
        bodies = [answer.json() for answer in answers]
        for body in bodies:
            body.pop("request_id")
        assert bodies[0] == bodies[1]
    assert Job.objects.values().get() == before


def test_content_is_for_owner_and_holders_of_the_right(world: World) -> None:
    job = a_job(world.company, world.bob, notice_signal="USR1")
    finance = a_user(world.company.organization, "finance")
    a_grant(finance, Role.FINANCE, world.company.organization)
    auditor = a_user(world.company.organization, "auditor")
    a_grant(auditor, Role.AUDITOR, world.company.organization)
    for caller, sees in (
        (by_token(world.bob), True),
        (by_token(world.alice), True),
        (by_token(world.bob, ["jobs"]), True),
        (by_token(world.bob, ["reports"]), False),
        (by_token(world.alice, ["reports"]), False),
        (by_token(finance), False),
        (by_token(auditor), False),
    ):
        answer = caller.get(f"jobs/{job.pk}")
        assert answer.status_code == 200
        body = answer.json()
        assert (body["script"], body["environment"]) == (
            (SCRIPT, {"SEED": "1"}) if sees else (None, None)
        )
        assert body["notice_signal"] == "USR1"
        assert caller.get(f"jobs/{job.pk}/logs").status_code == (404 if sees else 403)
    assert by_token(world.bob, ["quotas"]).get(f"jobs/{job.pk}").status_code == 404


def test_a_platform_administrator_who_reads_content_is_recorded_once(world: World) -> None:
    root = a_user(None, "root")
    a_grant(root, Role.PLATFORM_ADMIN, None)
    job = a_job(world.company, world.bob)
    caller = by_token(root)
    for _ in range(3):
        assert caller.get(f"jobs/{job.pk}").json()["script"] == SCRIPT
    caller.get("jobs")
    by_token(world.alice).get(f"jobs/{job.pk}")
    event = AuditEvent.objects.get(action="content_read")
    assert (event.actor, event.subject_id, event.detail, event.organization_id) == (
        "root",
        str(job.pk),
        {"what": "script"},
        world.company.organization.pk,
    )


def test_actions_that_are_offered(world: World) -> None:
    running = a_job(world.company, world.bob, state="running")
    an_attempt(running, cluster=world.company.cluster)
    offered = {
        state: by_token(world.bob)
        .get(f"jobs/{a_job(world.company, world.bob, state=state).pk}")
        .json()["can"]
        for state in ("held", "queued", "succeeded")
    }
    offered["running"] = by_token(world.bob).get(f"jobs/{running.pk}").json()["can"]
    assert offered == {
        "held": ["cancel", "release"],
        "queued": ["cancel", "hold"],
        "succeeded": [],
        "running": ["cancel", "logs"],
    }
    assert by_token(world.bob, ["read"]).get(f"jobs/{running.pk}").json()["can"] == ["logs"]


# -- lists ------------------------------------------------------------------------------------


def test_pages_in_both_orders(world: World) -> None:
    for number in range(5):
        a_job(world.company, world.bob, name=f"job-{number}")
    caller = by_token(world.bob)
    for sort, expected in (
        ("-submitted_at", ["job-4", "job-3", "job-2", "job-1", "job-0"]),
        ("submitted_at", ["job-0", "job-1", "job-2", "job-3", "job-4"]),
    ):
        path, seen, pages = f"jobs?limit=2&sort={sort}", [], 0
        while path:
            answer = caller.get(path)
            seen += names(answer)
            pages += 1
            path = (answer.json()["next"] or "").removeprefix("/api/v1/")
        assert (seen, pages) == (expected, 3)


def test_filters(world: World) -> None:
    company = world.company
    vision_job = {"team": company.vision}
    hour = timedelta(hours=1)
    a_job(company, world.bob, name="alpha_1", state="queued")
    a_job(company, world.dana, name="Beta%", state="running", submitted_at=NOW + hour)
    a_job(company, world.bob, name="gamma", state="failed", submitted_at=NOW + 2 * hour)
    a_job(company, world.alice, name="delta", submitted_at=NOW + 3 * hour, **vision_job)
    caller = by_token(world.alice)
    for query, expected in (
        ("state=queued", ["delta", "alpha_1"]),
        ("state=queued,failed", ["delta", "gamma", "alpha_1"]),
        ("team=ai-company/research/nlp", ["gamma", "Beta%", "alpha_1"]),
        ("team=ai-company/research/nlp/", ["gamma", "Beta%", "alpha_1"]),
        ("team=ai-company/research", ["delta", "gamma", "Beta%", "alpha_1"]),
        ("team=ai-company/production", []),
        ("user=bob", ["gamma", "alpha_1"]),
        ("user=nobody", []),
        ("pool=h100", ["delta", "gamma", "Beta%", "alpha_1"]),
        ("pool=none", []),
        ("q=beta", ["Beta%"]),
        ("q=%25", ["Beta%"]),
        ("q=_", ["alpha_1"]),
        ("submitted_at__gte=2026-11-21T14:00:00Z", ["delta", "gamma"]),
        ("submitted_at__lt=2026-11-21T13:00:00Z", ["alpha_1"]),
        ("submitted_at__lt=2026-11-21T14:00:00%2B01:00", ["alpha_1"]),
        ("user=bob&state=failed", ["gamma"]),
    ):
        assert names(caller.get(f"jobs?{query}")) == expected, query


def test_filter_by_usage_class(world: World) -> None:
    for name, guaranteed, state in (
        ("inside", 1_000, "running"),
        ("part", 400, "running"),
        ("outside", 0, "running"),
    ):
        job = a_job(world.company, world.bob, name=name, state=state)
        an_attempt(job, cluster=world.company.cluster, guaranteed_mgpu=guaranteed)
    gone = a_job(world.company, world.bob, name="gone", state="succeeded")
    an_attempt(gone, cluster=world.company.cluster, state="ended", ended_at=NOW, released_at=NOW)
    a_job(world.company, world.bob, name="waits")
    caller = by_token(world.bob)
    assert names(caller.get("jobs?usage_class=guaranteed")) == ["inside"]
    assert names(caller.get("jobs?usage_class=borrowed")) == ["outside", "part"]


def test_native_jobs_are_marked_and_found(world: World) -> None:
    """No log, and nothing to hold or release; its lead may cancel it."""
    a_job(world.company, world.bob, name="ours")
    native = a_job(
        world.company, world.bob, name="theirs", state="running", origin="native", script=""
    )
    native.attempt_number = 1
    native.save()
    an_attempt(native, cluster=world.company.cluster)
    caller = by_token(world.bob)
    assert names(caller.get("jobs?origin=native")) == ["theirs"]
    assert names(caller.get("jobs?origin=portal")) == ["ours"]
    body = caller.get(f"jobs/{native.pk}").json()
    assert (body["origin"], body["can"], body["script"]) == ("native", ["cancel"], "")
    log = caller.get(f"jobs/{native.pk}/logs")
    assert (log.status_code, log.json()["detail"]) == (
        404,
        "The log is not available here: the job was given to its cluster beside the portal. "
        "Its user finds it where they had it written.",
    )


@pytest.mark.parametrize(
    "query",
    [
        "state=busy",
        "state=",
        "state=queued,,running",
        "state=queued&state=running",
        "team=rival",
        "team=rival/research/nlp",
        "team=nowhere",
        "team=",
        "user=",
        "q=",
        f"q={'x' * 1001}",
        "q=%00",
        "user=a%00b",
        "usage_class=free",
        "origin=slurm",
        "origin=",
        "sort=name",
        "limit=0",
        "limit=501",
        "limit=abc",
        "limit=99999999999999999999",
        "limit=-1",
        "cursor=abc",
        "cursor=WyJ4Il0",
        "cursor=%00",
        "submitted_at__gte=yesterday",
        "submitted_at__lt=2026-11-21T12:00:00",
        "submitted_at__lt=0001-01-01T00:00:00%2B14:00",
        "statee=queued",
        "page=2",
    ],
)
def test_bad_queries_are_refused(world: World, query: str) -> None:
    answer = by_token(world.bob).get(f"jobs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert answer.json()["errors"]


def test_a_page_costs_the_same_queries_whatever_its_size(world: World) -> None:
    reclaimer = a_job(
        world.company,
        world.alice,
        name="reclaimer",
        explanation={"code": "waiting_for_reclaim"},
        explained_at=NOW,
    )
    claim = Reclaim.objects.create(
        job=reclaimer,
        cluster=world.company.cluster,
        slots=[],
        created_at=NOW,
        grace_until=NOW,
    )
    caller = by_token(world.alice)

    def count() -> int:
        caller.get("jobs")
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert caller.get("jobs?limit=500").status_code == 200
        assert not any("COUNT(" in query["sql"].upper() for query in queries)
        assert not any('"script"' in query["sql"] for query in queries)
        return len(queries)

    def add(number: int) -> None:
        for index in range(number):
            job = a_job(world.company, world.bob, state="preempting", name=f"job-{index}")
            an_attempt(job, cluster=world.company.cluster, reclaim=claim)

    add(1)
    few = count()
    add(20)
    assert count() == few == 4


# -- explanation ------------------------------------------------------------------------------


def test_what_a_waiting_job_says(world: World) -> None:
    stored = {
        "code": "waiting_for_reclaim",
        "sentence": "It waits.",
        "numbers": {"need_mgpu": 8_000},
        "node": "ai-company/research/nlp",
        "jobs_ahead": 0,
        "estimated_start": {
            "earliest": None,
            "latest": "2026-11-21T12:05:00Z",
            "method": "reclaim",
        },
        "as_of": "2026-11-21T12:00:00Z",
    }
    waiting = a_job(world.company, world.bob, name="waits", explanation=stored, explained_at=NOW)
    claim = Reclaim.objects.create(
        job=waiting, cluster=world.company.cluster, slots=[], created_at=NOW, grace_until=NOW
    )
    later = NOW + timedelta(minutes=5)
    victims = []
    for company, user, team in (
        (world.company, world.bob, world.company.nlp),
        (world.company, world.alice, world.company.inference),
        (world.rival, world.charlie, world.rival.nlp),
    ):
        job = a_job(company, user, team=team, name=f"of {user.username}", state="preempting")
        an_attempt(
            job,
            cluster=company.cluster,
            state="stopping",
            stop_reason="preempted",
            reclaim=claim,
            notice_at=NOW,
            grace_until=later,
        )
        victims.append(job)

    def victim(job: Job | None, team: str | None) -> dict[str, Any]:
        return {
            "job": None if job is None else str(job.pk),
            "name": None if job is None else job.name,
            "team": team,
            "mgpu": 1_000,
            "notice_at": "2026-11-21T12:00:00Z",
            "grace_until": "2026-11-21T12:05:00Z",
        }

    nlp, inference = "ai-company/research/nlp", "ai-company/production/inference"
    body = by_token(world.bob).get(f"jobs/{waiting.pk}/explanation").json()
    assert body == {
        **stored,
        "pool": None,
        "elsewhere": [],
        "victims": [victim(victims[0], nlp), victim(None, inference), victim(None, None)],
    }
    assert by_token(world.bob).get(f"jobs/{waiting.pk}").json()["explanation"] == body
    assert by_token(world.alice).get(f"jobs/{waiting.pk}/explanation").json()["victims"] == [
        victim(victims[0], nlp),
        victim(victims[1], inference),
        victim(None, None),
    ]

    def beneficiary(user: User, job: Job) -> str | None:
        shown = by_token(user).get(f"jobs/{job.pk}/attempts").json()["items"]
        return str(shown[0]["beneficiary"]) if shown[0]["beneficiary"] else None

    assert beneficiary(world.bob, victims[0]) == str(waiting.pk)
    assert beneficiary(world.charlie, victims[2]) is None


@pytest.mark.parametrize(
    ("state", "code", "in_job"),
    [
        ("held", "held_by_user", True),
        ("queued", "not_yet_decided", False),
        ("starting", "dispatching", True),
        ("running", "not_waiting", False),
        ("succeeded", "not_waiting", False),
    ],
)
def test_every_state_explains_itself(world: World, state: str, code: str, in_job: bool) -> None:
    job = a_job(world.company, world.bob, state=state)
    caller = by_token(world.bob)
    body = caller.get(f"jobs/{job.pk}/explanation").json()
    assert (body["code"], body["victims"]) == (code, [])
    assert body["sentence"].endswith(".")
    shown = caller.get(f"jobs/{job.pk}").json()["explanation"]
    assert (shown is not None and shown["code"] == code) == in_job


def test_who_has_ended_is_not_said_to_be_it(world: World) -> None:
    """Planted: "it is timed_out"."""
    job = a_job(world.company, world.bob, state="timed_out")
    body = by_token(world.bob).get(f"jobs/{job.pk}/explanation").json()
    assert body["sentence"] == "It does not wait: it has ended (timed out)."


# -- attempts and history ---------------------------------------------------------------------


def test_attempts_first_to_last(world: World) -> None:
    job = a_job(world.company, world.bob, state="running", mgpu_per_node=2_000, node_count=2)
    cluster = world.company.cluster
    an_attempt(
        job,
        cluster=cluster,
        number=1,
        state="ended",
        ended_at=NOW,
        released_at=NOW,
        outcome="failed",
        exit_codes={"0": 3, "1": -9},
    )
    second = an_attempt(
        job, cluster=cluster, number=2, guaranteed_mgpu=1_000, nodes=("n1", "n2"), started_at=NOW
    )
    items = by_token(world.bob).get(f"jobs/{job.pk}/attempts").json()["items"]
    assert [(item["number"], item["exit_codes"]) for item in items] == [
        (1, {"0": 3, "1": -9}),
        (2, {}),
    ]
    assert items[1] == {
        "id": str(second.pk),
        "number": 2,
        "cluster": "local",
        "state": "running",
        "native_id": None,
        "native_state": "",
        "slots": [{"node": "n1", "mgpu": 2_000}, {"node": "n2", "mgpu": 2_000}],
        "granted_at": "2026-11-21T12:00:00Z",
        "started_at": "2026-11-21T12:00:00Z",
        "checkpoint_at": None,
        "notice_at": None,
        "grace_until": None,
        "ended_at": None,
        "released_at": None,
        "outcome": None,
        "exit_codes": {},
        "mgpu": 4_000,
        "guaranteed_mgpu": 1_000,
        "borrowed_mgpu": 3_000,
        "message": "",
        "beneficiary": None,
    }
    assert by_token(world.bob).get(f"jobs/{job.pk}").json()["current_attempt"] == items[1]


def test_a_requeued_job_has_no_current_attempt(world: World) -> None:
    job = a_job(world.company, world.bob)
    an_attempt(job, cluster=world.company.cluster, state="ended", ended_at=NOW, released_at=NOW)
    body = by_token(world.bob).get(f"jobs/{job.pk}").json()
    assert (body["attempt"], body["current_attempt"]) == (1, None)


def test_history(world: World) -> None:
    job = a_job(world.company, world.bob)
    record_events(
        [
            Happening(job.pk, NOW, "submitted", {"by": "bob"}),
            Happening(job.pk, NOW + timedelta(seconds=5), "held"),
        ]
    )
    assert by_token(world.bob).get(f"jobs/{job.pk}/history").json() == {
        "items": [
            {"at": "2026-11-21T12:00:00Z", "event": "submitted", "detail": {"by": "bob"}},
            {"at": "2026-11-21T12:00:05Z", "event": "held", "detail": {}},
        ]
    }


def test_history_names_what_the_caller_may_see(world: World) -> None:
    job = a_job(world.company, world.bob)
    teams = (world.company.inference, world.rival.nlp)
    record_events(
        [
            Happening(job.pk, NOW, "granted", {"cluster": str(world.company.cluster.pk)}),
            *(Happening(job.pk, NOW, "preempting", {"for_team": str(t.pk)}) for t in teams),
        ]
    )
    items = by_token(world.bob).get(f"jobs/{job.pk}/history").json()["items"]
    assert [item["detail"] for item in items] == [
        {"cluster": "local"},
        {"for_team": "ai-company/production/inference"},
        {"for_team": None},
    ]


# -- cancel, hold, release --------------------------------------------------------------------


def test_hold_release_cancel(world: World) -> None:
    job = a_job(world.company, world.bob)
    caller = by_token(world.bob)
    for action, state in (
        ("hold", "held"),
        ("hold", "held"),
        ("release", "queued"),
        ("cancel", "cancelled"),
        ("cancel", "cancelled"),
    ):
        answer = caller.post(f"jobs/{job.pk}/{action}", {})
        assert (answer.status_code, answer.json()["state"]) == (200, state)
    refused = caller.post(f"jobs/{job.pk}/release", None)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert caller.post(f"jobs/{job.pk}/cancel", {"force": True}).status_code == 400
    assert caller.post(f"jobs/{job.pk}/cancel?now=1", None).status_code == 400
    assert by_token(world.bob, ["read"]).post(f"jobs/{job.pk}/hold", None).status_code == 403
