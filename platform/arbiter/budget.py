"""How much one cycle may decide."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Budget:
    """How many jobs may still start in a cycle, and for how many GPUs may still be taken back."""

    starts: int
    reclaims: int

    def does_as(self, other: Budget, starts: int, reclaims: int) -> bool:
        """Whether a cycle that did so much with `other` would have done the same with this."""
        return _does_as(self.starts, other.starts, starts) and _does_as(
            self.reclaims, other.reclaims, reclaims
        )


def _does_as(mine: int, theirs: int, used: int) -> bool:
    return mine == theirs or used < min(mine, theirs)
