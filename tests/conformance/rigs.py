"""The clusters that the conformance suite runs against.

A rig opens connectors to one cluster that nobody else uses. Its `scratch` directory is seen by
the test and by the jobs under the same name.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from builders.connector_builders import eventually, until_released, whole_log
from builders.kube_queues import a_flavor, a_team
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.client.api import KubeApi
from connectors.kubernetes.objects.naming import workload_name
from connectors.local.attempt_files import is_locked
from connectors.protocol import ClusterConnector, LogChunk, Workload
from connectors.registry import open_connector
from connectors.slurm.minter import Minter, Policy
from kube_bed import KubeBed
from slurm_bed import SlurmBed

TEAM = "conformance/rig"
ACCOUNT = "conformance_rig"
GUARANTEED_QOS = "g-conformance_rig"
BORROW_QOS = "conformance-borrow"
LOG_CAP_BYTES = 256 << 10
CLUSTER_ID = "cluster-of-the-rig"


class Rig:
    """One cluster. `kind` and `options` open it, from any process.

    `asked` is what every workload must say there. What clusters may do differently: whether they
    choose the nodes, tell the exit codes of ranks before the end of the workload and of ranks
    that they killed, can forget, keep processes from hiding, and keep what a job says as an error
    apart from what it says. Some count time limits in
    whole minutes.
    """

    kind: str
    cluster_id = CLUSTER_ID
    options: dict[str, Any]
    scratch: Path
    connector: ClusterConnector
    asked: dict[str, str] = {}
    cluster_user: str | None = None
    python = sys.executable
    chooses_nodes = False
    tells_exits_early = True
    tells_exits_of_stopped = True
    codes_of_stopped: tuple[dict[int, int], ...] = ({0: -9},)
    forgets = True
    finds_hidden_processes = True
    parts_streams = True
    counts_minutes = False
    gang_ranks = 125
    node_count = 130
    first_node = "node-001"
    last_node = "node-130"

    def open(self) -> ClusterConnector:
        """Another connector to the same cluster, as another process would have."""
        return open_connector(self.kind, self.options, self.cluster_id)

    def master_of(self, key: str) -> str:
        """Where the ranks of the gang `key` find rank 0."""
        return "127.0.0.1"

    def submit(self, workload: Workload) -> str:
        """Give it to the cluster, which may hold it."""
        return self.connector.submit(replace(workload, **self.asked))

    def start(self, workload: Workload) -> str:
        """Give it to the cluster and let it run."""
        native_id = self.submit(workload)
        if self.connector.submits_held:
            self.release(workload.key, native_id)
        return native_id

    def release(self, key: str, native_id: str) -> None:
        """Release it once it is listed and settled."""

        def is_settled() -> bool:
            listing = self.connector.observe()
            seen = listing.seen(key, native_id)
            if seen is None or seen.submitted_at is None:
                return False
            return listing.observed_at - seen.submitted_at >= self.connector.settle_s

        eventually(is_settled)
        self.connector.release(key, native_id)

    def log(self, key: str, *, rank: int = 0, stream: str = "stdout") -> str:
        """All that one stream of one rank holds now."""
        return whole_log(
            self.connector, key, rank=rank, stream=stream, cluster_user=self.cluster_user
        )

    def read_log(self, key: str, *, rank: int, stream: str, offset: int, limit: int) -> LogChunk:
        """A part of a log."""
        return self.connector.read_log(
            key,
            rank=rank,
            stream=stream,
            offset=offset,
            limit=limit,
            cluster_user=self.cluster_user,
        )

    @property
    def error_stream(self) -> str:
        """The stream that has what a job says as an error."""
        return "stderr" if self.parts_streams else "stdout"

    def close(self) -> None:
        """End whatever still runs."""
        for key, seen in self.connector.observe().observations.items():
            if not seen.is_released:
                self.connector.stop(key)
                until_released(self.connector, key)


class LocalRig(Rig):
    """This machine with 130 virtual nodes of 8 H100 each."""

    kind = "local"
    #: Tests of records and processes look at them by the machine's numbers.
    isolation = "off"

    def __init__(self, directory: Path) -> None:
        self.scratch = directory / "scratch"
        self.scratch.mkdir()
        self.root = directory / "root"
        self.options: dict[str, Any] = {
            "root": str(self.root),
            "nodes": {"count": 130, "gpus": 8, "pool": "h100", "prefix": "node-"},
            "use_real_gpus": False,
            "log_cap_bytes": LOG_CAP_BYTES,
            "isolation": self.isolation,
            "folders": [str(self.scratch)],
        }
        self.connector = self.open()
        self.connector.prepare()

    def attempt(self, key: str) -> Path:
        """Directory of the attempt `key`."""
        return self.root / "attempts" / key

    def record(self, key: str, name: str) -> dict[str, Any]:
        """A record of the attempt `key`, as soon as it is there."""
        path = self.attempt(key) / name
        eventually(path.exists)
        record: dict[str, Any] = json.loads(path.read_bytes())
        return record

    def supervisor(self, key: str) -> int:
        """Process number of the supervisor of `key`."""
        return int(self.record(key, "state.json")["supervisor"])

    def kill_supervisor(self, key: str) -> None:
        """kill -9 the supervisor of `key`; nobody looks at the attempt until `observe`.

        A supervisor writes its number after it has begun. Until then, the record names the one
        before it, whose process is gone.
        """
        eventually(lambda: str(self.attempt(key)) in command_line(self.supervisor(key)))
        os.kill(self.supervisor(key), signal.SIGKILL)
        eventually(lambda: not is_locked(f"{self.attempt(key)}/supervisor.lock"))


def command_line(pid: int) -> str:
    """The command line of a process; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


