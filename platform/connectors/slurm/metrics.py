"""The use of ended jobs of a Slurm cluster, by its accounting.

slurmrestd reports no use of running jobs. After the end, slurmdbd has what the cluster's
`JobAcctGatherType` gathered, and nothing where that is `jobacct_gather/none`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from connectors.errors import ClusterUnavailable
from connectors.metrics import FinalMetrics, MetricSample
from connectors.protocol import ClusterConnector
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.naming import key_of
from connectors.slurm.neutral import RunUse, StepUse

_MIB = 1 << 20


def open_metrics(connector: ClusterConnector) -> SlurmMetrics:
    """Return the metrics of the Slurm cluster of `connector`."""
    assert isinstance(connector, SlurmConnector)
    return SlurmMetrics(connector)


class SlurmMetrics:
    """Implements `connectors.metrics.MetricReader`."""

    def __init__(self, connector: SlurmConnector) -> None:
        self._rest = connector.rest
        self._tag_secret = connector.options.tag_secret

    def running(self, keys: Sequence[str]) -> Sequence[MetricSample]:
        """See the protocol. The cluster reports nothing about running jobs."""
        return ()

    def ended(self, key: str, native_id: str) -> FinalMetrics | None:
        """See the protocol. Of several runs of the job under our name, the last one counts."""
        if not (native_id.isascii() and native_id.isdigit()):
            return None
        uses = [
            use
            for use in self._rest.accounting.job_uses(int(native_id))
            if key_of(self._tag_secret, use.run.name, use.run.user) == key
        ]
        if not uses or uses[-1].run.end_time is None:
            raise ClusterUnavailable(f"the accounting has no end of job {native_id} yet")
        return figures_of(uses[-1])


def figures_of(use: RunUse) -> FinalMetrics | None:
    """Return the figures of an ended run; None where nothing was gathered.

    The peak is that of the largest step with the batch script beside it: steps run one after the
    other as a rule.
    """
    steps = [step for step in use.steps if step.memory_bytes is not None]
    if not steps:
        return None
    gpus = sum(use.run.gpus.values())
    percent = _most(step.gpu_percent for step in steps)
    return FinalMetrics(
        cpu_time_ms=sum(step.cpu_time_ms for step in steps),
        memory_peak_bytes=_peak_bytes(steps),
        cpu_milli=1_000 * use.cpus or None,
        memory_given_bytes=_MIB * use.memory_mb or None,
        gpu_utilisation_percent=None if percent is None or not gpus else percent // gpus,
        gpu_memory_peak_bytes=_most(step.gpu_memory_bytes for step in steps),
    )


def _peak_bytes(steps: Iterable[StepUse]) -> int:
    batch_bytes = largest_bytes = 0
    for step in steps:
        if step.is_batch:
            batch_bytes += step.memory_bytes or 0
        else:
            largest_bytes = max(largest_bytes, step.memory_bytes or 0)
    return batch_bytes + largest_bytes


def _most(figures: Iterable[int | None]) -> int | None:
    return max((figure for figure in figures if figure is not None), default=None)
