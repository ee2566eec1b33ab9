"""A small Slurm of the worker's own, whose daemons a test may kill and whose queue soon forgets."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_bed import DID_NOT_RUN, FOLDER_VARIABLE, SCRIPTS, NoSlurm, SlurmBed, start_bed

#: Seconds for which an ended job stays in the controller's list; it looks once a minute.
MIN_JOB_AGE_S = 5
_FIRST_PORT = 27_000
_PORTS = 1_000


@contextmanager
def a_bed_beside(name: str, first_port: int, **settings: str) -> Iterator[SlurmBed]:
    """16 nodes of 8 H100 and 1 of 8 A100 beside the shared bed, one for each worker; removed with
    the block. Skips the test where there can be none."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    folder = Path(tempfile.gettempdir()) / f"tidegate-{name}-bed-{worker}"
    settings |= {
        "BASE": str(first_port + worker * _PORTS),
        "CLUSTER": f"{name}{worker}",
        "H100_NODES": "16",
        "A100_NODES": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for setting, value in settings.items():
            patch.setenv(setting, value)
        try:
            bed = start_bed(folder)
        except NoSlurm as reason:
            pytest.skip(DID_NOT_RUN + " ".join(str(reason).split()))
    yield bed
    subprocess.run(
        [str(SCRIPTS / "stop.sh"), "--purge"],
        env=os.environ | {FOLDER_VARIABLE: str(folder)},
        capture_output=True,
        timeout=120,
        check=True,
    )


@pytest.fixture(scope="session")
def own_bed(slurm_bed: SlurmBed) -> Iterator[SlurmBed]:
    """A bed for this worker's tests alone, unless the shared one forgets as soon."""
    if slurm_bed.min_job_age_s <= MIN_JOB_AGE_S:
        yield slurm_bed
        return
    with a_bed_beside("own", _FIRST_PORT, MIN_JOB_AGE=str(MIN_JOB_AGE_S)) as bed:
        yield bed
