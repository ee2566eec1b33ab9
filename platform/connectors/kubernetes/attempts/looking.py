"""Makes listings from the watches, and verifies that ended attempts have really ended."""

from __future__ import annotations

import threading
from dataclasses import replace

from connectors.kubernetes.admission.gate_watch import GateWatch
from connectors.kubernetes.admission.refusals import Refusals
from connectors.kubernetes.attempts.finding import Finder
from connectors.kubernetes.attempts.reconciler import is_over
from connectors.kubernetes.attempts.stopping import is_finished
from connectors.kubernetes.informers.caches import Caches
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.attempts import Attempt
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.objects.reading import Odd
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.kubernetes.workloads.admissions import admission_of
from connectors.kubernetes.workloads.ends import finish_of_run
from connectors.kubernetes.workloads.observing import listing_of
from connectors.kubernetes.workloads.runs import Look
from connectors.protocol import Listing, Observation, WorkloadPhase

#: The most attempts whose verified end is remembered.
_SURE_MAX = 50_000


class Looker:
    """Makes listings from the state of the watches."""

    def __init__(
        self,
        caches: Caches,
        finder: Finder,
        gate: GateWatch | None,
        refusals: Refusals,
        options: KubernetesOptions,
        cluster_id: str,
    ) -> None:
        self._caches = caches
        self._finder = finder
        self._gate = gate
        self._refusals = refusals
        self._options = options
        self._cluster_id = cluster_id
        self._lock = threading.Lock()
        self._sure: dict[str, None] = {}

    def look(self, observed_at: int) -> tuple[KubeState, Listing]:
        """Return the current state and its listing. Raises ClusterUnavailable."""
        state = self._state(observed_at)
        listing = self.listing(state)
        if self.has_doubtful_ends(listing):
            state = self._state(observed_at)
            listing = self.listing(state)
        self._refusals.ask(self._without_pods(listing))
        return state, listing

    def listing(self, state: KubeState) -> Listing:
        """Return the listing of `state`."""
        listing = listing_of(state, cluster_id=self._cluster_id, pools=self._options.pools)
        if self._gate is not None and self._gate.last_state.is_in_place:
            return listing
        # Without the gate, anybody could have written the creator.
        natives = tuple(replace(native, user="") for native in listing.natives)
        return replace(listing, natives=natives)

    def observation(self, attempt: Attempt) -> Observation | None:
        """Return the observation of this attempt alone."""
        return self.listing(_alone(attempt)).seen(attempt.key, attempt.uid)

    def has_finished(self, attempt: Attempt) -> bool:
        """Return whether it has ended by itself, as a listing would report."""
        look = Look(_alone(attempt), self._cluster_id, self._options.pools, naming.ADMISSION_CHECK)
        try:
            return any(
                run.item is not None and finish_of_run(run, run.item) is not None
                for run in look.runs()
            )
        except Odd:
            return False

    def has_doubtful_ends(self, listing: Listing) -> bool:
        """Return whether the end of some attempt is refuted. Each end is verified once.

        The watches of Pods and of their owners are not synchronized: a Pod may exist that the watch
        has not reported yet. After a regular end all Pods are counted. After a stop only a list is
        reliable.
        """
        asked: dict[str, list[Attempt]] = {}
        for key in listing.observations:
            for seen in listing.all_of(key):
                if not seen.is_released or self._is_sure(seen.native_id):
                    continue
                attempt = self._caches.attempts.of_uid(seen.native_id)
                if attempt is not None and _had_pods(attempt):
                    asked.setdefault(attempt.item["metadata"]["namespace"], []).append(attempt)
        doubtful = False
        for namespace, attempts in asked.items():
            alive = [pod for pod in self._finder.pods_in(namespace) if not is_over(pod)]
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

    def _state(self, observed_at: int) -> KubeState:
        return replace(self._caches.state(observed_at), events=self._refusals.known())

    def _without_pods(self, listing: Listing) -> frozenset[str]:
        """Return the namespaces of workloads that were admitted long ago and have no Pods.

        The next look includes the cluster's own explanation for these.
        """
        natives = frozenset(
            native.account
            for native in listing.natives
            if native.phase is WorkloadPhase.STARTING and native.message and not native.slots
        )
        return natives | frozenset(
            seen.account
            for key in listing.observations
            for seen in listing.all_of(key)
            if seen.is_stuck
            and seen.phase is WorkloadPhase.STARTING
            and (attempt := self._caches.attempts.of_uid(seen.native_id)) is not None
            and not attempt.pods
        )

    def _is_sure(self, uid: str) -> bool:
        with self._lock:
            return uid in self._sure

    def _remember_sure(self, uid: str) -> None:
        with self._lock:
            self._sure[uid] = None
            while len(self._sure) > _SURE_MAX:
                del self._sure[next(iter(self._sure))]


def _alone(attempt: Attempt) -> KubeState:
    """Return the state of a cluster that has nothing else."""
    return KubeState(
        objects=(attempt.item,),
        workloads=() if attempt.workload is None else (attempt.workload,),
        pods=attempt.pods,
        nodes=(),
        observed_at=0,
    )


def _had_pods(attempt: Attempt) -> bool:
    """Return whether Pods were created for it, some of which may be unreported.

    A workload that was never admitted has none, and in a finished one all are counted.
    """
    if is_finished(attempt):
        return False
    try:
        return (
            attempt.workload is None
            or admission_of(attempt.workload, naming.ADMISSION_CHECK).was_admitted
        )
    except Odd:
        return True
