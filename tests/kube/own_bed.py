"""A small Kubernetes of the worker's own, on which nobody else runs anything."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kube_bed import CONTROL, FOLDER_VARIABLE, KubeBed, NoKube, did_not_run, start_bed

_SHARED_FIRST_PORT = 16_440  # the default of kubebed.settings
_PORTS = 20  # of one bed, and some to spare
_NAMES = ("story", "cores", "files")


@contextmanager
def a_kube_bed_beside(name: str, *, nodes: int) -> Iterator[KubeBed]:
    """`nodes` nodes of 8 H100 and no other, one bed for each worker; removed with the block.

    Skips the test where there can be none, or fails it where there must be one. Its ports follow
    on the shared bed's, twenty for each name and worker.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shared = int(os.environ.get("KUBE_BED_PORT", str(_SHARED_FIRST_PORT)))
    folder = Path(tempfile.gettempdir()) / f"tidegate-{name}-kube-{worker}"
    settings = {
        "KUBE_BED_PORT": str(shared + _PORTS * (1 + _NAMES.index(name) * workers + worker)),
        "KUBE_BED_NODES": str(nodes),
        "KUBE_BED_A100_NODES": "0",
    }
    with pytest.MonkeyPatch.context() as patch:
        for setting, value in settings.items():
            patch.setenv(setting, value)
        try:
            bed = start_bed(folder)
        except NoKube as reason:
            did_not_run(reason)
    try:
        yield bed
    finally:
        bed.api.close()
        subprocess.run(
            [sys.executable, str(CONTROL), "stop", "--purge"],
            env=os.environ | {FOLDER_VARIABLE: str(folder)},
            capture_output=True,
            timeout=120,
            check=True,
        )
