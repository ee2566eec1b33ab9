"""Makes the bed a cluster of the Tidegate that runs here: `make kube-bed-join`.

    .venv/bin/python deploy/kube-bed/join.py [--name NAME] [--mode arbiter|shared] [--image IMAGE]
        [--cores POOL]

Installs the gate for native jobs, gives Tidegate the kubeconfig of its service account, adds the
cluster (or gives it the bed's options anew), and pushes the quotas, which makes namespaces and
queues. With `--cores` the bed gets nodes without GPUs, and Tidegate a pool of their CPU cores, all
of them guaranteed to its organizations. It may be called again. Tidegate is found as `make up`
leaves it, by TIDEGATE_STATE_DIR, and the bed by TIDEGATE_KUBE_BED.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import yaml
from joining import REPO, Portal, Talk, state_folder

from kubebed.api import Api, Refused
from kubebed.settings import BedError, Settings, read_settings

GATE = REPO / "deploy" / "kubernetes" / "gate.yaml"
#: Nothing is drawn on the bed: Pods are processes of this machine.
IMAGE = "docker.io/library/debian:stable"
TOPOLOGY = "fabric"
HOSTNAME = "kubernetes.io/hostname"
#: The label that tells nodes without GPUs, with the name of their pool.
CORES_LABEL = "bed.tidegate.io/cores"
CORES_NODES = 2
CORES_PER_NODE = 64
MEMORY_MIB_PER_CORE = 4_000


def main() -> None:
    """Join, telling each step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--name", default="kubernetes", help="what the cluster is called")
    parser.add_argument("--mode", default="arbiter", choices=["arbiter", "shared"])
    parser.add_argument("--image", default=IMAGE, help="of jobs that name none")
    parser.add_argument("--cores", metavar="POOL", help="a pool of CPU cores, on more nodes")
    arguments = parser.parse_args()
    talk = Talk("Kubernetes bed")
    try:
        settings = read_settings()
    except BedError as error:
        talk.complain(str(error))
    bed = talk.read(settings.folder / "bed.json", "no bed runs there: `make kube-bed` starts one")
    portal = Portal(talk)
    _close_gate(talk, settings)
    cores = {}
    if arguments.cores:
        _make_core_nodes(talk, settings, arguments.cores)
        portal.have_cores(arguments.cores, CORES_NODES * CORES_PER_NODE)
        cores[arguments.cores] = {
            "device": "cpu",
            "node_selector": {CORES_LABEL: arguments.cores},
            "image": arguments.image,
            "memory_mib_per_core": MEMORY_MIB_PER_CORE,
        }
    state = state_folder()
    kubeconfig = state / "kubeconfigs" / arguments.name
    logs = state / "kubernetes-logs" / arguments.name
    for path in (kubeconfig.parent, logs.parent, logs):
        path.mkdir(mode=0o700, exist_ok=True)
        _give(path, state)
    _write_private(kubeconfig, Path(bed["portal_kubeconfig"]).read_text(), state)
    cluster = portal.join(
        arguments.name,
        "kubernetes",
        {
            "kubeconfig": str(kubeconfig),
            "mode": arguments.mode,
            "pools": _pools(bed, portal.pools(), arguments.image) | cores,
            "log_root": str(logs),
        },
    )
    portal.wait_seen(cluster)
    portal.push_quotas(cluster)


def _close_gate(talk: Talk, settings: Settings) -> None:
    """What the cluster's administrator does once: natives wait for the portal."""
    policies = [one for one in yaml.safe_load_all(GATE.read_text()) if one]
    api = Api(settings)
    try:
        api.apply_all(policies)
    except (Refused, OSError) as error:
        talk.complain(f"the gate for native jobs could not be installed: {error}")
    finally:
        api.close()
    talk.say(f"gate for native jobs: {len(policies)} policies applied")


def _make_core_nodes(talk: Talk, settings: Settings, pool: str) -> None:
    """Nodes without GPUs, played by kwok as all others."""
    amounts = {
        "cpu": str(CORES_PER_NODE),
        "memory": f"{CORES_PER_NODE * MEMORY_MIB_PER_CORE}Mi",
        "ephemeral-storage": "10Ti",
        "pods": "250",
    }
    names = [f"{pool}-{index:03d}" for index in range(CORES_NODES)]
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {HOSTNAME: name, "kubernetes.io/os": "linux", CORES_LABEL: pool},
            },
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        for name in names
    ]
    api = Api(settings)
    try:
        api.apply_all(nodes)
    except (Refused, OSError) as error:
        talk.complain(f"nodes without GPUs could not be made: {error}")
    finally:
        api.close()
    talk.say(f"nodes of {CORES_PER_NODE} cores: {', '.join(names)}")


def _pools(bed: dict[str, Any], known: set[str], image: str) -> dict[str, Any]:
    """The bed's models of node that Tidegate has a pool for, as options of a cluster."""
    levels = [bed["block_label"], bed["rack_label"], HOSTNAME]
    return {
        model["name"]: {
            "node_selector": {model["product_label"]: model["product"]},
            "image": image,
            "topology_name": TOPOLOGY,
            "topology_levels": levels,
            "preferred_topology": bed["block_label"],
        }
        for model in bed["models"]
        if model["name"] in known
    }


def _write_private(path: Path, text: str, state: Path) -> None:
    """A file that only the owner of `state` may read; it appears whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    _give(draft, state)
    draft.replace(path)


def _give(path: Path, state: Path) -> None:
    """To whom Tidegate runs as, where somebody else runs the script."""
    owner = state.stat()
    if path.stat().st_uid != owner.st_uid:
        os.chown(path, owner.st_uid, owner.st_gid)


if __name__ == "__main__":
    main()
