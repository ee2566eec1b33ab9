"""The cluster's own accounting of past runs, used to check our metering.

A kind without `ClusterKind.open_account` has no accounting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from connectors.errors import ClusterUnavailable


class AccountLate(ClusterUnavailable):
    """The accounting is not complete yet: the cluster has still to record something."""


@dataclass(frozen=True, slots=True)
class AccountedRun:
    """One run of a workload in the cluster's accounting: `mgpu` over `[started_at, ended_at)`.

    Times are epoch seconds by the cluster's clock. An `ended_at` of None means that the run goes
    on. `native_id` and `submitted_at` together identify a workload. A workload that its cluster
    restarted has one record per run. `key` is our workload key, or None for a native workload.
    `account`, `user` and `state` are the cluster's own names. `mgpu` is 0 on a cluster whose
    accounting does not record GPUs.

    A run may be resized. Then `mgpu` is its last size, and `before` lists the earlier ones, oldest
    first, as pairs: the time at which that size ended (epoch seconds) and the size (milli-GPU).

    A cluster may know a time only as a range. Then the start is in `[started_at, started_by]`, and
    the end in `[ended_from, ended_at]`. None means that the time is exact.
    """

    native_id: str
    submitted_at: int
    key: str | None
    name: str
    user: str
    account: str
    pool: str
    mgpu: int
    started_at: int
    ended_at: int | None
    state: str
    before: tuple[tuple[int, int], ...] = ()
    started_by: int | None = None
    ended_from: int | None = None

    def held_mgpu(self, at: int) -> int:
        """Return the milli-GPU that the run used at `at`, a moment within the run."""
        return next((mgpu for until, mgpu in self.before if at < until), self.mgpu)


@dataclass(frozen=True, slots=True)
class AccountedRuns:
    """Every run of a window, complete up to `as_of` by the cluster's clock.

    Without `has_natives`, the cluster keeps no record of runs that the portal did not submit. Such
    runs are then not compared.
    """

    as_of: int
    runs: tuple[AccountedRun, ...]
    has_natives: bool = True


class ClusterAccount(Protocol):
    """The cluster's accounting of past runs."""

    def account_of(self, team: str) -> str:
        """Return the cluster's name of the account of the team at path `team`.

        Raises WorkloadRejected for a team that can have no account there.
        """
        ...

    def runs(self, *, start: int, end: int) -> AccountedRuns:
        """Return every run with GPUs that overlaps `[start, end)`, always the complete set.

        The times of a run are its own and may lie outside the window.

        Raises AccountLate while the accounting may lack part of the window, and ClusterUnavailable
        when it cannot be read.
        """
        ...