class IsolatedRig(LocalRig):
    """The same with jobs that are isolated as far as this machine allows."""

    isolation = "auto"
    cluster_user = "1880000001"
    asked = {"cluster_user": cluster_user}

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.scratch.chmod(0o777)


class SlurmRig(Rig):
    """The H100 part of a real Slurm. Others may use it too; their jobs are not this rig's,
    because every rig signs its jobs with a secret of its own."""

    kind = "slurm"
    chooses_nodes = True
    tells_exits_early = False
    tells_exits_of_stopped = False
    forgets = False
    counts_minutes = True
    # Where Slurm has no cgroups, as in the bed, it loses sight of daemons.
    finds_hidden_processes = False
    gang_ranks = 16
    # What runs the tests may lie where the users of the bed see nothing.
    python = "/usr/bin/python3"

    def __init__(self, bed: SlurmBed, *, settle_s: int = 0, user: str | None = None) -> None:
        self.bed = bed
        self.cluster_user = user or bed.users[0]
        self.asked = {"team": TEAM, "cluster_user": self.cluster_user}
        make_accounts(bed)
        self.scratch = Path(tempfile.mkdtemp(dir=bed.folder / "work", prefix="rig-"))
        self.scratch.chmod(0o777)
        socket = str(self.scratch / "minter")
        key = bed.jwt_key_file.read_bytes()
        policy = Policy(bed.service_user)
        self._minter = Minter(key, socket, policy, [os.geteuid()])
        threading.Thread(target=self._minter.serve, daemon=True).start()
        partition = bed.partitions["h100"]
        self.node_count = partition.node_count
        self.first_node = partition.first_node
        self.last_node = f"h{partition.node_count:03d}"
        self.options: dict[str, Any] = {
            "url": bed.url,
            "service_user": bed.service_user,
            "token_socket": socket,
            "tag_secret": secrets.token_hex(16),
            "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
            "output_root": bed.output_root,
            "working_directory": bed.working_directory,
            "settle_s": settle_s,
            "borrow_qos": BORROW_QOS,
            "log_cap_bytes": LOG_CAP_BYTES,
        }
        self.connector = self.open()

    def close(self) -> None:
        """End whatever still runs or waits."""
        listing = self.connector.observe()
        copies = [copy for key in listing.observations for copy in listing.all_of(key)]
        for copy in copies:
            if not copy.is_released:
                eventually(functools.partial(self._is_stopped, copy.key, copy.native_id))
                until_released(self.connector, copy.key, copy.native_id)
        self._minter.stop()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _is_stopped(self, key: str, native_id: str) -> bool:
        try:
            self.connector.stop(key, native_id=native_id)
        except ClusterUnavailable:
            return False
        return True


