"""Data that the arbiter requests only in cycles that may decide something."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from arbiter.api.snapshot import Balance, RunningJob, Usage


class Accounts(Protocol):
    """Use, credits and checkpoints as of `now`, for callers that compute them anew for each cycle.

    Within one cycle the same question always has the same answer.
    """

    def usage(self, team: str, now: int) -> Iterable[Usage]:
        """Return the recent use of each user of a team."""
        ...

    def balances(self, now: int) -> Iterable[Balance]:
        """Return all credits."""
        ...

    def checkpoint_at(self, run: RunningJob, now: int) -> int | None:
        """Return when an attempt last checkpointed, in epoch seconds, or None.

        It is used in addition to the checkpoint that `run` contains.
        """
        ...
