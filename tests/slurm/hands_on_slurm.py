"""A company on a real Slurm, what is done there by hand, and what people read of it."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest

from builders.connector_builders import eventually
from builders.portal_builders import Company, a_company, a_user
from builders.slurm_loop import SlurmLoop
from conformance.rigs import ACCOUNT, SlurmRig
from jobs.models import Job
from jobs.reading.explaining import explanation_of
from jobs.reading.queries import get_job
from slurm_bed import SlurmBed
from tenants.access import actor_of
from tenants.models import User


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(company: Company, slurm_rig: SlurmRig, bob: User) -> SlurmLoop:
    loop = SlurmLoop(company.cluster, slurm_rig)
    loop.let_in(bob, company.nlp)
    return loop


@pytest.fixture
def frail_loop(company: Company, frail_rig: SlurmRig, bob: User) -> SlurmLoop:
    loop = SlurmLoop(company.cluster, frail_rig)
    loop.let_in(bob, company.nlp)
    return loop


def wait_for_a_save(bed: SlurmBed) -> None:
    """Until the controller has written down what it knows now; it does so when a job changes."""
    location = bed.run(["scontrol", "show", "config"]).partition("StateSaveLocation")[2]
    path = Path(location.partition("=")[2].split()[0]) / "job_state"

    def written_at() -> int:
        return path.stat().st_mtime_ns if path.exists() else 0

    before = written_at()
    bed.run(["scancel", sbatch(bed, "-p", "h100", "--hold")])
    eventually(lambda: written_at() > before)


def told(job: Job, loop: SlurmLoop) -> str:
    """What its owner reads of why the job waits."""
    actor, now = actor_of(job.user), loop.clock.now()
    view = get_job(job.id, actor=actor, now=now)
    sentence: str = explanation_of(view, actor=actor, now=now)["sentence"]
    return sentence


def reopen(loop: SlurmLoop, **options: Any) -> None:
    """The cluster with other options, as an administrator may give it."""
    loop.rig.options |= options
    loop.rig.connector = loop.rig.open()
    loop.cluster.options = loop.rig.options
    loop.cluster.save()
    loop.take_inventory()


def sbatch(bed: SlurmBed, *options: str, user: str | None = None) -> str:
    """Submit beside the portal; returns the number."""
    entry = pwd.getpwnam(user or bed.users[1])
    done = subprocess.run(
        ["sbatch", "--parsable", "-A", ACCOUNT, "-o", "/dev/null", "-D", "/tmp", *options],
        input="#!/bin/bash\nexec sleep 1000\n",
        env={"PATH": os.environ["PATH"], "SLURM_CONF": str(bed.slurm_conf)},
        cwd="/tmp",
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def field(bed: SlurmBed, job_id: str, name: str) -> str:
    """One field of a job as Slurm's own command prints it."""
    words = bed.run(["scontrol", "--oneliner", "show", "job", job_id]).split()
    return next(word.partition("=")[2] for word in words if word.startswith(f"{name}="))
