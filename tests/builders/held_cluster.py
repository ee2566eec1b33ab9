"""A cluster that holds submissions, for what the portal makes of its listings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.errors import ClusterUnavailable
from connectors.protocol import Observation


@dataclass
class AClusterThatHolds:
    """Answers what it was given and remembers what it was asked.

    `accounting` of None does not answer; `away` makes every release and removal fail.
    """

    submits_held: bool = True
    settle_s: int = 7
    accounting: Mapping[tuple[str, str], Observation] | None = field(default_factory=dict)
    away: bool = False
    asked: list[str] = field(default_factory=list)
    released: list[tuple[str, str]] = field(default_factory=list)
    removed: list[tuple[str, str]] = field(default_factory=list)

    def find_ended(self, key: str, native_id: str) -> Observation | None:
        """The account of an ended workload."""
        if self.accounting is None:
            raise ClusterUnavailable("accounting is away")
        self.asked.append(key)
        return self.accounting.get((native_id, key))

    def release(self, key: str, native_id: str) -> None:
        """Remember it."""
        self._answer(self.released, key, native_id)

    def remove_copy(self, key: str, native_id: str) -> None:
        """Remember it."""
        self._answer(self.removed, key, native_id)

    def _answer(self, calls: list[tuple[str, str]], key: str, native_id: str) -> None:
        if self.away:
            raise ClusterUnavailable("away")
        calls.append((key, native_id))
