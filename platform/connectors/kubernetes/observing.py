"""What the objects of Kubernetes and Kueue are in the words of the protocol. Pure.

A workload is an object that Kueue knows (a Job, a JobSet, ...), with its Workload and its Pods. All
kinds are told by the same functions: whose Pods they are follows from owners, how it ended from
conditions and from what the Pods' containers left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.kubernetes import naming
from connectors.kubernetes.asking import (
    asked_by_pool,
    asks_as_submitted,
    chosen,
    resource_counts,
    told,
)
from connectors.kubernetes.inventory import pools_of_nodes
from connectors.kubernetes.options import KubernetesPool
from connectors.kubernetes.reading import (
    Object,
    Odd,
    conditions,
    flag,
    is_true,
    moment,
    needed,
    number,
    part,
    parts,
    printable,
    text,
    texts,
    true_conditions,
)
from connectors.kubernetes.resources import JOB, RAYJOB, was_changed
from connectors.kubernetes.states import (
    Finish,
    RankEnd,
    Wait,
    WaitCode,
    disruption,
    eviction,
    finish_of,
    is_at_rest,
    is_suspended,
    rank_end,
    wait_for_checks,
    wait_for_quota,
    wait_of_pod,
    wait_without_pods,
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

#: Annotation, written at creation by our admission policies: who made a native workload.
CREATOR = "tidegate.io/creator"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"

#: Seconds for which an admitted workload may have no Pods before that is told.
PODS_WITHIN_S = 30
#: Seconds after which Kueue has taken note of a new object, unless something is wrong.
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
_OWNERS_MAX = 8
_STATE_LENGTH_MAX = 100
_NAME_LENGTH_MAX = 200
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class KubeState:
    """One complete look at a cluster: its objects as the API server sends them.

    `objects` are those that Kueue makes Workloads of, of every kind in use and of everybody (Jobs,
    JobSets, ...), each with its own `apiVersion` and `kind`, which lists leave out of their items.
    `pods` are those with our label or a request for GPUs. `gone_pods` are the last known states of
    Pods of ours that were deleted while their object is still there, as far as anybody remembers
    them: how they ended is known from nowhere else. `gone_objects` are the last known states of
    objects of ours that were deleted, remembered likewise: Pods that name any other owner that is
    not there are nobody's. `events` are warnings on objects, where they
    were asked for: why Pods could not be made stands nowhere else. `observed_at` is the API
    server's clock.
    """

    objects: tuple[Mapping[str, Any], ...]
    workloads: tuple[Mapping[str, Any], ...]
    pods: tuple[Mapping[str, Any], ...]
    nodes: tuple[Mapping[str, Any], ...]
    observed_at: int
    gone_pods: tuple[Mapping[str, Any], ...] = ()
    gone_objects: tuple[Mapping[str, Any], ...] = ()
    events: tuple[Mapping[str, Any], ...] = ()


def listing_of(
    state: KubeState,
    *,
    cluster_id: str,
    pools: Mapping[str, KubernetesPool],
    check: str = naming.ADMISSION_CHECK,
) -> Listing:
    """Every workload on the cluster: ours by key, the others as natives.

    `cluster_id` is what tells ours from those of other installations, whose workloads are natives
    here, `check` the name of our admission check. What makes no sense is Unread; nothing raises.
    """
    look = _Look(state, cluster_id, pools, check)
    found: dict[str, list[Observation]] = {}
    natives: list[NativeWorkload] = []
    for run in look.runs():
        try:
            if run.key is None:
                natives.extend(_natives(look, run))
            elif run.item is not None or run.alive:
                observation = _observation(look, run.key, run)
                found.setdefault(run.key, []).append(observation)
        except Odd as error:
            look.unread.append(Unread(run.uid, str(error)))
    natives.extend(_foreign(look))
    for copies in found.values():
        copies.sort(key=lambda one: (one.submitted_at or 0, one.native_id))
    return Listing(
        observed_at=state.observed_at,
        observations={key: copies[0] for key, copies in found.items()},
        copies={key: tuple(copies) for key, copies in found.items() if len(copies) > 1},
        natives=tuple(natives),
        unread=tuple(look.unread),
    )


@dataclass(frozen=True, slots=True)
class Pod:
    """What is needed of one Pod. `units` are the GPUs it asks for by pool and resource in use,
    `end` how its main container ended."""

    uid: str
    name: str
    namespace: str
    created_at: int
    root: str
    node: str
    phase: str
    rank: int | None
    pool: str | None
    mgpu: int
    is_deleting: bool
    started_at: int | None
    ended_at: int | None
    end: RankEnd | None
    source: Object

    @property
    def is_over(self) -> bool:
        """Whether it holds nothing any more."""
        return self.phase in _ENDED_PHASES

    @property
    def order(self) -> tuple[int, str]:
        """Its place among the Pods of its workload."""
        return (1 << 30 if self.rank is None else self.rank, self.name)


@dataclass(slots=True)
class _Run:
    """One workload: its object (None where only Pods are left of it), Workload and Pods."""

    uid: str
    key: str | None
    item: Object | None
    workload: Object | None = None
    alive: list[Pod] = field(default_factory=list)
    over: list[Pod] = field(default_factory=list)
    gone: list[Pod] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """Where all of it is. Raises Odd."""
        for source in (self.item, self.workload):
            if source is not None:
                return text(source, "metadata", "namespace")
        return next((pod.namespace for pod in (*self.alive, *self.over)), "")

    @property
    def pods(self) -> list[Pod]:
        """All Pods that are known of it, in rank order."""
        return sorted((*self.alive, *self.over, *self.gone), key=lambda pod: pod.order)


class _Look:
    """A state with its parts joined by owners."""

    def __init__(
        self, state: KubeState, cluster_id: str, pools: Mapping[str, KubernetesPool], check: str
    ) -> None:
        self.state = state
        self.pools = pools
        self.check = check
        self.cluster = naming.cluster_label(cluster_id)
        self.unread: list[Unread] = []
        self.pool_of_node = pools_of_nodes(state.nodes, pools)
        self.foreign: list[Pod] = []
        self._parents: dict[str, str] = {}
        self._runs: dict[str, _Run] = {}
        self._odd: set[str] = set()
        self._refusals = _refusals(state.events)
        # By uid: the namespace and the key of what was ours.
        self._rays: dict[tuple[str, str], list[_Run]] = {}
        self._gone: dict[str, tuple[str, str | None]] = {}
        self._take_objects()
        self._take_workloads()
        self._take_pods()
        self._send_away()

    def runs(self) -> Iterator[_Run]:
        """The workloads of which every part could be read."""
        return (run for uid, run in self._runs.items() if uid not in self._odd)

    def refusals_of(self, run: _Run) -> str:
        """What the cluster said of making Pods of `run`, "" where it said nothing."""
        for uid in (run.uid, *(child for child in self._parents if self.root(child) == run.uid)):
            if uid in self._refusals:
                return self._refusals[uid]
        return ""

    def root(self, uid: str) -> str:
        """The uid at the top of the owners of `uid`, as far as they are known."""
        for _ in range(_OWNERS_MAX):
            if uid not in self._parents:
                break
            uid = self._parents[uid]
        return uid

    def key_of(self, item: Object) -> str | None:
        """The key of the attempt that `item` belongs to, None where it is not ours."""
        labels = texts(item, "metadata", "labels")
        if labels.get(naming.CLUSTER) != self.cluster or labels.get(naming.ATTEMPT) != "true":
            return None
        return texts(item, "metadata", "annotations").get(naming.KEY) or None

    def _take_objects(self) -> None:
        for item in self.state.objects:
            try:
                uid = needed(item, "metadata", "uid")
                parent = _controller(item)
                if parent:
                    self._parents[uid] = parent
            except Odd as error:
                self._not_read(item, error)
        for item in self.state.objects:
            try:
                uid = needed(item, "metadata", "uid")
                if uid not in self._parents:
                    run = self._runs[uid] = _Run(uid, self.key_of(item), item)
                    if run.key is not None and item.get("kind") == RAYJOB.kind:
                        self._rays.setdefault((run.namespace, run.key), []).append(run)
            except Odd as error:
                self._not_read(item, error)

        for item in self.state.gone_objects:
            try:
                uid, parent = needed(item, "metadata", "uid"), _controller(item)
                if parent:
                    self._parents.setdefault(uid, parent)
                else:
                    self._gone[uid] = (text(item, "metadata", "namespace"), self.key_of(item))
            except Odd:
                # It is only remembered.
                continue

    def _take_workloads(self) -> None:
        for workload in self.state.workloads:
            try:
                uid = needed(workload, "metadata", "uid")
                owners = [
                    needed(one, "uid") for one in parts(workload, "metadata", "ownerReferences")
                ]
                roots = {self.root(owner) for owner in owners}
                namespace = text(workload, "metadata", "namespace")
                known = [run for root in roots if (run := self._run_in(namespace, root))]
                if len(known) == 1:
                    run = known[0]
                    if run.workload is None or _is_newer(workload, run.workload):
                        run.workload = workload
                    continue
                # A group of Pods, or a kind that is not watched: the Workload stands for it.
                root = roots.pop() if len(roots) == 1 else uid
                if root in self._runs:
                    root = uid
                for owner in owners:
                    # Whatever it says of its owners, what is known of them stays.
                    if owner != root and owner not in self._runs:
                        self._parents.setdefault(owner, root)
                self._runs[root] = _Run(root, None, None, workload)
            except Odd as error:
                self._not_read(workload, error)

    def _take_pods(self) -> None:
        seen: set[str] = set()
        for source in self.state.pods:
            try:
                pod = self._pod(source)
            except Odd as error:
                self._not_read(source, error)
                continue
            seen.add(pod.uid)
            run = self._run_in(pod.namespace, pod.root) or self._left_over(pod, source)
            if run is None:
                self.foreign.append(pod)
            else:
                (run.over if pod.is_over else run.alive).append(pod)
        for source in self.state.gone_pods:
            try:
                pod = self._pod(source)
            except Odd:
                # It is only remembered: what is known of its workload stays true without it.
                continue
            run = self._run_in(pod.namespace, pod.root)
            if run is not None and pod.uid not in seen:
                run.gone.append(pod)

    def _send_away(self) -> None:
        """Pods with GPUs beyond those that a workload of ours is made of are not its: anybody in
        the namespace can name its object as their owner."""
        for run in self._runs.values():
            holding = [pod for pod in run.alive if pod.mgpu]
            if run.key is None or run.item is None or not holding:
                continue
            try:
                most = _pods_max(run)
            except Odd as error:
                self._not_read(run.item, error)
                continue
            beyond = 0 if most is None else len(holding) - most
            if beyond > 0:
                # One that is replaced is there beside its successor for a moment.
                holding.sort(key=lambda pod: (pod.is_deleting, pod.created_at, pod.uid))
                away = holding[-beyond:]
                self.foreign.extend(away)
                run.alive = [pod for pod in run.alive if pod not in away]

    def _run_in(self, namespace: str, root: str) -> _Run | None:
        """The run at `root`, None where it is in another namespace: owners never are, though
        anybody can write so."""
        run = self._runs.get(root)
        return run if run is not None and run.namespace == namespace else None

    def _left_over(self, pod: Pod, source: Object) -> _Run | None:
        """The run of a Pod of ours whose object is gone: it is not absent while its Pods are."""
        key = self.key_of(source)
        if key is not None and pod.root != pod.uid and pod.root not in self._runs:
            # RayClusters are not watched: of those Pods the key tells whose they are.
            for run in self._rays.get((pod.namespace, key), ()):
                return run
        if (
            key is None
            or pod.root in self._runs
            or self._gone.get(pod.root) != (pod.namespace, key)
        ):
            return None
        run = _Run(pod.root, key, None)
        self._runs[pod.root] = run
        return run

    def _pod(self, source: Object) -> Pod:
        uid = needed(source, "metadata", "uid")
        labels = texts(source, "metadata", "labels")
        texts(source, "metadata", "annotations")
        owner = labels.get(JOBSET_UID) or _controller(source) or uid
        pool, mgpu = self._gpus(source)
        started_at, ended_at, end = _container_times(source)
        phase = text(source, "status", "phase")
        return Pod(
            uid=uid,
            name=needed(source, "metadata", "name"),
            namespace=text(source, "metadata", "namespace"),
            created_at=moment(source, "metadata", "creationTimestamp") or 0,
            root=self.root(owner),
            node=text(source, "spec", "nodeName"),
            phase=phase,
            rank=naming.rank_of(source),
            pool=pool,
            mgpu=mgpu,
            is_deleting=bool(text(source, "metadata", "deletionTimestamp")),
            started_at=started_at,
            ended_at=ended_at,
            end=end,
            source=source,
        )

    def _gpus(self, source: Object) -> tuple[str | None, int]:
        """The pool whose GPUs the Pod asks for and how many milli-GPU; (None, 0) for none, and pool
        "" where that cannot be told."""
        counts = resource_counts(part(source, "spec"), {p.resource for p in self.pools.values()})
        wanted = [pool for pool in self.pools.values() if counts.get(pool.resource)]
        if not wanted:
            return None, 0
        pool = chosen(
            wanted,
            self.pool_of_node.get(text(source, "spec", "nodeName")),
            part(source, "spec", "nodeSelector"),
        )
        if pool is None:
            return "", counts[wanted[0].resource] * wanted[0].mgpu_per_unit
        return pool.name, counts[pool.resource] * pool.mgpu_per_unit

    def _not_read(self, item: Object, error: Odd) -> None:
        """`item` makes no sense: what it belongs to is unread, or, where that cannot be told,
        something is."""
        uid = None
        try:
            owner = _controller(item) or next(
                (text(one, "uid") for one in parts(item, "metadata", "ownerReferences")), ""
            )
            own = needed(item, "metadata", "uid")
            uid = self.root(owner or own)
            if uid in self._runs and not self._run_in(text(item, "metadata", "namespace"), uid):
                uid = own
        except Odd:
            pass
        if uid is not None:
            self._odd.add(uid)
        self.unread.append(Unread(uid, str(error)))


def _controller(item: Object) -> str:
    """The uid of the controller that `item` belongs to, "" where there is none. Raises Odd."""
    for owner in parts(item, "metadata", "ownerReferences"):
        if flag(owner, "controller"):
            return needed(owner, "uid")
    return ""


def _is_newer(one: Object, other: Object) -> bool:
    """Whether of two Workloads of one object `one` is the one that counts."""

    def rank(workload: Object) -> tuple[bool, int]:
        return (
            not is_true(workload, "Finished"),
            moment(workload, "metadata", "creationTimestamp") or 0,
        )

    return rank(one) > rank(other)


def _container_times(source: Object) -> tuple[int | None, int | None, RankEnd | None]:
    """When the Pod's main container started and ended, and how it ended. Raises Odd."""
    statuses = parts(source, "status", "containerStatuses")
    status = next(
        (one for one in statuses if text(one, "name") in naming.CONTAINERS),
        statuses[0] if statuses else None,
    )
    if status is None:
        return None, None, None
    terminated = part(status, "state", "terminated")
    if terminated:
        return (
            moment(terminated, "startedAt"),
            max(
                (
                    at
                    for one in statuses
                    if (at := moment(part(one, "state", "terminated"), "finishedAt")) is not None
                ),
                default=None,
            ),
            rank_end(terminated),
        )
    return moment(status, "state", "running", "startedAt"), None, None


