"""Draining, emptying and resuming the nodes of a cluster.

A kind without `ClusterKind.control_nodes` cannot drain nodes. A kind without
`ClusterKind.control_eviction` lets running work on a drained node go on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol


class NodeControl(Protocol):
    """Drains and resumes nodes. Both methods are idempotent.

    - Raises ClusterUnavailable when nothing is known to have happened: send again later.
    - Raises NotOffered when this cluster's API version cannot change nodes.
    - Raises NodeRefused when the cluster refuses this change of the node.
    """

    def drain(self, node: str, reason: str) -> None:
        """Let nothing new start on `node`; running work goes on. `reason` is one line."""
        ...

    def resume(self, node: str) -> None:
        """Let new work start on `node` again."""
        ...


@dataclass(frozen=True, slots=True)
class LeftOnNode:
    """The work that is still on a node during an eviction.

    `jobs` are the native ids of our jobs there. `others` is the number of further workloads that
    have to go. `refusals` say what blocks the eviction of some of these.
    """

    jobs: frozenset[str] = frozenset()
    others: int = 0
    refusals: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Return whether everything that had to go is gone."""
        return not self.jobs and self.others == 0


class NodeEviction(Protocol):
    """Empties drained nodes. Raises the errors of `NodeControl`."""

    def evict(self, node: str, *, grace_s: int, jobs: Collection[str]) -> LeftOnNode:
        """Evict what runs on the drained `node` and return what is left; repeat until nothing is.

        `jobs` are the native ids of all our jobs on the cluster. They are only reported, never
        evicted: the portal itself notifies and stops them. Everything else may take as long to end
        as it asks for, but at most `grace_s` seconds.
        """
        ...
