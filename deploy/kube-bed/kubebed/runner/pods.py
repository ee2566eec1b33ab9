"""What a kubelet does with its Pods: start, tell, stop, remove.

Level-triggered: `sync` compares a Pod with its container and does the next thing, whatever came
before. A Pod with an annotation bed.tidegate.io/* is not handled here: kwok plays it.
"""

from __future__ import annotations

import calendar
import json
import logging
import os
import pwd
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubebed.api import Api, Document, Refused
from kubebed.runner import environment, statuses, volumes
from kubebed.runner.isolation import ContainerSpec, Mount
from kubebed.runner.runtime import LOG, STARTED, TERMINATION
from kubebed.runner.runtime_client import RuntimeClient, RuntimeGone, State
from kubebed.runner.work import WorkQueue
from kubebed.settings import HOST, Settings

FAKE = "bed.tidegate.io/"
#: Images from here cannot be pulled.
NO_REGISTRY = "registry.invalid/"
_STRATEGIC = "application/strategic-merge-patch+json"
_WORKERS = 8
_LOG_KEPT_S = 60
_RETRIES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_WAIT_AGAIN_S = 2.0
_MEMO_S = 2.0
_MEMO_SIZE = 512
_OVER = ("Succeeded", "Failed")
_TERMINATION_PATH = "/dev/termination-log"
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Handled:
    """A Pod and what is known of its container."""

    pod: Document
    folder: Path
    is_gone: bool = False
    address: str = ""
    container: State | None = None
    is_running_told: bool = False
    is_over_told: bool = False
    told_waiting: str = ""
    is_term_sent: bool = False
    is_kill_sent: bool = False
    kill_at: float | None = None
    cause: dict[str, str] = field(default_factory=dict)
    shown: str = ""
    failures: int = 0

    @property
    def uid(self) -> str:
        """The Pod's."""
        return str(self.pod["metadata"]["uid"])

    @property
    def is_deleted(self) -> bool:
        """Somebody wants the Pod to go."""
        return "deletionTimestamp" in self.pod["metadata"]

    @property
    def is_over(self) -> bool:
        """The Pod has its last phase, or will be seen to have it."""
        return self.is_over_told or self.pod.get("status", {}).get("phase") in _OVER