def _refusals(events: Iterable[Object]) -> dict[str, str]:
    """By uid of the object, what the newest warning says of making its Pods."""
    found: dict[str, str] = {}
    for event in events:
        try:
            if text(event, "reason") == "FailedCreate":
                found[text(event, "involvedObject", "uid")] = text(event, "message")
        except Odd:
            # Only the words of a sentence are lost.
            continue
    return found


@dataclass(frozen=True, slots=True)
class _Admission:
    """What the Workload says: since when it is or was admitted, and whether that is over."""

    is_admitted: bool = False
    was_admitted: bool = False
    is_reserved: bool = False
    is_voted: bool = False
    is_evicted: bool = False
    is_active: bool = True
    admitted_at: int | None = None
    evicted_at: int | None = None
    reason: str = ""
    message: str = ""
    wait: Wait | None = None
    raw: str = ""


def _admission(workload: Object | None, check: str) -> _Admission:
    if workload is None:
        return _Admission()
    said, are_true = conditions(workload), true_conditions(workload)
    admitted, evicted = said.get("Admitted", {}), said.get("Evicted", {})
    is_admitted = "Admitted" in are_true
    past_s = number(workload, "status", "accumulatedPastExecutionTimeSeconds") or 0
    changed_at = moment(admitted, "lastTransitionTime")
    evictions = sum(
        number(one, "count") or 0
        for one in parts(workload, "status", "schedulingStats", "evictions")
    )
    is_evicted = "Evicted" in are_true
    # The old vocabulary writes Admitted=False only over an earlier True; the new one always, so
    # that what is evicted before it was admitted counts as if it had been: at most once.
    was_admitted = is_admitted or past_s > 0 or (bool(admitted) and is_evicted)
    admitted_at = None
    if was_admitted and changed_at is not None:
        admitted_at = changed_at if is_admitted else changed_at - past_s
    others: dict[str, tuple[str, str]] = {}
    is_voted = False
    for one in parts(workload, "status", "admissionChecks"):
        if text(one, "name") == check:
            is_voted = text(one, "state") == "Ready"
        elif text(one, "state") != "Ready":
            others[text(one, "name")] = (text(one, "state"), text(one, "message"))
    is_reserved = "QuotaReserved" in are_true
    wait: Wait | None = None
    raw = ""
    if not is_reserved and "QuotaReserved" in said:
        reason, raw = text(said["QuotaReserved"], "reason"), text(said["QuotaReserved"], "message")
        wait = wait_for_quota(reason, raw)
        raw = f"{reason}: {raw}"
    elif not is_reserved:
        wait = wait_for_quota("", "")
    elif is_voted and not is_admitted:
        wait, raw = wait_for_checks(others)
    return _Admission(
        is_admitted=is_admitted,
        was_admitted=was_admitted,
        is_reserved=is_reserved,
        is_voted=is_voted,
        # Admitted again since then: it was evicted before we ever voted.
        is_evicted=is_evicted
        or (evictions > 0 and was_admitted and not (is_admitted and past_s == 0)),
        is_active=flag(workload, "spec", "active") is not False,
        admitted_at=admitted_at,
        evicted_at=moment(evicted, "lastTransitionTime") if is_evicted else None,
        reason=text(evicted, "reason"),
        message=text(evicted, "message"),
        wait=wait,
        raw=raw,
    )


