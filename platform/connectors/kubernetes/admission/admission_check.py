"""Our vote in Kueue: an AdmissionCheck on every queue, and a vote for each workload of ours.

Kueue starts nothing in such a queue before we vote Ready for it; a workload without a vote waits.
While the portal is away, workloads wait, each with its reservation of Kueue's quota. Nothing
starts, and running workloads go on. When it is back, it votes for every released workload. The
check stays Active until somebody changes it, and its message has the time of our last vote.

We vote only for a released attempt of which nothing has ever run. Its object is the recorded one
and still as created. Its Workload was never evicted and asks for what was submitted. A vote names
the version of the Workload that we checked. If the object changes its request, Kueue makes a new
Workload without a vote.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from connectors.errors import ClusterUnavailable
from connectors.kubernetes.client.api import KubeApi, NotFound
from connectors.kubernetes.manifests.asking import asks_as_submitted
from connectors.kubernetes.objects.naming import ADMISSION_CHECK, CONTROLLER, STOPPED
from connectors.kubernetes.objects.reading import Object, conditions, is_true
from connectors.kubernetes.objects.resources import resource_of, was_changed
from connectors.kubernetes.options.pools import KubernetesPool

KUEUE_VERSION = "kueue.x-k8s.io/v1beta2"
WORKLOADS = f"/apis/{KUEUE_VERSION}/workloads"
CHECK_PATH = f"/apis/{KUEUE_VERSION}/admissionchecks/{ADMISSION_CHECK}"
CHECKED_EVERY_S = 5.0
#: Seconds after which the check's message is updated with our last time of voting.
REPORTED_EVERY_S = 30.0
#: Seconds for which a release counts. The release is repeated after every listing.
ALLOWED_S = 60.0
ALLOWED_MAX = 100_000


class Allowed:
    """The objects (by uid) that may get a vote, each for a while; for several threads at once."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._monotonic_s = monotonic_s
        self._until_s: dict[str, float] = {}
        self._failures: dict[str, str] = {}

    def allow(self, uid: str) -> None:
        """Allow votes for a released object.

        Raises ClusterUnavailable to report that the last vote for it failed. The vote is repeated
        anyway.
        """
        with self._lock:
            now_s = self._monotonic_s()
            if len(self._until_s) >= ALLOWED_MAX:
                self._until_s = {one: s for one, s in self._until_s.items() if s > now_s}
            if uid in self._until_s or len(self._until_s) < ALLOWED_MAX:
                self._until_s[uid] = now_s + ALLOWED_S
            failure = self._failures.pop(uid, None)
        if failure is not None:
            raise ClusterUnavailable(failure)

    def forbid(self, uid: str) -> None:
        """Stop votes for a stopped object."""
        with self._lock:
            self._until_s.pop(uid, None)
            self._failures.pop(uid, None)

    def has(self, uid: str) -> bool:
        """Return whether it may get a vote now."""
        with self._lock:
            return self._until_s.get(uid, 0) > self._monotonic_s()

    def failed(self, uid: str, failure: str) -> None:
        """Note that a vote for it failed."""
        with self._lock:
            if uid in self._until_s:
                self._failures[uid] = failure

    def succeeded(self, uid: str) -> None:
        """Note that a vote for it succeeded, which clears an earlier failure."""
        with self._lock:
            self._failures.pop(uid, None)

    def uids(self) -> frozenset[str]:
        """Return every uid that may get a vote now."""
        with self._lock:
            now_s = self._monotonic_s()
            return frozenset(uid for uid, until_s in self._until_s.items() if until_s > now_s)


class CheckKeeper:
    """Keeps our AdmissionCheck in place and Active."""

    def __init__(self, api: KubeApi, now: Callable[[], datetime] = lambda: datetime.now(UTC)):
        self._api = api
        self._now = now
        self._since: str | None = None

    def keep(self) -> bool:
        """Check it and repair it. Return True when anything was written. Raises ConnectorError."""
        try:
            check = self._api.get(CHECK_PATH)
        except NotFound:
            check = None
        if check is None or (check.get("spec") or {}).get("controllerName") != CONTROLLER:
            check = self._api.apply(CHECK_PATH, check_body(), force=True)
        active = conditions(check).get("Active")
        now = self._now()
        if active is not None and active.get("status") == "True":
            self._since = str(active.get("lastTransitionTime"))
            reported_at = last_voted_at(str(active.get("message", "")))
            if (
                reported_at is not None
                and 0 <= (now - reported_at).total_seconds() < REPORTED_EVERY_S
            ):
                return False
        else:
            self._since = rfc3339(now)
        self._api.apply(
            CHECK_PATH, active_body(now, since=self._since), force=True, subresource="status"
        )
        return True


