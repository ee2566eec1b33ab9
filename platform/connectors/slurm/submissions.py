"""Translates a workload into a submission for Slurm, or refuses it with a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from batch.variables import respects_tasks_per_node
from connectors.errors import NotPrepared, WorkloadRejected
from connectors.protocol import Workload
from connectors.slurm.batch import batch_script
from connectors.slurm.hardware import Hardware, Kept
from connectors.slurm.naming import account_name, comment_of, guaranteed_qos, tag
from connectors.slurm.neutral import SlurmJob, SlurmNode, Submission
from connectors.slurm.observing import MGPU_PER_GPU
from connectors.slurm.options import USER_FIELD, SlurmOptions, SlurmPool, is_name
from connectors.workload_checks import TIME_LIMIT_S_MAX
from primitives.durations import duration_of_seconds
from primitives.units import DeviceKind

_S_PER_MINUTE = 60


class SubmissionBuilder:
    """Builds the submissions to one cluster.

    Raises WorkloadRejected for a workload that can never start there, and ClusterUnavailable when
    its hardware is unknown.
    """

    def __init__(self, options: SlurmOptions, hardware: Kept[Hardware]) -> None:
        self._options = options
        self._hardware = hardware

    def user_of(self, workload: Workload) -> str:
        """Return the UNIX user of the workload's job."""
        user = workload.cluster_user
        if user is None:
            raise WorkloadRejected(f"no UNIX user is mapped to {workload.user!r} on this cluster")
        if not is_name(user) or user in ("root", "slurm", "nobody", self._options.service_user):
            raise WorkloadRejected(f"jobs may not run as UNIX user {user[:80]!r}")
        return user

    def build(self, workload: Workload, user: str) -> Submission:
        """Return the submission of `workload` as `user`, held."""
        options = self._options
        pool = options.pools.get(workload.pool)
        if pool is None:
            raise WorkloadRejected(f"this cluster has no pool {workload.pool[:80]!r}")
        if workload.image is not None and not options.runs_images:
            raise WorkloadRejected(
                "this cluster runs no container images: its option containers is not set, and "
                f"the job names the image {workload.image}"
            )
        gpus = _gpus_per_node(workload, pool)
        is_of_cores = pool.device is DeviceKind.CPU
        each_mb = pool.memory_mb_per_core if is_of_cores else options.memory_mb_per_gpu
        account = account_name(workload.team, options.account_prefix)
        tasks_per_node = _tasks_per_node(workload)
        cpus = workload.cpus_per_node or (options.cpus_per_gpu and options.cpus_per_gpu * gpus)
        if is_of_cores:
            cpus = gpus
        name = tag(options.tag_secret, workload.key, user)
        working_directory = options.working_directory.replace(USER_FIELD, user)
        return Submission(
            name=name,
            # Set by `signed`, when all other fields are final.
            comment="",
            account=account,
            partition=pool.partition,
            qos=options.borrow_qos
            if workload.is_borrowed
            else guaranteed_qos(account, options.qos_prefix),
            gres_type=pool.gres_type,
            gpus_per_node=gpus,
            node_count=len(workload.slots),
            tasks_per_node=tasks_per_node,
            tasks=None if workload.batch is None else workload.batch.tasks,
            cpus_per_task=_cpus_per_task(cpus, tasks_per_node, workload),
            memory_mb_per_node=workload.memory_mib_per_node or (each_mb and each_mb * gpus),
            time_limit_minutes=self._time_limit_minutes(workload, gpus, pool),
            constraint=constraint_of(pool, workload),
            excluded_nodes=self._known(workload.closed_nodes),
            environment={"PATH": options.path, **_batch_variables(workload, working_directory)},
            script=batch_script(
                _told_its_cores(workload, gpus) if is_of_cores else workload,
                tag=name,
                directory=options.output_directory(user),
                gpus_per_node=0 if is_of_cores else gpus,
                path=options.path,
                mounts=self._mounts(user, working_directory),
            ),
            working_directory=working_directory,
            # The script opens its outputs itself, as soon as their directory exists.
            standard_output="/dev/null",
            standard_error="/dev/null",
            hold=True,
        )

    def signed(self, submission: Submission) -> Submission:
        """Return `submission` with a signed comment, against which `asked_by` detects changes."""
        asked = _asked(
            *(submission.partition, submission.account, submission.qos, submission.gres_type),
            *(submission.node_count, submission.node_count * submission.gpus_per_node),
        )
        return replace(
            submission, comment=comment_of(self._options.tag_secret, submission.name, asked)
        )

    def _known(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Return the nodes that the cluster has, because it refuses a job with any other."""
        if not nodes:
            return ()
        has = self._hardware.get().nodes
        return tuple(one for one in nodes if one in has)

    def _mounts(self, user: str, working_directory: str) -> tuple[str, ...]:
        """Return the directories that containers of `user` see, the working directory first."""
        others = (one.replace(USER_FIELD, user) for one in self._options.container_mounts)
        outputs = self._options.output_directory(user)
        return tuple(dict.fromkeys((working_directory, outputs, *others)))

    def _time_limit_minutes(self, workload: Workload, gpus: int, pool: SlurmPool) -> int:
        """Return the limit in whole minutes, rounded up; without one, the longest allowed.

        Raises NotPrepared for a job that would wait in the partition for ever, because Slurm
        accepts held jobs unchecked. Other clusters may take the job.
        """
        problem, most_s = _check_room(workload, gpus, pool, self._hardware.get())
        if problem:
            # The hardware is read again before a job is refused because of it.
            self._hardware.drop()
            problem, most_s = _check_room(workload, gpus, pool, self._hardware.get())
        if problem:
            raise NotPrepared(problem)
        if workload.time_limit_s is None:
            return (most_s or TIME_LIMIT_S_MAX) // _S_PER_MINUTE
        return minutes_of(workload.time_limit_s)


def minutes_of(time_limit_s: int) -> int:
    """Return a time limit as Slurm counts it: whole minutes, rounded up."""
    return -(-time_limit_s // _S_PER_MINUTE)


def asked_by(job: SlurmJob, pool: SlurmPool) -> Sequence[str | int]:
    """Return the request of `job` as a job of `pool`, in the form that is signed."""
    gpus = sum(job.gpus_requested.values())
    return _asked(job.partition, job.account, job.qos, pool.gres_type, job.node_count, gpus)


def _asked(
    partition: str, account: str, qos: str, gres_type: str, node_count: int, gpus: int
) -> Sequence[str | int]:
    return partition, account, qos, gres_type, node_count, gpus


def constraint_of(pool: SlurmPool, workload: Workload) -> str | None:
    """Return the pool's own constraint and the job's features, all of which must hold."""
    own = pool.constraint
    if own is None or not workload.features:
        return "&".join(workload.features) or own
    # "&" binds closer than "|". Brackets are a unit by themselves and may not stand in others.
    own = f"({own})" if "|" in own and "[" not in own else own
    return "&".join((own, *workload.features))


def _tasks_per_node(workload: Workload) -> int:
    """Return the most tasks on a node; the script of a job that is no batch job is one task."""
    batch, nodes = workload.batch, len(workload.slots)
    if batch is None:
        return 1
    if batch.tasks_per_node and respects_tasks_per_node(nodes, batch.tasks, batch.tasks_per_node):
        return batch.tasks_per_node
    return -(-(batch.tasks or 1) // nodes)


def _cpus_per_task(cpus: int | None, tasks_per_node: int, workload: Workload) -> int | None:
    """Return the CPUs of a task, from the `cpus` of a node where the script does not say it."""
    if workload.batch is not None and workload.batch.cpus_per_task is not None:
        return workload.batch.cpus_per_task
    return cpus and max(1, cpus // tasks_per_node)


def _batch_variables(workload: Workload, folder: str) -> dict[str, str]:
    """Return the variables of a batch job that `sbatch` sets and slurmrestd does not."""
    batch = workload.batch
    if batch is None:
        return {}
    found = {
        "SLURM_SUBMIT_DIR": folder,
        "SLURM_NTASKS": batch.tasks,
        "SLURM_NPROCS": batch.tasks,
        "SLURM_NTASKS_PER_NODE": batch.tasks_per_node and _tasks_per_node(workload),
        "SLURM_CPUS_PER_TASK": batch.cpus_per_task,
        "SLURM_GPUS_PER_TASK": batch.gpus_per_task,
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def _told_its_cores(workload: Workload, cores: int) -> Workload:
    """Return `workload` with the core count of its ranks in the environment.

    Slurm reports it only in variables of its own.
    """
    environment = {**workload.environment, "TIDEGATE_CPUS_PER_NODE": str(cores)}
    return replace(workload, environment=environment)


def _gpus_per_node(workload: Workload, pool: SlurmPool) -> int:
    """Return the GPUs on each node; in a pool of cores, the cores."""
    sizes = {slot.mgpu for slot in workload.slots}
    named = pool.device.plural
    if len(sizes) > 1:
        raise WorkloadRejected(f"a Slurm cluster gives every node of a job as many {named}")
    mgpu = sizes.pop()
    if mgpu < MGPU_PER_GPU or mgpu % MGPU_PER_GPU:
        raise WorkloadRejected(
            f"a Slurm cluster gives whole {named}, at least one on each node, not {mgpu} "
            "thousandths"
        )
    return mgpu // MGPU_PER_GPU


def _check_room(
    workload: Workload, gpus: int, pool: SlurmPool, hardware: Hardware
) -> tuple[str, int | None]:
    """Return why `workload` can never start, or "", and the longest allowed time limit."""
    partition = hardware.partitions.get(pool.partition)
    if partition is None:
        return f"the cluster has no partition {pool.partition}", None
    most_s = partition.max_time_limit_s
    large = [
        name
        for name in partition.nodes
        if name in hardware.nodes and hardware.nodes[name].gpus.get(pool.gres_type, 0) >= gpus
    ]
    wants = f"{gpus} GPUs of type {pool.gres_type}"
    if pool.device is DeviceKind.CPU:
        wants = f"{gpus} cores and no GPUs"
    if len(workload.slots) <= len(large):
        large = [name for name in large if _has_beside(hardware.nodes[name], workload)]
        if workload.cpus_per_node is not None:
            wants += f", {workload.cpus_per_node} CPUs"
        if workload.memory_mib_per_node is not None:
            wants += f", {workload.memory_mib_per_node} MiB of memory"
    if len(workload.slots) > len(large):
        return (
            f"{len(workload.slots)} nodes with {wants} are asked for, "
            f"and partition {partition.name} has {len(large)} such nodes"
        ), most_s
    if most_s is not None and (workload.time_limit_s or 0) > most_s:
        asked, most = map(duration_of_seconds, (workload.time_limit_s or 0, most_s))
        return (
            f"the time limit of {asked} is longer than the {most} that partition "
            f"{partition.name} allows"
        ), most_s
    return "", most_s


def _has_beside(node: SlurmNode, workload: Workload) -> bool:
    """Return whether a node has the requested CPUs and memory, as far as it reports them."""
    return (node.cpus is None or node.cpus >= (workload.cpus_per_node or 0)) and (
        node.memory_mb is None or node.memory_mb >= (workload.memory_mib_per_node or 0)
    )
