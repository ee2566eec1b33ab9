"""The clusters of the conformance suite with a pool of CPU cores, `POOL`, beside that of GPUs.

`cores` are the thousandths of cores that each of its nodes offers to workloads. Where others may
use them beside the portal, `holding` a node is somebody who does; it is known by what is yielded.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builders.bed_pods import a_pod
from builders.connector_builders import eventually
from builders.kube_natives import a_pod_spec
from builders.kube_queues import KUEUE, a_flavor, a_team
from conformance.rigs import ACCOUNT, KubernetesRig, LocalRig, SlurmRig
from kube_bed import KubeBed
from slurm_bed import SlurmBed

POOL = "cores"
_LABEL = "example.com/rig"
_NODES = "/api/v1/nodes"


class LocalCoreRig(LocalRig):
    """This machine with 130 virtual nodes of GPUs and 3 of 4 cores."""

    cores = {f"core-{number:03d}": 4_000 for number in (1, 2, 3)}

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        group = {"count": 3, "cores": 4, "pool": POOL, "prefix": "core-"}
        self.options["nodes"] = [self.options["nodes"], group]
        self.connector = self.open()
        self.connector.prepare()


class SlurmCoreRig(SlurmRig):
    """A real Slurm with its partition of nodes without GPUs, of which each core has 100 MiB."""

    def __init__(self, bed: SlurmBed) -> None:
        super().__init__(bed)
        cores = bed.cores
        width, first = len(cores.first_node) - 1, int(cores.first_node[1:])
        self.cores = {
            f"{cores.first_node[0]}{number:0{width}d}": cores.cores_per_node * 1_000
            for number in range(first, first + cores.node_count)
        }
        self.options["pools"][POOL] = {
            "partition": cores.partition,
            "device": "cpu",
            "memory_mb_per_core": 100,
        }
        self.connector = self.open()

    def submit_beside(self, *options: str) -> str:
        """The number of a job that a user of the bed gives to Slurm itself."""
        user = self.bed.users[1]
        command = ["runuser", "-u", user, "--", "sbatch", "--parsable", f"--account={ACCOUNT}"]
        done = subprocess.run(
            [*command, *options, "--mem=100", "--output=/dev/null", "--chdir=/tmp"],
            env={"PATH": "/usr/bin:/bin:/usr/sbin", "SLURM_CONF": str(self.bed.slurm_conf)},
            input="#!/bin/bash\nsleep 1000\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().partition(";")[0]

    @contextmanager
    def holding(self, node: str, cores: int) -> Iterator[str]:
        where = ("--partition", self.bed.cores.partition, "--nodelist", node)
        number = self.submit_beside(*where, "-c", str(cores), "--time=10")
        try:
            yield number
        finally:
            self.bed.run(["scancel", number])


class KubernetesCoreRig(KubernetesRig):
    """The H100 nodes of a real Kubernetes, and 2 nodes with 16 cores that nobody else's Pods
    tolerate, of which the system has half of one."""

    def __init__(self, bed: KubeBed) -> None:
        super().__init__(bed)
        slug = f"rig-{secrets.token_hex(4)}"
        self._flavor = f"cores-{slug}"
        self.cores = {f"{slug}-{number}": 15_500 for number in (0, 1)}
        a_flavor(self.admin, self._flavor, {_LABEL: slug})
        team = f"conformance/{slug}"
        self.namespace = a_team(self.admin, team, "h100", self._flavor)
        self.asked = {"team": team}
        bed.wait_for_namespace(self.namespace)
        for name in self.cores:
            amounts = {"memory": "64000Mi", "ephemeral-storage": "1Ti", "pods": "250"}
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", _LABEL: slug}
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": {"taints": [{"key": _LABEL, "value": slug, "effect": "NoSchedule"}]},
                "status": {
                    "capacity": {**amounts, "cpu": "16"},
                    "allocatable": {**amounts, "cpu": "15500m"},
                },
            }
            self.admin.create(_NODES, body)
        self.options["pools"][POOL] = {
            "device": "cpu",
            "flavor": self._flavor,
            "node_selector": {_LABEL: slug},
            "tolerations": [{"key": _LABEL, "operator": "Equal", "value": slug}],
            "image": "bed/none:1",
        }
        self.connector = self.open()
        self.connector.prepare()
        eventually(self._are_ready)

    def _are_ready(self) -> bool:
        nodes = self.connector.inventory().nodes
        return {one.name for one in nodes if one.is_schedulable} >= self.cores.keys()

    @contextmanager
    def holding(self, node: str, cores: int) -> Iterator[str]:
        """A Pod in no queue, bound to the node."""
        spec = a_pod_spec(gpus=0, selector=False)
        spec["containers"][0]["resources"] = {"requests": {"cpu": str(cores)}}
        marks = {"bed.tidegate.io/start-seconds": "0"}
        pod = a_pod(self.namespace, "web", annotations=marks, **{**spec, "nodeName": node})
        made = self.admin.create(f"/api/v1/namespaces/{self.namespace}/pods", pod)
        try:
            yield made["metadata"]["uid"]
        finally:
            self.admin.delete(f"/api/v1/namespaces/{self.namespace}/pods/web")

    def close(self) -> None:
        """With its nodes, its team and its flavor."""
        super().close()
        self.bed.drop_namespace(self.namespace)
        for path in (
            f"{KUEUE}/clusterqueues/{self.namespace}",
            f"{KUEUE}/resourceflavors/{self._flavor}",
            *(f"{_NODES}/{name}" for name in self.cores),
        ):
            self.admin.delete(path)


CoreRig = LocalCoreRig | SlurmCoreRig | KubernetesCoreRig
