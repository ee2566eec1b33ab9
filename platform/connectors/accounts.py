"""A cluster's own account of what ran on it, by which our meter is checked.

A cluster whose kind has no `ClusterKind.open_account` keeps none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from connectors.errors import ClusterUnavailable


class AccountLate(ClusterUnavailable):
    """The account is not complete yet: the cluster has not told it everything."""


@dataclass(frozen=True, slots=True)
class AccountedRun:
    """One run of a workload by the cluster's own account: `mgpu` over `[started_at, ended_at)`.

    Times are the cluster's epoch seconds; an `ended_at` of None is a run that goes on.
    `native_id` and `submitted_at` tell workloads apart; one that its cluster began anew has a
    record for each run. `key` is ours where it is one of our workloads. `account` and `user` are
    the cluster's names, `state` its own word. `mgpu` 0 is a cluster that keeps no account of GPUs.
    Where what it held was changed while it ran, `mgpu` is what it held last, and `before` what it
    held until when (epoch seconds, milli-GPU), oldest first.
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

    def held_mgpu(self, at: int) -> int:
        """What it held at a moment at which it ran."""
        return next((mgpu for until, mgpu in self.before if at < until), self.mgpu)


@dataclass(frozen=True, slots=True)
class AccountedRuns:
    """Every run of a window, complete up to `as_of` by the cluster's clock."""

    as_of: int
    runs: tuple[AccountedRun, ...]


class ClusterAccount(Protocol):
    """What the cluster's accounting says of the past."""

    def account_of(self, team: str) -> str:
        """The cluster's name for the account of the team at path `team`. Raises WorkloadRejected
        for one that can have none there."""
        ...

    def runs(self, *, start: int, end: int) -> AccountedRuns:
        """Every run with GPUs that held them at any moment of `[start, end)`, with its own times,
        which may lie outside.

        Raises AccountLate while the account may lack something of the window, and
        ClusterUnavailable when it cannot be had: never less than everything.
        """
        ...
