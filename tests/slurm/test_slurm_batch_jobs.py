"""Batch jobs on a real Slurm: the script runs once, and Slurm's own srun starts its tasks."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from batch.places import Place
from batch.step_options import read_options
from batch.steps import plan_step
from batch.variables import BatchJob, job_variables
from builders.connector_builders import a_workload, until_released
from conformance.rigs import ACCOUNT, SlurmRig
from connectors.protocol import BatchLaunch, JobFiles, Observation, Outcome
from slurm_bed import SlurmBed

pytestmark = pytest.mark.slurm

#: Steps that scripts start, for a job of 4 nodes with 2 tasks each.
STEPS = (
    "",
    "-n 8",
    "-n 4",
    "-N 4 -n 4",
    "-N 1 -n 1",
    "-N 2 -n 4",
    "-N 4 --ntasks-per-node=1",
    "--ntasks-per-node=1 -n 4",
    "-N 1 -n 2",
    "-N 2 -n 3",
    "-N 1 -n 1 -r 2",
)


@pytest.fixture
def rig(slurm_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(slurm_bed)
    yield opened
    opened.close()


def run(rig: SlurmRig, script: str, *, ranks: int, **launch: int) -> tuple[Observation, str]:
    workload = a_workload(f"#!/bin/bash\n{script}", ranks=ranks, batch=BatchLaunch(77, **launch))
    rig.start(workload)
    seen = until_released(rig.connector, workload.key)
    return seen, rig.log(workload.key)


def test_a_batch_script_runs_once_and_srun_is_slurms_own(rig: SlurmRig) -> None:
    seen, said = run(
        rig,
        'echo "$SLURM_JOB_NUM_NODES $SLURM_NTASKS ${RANK-none} ${WORLD_SIZE-none}"\n'
        "srun -l bash -c 'echo $SLURM_PROCID $SLURM_NODEID' | sort\n"
        "exit 3",
        ranks=2,
        tasks=4,
        tasks_per_node=2,
    )
    assert (seen.outcome, dict(seen.exit_codes)) == (Outcome.FAILED, {0: 3})
    assert said.splitlines() == [
        "2 4 none none",
        "0: 0 0",
        "1: 1 0",
        "2: 2 1",
        "3: 3 1",
    ]


def test_our_own_srun_places_tasks_as_slurms_does(rig: SlurmRig) -> None:
    """Slurm is the oracle of `batch.steps` and `batch.variables`."""
    # Not by name: Slurm passes over a node whose CPUs an earlier step has not released yet.
    show = "echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID"
    script = "\n".join(
        f"echo '== {step}'\nsrun --overlap {step} bash -c '{show}' | sort -n" for step in STEPS
    )
    seen, said = run(
        rig, f"env | grep ^SLURM_ | sort\n{script}", ranks=4, tasks=8, tasks_per_node=2
    )
    assert seen.outcome is Outcome.SUCCEEDED
    variables, *steps = said.split("== ")
    of_slurm = dict(line.split("=", 1) for line in variables.splitlines() if "=" in line)
    assert seen.slots is not None
    places = [Place(slot.node, range(8)) for slot in seen.slots]
    job = BatchJob(
        number=int(of_slurm["SLURM_JOB_ID"]),
        name=of_slurm["SLURM_JOB_NAME"],
        user=str(rig.cluster_user),
        account=of_slurm["SLURM_JOB_ACCOUNT"],
        partition=of_slurm["SLURM_JOB_PARTITION"],
        folder=of_slurm["SLURM_SUBMIT_DIR"],
        tasks=8,
        tasks_per_node=2,
    )
    ours = job_variables(job, places)
    compared = (
        *("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
        *("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
        *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID"),
    )
    assert {name: ours.get(name) for name in compared} == {
        name: of_slurm.get(name) for name in compared
    }
    found, expected = {}, {}
    for step in steps:
        line, _, tasks = step.partition("\n")
        found[line] = tasks.splitlines()
        planned = plan_step(read_options(line.split())[0], ours, places)
        expected[line] = [
            f"{task.rank} {task.node_rank} {task.local_rank}"
            for task in planned.tasks([place.devices for place in planned.places])
        ]
    assert expected == found


def test_files_have_the_names_that_sbatch_gives_them(rig: SlurmRig) -> None:
    """Against: a width that pads texts, %A of another number, the full name of the node."""
    pattern = "%j-%J-%A-%a-%x-%N-%n-%t-%s-%u-%%-%4t-%9j-%z-%12n-%4x-%3%"
    folders = [rig.scratch / name for name in ("ours", "slurms")]
    for folder in folders:
        folder.mkdir()
        folder.chmod(0o777)
    files = JobFiles(
        folder=str(folders[0]),
        output=pattern,
        values={"A": "77", "a": "4294967294", "j": "77", "x": "a workload"},
    )
    workload = a_workload("#!/bin/bash\necho $SLURM_JOB_ID", batch=BatchLaunch(77), files=files)
    rig.start(workload)
    until_released(rig.connector, workload.key)
    script = rig.scratch / "job.sh"
    script.write_text("#!/bin/bash\necho $SLURM_JOB_ID\n")
    submitted = subprocess.run(
        [
            *("sbatch", "--wait", "--partition=h100", "--gres=gpu:1", "--job-name=a workload"),
            *(f"--chdir={folders[1]}", f"--output={pattern}", f"--uid={rig.cluster_user}"),
            *(f"--account={ACCOUNT}", str(script)),
        ],
        env={**os.environ, "SLURM_CONF": str(rig.bed.folder / "etc" / "slurm.conf")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert submitted.returncode == 0, submitted.stderr
    found = []
    for folder in folders:
        (file,) = folder.iterdir()
        number = file.read_text().strip()
        name = file.name.replace(number.zfill(9), "NUMBER")
        found.append(re.sub(rf"(?<![0-9]){number}(?![0-9])", "ID", re.sub(r"h\d+", "NODE", name)))
    assert found[0] == found[1]
