"""Slurm's commands inside of a batch job, as real programs against the real application."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import LazySettings
from django.db import connection

import batch
from batch.variables import job_number
from builders.app_server import serving
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, a_company, a_grant, a_user
from clusters.models import Cluster
from connectors.registry import KINDS
from jobs.execution.workloads import workload_of
from jobs.models import Attempt, Job
from primitives.clock import SystemClock
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)

BIN = Path(batch.__file__).resolve().parent / "bin"


class Inside:
    """The script of Bob's running job."""

    def __init__(self, attempt: Attempt, folder: Path) -> None:
        self.attempt = attempt
        self.folder = folder
        self.environment = {
            **workload_of(attempt).environment,
            "PATH": f"{BIN}:{os.defpath}",
            "TIDEGATE_PYTHON": sys.executable,
            "SLURM_JOB_ID": str(job_number(attempt.job_id)),
            "SLURM_JOB_NODELIST": "ai-company-000",
        }

    def run(self, *words: str, exit_code: int = 0) -> str:
        """What the command prints, or what it complains about where it fails."""
        done = subprocess.run(
            words,
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == exit_code, (done.stdout, done.stderr)
        return done.stdout if exit_code == 0 else done.stderr


@pytest.fixture
def inside(
    transactional_db: None,
    monkeypatch: pytest.MonkeyPatch,
    settings: LazySettings,
    tmp_path: Path,
) -> Iterator[Inside]:
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    company = a_company()
    Cluster.objects.update(kind="local", seen_at=SystemClock().now())
    company.cluster.refresh_from_db()
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    job = a_job(
        company,
        bob,
        name="chain",
        state="running",
        launch="batch",
        time_limit_s=93_784,
        started_at=NOW,
    )
    attempt = an_attempt(job, cluster=company.cluster, started_at=NOW)
    with serving() as address:
        settings.PUBLIC_URL = address
        yield Inside(attempt, tmp_path)


def test_a_job_submits_the_next_one_as_its_owner(inside: Inside) -> None:
    """Planted: the options before the script's own lines, and the script's name for every job."""
    (inside.folder / "next.sbatch").write_text(
        '#!/bin/bash\n#SBATCH --gpus=2 --time=1:00:00\n# more\n\nsrun python train.py "$@"\n'
    )
    said = inside.run(
        *("sbatch", "--time=2:00:00", "-d", f"afterok:{inside.environment['SLURM_JOB_ID']}"),
        *("next.sbatch", "--resume", "two words"),
    )
    job = Job.objects.get(pk=UUID(said.removeprefix("Submitted batch job ").strip()))
    assert (job.user, job.team_id, job.name, job.launch, job.mgpu, job.time_limit_s) == (
        *(inside.attempt.job.user, inside.attempt.job.team_id, "next.sbatch", "batch"),
        *(2_000, 7_200),
    )
    assert job.arguments == ["--resume", "two words"]
    assert [wait.predecessor_id for wait in job.dependencies.all()] == [inside.attempt.job_id]
    named = inside.run("sbatch", "--parsable", "-J", "it's me", "--gpus=1", "--wrap", "hostname")
    assert Job.objects.get(pk=UUID(named.strip())).name == "it's me"
    assert inside.run("sbatch", "--wrap", "hostname", exit_code=1) == (
        "sbatch: error: gpus: is required (or gpus_per_node and nodes; in a pool of CPU cores "
        "cpus_per_node)\n"
    )


def test_a_job_sees_and_cancels_the_jobs_of_its_owner(inside: Inside) -> None:
    other = inside.run("sbatch", "--parsable", "--hold", "--gpus=1", "--wrap", "true").strip()
    assert inside.run("squeue", "--me", "-h", "-o", "%i|%j|%T|%r|%D|%P|%u|%l") == (
        f"{inside.attempt.job_id}|chain|RUNNING|None|1|h100|bob|1-02:03:04\n"
        f"{other}|wrap|PENDING|JobHeldUser|1|h100|bob|UNLIMITED\n"
    )
    number = inside.environment["SLURM_JOB_ID"]
    assert inside.run("squeue", "-j", number, "-o", "%.4t|%5D|%N").splitlines() == [
        "  ST|NODES|NODELIST",
        "   R|1    |ai-company-000",
    ]
    assert inside.run("squeue", "-h", "--state=PD", "-o", "%j") == "wrap\n"
    # Its start is long ago, so nothing of its limit is left.
    assert inside.run("squeue", "--me", "-h", "-o", "%j %L %e %B") == (
        f"chain 00:00:00 {NOW + timedelta(seconds=93_784):%Y-%m-%dT%H:%M:%S} ai-company-000\n"
        "wrap UNLIMITED Unknown n/a\n"
    )
    assert inside.run("squeue", "-j", number, "-h", "-o", "%F") == f"{inside.attempt.job_id}\n"
    inside.run("scancel", other)
    assert Job.objects.get(pk=other).state == "cancelled"
    assert "%Z is not offered here" in inside.run("squeue", "-o", "%Z", exit_code=1)


def test_a_job_reads_its_own_record(inside: Inside) -> None:
    number = inside.environment["SLURM_JOB_ID"]
    assert inside.run("scontrol", "show", "jobid", number).startswith(f"JobId={number} ")
    for words in ((number,), (), ("-o",)):
        said = inside.run("scontrol", "show", "job", *words)
        assert f"JobId={number} JobName=chain" in said
        assert "JobState=RUNNING Reason=None" in said
        assert "TimeLimit=1-02:03:04" in said
        assert "Partition=h100 NumNodes=1" in said
        assert "NodeList=ai-company-000" in said
        assert len(said.splitlines()) == (1 if words == ("-o",) else 8)


def test_a_number_of_another_job_is_no_id_of_the_portal(inside: Inside) -> None:
    """Planted: the word as part of an address, which then names no route."""
    assert inside.run("scontrol", "requeue", "../teams", exit_code=1) == (
        "scontrol: error: '../teams' is no job here; use $SLURM_JOB_ID, or an id that sbatch "
        "printed.\n"
    )


def test_a_job_queues_itself_again(inside: Inside) -> None:
    """As a handler does: `scontrol requeue $SLURM_JOB_ID; exit 0`."""
    inside.run("scontrol", "requeue", inside.environment["SLURM_JOB_ID"])
    inside.attempt.refresh_from_db()
    assert (inside.attempt.state, inside.attempt.stop_reason) == ("stopping", "requeued")
    assert inside.run("squeue", "--me", "-h", "-o", "%j %T") == "chain RUNNING\n"


def test_the_token_is_good_while_the_attempt_runs_and_for_jobs_only(inside: Inside) -> None:
    """Planted: tokens of ended attempts; every view with the token."""
    number = inside.environment["SLURM_JOB_ID"]
    inside.run("scontrol", "show", "job")
    Attempt.objects.update(state="ended", released_at=NOW, ended_at=NOW, outcome="succeeded")
    assert inside.run("scontrol", "show", "job", number, exit_code=1) == (
        "scontrol: error: This is not the token of a running job.\n"
    )
    inside.environment["TIDEGATE_TOKEN"] += "0"
    assert "not the token" in inside.run("squeue", "--me", exit_code=1)


def test_others_cannot_read_the_token(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Kubernetes everybody who reads Pods reads their variables. Planted: given everywhere."""

    def given() -> set[str]:
        environment: dict[str, Any] = {**workload_of(inside.attempt).environment}
        return environment.keys() & {"TIDEGATE_SERVER", "TIDEGATE_TOKEN"}

    assert given() == {"TIDEGATE_SERVER", "TIDEGATE_TOKEN"}
    assert {name for name, kind in KINDS.items() if kind.keeps_environments} == {"local", "slurm"}
    cluster = inside.attempt.cluster
    cluster.kind = "kubernetes"
    assert given() == set()
    assert workload_of(inside.attempt).private_environment == {}
    # There the script alone gets it, with the address for Pods.
    cluster.options = {"portal_url": "https://inside.test"}
    token = inside.environment["TIDEGATE_TOKEN"]
    workload = workload_of(inside.attempt)
    assert given() == set()
    assert workload.private_environment == {
        "TIDEGATE_SERVER": "https://inside.test",
        "TIDEGATE_TOKEN": token,
    }
    assert workload.environment["TIDEGATE_CHECKPOINT_URL"].startswith("https://inside.test/api/")
    # A policy of the cluster knows the Secret by the name of a Job.
    cluster.options = {"portal_url": "https://inside.test", "kind": "jobset"}
    assert workload_of(inside.attempt).private_environment == {}
    cluster.kind = "local"
    assert workload_of(inside.attempt).private_environment == {}
    inside.attempt.job.environment = {"TIDEGATE_SERVER": "https://other.test"}
    assert given() == {"TIDEGATE_SERVER"}
    del inside.environment["TIDEGATE_TOKEN"]
    assert inside.run("sbatch", "--wrap", "true", exit_code=1) == (
        "sbatch: error: jobs on this cluster have no access to the portal.\n"
    )
