"""The command against the real application, over a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import connection
from typer.testing import CliRunner

from builders.api_callers import a_token, by_session
from builders.app_server import serving
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import Company, a_company, a_grant, a_user
from cli import api
from cli.main import app
from clusters.models import Cluster
from identity.models import DeviceLogin
from jobs.models import Job
from primitives.clock import SystemClock
from tenants.models import AccessToken, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)

TEAM = "ai-company/research/nlp"


@dataclass
class Site:
    """A running server, and the command as Bob uses it."""

    company: Company
    bob: User
    address: str

    def run(self, *arguments: str, exit_code: int = 0, stdin: str | None = None) -> str:
        result = CliRunner().invoke(app, list(arguments), input=stdin)
        assert result.exit_code == exit_code, (result.stdout, result.stderr, result.exception)
        return result.stdout if exit_code == 0 else result.stderr


@pytest.fixture
def site(transactional_db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    # The server's thread gives its connection back after each request, so that the test
    # database can be emptied.
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    company = a_company()
    Cluster.objects.update(seen_at=SystemClock().now())
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("TIDEGATE_TOKEN", raising=False)
    monkeypatch.delenv("TIDEGATE_SERVER", raising=False)
    with serving() as address:
        site = Site(company, bob, address)
        site.run("login", "--server", address, "--token", "-", stdin=a_token(bob)[1])
        yield site


def test_a_job_from_submission_to_its_end(site: Site, tmp_path: Path) -> None:
    assert "bob@ai-company" in site.run("whoami")
    plan = site.run("submit", "--team", TEAM, "--gpus", "12", "--plan", "--", "true")
    assert "starts now       yes" in plan
    assert "borrowed GPUs    4" in plan
    assert not Job.objects.exists()

    script = tmp_path / "train.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH -J bert -N 2\n#SBATCH --gres=gpu:8\nsrun train\n")
    job_id = site.run("submit", str(script), "--team", TEAM, "--env", "SEED=1").strip()
    job = Job.objects.get()
    assert (str(job.pk), job.name, job.mgpu, job.environment) == (
        job_id,
        "bert",
        16_000,
        {"SEED": "1"},
    )
    assert site.run("ls", "--state", "queued").splitlines()[1].startswith(f"{job_id}  bert")
    assert json.loads(site.run("get", "bert", "-o", "json"))["script"] == script.read_text()
    assert site.run("why", "bert").startswith("The scheduler has not looked at it yet.")
    assert site.run("hold", job_id) == f"{job_id}  held\n"
    assert site.run("release", job_id) == f"{job_id}  queued\n"
    assert "has not started yet" in site.run("logs", job_id, exit_code=3)
    assert site.run("cancel", "bert") == f"{job_id}  cancelled\n"
    assert site.run("wait", job_id, exit_code=130) == f"{job_id}  cancelled\n"


def test_a_machine_logs_in_without_a_token(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: shapes of the codes, the poll or the token that the command does not expect."""
    waited: list[float] = []

    def approved_meanwhile(seconds: float) -> None:
        waited.append(seconds)
        code = DeviceLogin.objects.get().user_code
        assert by_session(site.bob).post(f"device-logins/{code}/approve", {}).status_code == 200

    monkeypatch.setattr(api, "sleep", approved_meanwhile)
    told = CliRunner().invoke(app, ["login", "--server", site.address, "--scope", "read"])
    assert told.exit_code == 0, told.stderr
    assert f"Open {site.address}/device in a browser" in told.stderr
    assert waited == [5]
    assert "bob@ai-company" in site.run("whoami")
    token = AccessToken.objects.exclude(name="a token").get()
    assert (token.user, token.scopes) == (site.bob, ["read"])
    refused = site.run("submit", "--team", TEAM, "--gpus", "1", "--", "true", exit_code=3)
    assert "submit_jobs" in refused