def _observation(look: _Look, key: str, run: _Run) -> Observation:
    """What is to be said of `run`, which is ours. Raises Odd."""
    item = run.item
    if item is None:
        return _left_observation(look, key, run)
    admission = _admission(run.workload, look.check)
    finish = finish_of(item, run.workload)
    ranks = [pod for pod in run.pods if pod.rank is not None] or run.pods
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
    ended_at, released_at = _end_times(look, run, ranks, admission, finish, started_at)
    outcome, message = None, ""
    if is_ended:
        outcome, message = _outcome(run, admission, finish)
    elif wait is not None:
        message = wait.sentence(raw)
    return Observation(
        key=key,
        native_id=run.uid,
        native_state=native_state[:_STATE_LENGTH_MAX],
        phase=phase,
        started_at=started_at,
        ended_at=ended_at if is_ended else None,
        released_at=released_at if is_ended else None,
        is_released=is_ended,
        outcome=outcome,
        exit_codes=exit_codes if started_at is not None else {},
        message=message,
        submitted_at=moment(item, "metadata", "creationTimestamp"),
        slots=_slots(ranks),
        is_stuck=wait is not None and wait.is_stuck,
        is_held_by_others=wait is not None and wait.is_held_by_others,
        account=text(item, "metadata", "namespace"),
        pool=next((pod.pool for pod in ranks if pod.pool), ""),
    )


