"""The workloads of a cluster in the terms of the protocol. Pure.

This is the listing, with the phase of each of our attempts and the reason why it waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connectors.kubernetes.manifests.asking import asks_as_submitted, difference_text
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.objects.reading import Object, Odd, moment, number, text
from connectors.kubernetes.objects.resources import JOB, was_changed
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.kubernetes.workloads.admissions import Admission, admission_of
from connectors.kubernetes.workloads.ends import end_times, finish_of_run, is_stopped, outcome_of
from connectors.kubernetes.workloads.native_runs import foreign_pods, natives_of
from connectors.kubernetes.workloads.runs import (
    STATE_LENGTH_MAX,
    Look,
    Pod,
    Run,
    has_changed,
    rank_count,
)
from connectors.kubernetes.workloads.states import (
    Finish,
    Wait,
    WaitCode,
    is_at_rest,
    is_suspended,
    wait_of_pod,
)
from connectors.protocol import (
    Listing,
    NativeWorkload,
    Observation,
    Outcome,
    RankSlot,
    Unread,
    WorkloadPhase,
)

#: Seconds within which Kueue normally creates the Workload of a new object.
SEEN_WITHIN_S = 30
_UNSEEN = Wait(
    WaitCode.EVALUATING,
    "Kueue has made no Workload of it; it may not run, or not look after this namespace or kind",
    is_stuck=True,
)
_CHANGED = Wait(
    WaitCode.CHANGED,
    "somebody changed on the cluster what it asks for, and only what was submitted is started",
    is_stuck=True,
)


def listing_of(
    state: KubeState,
    *,
    cluster_id: str,
    pools: Mapping[str, KubernetesPool],
    check: str = naming.ADMISSION_CHECK,
) -> Listing:
    """Return every workload on the cluster: ours by key, the others as natives.

    `cluster_id` distinguishes ours from those of other installations, which are natives here.
    `check` is the name of our admission check. Invalid objects are Unread; nothing raises.
    """
    look = Look(state, cluster_id, pools, check)
    found: dict[str, list[Observation]] = {}
    natives: list[NativeWorkload] = []
    for run in look.runs():
        try:
            if run.key is None:
                natives.extend(natives_of(look, run))
            elif run.item is not None or run.alive:
                observation = _observation(look, run.key, run)
                found.setdefault(run.key, []).append(observation)
        except Odd as error:
            look.unread.append(Unread(run.uid, str(error)))
    natives.extend(foreign_pods(look))
    for copies in found.values():
        copies.sort(key=lambda one: (one.submitted_at or 0, one.native_id))
    return Listing(
        observed_at=state.observed_at,
        observations={key: copies[0] for key, copies in found.items()},
        copies={key: tuple(copies) for key, copies in found.items() if len(copies) > 1},
        natives=tuple(natives),
        unread=tuple(look.unread),
    )


def _observation(look: Look, key: str, run: Run) -> Observation:
    """Return the observation of our `run`. Raises Odd."""
    item = run.item
    if item is None:
        return _left_observation(look, key, run)
    admission = admission_of(run.workload, look.check)
    finish = finish_of_run(run, item)
    ranks = [pod for pod in run.pods if pod.rank is not None] or run.pods
    at_once = naming.manifest_pods(item)
    if at_once is not None:
        # Of a rank that ran again, the last Pod counts.
        ranks.sort(key=lambda pod: pod.created_at)
    exit_codes = {
        pod.rank if pod.rank is not None else n: pod.end.code
        for n, pod in enumerate(ranks)
        if pod.end is not None and pod.end.code is not None
    }
    phase, native_state, wait, raw = _phase(look, run, item, admission, finish)
    is_ended = phase is WorkloadPhase.ENDED
    started_at = admission.admitted_at
    if started_at is None and run.workload is None and run.pods:
        started_at = min(pod.created_at for pod in run.pods)
    if started_at is None and admission.was_admitted:
        started_at = min((pod.created_at for pod in run.pods), default=admission.evicted_at)
    if not _may_have_begun(run, phase, finish):
        # An admission is no start: a workload without Pods or image is withdrawn without cost.
        started_at = None
    elif run.began_at is not None:
        # It is charged from its first container on. Clocks of nodes may differ.
        started_at = max(run.began_at, started_at or 0)
    ended_at, released_at = (
        at if at is None else max(at, started_at or at)
        for at in end_times(look, run, ranks, admission, finish, started_at)
    )
    # While Pods of a gang are still being created, a part does not represent the whole.
    is_partial = phase is WorkloadPhase.STARTING and len(ranks) < rank_count(item, run.workload)
    outcome, message = None, ""
    if is_ended:
        outcome, message = outcome_of(run, admission, finish)
    elif wait is not None:
        message = wait.sentence(raw)
    elif at_once is not None and phase is WorkloadPhase.RUNNING:
        message = _failures(ranks)
    return Observation(
        key=key,
        native_id=run.uid,
        native_state=native_state[:STATE_LENGTH_MAX],
        phase=phase,
        started_at=started_at,
        ended_at=ended_at if is_ended else None,
        released_at=released_at if is_ended else None,
        is_released=is_ended,
        outcome=outcome,
        exit_codes=exit_codes if started_at is not None else {},
        message=message,
        submitted_at=moment(item, "metadata", "creationTimestamp"),
        slots=None if is_partial else _slots(run.pods if at_once else ranks, at_once),
        is_stuck=wait is not None and wait.is_stuck,
        is_held_by_others=wait is not None and wait.is_held_by_others,
        account=text(item, "metadata", "namespace"),
        pool=next((pool for pod in ranks for pool in pod.gpus if pool), ""),
    )


def _failures(ranks: Sequence[Pod]) -> str:
    """Return how many Pods of a manifest have failed while it runs on; "" for none.

    `ranks` are all Pods that are known, the oldest first.
    """
    failed = [pod for pod in ranks if pod.phase == "Failed"]
    if not failed:
        return ""
    count = f"{len(failed)} Pods" if len(failed) > 1 else "1 Pod"
    last = failed[-1]
    which = "" if last.rank is None else f", the last one of rank {last.rank}"
    code = None if last.end is None else last.end.code
    ended = ""
    if code is not None:
        ended = f" by signal {-code}" if code < 0 else f" with exit code {code}"
    return f"So far {count} of it failed{which}{ended}. Its controller may start others in place."


def _may_have_begun(run: Run, phase: WorkloadPhase, finish: Finish | None) -> bool:
    """Return whether anything of `run` runs or ran. Raises Odd.

    If no Pod is remembered, it is assumed to have run, unless we stopped it.
    """
    if run.has_begun or _has_counted_ranks(run.item):
        return True
    if is_stopped(run):
        # A deleted Pod becomes Failed, and then its Job, even if nothing ever ran.
        return finish is not None and finish.outcome is not Outcome.FAILED
    return finish is not None or (phase is not WorkloadPhase.STARTING and not run.pods)


def _has_counted_ranks(item: Object | None) -> bool:
    """Return whether a Job counts succeeded ranks, though their Pods may be gone. Raises Odd."""
    if item is None or item.get("kind") != JOB.kind:
        return False
    return bool(number(item, "status", "succeeded") or text(item, "status", "completedIndexes"))


def _left_observation(look: Look, key: str, run: Run) -> Observation:
    """Return the observation of our workload whose object is gone, while Pods are left."""
    ranks = run.pods
    return Observation(
        key=key,
        native_id=run.uid,
        native_state="Deleted",
        phase=WorkloadPhase.STOPPING,
        started_at=min(pod.created_at for pod in ranks),
        message="Somebody deleted it on the cluster; its Pods are ending.",
        slots=_slots(ranks),
        account=ranks[0].namespace,
        pool=next((pool for pod in ranks for pool in pod.gpus if pool), ""),
    )


def _phase(
    look: Look, run: Run, item: Object, admission: Admission, finish: Finish | None
) -> tuple[WorkloadPhase, str, Wait | None, str]:
    """Return the phase of `run`, the cluster's word, and why it waits if it does. Raises Odd."""
    if finish is not None:
        state = f"Finished ({finish.reason})" if finish.reason else "Finished"
        if run.alive:
            return WorkloadPhase.STOPPING, state, None, ""
        return WorkloadPhase.ENDED, state, None, ""
    if not admission.is_active or (admission.is_evicted and admission.was_admitted):
        state = f"Evicted ({admission.reason})" if admission.reason else "Deactivated"
        is_over = not run.alive and (not admission.was_admitted or is_at_rest(item))
        # Just deactivated: until Kueue has processed that, it may still admit it.
        is_over = is_over and (admission.is_evicted or not admission.is_reserved)
        return WorkloadPhase.ENDED if is_over else WorkloadPhase.STOPPING, state, None, ""
    if text(item, "metadata", "deletionTimestamp"):
        return WorkloadPhase.STOPPING, "Being deleted", None, ""
    is_marked = is_stopped(run) and run.workload is None
    if is_suspended(item) and not admission.is_admitted and (has_changed(item) or is_marked):
        is_over = not run.alive and (is_at_rest(item) or not was_changed(item))
        return WorkloadPhase.ENDED if is_over else WorkloadPhase.STOPPING, "Suspended", None, ""
    if run.workload is None and is_suspended(item):
        created_at = moment(item, "metadata", "creationTimestamp") or look.state.observed_at
        is_unseen = look.state.observed_at - created_at >= SEEN_WITHIN_S
        return WorkloadPhase.HELD, "Suspended", _UNSEEN if is_unseen else None, ""
    if run.workload is not None and not admission.is_admitted:
        if admission.is_voted and admission.is_reserved:
            return WorkloadPhase.STARTING, "QuotaReserved", admission.wait, admission.raw
        if admission.is_reserved:
            if not asks_as_submitted(item, run.workload, look.pools):
                raw = difference_text(item, run.workload, look.pools)
                return WorkloadPhase.HELD, "QuotaReserved", _CHANGED, raw
            return WorkloadPhase.HELD, "QuotaReserved", None, ""
        is_new = admission.wait is not None and admission.wait.code is WaitCode.EVALUATING
        state = f"Pending ({admission.raw.partition(':')[0]})" if admission.raw else "Pending"
        return (
            WorkloadPhase.HELD,
            state,
            None if is_new else admission.wait,
            admission.raw,
        )
    return _phase_of_pods(look, run, item, admission)