def check_body() -> dict[str, Any]:
    """Return the intended AdmissionCheck."""
    return {
        "apiVersion": KUEUE_VERSION,
        "kind": "AdmissionCheck",
        "metadata": {"name": ADMISSION_CHECK},
        "spec": {"controllerName": CONTROLLER},
    }


_LAST = "Tidegate decides what starts here; it was last there at "


def active_body(now: datetime, *, since: str) -> dict[str, Any]:
    """Return the status of an Active check. `since` is when it became Active."""
    condition = {
        "type": "Active",
        "status": "True",
        "reason": "Voting",
        "message": f"{_LAST}{rfc3339(now)}. While it is away, what waits goes on waiting.",
        "lastTransitionTime": since,
    }
    return {
        "apiVersion": KUEUE_VERSION,
        "kind": "AdmissionCheck",
        "metadata": {"name": ADMISSION_CHECK},
        "status": {"conditions": [condition]},
    }


def last_voted_at(message: str) -> datetime | None:
    """Return our last time of voting from the `message` of our check; None without one."""
    if not message.startswith(_LAST):
        return None
    try:
        return datetime.fromisoformat(message[len(_LAST) :].split(". ", 1)[0])
    except ValueError:
        return None


def vote_body(workload: Object, now: datetime) -> dict[str, Any]:
    """Return the vote that lets `workload` start."""
    metadata = workload["metadata"]
    vote = {
        "name": ADMISSION_CHECK,
        "state": "Ready",
        "message": "granted",
        "lastTransitionTime": rfc3339(now),
    }
    return {
        "apiVersion": KUEUE_VERSION,
        "kind": "Workload",
        # With the version, an object that has changed since the check is left alone (Conflict).
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "status": {"admissionChecks": [vote]},
    }


def may_vote(item: Object, workload: Object, pools: Mapping[str, KubernetesPool]) -> bool:
    """Return whether `workload` of the released object `item` waits for our vote."""
    return (
        is_untouched(item)
        and is_owned_by(workload, item)
        and not workload["metadata"].get("deletionTimestamp")
        and not is_marked(workload, STOPPED)
        and not is_inactive(workload)
        and is_true(workload, "QuotaReserved")
        and not is_true(workload, "Finished")
        and not was_evicted(workload)
        and vote_of(workload) == "Pending"
        and asks_as_submitted(item, workload, pools)
    )


def is_untouched(item: Object) -> bool:
    """Return whether nothing of the object has run: it is as we created it, and suspended.

    Kueue starts an object by changing its spec, which then has no longer the first generation.
    """
    metadata = item["metadata"]
    resource = resource_of(item)
    return (
        not metadata.get("deletionTimestamp")
        and not is_marked(item, STOPPED)
        and resource.is_suspended(item)
        and not was_changed(item)
    )


def was_evicted(workload: Object) -> bool:
    """Return whether Kueue has evicted `workload`, now or before."""
    stats = (workload.get("status") or {}).get("schedulingStats") or {}
    return is_true(workload, "Evicted") or any(
        one.get("count", 0) > 0 for one in stats.get("evictions") or ()
    )


def vote_of(workload: Object) -> str | None:
    """Return the state of our check on `workload`; None where its queue lacks our check."""
    for check in (workload.get("status") or {}).get("admissionChecks") or ():
        if check.get("name") == ADMISSION_CHECK:
            return str(check.get("state"))
    return None


def is_owned_by(workload: Object, item: Object) -> bool:
    """Return whether `workload` belongs to the object `item` itself, not to a namesake."""
    owners = workload["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == item["metadata"]["uid"] for owner in owners)


def is_inactive(workload: Object) -> bool:
    """Return whether `workload` is deactivated in Kueue."""
    return (workload.get("spec") or {}).get("active") is False


def is_marked(item: Object | None, annotation: str) -> bool:
    """Return whether `item` exists and has the annotation."""
    return item is not None and annotation in (item["metadata"].get("annotations") or {})


def workload_path(workload: Object) -> str:
    """Return the path of `workload`."""
    metadata = workload["metadata"]
    return f"/apis/{KUEUE_VERSION}/namespaces/{metadata['namespace']}/workloads/{metadata['name']}"


def rfc3339(moment: datetime) -> str:
    """Return `moment` in the format of Kubernetes."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