class KubernetesRig(Rig):
    """The H100 nodes of a real Kubernetes. Others may use it too; their objects are not this rig's,
    because every rig is another cluster's name for it."""

    kind = "kubernetes"
    asked = {"team": TEAM}
    chooses_nodes = True
    parts_streams = False
    codes_of_stopped = ({0: -9}, {0: -15})
    # What the containers see of this machine has no virtual environment.
    python = "/usr/bin/python3"

    def __init__(self, bed: KubeBed) -> None:
        self.bed = bed
        self.cluster_id = f"rig-{secrets.token_hex(8)}"
        self.admin = KubeApi(kubeconfig=str(bed.admin_kubeconfig))
        model = bed.models["h100"]
        labels = {model.product_label: model.product}
        a_flavor(self.admin, "h100", labels)
        self.namespace = a_team(self.admin, TEAM, "h100")
        bed.wait_for_namespace(self.namespace)
        self.scratch = Path(tempfile.mkdtemp(prefix="kube-rig-"))
        self.scratch.chmod(0o777)
        self.gang_ranks = self.node_count = len(model.nodes)
        self.first_node, self.last_node = model.nodes[0], model.nodes[-1]
        self.options: dict[str, Any] = {
            "kubeconfig": str(bed.portal_kubeconfig),
            "pools": {
                "h100": {
                    "node_selector": labels,
                    "image": "bed/none:1",
                }
            },
            "log_root": str(self.scratch / "logs"),
            "log_cap_bytes": LOG_CAP_BYTES,
        }
        self.connector = self.open()
        self.connector.prepare()

    def log(self, key: str, *, rank: int = 0, stream: str = "stdout") -> str:
        """Logs are kept by whoever looks at the cluster; the end of a long one takes a while."""

        def is_whole() -> bool:
            seen = self.connector.observe().observations.get(key)
            last = self.connector.read_log(key, rank=rank, stream=stream, offset=-1, limit=9)
            return last.is_final or seen is None or not seen.is_released

        eventually(is_whole)
        return super().log(key, rank=rank, stream=stream)

    def read_log(self, key: str, *, rank: int, stream: str, offset: int, limit: int) -> LogChunk:
        """Logs are kept by whoever looks at the cluster."""
        self.connector.observe()
        return super().read_log(key, rank=rank, stream=stream, offset=offset, limit=limit)

    def master_of(self, key: str) -> str:
        """A name that its Service gives to rank 0."""
        return f"{workload_name(key)}-0.{workload_name(key)}"

    def close(self) -> None:
        """End whatever still runs or waits, and take it off the cluster."""
        listing = self.connector.observe()
        for key in listing.observations:
            self.connector.stop(key)
        for key in listing.observations:
            until_released(self.connector, key)
            self.connector.forget(key)
        shutil.rmtree(self.scratch, ignore_errors=True)


_made: set[Path] = set()


def make_accounts(bed: SlurmBed) -> None:
    """The account and the two QoS that workloads of the rigs run under."""
    if bed.folder in _made:
        return
    with bed.account_writing():
        _make_accounts(bed)
    _made.add(bed.folder)


def _make_accounts(bed: SlurmBed) -> None:
    run = bed.run
    for name in (GUARANTEED_QOS, BORROW_QOS):
        if not run(["sacctmgr", "-nP", "show", "qos", name, "format=name"]).strip():
            run(["sacctmgr", "-i", "add", "qos", name])
    if not run(["sacctmgr", "-nP", "show", "account", ACCOUNT, "format=account"]).strip():
        run(["sacctmgr", "-i", "add", "account", ACCOUNT, f"cluster={bed.cluster}"])
    for user in bed.users[:2]:
        asked = ["sacctmgr", "-nP", "show", "assoc", f"user={user}", f"account={ACCOUNT}"]
        if not run([*asked, "format=user"]).strip():
            run(
                [
                    *("sacctmgr", "-i", "add", "user", user, f"account={ACCOUNT}"),
                    *(f"cluster={bed.cluster}", f"qos=normal,{GUARANTEED_QOS},{BORROW_QOS}"),
                ]
            )
