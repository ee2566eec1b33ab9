"""The workloads of a cluster: objects, Kueue's Workloads and Pods, joined by owners. Pure.

A workload is an object that Kueue knows (a Job, a JobSet, ...), with its Workload and its Pods. The
same functions join all kinds: owners determine whose Pods they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from connectors.kubernetes.manifests.asking import gpus_by_pool, resource_counts
from connectors.kubernetes.nodes.cores import core_pools, cores_held, gpu_pools
from connectors.kubernetes.nodes.inventory import pools_of_nodes
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import OWNERS_MAX, KubeState, controller_of
from connectors.kubernetes.objects.reading import (
    Object,
    Odd,
    is_true,
    moment,
    needed,
    number,
    part,
    parts,
    text,
    texts,
)
from connectors.kubernetes.objects.resources import JOB, JOBSET_UID, RAYJOB, was_changed
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.kubernetes.workloads.states import RankEnd, Wait, rank_end, wait_without_pods
from connectors.protocol import Unread

#: The most characters of a state, and of a name or the cluster's own words, in a listing.
STATE_LENGTH_MAX = 100
NAME_LENGTH_MAX = 200
#: Seconds for which an admitted workload may have no Pods before that is reported.
PODS_WITHIN_S = 30
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})
#: Failed is missing: a Pod of which nothing ever ran becomes Failed when it is deleted.
_BEGUN_PHASES = frozenset({"Running", "Succeeded"})


@dataclass(frozen=True, slots=True)
class Pod:
    """The needed parts of one Pod.

    `gpus` is the milli-GPU that it asks for, by pool ("" for an unknown pool). `end` is how its
    main container ended. `started_at` is the start of its main container. `holds_from` is the start
    of its first container, including init containers, which are all the author's in a native Pod.
    Our own Pods have no init containers except those that the cluster adds.
    """

    uid: str
    name: str
    namespace: str
    created_at: int
    root: str
    node: str
    phase: str
    rank: int | None
    gpus: Mapping[str, int]
    is_deleting: bool
    started_at: int | None
    holds_from: int | None
    ended_at: int | None
    end: RankEnd | None
    source: Object

    @property
    def mgpu(self) -> int:
        """The total milli-GPU that it asks for."""
        return sum(self.gpus.values())

    @property
    def is_over(self) -> bool:
        """Return whether it holds no resources any more."""
        return self.phase in _ENDED_PHASES

    @property
    def has_begun(self) -> bool:
        """Return whether anything of it runs or ran."""
        return self.started_at is not None or self.phase in _BEGUN_PHASES

    @property
    def order(self) -> tuple[int, str]:
        """The sort key of the Pod within its workload."""
        return (1 << 30 if self.rank is None else self.rank, self.name)


@dataclass(slots=True)
class Run:
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
        """The namespace of all its parts. Raises Odd."""
        for source in (self.item, self.workload):
            if source is not None:
                return text(source, "metadata", "namespace")
        return next((pod.namespace for pod in (*self.alive, *self.over)), "")

    @property
    def has_begun(self) -> bool:
        """Return whether anything of it runs or ran, as far as its Pods are known."""
        return any(pod.has_begun for pod in self.pods)

    @property
    def began_at(self) -> int | None:
        """When the first of its main containers started, as far as its Pods are known."""
        began = [pod.started_at for pod in self.pods if pod.started_at is not None]
        return min(began, default=None)

    @property
    def pods(self) -> list[Pod]:
        """All known Pods of it, in rank order."""
        return sorted((*self.alive, *self.over, *self.gone), key=lambda pod: pod.order)


class Look:
    """A cluster state with its parts joined by owners."""

    def __init__(
        self, state: KubeState, cluster_id: str, pools: Mapping[str, KubernetesPool], check: str
    ) -> None:
        self.state = state
        self.pools = pools
        self.check = check
        self.cluster = naming.cluster_label(cluster_id)
        self.unread: list[Unread] = []
        self.pools_of_node = pools_of_nodes(state.nodes, pools)
        self._of_gpus, self._of_cores = gpu_pools(pools), core_pools(pools)
        self.foreign: list[Pod] = []
        self._parents: dict[str, str] = {}
        self._runs: dict[str, Run] = {}
        self._odd: set[str] = set()
        self._refusals = _refusals(state.events)
        # By uid: the namespace and the key of deleted objects of ours.
        self._rays: dict[tuple[str, str], list[Run]] = {}
        self._gone: dict[str, tuple[str, str | None]] = {}
        self._take_objects()
        self._take_workloads()
        self._take_pods()
        self._send_away()

    def runs(self) -> Iterator[Run]:
        """Return the workloads of which every part is readable."""
        return (run for uid, run in self._runs.items() if uid not in self._odd)

    def refusals_of(self, run: Run) -> str:
        """Return the cluster's refusal to create Pods of `run`; "" without one."""
        for uid in (run.uid, *(child for child in self._parents if self.root(child) == run.uid)):
            if uid in self._refusals:
                return self._refusals[uid]
        return ""

    def wait_without_pods(self, run: Run, admitted_at: int | None) -> tuple[Wait, str] | None:
        """Return why `run` has no Pods, with the cluster's own words.

        None while they may still be on their way.
        """
        if admitted_at is None or self.state.observed_at - admitted_at < PODS_WITHIN_S:
            return None
        refusals = self.refusals_of(run)
        return wait_without_pods(refusals), refusals

    def root(self, uid: str) -> str:
        """Return the uid at the top of the owners of `uid`, as far as they are known."""
        for _ in range(OWNERS_MAX):
            if uid not in self._parents:
                break
            uid = self._parents[uid]
        return uid

    def key_of(self, item: Object) -> str | None:
        """Return the key of the attempt of `item`; None where it is not ours."""
        labels = texts(item, "metadata", "labels")
        if labels.get(naming.CLUSTER) != self.cluster or labels.get(naming.ATTEMPT) != "true":
            return None
        return texts(item, "metadata", "annotations").get(naming.KEY) or None

    def _take_objects(self) -> None:
        for item in self.state.objects:
            try:
                uid = needed(item, "metadata", "uid")
                parent = controller_of(item)
                if parent:
                    self._parents[uid] = parent
            except Odd as error:
                self._not_read(item, error)
        for item in self.state.objects:
            try:
                uid = needed(item, "metadata", "uid")
                # Read for each of its Pods later: an object with an invalid namespace must not be a
                # run.
                text(item, "metadata", "namespace")
                if uid not in self._parents:
                    run = self._runs[uid] = Run(uid, self.key_of(item), item)
                    if run.key is not None and item.get("kind") == RAYJOB.kind:
                        self._rays.setdefault((run.namespace, run.key), []).append(run)
            except Odd as error:
                self._not_read(item, error)

        for item in self.state.gone_objects:
            try:
                uid, parent = needed(item, "metadata", "uid"), controller_of(item)
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
                # A group of Pods, or a kind that is not watched: the Workload represents it.
                root = roots.pop() if len(roots) == 1 else uid
                if root in self._runs:
                    root = uid
                for owner in owners:
                    # Its claims about owners never replace known ones.
                    if owner != root and owner not in self._runs:
                        self._parents.setdefault(owner, root)
                self._runs[root] = Run(root, None, None, workload)
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
                # The Pod may be queued itself, for example one of a Deployment. This comes last:
                # anybody in the namespace can create a Workload that names another's Pod as its
                # owner.
                run = self._run_in(pod.namespace, self.root(pod.uid))
            if run is None:
                self.foreign.append(pod)
            else:
                (run.over if pod.is_over else run.alive).append(pod)
        for source in self.state.gone_pods:
            try:
                pod = self._pod(source)
            except Odd:
                # Only a remembered Pod is invalid: the rest of its workload stays valid.
                continue
            run = self._run_in(pod.namespace, pod.root)
            run = run or self._run_in(pod.namespace, self.root(pod.uid))
            if run is not None and pod.uid not in seen:
                run.gone.append(pod)

    def _send_away(self) -> None:
        """Remove Pods with GPUs beyond the number that a workload of ours can have.

        Anybody in the namespace can create a Pod that names our object as its owner.
        """
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
                # A replaced Pod and its successor exist together for a moment.
                holding.sort(key=lambda pod: (pod.is_deleting, pod.created_at, pod.uid))
                away = holding[-beyond:]
                self.foreign.extend(away)
                run.alive = [pod for pod in run.alive if pod not in away]

    def _run_in(self, namespace: str, root: str) -> Run | None:
        """Return the run at `root`; None where it is in another namespace.

        Real owners are always in the same namespace, though anybody can write otherwise.
        """
        run = self._runs.get(root)
        return run if run is not None and run.namespace == namespace else None

    def _left_over(self, pod: Pod, source: Object) -> Run | None:
        """Return the run of a Pod of ours whose object is gone.

        It exists as long as its Pods do.
        """
        key = self.key_of(source)
        if key is not None and pod.root != pod.uid and pod.root not in self._runs:
            # A RayCluster may be reported later than its Pods: the key identifies their owner.
            for run in self._rays.get((pod.namespace, key), ()):
                return run
        if (
            key is None
            or pod.root in self._runs
            or self._gone.get(pod.root) != (pod.namespace, key)
        ):
            return None
        run = Run(pod.root, key, None)
        self._runs[pod.root] = run
        return run

    def _pod(self, source: Object) -> Pod:
        uid = needed(source, "metadata", "uid")
        labels = texts(source, "metadata", "labels")
        texts(source, "metadata", "annotations")
        owner = labels.get(JOBSET_UID) or controller_of(source) or uid
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
            gpus=self._gpus(source),
            is_deleting=bool(text(source, "metadata", "deletionTimestamp")),
            started_at=started_at,
            holds_from=_first_start(source),
            ended_at=ended_at,
            end=end,
            source=source,
        )

    def _gpus(self, source: Object) -> Mapping[str, int]:
        """Return the milli-GPU that the Pod asks for by pool, and the cores that it holds."""
        resources = {pool.resource for pool in self._of_gpus.values()}
        of_node = self.pools_of_node.get(text(source, "spec", "nodeName"))
        gpus = gpus_by_pool(
            resource_counts(part(source, "spec"), resources),
            self._of_gpus,
            selector=part(source, "spec", "nodeSelector"),
            of_node=of_node,
        )
        asks_gpus = bool(gpus)
        return gpus | cores_held(source, self._of_cores, of_node or (), asks_gpus=asks_gpus)

    def _not_read(self, item: Object, error: Odd) -> None:
        """Mark the workload of an invalid `item` as unread.

        Where the workload is unknown, an entry without an id is added.
        """
        uid = None
        try:
            owner = controller_of(item) or next(
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


def pods_below(state: KubeState, uid: str) -> tuple[Object, ...]:
    """Return the Pods below the object `uid`, the owner or the owner of their owners."""
    look = Look(state, "", {}, naming.ADMISSION_CHECK)
    of_runs = [pod for run in look.runs() if run.uid == uid for pod in run.pods]
    return tuple(pod.source for pod in of_runs) or tuple(
        pod.source for pod in look.foreign if pod.root == uid
    )


def rank_count(item: Object, workload: Object | None) -> int:
    """Return how many Pods run when all do. Raises Odd."""
    if workload is not None:
        counts = [
            1 if (count := number(one, "count")) is None else count
            for one in parts(workload, "spec", "podSets")
        ]
        if counts:
            return sum(counts)
    return max(1, number(item, "spec", "parallelism") or 1)


def has_changed(item: Object) -> bool:
    """Return the answer of `resources.was_changed`. Raises Odd."""
    number(item, "metadata", "generation")
    try:
        return was_changed(item)
    except (KeyError, TypeError):
        raise Odd("apiVersion and kind are of no object that is known") from None


def _pods_max(run: Run) -> int | None:
    """Return how many Pods `run` can have at once; None where unknown. Raises Odd."""
    is_known = run.workload is not None and parts(run.workload, "spec", "podSets")
    is_job = run.item is not None and run.item.get("kind") == JOB.kind
    return rank_count(run.item or {}, run.workload) if is_known or is_job else None


def _is_newer(one: Object, other: Object) -> bool:
    """Return whether `one`, and not `other`, is the current Workload of their object."""

    def rank(workload: Object) -> tuple[bool, int]:
        return (
            not is_true(workload, "Finished"),
            moment(workload, "metadata", "creationTimestamp") or 0,
        )

    return rank(one) > rank(other)


def _container_times(source: Object) -> tuple[int | None, int | None, RankEnd | None]:
    """Return when the Pod's main container started and ended, and how it ended. Raises Odd."""
    statuses = parts(source, "status", "containerStatuses")
    first = next((text(one, "name") for one in parts(source, "spec", "containers")), "")
    names = {text(one, "name") for one in statuses} & naming.CONTAINERS or {first}
    status = next(
        (one for one in statuses if text(one, "name") in names),
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


def _first_start(source: Object) -> int | None:
    """Return when the first of all the Pod's containers started, as far as known. Raises Odd.

    Of a restarted container only the last two starts are known.
    """
    statuses = (
        *parts(source, "status", "initContainerStatuses"),
        *parts(source, "status", "containerStatuses"),
    )
    starts = [
        moment(part(status, which, state), "startedAt")
        for status in statuses
        for which, state in (
            ("state", "running"),
            ("state", "terminated"),
            ("lastState", "terminated"),
        )
    ]
    return min((at for at in starts if at is not None), default=None)


def _refusals(events: Iterable[Object]) -> dict[str, str]:
    """Return by uid of the object the newest warning on creating its Pods."""
    found: dict[str, str] = {}
    for event in events:
        try:
            if text(event, "reason") == "FailedCreate":
                found[text(event, "involvedObject", "uid")] = text(event, "message")
        except Odd:
            # Only the text of a message is lost.
            continue
    return found
