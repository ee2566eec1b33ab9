"""A small Slurm of the worker's own, whose daemons a test may kill and whose queue soon forgets."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_bed import FOLDER_VARIABLE, SCRIPTS, NoSlurm, SlurmBed, did_not_run, start_bed

#: Seconds for which an ended job stays in the controller's list; it looks once a minute.
MIN_JOB_AGE_S = 5
_SHARED_FIRST_PORT = 17_000  # the default of deploy/slurm-bed/settings.sh
_PORTS = 1_000  # of one bed
_NAMES = ("own", "frail", "story", "sliced")
#: Where else the bed's ports may be when another program has one of those that come first. Jobs of
#: other tests listen on ports of their choice, and the beds of two checkouts may meet.
_INSTEAD = (-12_000, -13_500)
#: So many beds have their ports above the shared one's: those from 32,768 on are given to clients.
_ABOVE = 8


@contextmanager
def a_bed_beside(name: str, **settings: str) -> Iterator[SlurmBed]:
    """16 nodes of 8 H100 and 1 of 8 A100, unless `settings` say otherwise, beside the shared bed,
    one for each worker; removed with the block. Skips the test where there can be none, or fails
    it where there must be one.

    Its ports are beside the shared bed's, a thousand for each name and worker.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shared = int(os.environ.get("BASE", str(_SHARED_FIRST_PORT)))
    folder = Path(tempfile.gettempdir()) / f"tidegate-{name}-bed-{worker}"
    first = shared + _PORTS * _thousand(_NAMES.index(name) * workers + worker)
    settings = {"H100_NODES": "16", "A100_NODES": "1", **settings, "CLUSTER": f"{name}{worker}"}
    try:
        bed = _start_where_ports_are_free(folder, settings, first)
    except NoSlurm as reason:
        did_not_run(reason)
    yield bed
    _remove(folder)


def _thousand(number: int) -> int:
    """Return where the ports of bed `number` are, in thousands from the shared bed's."""
    return number + 1 if number < _ABOVE else _ABOVE - 1 - number


def _start_where_ports_are_free(
    folder: Path, settings: dict[str, str], first_port: int
) -> SlurmBed:
    for ports_from in (first_port, *(first_port + apart for apart in _INSTEAD)):
        try:
            return _start(folder, settings, ports_from)
        except NoSlurm as reason:
            if "is taken by" not in str(reason):
                raise
            taken = reason
        # A bed remembers the ports that it was started with.
        _remove(folder)
    raise taken


def _remove(folder: Path) -> None:
    subprocess.run(
        [str(SCRIPTS / "stop.sh"), "--purge"],
        env=os.environ | {FOLDER_VARIABLE: str(folder)},
        capture_output=True,
        timeout=120,
        check=True,
    )


def _start(folder: Path, settings: dict[str, str], first_port: int) -> SlurmBed:
    with pytest.MonkeyPatch.context() as patch:
        for setting, value in {**settings, "BASE": str(first_port)}.items():
            patch.setenv(setting, value)
        return start_bed(folder)


@pytest.fixture(scope="session")
def own_bed(slurm_bed: SlurmBed) -> Iterator[SlurmBed]:
    """A bed for this worker's tests alone, unless the shared one forgets as soon."""
    if slurm_bed.min_job_age_s <= MIN_JOB_AGE_S:
        yield slurm_bed
        return
    with a_bed_beside("own", MIN_JOB_AGE=str(MIN_JOB_AGE_S)) as bed:
        yield bed


def node_names(bed: SlurmBed) -> list[str]:
    """The nodes with H100."""
    return [f"h{number:03d}" for number in range(1, bed.partitions["h100"].node_count + 1)]
