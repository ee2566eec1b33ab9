"""Chooses the borrow QoS for a job when its team's guaranteed QoS is full.

The arbiter's classes change while jobs run, but Slurm refuses to change the QoS of a running job.
So a job that is now within its team's guarantee may find its QoS full:

- Other jobs were within the guarantee when they started.
- People submitted jobs to Slurm themselves.
- The limit is still that of a smaller guarantee, because the change was not pushed yet.

There it would wait although its GPUs are free. It gets the borrow QoS instead, like a job that
became protected after its start. A job that must not be requeued never does: Slurm preempts the
jobs of the borrow QoS for those of a team's QoS.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from connectors.errors import ConnectorError
from connectors.slurm.accounting import SlurmAccounting
from connectors.slurm.controller import SlurmController
from connectors.slurm.neutral import SlurmJob, Submission
from connectors.slurm.tres import CORES

#: Seconds for which limits are reused. They are also read after every write of ours.
LIMITS_KEPT_S = 60
#: How long one start waits for the limits; other starts use the previous ones meanwhile.
LIMITS_TIMEOUT_S = 5.0
#: Seconds for which a submission counts, unless a list of jobs shows it earlier.
TAKEN_KEPT_S = 60
_GPUS = "gres/gpu"
_ALIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
_OURS = "tg-"


class QosRoom:
    """The free capacity of every QoS of one cluster, for several threads at once.

    It requests no list of jobs: it uses the last one.
    """

    def __init__(
        self,
        controller: SlurmController,
        accounting: SlurmAccounting,
        *,
        otherwise: str,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controller = controller
        self._accounting = accounting
        self._otherwise = otherwise
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._limits: Mapping[str, Mapping[str, int]] = {}
        self._limits_of: tuple[float, int] | None = None
        self._listed: tuple[SlurmJob, ...] = ()
        self._names: frozenset[str] = frozenset()
        self._in_use: Mapping[str, Counter[str]] = {}
        self._taken: dict[str, tuple[float, str, Counter[str]]] = {}

    def take(self, submission: Submission, *, may_borrow: bool = True) -> Submission:
        """Return `submission` with a QoS in which it can start: its own, or the borrow QoS.

        It gets the borrow QoS when its own is full and it `may_borrow`. Its GPUs are counted until
        a list shows the job or `give_back` is called. A limit that cannot be read does not count:
        Slurm itself then reports why the job waits.
        """
        asked = _counted({submission.gres_type: submission.gpus_per_node * submission.node_count})
        self._read_limits()
        with self._lock:
            self._read_list()
            limits = self._limits.get(submission.qos, {})
            in_use = self._in_use_of(submission.qos)
            is_full = any(
                in_use[name] + asked[name] > limits[name] for name in asked if name in limits
            )
            if is_full and may_borrow:
                return replace(submission, qos=self._otherwise)
            self._taken[submission.name] = (self._monotonic_s(), submission.qos, asked)
            return submission

    def give_back(self, submission: Submission) -> None:
        """Stop counting a submission that certainly was not made."""
        with self._lock:
            self._taken.pop(submission.name, None)

    def _in_use_of(self, qos: str) -> Counter[str]:
        """Return the GPUs of listed and taken jobs, by limit.

        Waiting jobs count, because they may start first.
        """
        found = Counter(self._in_use.get(qos))
        for _, of_qos, gpus in self._taken.values():
            if of_qos == qos:
                for name, count in gpus.items():
                    found[name] += count
        return found

    def _read_limits(self) -> None:
        if self._are_limits_known():
            return
        # While there are no limits yet, other starts wait for the first answer or its failure.
        if not self._asking.acquire(timeout=0 if self._limits_of else LIMITS_TIMEOUT_S):
            return
        try:
            if self._are_limits_known():
                return
            writes, limits = self._accounting.qos_writes, self._limits
            with suppress(ConnectorError):
                found = self._accounting.qos(timeout_s=LIMITS_TIMEOUT_S)
                limits = {qos.name: qos.group_tres for qos in found}
            with self._lock:
                # Set after a failure too: an accounting that hangs must not delay every start.
                self._limits, self._limits_of = limits, (self._monotonic_s(), writes)
        finally:
            self._asking.release()

    def _are_limits_known(self) -> bool:
        known = self._limits_of
        return (
            known is not None
            and known[1] == self._accounting.qos_writes
            and self._monotonic_s() - known[0] < LIMITS_KEPT_S
        )

    def _read_list(self) -> None:
        listed = self._controller.last_jobs
        if listed is not self._listed:
            in_use: dict[str, Counter[str]] = {}
            for job in listed:
                if job.state in _ALIVE and (not job.is_held or job.name.startswith(_OURS)):
                    of_qos = in_use.setdefault(job.qos, Counter())
                    of_qos.update(_counted(job.gpus_allocated or job.gpus_requested))
            self._listed, self._in_use = listed, in_use
            self._names = frozenset(job.name for job in listed)
        since_s = self._monotonic_s() - TAKEN_KEPT_S
        self._taken = {
            name: taken
            for name, taken in self._taken.items()
            if taken[0] > since_s and name not in self._names
        }


def _counted(gpus: Mapping[str, int]) -> Counter[str]:
    """Return GPUs by type as Slurm's limits count them; we never limit cores."""
    found: Counter[str] = Counter()
    for kind, count in gpus.items():
        if kind == CORES:
            continue
        found[_GPUS] += count
        if kind:
            found[f"{_GPUS}:{kind}"] += count
    return found
