"""How and when a workload ended, from conditions and from its Pods' containers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.reading import (
    Object,
    moment,
    number,
    part,
    printable,
    text,
    texts,
)
from connectors.kubernetes.objects.resources import JOB
from connectors.kubernetes.workloads.admissions import Admission
from connectors.kubernetes.workloads.runs import (
    NAME_LENGTH_MAX,
    Look,
    Pod,
    Run,
    has_changed,
    rank_count,
)
from connectors.kubernetes.workloads.states import (
    Finish,
    disruption,
    eviction,
    finish_of,
    is_suspended,
    unsaid_finish_of,
)
from connectors.protocol import Outcome


def finish_of_run(run: Run, item: Object) -> Finish | None:
    """Return how `item`, the object of `run`, ended by itself; None while it has not. Raises Odd.

    The controller of Jobs reports the end up to a second after the last Pod, and the GPUs should
    not wait for it. So the end of a Job without retries is derived from its Pods.
    """
    finish = finish_of(item, run.workload)
    if (
        finish is not None
        or run.alive
        or item.get("kind") != JOB.kind
        or is_suspended(item)
        or is_stopped(run)
        or text(item, "metadata", "deletionTimestamp")
    ):
        return finish
    return unsaid_finish_of(item) or _finish_of_pods(item, run.over)


def _finish_of_pods(item: Object, over: Sequence[Pod]) -> Finish | None:
    """Return how a Job ends whose last Pods are `over`; None if more may follow. Raises Odd.

    A rank that succeeded gets no more Pods. After a failure nothing follows if there is no retry
    (`backoffLimit` 0) and no failure that is ignored.
    """
    ranks = number(item, "spec", "completions")
    if not ranks or ranks > len(over):
        return None
    wanted = set(range(ranks))
    # A Pod that is being deleted may be replaced by another.
    ended = [pod for pod in over if not pod.is_deleting]
    if wanted <= {pod.rank for pod in ended if pod.phase == "Succeeded"}:
        return Finish(Outcome.SUCCEEDED, "CompletionsReached", "", {})
    is_only_try = number(item, "spec", "backoffLimit") == 0
    if not is_only_try or part(item, "spec", "podFailurePolicy"):
        return None
    if wanted <= {pod.rank for pod in ended}:
        return Finish(Outcome.FAILED, "BackoffLimitExceeded", "", {})
    return None


def end_times(
    look: Look,
    run: Run,
    ranks: Sequence[Pod],
    admission: Admission,
    finish: Finish | None,
    started_at: int | None,
) -> tuple[int | None, int | None]:
    """Return when it ended, and since when its GPUs are free. Raises Odd."""
    last = max((pod.ended_at for pod in ranks if pod.ended_at is not None), default=None)
    is_all_known = bool(ranks) and all(pod.ended_at is not None for pod in ranks)
    is_all_known = is_all_known and run.item is not None
    is_all_known = is_all_known and len(ranks) >= rank_count(run.item or {}, run.workload)
    if finish is not None:
        said_at = moment(finish.condition, "lastTransitionTime")
        ended_at = last if is_all_known else said_at or last or look.state.observed_at
        return ended_at, ended_at
    if started_at is None:
        at = admission.evicted_at or look.state.observed_at
        return at, at
    if is_all_known:
        return last, last
    at = look.state.observed_at
    return max(last or 0, admission.evicted_at or 0) or at, at


def outcome_of(run: Run, admission: Admission, finish: Finish | None) -> tuple[Outcome, str]:
    """Return how the ended `run` ended, and a sentence on it. Raises Odd."""
    ends = [pod.end for pod in run.pods if pod.end is not None]
    for pod in run.pods:
        if pod.end is not None and pod.end.start_failure:
            rank = "" if pod.rank is None else f"rank {pod.rank}: "
            return Outcome.START_FAILED, f"{rank}{pod.end.start_failure}"
    if finish is not None and _ended_by_eviction(run, admission, finish):
        return eviction(admission.reason, admission.message)
    if is_stopped(run) and (finish is None or finish.outcome is not Outcome.SUCCEEDED):
        # It counts as stopped, whether its Pods ended first, for which it fails, or its admission.
        return Outcome.STOPPED, ""
    if finish is None:
        # It ran under an earlier Workload, and nothing of the new one may start.
        is_anew = not admission.was_admitted and run.item is not None and has_changed(run.item)
        is_deactivated = not admission.is_active and admission.reason in ("", "Deactivated")
        if is_deactivated and not is_anew:
            return Outcome.STOPPED, ""
        if is_deactivated or admission.reason == "":
            return Outcome.PREEMPTED, "It was begun anew on the cluster, which is not let happen."
        return eviction(admission.reason, admission.message)
    # A rank may fail after a notice while the others succeed: its code counts.
    if finish.outcome is Outcome.SUCCEEDED:
        if any(end.is_timed_out for end in ends):
            return Outcome.TIMED_OUT, ""
        # A manifest may let Pods fail and run again.
        is_failed = naming.manifest_pods(run.item or {}) is None and any(
            end.code not in (None, 0) for end in ends
        )
        return (Outcome.FAILED if is_failed else Outcome.SUCCEEDED), ""
    for pod in run.pods:
        found = disruption(pod.source)
        if found is not None:
            return found
    if finish.reason == "PodFailurePolicy" and "DisruptionTarget" in finish.message:
        return _unexplained(finish)
    if finish.outcome is Outcome.TIMED_OUT or any(end.is_timed_out for end in ends):
        return Outcome.TIMED_OUT, ""
    if any(end.code not in (None, 0) for end in ends):
        return Outcome.FAILED, ""
    if finish.outcome is Outcome.FAILED and admission.was_admitted:
        return _unexplained(finish)
    return finish.outcome, printable(finish.message, NAME_LENGTH_MAX)


def _ended_by_eviction(run: Run, admission: Admission, finish: Finish) -> bool:
    """Return whether the object of a manifest ended only because Kueue suspended it. Raises Odd.

    Nothing in its Pods reads a notice. One that ends with 0 at TERM has saved its work, and may end
    the object of an operator.
    """
    if naming.manifest_pods(run.item or {}) is None or admission.is_active:
        return False
    at, evicted_at = moment(finish.condition, "lastTransitionTime"), admission.evicted_at
    return evicted_at is not None and (at is None or at >= evicted_at)


def is_stopped(run: Run) -> bool:
    """Return whether we stopped it. Raises Odd."""
    marked = [one for one in (run.item, run.workload) if one is not None]
    return any(naming.STOPPED in texts(one, "metadata", "annotations") for one in marked)


def _unexplained(finish: Finish) -> tuple[Outcome, str]:
    """Return the end of a failed workload without a failed container.

    A container that fails by itself stays. So a person, or the loss of a node, removed its Pods.
    """
    raw = printable(f"{finish.reason}: {finish.message}".strip(": "), NAME_LENGTH_MAX)
    return Outcome.NODE_FAILED, f"Pods of it were taken away on the cluster ({raw})."
