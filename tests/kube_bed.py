"""The real Kubernetes that the Kubernetes suite runs against."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

CONTROL = Path(__file__).resolve().parent.parent / "deploy" / "kube-bed" / "control.py"


@dataclass(frozen=True)
class KubeBed:
    """Where the bed is, and the switches of its servers."""

    folder: Path
    portal_kubeconfig: str
    admin_kubeconfig: str
    h100_nodes: tuple[str, ...]
    product_label: str
    product: str

    def control(self, *words: str) -> None:
        """One command of the bed's own."""
        subprocess.run(
            [sys.executable, str(CONTROL), *words],
            env=os.environ | {"TIDEGATE_KUBE_BED": str(self.folder)},
            check=True,
            timeout=120,
            stdout=subprocess.DEVNULL,
        )

    def kill(self, *names: str) -> None:
        """kill -9."""
        self.control("kill", *names)

    def run(self, *names: str) -> None:
        """Start again."""
        self.control("run", *names)


@pytest.fixture(scope="session")
def kube_bed() -> KubeBed:
    folder = Path(os.environ.get("TIDEGATE_KUBE_BED", "/nowhere"))
    if not (folder / "bed.json").exists():
        pytest.skip("The Kubernetes suite did not run: there is no bed")
    told = json.loads((folder / "bed.json").read_text())
    model = told["models"][0]
    return KubeBed(
        folder=folder,
        portal_kubeconfig=told["portal_kubeconfig"],
        admin_kubeconfig=told["admin_kubeconfig"],
        h100_nodes=tuple(model["nodes"]),
        product_label=model["product_label"],
        product=model["product"],
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kubernetes: uses the real Kubernetes of this run")