def _left_observation(look: _Look, key: str, run: _Run) -> Observation:
    """Of a workload of ours whose object is gone, while Pods of it are left."""
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
        pool=next((pod.pool for pod in ranks if pod.pool), ""),
    )


def _phase(
    look: _Look, run: _Run, item: Object, admission: _Admission, finish: Finish | None
) -> tuple[WorkloadPhase, str, Wait | None, str]:
    """Where `run` stands, in the cluster's words, and why it waits if it does. Raises Odd."""
    if finish is not None:
        state = f"Finished ({finish.reason})" if finish.reason else "Finished"
        if run.alive:
            return WorkloadPhase.STOPPING, state, None, ""
        return WorkloadPhase.ENDED, state, None, ""
    if not admission.is_active or (admission.is_evicted and admission.was_admitted):
        state = f"Evicted ({admission.reason})" if admission.reason else "Deactivated"
        is_over = not run.alive and (not admission.was_admitted or is_at_rest(item))
        # Deactivated a moment ago: until Kueue has said so, it may admit it.
        is_over = is_over and (admission.is_evicted or not admission.is_reserved)
        return WorkloadPhase.ENDED if is_over else WorkloadPhase.STOPPING, state, None, ""
    if text(item, "metadata", "deletionTimestamp"):
        return WorkloadPhase.STOPPING, "Being deleted", None, ""
    is_marked = _is_stopped(run) and run.workload is None
    if is_suspended(item) and not admission.is_admitted and (_was_changed(item) or is_marked):
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
                raw = told(item, run.workload, look.pools)
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


