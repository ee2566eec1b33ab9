"""A part of the real Slurm for every test that asks for one."""

import os
from collections.abc import Iterator

import pytest

from conformance.rigs import SlurmRig
from slurm_bed import SlurmBed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Chaos takes minutes and a quiet machine: it runs where it is asked for."""
    if os.environ.get("TIDEGATE_CHAOS") == "1":
        return
    skip = pytest.mark.skip(reason="chaos runs by `make slurm-chaos`")
    for item in items:
        if item.get_closest_marker("chaos"):
            item.add_marker(skip)


@pytest.fixture
def slurm_rig(slurm_bed: SlurmBed) -> Iterator[SlurmRig]:
    """A connector of its own whose jobs are nobody else's; releases at once."""
    opened = SlurmRig(slurm_bed)
    yield opened
    opened.close()
