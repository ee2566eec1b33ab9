"""What a core asks for in a cycle that may decide something, and in no other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from arbiter.api.snapshot import Balance, RunningJob, Usage


class Accounts(Protocol):
    """Use, credits and checkpoints as of `now`, for who would have to work them out anew for each
    cycle. To one question there is one answer in a cycle."""

    def usage(self, team: str, now: int) -> Iterable[Usage]:
        """What the users of a team have used lately."""
        ...

    def balances(self, now: int) -> Iterable[Balance]:
        """All credits."""
        ...

    def checkpoint_at(self, run: RunningJob, now: int) -> int | None:
        """When an attempt last saved its work, where `run` does not say so itself."""
        ...
