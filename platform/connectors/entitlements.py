"""What tree nodes are entitled to on one cluster, and the differences to what the cluster has.

For clusters that keep limits of their own. One whose kind is not in
`registry.ENTITLEMENT_CONTROLS` keeps none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

#: A value of a cluster's setting; None is "no limit".
Value = int | str | list[str] | None


@dataclass(frozen=True, slots=True)
class Share:
    """Whole GPUs of one pool on one cluster: what is guaranteed, and how many may be in use at
    once, borrowed ones included. A ceiling of None is no limit."""

    guaranteed_gpus: int
    ceiling_gpus: int | None


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What the node at `path` ("ai-company/research/nlp") has on the cluster, by pool.

    `users` are the cluster's names of those who may submit; only teams have any.
    """

    path: str
    is_team: bool
    shares: Mapping[str, Share]
    weight: int
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entitlements:
    """All of one cluster, parents before children.

    `organizations` are the slugs of all that the portal knows: what the cluster has below one
    of them is ours. `grace_s` is what borrowers are given when their GPUs are taken back.
    """

    nodes: tuple[Entitlement, ...]
    organizations: frozenset[str]
    grace_s: int


class ChangeKind(StrEnum):
    """What a change does; a change that gives and takes is two changes."""

    LOWER = "lower"
    DELETE = "delete"
    CREATE = "create"
    RAISE = "raise"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: `thing` ("account", "qos", "member") of `name`, and of `user` for a member.

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

    @property
    def subject(self) -> str:
        """What is changed, in words that name nothing else of the cluster."""
        return (
            f"{self.thing} {self.user} of {self.name}" if self.user else f"{self.thing} {self.name}"
        )


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
