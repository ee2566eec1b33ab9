"""Plans and submissions warn about scripts that use what the clusters of the job do not have."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import LazySettings
from django.db import transaction

from builders.job_builders import a_body
from builders.portal_builders import NOW, Company, a_cluster, a_cluster_node, a_company, an_actor
from clusters.models import Cluster
from jobs.submission.requests import read_job_request
from jobs.submission.script_warnings import WARNINGS_MAX
from jobs.submission.submission import resolve, submit_job_here
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def bob(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


def be(cluster: Cluster, kind: str, **options: Any) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(kind=kind, options=options)


def warnings(bob: Actor, script: str, **changes: Any) -> list[tuple[int, str]]:
    wanted = read_job_request(a_body(script=f"#!/bin/bash\n{script}\n", **changes))
    notes = resolve(wanted, actor=bob).notes
    return [(note.line, note.detail) for note in notes if note.verdict == "warning"]


def test_software_that_the_cluster_lacks_is_named_with_its_line(
    company: Company, bob: Actor
) -> None:
    name = company.cluster.name
    script = "set -e\nmodule load cuda\nconda activate x"
    be(company.cluster, "local", software=["conda"])
    assert warnings(bob, script) == [
        (
            3,
            f"{name} does not have `module`. Load the software in another way, or choose a cluster "
            "that has it.",
        )
    ]
    be(company.cluster, "local", software=["conda", "module"])
    assert warnings(bob, script) == []
    be(company.cluster, "local")
    assert [detail.split(".")[0] for _, detail in warnings(bob, script)] == [
        f"It is not known whether {name} has `module`",
        f"It is not known whether {name} has `conda`",
    ]


def test_only_the_clusters_that_may_run_the_job_count(company: Company, bob: Actor) -> None:
    """Planted: all clusters with the pool, in spite of the pin."""
    other = a_cluster("other", kind="slurm")
    a_cluster_node(other, company.pool)
    be(company.cluster, "local", software=[])
    be(other, "slurm", software=["module"])
    script = "module load cuda"
    assert len(warnings(bob, script)) == 1
    assert warnings(bob, script, cluster="other") == []


def test_slurms_commands_and_variables_are_for_batch_jobs_or_slurm(
    company: Company, bob: Actor
) -> None:
    name = company.cluster.name
    script = "srun hostname\necho $SLURM_PROCID\nsacct"
    be(company.cluster, "local")
    assert warnings(bob, script) == [
        (
            2,
            f"`srun` works only in batch jobs on {name}. Give launch = batch, or start the program "
            "directly.",
        ),
        (
            3,
            f"SLURM_PROCID is not set on {name}, where this script runs once on every node. Use "
            "RANK, WORLD_SIZE and NODE_RANK, or launch = batch.",
        ),
        (4, f"`sacct` does not exist on {name}. Use the `tidegate` command instead."),
    ]
    assert [line for line, _ in warnings(bob, script, launch="batch")] == [4]
    be(company.cluster, "slurm")
    assert warnings(bob, script) == []


def test_jobs_on_kubernetes_ask_the_portal_where_they_get_a_token(
    company: Company, bob: Actor, settings: LazySettings
) -> None:
    """Planted: the cluster's own refusal was not read."""
    settings.PUBLIC_URL = "https://portal.test"
    script = "srun hostname\nsbatch next.sh"
    silent = [(3, f"`sbatch` has no access to the portal on {company.cluster.name}.")]

    def told() -> list[tuple[int, str]]:
        return warnings(bob, script, launch="batch", image="registry.test/x:1")

    be(company.cluster, "kubernetes", pools={"h100": {}})
    assert told() == silent
    be(company.cluster, "kubernetes", pools={"h100": {}}, portal_url="https://inside.test")
    assert told() == []
    Cluster.objects.update(portal_refusal="the portal's account may not create Secrets")
    assert told() == silent


def test_folders_are_compared_with_those_that_the_administrator_names(
    company: Company, bob: Actor
) -> None:
    """Planted: /data for /data2."""
    script = "python train.py --data /data/imagenet --out /data2/x"
    be(company.cluster, "local", shared_folders=["/data", "/home"])
    assert warnings(bob, script) == [
        (
            2,
            f"/data2/x is in no shared folder of {company.cluster.name}. Use a shared folder, or "
            "choose another cluster.",
        )
    ]


def test_folders_of_which_nobody_has_said_anything_are_one_warning(
    company: Company, bob: Actor
) -> None:
    """Against: a note without the clusters whose administrator has named the folders."""
    be(company.cluster, "local")
    script = "cd /home/bob\n" + "\n".join(f"cat /data/{number}" for number in range(4))
    assert warnings(bob, script) == [
        (
            2,
            f"It is not known whether {company.cluster.name} has /home/bob, /data/0, /data/1 and "
            "2 more. An administrator names the folders that every node sees in `shared_folders`.",
        )
    ]
    be(company.cluster, "local", shared_folders=["/data", "/home"])
    assert warnings(bob, script) == []


