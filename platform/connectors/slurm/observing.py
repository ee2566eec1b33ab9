"""Translates Slurm's records of jobs and nodes into those of the protocol."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from connectors.errors import UnknownNativeState
from connectors.protocol import (
    NativeWorkload,
    NodeCapacity,
    Observation,
    Outcome,
    RankSlot,
    WorkloadPhase,
)
from connectors.slurm.logs import RankExits
from connectors.slurm.neutral import HistoryJob, SlurmJob, SlurmNode, SlurmPartition
from connectors.slurm.options import SlurmPool
from connectors.slurm.states import (
    is_held_by_others,
    is_stuck,
    native_state,
    never_starts,
    outcome_of,
    phase_of,
    remark,
)
from connectors.slurm.tres import CORES
from primitives.units import DeviceKind

MGPU_PER_GPU = 1_000
_SIGNAL_CODES = range(129, 129 + signal.NSIG)


def observation_of(
    key: str,
    job: SlurmJob,
    exits: RankExits,
    *,
    pool: str | None = None,
    was_let_go: bool = False,
    is_preemptible: bool = False,
    is_mixed: bool = False,
    is_altered: bool = False,
) -> Observation:
    """Return the observation of `job`, the workload `key`; `exits` is what its ranks left.

    A job that `was_let_go` and is held again is held by somebody else. A job that `is_altered` no
    longer matches its submission. A job in an unknown state never counts as ended.
    """
    phase, outcome, message = _phase_and_outcome(job)
    is_released = phase is WorkloadPhase.ENDED
    ended_at = job.end_time if is_released else None
    started_at = _started_at(job)
    is_again = was_let_go and phase is WorkloadPhase.HELD and not never_starts(job)
    if is_again and not is_held_by_others(job):
        message = (
            "It had been released, and somebody holds it on the cluster again "
            f"({_printable(job.reason)[:60]}); it starts when they release it."
        )
    if is_altered:
        message = _altered(job)
    if exits.refusal:
        message = exits.refusal
    return Observation(
        key=key,
        native_id=str(job.job_id),
        native_state=native_state(job.state, job.state_flags),
        phase=phase,
        started_at=started_at,
        ended_at=ended_at,
        # Slurm does not record when the nodes became free; it charges until the end.
        released_at=ended_at,
        is_released=is_released,
        outcome=outcome,
        exit_codes=exit_codes(job, exits, outcome) if is_released else {},
        message=message,
        submitted_at=job.submit_time,
        slots=slots_of(job) or None,
        resized_at=job.resize_time,
        is_stuck=is_stuck(job) or is_again,
        is_held_by_others=is_held_by_others(job) or is_again,
        never_starts=never_starts(job),
        is_altered=is_altered,
        restarts=job.restarts,
        is_only_run=job.restarts == 0,
        user=job.user,
        account=job.account,
        pool=pool or "",
        is_preemptible=is_preemptible,
        is_mixed=is_mixed,
        time_limit_s=job.time_limit_s,
    )


def ended_observation(
    key: str, run: HistoryJob, exits: RankExits, *, is_only_run: bool = False
) -> Observation:
    """Return the observation of `run`, which has ended in the accounting.

    Raises UnknownNativeState.
    """
    outcome = outcome_of(run)
    return Observation(
        key=key,
        native_id=str(run.job_id),
        native_state=native_state(run.state, run.state_flags),
        phase=WorkloadPhase.ENDED,
        started_at=run.start_time if run.nodes else None,
        ended_at=run.end_time,
        released_at=run.end_time,
        is_released=True,
        outcome=outcome,
        exit_codes=exits.codes,
        message=exits.refusal or "From the cluster's accounting: its queue forgot the job.",
        submitted_at=run.submit_time,
        slots=_even_slots(run.nodes, sum(run.gpus.values())) or None,
        resized_at=run.before[-1][0] if run.before else None,
        is_only_run=is_only_run,
    )


def exit_codes(job: SlurmJob, exits: RankExits, outcome: Outcome | None) -> Mapping[int, int]:
    """Return exit codes by rank: from the ranks' files, else from the job's own exit code."""
    if exits.codes or exits.refusal:
        return exits.codes
    if outcome is Outcome.SUCCEEDED:
        return dict.fromkeys(range(job.node_count), 0)
    if outcome is Outcome.FAILED and job.node_count == 1:
        if job.exit_signal:
            return {0: -job.exit_signal}
        if job.exit_code:
            # A shell that reports the end of a process by a signal adds 128.
            is_signal = job.exit_code in _SIGNAL_CODES
            return {0: 128 - job.exit_code if is_signal else job.exit_code}
    return {}


def slots_of(job: SlurmJob) -> tuple[RankSlot, ...]:
    """Return the places of the ranks of `job`, in rank order; () while it has no nodes."""
    if job.state == "PENDING" or not job.nodes:
        return ()
    if job.gpus_by_node:
        return tuple(
            RankSlot(node, job.gpus_by_node.get(node, 0) * MGPU_PER_GPU) for node in job.nodes
        )
    # The record of an ended job no longer has the GPUs by node.
    return _even_slots(job.nodes, sum((job.gpus_allocated or job.gpus_requested).values()))


def native_of(job: SlurmJob, *, pool: str, gpus: int, borrow_qos: str) -> NativeWorkload:
    """Return `job`, a native job that holds or awaits `gpus` GPUs of `pool`, as a workload."""
    phase, outcome, _ = _phase_and_outcome(job)
    is_released = phase is WorkloadPhase.ENDED
    return NativeWorkload(
        native_id=str(job.job_id),
        submitted_at=job.submit_time,
        name=job.name,
        account=job.account,
        user=job.user,
        pool=pool,
        mgpu=gpus * MGPU_PER_GPU,
        native_state=native_state(job.state, job.state_flags),
        phase=phase,
        is_preemptible=job.qos == borrow_qos,
        started_at=_started_at(job),
        ended_at=job.end_time if is_released else None,
        is_released=is_released,
        outcome=outcome,
        time_limit_s=job.time_limit_s,
        resized_at=job.resize_time,
        slots=slots_of(job) or (() if job.state == "PENDING" else spread(job.nodes, gpus)),
    )


def node_capacities(
    node: SlurmNode,
    pools: Mapping[str, SlurmPool],
    partitions: Mapping[str, SlurmPartition],
    *,
    cpus_per_gpu: int | None = None,
    memory_mb_per_gpu: int | None = None,
) -> list[NodeCapacity]:
    """Return what `node` offers to each of our pools that it has devices of.

    `cpus_per_gpu` and `memory_mb_per_gpu` are for jobs that do not ask for an amount. The CPUs of a
    node in a CPU pool are its devices, and not an additional resource.
    """
    found = []
    for name, pool in pools.items():
        if (gpus := node.gpus.get(pool.gres_type, 0)) < 1:
            continue
        is_of_cores = pool.device is DeviceKind.CPU
        if is_of_cores and pool.partition not in node.partitions:
            # Every node without GPUs has cores, but only the partition's nodes belong to the pool.
            continue
        partition = partitions.get(pool.partition)
        state = native_state(node.state, node.state_flags).lower()
        is_schedulable = node.takes_work
        if partition is None or pool.partition not in node.partitions:
            is_schedulable = False
            state += f", not in partition {pool.partition}"
        elif partition.state != "UP":
            is_schedulable = False
            state += f", partition {partition.name} {partition.state.lower()}"
        found.append(
            NodeCapacity(
                name=node.name,
                pool=name,
                capacity_mgpu=gpus * MGPU_PER_GPU,
                is_schedulable=is_schedulable,
                state=state,
                # Slurm keeps the reason of the last drain after the node has returned.
                reason="" if node.takes_work else _printable(node.reason),
                features=node.features,
                cpu_milli=None if node.cpus is None or is_of_cores else node.cpus * 1_000,
                memory_mib=node.memory_mb,
                cpu_milli_per_gpu=0 if is_of_cores else (cpus_per_gpu or 0) * 1_000,
                memory_mib_per_gpu=(pool.memory_mb_per_core if is_of_cores else memory_mb_per_gpu)
                or 0,
                device=pool.device,
            )
        )
    return found


def _altered(job: SlurmJob) -> str:
    words = {"": "GPUs", CORES: "cores and no GPUs"}
    gpus = " and ".join(
        f"{count} {words.get(kind, kind)}" for kind, count in job.gpus_requested.items()
    )
    nodes = "1 node" if job.node_count == 1 else f"{job.node_count} nodes"
    return _printable(
        f"Somebody changed it on the cluster before it began: it asks for {gpus or 'no GPUs'} on "
        f"{nodes} of partition {job.partition} now, for account {job.account} with QoS {job.qos}."
    )


def _phase_and_outcome(job: SlurmJob) -> tuple[WorkloadPhase, Outcome | None, str]:
    try:
        phase = phase_of(job)
        outcome = outcome_of(job) if phase is WorkloadPhase.ENDED else None
    except UnknownNativeState as error:
        return (WorkloadPhase.RUNNING if job.nodes else WorkloadPhase.STARTING), None, str(error)
    return phase, outcome, remark(job)


def _started_at(job: SlurmJob) -> int | None:
    """Return the start; None for a job that waits or has no nodes.

    The record of a waiting job has only an expected start.
    """
    return None if job.state == "PENDING" or not job.nodes else job.start_time


def _even_slots(nodes: tuple[str, ...], gpus: int) -> tuple[RankSlot, ...]:
    if not nodes or gpus % len(nodes):
        return ()
    return tuple(RankSlot(node, gpus // len(nodes) * MGPU_PER_GPU) for node in nodes)


def spread(nodes: tuple[str, ...], gpus: int) -> tuple[RankSlot, ...]:
    """Return `gpus` on `nodes`, spread evenly, where no record has GPUs by node."""
    if not nodes:
        return ()
    each, more = divmod(gpus, len(nodes))
    return tuple(
        RankSlot(node, (each + (rank < more)) * MGPU_PER_GPU) for rank, node in enumerate(nodes)
    )


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