def test_refusals_are_sentences(site: Site) -> None:
    told = site.run("submit", "--team", TEAM, "--gpus", "40", "--", "true", exit_code=3)
    assert told.startswith("understood  No node has 40 GPUs")
    assert "Error: Cannot run as requested\n  gpus: 40 GPUs of h100" in told
    told = site.run("submit", "--team", "rival/x", "--gpus", "1", "--", "true", exit_code=3)
    assert "There is no 'rival/x' that you can see." in told
    told = site.run("get", "00000000-0000-7000-8000-000000000000", exit_code=3)
    assert told == ("Error: Not found: There is no such job that you can see.\n")
    assert "state" in site.run("ls", "--state", "busy", exit_code=3)


def test_many_jobs_are_listed_page_by_page(site: Site) -> None:
    for number in range(7):
        a_job(site.company, site.bob, name=f"job-{number}")
    shown = json.loads(site.run("ls", "--limit", "5", "-o", "json"))
    assert [job["name"] for job in shown] == ["job-6", "job-5", "job-4", "job-3", "job-2"]


def test_the_exit_code_of_a_failed_job(site: Site) -> None:
    job = a_job(site.company, site.bob, state="failed", exit_code=7)
    an_attempt(
        job,
        cluster=site.company.cluster,
        state="ended",
        ended_at=job.ended_at,
        released_at=job.ended_at,
    )
    site.run("wait", str(job.pk), exit_code=7)
    assert "\nexit code      7 (an exit code of the program's own)\n" in site.run(
        "get", str(job.pk)
    )


def test_quotas(site: Site) -> None:
    line = site.run("quota", "get", TEAM, "--pool", "h100").splitlines()[1]
    assert line.split()[:4] == [TEAM, "h100", "8", "none"]


def test_a_planned_change_from_its_draft_to_its_end(site: Site) -> None:
    """Also a state that is not that of the quotas any more: nothing is written, the draft stays."""
    a_grant(site.bob, Role.ORGANIZATION_ADMIN, site.company.organization)
    made = json.loads(
        site.run(
            "quota-changes",
            "draft",
            f"{TEAM}:guaranteed=12",
            "ai-company/research/vision:guaranteed=4",
            "--reason=conference",
            "--revert-after=1d",
            "-o",
            "json",
        )
    )
    change = made["id"]
    assert (made["status"], made["can_apply"]) == ("draft", True)
    assert "conference" in site.run("quota-changes", "list", "--status", "draft")
    preview = json.loads(site.run("quota-changes", "preview", change[-12:], "-o", "json"))
    assert [quota["after"]["guaranteed_mgpu"] for quota in preview["quotas"]] == [12_000, 4_000]
    told = site.run("quota-changes", "apply", change, "--if-match", "another", exit_code=3)
    assert "has changed since you looked" in told
    assert "\nstatus          applied\n" in site.run("quota-changes", "apply", change)
    assert site.run("quota", "get", TEAM).splitlines()[1].split()[2] == "12"
    kept = site.run("quota-changes", "cancel", change)
    assert "\nstatus        kept\n" in kept
    assert "not reverted  " in kept


def test_a_policy_and_a_class_are_changed(site: Site) -> None:
    a_grant(site.bob, Role.ORGANIZATION_ADMIN, site.company.organization)
    shown = site.run("policy", "set", "--organization=ai-company", "min_run_s=30m")
    assert "min_run_s                  1800 (30m)" in shown
    told = site.run("policy", "set", "starts_max=7", exit_code=3)
    assert "platform" in told
    assert "starts_max" in site.run("policy", "get")
    shown = site.run(
        "policy", "set-class", "normal", "team_cap=6.5", "preempts_across_teams=yes", "-o", "json"
    )
    changed = json.loads(shown)
    assert (changed["team_cap_mgpu"], changed["preempts_across_teams"]) == (6_500, True)
    assert "lower, all teams" in site.run("policy", "classes", "ai-company")
