"""The records of slurmdbd on the jobs of a Slurm cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from connectors.accounts import AccountedRun, AccountedRuns, AccountLate
from connectors.protocol import ClusterConnector
from connectors.slurm.accounting import SlurmAccounting
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.controller import SlurmController
from connectors.slurm.job_pools import is_of_cores
from connectors.slurm.naming import account_name, key_of, own_cluster
from connectors.slurm.neutral import HistoryJob
from connectors.slurm.observing import MGPU_PER_GPU, spread
from connectors.slurm.options import SlurmOptions
from connectors.slurm.resizing import held_since, joined
from connectors.slurm.states import native_state
from connectors.slurm.tres import CORES

log = logging.getLogger(__name__)

#: A day with many jobs is asked for in parts, so that no answer is too large.
PART_S = 6 * 3600

#: Job id, submit time, start time.
_RecordKey = tuple[int, int, int | None]


def open_account(connector: ClusterConnector) -> SlurmAccount:
    """Return the account of the Slurm cluster of `connector`."""
    assert isinstance(connector, SlurmConnector)
    return SlurmAccount(connector.rest.controller, connector.rest.accounting, connector.options)


class SlurmAccount:
    """Implements `connectors.accounts.ClusterAccount`."""

    def __init__(
        self, controller: SlurmController, accounting: SlurmAccounting, options: SlurmOptions
    ) -> None:
        self._controller = controller
        self._accounting = accounting
        self._options = options

    def account_of(self, team: str) -> str:
        """See the protocol. Raises WorkloadRejected for a text that is no path."""
        return account_name(team, self._options.account_prefix)

    def runs(self, *, start: int, end: int) -> AccountedRuns:
        """See the protocol. Jobs that never ran, or without GPUs of our pools, are left out.

        A requeued job has one record for each run, with a submit time of its own.
        """
        cluster = own_cluster(self._accounting.clusters(), self._options.cluster_name)
        # Asked before the records are read: messages in the backlog may be missing from them.
        diag = self._controller.diag()
        if diag.accounting_backlog > 0:
            raise AccountLate(
                f"{diag.accounting_backlog} messages of the cluster have not reached its "
                "accounting yet"
            )
        found: dict[_RecordKey, HistoryJob] = {}
        for since, until in _parts(start, min(end, diag.observed_at)):
            for run in self._accounting.history(start=since, end=until):
                if run.cluster in ("", cluster) and run.start_time is not None:
                    # The later record wins: the run may have ended in between.
                    found[run.job_id, run.submit_time, run.start_time] = run
        of_cores = self._nodes_of_cores()
        translated = (self._translated(run, of_cores) for run in self._whole(found))
        return AccountedRuns(
            diag.observed_at,
            tuple(
                run
                for run in translated
                if run is not None and run.started_at < end and (run.ended_at or end) > start
            ),
        )

    def _whole(self, found: dict[_RecordKey, HistoryJob]) -> Iterable[HistoryJob]:
        """Return one run for all records of each resized job.

        The record from before a resize may have ended before the window. Without it, the run would
        have a different submit time in each window.
        """
        runs = joined(found.values())
        parts = [
            run for run in runs if run.start_time is not None and held_since(run) != run.start_time
        ]
        for part in parts:
            for run in self._accounting.job_history(part.job_id):
                if (run.cluster, run.start_time) == (part.cluster, part.start_time):
                    found[run.job_id, run.submit_time, run.start_time] = run
        return joined(found.values()) if parts else runs

    def _nodes_of_cores(self) -> frozenset[str]:
        """Return the nodes of the pool of CPU cores, if there is one."""
        pools = self._options.pools
        if len(self._options.gpu_pools) == len(pools):
            return frozenset()
        nodes = self._controller.nodes(odd=log.warning)
        return frozenset(node.name for node in nodes if is_of_cores(node, pools))

    def _translated(self, run: HistoryJob, of_cores: frozenset[str]) -> AccountedRun | None:
        """Return the run in the terms of the protocol; None for a run without resources of ours."""
        began = held_since(run)
        if began is None or not run.nodes:
            return None
        if run.end_time is not None and run.end_time <= began:
            return None
        key = key_of(self._options.tag_secret, run.name, run.user)
        pool, gpus = self._pool_and_gpus(run, of_cores)
        # A job of ours without GPUs is worth reporting; a native job without GPUs is not.
        if pool is None or (gpus == 0 and key is None):
            return None
        return AccountedRun(
            native_id=str(run.job_id),
            submitted_at=run.submit_time,
            key=key,
            name=run.name,
            user=run.user,
            account=run.account,
            pool=pool,
            mgpu=gpus * MGPU_PER_GPU,
            started_at=began,
            ended_at=run.end_time,
            state=native_state(run.state, run.state_flags),
            before=tuple(
                (until, self._gpus_of(pool, had) * MGPU_PER_GPU) for until, had in run.before
            ),
        )

    def _gpus_of(self, pool: str, gpus: Mapping[str, int]) -> int:
        return gpus.get(self._options.pools[pool].gres_type, gpus.get("", 0))

    def _pool_and_gpus(self, run: HistoryJob, of_cores: frozenset[str]) -> tuple[str | None, int]:
        """Return the pool and the device count of a run.

        The GPU type decides; where the accounting does not record it, the partition does. A run
        without GPUs belongs to the pool of CPU cores with the share of its cores on that pool's
        nodes.
        """
        pools = self._options.pools
        if CORES in run.gpus:
            slots = spread(run.nodes, run.gpus[CORES])
            held = sum(slot.mgpu for slot in slots if slot.node in of_cores) // MGPU_PER_GPU
            if held:
                return next(name for name, pool in pools.items() if pool.gres_type == CORES), held
        for name, pool in self._options.gpu_pools.items():
            if gpus := run.gpus.get(pool.gres_type, 0):
                return name, gpus
        of_partition = [name for name, pool in pools.items() if pool.partition == run.partition]
        pool_name = of_partition[0] if len(of_partition) == 1 else None
        return pool_name, run.gpus.get("", 0)


def _parts(start: int, end: int) -> Iterator[tuple[int, int]]:
    for since in range(start, end, PART_S):
        yield since, min(since + PART_S, end)