def test_options_that_our_srun_refuses_are_told_before_the_job_starts(
    company: Company, bob: Actor
) -> None:
    """Planted: options of Slurm's own srun, and of lines that continue."""
    be(company.cluster, "local", software=["singularity"])
    script = (
        "srun -N 1 \\\n  --container-image=x.sqsh \\\n  python train.py\nsrun apptainer run x.sif"
    )
    assert warnings(bob, script, launch="batch") == [
        (
            2,
            f"`srun` fails on {company.cluster.name}: --container-image is not offered on this "
            "cluster. Name the image when the job is submitted (--image).",
        ),
        (
            5,
            f"{company.cluster.name} does not have `apptainer`. Load the software in another way, "
            "or choose a cluster that has it.",
        ),
    ]
    be(company.cluster, "slurm", software=["apptainer"], containers="pyxis")
    assert warnings(bob, script, launch="batch") == []


def test_images_of_srun_are_told_where_slurm_may_not_have_pyxis(
    company: Company, bob: Actor
) -> None:
    """Slurm without the plugin ends such an srun. Against: nothing told."""
    be(company.cluster, "slurm", software=[])
    script = "srun --container-image=x.sqsh python train.py\nsrun --pty bash"
    assert warnings(bob, script, launch="batch") == [
        (
            2,
            f"It is not known whether {company.cluster.name} has pyxis, without which `srun` "
            "fails. An administrator names it in `containers`.",
        )
    ]


def test_a_job_is_accepted_with_its_warnings(company: Company, bob: Actor) -> None:
    be(company.cluster, "local", software=[], shared_folders=["/data"])
    lines = "\n".join(f"cat /other/{number}" for number in range(WARNINGS_MAX + 5))
    with transaction.atomic():
        job = submit_job_here(
            read_job_request(a_body(script=f"#!/bin/sh\n{lines}\n")), actor=bob, now=NOW
        )
    assert [note["verdict"] for note in job.notes] == ["warning"] * WARNINGS_MAX
    assert job.notes[0]["text"] == "cat /other/0"


def file_warnings(bob: Actor, directives: str, **changes: Any) -> list[tuple[int, str, str]]:
    text = f"#!/bin/bash\n#SBATCH -N 1\n#SBATCH {directives}\ntrue\n"
    wanted = read_job_request(a_body(script=..., sbatch=text, **changes))
    notes = resolve(wanted, actor=bob).notes
    return [(note.line, note.text, note.detail) for note in notes if note.verdict == "warning"]


def test_folders_and_files_outside_of_the_clusters_folders_are_named_with_their_line(
    company: Company, bob: Actor
) -> None:
    """Against: line 0, relative names, the folder of a pattern with its letters."""
    name = company.cluster.name
    be(company.cluster, "local", shared_folders=["/data"])
    line = "-D /scratch/x -o /data/%x/%j.out"
    assert file_warnings(bob, line) == [
        (
            3,
            f"#SBATCH {line}",
            f"/scratch/x is in no shared folder of {name}. Use a shared folder, or choose another "
            "cluster.",
        )
    ]
    assert file_warnings(bob, "-D run -o logs/%j.out -e /data/%j.err") == []
    assert [found[2] for found in file_warnings(bob, "-e /%j.err")] == [
        f"/%j.err is in no shared folder of {name}. Use a shared folder, or choose another cluster."
    ]
    be(company.cluster, "local")
    assert [found[2] for found in file_warnings(bob, line)] == [
        f"It is not known whether {name} has {folder}. An administrator names the folders that "
        "every node sees in `shared_folders`."
        for folder in ("/scratch/x", "/data")
    ]


def test_a_notice_before_half_of_the_time_limit_is_told(company: Company, bob: Actor) -> None:
    """Against: a note for exactly a half."""
    be(company.cluster, "local", shared_folders=["/data"])
    assert [found[2] for found in file_warnings(bob, "-t 10 --signal=USR1@301")] == [
        "The notice comes 5m before the time limit of 10m, not 5m1s: half of the limit is the "
        "most. Ask for a longer time limit, or for less time."
    ]
    assert file_warnings(bob, "-t 10 --signal=USR1@300") == []


def test_clusters_without_files_that_last_are_named(company: Company, bob: Actor) -> None:
    """Planted: a plan that says nothing of Kubernetes."""
    name = company.cluster.name
    be(company.cluster, "kubernetes")
    found = file_warnings(bob, "-D /work -o x.out", image="debian")
    assert [(line, detail) for line, _, detail in found] == [
        (
            3,
            f"The script does not start in /work on {name}. Write `cd FOLDER` into the script, or "
            "choose another cluster.",
        ),
        (
            3,
            f"x.out is not written on {name}, where files end with the job. See `tidegate logs`, "
            "or choose another cluster.",
        ),
    ]
    assert [line for line, _, _ in file_warnings(bob, "-J x", image="debian", folder="/w")] == [0]
