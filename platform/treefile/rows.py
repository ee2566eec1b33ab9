"""The rows of a tree file: nodes, and their members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

from quotas.administration import QuotaEdit

#: Limits of a file. A body of the API has at most 4 MiB, and escapes need some of it.
BYTES_MAX = 3_000_000
ROWS_MAX = 20_000


class Format(StrEnum):
    """The format of a tree file."""

    CSV = "csv"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """An organization, department or team. `path` has no last slash; `line` begins at 1.

    With the `id` of an existing node, another path means that the node is to be moved.
    """

    line: int
    kind: str
    path: str
    name: str
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A role of a user on the node at `path`. `user` is a login or a mail address.

    `name` is the name of an invited person. A known user has that name, or it is empty. With
    `keeps_expiry`, the file has no expiries: those of present roles and invitations stay.
    """

    line: int
    path: str
    user: str
    role: str
    expires_at: datetime | None = None
    name: str = ""
    keeps_expiry: bool = False


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """The quota of the node at `path` in a pool. `edit` has the settings that the row gives."""

    line: int
    path: str
    pool: str
    edit: QuotaEdit


@dataclass(frozen=True, slots=True)
class TreeFile:
    """All rows of a file."""

    nodes: Sequence[NodeRow]
    members: Sequence[MemberRow]
    quotas: Sequence[QuotaRow] = ()


@dataclass(frozen=True, slots=True)
class LineError:
    """A refused line, and a sentence that says what to do. Line 0 is the whole file."""

    line: int
    sentence: str


def moment_text(moment: datetime | None) -> str:
    """Return a moment as a file has it, in UTC; empty for None."""
    return "" if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
