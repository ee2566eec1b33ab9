"""Taking nodes of a cluster out of use, and letting them in again.

A cluster whose kind is not in `registry.NODE_CONTROLS` cannot be asked to.
"""

from __future__ import annotations

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
