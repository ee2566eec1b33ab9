"""Schedules over HTTP: creation, plan, CronJobs, suspension, end."""

from __future__ import annotations

from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.connector_builders import change_kind
from builders.job_builders import SCRIPT, a_body
from builders.portal_builders import Company, a_grant, a_user
from builders.schedule_builders import FIRST, a_schedule
from clusters.models import Cluster
from connectors.kinds import ManifestTrial
from jobs.models import Schedule, ScheduleRun
from jobs.recurring import schedules
from jobs.recurring.cron import next_moments
from jobs.recurring.runs import submit_due_runs
from primitives.clock import SystemClock
from quotas.models import OrganizationPolicy
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: nightly
spec:
  schedule: 0 2 * * *
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 30
  failedJobsHistoryLimit: 1
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: main
            image: registry.example.com/train:1
            args: ["1e3", "yes"]
            resources:
              limits:
                nvidia.com/gpu: 1
"""


@pytest.fixture
def caller(bob: User) -> Caller:
    return by_token(bob)


@pytest.fixture
def kubernetes(company: Company, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Company:
    """The company on a cluster of Kubernetes that would refuse nothing."""
    settings.KUBECONFIGS = ("/etc/x",)
    change_kind(monkeypatch, "kubernetes", try_manifest=lambda *_: ManifestTrial())
    options = {"kubeconfig": "/etc/x", "pools": {"h100": {"node_selector": {}}}}
    Cluster.objects.update(kind="kubernetes", options=options, seen_at=SystemClock().now())
    return company


def asked(**changes: Any) -> dict[str, Any]:
    found = {"cron": "0 3 * * *", "request": a_body(name="nightly"), **changes}
    return {name: value for name, value in found.items() if value is not ...}


def of_manifest(text: str = CRON_JOB, **changes: Any) -> dict[str, Any]:
    request = {"team": "ai-company/research/nlp", "manifest": text, "pool": "h100"}
    return asked(cron=..., request=request, **changes)


def errors_of(answer: Any) -> list[tuple[str, str]]:
    assert answer.status_code == 400, answer.content
    return [(one["pointer"], one["detail"]) for one in answer.json()["errors"]]


def test_a_schedule_has_the_time_zone_of_its_organization(
    company: Company, bob: User, caller: Caller
) -> None:
    """Planted: UTC."""
    OrganizationPolicy.objects.update(time_zone="Europe/Berlin")
    answer = caller.post("schedules", asked())
    assert answer.status_code == 201, answer.content
    found = answer.json()
    stored = Schedule.objects.get()
    assert stored.next_at is not None
    (coming,) = next_moments("0 3 * * *", "Europe/Berlin", after=stored.created_at, count=1)
    assert stored.next_at == coming
    assert stored.request == {"gpus": 1, "script": SCRIPT, "name": "nightly"}
    assert found == {
        "id": str(stored.pk),
        "name": "nightly",
        "team": "ai-company/research/nlp",
        "user": "bob",
        "organization": "ai-company",
        "cron": "0 3 * * *",
        "time_zone": "Europe/Berlin",
        "concurrency_policy": "allow",
        "starting_deadline_s": None,
        "is_suspended": False,
        "suspended_because": None,
        "next_at": f"{coming:%Y-%m-%dT%H:%M:%SZ}",
        "last_run": None,
        "created_at": f"{stored.created_at:%Y-%m-%dT%H:%M:%SZ}",
        "ended_at": None,
        "can": ["suspend", "delete"],
        "notes": [],
    }
    event = AuditEvent.objects.get(subject_id=str(stored.pk))
    assert (event.action, event.detail) == (
        "schedule_created",
        {"name": "nightly", "cron": "0 3 * * *", "time_zone": "Europe/Berlin"},
    )


def test_the_same_key_creates_one_schedule(company: Company, caller: Caller) -> None:
    for _ in range(2):
        assert caller.post("schedules", asked(), Idempotency_Key="k").status_code == 201
    assert Schedule.objects.count() == 1


def test_a_plan_has_the_next_runs_and_the_plan_of_one(company: Company, caller: Caller) -> None:
    answer = caller.post("schedules?dry_run=true", asked(concurrency_policy="replace"))
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert found["concurrency_policy"] == "replace"
    assert [moment[10:] for moment in found["next_runs"]] == ["T03:00:00Z"] * 3
    assert found["plan"]["job"]["name"] == "nightly"
    assert found["plan"]["fits"] is True
    assert Schedule.objects.count() == 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (
            {"cron": ...},
            ("/cron", "is required, such as 0 3 * * *, unless the manifest is a CronJob"),
        ),
        (
            {"cron": "61 * * * *"},
            ("/cron", "has a wrong minute; write it as in crontab, such as 0 3 * * *"),
        ),
        (
            {"time_zone": "Berlin"},
            ("/time_zone", "must be an IANA name of a time zone, such as Europe/Berlin"),
        ),
        ({"starting_deadline_s": 59}, ("/starting_deadline_s", "must be at least 60")),
        (
            {"request": a_body(begin_at="2026-12-01T00:00:00Z")},
            (
                "/request/begin_at",
                "is not given in a schedule, whose runs begin at its times; leave it out",
            ),
        ),
        (
            {"request": a_body(gpus=...)},
            (
                "/request/gpus",
                "is required (or gpus_per_node and nodes; in a pool of CPU cores cpus_per_node)",
            ),
        ),
    ],
)
def test_each_refusal_names_its_member(
    company: Company, caller: Caller, changes: dict[str, Any], error: tuple[str, str]
) -> None:
    """Planted: members of the job request without `/request` before them."""
    for path in ("schedules", "schedules?dry_run=true"):
        assert error in errors_of(caller.post(path, asked(**changes)))
    assert Schedule.objects.count() == 0


def test_a_cron_job_says_itself_when_its_runs_are_due(
    kubernetes: Company, bob: User, caller: Caller
) -> None:
    """Its run is the Job of its template. Against: texts that look like numbers without quotes."""
    answer = caller.post("schedules", of_manifest())
    assert answer.status_code == 201, answer.content
    found = answer.json()
    assert (found["name"], found["cron"], found["time_zone"], found["concurrency_policy"]) == (
        "nightly",
        "0 2 * * *",
        "Europe/Berlin",
        "forbid",
    )
    assert found["starting_deadline_s"] == 60
    notes = [(note["line"], note["text"], note["detail"]) for note in found["notes"]]
    assert (
        10,
        "document 1, CronJob: spec.failedJobsHistoryLimit",
        "the portal keeps every job of it",
    ) in notes
    assert (
        0,
        "spec.startingDeadlineSeconds",
        "the starting deadline is 1m, the least here",
    ) in notes
    schedule = Schedule.objects.get()
    assert schedule.next_at is not None
    submit_due_runs(now=schedule.next_at)
    run = ScheduleRun.objects.get()
    assert (run.outcome, run.reason) == ("submitted", "")
    assert run.job is not None
    assert (run.job.name, run.job.launch, run.job.mgpu) == ("nightly", "manifest", 1_000)
    assert 'args:\n      - "1e3"\n' in run.job.script.replace("        - ", "      - ")
    assert "kind: Job\n" in run.job.script


def test_lines_are_those_of_the_cron_job_as_it_was_given(
    kubernetes: Company, caller: Caller
) -> None:
    """Planted: the lines of the stored Job."""
    text = CRON_JOB.replace(
        "          restartPolicy: Never\n", "          restartPolicy: Never\n          foo: 1\n"
    ).replace("          foo: 1\n", "          hostNetwork: true\n")
    ((pointer, detail),) = errors_of(caller.post("schedules", of_manifest(text)))
    assert pointer == "/request/manifest"
    assert detail.startswith("line 16: document 1, Job: spec.template.spec.hostNetwork: ")


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        (
            "concurrencyPolicy: Forbid",
            "concurrencyPolicy: Never",
            "line 8: document 1, CronJob: spec.concurrencyPolicy: must be one of Allow, Forbid, "
            "Replace",
        ),
        (
            "  schedule: 0 2 * * *\n",
            "",
            "line 5: document 1, CronJob: spec.schedule: is required, such as 0 3 * * *",
        ),
        (
            "  concurrencyPolicy: Forbid",
            "  colour: red",
            "line 8: document 1, CronJob: spec.colour: is no field of a CronJob; remove it",
        ),
        (
            "apiVersion: batch/v1",
            "apiVersion: batch/v1beta1",
            "line 1: document 1, CronJob: apiVersion: must be batch/v1",
        ),
    ],
)
def test_a_wrong_cron_job_is_refused_with_its_line(
    kubernetes: Company, caller: Caller, old: str, new: str, detail: str
) -> None:
    errors = errors_of(caller.post("schedules", of_manifest(CRON_JOB.replace(old, new))))
    assert errors == [("/request/manifest", detail)]


def test_nothing_of_the_schedule_is_given_beside_a_cron_job(
    kubernetes: Company, caller: Caller
) -> None:
    answer = caller.post("schedules", {**of_manifest(), "cron": "0 3 * * *"})
    assert errors_of(answer) == [
        ("/cron", "is not given beside a CronJob; change it in the manifest")
    ]


def test_a_cron_job_is_no_job(kubernetes: Company, caller: Caller) -> None:
    ((_, detail),) = errors_of(caller.post("jobs", of_manifest()["request"]))
    assert "is a schedule and no job; give it to POST /api/v1/schedules" in detail


def test_a_user_has_a_bounded_number_of_schedules(
    company: Company, bob: User, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: deleted ones count, too."""
    monkeypatch.setattr(schedules, "SCHEDULES_PER_USER_MAX", 2)
    assert [caller.post("schedules", asked()).status_code for _ in range(3)] == [201, 201, 429]
    caller.delete(f"schedules/{Schedule.objects.earliest('pk').pk}")
    assert caller.post("schedules", asked()).status_code == 201


