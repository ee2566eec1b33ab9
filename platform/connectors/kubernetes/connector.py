"""A Kubernetes cluster as a cluster of Tidegate, with Kueue as the executor.

An attempt is one object (a Job by default) with a name derived from its key. It is created when it
is dispatched, suspended in its team's queue. Kueue reserves quota for it and waits for our vote,
which is its release.

The state of the cluster comes from watches. Besides the calls of the protocol, `reconciler` acts on
the cluster. An attempt runs at most once: a stopped or evicted attempt is deactivated and never
gets a vote again.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from connectors.errors import ClusterUnavailable, ControllerAway
from connectors.kubernetes.admission.admission_check import (
    Allowed,
    CheckKeeper,
    is_marked,
    is_untouched,
    workload_path,
)
from connectors.kubernetes.admission.gate_watch import GateWatch
from connectors.kubernetes.admission.kueue_health import AWAY, KueueWatch, with_kueue_away
from connectors.kubernetes.admission.refusals import Refusals
from connectors.kubernetes.admission.token_secrets import TokenWatch
from connectors.kubernetes.admission.unqueued import unqueued_alert
from connectors.kubernetes.attempts.extending import extend
from connectors.kubernetes.attempts.finding import Finder, in_same_namespace
from connectors.kubernetes.attempts.looking import Looker
from connectors.kubernetes.attempts.reconciler import Tender, notice_patch
from connectors.kubernetes.attempts.stopping import Stopper, is_held, may_still_run
from connectors.kubernetes.attempts.submitting import Submitter
from connectors.kubernetes.client.api import KubeApi, NotFound, WebhookAway
from connectors.kubernetes.informers.caches import Caches
from connectors.kubernetes.informers.writing import Writer, insisting, path_to
from connectors.kubernetes.logs.log_keeping import LogKeeper
from connectors.kubernetes.logs.log_reading import KubernetesLogs
from connectors.kubernetes.nodes.cores import use_of_nodes
from connectors.kubernetes.nodes.inventory import core_shares_mib, nodes_of
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.attempts import Attempt
from connectors.kubernetes.objects.cluster_state import KubeState, pods_of_ours, rank_of_ours
from connectors.kubernetes.options.options import TAKE, KubernetesOptions, parse_options
from connectors.protocol import (
    ClusterConnector,
    Inventory,
    Listing,
    LogChunk,
    LogReader,
    Observation,
    Workload,
)
from connectors.workload_checks import check_key

#: The key of the cluster's identity, see `protocol.Inventory`.
CLUSTER = "cluster"
VERSION_PATH = "/version"
#: Seconds for which a look waits for the rest of the logs of ended attempts. Mostly they are
#: complete at once. Others wait for the GPUs, so a late rest is fetched afterwards.
LOG_WAIT_S = 0.2


def open_kubernetes(
    options: Mapping[str, Any], cluster_id: str, known_as: Mapping[str, str] | None = None
) -> ClusterConnector:
    """Return the connector for `options` (see `options.options`), without contacting the cluster.

    `cluster_id` distinguishes our objects from those of other installations. `known_as` is the
    identity that the cluster must have. Raises ValueError for bad options.
    """
    identity = (known_as or {}).get(CLUSTER)
    return KubernetesConnector(parse_options(options), cluster_id, identity=identity)


def check_kubernetes_options(options: Mapping[str, Any]) -> None:
    """Raise ValueError for options that no Kubernetes cluster can have. Opens no file."""
    parse_options(options)


def open_kubernetes_logs(options: Mapping[str, Any]) -> LogReader:
    """Return the log reader of such a cluster. Raises ValueError for bad options."""
    return KubernetesLogs(parse_options(options))


class KubernetesConnector:
    """Implements `connectors.protocol.ClusterConnector`; safe to use from several threads.

    It watches the cluster and reconciles it (`reconciler`) until the connector is
    garbage-collected. That begins with the first call that is more than a question about its nodes
    or a submission.
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
            GateWatch(
                self._api,
                operators=options.operators,
                exempt=options.exempt,
                takes_unlabelled=options.unlabelled == TAKE,
            )
            if options.has_kueue
            else None
        )
        self._kueue = KueueWatch(self._api) if options.has_kueue else None
        self._logs = KubernetesLogs(options)
        self._refusals = Refusals(self._api)
        self._tokens = TokenWatch(self._api)
        self._submitter = Submitter(self._api, self._caches, options, cluster_id, self._tokens)
        self._finder = Finder(self._api, self._caches, options, cluster_id)
        self._writer = Writer(self._api, self._caches)
        self._looker = Looker(
            self._caches, self._finder, self._gate, self._refusals, options, cluster_id
        )
        self._stopper = Stopper(
            self._writer, has_finished=self._looker.has_finished, has_kueue=options.has_kueue
        )
        self._version = ""
        # The alert of the last look about Pods outside of teams' queues.
        self._unqueued = ""
        self._no_metrics = ""
        # The protocol has no `close`: threads and connections end with the connector.
        weakref.finalize(self, _close, self._api, self._caches, self._tender, self._keeper)

    @property
    def options(self) -> KubernetesOptions:
        """The options that it was opened with."""
        return self._options

    @property
    def api(self) -> KubeApi:
        """The API client, for the other features of a Kubernetes cluster."""
        return self._api

    def known_attempts(self, key: str) -> tuple[Attempt, ...]:
        """Return the attempts of `key` from the watches. Raises ClusterUnavailable."""
        self._start()
        return self._caches.attempts.of_key(key)

    def note_metrics(self, refusal: str) -> None:
        """Note why the cluster refuses its metrics, for its page; "" if it does not."""
        self._no_metrics = refusal

    def known_state(self) -> KubeState:
        """Return the state from the watches. Raises ClusterUnavailable."""
        self._start()
        return self._caches.state(0)

    def listed_state(self) -> KubeState:
        """Return the state as the server lists it now. Raises ClusterUnavailable."""
        return self._caches.listed(self._api.probe().observed_at)

    def took(self, found: dict[str, Any]) -> None:
        """Add an object that the server has just returned to the watched state."""
        self._caches.took(found)

    @property
    def cluster_id(self) -> str:
        """The id with which the cluster's objects are marked as ours."""
        return self._cluster_id

    @property
    def news(self) -> threading.Event:
        """An event that is set when a look would show something new; the waiter clears it."""
        return self._caches.news

    @property
    def submits_held(self) -> bool:
        """Return True: a created object waits for our vote."""
        return True

    @property
    def settle_s(self) -> int:
        """Return 0: an accepted object is stored, and its uid is unique for ever."""
        return 0

    def prepare(self) -> None:
        """Create our admission check in Kueue."""
        if self._options.has_kueue:
            with insisting():
                CheckKeeper(self._api).keep()

    def submit(self, workload: Workload, *, is_first: bool = False) -> str:
        """See the protocol. The nodes in `slots` are ignored: the cluster chooses them."""
        try:
            return self._submitter.submit(workload)
        except WebhookAway as error:
            if self._kueue is None or not self._kueue.is_away_now():
                raise
            raise ControllerAway(str(error), AWAY) from error

    def release(self, key: str, native_id: str) -> None:
        """See the protocol. The vote follows as soon as Kueue has reserved its quota."""
        check_key(key)
        self._start()
        attempt = self._finder.attempt_of(key, native_id)
        if attempt is None or not may_still_run(attempt):
            return
        if not self._options.has_kueue:
            self._unsuspend(attempt)
            return
        try:
            self._allowed.allow(native_id)
        finally:
            self._caches.attempts.touch(native_id)

    def _unsuspend(self, attempt: Attempt) -> None:
        """Start an object on a cluster without Kueue, where suspension alone holds it."""
        if not is_untouched(attempt.item):
            return
        patch = {
            "metadata": {"resourceVersion": attempt.item["metadata"]["resourceVersion"]},
            "spec": {"suspend": False},
        }
        try:
            self._writer.patch(path_to(attempt.item), patch)
        except NotFound:
            return

    def remove_copy(self, key: str, native_id: str) -> None:
        """See the protocol."""
        check_key(key)
        self._start()
        for attempt in self._finder.attempts_of(key):
            if attempt.uid == native_id and is_held(attempt):
                self._stopper.stop(attempt, only_as_it_is=True)

    def observe(self) -> Listing:
        """See the protocol."""
        self._start()
        # Probed at every look: the watches alone do not reveal whether it is still the same
        # cluster.
        probe = self._api.probe()
        state, listing = self._looker.look(probe.observed_at)
        self._unqueued = unqueued_alert(listing, self._options.pools)
        if self._keeper is not None:
            self._keeper.tend(pods_of_ours(state, cluster_id=self._cluster_id))
            # An ended attempt should have its complete log if that is available soon. A gang that
            # is still ending is not waited for: others wait for its GPUs.
            self._keeper.catch_up(_ended(listing), LOG_WAIT_S)
        if self._kueue is not None and self._kueue.is_away:
            return with_kueue_away(listing)
        return listing

    def find_ended(self, key: str, native_id: str) -> Observation | None:
        """Return None: a cluster has no accounting of deleted objects."""
        check_key(key)
        return None

    def notify(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. Every Pod is notified, including Pods that appear later."""
        check_key(key)
        self._start()
        for attempt in self._finder.attempts_of(key):
            marked, path = attempt.item, path_to(attempt.item)
            if self._options.has_kueue:
                if attempt.workload is None:
                    continue
                marked, path = attempt.workload, workload_path(attempt.workload)
            if not may_still_run(attempt) or self._looker.has_finished(attempt):
                continue
            if not is_marked(marked, naming.NOTICE):
                with contextlib.suppress(NotFound):
                    self._writer.patch(path, notice_patch())

    def set_time_limit(self, key: str, time_limit_s: int, *, native_id: str | None = None) -> None:
        """See the protocol. The reconciler tells every Pod, including Pods that appear later."""
        check_key(key)
        self._start()
        for attempt in self._finder.attempts_of(key):
            if not may_still_run(attempt) or self._looker.has_finished(attempt):
                continue
            extend(attempt, time_limit_s, writer=self._writer, has_kueue=self._options.has_kueue)

    def stop(self, key: str, *, native_id: str | None = None) -> None:
        """See the protocol. Its Pods get a second between TERM and KILL."""
        check_key(key)
        self._start()
        failure: ClusterUnavailable | None = None
        attempts = self._finder.attempts_of(key)
        counting = {attempt.uid for attempt in in_same_namespace(attempts, native_id) or attempts}
        # A failure to stop another attempt of this key must not affect the recorded one.
        for attempt in sorted(attempts, key=lambda one: one.uid not in counting):
            self._allowed.forbid(attempt.uid)
            try:
                self._stopper.stop(attempt)
            except ClusterUnavailable as error:
                if attempt.uid in counting:
                    failure = failure or error
        if failure is not None:
            raise failure

    def inventory(self) -> Inventory:
        """See the protocol."""
        probe = self._api.probe()
        nodes, pools = self._caches.nodes(), self._options.pools
        shares = core_shares_mib(nodes, pools)
        use = use_of_nodes(self._caches.pods(), shares, self._is_attempt) if shares else None
        found, odd = nodes_of(nodes, pools, self._options.features, use)
        untold = "" if self._options.portal_url is None else self._tokens.refusal()
        told = f"Jobs there get no access to the portal: {untold}." if untold else ""
        unread = f"Jobs there have no metrics: {self._no_metrics}." if self._no_metrics else ""
        return Inventory(
            observed_at=probe.observed_at,
            nodes=found,
            api_version=self._api_version(),
            complaints=(
                *self._kueue_complaints(),
                *filter(None, [self._unqueued, told, unread]),
                *odd,
            ),
            identity={CLUSTER: probe.uid},
            portal_refusal=untold,
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
        attempts = self._finder.attempts_of(key)
        if native_id is not None:
            attempts = in_same_namespace(attempts, native_id)
        for attempt in attempts:
            seen = self._looker.observation(attempt)
            if seen is None or not seen.is_released:
                return
        for attempt in attempts:
            self._writer.delete(path_to(attempt.item), attempt.uid)
            self._caches.removed(attempt.item)
        if self._keeper is not None:
            self._keeper.forget(key)

    def _is_attempt(self, pod: Mapping[str, Any]) -> bool:
        return rank_of_ours(pod, cluster_id=self._cluster_id) is not None

    def _start(self) -> None:
        self._caches.start()
        self._tender.start()

    def _kueue_complaints(self) -> tuple[str, ...]:
        """Return the problems of Kueue, and of the gate for native workloads."""
        if self._gate is None or self._kueue is None:
            return ()
        return tuple(
            complaint
            for complaint in (self._kueue.complaint(), self._gate.state().complaint)
            if complaint
        )

    def _api_version(self) -> str:
        if not self._version:
            self._version = str(self._api.get(VERSION_PATH).get("gitVersion", ""))
        return self._version


def _ended(listing: Listing) -> frozenset[str]:
    """Return the keys with a released observation."""
    return frozenset(
        key for key in listing.observations if any(seen.is_released for seen in listing.all_of(key))
    )


def _close(api: KubeApi, caches: Caches, tender: Tender, keeper: LogKeeper | None) -> None:
    if keeper is not None:
        keeper.close()
    tender.stop()
    caches.stop()
    api.close()
