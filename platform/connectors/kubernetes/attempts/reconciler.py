"""The reconciler of our attempts: acts on the watched state, and again until the effect is seen.

- It votes for a released attempt as soon as Kueue has reserved quota for it, as submitted.
- It deactivates an attempt that was evicted, or that others changed after its start. The attempt
  must not run a second time, nor hold Kueue's quota.
- It kills the Pods of a stopped attempt, including Pods that appear later.
- It passes a longer time limit to the Pods, including Pods that appear later.
- It passes the notice to the Pods of a notified attempt, including Pods that appear later. A
  notified manifest is deactivated instead: Kubernetes then ends its Pods with their own grace.

It also keeps our AdmissionCheck Active.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from connectors.errors import ConnectorError
from connectors.kubernetes.admission.admission_check import (
    CHECKED_EVERY_S,
    Allowed,
    CheckKeeper,
    is_inactive,
    is_marked,
    is_owned_by,
    may_vote,
    vote_body,
    was_evicted,
    workload_path,
)
from connectors.kubernetes.client.api import Conflict, KubeApi, NotFound
from connectors.kubernetes.objects.attempts import Attempt, Attempts
from connectors.kubernetes.objects.naming import (
    LIMIT,
    NOTICE,
    NOTICE_GIVEN,
    STOPPED,
    manifest_pods,
)
from connectors.kubernetes.objects.reading import is_true
from connectors.kubernetes.objects.resources import POD, was_changed
from connectors.kubernetes.options.pools import KubernetesPool

log = logging.getLogger(__name__)

Object = Mapping[str, Any]

#: Seconds after which every attempt is checked, whatever the watches report.
ALL_EVERY_S = 2.0
#: Seconds after which an action without visible effect is sent again.
AGAIN_S = 1.0
AT_ONCE = 8
#: Seconds between TERM and KILL for a Pod that is stopped by force. With 0, the Pod would be gone
#: before its processes.
KILL_GRACE_S = 1


@dataclass(frozen=True, slots=True)
class Vote:
    """Let the workload start."""

    uid: str
    workload: Object


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Never start the workload again."""

    uid: str
    workload: Object


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill this Pod."""

    uid: str
    pod: Object


@dataclass(frozen=True, slots=True)
class Notify:
    """Notify this Pod that it will be stopped."""

    uid: str
    pod: Object


@dataclass(frozen=True, slots=True)
class Extend:
    """Tell this Pod its longer time limit."""

    uid: str
    pod: Object
    limit_s: str


Duty = Vote | Deactivate | Kill | Notify | Extend


def duties(
    attempt: Attempt, *, is_allowed: bool, pools: Mapping[str, KubernetesPool]
) -> Iterator[Duty]:
    """Yield the actions that `attempt` needs now. Pure.

    `is_allowed` says that it was released lately.
    """
    uid, item, workload = attempt.uid, attempt.item, attempt.workload
    if workload is not None and not is_owned_by(workload, item):
        workload = None
    is_stopped = is_marked(item, STOPPED) or is_marked(workload, STOPPED)
    is_notified = is_marked(item, NOTICE) or is_marked(workload, NOTICE)
    # Nothing in the Pods of a manifest reads the notice. Kubernetes ends them with their signal and
    # their own grace.
    is_manifest = manifest_pods(item) is not None
    if workload is not None and not is_true(workload, "Finished"):
        if is_allowed and not is_stopped and may_vote(item, workload, pools):
            yield Vote(uid, workload)
        elif not is_inactive(workload) and (
            is_stopped
            or was_evicted(workload)
            or _is_restarted(item, workload)
            or (is_notified and is_manifest)
        ):
            yield Deactivate(uid, workload)
    limit_s = mark_of(workload, LIMIT) or mark_of(item, LIMIT)
    for pod in attempt.pods:
        if not is_over(pod):
            if limit_s and not is_stopped and mark_of(pod, LIMIT) != limit_s:
                yield Extend(uid, pod, limit_s)
            if is_stopped and not _is_being_killed(pod):
                yield Kill(uid, pod)
            elif is_notified and not is_manifest and not is_marked(pod, NOTICE):
                yield Notify(uid, pod)


def is_over(pod: Object) -> bool:
    """Return whether no container of `pod` runs or ever will."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def stop_patch(now: datetime) -> dict[str, Any]:
    """Return the patch that marks a Workload, or an object, as stopped for good."""
    return {"metadata": {"annotations": {STOPPED: f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}}}


def notice_patch() -> dict[str, Any]:
    """Return the patch that notifies a Pod, or all Pods of a Workload, of a coming stop."""
    return {"metadata": {"annotations": {NOTICE: NOTICE_GIVEN}}}


def limit_patch(limit_s: str) -> dict[str, Any]:
    """Return the patch that tells a Pod, or all Pods of a Workload, a longer time limit."""
    return {"metadata": {"annotations": {LIMIT: limit_s}}}


def mark_of(item: Object | None, mark: str) -> str:
    """Return an annotation of `item`; "" where it has none."""
    found = ((item or {}).get("metadata") or {}).get("annotations") or {}
    return str(found.get(mark, ""))


def pod_path(pod: Object) -> str:
    """Return the path of `pod`."""
    return POD.path(pod["metadata"]["namespace"], pod["metadata"]["name"])


