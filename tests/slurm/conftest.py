"""A part of the real Slurm for every test that asks for one, and a bed that is frail."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from conformance.rigs import SlurmRig
from slurm.own_bed import a_bed_beside, node_names
from slurm_bed import SlurmBed

#: Seconds of silence after which a node of the frail bed is down.
NODE_TIMEOUT_S = 10


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


@pytest.fixture(scope="session")
def frail_bed(slurm_bed: SlurmBed) -> Iterator[SlurmBed]:
    """A bed that soon calls a silent node down, for this worker's tests alone."""
    if slurm_bed.node_timeout_s <= NODE_TIMEOUT_S:
        yield slurm_bed
        return
    with a_bed_beside("frail", NODE_TIMEOUT_S=str(NODE_TIMEOUT_S)) as bed:
        yield bed


@pytest.fixture
def empty_bed(frail_bed: SlurmBed) -> SlurmBed:
    """The frail bed, whole and without jobs: a crashed controller forgets that it cancelled one."""
    frail_bed.start("ctld", "rest", "dbd", *node_names(frail_bed))
    frail_bed.run(["scontrol", "update", "partition=h100", "state=UP"])
    frail_bed.empty()
    return frail_bed


@pytest.fixture
def frail_rig(empty_bed: SlurmBed) -> Iterator[SlurmRig]:
    opened = SlurmRig(empty_bed)
    yield opened
    empty_bed.start("ctld", "rest", "dbd", *node_names(empty_bed))
    opened.close()
