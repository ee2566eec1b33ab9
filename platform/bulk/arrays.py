"""Arrays in the text form of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID


def uuid_array(ids: Iterable[UUID | str]) -> str:
    """Return `ids` as the text of a parameter that is cast to `uuid[]`.

    A list would be slower: the driver quotes each of its ids on its own, and that takes longer than
    the statement.
    """
    return "{" + ",".join(map(str, ids)) + "}"