def _was_changed(item: Object) -> bool:
    """See `resources.was_changed`. Raises Odd."""
    number(item, "metadata", "generation")
    try:
        return was_changed(item)
    except (KeyError, TypeError):
        raise Odd("apiVersion and kind are of no object that is known") from None


def _phase_of_pods(
    look: _Look, run: _Run, item: Object, admission: _Admission
) -> tuple[WorkloadPhase, str, Wait | None, str]:
    wanted = _rank_count(item, run.workload)
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
        since = admission.admitted_at
        if since is not None and look.state.observed_at - since >= PODS_WITHIN_S:
            refusals = look.refusals_of(run)
            return WorkloadPhase.STARTING, "Admitted", wait_without_pods(refusals), refusals
        return WorkloadPhase.STARTING, "Admitted", None, ""
    waits = [
        found for pod in run.alive if pod.phase != "Running" and (found := wait_of_pod(pod.source))
    ]
    wait, raw = max(waits, key=lambda found: found[0].is_stuck, default=(None, ""))
    return WorkloadPhase.STARTING, "Admitted", wait, raw


def _rank_count(item: Object, workload: Object | None) -> int:
    """How many Pods run when all do. Raises Odd."""
    if workload is not None:
        counts = [
            1 if (count := number(one, "count")) is None else count
            for one in parts(workload, "spec", "podSets")
        ]
        if counts:
            return sum(counts)
    return max(1, number(item, "spec", "parallelism") or 1)


