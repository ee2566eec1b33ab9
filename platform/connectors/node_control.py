"""Taking nodes of a cluster out of use, emptying them, and letting them in again.

A cluster whose kind has no `ClusterKind.control_nodes` cannot be asked to. One whose kind has no
`ClusterKind.control_eviction` leaves on a drained node what runs there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol


class NodeControl(Protocol):
    """Both methods are idempotent, and raise

    - ClusterUnavailable when nothing is known to have happened: send again later,
    - NotOffered when this cluster's API version cannot change nodes,
    - NodeRefused when the cluster will not change this one so.
    """

    def drain(self, node: str, reason: str) -> None:
        """Let nothing new start on `node`; what runs there goes on. `reason` is one line."""
        ...

    def resume(self, node: str) -> None:
        """Let new work start on `node` again."""
        ...


@dataclass(frozen=True, slots=True)
class LeftOnNode:
    """What is still on a node that is being emptied.

    `jobs` are the native ids of our jobs there, `others` how many more there are that have to go,
    and `refusals` say of some of those that may not go now what keeps them.
    """

    jobs: frozenset[str] = frozenset()
    others: int = 0
    refusals: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether all that had to go is gone."""
        return not self.jobs and self.others == 0


class NodeEviction(Protocol):
    """Raises what `NodeControl` does."""

    def evict(self, node: str, *, grace_s: int, jobs: Collection[str]) -> LeftOnNode:
        """Send away what runs on the drained `node`, and tell what is left; again until nothing is.

        Of `jobs`, the native ids of all that we run on the cluster, nothing is touched, only told:
        who runs them gives notice and stops them. All else may take as long to end as it asks for
        itself, and `grace_s` at most.
        """
        ...
