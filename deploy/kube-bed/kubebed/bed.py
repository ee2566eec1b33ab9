"""The bed as a whole: start, stop, and what `bed.json` says of it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kubebed import objects, processes
from kubebed.api import Api
from kubebed.building import build, is_complete
from kubebed.configuration import PORTAL_ACCOUNT, PORTAL_NAMESPACE, write_configuration
from kubebed.keys import make_keys
from kubebed.runner.isolation import can_isolate
from kubebed.servers import Server, all_servers
from kubebed.settings import GPUS_PER_NODE, PORT_NAMES, BedError, NodeModel, Settings

_LOCK_S = 300
DOWN = "bed.tidegate.io/down"


class Bed:
    """One bed, by its settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._servers = all_servers(settings)
        self._began = time.monotonic()

    @property
    def server_names(self) -> tuple[str, ...]:
        """The servers, in the order in which they start."""
        return tuple(self._servers)

    def start(self, build_within_s: int | None) -> None:
        """Everything up and ready; what runs already is left as it is.

        None builds nothing: raises BedError where the servers were never built.
        """
        settings = self._settings
        if build_within_s is not None:
            build(settings.binaries, self._say, build_within_s)
        elif not is_complete(settings.binaries):
            raise BedError(
                f"its servers are not built in {settings.binaries}: `make kube-bed` builds them, "
                "which takes some minutes, once."
            )
        for folder in (settings.folder, settings.log, settings.run):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700 if folder == settings.folder else 0o755)
        with self._alone():
            if (settings.folder / "bed.json").exists() and self._is_up():
                objects.apply_role(Api(settings))  # it may have changed since
                self._say("runs already")
                return
            if not any(processes.process_of(settings, name) for name in self._servers):
                # Who mends a bed that runs has not started it.
                starter = os.environ.get("TIDEGATE_KUBE_STARTER", "")
                (settings.folder / "starter").write_text(starter)
            settings.keep()
            self._start_servers()
            self._tell()
        self._say(f"ready: {settings.url}, kubeconfigs in {settings.conf}")
        if not can_isolate():
            self._say("the kernel refuses namespaces: Pods without annotations cannot run here")

    def stop(self, *, purge: bool) -> None:
        """End every process; `purge` removes the folder too."""
        folder = self._settings.folder
        if not folder.exists():
            return
        with self._alone():
            # What speaks to the API server ends before it, and etcd last.
            first = [name for name in self._servers if name not in ("etcd", "apiserver")]
            with ThreadPoolExecutor(len(first)) as pool:
                list(pool.map(self._end, first))
            self._end("apiserver")
            self._end("etcd")
            (folder / "bed.json").unlink(missing_ok=True)
            if purge:
                shutil.rmtree(folder)
                self._lock_file.unlink()

    def reset(self, build_within_s: int) -> None:
        """An empty cluster again; keys and binaries stay."""
        with self._alone():
            for name in reversed(self._servers):
                self._end(name, signal.SIGKILL)
            (self._settings.folder / "bed.json").unlink(missing_ok=True)
            for folder in (self._settings.data, self._settings.log):
                shutil.rmtree(folder, ignore_errors=True)
        self.start(build_within_s)

    def status(self) -> list[str]:
        """A line for each server."""
        lines = []
        for name, server in self._servers.items():
            pid = processes.process_of(self._settings, name)
            state = "ready" if pid and processes.answers(self._settings, server) else "down"
            memory = f"{processes.memory_mib(pid)} MiB" if pid else ""
            lines.append(f"{name:12} {pid or '-':>8} {state:6} {memory:>9}  {server.ready_url}")
        return lines

    def run(self, names: list[str]) -> None:
        """Start servers that are down, wake those that are frozen, and wait until they answer."""
        servers = [self._servers[name] for name in names]
        for server in servers:
            processes.launch(self._settings, server)
        processes.wait_for(self._settings, servers)

    def kill(self, names: list[str]) -> None:
        """SIGKILL servers."""
        for name in names:
            self._end(name, signal.SIGKILL)

    def freeze(self, names: list[str]) -> None:
        """Let servers hang: their ports stay open and nothing answers."""
        for name in names:
            processes.freeze(self._settings, name)

    def thaw(self, names: list[str]) -> None:
        """Let frozen servers go on."""
        for name in names:
            processes.thaw(self._settings, name)

    def node_down(self, names: list[str]) -> None:
        """Nodes are NotReady until node_up."""
        self._mark_down(names, "true")

    def node_up(self, names: list[str]) -> None:
        """Nodes are Ready again."""
        self._mark_down(names, None)

    def _mark_down(self, names: list[str], value: str | None) -> None:
        api = Api(self._settings)
        for name in names:
            body = {"metadata": {"annotations": {DOWN: value}}}
            kind = "application/merge-patch+json"
            api.call("PATCH", f"/api/v1/nodes/{name}", body, kind)

    def _start_servers(self) -> None:
        settings = self._settings
        make_keys(settings)
        write_configuration(settings)
        self._launch("etcd")
        self._wait_for("etcd")
        self._launch("apiserver")
        definitions = objects.crds(settings)  # takes as long as the API server takes to come up
        self._wait_for("apiserver")
        self._say("API server answers")
        api = Api(settings)
        self._launch("controllers", "scheduler")
        api.apply_all(definitions)
        objects.wait_established(api, definitions)
        self._say(f"{len(definitions)} CRDs established")
        self._launch("kwok", "runtime", "runner")
        for document in objects.kueue_home(settings):
            api.apply(document)
        api.apply_all(objects.webhooks(settings))
        self._launch("kueue", "jobset", "training", "mpi", "trainer", "ray")
        objects.make_portal_account(api, settings)
        objects.make_nodes(api, settings)
        self._wait_for(*self._servers)
        self._say("all servers answer")
        objects.wait_nodes(api)

    def _is_up(self) -> bool:
        return all(
            processes.process_of(self._settings, name) and processes.answers(self._settings, server)
            for name, server in self._servers.items()
        )

    def _launch(self, *names: str) -> None:
        for name in names:
            processes.launch(self._settings, self._servers[name])

    def _wait_for(self, *names: str) -> None:
        servers: list[Server] = [self._servers[name] for name in names]
        processes.wait_for(self._settings, servers)

    def _end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        processes.end(self._settings, name, how)

    def _tell(self) -> None:
        """Write bed.json, which tells tests all that they need, once everything is ready."""
        settings = self._settings
        told = {
            "url": settings.url,
            "ca_file": str(settings.pki / "ca.crt"),
            "admin_kubeconfig": str(settings.kubeconfig("admin")),
            "portal_kubeconfig": str(settings.kubeconfig("portal")),
            "portal_account": f"system:serviceaccount:{PORTAL_NAMESPACE}:{PORTAL_ACCOUNT}",
            "ports": {name: settings.port(name) for name in PORT_NAMES},
            "servers": list(self._servers),
            "has_processes": can_isolate(),
            "models": [_told(model) for model in settings.models if model.count],
            "block_label": objects.BLOCK_LABEL,
            "rack_label": objects.RACK_LABEL,
            "log": str(settings.log),
            "audit_log": str(settings.log / "audit.log"),
            "manifests": str(settings.binaries / "manifests"),
        }
        new = settings.folder / "bed.json.new"
        new.write_text(json.dumps(told, indent=1) + "\n")
        new.replace(settings.folder / "bed.json")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One command at a time changes a bed."""
        deadline = time.monotonic() + _LOCK_S
        path = self._lock_file
        while True:
            with path.open("w") as file:
                if _is_locked(file) and _is_there(path, file):
                    yield
                    return
            if time.monotonic() > deadline:
                raise BedError(f"another command has been busy with the bed for {_LOCK_S} s.")
            time.sleep(0.1)

    @property
    def _lock_file(self) -> Path:
        """Beside the folder, which a purge removes."""
        return self._settings.folder.with_name(self._settings.folder.name + ".lock")

    def _say(self, what: str) -> None:
        seconds = time.monotonic() - self._began
        print(f"Kubernetes bed: {seconds:6.1f} s  {what}", flush=True)


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_there(path: Path, file: IO[str]) -> bool:
    """Whether the file is still the one of that name: a purge removes it."""
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _told(model: NodeModel) -> dict[str, object]:
    return {
        "name": model.name,
        "product_label": objects.PRODUCT_LABEL,
        "product": model.product,
        "gpus_per_node": GPUS_PER_NODE,
        "nodes": model.node_names(),
    }
