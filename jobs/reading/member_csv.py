"""The members of a node as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from jobs.reading.members import Member, NodeMembers
from primitives.csv_text import csv_line, plain_text
from primitives.errors import InvalidRequest

#: The most members of one file. A file is always complete.
MEMBERS_MAX = 10_000
#: New columns are added at the end. A column never changes its meaning.
COLUMNS = (
    "login",
    "name",
    "email",
    "kind",
    "is_active",
    "source",
    "role",
    "role_node",
    "role_expires_at",
    "last_active_at",
    "guaranteed_mgpu",
    "borrowed_mgpu",
    "month_mgpu_s",
)


def csv_lines(members: NodeMembers) -> Iterator[str]:
    """Yield the header, then a line for each role of each member, each ended by CR LF.

    The use stands on the first line of a member only, so that columns can be summed. Raises
    InvalidRequest for more than `MEMBERS_MAX` members, before the first line.
    """
    users = list(members.users().order_by("login")[: MEMBERS_MAX + 1])
    if len(users) > MEMBERS_MAX:
        raise InvalidRequest(
            f"{members.node.display_path} has more than {MEMBERS_MAX:,} members. Export the nodes "
            "below it one by one."
        )
    yield csv_line(COLUMNS)
    for member in members.described(users):
        yield from _lines_of(member)


def _lines_of(member: Member) -> Iterator[str]:
    user = member.user
    used = (
        str(sum(use.guaranteed_mgpu for use in member.uses)),
        str(sum(use.borrowed_mgpu for use in member.uses)),
        str(member.month_mgpu_s),
    )
    roles = [
        (grant.role, "" if grant.node is None else grant.node.display_path, grant.expires_at)
        for grant in member.roles
    ]
    for number, (role, node, expires_at) in enumerate(roles or [("", "", None)]):
        texts = (user.login, user.name, user.email, user.kind)
        yield csv_line(
            (
                *map(plain_text, texts),
                "true" if user.is_active else "false",
                member.source,
                role,
                node,
                _time(expires_at),
                _time(member.last_active_at),
                *(used if number == 0 else ("0", "0", "0")),
            )
        )


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat()