def _pods_max(run: _Run) -> int | None:
    """How many Pods `run` can have at once, None where that cannot be told. Raises Odd."""
    is_told = run.workload is not None and parts(run.workload, "spec", "podSets")
    is_job = run.item is not None and run.item.get("kind") == JOB.kind
    return _rank_count(run.item or {}, run.workload) if is_told or is_job else None


def _end_times(
    look: _Look,
    run: _Run,
    ranks: Sequence[Pod],
    admission: _Admission,
    finish: Finish | None,
    started_at: int | None,
) -> tuple[int | None, int | None]:
    """When it ended, and since when its GPUs are free. Raises Odd."""
    last = max((pod.ended_at for pod in ranks if pod.ended_at is not None), default=None)
    is_all_known = bool(ranks) and all(pod.ended_at is not None for pod in ranks)
    is_all_known = is_all_known and run.item is not None
    is_all_known = is_all_known and len(ranks) >= _rank_count(run.item or {}, run.workload)
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


def _outcome(run: _Run, admission: _Admission, finish: Finish | None) -> tuple[Outcome, str]:
    """How `run`, which has ended, ended, and a sentence on it. Raises Odd."""
    ends = [pod.end for pod in run.pods if pod.end is not None]
    for pod in run.pods:
        if pod.end is not None and pod.end.start_failure:
            rank = "" if pod.rank is None else f"rank {pod.rank}: "
            return Outcome.START_FAILED, f"{rank}{pod.end.start_failure}"
    if _is_stopped(run) and (finish is None or finish.outcome is not Outcome.SUCCEEDED):
        # Whatever it was that ended first: its Pods, for which it fails, or its admission.
        return Outcome.STOPPED, ""
    if finish is None:
        # Of a Workload that Kueue made after the one under which it ran, we let nothing start.
        is_anew = not admission.was_admitted and run.item is not None and _was_changed(run.item)
        is_deactivated = not admission.is_active and admission.reason in ("", "Deactivated")
        if is_deactivated and not is_anew:
            return Outcome.STOPPED, ""
        if is_deactivated or admission.reason == "":
            return Outcome.PREEMPTED, "It was begun anew on the cluster, which is not let happen."
        return eviction(admission.reason, admission.message)
    # A rank that left with an error after a notice let the others finish: its code counts.
    if finish.outcome is Outcome.SUCCEEDED:
        if any(end.is_timed_out for end in ends):
            return Outcome.TIMED_OUT, ""
        is_failed = any(end.code not in (None, 0) for end in ends)
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
    return finish.outcome, printable(finish.message, _NAME_LENGTH_MAX)