def _is_restarted(item: Object, workload: Object) -> bool:
    """Return whether Kueue made a new Workload for an object that started under another one."""
    return was_changed(item) and not is_true(workload, "Admitted") and _is_suspended(item)


def _is_suspended(item: Object) -> bool:
    return (item.get("spec") or {}).get("suspend") is True


def _is_being_killed(pod: Object) -> bool:
    metadata = pod["metadata"]
    return (
        metadata.get("deletionTimestamp") is not None
        and metadata.get("deletionGracePeriodSeconds", 0) <= KILL_GRACE_S
    )


class Tender:
    """The thread of the reconciler, and the threads that send its actions."""

    def __init__(
        self,
        api: KubeApi,
        attempts: Attempts,
        allowed: Allowed,
        pools: Mapping[str, KubernetesPool],
        *,
        took: Callable[[Any], None],
        keeps_check: bool = True,
    ) -> None:
        self._api = api
        self._attempts = attempts
        self._allowed = allowed
        self._pools = pools
        self._took = took
        self._keeper = CheckKeeper(api) if keeps_check else None
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tend")
        self._lock = threading.Lock()
        self._sent_s: dict[tuple[type, str], float] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if it has not begun."""
        with self._lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, daemon=True, name="tend")
                self._thread.start()

    def stop(self) -> None:
        """End it. Returns at once."""
        self._stopping.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        all_at_s = check_at_s = -float("inf")
        while not self._stopping.is_set():
            touched = self._attempts.touched(AGAIN_S / 2)
            now_s = time.monotonic()
            try:
                if now_s - all_at_s >= ALL_EVERY_S:
                    all_at_s = now_s
                    touched = frozenset(self._attempts.uids())
                    self._forget_sent(now_s)
                if self._keeper is not None and now_s - check_at_s >= CHECKED_EVERY_S:
                    check_at_s = now_s
                    self._pool.submit(self._keep)
                for uid in touched:
                    self._see_to(uid)
            except RuntimeError:
                # The sender threads were told to stop.
                return
            except Exception:
                # One invalid object must not stop the reconciliation of all others.
                log.exception("what is to be done on the cluster could not be found out")

    def _see_to(self, uid: str) -> None:
        attempt = self._attempts.of_uid(uid)
        if attempt is None:
            return
        is_allowed = self._allowed.has(uid)
        for duty in duties(attempt, is_allowed=is_allowed, pools=self._pools):
            self._send(duty)

    def _send(self, duty: Duty) -> None:
        thing = duty.workload if isinstance(duty, Vote | Deactivate) else duty.pod
        what = (type(duty), str(thing["metadata"]["uid"]))
        now_s = time.monotonic()
        with self._lock:
            if now_s - self._sent_s.get(what, -float("inf")) < AGAIN_S:
                return
            self._sent_s[what] = now_s
        self._pool.submit(self._carry_out, duty, what)

    def _carry_out(self, duty: Duty, what: tuple[type, str]) -> None:
        try:
            self._do(duty)
            if isinstance(duty, Vote):
                self._allowed.succeeded(duty.uid)
        except Conflict:
            # The object has changed: its new state decides, as soon as the watch has reported it.
            with self._lock:
                self._sent_s.pop(what, None)
            if self._has_changed(duty):
                self._attempts.touch(duty.uid)
        except NotFound:
            return
        except ConnectorError as error:
            log.warning("%s for %s: %s", type(duty).__name__, duty.uid, error)
            if isinstance(duty, Vote):
                self._allowed.failed(duty.uid, str(error))
        except Exception:
            log.exception("%s for %s stumbled", type(duty).__name__, duty.uid)

    def _has_changed(self, duty: Duty) -> bool:
        """Return whether the watch has reported a newer state than the action was based on."""
        attempt = self._attempts.of_uid(duty.uid)
        known = None if attempt is None else attempt.workload
        return (
            known is not None
            and isinstance(duty, Vote | Deactivate)
            and known["metadata"]["resourceVersion"] != duty.workload["metadata"]["resourceVersion"]
        )

    def _do(self, duty: Duty) -> None:
        now = datetime.now(UTC)
        if isinstance(duty, Vote):
            # Checked again: the attempt may have been stopped since the action was queued.
            if self._allowed.has(duty.uid):
                path, body = workload_path(duty.workload), vote_body(duty.workload, now)
                self._took(self._api.apply(path, body, force=True, subresource="status"))
        elif isinstance(duty, Deactivate):
            path = workload_path(duty.workload)
            self._took(self._api.merge_patch(path, {"spec": {"active": False}}))
        elif isinstance(duty, Kill):
            uid = duty.pod["metadata"]["uid"]
            self._api.delete(pod_path(duty.pod), uid=uid, grace_s=KILL_GRACE_S)
        elif isinstance(duty, Extend):
            self._took(self._api.merge_patch(pod_path(duty.pod), limit_patch(duty.limit_s)))
        else:
            self._took(self._api.merge_patch(pod_path(duty.pod), notice_patch()))

    def _keep(self) -> None:
        assert self._keeper is not None
        try:
            self._keeper.keep()
        except ConnectorError as error:
            log.warning("the admission check is not looked after: %s", error)
        except Exception:
            log.exception("the admission check could not be looked after")

    def _forget_sent(self, now_s: float) -> None:
        with self._lock:
            self._sent_s = {
                what: sent_s for what, sent_s in self._sent_s.items() if now_s - sent_s < AGAIN_S
            }