def test_suspend_and_resume(company: Company, bob: User, caller: Caller) -> None:
    """Against: after it was resumed, the moment at which it was suspended was due at once."""
    schedule = a_schedule(company, bob)
    path = f"schedules/{schedule.pk}"
    found = caller.patch(path, {"is_suspended": True}).json()
    assert (found["is_suspended"], found["next_at"], found["next_runs"], found["can"]) == (
        True,
        None,
        [],
        ["resume", "delete"],
    )
    assert submit_due_runs(now=FIRST) == 0
    before = SystemClock().now()
    found = caller.patch(path, {"is_suspended": False}).json()
    schedule.refresh_from_db()
    assert schedule.next_at is not None
    assert schedule.next_at > before
    assert len(found["next_runs"]) == 3
    assert found["next_at"] == found["next_runs"][0]
    assert caller.patch(path, {"is_suspended": False}).json() == found
    actions = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["schedule_suspended", "schedule_resumed"]


def test_a_deleted_schedule_has_no_runs_and_keeps_its_jobs(
    company: Company, bob: User, caller: Caller
) -> None:
    schedule = a_schedule(company, bob)
    submit_due_runs(now=FIRST)
    path = f"schedules/{schedule.pk}"
    assert [caller.delete(path).status_code for _ in range(2)] == [204, 204]
    assert submit_due_runs(now=FIRST.replace(year=2027)) == 0
    assert caller.get("schedules").json()["items"] == []
    found = caller.get(path).json()
    assert (found["can"], found["last_run"]["job"]["state"]) == ([], "queued")
    assert caller.patch(path, {"is_suspended": True}).status_code == 409


