"""The workload that a cluster is asked to run for an attempt."""

from __future__ import annotations

from django.conf import settings

from batch.variables import job_number
from connectors.protocol import BatchLaunch, JobFiles, RankSlot, Workload
from connectors.registry import kind_named
from jobs.actions.checkpoints import reporting_environment
from jobs.actions.job_tokens import client_environment
from jobs.models import Attempt, Job, Launch
from quotas.queries import graces_s
from tenants.places import path_at

#: The index of a job without an array, as Slurm writes it.
NO_ARRAY_INDEX = "4294967294"


def workload_of(attempt: Attempt) -> Workload:
    """Return the workload of `attempt`, equal at every repeat.

    So it uses the account of its team's place at the time of the grant. No query unless the team
    was moved since, or the reader of `attempt` did not set its grace. Only that may differ, if the
    grace of the priority class was changed meanwhile.
    """
    job = attempt.job
    team = path_at(job.team, attempt.granted_at)
    environment = dict(job.environment)
    environment |= {
        "TIDEGATE_JOB_ID": str(job.id),
        "TIDEGATE_JOB_NAME": job.name,
        "TIDEGATE_ATTEMPT": str(attempt.number),
        "TIDEGATE_RESTART_COUNT": str(attempt.number - 1),
        "TIDEGATE_TEAM": team,
        "TIDEGATE_POOL": job.pool.name,
    }
    if job.array is not None:
        environment |= {
            "TIDEGATE_ARRAY_ID": str(job.array.id),
            "TIDEGATE_ARRAY_INDEX": str(job.array_index),
            "SLURM_ARRAY_TASK_ID": str(job.array_index),
            "SLURM_ARRAY_TASK_COUNT": str(job.array.size),
            "SLURM_ARRAY_TASK_MIN": str(job.array.first_index),
            "SLURM_ARRAY_TASK_MAX": str(job.array.last_index),
        }
    if job.checkpoint_path:
        environment["TIDEGATE_CHECKPOINT_PATH"] = job.checkpoint_path
    kind, options = kind_named(attempt.cluster.kind), attempt.cluster.options
    address = kind.portal_url(options, settings.PUBLIC_URL)
    environment |= reporting_environment(job.id, attempt.number, address)
    private = {} if job.launch == Launch.MANIFEST else client_environment(attempt)
    if kind.keeps_environments:
        environment |= private
        private = {}
    return Workload(
        key=attempt.key,
        name=job.name,
        pool=job.pool.name,
        user=job.user.username,
        script=job.script,
        team=team,
        is_borrowed=attempt.guaranteed_mgpu < attempt.mgpu,
        is_requeueable=job.is_requeueable,
        cluster_user=attempt.cluster_user,
        slots=tuple(RankSlot(slot["node"], slot["mgpu"]) for slot in attempt.slots),
        environment=environment,
        private_environment=private,
        time_limit_s=job.time_limit_s,
        notice_signal=job.notice_signal,
        grace_s=_grace_s(attempt),
        signal_ahead_s=job.signal_ahead_s,
        signals_shell_only=job.signals_shell_only,
        features=tuple(job.features),
        closed_nodes=tuple(attempt.closed_nodes),
        image=job.image,
        cpus_per_node=job.cpus_per_node,
        memory_mib_per_node=job.memory_mib_per_node,
        required_topology=job.required_topology,
        preferred_topology=job.preferred_topology,
        arguments=tuple(job.arguments),
        files=_files(job),
        is_manifest=job.launch == Launch.MANIFEST,
        batch=_batch(attempt) if job.launch == Launch.BATCH else None,
    )


def _grace_s(attempt: Attempt) -> int:
    if attempt.grace_s is not None:
        return attempt.grace_s
    priority_class = attempt.job.priority_class_id
    return graces_s({priority_class})[priority_class]


def _files(job: Job) -> JobFiles:
    number = str(job_number(job.id))
    return JobFiles(
        folder=job.folder,
        output=job.output_file,
        error=job.error_file,
        appends=job.appends_output,
        values={
            "A": number if job.array is None else str(job_number(job.array.id)),
            "a": NO_ARRAY_INDEX if job.array is None else str(job.array_index),
            "j": number,
            "x": job.name if job.array is None else job.array.name,
        },
    )


def _batch(attempt: Attempt) -> BatchLaunch:
    job = attempt.job
    return BatchLaunch(
        number=job_number(job.id),
        qos=job.priority_class.name,
        restarts=attempt.number - 1,
        array_number=None if job.array is None else job_number(job.array.id),
        tasks=job.ntasks,
        tasks_per_node=job.ntasks_per_node,
        cpus_per_task=job.cpus_per_task,
        gpus_per_task=job.gpus_per_task,
    )
