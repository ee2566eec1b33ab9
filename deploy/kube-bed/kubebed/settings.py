"""Where a bed lives, which ports it has and how many nodes: read from the environment.

A bed keeps the settings of its first start until it is removed, so that later commands need
nothing but its folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
GPUS_PER_NODE = 8
SOURCE = Path(__file__).resolve().parent.parent
REPO = SOURCE.parents[1]

#: In this order they follow the first port.
PORT_NAMES = (
    *("apiserver", "etcd", "etcd-peer", "controllers", "scheduler", "kueue-webhook"),
    *("kueue-health", "kueue-metrics", "jobset-webhook", "jobset-health", "kubelet", "runner"),
    *("training-health", "mpi-health", "trainer-health", "trainer-webhook", "ray-health"),
)
_KEPT = "settings.json"
_FOLDER = re.compile(r"/[A-Za-z0-9._/-]{1,200}")


class BedError(Exception):
    """A sentence for whoever runs the bed: what is wrong and what to do about it."""


@dataclass(frozen=True, slots=True)
class NodeModel:
    """Equal nodes: `count` of them, named NAME-000 and so on."""

    name: str
    product: str
    count: int

    def node_name(self, index: int) -> str:
        """What the node with this index is called."""
        return f"{self.name}-{index:03d}"

    def node_names(self) -> tuple[str, ...]:
        """All of them, in order."""
        return tuple(self.node_name(index) for index in range(self.count))


@dataclass(frozen=True, slots=True)
class Settings:
    """One bed: `folder` has all that it writes, `binaries` the programs that beds share."""

    folder: Path
    binaries: Path
    first_port: int
    h100_nodes: int
    a100_nodes: int

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.folder / "pki"

    @property
    def conf(self) -> Path:
        """Kubeconfigs and the servers' configuration."""
        return self.folder / "conf"

    @property
    def log(self) -> Path:
        """What the servers say."""
        return self.folder / "log"

    @property
    def run(self) -> Path:
        """Which processes are the bed's."""
        return self.folder / "run"

    @property
    def data(self) -> Path:
        """What etcd keeps."""
        return self.folder / "etcd"

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{HOST}:{self.port('apiserver')}"

    @property
    def models(self) -> tuple[NodeModel, ...]:
        """The nodes that the bed has."""
        return (
            NodeModel("h100", "NVIDIA-H100-80GB-HBM3", self.h100_nodes),
            NodeModel("a100", "NVIDIA-A100-SXM4-80GB", self.a100_nodes),
        )

    def port(self, name: str) -> int:
        """The port that is called `name` in PORT_NAMES."""
        return self.first_port + PORT_NAMES.index(name)

    def kubeconfig(self, user: str) -> Path:
        """Where the kubeconfig of a user is."""
        return self.conf / f"{user}.kubeconfig"

    def keep(self) -> None:
        """Write the settings into the bed's folder, where read_settings finds them."""
        told = {
            "binaries": str(self.binaries),
            "first_port": self.first_port,
            "h100_nodes": self.h100_nodes,
            "a100_nodes": self.a100_nodes,
        }
        (self.folder / _KEPT).write_text(json.dumps(told, indent=1) + "\n")


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The bed that the environment names, with the settings of its first start if it had one.

    Raises BedError for a value that cannot be.
    """
    env = os.environ if environ is None else environ
    folder = _folder(env, "TIDEGATE_KUBE_BED", _temporary(env) / "tidegate-kube-bed")
    kept = folder / _KEPT
    if kept.exists():
        told = json.loads(kept.read_text())
        return Settings(
            folder=folder,
            binaries=Path(told["binaries"]),
            first_port=told["first_port"],
            h100_nodes=told["h100_nodes"],
            a100_nodes=told["a100_nodes"],
        )
    h100_nodes = _whole(env, "KUBE_BED_NODES", 64, 1, 1000)
    return Settings(
        folder=folder,
        binaries=_folder(env, "KUBE_BED_BIN", _cache(env) / "tidegate" / "kube-bed"),
        first_port=_whole(env, "KUBE_BED_PORT", 16440, 1024, 65000),
        h100_nodes=h100_nodes,
        a100_nodes=_whole(env, "KUBE_BED_A100_NODES", h100_nodes // 4, 0, 1000),
    )


def build_seconds(environ: Mapping[str, str] | None = None) -> int:
    """How long one server may take to build. Raises BedError for a value that cannot be."""
    return _whole(os.environ if environ is None else environ, "KUBE_BED_BUILD_S", 1800, 1, 86400)


def _temporary(env: Mapping[str, str]) -> Path:
    return Path(env.get("TMPDIR") or "/tmp")  # noqa: S108 - the folder is made with mode 0700


def _cache(env: Mapping[str, str]) -> Path:
    return Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _folder(env: Mapping[str, str], variable: str, otherwise: Path) -> Path:
    path = str(env.get(variable) or otherwise).rstrip("/")
    if not _FOLDER.fullmatch(path):
        raise BedError(
            f"{variable} is '{path}' and must be an absolute path of at most 200 letters, digits, "
            "dots, dashes and underscores."
        )
    return Path(path)


def _whole(env: Mapping[str, str], variable: str, otherwise: int, least: int, most: int) -> int:
    said = env.get(variable) or str(otherwise)
    if not re.fullmatch(r"[0-9]{1,9}", said) or not least <= int(said) <= most:
        raise BedError(f"{variable} is '{said}' and must be a whole number from {least} to {most}.")
    return int(said)
