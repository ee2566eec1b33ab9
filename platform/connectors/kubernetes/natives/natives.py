"""Native workloads in Kueue: found by uid, started, stopped and ended.

`start` opens the gate (`gating`) and activates a Workload that an earlier `stop` left inactive. It
votes for the Workload once Kueue has reserved its quota. All of this happens only while the
Workload asks for the granted size, and the vote names the version that was checked. If the object
changes its request, Kueue makes a new Workload without a vote.

`start` does as many of these steps as are possible now. It is repeated while the workload is listed
as held, so that nothing needs to be remembered here. After a run, the Workload is left inactive. If
Kueue would start it again, it waits for the next `start`. If Kueue itself ended the run, the old
vote does not start it again.

An object that was ended for good here has the annotation `naming.STOPPED`. Its owner can still look
at it, and removes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from connectors.errors import AccountUndecided, ClusterUnavailable, NativeRefused
from connectors.kubernetes.admission.admission_check import (
    KUEUE_VERSION,
    WORKLOADS,
    is_inactive,
    is_marked,
    rfc3339,
    vote_body,
    vote_of,
    workload_path,
)
from connectors.kubernetes.admission.gating import GATE, OUR_GATE
from connectors.kubernetes.attempts.reconciler import (
    KILL_GRACE_S,
    is_over,
    pod_path,
    stop_patch,
)
from connectors.kubernetes.client.api import Conflict, Forbidden, KubeApi, KubeRefused, NotFound
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.manifests.asking import asked_by_native
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.objects.naming import PATH, STOPPED, is_team_namespace, team_namespace
from connectors.kubernetes.objects.reading import Odd, conditions, is_true
from connectors.kubernetes.objects.resources import resource_of
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.kubernetes.workloads.runs import pods_below
from connectors.natives import NativeRef, NativeSize, size_of
from connectors.protocol import ClusterConnector, NativeWorkload

Object = Mapping[str, Any]

#: Condition of a Workload: whether Tidegate has granted its GPUs, and why not yet.
GRANTED = "tidegate.io/Granted"
#: Its field manager, so that a vote does not remove it.
EXPLAINER = "tidegate-explain"
JOB_UID = "kueue.x-k8s.io/job-uid"
#: Seconds for which `start` waits for Kueue to reserve quota for a workload that it has just
#: released. Otherwise the next `start` finds it reserved.
RESERVED_WITHIN_S = 1.0
_PAUSE_S = 0.1
_SENTENCE_MAX = 2_000


def control_natives(connector: ClusterConnector) -> KubernetesNatives:
    """Return the native control of the Kubernetes cluster of `connector`."""
    assert isinstance(connector, KubernetesConnector)
    return KubernetesNatives(
        connector.api,
        connector.known_state,
        connector.options.pools,
        has_kueue=connector.options.has_kueue,
        took=connector.took,
    )


@dataclass(frozen=True, slots=True)
class _Native:
    """An object and its Workload, if it has one yet.

    `item` is None where Kueue's Workload represents the object.
    """

    item: Object | None
    workload: Object | None

    @property
    def is_finished(self) -> bool:
        """Return whether it has ended, according to Kueue."""
        return self.workload is not None and is_true(self.workload, "Finished")

    @property
    def is_over(self) -> bool:
        """Return whether it has ended, or was ended for good."""
        return self.is_finished or any(
            is_marked(one, STOPPED) for one in (self.item, self.workload)
        )


class KubernetesNatives:
    """Implements `connectors.natives.NativeControl` and `NativeStarter`; safe for several threads.

    `state` returns the known state of the cluster. `pools` are the cluster's pools. `took` gets the
    objects that the server returns.
    """

    def __init__(
        self,
        api: KubeApi,
        state: Callable[[], KubeState],
        pools: Mapping[str, KubernetesPool],
        *,
        has_kueue: bool = True,
        took: Callable[[dict[str, Any]], None] = lambda found: None,
    ) -> None:
        self._api = api
        self._state = state
        self._pools = pools
        self._has_kueue = has_kueue
        self._took = took

    @property
    def tool(self) -> str:
        """See the protocol."""
        return "kubectl"

    @property
    def starter(self) -> KubernetesNatives | None:
        """See the protocol. With Kueue, natives wait for us."""
        return self if self._has_kueue else None

    def team_of(self, account: str) -> str | None:
        """See the protocol. The account is a namespace, which contains the path of its team."""
        if not is_team_namespace(account):
            return None
        try:
            found = self._api.get(f"/api/v1/namespaces/{account}")
        except NotFound:
            return None
        except KubeRefused as error:
            raise ClusterUnavailable(f"the cluster does not let us: {error}") from error
        path = (found["metadata"].get("annotations") or {}).get(PATH)
        # The name is derived from the path, so that nobody can claim another team's path.
        return path if isinstance(path, str) and team_namespace(path) == account else None

    def start(self, ref: NativeRef, granted: NativeSize | None) -> None:
        """See the protocol."""
        native = self._find(ref)
        if native is None or native.is_over:
            return
        workload = native.workload
        if workload is None or not self._asks_for(workload, granted):
            # The next listing shows what it asks for.
            return
        is_waited_for = False
        if native.item is not None and _is_gated(native.item):
            is_waited_for = True
            path = resource_of(native.item).path(*_place(native.item))
            others = _gates(native.item) - {OUR_GATE}
            gates = ",".join(sorted(others)) if others else None
            self._change(lambda: self._patch(path, {GATE: gates}))
        if (workload.get("spec") or {}).get("active") is False:
            is_waited_for = True
            path = workload_path(workload)
            # With the version, a stop in between is preserved.
            patch = {
                "metadata": {"resourceVersion": workload["metadata"]["resourceVersion"]},
                "spec": {"active": True},
            }
            self._change(lambda: self._api.merge_patch(path, patch))
        # Wait only after a change: a repeated call should not delay other workloads.
        self._vote(ref, workload, granted, within_s=RESERVED_WITHIN_S if is_waited_for else 0)

    def stop(self, ref: NativeRef) -> None:
        """See the protocol. Pods that are ending get at most one more second."""
        native = self._find(ref)
        if native is not None:
            if native.workload is not None:
                self._deactivate(native.workload)
            self._kill(ref, native)

    def cancel(self, ref: NativeRef) -> None:
        """See the protocol."""
        native = self._find(ref)
        if native is None:
            return
        if native.is_finished:
            self._kill(ref, native)
            return
        mark = stop_patch(datetime.now(UTC))
        if native.item is not None and not is_marked(native.item, STOPPED):
            path = resource_of(native.item).path(*_place(native.item))
            self._change(lambda: self._api.merge_patch(path, mark))
        workload = native.workload
        if workload is not None and not (is_marked(workload, STOPPED) and is_inactive(workload)):
            path = workload_path(workload)
            self._change(lambda: self._api.merge_patch(path, {**mark, "spec": {"active": False}}))
            self._report(workload, "False", "Cancelled", "It was cancelled in Tidegate.")
        self._kill(ref, native)

    def notify(self, ref: NativeRef) -> None:
        """See the protocol. Its Pods get TERM, and the grace that they were created with.

        No other signal reaches a program that does not know us. So this ends the run, and `stop`
        only shortens the rest of the grace.
        """
        native = self._find(ref)
        if native is not None and native.workload is not None:
            self._deactivate(native.workload)

    def find_ended(self, ref: NativeRef) -> NativeWorkload | None:
        """See the protocol. Returns None once it is certainly gone: there is no accounting."""
        if self._find(ref) is not None:
            raise AccountUndecided(f"{ref.native_id} is still there")
        labels = f"{JOB_UID}={ref.native_id}"
        try:
            listed = self._api.list(WORKLOADS, labels=labels).items
        except KubeRefused as error:
            raise ClusterUnavailable(f"the cluster does not let us: {error}") from error
        if any(not one["metadata"].get("deletionTimestamp") for one in listed):
            raise AccountUndecided(f"{ref.native_id} is still there")
        return None

    def explain(self, ref: NativeRef, code: str, sentence: str) -> None:
        """See the protocol. Writes condition `GRANTED` in the status of its Workload."""
        native = self._find(ref)
        if native is not None and native.workload is not None and not native.is_over:
            reason = "".join(word.capitalize() for word in code.split("_"))
            self._report(native.workload, "False", reason, sentence)

    def _asks_for(self, workload: Object, granted: NativeSize | None) -> bool:
        """Return whether `workload` asks for exactly what was `granted`."""
        try:
            asked = asked_by_native(workload, self._pools)
        except Odd:
            return False
        sizes = [size for pool, ranks in asked.items() if (size := size_of(pool, ranks))]
        return sizes == ([] if granted is None else [granted])

    def _vote(
        self, ref: NativeRef, workload: Object, granted: NativeSize | None, *, within_s: float
    ) -> None:
        """Vote once Kueue has reserved quota for the granted size, within `within_s` seconds."""
        ends_s = time.monotonic() + within_s
        while True:
            native = self._find(ref)
            workload = workload if native is None or native.workload is None else native.workload
            if is_true(workload, "Admitted") and not is_inactive(workload):
                return
            if is_true(workload, "QuotaReserved") and vote_of(workload) == "Pending":
                break
            if time.monotonic() >= ends_s:
                return
            time.sleep(_PAUSE_S)
        if not self._asks_for(workload, granted):
            return
        path, body = workload_path(workload), vote_body(workload, datetime.now(UTC))
        self._change(lambda: self._api.apply(path, body, force=True, subresource="status"))
        known = conditions(workload).get(GRANTED)
        if known is not None and known.get("status") != "True":
            self._report(workload, "True", "Granted", "Tidegate has granted its GPUs.")

    def _report(self, workload: Object, status: str, reason: str, sentence: str) -> None:
        message = sentence[:_SENTENCE_MAX]
        known = conditions(workload).get(GRANTED) or {}
        if (known.get("status"), known.get("message")) == (status, message):
            return
        since = known.get("lastTransitionTime") if known.get("status") == status else None
        name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
        condition = {
            "type": GRANTED,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since or rfc3339(datetime.now(UTC)),
        }
        body = {
            "apiVersion": KUEUE_VERSION,
            "kind": "Workload",
            "metadata": {"name": name, "namespace": namespace},
            "status": {"conditions": [condition]},
        }
        path = workload_path(workload)
        self._change(
            lambda: self._api.apply(path, body, force=True, subresource="status", manager=EXPLAINER)
        )

    def _deactivate(self, workload: Object) -> None:
        if not is_inactive(workload) and not is_true(workload, "Finished"):
            path = workload_path(workload)
            self._change(lambda: self._api.merge_patch(path, {"spec": {"active": False}}))

    def _kill(self, ref: NativeRef, native: _Native) -> None:
        """Kill Pods that their controller is already ending; the next call handles the rest.

        A Pod that somebody else deletes counts as failed, and a Job without retries would then
        never run again.

        A finished object never runs again, and no controller ends Pods that it left. Pods run on if
        their owner deleted the object but keeps it by a finalizer.
        """
        state = self._state()
        must_go = _is_left if native.is_finished else _ends_slowly
        if not any(must_go(pod) for pod in state.pods):
            return
        for pod in pods_below(state, ref.native_id):
            if must_go(pod):
                uid = pod["metadata"]["uid"]
                self._change(
                    partial(self._api.delete, pod_path(pod), uid=uid, grace_s=KILL_GRACE_S)
                )

    def _patch(self, path: str, annotations: Mapping[str, str | None]) -> dict[str, Any]:
        return self._api.merge_patch(path, {"metadata": {"annotations": dict(annotations)}})

    def _change(self, act: Callable[[], Any]) -> None:
        """Write a change. If the object is gone or has just changed, the next listing shows it."""
        try:
            answered = act()
        except (NotFound, Conflict):
            return
        except KubeRefused as error:
            if isinstance(error, Forbidden) and error.is_for_all:
                raise ClusterUnavailable(f"the cluster does not let us: {error}") from error
            # A policy or a webhook refuses this one object.
            raise NativeRefused(f"the cluster refuses it: {error}") from error
        if isinstance(answered, dict):
            self._took(answered)

    def _find(self, ref: NativeRef) -> _Native | None:
        state = self._state()
        uid = ref.native_id
        item = next((one for one in state.objects if one["metadata"]["uid"] == uid), None)
        workloads = [
            one
            for one in state.workloads
            if one["metadata"]["uid"] == uid
            or (
                # Anybody can name it as an owner in another namespace.
                (item is None or one["metadata"]["namespace"] == item["metadata"]["namespace"])
                and any(
                    owner.get("uid") == uid
                    for owner in one["metadata"].get("ownerReferences") or ()
                )
            )
        ]
        workload = max(workloads, key=_age_of, default=None)
        return None if item is None and workload is None else _Native(item, workload)


def _ends_slowly(pod: Object) -> bool:
    """Return whether it is being ended with more than the allowed time left."""
    grace_s = pod["metadata"].get("deletionGracePeriodSeconds")
    return grace_s is not None and grace_s > KILL_GRACE_S and not is_over(pod)


def _is_left(pod: Object) -> bool:
    """Return whether it runs on, or is being ended with more than the allowed time left."""
    return not is_over(pod) and (not pod["metadata"].get("deletionTimestamp") or _ends_slowly(pod))


def _age_of(workload: Object) -> tuple[bool, str]:
    """Return a sort key of an object's Workloads: an unfinished one counts, then the newest."""
    return not is_true(workload, "Finished"), str(workload["metadata"].get("creationTimestamp"))


def _place(item: Object) -> tuple[str, str]:
    return str(item["metadata"]["namespace"]), str(item["metadata"]["name"])


def _gates(item: Object) -> frozenset[str]:
    value = (item["metadata"].get("annotations") or {}).get(GATE, "")
    return frozenset(one.strip() for one in str(value).split(",") if one.strip())


def _is_gated(item: Object) -> bool:
    return OUR_GATE in _gates(item)
