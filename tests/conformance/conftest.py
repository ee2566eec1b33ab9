"""Every conformance test gets a cluster of its own, or a part of one that is nobody else's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.rigs import IsolatedRig, KubernetesRig, LocalRig, Rig, SlurmRig


@pytest.fixture(
    params=[
        "local",
        "isolated",
        pytest.param("slurm", marks=pytest.mark.slurm),
        pytest.param("kubernetes", marks=pytest.mark.kube),
    ]
)
def rig(request: pytest.FixtureRequest) -> Rig:
    """One cluster of each kind."""
    rig: Rig = request.getfixturevalue(f"{request.param}_rig")
    return rig


@pytest.fixture
def local_rig(tmp_path: Path) -> Iterator[LocalRig]:
    opened = LocalRig(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def isolated_rig(tmp_path: Path) -> Iterator[IsolatedRig]:
    opened = IsolatedRig(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def slurm_rig(request: pytest.FixtureRequest) -> Iterator[SlurmRig]:
    opened = SlurmRig(request.getfixturevalue("slurm_bed"))
    yield opened
    opened.close()


@pytest.fixture
def kubernetes_rig(request: pytest.FixtureRequest) -> Iterator[KubernetesRig]:
    opened = KubernetesRig(request.getfixturevalue("kube_bed"))
    yield opened
    opened.close()