def test_runs_are_listed_newest_first(company: Company, bob: User, caller: Caller) -> None:
    schedule = a_schedule(company, bob, concurrency_policy="forbid")
    submit_due_runs(now=FIRST)
    submit_due_runs(now=FIRST.replace(hour=14))
    found = caller.get(f"schedules/{schedule.pk}/runs").json()["items"]
    job = found[1]["job"]
    assert found == [
        {
            "scheduled_at": "2026-11-21T14:00:00Z",
            "at": "2026-11-21T14:00:00Z",
            "outcome": "skipped",
            "reason": f"The run before it has not ended: job {job['id']}.",
            "job": None,
        },
        {
            "scheduled_at": "2026-11-21T13:00:00Z",
            "at": "2026-11-21T13:00:00Z",
            "outcome": "submitted",
            "reason": None,
            "job": {"id": job["id"], "name": "hourly", "state": "queued"},
        },
    ]
    (listed,) = caller.get("schedules?team=research&user=bob").json()["items"]
    assert listed["last_run"] == found[0]
    assert caller.get("schedules?team=ai-company/production").json()["items"] == []


def test_a_job_names_its_schedule(company: Company, bob: User, caller: Caller) -> None:
    """Against: the first task of an array alone."""
    single = a_schedule(company, bob)
    several = a_schedule(company, bob, request={**single.request, "array": "0-1"}, name="sweep")
    submit_due_runs(now=FIRST)
    found = {
        (one["name"], one["schedule"]["id"], one["schedule"]["name"])
        for one in (
            caller.get(f"jobs/{job['id']}").json() for job in caller.get("jobs").json()["items"]
        )
    }
    assert found == {
        ("hourly", str(single.pk), "hourly"),
        ("hourly[0]", str(several.pk), "sweep"),
        ("hourly[1]", str(several.pk), "sweep"),
    }
    other = caller.post("jobs", a_body()).json()["id"]
    assert caller.get(f"jobs/{other}").json()["schedule"] is None


def test_others_see_what_they_see_of_jobs(company: Company, bob: User) -> None:
    """Planted: the request for everybody who sees the schedule."""
    path = f"schedules/{a_schedule(company, bob).pk}"
    lead, finance = (a_user(company.organization, name) for name in ("lead", "finance"))
    a_grant(lead, Role.TEAM_LEAD, company.nlp)
    a_grant(finance, Role.FINANCE, company.organization)
    colleague = a_user(company.organization, "colleague")
    a_grant(colleague, Role.RESEARCHER, company.nlp)
    assert by_token(lead).get(path).json()["request"] == {
        "team": "ai-company/research/nlp",
        "gpus": 1,
        "script": SCRIPT,
        "name": "hourly",
    }
    seen = by_token(finance).get(path).json()
    assert (seen["request"], seen["can"]) == (None, [])
    assert by_token(finance).patch(path, {"is_suspended": True}).status_code == 403
    assert by_token(colleague).get(path).status_code == 404
    assert by_token(lead).patch(path, {"is_suspended": True}).status_code == 200
