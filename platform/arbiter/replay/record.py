"""One cycle as plain data and back: its input, its policy, and its decisions (R-88).

Lists of dataclasses or named tuples become columns. Texts are in one table, and are referenced by
number. A column with only its field's default is omitted. So a record of 10,000 waiting jobs is
small even before compression. A record from before a field was added remains readable: the field
has its default. An unknown column is always an error, because the plan may depend on it.

The columns follow from the type hints of the fields: integers, booleans, texts and enumerations of
texts, rows of these, and tuples, frozen sets and mappings of these.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import EnumType
from functools import cache
from itertools import chain
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Protocol

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot

#: Increased when the previous version could not read a record even without new fields.
FORMAT = 1

#: Represents None in columns of text numbers, counts and distinct values.
_NONE = -1


class UnreadableRecord(Exception):
    """A record that this version cannot read; the message says why."""


class NewerRecord(UnreadableRecord):
    """A record of a later version, with content that this version does not know."""


@dataclass(frozen=True, slots=True)
class Record:
    """The plan that `decide(snapshot, policy)` gave in this `version` of the product."""

    version: str
    policy: Policy
    snapshot: Snapshot
    plan: Plan


def to_document(record: Record) -> dict[str, Any]:
    """Return `record` as dictionaries, lists, texts and integers."""
    texts = _Texts()
    table = _column(Record).write([record], texts)
    return {"format": FORMAT, "texts": texts.in_order(), "record": table}


def from_document(document: object) -> Record:
    """Return the record from which `to_document` made `document`, in this version or earlier.

    Raises NewerRecord and UnreadableRecord.
    """
    try:
        if not isinstance(document, dict) or type(document["format"]) is not int:
            raise UnreadableRecord("it is no record of a cycle")
        if document["format"] > FORMAT:
            raise NewerRecord(
                f"its format is {document['format']} and this version reads {FORMAT} at most"
            )
        texts = document["texts"]
        if any(type(text) is not str for text in texts):
            raise UnreadableRecord("one of its texts is none")
        (record,) = _column(Record).read(document["record"], 1, texts)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableRecord(f"it is damaged ({type(error).__name__}: {error})") from None
    if not isinstance(record, Record):
        raise UnreadableRecord("it is empty")
    return record


class _Texts(dict[str | None, int]):
    """The number of each text, in the order of first use; `_NONE` for None."""

    def __init__(self) -> None:
        super().__init__({None: _NONE})

    def __missing__(self, text: str | None) -> int:
        number = self[str(text)] = len(self) - 1
        return number

    def in_order(self) -> list[str]:
        """Return the texts by their numbers."""
        return [text for text in self if text is not None]


class _Column(Protocol):
    """Values of one type, converted to JSON values and back."""

    def write(self, values: Sequence[Any], texts: _Texts) -> Any: ...

    def read(self, data: Any, count: int, texts: Sequence[str]) -> list[Any]: ...


class _Plain:
    """Integers, booleans and None, unchanged."""

    def __init__(self, types: frozenset[type]) -> None:
        self._types = types

    def write(self, values: Sequence[Any], texts: _Texts) -> Any:
        return list(values)

    def read(self, data: Any, count: int, texts: Sequence[str]) -> list[Any]:
        if odd := set(map(type, data)) - self._types:
            raise ValueError(f"a {min(one.__name__ for one in odd)} where none can be")
        return list(data)


class _Text:
    """Texts and enumerations of texts, by their numbers in the table of all texts."""

    def __init__(self, make: Callable[[str], Any] | None) -> None:
        self._make = make

    def write(self, values: Sequence[Any], texts: _Texts) -> Any:
        # A record has hundreds of thousands of texts.
        return list(map(texts.__getitem__, values))

    def read(self, data: Any, count: int, texts: Sequence[str]) -> list[Any]:
        of: dict[int, Any] = {_NONE: None}
        for number in set(data):
            if number != _NONE:
                text = texts[_natural(number)]
                of[number] = text if self._make is None else self._make(text)
        return [of[number] for number in data]


class _Rows:
    """Rows of one type: a column for each field with any value that is not the default."""

    def __init__(self, cls: type) -> None:
        hints = typing.get_type_hints(cls)
        self._cls = cls
        self._fields = {
            name: (_column(hints[name]), default) for name, default in _defaults(cls).items()
        }

    def write(self, values: Sequence[Any], texts: _Texts) -> Any:
        columns = {}
        for (name, (column, default)), found in zip(
            self._fields.items(), self._columns_of(values), strict=True
        ):
            # The first value usually decides it.
            is_needed = default is MISSING or (found and found[0] != default)
            if is_needed or found.count(default) != len(found):
                columns[name] = column.write(found, texts)
        return columns

    def _columns_of(self, values: Sequence[Any]) -> Iterable[list[Any]]:
        if values and issubclass(self._cls, tuple):
            # For many wide rows this costs a third of reading each field of each row.
            return map(list, zip(*values, strict=True))
        return (list(map(attrgetter(name), values)) for name in self._fields)

    def read(self, data: Any, count: int, texts: Sequence[str]) -> list[Any]:
        if unknown := sorted(data.keys() - self._fields.keys()):
            raise NewerRecord(f"it has {unknown[0]!r} of {self._cls.__name__}, which is not known")
        found = []
        for name, (column, default) in self._fields.items():
            if name in data:
                values = column.read(data[name], count, texts)
                # Checked before that many defaults are created, because a damaged count may be any
                # number.
                if len(values) != count:
                    raise ValueError(f"columns of {self._cls.__name__} differ in length")
                found.append(values)
            elif default is MISSING:
                raise UnreadableRecord(f"it lacks {name!r} of {self._cls.__name__}")
            else:
                found.append([default] * count)
        return [self._cls(*row) for row in zip(*found, strict=True)]


class _Lists:
    """Tuples of rows: the number of rows of each, and all rows in sequence."""

    def __init__(self, item: type) -> None:
        self._rows = _column(item)

    def write(self, values: Sequence[Any], texts: _Texts) -> Any:
        counts = [_NONE if value is None else len(value) for value in values]
        rows = list(chain.from_iterable(value for value in values if value is not None))
        return {"counts": counts, "rows": self._rows.write(rows, texts)}

    def read(self, data: Any, count: int, texts: Sequence[str]) -> list[Any]:
        counts = data["counts"]
        total = sum(_natural(size) for size in counts if size != _NONE)
        rows = self._rows.read(data["rows"], total, texts)
        found: list[Any] = []
        at = 0
        for size in counts:
            found.append(None if size == _NONE else tuple(rows[at : at + size]))
            at += max(0, size)
        return found


class _Distinct:
    """Collections that many rows share: each object once, and its number in every row."""

    def __init__(
        self, items: _Column, open_: Callable[[Any], Iterable[Any]], close: Callable[[Any], Any]
    ) -> None:
        self._items = items
        self._open = open_
        self._close = close

    def write(self, values: Sequence[Any], texts: _Texts) -> Any:
        ids = list(map(id, values))
        kinds = dict(zip(ids, values, strict=True))
        kinds.pop(id(None), None)
        numbers = {id(None): _NONE} | {one: number for number, one in enumerate(kinds)}
        at = list(map(numbers.__getitem__, ids))
        opened = [list(self._open(value)) for value in kinds.values()]
        items = self._items.write(list(chain.from_iterable(opened)), texts)
        return {"at": at, "counts": list(map(len, opened)), "items": items}

    def read(self, data: Any, count: int, texts: Sequence[str]) -> list[Any]:
        counts = list(map(_natural, data["counts"]))
        items = self._items.read(data["items"], sum(counts), texts)
        of: dict[int, Any] = {_NONE: None}
        start = 0
        for number, size in enumerate(counts):
            of[number] = self._close(items[start : start + size])
            start += size
        if start != len(items):
            raise ValueError("a collection has too many items")
        return [of[number] for number in data["at"]]


class _Pairs:
    """Keys and values of mappings, in two columns."""

    def __init__(self, key: _Column, value: _Column) -> None:
        self._key = key
        self._value = value

    def write(self, values: Sequence[Any], texts: _Texts) -> Any:
        keys = self._key.write([key for key, _ in values], texts)
        return {"keys": keys, "values": self._value.write([value for _, value in values], texts)}

    def read(self, data: Any, count: int, texts: Sequence[str]) -> list[Any]:
        keys = self._key.read(data["keys"], count, texts)
        return list(zip(keys, self._value.read(data["values"], count, texts), strict=True))


class _NeverNone:
    """Values that are never None: a missing value in a damaged record is an error."""

    def __init__(self, column: _Column) -> None:
        self._column = column

    def write(self, values: Sequence[Any], texts: _Texts) -> Any:
        return self._column.write(values, texts)

    def read(self, data: Any, count: int, texts: Sequence[str]) -> list[Any]:
        found = self._column.read(data, count, texts)
        if None in found:
            raise ValueError("nothing where something must be")
        return found


@cache
def _column(hint: Any) -> _Column:
    """Return the column for values of a type. Raises TypeError for an unsupported type."""
    parts = (
        typing.get_args(hint)
        if isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union
        else (hint,)
    )
    solid = [part for part in parts if part is not NoneType]
    if solid and all(part in (int, bool) for part in solid):
        return _Plain(frozenset(parts))
    if len(solid) != 1:
        raise TypeError(f"no column for {hint}")
    (part,) = solid
    if _is_row(part) and NoneType not in parts:
        return _Rows(typing.cast(type, part))
    column = _nullable(part, typing.get_args(part))
    if column is None:
        raise TypeError(f"no column for {hint}")
    return column if NoneType in parts else _NeverNone(column)


def _nullable(part: Any, inner: Sequence[Any]) -> _Column | None:
    """Return the column for values of a type with `inner` types, or None."""
    origin = typing.get_origin(part)
    if part is str:
        return _Text(None)
    if isinstance(part, EnumType) and issubclass(part, str):
        return _Text(part)
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        if _is_row(inner[0]):
            return _Lists(typing.cast(type, inner[0]))
        return _Distinct(_column(inner[0]), iter, tuple)
    if origin is frozenset:
        return _Distinct(_column(inner[0]), sorted, frozenset)
    if origin is Mapping:
        pairs = _Pairs(_column(inner[0]), _column(inner[1]))
        return _Distinct(pairs, lambda value: value.items(), dict)
    return None


def _is_row(part: Any) -> bool:
    return is_dataclass(part) or (isinstance(part, type) and hasattr(part, "_field_defaults"))


def _defaults(cls: Any) -> dict[str, Any]:
    """Return the fields of a row in order, each with its default or MISSING."""
    if not is_dataclass(cls):
        return {name: cls._field_defaults.get(name, MISSING) for name in cls._fields}
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(cls)
    }


def _natural(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is no count")
    return number
