"""What tree nodes are entitled to on one cluster, and the differences to what the cluster has.

For clusters that keep limits of their own. One whose kind has no
`ClusterKind.control_entitlements` keeps none.
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
    """Whole GPUs of one pool on one cluster: what is guaranteed, and how many may be in use at
    once, borrowed ones included. A ceiling of None is no limit."""

    guaranteed_gpus: int
    ceiling_gpus: int | None


@dataclass(frozen=True, slots=True)
class Terms:
    """A node's quota in one pool in full, for clusters that know nested quotas themselves.

    `guaranteed_mgpu` is the node's with all that is below it. How much of it others may use while
    it is idle, and how far above it the node may go: None is no limit of its own.
    """

    guaranteed_mgpu: int
    lend_limit_mgpu: int | None = None
    borrow_limit_mgpu: int | None = None


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What the node at `path` ("ai-company/research/nlp") has on the cluster, by pool.

    `users` are the cluster's names of those who may submit; only teams have any. In a pool
    without `terms` it is guaranteed nothing and has no limits of its own.
    """

    path: str
    is_team: bool
    shares: Mapping[str, Share]
    weight: int
    users: tuple[str, ...] = ()
    terms: Mapping[str, Terms] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entitlements:
    """All of one cluster, parents before children.

    `organizations` are the slugs of all that the portal knows: what the cluster has below one
    of them is ours. `grace_s` is what borrowers are given when their GPUs are taken back.
    `spare_mgpu` is what each pool has, healthy or not and on all of its clusters, above what its
    organizations are guaranteed.
    """

    nodes: tuple[Entitlement, ...]
    organizations: frozenset[str]
    grace_s: int
    spare_mgpu: Mapping[str, int] = field(default_factory=dict)


class ChangeKind(StrEnum):
    """What a change does; a change that gives and takes is two changes."""

    LOWER = "lower"
    DELETE = "delete"
    CREATE = "create"
    RAISE = "raise"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: `thing` of `name`, and of `user` for a member. What things there are is the
    cluster's: "account", "qos" and "member" on Slurm, "cohort", "namespace" and others on
    Kubernetes. `path` is the node of the tree that it is for, where the name does not tell.

    `before` is what the cluster has and `after` what it should have, by setting; nothing is
    before what is made, nor after what is removed. `note` is for people. One that `is_blocked`
    has to wait for what the note says.
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
        """What is changed, in words that name nothing else of the cluster."""
        if self.user:
            return f"{self.thing} {self.user} of {self.name}"
        if not self.path:
            return f"{self.thing} {self.name}"
        path = (
            self.path if len(self.path) <= _PATH_SHOWN_MAX else f"{self.path[:_PATH_SHOWN_MAX]}..."
        )
        return f"{self.thing} {self.name} ({path})"


class EntitlementControl(Protocol):
    """Every method may raise ClusterUnavailable, or OutcomeUnknown where a write may have
    happened; both may be called again."""

    def changes(self, wanted: Entitlements) -> tuple[Change, ...]:
        """The exact difference to what the cluster has, in the order in which it is to be made:
        what is taken first, what is given after, parents before children."""
        ...

    def apply(self, change: Change) -> None:
        """Make one change and read it back. Idempotent.

        Raises WorkloadRejected or NotOffered with a sentence when the cluster refuses it for good.
        """
        ...
