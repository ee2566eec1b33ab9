"""The runs of our attempts by the objects that the cluster still has of them. Pure.

The admission and the containers of the Pods say when a run began, and the containers when it ended.
Pods that were deleted are no witnesses any more. Then the conditions of the Workload and of the
object leave a range for each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from connectors.accounts import AccountedRun
from connectors.kubernetes.manifests.asking import asked_by_pool
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.objects.reading import Object, Odd, moment, number, part, parts, text
from connectors.kubernetes.objects.reading import texts as texts_of
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.kubernetes.workloads.admissions import Admission, admission_of
from connectors.kubernetes.workloads.observing import listing_of
from connectors.kubernetes.workloads.runs import Look, Run, rank_count
from connectors.protocol import Observation

#: Seconds within which the controllers report the end of the last Pod.
REPORTED_WITHIN_S = 60
#: Seconds that a node may take beyond the grace until a deleted Pod has ended.
_KILLED_WITHIN_S = 10
#: Kubernetes' default time between the notice to a Pod and its end, in seconds.
_GRACE_S = 30
#: A part of `naming.ASKED`: a count of Pods, and the milli-GPU of each with the pool, or the name
#: of their claim template, which ends with the milli-GPU.
_ASKED = re.compile(r"([0-9]{1,10})x(?:([0-9]{1,19}) (.*)|.*-([0-9]{1,19}))", re.ASCII)


def accounted_runs(
    state: KubeState, *, cluster_id: str, pools: Mapping[str, KubernetesPool]
) -> Iterator[AccountedRun]:
    """Yield the run of each attempt of ours that began and whose object exists.

    Invalid objects are left out: a missing run shows in a comparison.
    """
    listing = listing_of(state, cluster_id=cluster_id, pools=pools)
    look = Look(state, cluster_id, pools, naming.ADMISSION_CHECK)
    for run in look.runs():
        if run.key is None or run.item is None:
            continue
        seen = listing.seen(run.key, run.uid)
        if seen is None:
            continue
        try:
            if (found := _run(run, run.item, seen, pools)) is not None:
                yield found
        except Odd:
            continue


def _run(
    run: Run, item: Object, seen: Observation, pools: Mapping[str, KubernetesPool]
) -> AccountedRun | None:
    """Return the run of one attempt; None if it certainly never began. Raises Odd."""
    pool, mgpu = _pool_and_mgpu(run, item, pools)
    admission = admission_of(run.workload, naming.ADMISSION_CHECK)
    started_at, ended_at = seen.started_at, seen.released_at
    started_by = ended_from = None
    if seen.is_released and ended_at is not None and not _are_pods_known(run, item):
        if started_at is None and (run.pods or not admission.was_admitted):
            return None
        # Its Pods are gone, and whether one of them began.
        created_at = moment(item, "metadata", "creationTimestamp") or ended_at
        started_at, ended_from = _earliest(run, admission, created_at)
        started_by = ended_at = max(_latest(run, item), ended_from)
    if started_at is None:
        return None
    return AccountedRun(
        native_id=run.uid,
        submitted_at=moment(item, "metadata", "creationTimestamp") or 0,
        key=run.key,
        name=text(item, "metadata", "name"),
        user="",
        account=text(item, "metadata", "namespace"),
        pool=pool,
        mgpu=mgpu,
        started_at=started_at,
        ended_at=ended_at,
        state=seen.native_state,
        started_by=started_by,
        ended_from=ended_from,
    )


def _are_pods_known(run: Run, item: Object) -> bool:
    """Return whether the end of every Pod is recorded. Raises Odd."""
    pods = run.pods
    return len(pods) >= rank_count(item, run.workload) and all(
        pod.ended_at is not None for pod in pods
    )


def _earliest(run: Run, admission: Admission, created_at: int) -> tuple[int, int]:
    """Return the earliest start and end that the objects allow. Raises Odd."""
    start = admission.admitted_at or created_at
    ends = [pod.ended_at for pod in run.pods if pod.ended_at is not None]
    if admission.evicted_at is not None:
        # Pods that had ended before an eviction are not deleted by it.
        ends.append(admission.evicted_at)
    elif finished := [at for at in _transitions(run.item, "Complete", "Failed") if at > start]:
        ends.append(min(finished) - REPORTED_WITHIN_S)
    return start, max([start, *ends])


def _latest(run: Run, item: Object) -> int:
    """Return the latest end that the objects allow: the last condition and the Pods' grace."""
    graces = [
        grace_s
        for template in (
            part(item, "spec", "template"),
            *(part(one, "template") for one in parts(run.workload or {}, "spec", "podSets")),
        )
        if (grace_s := number(template, "spec", "terminationGracePeriodSeconds")) is not None
    ]
    last = max([*_transitions(item), *_transitions(run.workload)], default=0)
    return last + max(graces, default=_GRACE_S) + _KILLED_WITHIN_S


def _transitions(source: Object | None, *types: str) -> list[int]:
    """Return when the conditions of `source` last changed; all, or those of `types`."""
    return [
        at
        for one in parts(source or {}, "status", "conditions")
        if (not types or text(one, "type") in types)
        and (at := moment(one, "lastTransitionTime")) is not None
    ]


def _pool_and_mgpu(run: Run, item: Object, pools: Mapping[str, KubernetesPool]) -> tuple[str, int]:
    """Return the pool and milli-GPU of a run: by Kueue's Workload, else by its request."""
    asked = {} if run.workload is None else asked_by_pool(run.workload, pools)
    if len(asked) == 1 and "" not in asked:
        ((pool, ranks),) = asked.items()
        return pool, sum(ranks)
    pool, mgpu = "", 0
    claimed = [name for name, one in pools.items() if one.device_class is not None]
    for words in texts_of(item, "metadata", "annotations").get(naming.ASKED, "").split(", "):
        if found := _ASKED.fullmatch(words):
            count, each, of_pool, of_claim = found.groups()
            mgpu += int(count) * int(each or of_claim)
            pool = of_pool or (claimed[0] if len(claimed) == 1 else pool)
    return pool, mgpu
