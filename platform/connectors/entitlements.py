"""The quotas that tree nodes should have on one cluster, and how the cluster differs from them.

This is for clusters that enforce limits themselves. A kind without
`ClusterKind.control_entitlements` enforces none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

#: A value of a cluster's setting; None is "no limit".
Value = int | str | list[str] | None
_PATH_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class Share:
    """Limits of one node in one pool of one cluster, in whole GPUs.

    `guaranteed_gpus` is the guarantee. `ceiling_gpus` is the most that may be in use at once,
    including borrowed GPUs; None means no limit.
    """

    guaranteed_gpus: int
    ceiling_gpus: int | None


@dataclass(frozen=True, slots=True)
class Terms:
    """A node's complete quota in one pool, for clusters that enforce nested quotas themselves.

    `guaranteed_mgpu` covers the node and everything below it. `lend_limit_mgpu` is how much of it
    others may use while it is idle. `borrow_limit_mgpu` is how far the node may go above it. None
    means that the node sets no limit of its own.
    """

    guaranteed_mgpu: int
    lend_limit_mgpu: int | None = None
    borrow_limit_mgpu: int | None = None


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The quotas of the node at `path` ("ai-company/research/nlp") on the cluster, by pool.

    `users` are the cluster's names of the people who may submit; only teams have any. In a pool
    that `terms` lacks, the node has no guarantee and no limits of its own.
    """

    path: str
    is_team: bool
    shares: Mapping[str, Share]
    weight: int
    users: tuple[str, ...] = ()
    terms: Mapping[str, Terms] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entitlements:
    """The entitlements of one cluster, parents before children.

    `organizations` are the slugs of every organization in the portal: everything below one of them
    on the cluster is ours to change. `grace_s` is the notice in seconds that a borrower gets before
    a reclaim. `spare_mgpu` is by pool the capacity beyond the guarantees of its organizations. It
    counts unhealthy nodes too, over all clusters of the pool.
    """

    nodes: tuple[Entitlement, ...]
    organizations: frozenset[str]
    grace_s: int
    spare_mgpu: Mapping[str, int] = field(default_factory=dict)


class ChangeKind(StrEnum):
    """The direction of a change. A change that both lowers and raises is split into two changes."""

    LOWER = "lower"
    DELETE = "delete"
    CREATE = "create"
    RAISE = "raise"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between cluster and entitlements: a `thing` called `name` has to change.

    `user` is set for a membership. The cluster defines the kinds of `thing`: "account", "qos" and
    "member" on Slurm; "cohort", "namespace" and others on Kubernetes. `path` is the tree node
    behind the change, where the name does not show it.

    `before` holds the current settings on the cluster and `after` the intended ones. `before` is
    empty for an object to create, `after` for one to remove. `note` is a text for people. A change
    that `is_blocked` waits for what the note says.
    """

    kind: ChangeKind
    thing: str
    name: str
    user: str = ""
    before: Mapping[str, Value] = field(default_factory=dict)
    after: Mapping[str, Value] = field(default_factory=dict)
    note: str = ""
    is_blocked: bool = False
    path: str = ""

    @property
    def subject(self) -> str:
        """A description of the object that changes. It names nothing else of the cluster."""
        if self.user:
            return f"{self.thing} {self.user} of {self.name}"
        if not self.path:
            return f"{self.thing} {self.name}"
        path = (
            self.path if len(self.path) <= _PATH_SHOWN_MAX else f"{self.path[:_PATH_SHOWN_MAX]}..."
        )
        return f"{self.thing} {self.name} ({path})"


class EntitlementControl(Protocol):
    """Reads and writes the limits that the cluster enforces.

    Every method may raise ClusterUnavailable, or OutcomeUnknown where a write may have happened.
    After either, the call may be repeated.
    """

    def changes(self, wanted: Entitlements) -> tuple[Change, ...]:
        """Return the exact difference to what the cluster has, in the order in which to apply it.

        Reductions come before increases, and parents before children.
        """
        ...

    def apply(self, change: Change) -> None:
        """Make one change and read it back. Idempotent.

        Raises WorkloadRejected or NotOffered, with a sentence, when the cluster refuses the change
        for good.
        """
        ...
