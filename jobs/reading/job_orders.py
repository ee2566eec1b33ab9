"""The orders of the list of jobs, and the positions after which its pages begin.

Every order ends with the id of the job, so it is total, and a page begins after one job. A key of
jobs has an index with the id. A key of teams or users goes through these in their order, and takes
the first jobs of each by the index on its jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from primitives.errors import FieldError, InvalidRequest
from webapi.paging import decode_cursor, encode_cursor, uuid_or_refuse

Value = str | int | datetime

#: The times of a job as its orders have them: jobs without the time come before all others.
STARTED_AT: Final = "coalesce(j.started_at, '1970-01-01T00:00:00+00:00')"
ENDED_AT: Final = "coalesce(j.ended_at, '1970-01-01T00:00:00+00:00')"
_INTEGER_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _Key:
    """A column of the list as SQL over a job `j`, or over a row `k` of `table`.

    `column` of the job is then the id of the row. Equal values are newest first in the ascending
    order if `newest_first`, as in its index.
    """

    sql: str
    kind: type[str] | type[int] | type[datetime]
    table: str = ""
    column: str = ""
    newest_first: bool = False


SUBMITTED_AT: Final = "submitted_at"
_KEYS: Final = {
    # Ids are by the time of submission.
    SUBMITTED_AT: _Key("''", str),
    "started_at": _Key(STARTED_AT, datetime),
    "ended_at": _Key(ENDED_AT, datetime),
    "gpus": _Key("(j.mgpu_per_node * j.node_count)", int),
    "name": _Key("UPPER(j.name::text)", str, newest_first=True),
    "state": _Key("j.state", str, newest_first=True),
    "team": _Key("k.path", str, "tenants_node", "team_id", newest_first=True),
    "user": _Key("k.username", str, "tenants_user", "user_id", newest_first=True),
}
#: The names of all orders; `-` reverses one.
ORDERS: Final = tuple(sign + name for name in _KEYS for sign in ("-", ""))


@dataclass(frozen=True, slots=True)
class Position:
    """The place of a job in an order: the value of its key, and its id."""

    value: Value
    job_id: UUID


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the list, by its name in `ORDERS`."""

    name: str = f"-{SUBMITTED_AT}"

    @property
    def is_descending(self) -> bool:
        """Return whether large values come first."""
        return self.name.startswith("-")

    @property
    def is_by_id(self) -> bool:
        """Return whether the id alone is the order."""
        return self._key_name == SUBMITTED_AT

    @property
    def _key_name(self) -> str:
        return self.name.removeprefix("-")

    @property
    def _key(self) -> _Key:
        return _KEYS[self._key_name]

    @property
    def _has_newest_first(self) -> bool:
        return self._key.newest_first != self.is_descending

    @property
    def order_sql(self) -> str:
        """The columns 1 (key) and 2 (id) of a select, in this order."""
        by_id = "2 DESC" if self._has_newest_first else "2"
        return by_id if self.is_by_id else f"{'1 DESC' if self.is_descending else '1'}, {by_id}"

    def select_sql(self, where: str, *, is_wide: bool) -> str:
        """Return a select of the key and the id of jobs, with one LIMIT at its end, or two.

        `where` is a condition on `j`. `is_wide` says that it is met by most jobs.
        """
        key, ending = self._key, f"ORDER BY {self.order_sql} LIMIT %s"
        if not key.table:
            return f"SELECT {key.sql}, j.id FROM jobs_job j WHERE {where} {ending}"  # noqa: S608
        if not is_wide:
            return (
                f"SELECT {key.sql}, j.id FROM jobs_job j JOIN {key.table} k"  # noqa: S608
                f" ON k.id = j.{key.column} WHERE {where} {ending}"
            )
        direction = "DESC" if self.is_descending else "ASC"
        by_id = "DESC" if self._has_newest_first else "ASC"
        return (
            f"SELECT {key.sql}, j.id"  # noqa: S608
            f" FROM (SELECT * FROM {key.table} k ORDER BY {key.sql} {direction} OFFSET 0) k"
            f" CROSS JOIN LATERAL (SELECT j.id FROM jobs_job j WHERE j.{key.column} = k.id"
            f" AND {where} ORDER BY j.id {by_id} LIMIT %s) j {ending}"
        )

    def limits_in(self, *, is_wide: bool) -> int:
        """Return the number of LIMITs in `select_sql`."""
        return 2 if self._key.table and is_wide else 1

    def after_sql(self, position: Position) -> tuple[str, list[Value | UUID]]:
        """Return the condition that a job comes after `position`, and its values."""
        by_id = "j.id < %s" if self._has_newest_first else "j.id > %s"
        if self.is_by_id:
            return by_id, [position.job_id]
        sign = "<" if self.is_descending else ">"
        # The first half is what an index serves.
        key = self._key.sql
        return (
            f"{key} {sign}= %s AND ({key} {sign} %s OR {by_id})",
            [position.value, position.value, position.job_id],
        )

    def cursor_of(self, position: Position) -> str:
        """Return the cursor of the page after `position`."""
        if self.is_by_id:
            return encode_cursor([str(position.job_id)])
        value = position.value
        text = value.isoformat() if isinstance(value, datetime) else str(value)
        return encode_cursor([self.name, text, str(position.job_id)])

    def position_in(self, cursor: str) -> Position:
        """Return the position in a cursor. Raises InvalidRequest for that of another order."""
        if self.is_by_id:
            (job_id,) = decode_cursor(cursor, parts=1)
            return Position("", uuid_or_refuse(job_id, "cursor"))
        name, text, job_id = decode_cursor(cursor, parts=3)
        value = _value_in(text, self._key.kind)
        if name != self.name or value is None:
            raise InvalidRequest(
                "The cursor is of another order. Start again without it.",
                errors=[FieldError("/cursor", "is not a cursor of this order")],
            )
        return Position(value, uuid_or_refuse(job_id, "cursor"))


def _value_in(text: str, kind: type[str] | type[int] | type[datetime]) -> Value | None:
    """Return the value of a key in its text; None if there is none."""
    if kind is str:
        return text
    try:
        if kind is int:
            number = int(text)
            return number if 0 <= number <= _INTEGER_MAX else None
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