def _phase_of_pods(
    look: Look, run: Run, item: Object, admission: Admission
) -> tuple[WorkloadPhase, str, Wait | None, str]:
    if run.has_begun and naming.manifest_pods(item) is not None:
        # Its Pods may end and others follow, until its object has ended.
        return WorkloadPhase.RUNNING, "Admitted", None, ""
    wanted = rank_count(item, run.workload)
    running = sum(pod.phase == "Running" for pod in run.alive)
    if not run.alive and (run.over or run.gone):
        return WorkloadPhase.STOPPING, "Admitted, Pods ended", None, ""
    if any(pod.phase == "Failed" or pod.is_deleting for pod in (*run.over, *run.alive)):
        return (
            WorkloadPhase.STOPPING if not running else WorkloadPhase.RUNNING,
            "Admitted",
            None,
            "",
        )
    if running + len(run.over) >= wanted:
        return WorkloadPhase.RUNNING, "Admitted", None, ""
    if not run.alive:
        wait, raw = look.wait_without_pods(run, admission.admitted_at) or (None, "")
        return WorkloadPhase.STARTING, "Admitted", wait, raw
    waits = [
        found for pod in run.alive if pod.phase != "Running" and (found := wait_of_pod(pod.source))
    ]
    wait, raw = max(waits, key=lambda found: found[0].is_stuck, default=(None, ""))
    return WorkloadPhase.STARTING, "Admitted", wait, raw


def _slots(pods: Sequence[Pod], at_once: int | None = None) -> tuple[RankSlot, ...] | None:
    """Return the places of the ranks; None while a rank has no node.

    The Pods of a manifest may run one after the other, of which `at_once` hold GPUs together. None
    also while another number does.
    """
    holding = [pod for pod in pods if pod.mgpu > 0]
    if at_once is not None:
        holding = [pod for pod in holding if not pod.is_over]
        if len(holding) != at_once:
            return None
    if not holding or not all(pod.node for pod in holding):
        return None
    return tuple(RankSlot(pod.node, pod.mgpu) for pod in holding)
