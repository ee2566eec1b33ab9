"""Use of a job on a real Slurm, after its end."""

from __future__ import annotations

import pytest

from builders.connector_builders import a_workload, eventually, until_released
from conformance.rigs import SlurmRig
from connectors.errors import ClusterUnavailable
from connectors.metrics import FinalMetrics
from connectors.registry import KINDS

pytestmark = pytest.mark.slurm

MIB = 1 << 20
#: Longer than the first samples of the cluster's gatherer, which are 30 s apart.
BUSY = """
python3 - <<'END'
import time
held = bytearray(150 << 20)
held[::4096] = b"x" * len(held[::4096])
end = time.monotonic() + 36
while time.monotonic() < end:
    while time.process_time() < 2: pass
    time.sleep(0.2)
END
"""


def test_the_accounting_has_what_a_job_used(slurm_rig: SlurmRig) -> None:
    """Against: the memory that it asked for. Against: the largest step without the batch script."""
    if "jobacct_gather/linux" not in slurm_rig.bed.slurm_conf.read_text():
        pytest.skip("this bed was made before it gathered what jobs use")
    opener = KINDS["slurm"].open_metrics
    assert opener is not None
    reader = opener(slurm_rig.connector)
    workload = a_workload(BUSY)
    native_id = slurm_rig.start(workload)
    assert reader.running([workload.key]) == ()
    until_released(slurm_rig.connector, workload.key, native_id)

    def figures() -> FinalMetrics | None:
        try:
            return reader.ended(workload.key, native_id)
        except ClusterUnavailable:
            return None

    found = eventually(figures)
    assert found.cpu_time_ms is not None
    assert found.memory_peak_bytes is not None
    assert 2_000 <= found.cpu_time_ms < 30_000
    assert 150 * MIB <= found.memory_peak_bytes < 400 * MIB
    assert found.cpu_milli
    assert found.memory_given_bytes
    assert (found.gpu_utilisation_percent, found.gpu_memory_peak_bytes) == (None, None)
    # Another name's job is nobody of ours.
    with pytest.raises(ClusterUnavailable, match="no end"):
        reader.ended("another-key", native_id)
