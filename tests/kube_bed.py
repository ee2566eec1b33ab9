"""The real Kubernetes that the Kubernetes suite runs against: found, started, or its absence said.

`deploy/kube-bed/control.py` starts one and finds a running one. Where that cannot be (its servers
are not built, no namespaces), every test that asks for `kube_bed` is skipped and the summary says
in one line that the Kubernetes suite did not run and why; with TIDEGATE_REQUIRE_KUBE=1 those tests
fail instead.

One bed serves all workers of a run. A test shares it in a namespace of its own (`kube_namespace`);
one that takes servers or nodes down carries `@pytest.mark.disturbs_kube` and has the bed alone.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from kubebed.api import Api, Refused
from kubebed.processes import process_of
from kubebed.settings import Settings, read_settings

CONTROL = Path(__file__).resolve().parent.parent / "deploy" / "kube-bed" / "control.py"
FOLDER_VARIABLE = "TIDEGATE_KUBE_BED"
REQUIRE_VARIABLE = "TIDEGATE_REQUIRE_KUBE"
STARTER_VARIABLE = "TIDEGATE_KUBE_STARTER"
DID_NOT_RUN = "The Kubernetes suite did not run: "
DOWN = "bed.tidegate.io/down"
_DOOR = "door.lock"  # had while one waits for its turn
_ONE_TEST = "test.lock"  # shared while a test runs; had alone by one that disturbs
_IN_USE = "use.lock"  # shared for as long as a run uses the bed; had alone to stop it
_START_TIMEOUT_S = 240
_COMMAND_TIMEOUT_S = 150
#: Clients of an API server that was away ask it again after 30 s at the latest, and then list.
CATCH_UP_S = 90
_ALONE_TIMEOUT_S = 280
_MERGE = "application/merge-patch+json"
_OURS = pytest.StashKey[str]()
_ENDED_BY_THEMSELVES = "ended.txt"
Found = TypeVar("Found")
Document = dict[str, Any]


class NoKube(Exception):
    """There is no bed, or it cannot be had; the text says why."""


@dataclass(frozen=True)
class BedModel:
    """Equal nodes: the label and value that tell them, and their names."""

    name: str
    product_label: str
    product: str
    gpus_per_node: int
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class KubeBed:
    """Where the bed is, who may speak to it, and the switches of its servers and nodes.

    A server's name is `etcd`, `apiserver`, `controllers`, `scheduler`, `kwok`, `runtime`, `runner`,
    `jobset` or `kueue`. `api` is the administrator's.
    """

    folder: Path
    url: str
    ca_file: Path
    admin_kubeconfig: str
    portal_kubeconfig: str
    portal_account: str
    ports: Mapping[str, int]
    servers: tuple[str, ...]
    models: Mapping[str, BedModel]
    block_label: str
    rack_label: str
    log: Path
    audit_log: Path
    manifests: Path
    settings: Settings
    api: Api

    @property
    def h100_nodes(self) -> tuple[str, ...]:
        """The names of the nodes with H100."""
        return self.models["h100"].nodes

    @property
    def product_label(self) -> str:
        """The label that tells a node's GPUs."""
        return self.models["h100"].product_label

    @property
    def product(self) -> str:
        """Its value where the GPUs are H100."""
        return self.models["h100"].product

    def kill(self, *servers: str) -> None:
        """SIGKILL servers."""
        self._control("kill", servers)

    def run(self, *servers: str) -> None:
        """Start servers that are down, wake those that are frozen; returns when they answer."""
        self._control("run", servers)

    def freeze(self, *servers: str) -> None:
        """Let servers hang: their ports stay open and nothing answers."""
        self._control("freeze", servers)

    def thaw(self, *servers: str) -> None:
        """Let frozen servers go on."""
        self._control("thaw", servers)

    def node_down(self, *nodes: str) -> None:
        """Nodes become NotReady."""
        self._control("node-down", nodes)

    def node_up(self, *nodes: str) -> None:
        """Nodes become Ready again."""
        self._control("node-up", nodes)

    @contextmanager
    def without(self, *servers: str) -> Iterator[None]:
        """These servers are killed inside the block."""
        self.kill(*servers)
        try:
            yield
        finally:
            self.run(*servers)

    @contextmanager
    def frozen(self, *servers: str) -> Iterator[None]:
        """These servers hang inside the block."""
        self.freeze(*servers)
        try:
            yield
        finally:
            self.run(*servers)

    def ended(self) -> list[str]:
        """Servers that run no more."""
        return [name for name in self.servers if not process_of(self.settings, name)]

    @contextmanager
    def namespace(
        self, name: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        """A namespace for the block; what is in it then goes, its Pods within a second."""
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        metadata = {"name": name, "labels": dict(labels or {})}
        self.api.call("POST", "/api/v1/namespaces", {"metadata": metadata})
        self.wait_for_namespace(name)
        try:
            yield name
        finally:
            self.drop_namespace(name)

    def wait_for_namespace(self, name: str) -> None:
        """Return once all who have a say about new Pods know the namespace."""
        # Its own, made a moment later; a Pod without it is refused.
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(lambda: self.find(account), "the namespace has no service account", CATCH_UP_S)
        until(lambda: self._takes_pods(name), "Kueue does not know the namespace", CATCH_UP_S)

    def drop_namespace(self, name: str) -> None:
        """Delete a namespace and all that is in it, without waiting for the end."""
        here = f"/api/v1/namespaces/{name}"
        jobs = f"/apis/batch/v1/namespaces/{name}/jobs?propagationPolicy=Background"
        for path, body in ((jobs, None), (f"{here}/pods", {"gracePeriodSeconds": 1}), (here, None)):
            try:
                self.api.call("DELETE", path, body)
            except Refused as error:
                if error.code not in (404, 409):
                    raise
            except ConnectionError:
                # Many objects take longer than a call may; the namespace's own end follows.
                continue

    def find(self, path: str) -> Document | None:
        """An object, or None where there is none."""
        try:
            return self.api.call("GET", path)
        except Refused as error:
            if error.code != 404:
                raise
            return None

    def pod(self, namespace: str, name: str) -> Document | None:
        """A Pod, or None where there is none."""
        return self.find(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def catch_up(self) -> None:
        """Return once every server hears of what happens: a Pod in a new namespace runs and ends.

        After the API server was away its clients ask again when they see fit.
        """
        with self.namespace() as name:
            self.api.call("POST", f"/api/v1/namespaces/{name}/pods", _probe())

            def is_over() -> bool:
                return (self.pod(name, "probe") or {})["status"].get("phase") == "Succeeded"

            until(is_over, "no Pod gets through", CATCH_UP_S)

    def mend_nodes(self) -> None:
        """Every node is Ready and takes Pods."""
        for node in self.api.call("GET", "/api/v1/nodes")["items"]:
            marks = node["metadata"].get("annotations") or {}
            if DOWN in marks or node["spec"].get("unschedulable"):
                body = {
                    "metadata": {"annotations": {DOWN: None}},
                    "spec": {"unschedulable": None},
                }
                self.api.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", body, _MERGE)

    def _takes_pods(self, namespace: str) -> bool:
        """Whether a Pod would be let in."""
        try:
            self.api.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", _probe())
        except Refused as error:
            if error.code not in (404, 500):
                raise
            return False
        return True

    def _control(self, verb: str, names: tuple[str, ...]) -> None:
        _run(verb, *names, folder=self.folder)


def _probe() -> Document:
    """A Pod that ends at once."""
    container = {
        "name": "main",
        "image": "none",
        "command": ["/bin/true"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    return {"metadata": {"name": "probe"}, "spec": spec}


def until(look: Callable[[], Found], otherwise: str, within_s: float = 60) -> Found:
    """The first result of `look` that is true; fails with `otherwise` after `within_s`."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{otherwise}, after {within_s} s")
        time.sleep(0.05)
    return found


def the_folder() -> Path:
    """Where the bed of this run is, by environment or by default."""
    return read_settings().folder


def read_bed(folder: Path) -> KubeBed:
    """The running bed that `bed.json` in `folder` describes."""
    told = json.loads((folder / "bed.json").read_text())
    settings = read_settings({FOLDER_VARIABLE: str(folder)})
    return KubeBed(
        folder=folder,
        url=told["url"],
        ca_file=Path(told["ca_file"]),
        admin_kubeconfig=told["admin_kubeconfig"],
        portal_kubeconfig=told["portal_kubeconfig"],
        portal_account=told["portal_account"],
        ports=told["ports"],
        servers=tuple(told["servers"]),
        models={
            model["name"]: BedModel(**(model | {"nodes": tuple(model["nodes"])}))
            for model in told["models"]
        },
        block_label=told["block_label"],
        rack_label=told["rack_label"],
        log=Path(told["log"]),
        audit_log=Path(told["audit_log"]),
        manifests=Path(told["manifests"]),
        settings=settings,
        api=Api(settings),
    )


def start_bed(folder: Path) -> KubeBed:
    """The bed in `folder`, started where it does not run. Raises NoKube with the reason."""
    _run("start", "--no-build", folder=folder, timeout_s=_START_TIMEOUT_S)
    if not json.loads((folder / "bed.json").read_text()).get("has_processes", True):
        raise NoKube("the kernel refuses the namespaces in which Pods' processes would run")
    return read_bed(folder)


def _run(*words: str, folder: Path, timeout_s: int = _COMMAND_TIMEOUT_S) -> None:
    try:
        done = subprocess.run(
            [sys.executable, str(CONTROL), *words],
            env=os.environ | {FOLDER_VARIABLE: str(folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as over:
        raise NoKube(f"`control.py {words[0]}` was not done after {timeout_s} s") from over
    if done.returncode:
        told = done.stderr.strip() or done.stdout.strip() or f"{words[0]} failed"
        raise NoKube(told.removeprefix("Kubernetes bed: "))


@contextmanager
def _hold(
    folder: Path, name: str, *, alone: bool, within_s: int = _ALONE_TIMEOUT_S
) -> Iterator[None]:
    """Share a lock with other workers, or have it alone; bounded, as flock itself is not."""
    deadline = time.monotonic() + within_s
    with (folder / name).open("w") as file:
        while True:
            try:
                fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NoKube("other tests have kept the Kubernetes bed busy") from None
                time.sleep(0.1)
        yield


@contextmanager
def _turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """A test's turn on the bed. All come through one door, and who wants the bed alone waits in it:
    workers with one short test after the other would never let go of it at the same moment."""
    with ExitStack() as held:
        with ExitStack() as door:
            door.enter_context(_hold(folder, _DOOR, alone=True))
            held.enter_context(_hold(folder, _ONE_TEST, alone=alone))
        yield


def did_not_run(reason: NoKube) -> NoReturn:
    """End a test that needs a bed: skipped aloud, or failed where the suite must run."""
    said = DID_NOT_RUN + " ".join(str(reason).split())
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{said} ({REQUIRE_VARIABLE}=1 makes this a failure)", pytrace=False)
    pytest.skip(said)


@pytest.fixture(scope="session")
def kube_bed() -> Iterator[KubeBed]:
    """A real Kubernetes: 64 nodes of 8 H100, 16 of 8 A100, unless the running bed is another."""
    try:
        bed = start_bed(the_folder())
    except NoKube as reason:
        did_not_run(reason)
    with _hold(bed.folder, _IN_USE, alone=False):
        yield bed
    bed.api.close()


@pytest.fixture
def kube_namespace(kube_bed: KubeBed) -> Iterator[str]:
    """A namespace of the test's own."""
    with kube_bed.namespace() as name:
        yield name


@pytest.fixture(autouse=True)
def _kube_turn(request: pytest.FixtureRequest) -> Iterator[None]:
    if not _uses_kube(request.node):
        yield
        return
    alone = request.node.get_closest_marker("disturbs_kube") is not None
    bed: KubeBed = request.getfixturevalue("kube_bed")
    with _turn(bed.folder, alone=alone):
        _mend(bed, f"before {request.node.nodeid}")
        yield
        if alone:
            start_bed(bed.folder)  # a test that failed half-way may have left something down
            bed.mend_nodes()
            bed.catch_up()
        else:
            _mend(bed, f"in {request.node.nodeid}")


def _uses_kube(item: pytest.Item) -> bool:
    return "kube_bed" in getattr(item, "fixturenames", ()) or any(
        item.get_closest_marker(name) is not None for name in ("kube", "disturbs_kube")
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What fails on the real Kubernetes is tried once more, and the summary says so: a machine that
    is busy with ten servers is late at times. What is broken fails twice."""
    for item in items:
        if _uses_kube(item) and item.get_closest_marker("chaos") is None:
            item.add_marker(pytest.mark.flaky(reruns=1))


def _mend(bed: KubeBed, when: str) -> None:
    """Start again what ended by itself, so that it fails one test at most; the summary tells."""
    if ended := bed.ended():
        with (bed.folder / _ENDED_BY_THEMSELVES).open("a") as file:
            file.write(f"{', '.join(ended)} {when}\n")
        start_bed(bed.folder)


def pytest_configure(config: pytest.Config) -> None:
    """Name this run, so that its end stops the bed that it started and no other."""
    config.addinivalue_line("markers", "kube: uses the real Kubernetes of this run")
    config.addinivalue_line("markers", "disturbs_kube: needs the real Kubernetes of this run alone")
    if not hasattr(config, "workerinput"):
        config.stash[_OURS] = os.environ[STARTER_VARIABLE] = uuid.uuid4().hex


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """One line if the suite did not run; and the end of a bed that this run started."""
    reasons = {
        text[text.index(DID_NOT_RUN) :]
        for report in terminalreporter.stats.get("skipped", [])
        if DID_NOT_RUN in (text := _reason(report))
    }
    for reason in sorted(reasons):
        terminalreporter.write_line(reason, red=True, bold=True)
    folder = the_folder()
    ended = folder / _ENDED_BY_THEMSELVES
    for line in _lines(ended):
        terminalreporter.write_line(f"Of the Kubernetes servers ended: {line}", yellow=True)
    ended.unlink(missing_ok=True)
    ours = config.stash.get(_OURS, None)
    if ours is None or _lines(folder / "starter") != [ours]:
        return
    # After a failure the servers' logs are worth more than a clean machine.
    words = [] if exitstatus else ["--purge"]
    try:
        with _hold(folder, _IN_USE, alone=True, within_s=5):
            _run("stop", *words, folder=folder)
    except NoKube as reason:
        terminalreporter.write_line(f"The Kubernetes bed was not stopped: {reason}", red=True)
    else:
        if exitstatus:
            terminalreporter.write_line(f"The Kubernetes bed's logs are in {folder / 'log'}")


def _reason(report: object) -> str:
    told = getattr(report, "longrepr", None)
    return str(told[2]) if isinstance(told, tuple) else str(told)
