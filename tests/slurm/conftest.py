"""A part of the real Slurm for every test that asks for one."""

from collections.abc import Iterator

import pytest

from conformance.rigs import SlurmRig
from slurm_bed import SlurmBed


@pytest.fixture
def slurm_rig(slurm_bed: SlurmBed) -> Iterator[SlurmRig]:
    """A connector of its own whose jobs are nobody else's; releases at once."""
    opened = SlurmRig(slurm_bed)
    yield opened
    opened.close()
