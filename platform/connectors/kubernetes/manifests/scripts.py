"""The script of a workload as files in its containers, and what a batch job finds beside it."""

from __future__ import annotations

import base64
from typing import Any

from batch.bundle import bundle
from batch.places import Place
from batch.programs import PROGRAMS
from batch.variables import BatchJob, job_variables
from connectors.protocol import BatchLaunch, Workload

DIRECTORY = "/run/tidegate/script"
PATH = f"{DIRECTORY}/script"
#: The variable by which the launcher finds the programs of a batch job.
PROGRAMS_VARIABLE = "TIDEGATE_PROGRAMS"
#: The directory with a file for each private variable of the script, and the variable by which the
#: launcher finds it.
PRIVATE_DIRECTORY = "/run/tidegate/private"
PRIVATE_VARIABLE = "TIDEGATE_PRIVATE"

_SCRIPT = "script"
_BUNDLE = "programs.pyz"
_PROGRAMS_DIRECTORY = f"{DIRECTORY}/bin"
_PROGRAM = """#!/bin/sh
# Slurm's command for batch jobs on clusters without Slurm.
command -v python3 > /dev/null || {
  echo '%(name)s: error: the image has no python3, and %(name)s needs it.' >&2
  exit 127
}
exec python3 -I -S "${0%%/*}/../programs.pyz" %(name)s "$@"
"""


def script_data(workload: Workload) -> dict[str, Any]:
    """Return the data of the ConfigMap that has the script."""
    if workload.batch is None:
        return {"data": {_SCRIPT: workload.script}}
    programs = {name: _PROGRAM % {"name": name} for name in PROGRAMS}
    return {
        "data": {_SCRIPT: workload.script, **programs},
        "binaryData": {_BUNDLE: base64.b64encode(bundle()).decode("ascii")},
    }


def script_items(workload: Workload) -> dict[str, Any]:
    """Return where the keys of the ConfigMap lie in the volume, as members of the volume."""
    if workload.batch is None:
        return {}
    paths = {name: name for name in (_SCRIPT, _BUNDLE)} | {name: f"bin/{name}" for name in PROGRAMS}
    return {"items": [{"key": key, "path": path} for key, path in paths.items()]}


def batch_variables(workload: Workload, *, node: str, gpus: int, folder: str) -> dict[str, str]:
    """Return the variables of a batch job on one node; none of other jobs.

    `node` is the node's name as it stands in the values, `gpus` counts the devices that the
    container sees, and the script starts in `folder`.
    """
    launch = workload.batch
    if launch is None:
        return {}
    place = Place(node, range(gpus))
    return {
        **job_variables(_job(workload, launch, folder), [place]),
        PROGRAMS_VARIABLE: _PROGRAMS_DIRECTORY,
    }


def _job(workload: Workload, launch: BatchLaunch, folder: str) -> BatchJob:
    return BatchJob(
        number=launch.number,
        name=workload.name,
        user=workload.cluster_user or workload.user,
        account=workload.team,
        partition=workload.pool,
        folder=folder,
        qos=launch.qos,
        restarts=launch.restarts,
        array_number=launch.array_number,
        tasks=launch.tasks,
        tasks_per_node=launch.tasks_per_node,
        cpus_per_task=launch.cpus_per_task,
        gpus_per_task=launch.gpus_per_task,
        cpus_per_node=workload.cpus_per_node,
        memory_mib_per_node=workload.memory_mib_per_node,
    )