class Pods:
    """All real Pods of the bed's nodes."""

    def __init__(self, settings: Settings, api: Api) -> None:
        self._settings = settings
        self._api = api
        self._folder = settings.folder / "pods"
        self._hosts = settings.folder / "hosts"
        self._queue = WorkQueue()
        self._lock = threading.Lock()
        self._pods: dict[str, Handled] = {}
        self._by_name: dict[tuple[str, str], Handled] = {}
        self._states: dict[str, State] = {}
        self._addresses = _Addresses()
        self._runtime: RuntimeClient | None = None
        self._memo: dict[tuple[str, str, str], tuple[float, Document | None]] = {}
        for folder in (self._folder, self._hosts):
            folder.mkdir(exist_ok=True)

    # ---- What is told to this class

    def use_runtime(self, runtime: RuntimeClient) -> None:
        """A runtime answers; what it knows is all that runs."""
        states = {state["id"]: state for state in runtime.states()}
        with self._lock:
            self._runtime, self._states = runtime, states
            for handled in self._pods.values():
                handled.container = states.get(handled.uid, handled.container)
            uids = list(self._pods)
        for uid in uids:
            self._queue.add(uid)

    def runtime_gone(self) -> None:
        """The runtime has ended, and with it every container that ran."""
        with self._lock:
            self._runtime, self._states = None, {}
            for handled in self._pods.values():
                if handled.container and not handled.container["is_over"]:
                    handled.container = None
            uids = list(self._pods)
        for uid in uids:
            self._queue.add(uid)

    def ended(self, state: State) -> None:
        """A container is over."""
        with self._lock:
            self._states[state["id"]] = state
            if handled := self._pods.get(state["id"]):
                handled.container = state
        self._queue.add(state["id"])

    def seen(self, pod: Document) -> None:
        """A bound Pod, as it is now."""
        metadata = pod["metadata"]
        if any(key.startswith(FAKE) for key in metadata.get("annotations") or ()):
            return
        uid = metadata["uid"]
        with self._lock:
            handled = self._pods.get(uid)
            if handled is None:
                handled = Handled(pod, self._folder / uid)
                handled.address = self._addresses.take(pod.get("status", {}).get("podIP"))
                handled.container = self._states.get(uid)
                handled.is_running_told = pod.get("status", {}).get("phase") == "Running"
                self._pods[uid] = handled
            handled.pod = pod
            self._by_name[metadata["namespace"], metadata["name"]] = handled
        self._queue.add(uid)

    def gone(self, pod: Document) -> None:
        """The Pod is no more."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            if handled := self._pods.get(uid):
                handled.pod, handled.is_gone = pod, True
        self._queue.add(uid)

    def only(self, uids: set[str]) -> None:
        """There are these Pods and no others."""
        with self._lock:
            absent = [one for uid, one in self._pods.items() if uid not in uids]
            for handled in absent:
                handled.is_gone = True
        for handled in absent:
            self._queue.add(handled.uid)

    # ---- For the log server

    def find(self, namespace: str, name: str) -> Handled | None:
        """The Pod of that name, also for a while after it has gone; None: it is not real."""
        with self._lock:
            return self._by_name.get((namespace, name))

    def wait_grown(self, handled: Handled, size: int, within_s: float) -> bool:
        """As RuntimeClient.wait_grown; False too when there is no runtime."""
        runtime = self._runtime
        if runtime is None:
            return False
        try:
            return runtime.wait_grown(handled.uid, size, within_s)
        except RuntimeGone:
            return False

    # ---- Work

    def work(self) -> None:
        """Start the threads that do what is to be done."""
        for _ in range(_WORKERS):
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            uid = self._queue.take()
            try:
                self._sync_or_retry(uid)
            except Exception:
                log.exception("Pod %s", uid)
                self._queue.add_after(uid, _RETRIES_S[-1])
            finally:
                self._queue.done(uid)

    def _sync_or_retry(self, uid: str) -> None:
        with self._lock:
            handled = self._pods.get(uid)
        if handled is None:
            return
        try:
            self._sync(handled)
            handled.failures = 0
        except (OSError, Refused, RuntimeGone) as error:
            log.warning("Pod %s: %s", handled.pod["metadata"]["name"], error)
            pause = _RETRIES_S[min(handled.failures, len(_RETRIES_S) - 1)]
            handled.failures += 1
            self._queue.add_after(uid, pause)

    def _sync(self, handled: Handled) -> None:
        container = handled.container
        if handled.is_gone:
            self._leave(handled)
        elif handled.is_over:
            if container and not container["is_over"]:
                self._terminate(handled)
            elif handled.is_deleted:
                self._remove(handled)
        elif container is None:
            self._begin(handled)
        elif container["is_over"]:
            status = statuses.ended(handled.pod, container, handled.address, handled.cause)
            self._tell_over(handled, status)
        else:
            self._attend(handled, container)

    def _begin(self, handled: Handled) -> None:
        """There is no container."""
        now_s, pod = int(time.time()), handled.pod
        if self._runtime is None:
            raise RuntimeGone("no runtime answers")
        if (handled.folder / STARTED).exists() or handled.is_running_told:
            self._tell_over(handled, statuses.lost(pod, now_s))
        elif handled.is_deleted:
            self._tell_over(handled, statuses.never_started(pod, now_s))
        elif why := _not_supported(pod):
            self._tell_over(handled, statuses.refused(why, now_s))
        elif pod["spec"]["containers"][0]["image"].startswith(NO_REGISTRY):
            reason = "ImagePullBackOff" if handled.told_waiting else "ErrImagePull"
            self._tell_waiting(handled, reason, "no such registry: registry.invalid")
        else:
            self._start(handled)

    def _start(self, handled: Handled) -> None:
        try:
            spec = self._spec(handled)
        except volumes.CannotMount as error:
            self._tell_waiting(handled, "ContainerCreating", f"MountVolume.SetUp failed: {error}")
            return
        except environment.CannotConfigure as error:
            self._tell_waiting(handled, "CreateContainerConfigError", str(error))
            return
        if self._runtime is None:
            raise RuntimeGone("no runtime answers")
        state = self._runtime.start(handled.uid, spec, handled.folder)
        with self._lock:
            # The end may have been told already.
            handled.container = self._states.setdefault(handled.uid, state)
        self._sync(handled)

    def _attend(self, handled: Handled, container: State) -> None:
        """The container runs."""
        if not handled.is_running_told:
            status = statuses.running(handled.pod, container, handled.address)
            if not self._write(handled, status):
                return
            handled.is_running_told = True
        self._show_changes(handled)
        left_s = _seconds_left(handled.pod, container)
        if left_s is not None and left_s <= 0:
            handled.cause = {
                "reason": "DeadlineExceeded",
                "message": "Pod was active on the node longer than the specified deadline",
            }
        elif left_s is not None:
            self._queue.add_after(handled.uid, left_s)
        if handled.is_deleted or handled.cause:
            self._terminate(handled)

    def _terminate(self, handled: Handled) -> None:
        """SIGTERM, and SIGKILL when the grace is over; a shorter grace counts from now."""
        if self._runtime is None:
            return
        now, grace_s = time.monotonic(), _grace_s(handled)
        if handled.kill_at is None or handled.kill_at > now + grace_s:
            handled.kill_at = now + grace_s
        if not handled.is_term_sent:
            self._runtime.signal(handled.uid, signal.SIGTERM)
            handled.is_term_sent = True
        if now < handled.kill_at:
            self._queue.add_after(handled.uid, handled.kill_at - now)
        elif not handled.is_kill_sent:
            self._runtime.signal(handled.uid, signal.SIGKILL)
            handled.is_kill_sent = True

    def _leave(self, handled: Handled) -> None:
        """The Pod is no more: end what is left of it, then forget it."""
        container = handled.container
        if container and not container["is_over"]:
            self._terminate(handled)
            return
        if self._runtime is not None and container:
            self._runtime.forget(handled.uid)
        with self._lock:
            self._pods.pop(handled.uid, None)
            self._states.pop(handled.uid, None)
            self._addresses.give_back(handled.address)
        self._drop_hosts(handled)
        # Whoever reads the log is to have time for its end.
        timer = threading.Timer(_LOG_KEPT_S, self._clean_up, (handled,))
        timer.daemon = True
        timer.start()

    def _clean_up(self, handled: Handled) -> None:
        metadata = handled.pod["metadata"]
        with self._lock:
            if self._by_name.get((metadata["namespace"], metadata["name"])) is handled:
                del self._by_name[metadata["namespace"], metadata["name"]]
        shutil.rmtree(handled.folder, ignore_errors=True)

    # ---- What is told to the API server

    def _tell_over(self, handled: Handled, status: Document) -> None:
        if self._write(handled, status):
            handled.is_over_told = True
            if handled.is_deleted:
                self._remove(handled)

    def _tell_waiting(self, handled: Handled, reason: str, message: str) -> None:
        if handled.told_waiting != reason:
            status = statuses.waiting(handled.pod, reason, message, int(time.time()))
            if not self._write(handled, status):
                return
            handled.told_waiting = reason
        self._queue.add_after(handled.uid, _WAIT_AGAIN_S)

    def _write(self, handled: Handled, status: Document) -> bool:
        """Write the Pod's status; False when it is no more."""
        body = {"metadata": {"uid": handled.uid}, "status": status}
        try:
            self._api.call("PATCH", f"{_path(handled.pod)}/status", body, _STRATEGIC)
        except Refused as error:
            if error.code not in (404, 409):
                raise
            return False
        return True

    def _remove(self, handled: Handled) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": handled.uid}}
        try:
            self._api.call("DELETE", _path(handled.pod), body)
        except Refused as error:
            if error.code not in (404, 409):
                raise

    # ---- The container's description

    def _spec(self, handled: Handled) -> ContainerSpec:
        pod = handled.pod
        pod["status"] = pod.get("status", {}) | {"podIP": handled.address, "hostIP": HOST}
        container = pod["spec"]["containers"][0]
        rights = (pod["spec"].get("securityContext") or {}) | (
            container.get("securityContext") or {}
        )
        user_id = int(rights.get("runAsUser", 0))
        host_name = (pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]
        base = {
            "PATH": environment.PATH,
            "HOSTNAME": host_name,
            "HOME": _home(user_id),
            "KUBERNETES_SERVICE_HOST": HOST,
            "KUBERNETES_SERVICE_PORT": str(self._settings.port("apiserver")),
        }
        values = environment.environment(pod, container, base, self._texts(pod))
        command = environment.command(container, values)
        if not command:
            raise environment.CannotConfigure("the bed has no images: name a command")
        groups = [int(one) for one in rights.get("supplementalGroups") or ()]
        if "fsGroup" in rights:
            groups.append(int(rights["fsGroup"]))
        return ContainerSpec(
            command=command,
            environment=values,
            working_directory=container.get("workingDir") or "/",
            host_name=host_name,
            mounts=self._mounts(handled, container, host_name),
            root_folder=str(_made(handled.folder / "root")),
            user_id=user_id,
            group_id=int(rights.get("runAsGroup", 0)),
            groups=groups,
            has_new_privileges=bool(rights.get("allowPrivilegeEscalation", True)),
        )

    def _mounts(self, handled: Handled, container: Document, host_name: str) -> list[Mount]:
        by_name = {one["name"]: one for one in handled.pod["spec"].get("volumes") or ()}
        for name, volume in by_name.items():
            folder = handled.folder / "volumes" / name
            volumes.make(volume, handled.pod, folder, self._sources(handled.pod))
        handled.shown = _shown(handled.pod)
        mounts = []
        for wanted in container.get("volumeMounts") or ():
            volume = by_name[wanted["name"]]
            source = handled.folder / "volumes" / wanted["name"] / wanted.get("subPath", "")
            if not source.exists():
                source.mkdir(parents=True)
            is_read_only = bool(wanted.get("readOnly")) or volumes.is_read_only(volume)
            mounts.append(Mount(str(source), wanted["mountPath"], is_read_only))
        termination = _made(handled.folder) / TERMINATION
        termination.touch()
        termination.chmod(0o666)
        place = container.get("terminationMessagePath") or _TERMINATION_PATH
        mounts.append(Mount(str(termination), place, False))
        hosts = self._add_to_hosts(handled, host_name)
        mounts.append(Mount(str(hosts), "/etc/hosts", False))
        return mounts

    def _show_changes(self, handled: Handled) -> None:
        """Labels and annotations of a running Pod reach its volumes at once."""
        if handled.shown == _shown(handled.pod):
            return
        for volume in handled.pod["spec"].get("volumes") or ():
            if volumes.follows_pod(volume):
                folder = handled.folder / "volumes" / volume["name"]
                volumes.make(volume, handled.pod, folder, self._sources(handled.pod))
        handled.shown = _shown(handled.pod)

    def _add_to_hosts(self, handled: Handled, host_name: str) -> Path:
        """The container's /etc/hosts: Pods of one subdomain share it, so that all find all."""
        path = self._hosts_of(handled.pod)
        namespace, subdomain = (
            handled.pod["metadata"]["namespace"],
            handled.pod["spec"].get("subdomain"),
        )
        names = [host_name]
        if subdomain:
            local = f"{host_name}.{subdomain}"
            full = f"{local}.{namespace}.svc"
            names = [f"{full}.cluster.local", full, f"{local}.{namespace}", local, host_name]
        with self._lock:
            if not path.exists():
                path.write_text("127.0.0.1\tlocalhost\n::1\tlocalhost\n")
                path.chmod(0o644)
            with path.open("a") as file:
                file.write(f"{handled.address}\t{' '.join(names)}\n")
        return path

    def _hosts_of(self, pod: Document) -> Path:
        group = pod["spec"].get("subdomain")
        if not group:
            return self._hosts / str(pod["metadata"]["uid"])
        return self._hosts / f"{pod['metadata']['namespace']}.{group}"

    def _drop_hosts(self, handled: Handled) -> None:
        path = self._hosts_of(handled.pod)
        with self._lock:
            if not any(self._hosts_of(one.pod) == path for one in self._pods.values()):
                path.unlink(missing_ok=True)

    def _sources(self, pod: Document) -> volumes.Sources:
        namespace = pod["metadata"]["namespace"]

        def token(audience: str, seconds: int) -> str:
            account = pod["spec"].get("serviceAccountName", "default")
            wanted: Document = {"expirationSeconds": max(600, seconds)}
            if audience:
                wanted["audiences"] = [audience]
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
            return str(self._api.call("POST", path, {"spec": wanted})["status"]["token"])

        return volumes.Sources(lambda kind, name: self._fetch(namespace, kind, name), token)

    def _texts(self, pod: Document) -> Callable[[str, str], Mapping[str, str] | None]:
        namespace = pod["metadata"]["namespace"]

        def fetch(kind: str, name: str) -> Mapping[str, str] | None:
            found = self._fetch(namespace, kind, name)
            if found is None:
                return None
            content = volumes.object_content(kind, found)
            return {key: data.decode(errors="replace") for key, data in content.items()}

        return fetch

    def _fetch(self, namespace: str, kind: str, name: str) -> Document | None:
        """A ConfigMap or Secret; remembered for a moment, for the ranks of a gang."""
        key = (namespace, kind, name)
        if (known := self._memo.get(key)) and known[0] > time.monotonic():
            return known[1]
        try:
            found = self._api.call("GET", f"/api/v1/namespaces/{namespace}/{kind}/{name}")
        except Refused as error:
            if error.code != 404:
                raise
            return None
        if len(self._memo) >= _MEMO_SIZE:
            self._memo.clear()
        self._memo[key] = (time.monotonic() + _MEMO_S, found)
        return found