def _is_stopped(run: _Run) -> bool:
    """Whether we stopped it. Raises Odd."""
    marked = [one for one in (run.item, run.workload) if one is not None]
    return any(naming.STOPPED in texts(one, "metadata", "annotations") for one in marked)


def _unexplained(finish: Finish) -> tuple[Outcome, str]:
    """Of a workload that failed without a failed container being left: what failed by itself stays,
    so somebody, or the loss of a node, took its Pods away."""
    raw = printable(f"{finish.reason}: {finish.message}".strip(": "), _NAME_LENGTH_MAX)
    return Outcome.NODE_FAILED, f"Pods of it were taken away on the cluster ({raw})."


def _slots(pods: Sequence[Pod]) -> tuple[RankSlot, ...] | None:
    """Where the ranks are, None while any of them is nowhere."""
    holding = [pod for pod in pods if pod.mgpu > 0]
    if not holding or not all(pod.node for pod in holding):
        return None
    return tuple(RankSlot(pod.node, pod.mgpu) for pod in holding)


def _natives(look: _Look, run: _Run) -> list[NativeWorkload]:
    """`run`, which is not ours, one for each pool of which it has or wants GPUs. Raises Odd."""
    workload = run.workload
    if workload is None:
        # Kueue does not know it: its Pods are told one by one.
        look.foreign.extend(run.alive)
        return []
    admission = _admission(workload, look.check)
    asked = asked_by_pool(workload, look.pools)
    item = run.item or workload
    finish = finish_of(run.item or {}, workload)
    is_over = finish is not None or admission.is_admitted
    if is_over and not asked and not any(pod.mgpu for pod in run.pods):
        return []
    outcome: Outcome | None = None
    slots: tuple[Pod, ...] = ()
    is_released = False
    message = ""
    if finish is not None:
        is_released = not run.alive
        phase = WorkloadPhase.ENDED if is_released else WorkloadPhase.STOPPING
        outcome = finish.outcome if is_released else None
        slots = tuple(run.pods)
        state = f"Finished ({finish.reason})"
    elif _is_stopped(run):
        # It was ended for good (`natives.cancel`).
        is_released = not run.alive and not admission.is_admitted
        phase = WorkloadPhase.ENDED if is_released else WorkloadPhase.STOPPING
        outcome = Outcome.STOPPED if is_released else None
        slots, state = tuple(run.alive), "Cancelled"
    elif admission.is_admitted and admission.is_active and not admission.evicted_at:
        is_all = sum(pod.phase == "Running" for pod in run.alive) >= _rank_count(item, workload)
        phase = WorkloadPhase.RUNNING if is_all else WorkloadPhase.STARTING
        slots = tuple(run.alive)
        state = "Admitted"
        found = [
            w for pod in run.alive if pod.phase == "Pending" and (w := wait_of_pod(pod.source))
        ]
        if found:
            message = found[0][0].sentence(found[0][1])
    elif run.alive:
        phase, slots, state = WorkloadPhase.STOPPING, tuple(run.alive), "Evicted"
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
        admission=admission,
        finish=finish,
        outcome=outcome,
        is_released=is_released,
    )


def _by_pool(
    look: _Look,
    run: _Run,
    workload: Object,
    item: Object,
    asked: Mapping[str, tuple[int, ...]],
    pods: Sequence[Pod],
    *,
    phase: WorkloadPhase,
    state: str,
    message: str,
    admission: _Admission,
    finish: Finish | None,
    outcome: Outcome | None,
    is_released: bool,
) -> list[NativeWorkload]:
    ordered = sorted(pods, key=lambda pod: pod.order)
    holding = [pod for pod in ordered if pod.mgpu and pod.node]
    # What waits and asks for none of our GPUs is told too: somebody must start it.
    names = sorted({pod.pool or "" for pod in holding} or set(asked) or {""})
    is_mixed = len(names) > 1
    started_at = admission.admitted_at if phase is not WorkloadPhase.HELD else None
    ended_at = None
    if is_released and finish is not None:
        ended_at, _ = _end_times(look, run, run.pods, admission, finish, started_at)
    elif phase is WorkloadPhase.HELD:
        # When its last run was over, where it had one.
        ended_at = admission.evicted_at if admission.was_admitted else None
    priority = text(workload, "spec", "priorityClassRef", "name") or texts(
        item, "metadata", "labels"
    ).get(naming.PRIORITY_LABEL, "")
    found = []
    for name in names:
        ranks = asked.get(name, ())
        slots = tuple(RankSlot(pod.node, pod.mgpu) for pod in holding if (pod.pool or "") == name)
        found.append(
            NativeWorkload(
                native_id=f"{run.uid} ({name})" if is_mixed else run.uid,
                submitted_at=moment(item, "metadata", "creationTimestamp") or 0,
                name=needed(item, "metadata", "name")[:_NAME_LENGTH_MAX],
                account=text(item, "metadata", "namespace"),
                user=texts(item, "metadata", "annotations").get(CREATOR, ""),
                pool=name,
                mgpu=sum(ranks) or sum(slot.mgpu for slot in slots),
                native_state=state[:_STATE_LENGTH_MAX],
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
            )
        )
    return found


