"""Native workloads of a cluster in the terms of the protocol. Pure.

They are workloads that people submitted to Kueue, and Pods with GPUs outside of every queue.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from connectors.kubernetes.manifests.asking import asked_by_native
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.naming import CREATOR
from connectors.kubernetes.objects.reading import Object, moment, needed, number, parts, text, texts
from connectors.kubernetes.workloads.admissions import Admission, admission_of
from connectors.kubernetes.workloads.ends import end_times, is_stopped
from connectors.kubernetes.workloads.runs import (
    NAME_LENGTH_MAX,
    STATE_LENGTH_MAX,
    Look,
    Pod,
    Run,
    rank_count,
)
from connectors.kubernetes.workloads.states import (
    Finish,
    WaitCode,
    eviction,
    finish_of,
    wait_of_pod,
)
from connectors.protocol import NativeWorkload, Outcome, RankSlot, WorkloadPhase
from primitives.units import DeviceKind


def natives_of(look: Look, run: Run) -> list[NativeWorkload]:
    """Return the native `run`, once for each pool of which it has or wants GPUs. Raises Odd."""
    workload = run.workload
    if workload is None:
        # Kueue does not know it: its Pods are listed one by one.
        look.foreign.extend(run.alive)
        return []
    admission = admission_of(workload, look.check)
    asked = asked_by_native(workload, look.pools)
    if _asks_gpus(asked, look):
        # For example, a leader without GPUs that its owner placed on nodes of a CPU pool.
        on_other_pools = [pod for pod in run.alive if pod.gpus and not _asks_gpus(pod.gpus, look)]
        look.foreign.extend(on_other_pools)
        run.alive = [replace(pod, gpus={}) if pod in on_other_pools else pod for pod in run.alive]
    item = run.item or workload
    finish = finish_of(run.item or {}, workload)
    is_over = finish is not None or admission.is_admitted
    if is_over and not asked and not any(pod.mgpu for pod in run.pods):
        return []
    outcome: Outcome | None = None
    slots: tuple[Pod, ...] = ()
    is_released = False
    message, is_stuck = "", False
    if finish is not None:
        is_released = not run.alive
        phase = WorkloadPhase.ENDED if is_released else WorkloadPhase.STOPPING
        outcome = finish.outcome if is_released else None
        slots = tuple(run.pods)
        state = f"Finished ({finish.reason})"
    elif is_stopped(run):
        # The portal ended it for good (`natives.cancel`).
        is_released = not run.alive and not admission.is_admitted
        phase = WorkloadPhase.ENDED if is_released else WorkloadPhase.STOPPING
        outcome = Outcome.STOPPED if is_released else None
        slots, state = tuple(run.alive), "Cancelled"
    elif admission.is_admitted and admission.is_active and not admission.evicted_at:
        is_all = sum(pod.phase == "Running" for pod in run.alive) >= rank_count(item, workload)
        phase = WorkloadPhase.RUNNING if is_all else WorkloadPhase.STARTING
        slots = tuple(run.alive)
        state = "Admitted"
        waits = [
            w for pod in run.alive if pod.phase == "Pending" and (w := wait_of_pod(pod.source))
        ]
        if not run.pods and (none := look.wait_without_pods(run, admission.admitted_at)):
            waits = [none]
        if waits:
            gravest, raw = max(waits, key=lambda found: found[0].is_stuck)
            message = gravest.sentence(raw)
            is_stuck = gravest.is_stuck and not any(pod.node for pod in run.pods)
    elif any(not _is_gated(pod) for pod in run.alive) or (
        admission.is_final and admission.is_admitted
    ):
        phase, slots, state = WorkloadPhase.STOPPING, tuple(run.alive), "Evicted"
    elif admission.is_final:
        # Another grant would hold GPUs in vain: Kueue never starts it again.
        is_released, phase = True, WorkloadPhase.ENDED
        outcome, message = eviction(admission.reason, admission.message)
        state = f"Evicted ({admission.reason})"
    else:
        phase = WorkloadPhase.HELD
        reason = admission.raw.partition(":")[0]
        state = "QuotaReserved" if admission.is_reserved else f"Pending ({reason or 'new'})"
        wait = admission.wait
        is_ours_to_start = wait is not None and wait.code in (WaitCode.GATED, WaitCode.EVALUATING)
        if wait is not None and not is_ours_to_start:
            message = wait.sentence(admission.raw)
    return _by_pool(
        look,
        run,
        workload,
        item,
        asked,
        slots,
        phase=phase,
        state=state,
        message=message,
        is_stuck=is_stuck,
        admission=admission,
        finish=finish,
        outcome=outcome,
        is_released=is_released,
    )


def _asks_gpus(by_pool: Collection[str], look: Look) -> bool:
    """Return whether the requested pools include one of GPUs."""
    return any(name in look.pools and look.pools[name].device is DeviceKind.GPU for name in by_pool)


def _is_gated(pod: Pod) -> bool:
    """Return whether Kueue gates the Pod until its workload is admitted. Raises Odd.

    Plain Pods in a queue, for example, exist before their workload starts.
    """
    gates = parts(pod.source, "spec", "schedulingGates")
    return not pod.node and any(text(gate, "name") == naming.ADMISSION_GATE for gate in gates)


def _by_pool(
    look: Look,
    run: Run,
    workload: Object,
    item: Object,
    asked: Mapping[str, tuple[int, ...]],
    pods: Sequence[Pod],
    *,
    phase: WorkloadPhase,
    state: str,
    message: str,
    is_stuck: bool,
    admission: Admission,
    finish: Finish | None,
    outcome: Outcome | None,
    is_released: bool,
) -> list[NativeWorkload]:
    ordered = sorted(pods, key=lambda pod: pod.order)
    holding = [pod for pod in ordered if pod.mgpu and pod.node]
    # A waiting workload without our GPUs is listed too, because the portal must start it.
    names = sorted({pool for pod in holding for pool in pod.gpus} or set(asked) or {""})
    is_mixed = len(names) > 1
    started_at = _started_at(run, phase, admission.admitted_at)
    ended_at = None
    if is_released and finish is not None:
        ended_at, _ = end_times(look, run, run.pods, admission, finish, started_at)
    elif is_released and admission.is_final:
        _, ended_at = end_times(look, run, run.pods, admission, finish, started_at)
    elif phase is WorkloadPhase.HELD:
        # The end of its last run, if it had one.
        ended_at = admission.evicted_at if admission.was_admitted else None
    priority = text(workload, "spec", "priorityClassRef", "name") or texts(
        item, "metadata", "labels"
    ).get(naming.PRIORITY_LABEL, "")
    found = []
    for name in names:
        ranks = asked.get(name, ())
        slots = tuple(RankSlot(pod.node, pod.gpus[name]) for pod in holding if name in pod.gpus)
        found.append(
            NativeWorkload(
                native_id=f"{run.uid} ({name})" if is_mixed else run.uid,
                submitted_at=moment(item, "metadata", "creationTimestamp") or 0,
                name=needed(item, "metadata", "name")[:NAME_LENGTH_MAX],
                account=text(item, "metadata", "namespace"),
                user=texts(item, "metadata", "annotations").get(CREATOR, ""),
                pool=name,
                mgpu=sum(ranks) or sum(slot.mgpu for slot in slots),
                native_state=state[:STATE_LENGTH_MAX],
                phase=phase,
                is_preemptible=priority == naming.BORROWED_CLASS,
                started_at=started_at,
                ended_at=ended_at,
                is_released=is_released,
                outcome=outcome,
                time_limit_s=number(workload, "spec", "maximumExecutionTimeSeconds"),
                slots=slots,
                is_mixed=is_mixed,
                ranks_mgpu=ranks,
                message=message,
                is_stuck=is_stuck,
            )
        )
    return found


def _started_at(run: Run, phase: WorkloadPhase, admitted_at: int | None) -> int | None:
    """Return when its first container started since its admission; None while none did.

    Init containers count, because the Pod already holds its GPUs. An admission alone is no start: a
    workload that gets no Pods or no image is withdrawn without cost. The time of admission is used
    for a run that left no Pods, and where a node's clock is slow.
    """
    if phase is WorkloadPhase.HELD or admitted_at is None:
        return None
    # Deleted Pods may belong to an earlier run.
    pods = [*run.alive, *run.over]
    began = [pod.holds_from for pod in run.pods if (pod.holds_from or 0) >= admitted_at]
    if first := min((at for at in began if at is not None), default=None):
        return first
    if any(pod.holds_from is not None or pod.has_begun for pod in pods):
        return admitted_at
    return None if pods or phase is WorkloadPhase.STARTING else admitted_at


def foreign_pods(look: Look) -> list[NativeWorkload]:
    """Return Pods with GPUs that no queue of Kueue admitted. They count as held outside."""
    return [
        NativeWorkload(
            native_id=f"{pod.uid} ({pool})" if len(pod.gpus) > 1 else pod.uid,
            submitted_at=pod.created_at,
            name=f"{pod.namespace}/{pod.name}"[:NAME_LENGTH_MAX],
            account="",
            user="",
            place=pod.namespace,
            pool=pool,
            mgpu=mgpu,
            native_state=pod.phase[:STATE_LENGTH_MAX],
            phase=_phase_of_foreign(pod),
            started_at=pod.started_at or pod.created_at if pod.node else None,
            slots=(RankSlot(pod.node, mgpu),) if pod.node else (),
            is_mixed=len(pod.gpus) > 1,
        )
        for pod in sorted(look.foreign, key=lambda pod: pod.uid)
        if not pod.is_over
        for pool, mgpu in sorted(pod.gpus.items())
        if mgpu
    ]


def _phase_of_foreign(pod: Pod) -> WorkloadPhase:
    if pod.is_deleting:
        return WorkloadPhase.STOPPING
    return WorkloadPhase.RUNNING if pod.phase == "Running" else WorkloadPhase.STARTING
