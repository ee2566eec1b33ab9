"""The environment variables of a step and of each of its tasks (srun(1), "output environment")."""

from __future__ import annotations

import os
from collections.abc import Mapping

from batch.steps import Step, Task
from batch.variables import counts_text, node_variables
from primitives.hostlist import contract


def exported(environment: Mapping[str, str], choice: str | None) -> dict[str, str]:
    """Return the variables that --export=`choice` passes on: all by default.

    A list is of names and NAME=VALUE. With ALL in it, it adds to all; without, only Slurm's and
    Tidegate's variables come with it.
    """
    if choice is None:
        return dict(environment)
    items = choice.split(",")
    kept = dict(environment)
    if "ALL" not in items:
        own = ("SLURM_", "SLURMD_", "TIDEGATE_", "CUDA_", "NVIDIA_")
        kept = {name: value for name, value in environment.items() if name.startswith(own)}
    for item in items:
        name, equals, value = item.partition("=")
        if equals:
            kept[name] = value
        elif name in environment:
            kept[name] = environment[name]
    return kept


def step_variables(step: Step, number: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of all tasks of step `number`."""
    tasks = sum(step.counts)
    nodes = contract([place.node for place in step.places])
    by_node = counts_text(step.counts)
    return {
        "SLURM_DISTRIBUTION": "cyclic" if step.is_cyclic else "block",
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_NPROCS": str(tasks),
        "SLURM_NTASKS": str(tasks),
        "SLURM_SRUN_COMM_HOST": "127.0.0.1",
        "SLURM_STEPID": str(number),
        "SLURM_STEP_ID": str(number),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_NUM_NODES": str(len(step.places)),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_TASKS_PER_NODE": by_node,
        "SLURM_TASKS_PER_NODE": by_node,
        "SLURM_UMASK": environment.get("SLURM_UMASK", "0022"),
    }


def task_variables(task: Task) -> dict[str, str]:
    """Return the variables of one task, with the GPUs that it sees."""
    devices = ",".join(map(str, task.devices))
    found = {
        **node_variables(task.place, task.node_rank),
        "SLURM_LOCALID": str(task.local_rank),
        "SLURM_PROCID": str(task.rank),
        "SLURM_STEP_GPUS": devices,
        "TIDEGATE_GPU_SLOTS": devices,
        "TIDEGATE_GPUS_PER_NODE": str(len(task.devices)),
    }
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        # Empty where the GPUs are virtual: it stays so, or a task would see real ones.
        found["CUDA_VISIBLE_DEVICES"] = devices
    return found
