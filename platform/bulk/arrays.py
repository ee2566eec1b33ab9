"""Arrays as PostgreSQL reads them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID


def uuid_array(ids: Iterable[UUID | str]) -> str:
    """`ids` for a parameter that is cast to `uuid[]`: the driver quotes each id of a list by
    itself, which takes longer than the statement."""
    return "{" + ",".join(map(str, ids)) + "}"
