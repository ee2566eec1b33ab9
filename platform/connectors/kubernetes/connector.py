"""A Kubernetes cluster as a cluster of Tidegate, with Kueue as the executor.

An attempt is one object (a Job by default) whose name follows from its key, made when it is
dispatched: suspended, in its team's queue. Kueue reserves quota for it and waits for our vote,
which is its release. What is known of the cluster comes from watches; what is done there, beside
the calls of the protocol, is in `tending`. An attempt runs at most once: what was stopped or
evicted is deactivated and never voted for again.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from connectors.errors import ClusterUnavailable, WorkloadRejected
from connectors.kubernetes import naming
from connectors.kubernetes.adoption import is_as_made
from connectors.kubernetes.api import (
    AlreadyExists,
    Conflict,
    Forbidden,
    KubeApi,
    KubeRefused,
    NotFound,
)
from connectors.kubernetes.attempts import Attempt, has_controller
from connectors.kubernetes.caches import NODES, Caches, trimmed
from connectors.kubernetes.cluster_state import KubeState, pods_of_ours
from connectors.kubernetes.gating import GateWatch
from connectors.kubernetes.inventory import nodes_of
from connectors.kubernetes.log_keeping import LogKeeper
from connectors.kubernetes.log_reading import KubernetesLogs
from connectors.kubernetes.manifests.building import (
    check_manifest_sizes,
    objects_for,
    owned,
    owner_patch,
)
from connectors.kubernetes.observing import listing_of
from connectors.kubernetes.options import KubernetesOptions, parse_options
from connectors.kubernetes.reading import is_true
from connectors.kubernetes.refusals import Refusals
from connectors.kubernetes.resources import POD, resource_of
from connectors.kubernetes.tending import (
    KILL_GRACE_S,
    Tender,
    is_over,
    notice_patch,
    pod_path,
    stop_patch,
)
from connectors.kubernetes.voting import (
    KUEUE_VERSION,
    Allowed,
    CheckKeeper,
    is_inactive,
    is_marked,
    is_owned_by,
    is_untouched,
    vote_of,
    workload_path,
)
from connectors.protocol import (
    ClusterConnector,
    Inventory,
    Listing,
    LogChunk,
    LogReader,
    Observation,
    Workload,
    WorkloadPhase,
)
from connectors.workload_checks import check_key

Object = Mapping[str, Any]

#: What tells a cluster from others, see `protocol.Inventory`.
CLUSTER = "cluster"
VERSION_PATH = "/version"
#: Seconds for which a look waits for the rest of the logs of what it finds ended.
LOG_WAIT_S = 3.0
_SURE_MAX = 50_000
#: How long it is believed how large the largest nodes are.
_SIZES_S = 60.0


def open_kubernetes(
    options: Mapping[str, Any], cluster_id: str, known_as: Mapping[str, str] | None = None
) -> ClusterConnector:
    """The connector for `options` (see `connectors.kubernetes.options`); speaks to nobody yet.

    `cluster_id` tells our objects from those of other installations, `known_as` what the cluster
    must answer by. Raises ValueError for bad options.
    """
    identity = (known_as or {}).get(CLUSTER)
    return KubernetesConnector(parse_options(options), cluster_id, identity=identity)


def check_kubernetes_options(options: Mapping[str, Any]) -> None:
    """Raises ValueError for options that no Kubernetes cluster can have; opens no file."""
    parse_options(options)


def open_kubernetes_logs(options: Mapping[str, Any]) -> LogReader:
    """The outputs of jobs of such a cluster. Raises ValueError for bad options."""
    return KubernetesLogs(parse_options(options))


class KubernetesConnector:
    """Implements `connectors.protocol.ClusterConnector`; safe to use from several threads.

    It watches the cluster, and does there what `tending` says, from the first call on that is more
    than a question about its nodes or a submission, and until nobody has it any more.
    """

    def __init__(
        self, options: KubernetesOptions, cluster_id: str, *, identity: str | None = None
    ) -> None:
        self._options = options
        self._cluster_id = cluster_id
        self._api = KubeApi(
            kubeconfig=options.kubeconfig, context=options.context, identity=identity
        )
        self._keeper: LogKeeper | None = None
        if options.log_root is not None:
            self._keeper = LogKeeper(
                self._api,
                root=options.log_root,
                cluster_id=cluster_id,
                cap_bytes=options.log_cap_bytes,
            )
        self._caches = Caches(
            self._api,
            options,
            cluster_id,
            pod_changed=self._keeper.pod_changed if self._keeper else lambda before, now: None,
        )
        self._allowed = Allowed()
        self._tender = Tender(
            self._api,
            self._caches.attempts,
            self._allowed,
            options.pools,
            took=self._caches.took,
            keeps_check=options.has_kueue,
        )
        self._gate = (
            GateWatch(self._api, operators=options.operators) if options.has_kueue else None
        )
        self._logs = KubernetesLogs(options)
        self._refusals = Refusals(self._api)
        self._lock = threading.Lock()
        self._sure: dict[str, None] = {}
        self._sizes: tuple[float, Mapping[str, int]] | None = None
        self._version = ""
        # The protocol knows no closing: threads and connections end with the connector.
        weakref.finalize(self, _close, self._api, self._caches, self._tender, self._keeper)

    @property
    def options(self) -> KubernetesOptions:
        """What it was opened with."""
        return self._options

    @property
    def api(self) -> KubeApi:
        """Its client, for the other things that a Kubernetes cluster can do."""
        return self._api

    def known_state(self) -> KubeState:
        """What the watches tell now. Raises ClusterUnavailable."""
        self._start()
        return self._caches.state(0)

    def took(self, found: dict[str, Any]) -> None:
        """What the server just answered with is known from now on."""
        self._caches.took(found)

    @property
    def cluster_id(self) -> str:
        """How the cluster's objects say that they are ours."""
        return self._cluster_id

    @property
    def news(self) -> threading.Event:
        """Set when something happened that a look would show; whoever waits clears it."""
        return self._caches.news

    @property
    def submits_held(self) -> bool:
        """Yes: what is created waits for our vote."""
        return True

    @property
    def settle_s(self) -> int:
        """None: what the API server has accepted is stored, and its uid is its own for ever."""
        return 0

    def prepare(self) -> None:
        """Say in Kueue that our admission check is there."""
        if self._options.has_kueue:
            with _insisting():
                CheckKeeper(self._api).keep()

    def submit(self, workload: Workload, *, is_first: bool = False) -> str:
        """See the protocol. The nodes in `slots` are ignored: the cluster chooses them."""
        objects = objects_for(workload, self._options, cluster_id=self._cluster_id)
        check_manifest_sizes(objects)
        self._check_size(workload)
        for needed in objects.before:
            self._created(workload.key, needed)
        main = self._created(workload.key, objects.main)
        for needed in objects.before:
            metadata = needed["metadata"]
            path = resource_of(needed).path(metadata["namespace"], metadata["name"])
            with _insisting():
                self._api.merge_patch(path, owner_patch(main))
        for other in objects.others:
            self._create_owned(workload.key, owned(other, main))
        self._caches.took(main)
        return str(main["metadata"]["uid"])

    def release(self, key: str, native_id: str) -> None:
        """See the protocol. It is voted for as soon as Kueue has reserved its quota."""
        check_key(key)
        self._start()
        attempt = self._attempt_of(key, native_id)
        if attempt is None or not _may_still_run(attempt):
            return
        if not self._options.has_kueue:
            self._unsuspend(attempt)
            return
        try:
            self._allowed.allow(native_id)
        finally:
            self._caches.attempts.touch(native_id)

    def _unsuspend(self, attempt: Attempt) -> None:
        """Without Kueue an object waits as long as it is suspended, and nobody votes."""
        if not is_untouched(attempt.item):
            return
        patch = {
            "metadata": {"resourceVersion": attempt.item["metadata"]["resourceVersion"]},
            "spec": {"suspend": False},
        }
        try:
            self._patch(_path(attempt.item), patch)
        except NotFound:
            return

    def remove_copy(self, key: str, native_id: str) -> None:
        """See the protocol."""
        check_key(key)
        self._start()
        for attempt in self._attempts_of(key):
            if attempt.uid == native_id and _is_held(attempt):
                self._stop(attempt, only_as_it_is=True)

    def observe(self) -> Listing:
        """See the protocol."""
        self._start()
        # Asked at every look: the watches alone do not say whether it is still the same cluster.
        probe = self._api.probe()
        state = self._state(probe.observed_at)
        listing = self._listing(state)
        if self._has_doubtful_ends(listing):
            state = self._state(probe.observed_at)
            listing = self._listing(state)
        self._refusals.ask(self._without_pods(listing))
        if self._keeper is not None:
            self._keeper.tend(pods_of_ours(state, cluster_id=self._cluster_id))
            # What is told to have ended has its whole log, wherever that can be had soon.
            self._keeper.catch_up(LOG_WAIT_S)
        return listing

    def find_ended(self, key: str, native_id: str) -> Observation | None:
        """Nothing: a cluster keeps no accounts, and what is gone is gone."""
        check_key(key)
        return None

    def notify(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. Every Pod is told, those that appear later too."""
        check_key(key)
        self._start()
        for attempt in self._attempts_of(key):
            marked, path = attempt.item, _path(attempt.item)
            if self._options.has_kueue:
                if attempt.workload is None:
                    continue
                marked, path = attempt.workload, workload_path(attempt.workload)
            if not _may_still_run(attempt):
                continue
            if not is_marked(marked, naming.NOTICE):
                with contextlib.suppress(NotFound):
                    self._patch(path, notice_patch())

    def stop(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. Its Pods get a second between TERM and KILL."""
        check_key(key)
        self._start()
        failure: ClusterUnavailable | None = None
        attempts = self._attempts_of(key)
        counting = {attempt.uid for attempt in _beside(attempts, native_id) or attempts}
        # What keeps others of this key from being stopped is nothing to the one that is meant.
        for attempt in sorted(attempts, key=lambda one: one.uid not in counting):
            self._allowed.forbid(attempt.uid)
            try:
                self._stop(attempt)
            except ClusterUnavailable as error:
                if attempt.uid in counting:
                    failure = failure or error
        if failure is not None:
            raise failure

    def inventory(self) -> Inventory:
        """See the protocol."""
        probe = self._api.probe()
        found, odd = nodes_of(self._nodes(), self._options.pools, self._options.features)
        return Inventory(
            observed_at=probe.observed_at,
            nodes=found,
            api_version=self._api_version(),
            complaints=(*self._gate_complaints(), *odd),
            identity={CLUSTER: probe.uid},
        )

    def read_log(
        self,
        key: str,
        *,
        rank: int,
        stream: str,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> LogChunk:
        """See the protocol. Kubernetes writes both streams into one, which is "stdout"."""
        return self._logs.read_log(
            key, rank=rank, stream=stream, offset=offset, limit=limit, cluster_user=cluster_user
        )

    def forget(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol."""
        check_key(key)
        self._start()
        attempts = self._attempts_of(key)
        if native_id is not None:
            attempts = _beside(attempts, native_id)
        for attempt in attempts:
            seen = self._observation(attempt)
            if seen is None or not seen.is_released:
                return
        for attempt in attempts:
            self._delete(_path(attempt.item), attempt.uid)
            self._caches.removed(attempt.item)
        if self._keeper is not None:
            self._keeper.forget(key)

    def _check_size(self, workload: Workload) -> None:
        """Raises WorkloadRejected for ranks that are larger than every node of their pool.

        Of a pool without any nodes nothing is known.
        """
        wanted_mgpu = max(slot.mgpu for slot in workload.slots)
        largest_mgpu = self._largest_mgpu().get(workload.pool)
        if largest_mgpu is not None and wanted_mgpu > largest_mgpu:
            # Asked for anew before anything is refused because of it.
            self._sizes = None
            largest_mgpu = self._largest_mgpu().get(workload.pool)
        if largest_mgpu is not None and wanted_mgpu > largest_mgpu:
            raise WorkloadRejected(
                f"a rank asks for {wanted_mgpu} milli-GPU, and the largest node of pool "
                f"{workload.pool} on this cluster has {largest_mgpu}; ask for fewer on each node"
            )

    def _largest_mgpu(self) -> Mapping[str, int]:
        """By pool, what its largest node has; asked for again when that is old."""
        known, now_s = self._sizes, time.monotonic()
        if known is None or now_s - known[0] > _SIZES_S:
            nodes, _ = nodes_of(self._nodes(), self._options.pools, self._options.features)
            largest: dict[str, int] = {}
            for node in nodes:
                largest[node.pool] = max(node.capacity_mgpu, largest.get(node.pool, 0))
            known = self._sizes = (now_s, largest)
        return known[1]

    def _nodes(self) -> Sequence[Object]:
        if self._caches.is_started:
            return self._caches.nodes()
        return self._api.list(NODES).items

    def _start(self) -> None:
        self._caches.start()
        self._tender.start()

    def _state(self, observed_at: int) -> KubeState:
        return replace(self._caches.state(observed_at), events=self._refusals.known())

    def _without_pods(self, listing: Listing) -> frozenset[str]:
        """The namespaces of what was admitted long ago and has no Pods, for which the next look
        has the cluster's own words."""
        return frozenset(
            seen.account
            for key in listing.observations
            for seen in listing.all_of(key)
            if seen.is_stuck
            and seen.phase is WorkloadPhase.STARTING
            and (attempt := self._caches.attempts.of_uid(seen.native_id)) is not None
            and not attempt.pods
        )

    def _listing(self, state: KubeState) -> Listing:
        listing = listing_of(state, cluster_id=self._cluster_id, pools=self._options.pools)
        if self._gate is not None and self._gate.last_state.is_in_place:
            return listing
        # Anybody could have written who made them.
        natives = tuple(replace(native, user="") for native in listing.natives)
        return replace(listing, natives=natives)

    def _gate_complaints(self) -> tuple[str, ...]:
        """What is wrong with the gate of what is submitted beside the portal."""
        if self._gate is None:
            return ()
        complaint = self._gate.state().complaint
        return (complaint,) if complaint else ()

    def _observation(self, attempt: Attempt) -> Observation | None:
        """What is to be said of this attempt alone."""
        state = KubeState(
            objects=(attempt.item,),
            workloads=() if attempt.workload is None else (attempt.workload,),
            pods=attempt.pods,
            nodes=(),
            observed_at=0,
        )
        return self._listing(state).seen(attempt.key, attempt.uid)

    def _has_doubtful_ends(self, listing: Listing) -> bool:
        """Whether some end turned out to be none: each is made sure of once.

        The watches over Pods and over what they belong to are not in step: a Pod may be there that
        was not told yet. After a regular end all Pods are counted; after a stop only a list tells.
        """
        asked: dict[str, list[Attempt]] = {}
        for key in listing.observations:
            for seen in listing.all_of(key):
                if not seen.is_released or seen.started_at is None or self._is_sure(seen.native_id):
                    continue
                attempt = self._caches.attempts.of_uid(seen.native_id)
                if attempt is not None and not _is_finished(attempt):
                    asked.setdefault(attempt.item["metadata"]["namespace"], []).append(attempt)
        doubtful = False
        for namespace, attempts in asked.items():
            alive = [pod for pod in self._pods_in(namespace) if not is_over(pod)]
            living = {naming.key_of(pod, self._cluster_id) for pod in alive}
            for attempt in attempts:
                if attempt.key not in living:
                    self._remember_sure(attempt.uid)
            ended = {attempt.key for attempt in attempts}
            for pod in alive:
                if naming.key_of(pod, self._cluster_id) in ended:
                    self._caches.took(pod)
                    doubtful = True
        return doubtful

    def _is_sure(self, uid: str) -> bool:
        with self._lock:
            return uid in self._sure

    def _remember_sure(self, uid: str) -> None:
        with self._lock:
            self._sure[uid] = None
            while len(self._sure) > _SURE_MAX:
                del self._sure[next(iter(self._sure))]

    def _attempt_of(self, key: str, native_id: str) -> Attempt | None:
        """The attempt of `key` that has this uid, None where the cluster has none."""
        if self._caches.is_fresh:
            attempt = self._caches.attempts.of_uid(native_id)
            return attempt if attempt is not None and attempt.key == key else None
        found = self._attempts_of(key)
        return next((attempt for attempt in found if attempt.uid == native_id), None)

    def _attempts_of(self, key: str) -> tuple[Attempt, ...]:
        """All that the cluster has of `key`, asked for where the watches tell of nothing, or only
        of what was. Raises ClusterUnavailable."""
        is_fresh = self._caches.is_fresh
        known = self._caches.attempts.of_key(key)
        if known and is_fresh:
            return known
        name = naming.workload_name(key)
        items = [
            *self._api.list(
                self._options.resource.collection(),
                labels=naming.selector(self._cluster_id),
                fields=f"metadata.name={name}",
            ).items,
            *self._of_earlier_kinds(known),
        ]
        found: list[Attempt] = []
        for item in items:
            if naming.key_of(item, self._cluster_id) == key and not has_controller(item):
                self._caches.took(item)
                found.append(self._joined(key, item))
        return tuple(found)

    def _of_earlier_kinds(self, known: Sequence[Attempt]) -> Iterator[dict[str, Any]]:
        """Those of `known` that an earlier option `kind` made, as they are now."""
        for attempt in known:
            if resource_of(attempt.item) is not self._options.resource:
                with contextlib.suppress(NotFound):
                    now = self._api.get(_path(attempt.item))
                    if now["metadata"]["uid"] == attempt.uid:
                        yield now

    def _joined(self, key: str, item: Object) -> Attempt:
        workload = None
        if self._options.has_kueue:
            workload = next(
                (
                    one
                    for one in self._api.list(
                        f"/apis/{KUEUE_VERSION}/namespaces/{item['metadata']['namespace']}/workloads",
                        labels=f"kueue.x-k8s.io/job-uid={item['metadata']['uid']}",
                    ).items
                    if is_owned_by(one, item)
                ),
                None,
            )
        attempt = Attempt(key, trimmed(item), workload, ())
        return replace(attempt, pods=self._pods_of(attempt))

    def _pods_of(self, attempt: Attempt) -> tuple[dict[str, Any], ...]:
        """Its Pods, as the server lists them now."""
        listed = self._pods_in(attempt.item["metadata"]["namespace"])
        return tuple(pod for pod in listed if naming.key_of(pod, self._cluster_id) == attempt.key)

    def _pods_in(self, namespace: str) -> Sequence[dict[str, Any]]:
        """The Pods of all attempts in a namespace, as the server lists them now."""
        selector = naming.selector(self._cluster_id)
        return self._api.list(POD.collection(namespace), labels=selector).items

    def _stop(self, attempt: Attempt, *, only_as_it_is: bool = False) -> None:
        """Mark it as stopped for good; `tending` ends its Pods, now and whenever one appears.

        With `only_as_it_is`, one that has changed meanwhile is left for the next look.
        """
        now = datetime.now(UTC)
        workload = attempt.workload
        if _is_finished(attempt):
            # No Pod is made any more; those that are still ending are not waited for.
            for pod in attempt.pods:
                if not is_over(pod):
                    self._delete(pod_path(pod), pod["metadata"]["uid"], grace_s=KILL_GRACE_S)
            return
        if _is_stopped(attempt) and (workload is None or is_inactive(workload)):
            return
        marked, path = attempt.item, _path(attempt.item)
        patch: dict[str, Any] = stop_patch(now)
        if workload is not None:
            marked, path = workload, workload_path(workload)
            patch["spec"] = {"active": False}
        elif not self._options.has_kueue:
            patch["spec"] = {"suspend": True}
        if only_as_it_is:
            patch["metadata"]["resourceVersion"] = marked["metadata"]["resourceVersion"]
        try:
            self._patch(path, patch)
        except NotFound:
            if workload is None:
                return
            # Kueue has just replaced it: whatever comes instead belongs to the same object.
            with contextlib.suppress(NotFound):
                self._patch(_path(attempt.item), stop_patch(now))

    def _patch(self, path: str, patch: Mapping[str, Any]) -> None:
        """Write, and know it from now on. Raises NotFound."""
        try:
            with _insisting():
                self._caches.took(self._api.merge_patch(path, patch))
        except Conflict as error:
            raise ClusterUnavailable(f"{path} has just changed: {error}") from error

    def _delete(self, path: str, uid: str, *, grace_s: int | None = None) -> None:
        with _insisting():
            self._api.delete(path, uid=uid, grace_s=grace_s, propagation="Background")

    def _created(self, key: str, body: Object) -> dict[str, Any]:
        """The object of `key`: created now, or before. Raises WorkloadRejected."""
        kind = resource_of(body)
        namespace = body["metadata"]["namespace"]
        try:
            return self._api.create(kind.collection(namespace), body)
        except AlreadyExists:
            pass
        except KubeRefused as error:
            raise self._refused(error, namespace) from error
        try:
            found = self._api.get(kind.path(namespace, body["metadata"]["name"]))
        except NotFound as error:
            raise ClusterUnavailable(f"{key} has just been deleted; try again") from error
        if naming.key_of(found, self._cluster_id) != key or not is_as_made(body, found):
            raise WorkloadRejected(
                f"the cluster has another {kind.kind} named {body['metadata']['name']} in "
                f"namespace {namespace}, which is not ours; an administrator there must remove it"
            )
        return found

    def _create_owned(self, key: str, body: Object) -> None:
        """What belongs to the object of `key`. Raises WorkloadRejected."""
        kind = resource_of(body)
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        try:
            self._api.create(kind.collection(namespace), body)
            return
        except AlreadyExists:
            pass
        except KubeRefused as error:
            raise self._refused(error, namespace) from error
        try:
            found = self._api.get(kind.path(namespace, name))
        except NotFound as error:
            raise ClusterUnavailable(f"{name} has just been deleted; try again") from error
        if naming.key_of(found, self._cluster_id) != key or not is_as_made(body, found):
            raise WorkloadRejected(
                f"the cluster has another {kind.kind} named {name} in namespace {namespace}, which "
                "is not ours; an administrator there must remove it"
            )
        owners = {one["uid"] for one in found["metadata"].get("ownerReferences") or ()}
        wanted = {one["uid"] for one in body["metadata"]["ownerReferences"]}
        if owners != wanted:
            raise ClusterUnavailable(
                f"the {kind.kind} {name} of an earlier object of this name is still being removed"
            )

    def _refused(self, error: KubeRefused, namespace: str) -> Exception:
        """What a refusal to create something means to whoever asked for it."""
        if isinstance(error, NotFound):
            return WorkloadRejected(
                f"the cluster has no namespace {namespace} for this team, or does not know the "
                f"kind of object: {error}. An administrator can push the quota to the cluster "
                "again."
            )
        if isinstance(error, Forbidden) and " cannot " in error.message:
            return ClusterUnavailable(f"the cluster does not let us: {error}")
        return WorkloadRejected(f"Kubernetes refuses it: {error}")

    def _api_version(self) -> str:
        if not self._version:
            self._version = str(self._api.get(VERSION_PATH).get("gitVersion", ""))
        return self._version


@contextlib.contextmanager
def _insisting() -> Iterator[None]:
    """Do what no job's owner can be blamed for: a refusal is the cluster's fault, to be mended."""
    try:
        yield
    except (NotFound, Conflict):
        raise
    except KubeRefused as error:
        raise ClusterUnavailable(f"the cluster does not let us: {error}") from error


def _path(item: Object) -> str:
    return resource_of(item).path(item["metadata"]["namespace"], item["metadata"]["name"])


def _is_finished(attempt: Attempt) -> bool:
    """Whether it has ended by itself."""
    workload = attempt.workload
    ends = ("Complete", "Completed", "Succeeded", "Failed")
    return (workload is not None and is_true(workload, "Finished")) or any(
        is_true(attempt.item, end) for end in ends
    )


def _is_stopped(attempt: Attempt) -> bool:
    marked = [attempt.item] if attempt.workload is None else [attempt.item, attempt.workload]
    return any(is_marked(one, naming.STOPPED) for one in marked)


def _may_still_run(attempt: Attempt) -> bool:
    return not _is_stopped(attempt) and not _is_finished(attempt)


def _beside(attempts: Sequence[Attempt], native_id: str | None) -> tuple[Attempt, ...]:
    """Of one key, the attempt that was recorded and what is in its namespace: anybody can write the
    key onto an object of another namespace, which must hold up nothing."""
    where = {one.item["metadata"]["namespace"] for one in attempts if one.uid == native_id}
    return tuple(one for one in attempts if one.item["metadata"]["namespace"] in where)


def _is_held(attempt: Attempt) -> bool:
    """Whether it was never voted for."""
    if not is_untouched(attempt.item):
        return False
    workload = attempt.workload
    return workload is None or (vote_of(workload) != "Ready" and not is_true(workload, "Admitted"))


def _close(api: KubeApi, caches: Caches, tender: Tender, keeper: LogKeeper | None) -> None:
    if keeper is not None:
        keeper.close()
    tender.stop()
    caches.stop()
    api.close()
