"""Jobs over REST: submitted, seen by whom, held and cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import as_nobody, by_session, by_token
from builders.job_builders import SCRIPT, a_body, a_job, an_attempt
from builders.jobs_world import World, names
from builders.portal_builders import (
    a_grant,
    a_user,
)
from builders.stored_members import STORED
from jobs.models import Job
from tenants.roles import Role
from webapi.models import IdempotentAnswer

pytestmark = pytest.mark.django_db


SOMEBODY = "00000000-0000-7000-8000-000000000000"


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
        "mgpu": 1_000,
        **STORED,
        "time_limit_s": 60,
        "cluster": None,
        "array": None,
        "started_at": None,
        "ended_at": None,
        "end_reason": None,
        "exit_code": None,
        "exit_code_meaning": None,
        "attempt": 0,
        "current_attempt": None,
        "notice_handling": None,
        "explanation": None,
        "usage": {"guaranteed_mgpu_s": 0, "borrowed_mgpu_s": 0},
        "can": ["cancel", "extend", "hold"],
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
        ({"script": ..., "sbatch": "#SBATCH -b soon\nx"}, 400, "invalid_request", ["/sbatch"]),
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
    """Planted: the lines of the script in the notes, for those who may not read it."""
    note = {"line": 2, "text": "python --key=s3cret", "verdict": "warning", "detail": "No python."}
    job = a_job(world.company, world.bob, notice_signal="USR1", notes=[note])
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
        assert body["notes"] == [note if sees else {**note, "text": ""}]
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
        "running": ["cancel", "requeue", "logs"],
    }
    assert by_token(world.bob, ["read"]).get(f"jobs/{running.pk}").json()["can"] == ["logs"]


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