class _Addresses:
    """Loopback addresses, one for each Pod: 127.64.0.1 and so on."""

    def __init__(self) -> None:
        self._last = 0
        self._taken: set[str] = set()

    def take(self, wanted: str | None) -> str:
        """The wanted one, or one that nobody has."""
        address = wanted or self._next()
        self._taken.add(address)
        return address

    def give_back(self, address: str) -> None:
        """Nobody has it any more."""
        self._taken.discard(address)

    def _next(self) -> str:
        while True:
            self._last = self._last % 0x3FFFFE + 1
            high, low = divmod(self._last, 256)
            address = f"127.{64 + (high >> 8)}.{high & 255}.{low}"
            if address not in self._taken:
                return address


def _not_supported(pod: Document) -> str:
    """Why the bed cannot run this Pod as a kubelet would; nothing if it can."""
    spec = pod["spec"]
    if len(spec["containers"]) != 1 or spec.get("initContainers"):
        return (
            "the bed runs Pods with one container; annotate it bed.tidegate.io/* to have it faked"
        )
    if spec.get("restartPolicy") == "Always":
        return "the bed restarts no containers; annotate it bed.tidegate.io/* to have it faked"
    for volume in spec.get("volumes") or ():
        if not volumes.is_supported(volume):
            return f"the bed has no volume of the kind of {volume['name']}"
    return ""


def _grace_s(handled: Handled) -> int:
    metadata, spec = handled.pod["metadata"], handled.pod["spec"]
    grace_s = metadata.get("deletionGracePeriodSeconds")
    if grace_s is None:
        grace_s = spec.get("terminationGracePeriodSeconds", 30)
    return max(1, int(grace_s))  # a kubelet never gives less


def _seconds_left(pod: Document, container: State) -> float | None:
    limit_s = pod["spec"].get("activeDeadlineSeconds")
    if limit_s is None:
        return None
    started = pod.get("status", {}).get("startTime")
    started_s = (
        calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ"))
        if started
        else int(container["started_s"])
    )
    return started_s + int(limit_s) - time.time()


def _path(pod: Document) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _shown(pod: Document) -> str:
    metadata = pod["metadata"]
    return json.dumps([metadata.get("labels"), metadata.get("annotations")], sort_keys=True)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _home(user_id: int) -> str:
    try:
        home = pwd.getpwuid(user_id).pw_dir
    except KeyError:
        return "/"
    return home if os.path.isdir(home) else "/"


def log_file(handled: Handled) -> Path:
    """Where the container's log is."""
    return handled.folder / LOG