def _foreign(look: _Look) -> list[NativeWorkload]:
    """Pods with GPUs that no queue of Kueue let in: nobody's, they count as held outside."""
    return [
        NativeWorkload(
            native_id=pod.uid,
            submitted_at=pod.created_at,
            name=f"{pod.namespace}/{pod.name}"[:_NAME_LENGTH_MAX],
            account="",
            user="",
            pool=pod.pool or "",
            mgpu=pod.mgpu,
            native_state=pod.phase[:_STATE_LENGTH_MAX],
            phase=_phase_of_foreign(pod),
            started_at=pod.started_at or pod.created_at if pod.node else None,
            slots=(RankSlot(pod.node, pod.mgpu),) if pod.node else (),
        )
        for pod in sorted(look.foreign, key=lambda pod: pod.uid)
        if pod.mgpu and not pod.is_over
    ]


def _phase_of_foreign(pod: Pod) -> WorkloadPhase:
    if pod.is_deleting:
        return WorkloadPhase.STOPPING
    return WorkloadPhase.RUNNING if pod.phase == "Running" else WorkloadPhase.STARTING


def pods_below(state: KubeState, uid: str) -> tuple[Object, ...]:
    """The Pods of which the object `uid` is the owner, or the owner of their owners."""
    look = _Look(state, "", {}, naming.ADMISSION_CHECK)
    of_runs = [pod for run in look.runs() if run.uid == uid for pod in run.pods]
    return tuple(pod.source for pod in of_runs) or tuple(
        pod.source for pod in look.foreign if pod.root == uid
    )


def pods_of_ours(state: KubeState, *, cluster_id: str) -> tuple[tuple[str, int, Object], ...]:
    """The ranks of our attempts that are there: key, rank and Pod. What is odd is left out, and so
    are Pods that only say that they are ours: the object of their attempt is, or was, in their
    namespace."""
    parents: dict[str, str] = {}
    ours: dict[str, tuple[str, str]] = {}
    rays: set[tuple[str, str]] = set()
    for item in (*state.objects, *state.gone_objects):
        try:
            uid, parent = needed(item, "metadata", "uid"), _controller(item)
            key = naming.key_of(item, cluster_id)
            if parent:
                parents[uid] = parent
            elif key is not None:
                ours[uid] = (text(item, "metadata", "namespace"), key)
                if item.get("kind") == RAYJOB.kind:
                    rays.add(ours[uid])
        except (Odd, AttributeError):
            continue
    found: list[tuple[str, int, Object]] = []
    for source in state.pods:
        try:
            rank = rank_of_ours(source, cluster_id=cluster_id)
            if rank is None:
                continue
            owner = texts(source, "metadata", "labels").get(JOBSET_UID) or _controller(source)
            for _ in range(_OWNERS_MAX):
                owner = parents.get(owner, owner)
            whose = (text(source, "metadata", "namespace"), rank[0])
        except Odd:
            continue
        if ours.get(owner) == whose or (owner and owner not in ours and whose in rays):
            found.append((*rank, source))
    return tuple(found)


def rank_of_ours(source: Object, *, cluster_id: str) -> tuple[str, int] | None:
    """The key of the attempt of which the Pod `source` is a rank, and which; None where it is none
    of ours. Raises Odd."""
    labels = texts(source, "metadata", "labels")
    key = texts(source, "metadata", "annotations").get(naming.KEY)
    if labels.get(naming.CLUSTER) != naming.cluster_label(cluster_id) or not key:
        return None
    rank = naming.rank_of(source)
    return None if rank is None else (key, rank)
