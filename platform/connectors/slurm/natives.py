"""Native Slurm jobs, submitted without the portal: notified, ended and looked up by number.

The number must still belong to the job of the same user and the same submit second. A requeued job
keeps its number and gets a new submit time: it is a different workload.
"""

from __future__ import annotations

import re

from connectors.errors import AccountUndecided, ClusterUnavailable, UnknownNativeState
from connectors.natives import NativeRef
from connectors.protocol import ClusterConnector, NativeWorkload, Outcome, WorkloadPhase
from connectors.slurm.accounting import SlurmAccounting
from connectors.slurm.connector import SlurmConnector, insist
from connectors.slurm.controller import SlurmController
from connectors.slurm.naming import team_path
from connectors.slurm.neutral import HistoryJob, SlurmJob
from connectors.slurm.observing import MGPU_PER_GPU, spread
from connectors.slurm.options import SlurmOptions
from connectors.slurm.resizing import joined
from connectors.slurm.states import native_state, outcome_of, phase_of

_NOTICE_SIGNAL = "TERM"
_NATIVE_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
#: Slurm's state of a run that it ended to requeue the job.
_REQUEUED = "REQUEUED"


def control_natives(connector: ClusterConnector) -> SlurmNatives:
    """Return the native control of the Slurm cluster of `connector`."""
    assert isinstance(connector, SlurmConnector)
    return SlurmNatives(connector.rest.controller, connector.rest.accounting, connector.options)


class SlurmNatives:
    """Implements `connectors.natives.NativeControl`; safe to use from several threads."""

    #: Slurm starts them itself.
    starter = None
    tool = "scontrol"

    def __init__(
        self, controller: SlurmController, accounting: SlurmAccounting, options: SlurmOptions
    ) -> None:
        self._controller = controller
        self._accounting = accounting
        self._options = options

    def team_of(self, account: str) -> str | None:
        """See the protocol."""
        return team_path(account, self._options.account_prefix)

    def notify(self, ref: NativeRef) -> None:
        """See the protocol. Sends TERM to the batch shell and to every step."""
        job = self._job(ref)
        if job is not None and _phase(job) is WorkloadPhase.RUNNING:
            insist(lambda: self._controller.cancel(job.job_id, signal=_NOTICE_SIGNAL))

    def stop(self, ref: NativeRef) -> None:
        """See the protocol. Processes that ignore TERM end after the cluster's KillWait."""
        job = self._job(ref)
        if job is not None and _phase(job) not in (WorkloadPhase.ENDED, WorkloadPhase.STOPPING):
            insist(lambda: self._controller.cancel(job.job_id))

    def find_ended(self, ref: NativeRef) -> NativeWorkload | None:
        """See the protocol."""
        if not _NATIVE_ID.fullmatch(ref.native_id):
            return None
        runs = [
            run
            for run in joined(self._accounting.job_history(int(ref.native_id)))
            if (run.submit_time, run.user) == (ref.submitted_at, ref.user)
        ]
        if not runs:
            if self._controller.diag().accounting_backlog > 0:
                raise ClusterUnavailable("the cluster's accounting is late; it may know more soon")
            return None
        last = max(runs, key=lambda run: run.start_time or 0)
        if last.end_time is None:
            raise AccountUndecided(
                f"the cluster's accounting says that job {ref.native_id} still is {last.state}, "
                "and its controller does not know it; `sacctmgr show runawayjobs` may mend that"
            )
        return _ended(ref, last)

    def _job(self, ref: NativeRef) -> SlurmJob | None:
        """Return the job; None when its number now belongs to another job or to none."""
        if not _NATIVE_ID.fullmatch(ref.native_id):
            return None
        job = self._controller.job(int(ref.native_id))
        if job is None or (job.submit_time, job.user) != (ref.submitted_at, ref.user):
            return None
        return job


def _ended(ref: NativeRef, run: HistoryJob) -> NativeWorkload:
    gpus = sum(run.gpus.values())
    return NativeWorkload(
        native_id=ref.native_id,
        submitted_at=ref.submitted_at,
        name=run.name,
        account=run.account,
        user=run.user,
        # The caller knows the pool from the time when the job ran.
        pool="",
        mgpu=gpus * MGPU_PER_GPU,
        native_state=native_state(run.state, run.state_flags),
        phase=WorkloadPhase.ENDED,
        started_at=run.start_time if run.nodes else None,
        ended_at=run.end_time,
        is_released=True,
        outcome=_outcome(run),
        time_limit_s=run.time_limit_s,
        slots=spread(run.nodes, gpus),
    )


def _outcome(run: HistoryJob) -> Outcome:
    """Return how a run ended that has ended in the accounting."""
    if run.state == _REQUEUED or _REQUEUED in run.state_flags:
        return Outcome.PREEMPTED
    try:
        return outcome_of(run)
    except UnknownNativeState:
        return Outcome.FAILED


def _phase(job: SlurmJob) -> WorkloadPhase | None:
    """Return the phase; None for an unknown state."""
    try:
        return phase_of(job)
    except UnknownNativeState:
        return None
