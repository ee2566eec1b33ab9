"""Reads YAML and JSON into plain values, with the line of each field, within bounds.

YAML is read from its events, so that neither deep nesting nor aliases of aliases cost more than
the bounds allow. Scalars are read as Kubernetes reads them: a date is a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

TEXT_BYTES_MAX = 256 << 10
DOCUMENTS_MAX = 50
DEPTH_MAX = 60
#: The most values of a text, those behind aliases counted as often as they appear.
VALUES_MAX = 20_000
_TEXT_MAX = 80

Path = tuple[str | int, ...]
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN = "tag:yaml.org,2002:"
_MERGE = "<<"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    word: value
    for words, value in ((("true", "yes", "on"), True), (("false", "no", "off"), False))
    for plain in words
    for word in (plain, plain.capitalize(), plain.upper())
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_OCTAL = re.compile(r"0o?[0-7]{1,15}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,15}")
_DECIMAL = re.compile(
    r"[-+]?(?:\.[0-9]{1,18}|[0-9]{1,18}\.[0-9]{0,18}|[0-9]{1,18}(?=[eE]))(?:[eE][-+]?[0-9]{1,2})?"
)


class Unreadable(ValueError):
    """The text is neither YAML nor JSON, or is beyond the bounds."""

    def __init__(self, line: int, detail: str) -> None:
        super().__init__(detail)
        self.line = line
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its `value`, and the line of each field of it by path."""

    number: int
    value: Any
    lines: Mapping[Path, int]

    def line_of(self, path: Path) -> int:
        """Return the line of the field at `path`, or of the nearest field around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 0


def read_documents(text: str) -> tuple[Document, ...]:
    """Return the documents in `text`, without empty ones. Items of a List are documents.

    Raises Unreadable.
    """
    size = len(text.encode(errors="replace"))
    if size > TEXT_BYTES_MAX:
        raise Unreadable(
            0, f"has {size:,} bytes; at most {TEXT_BYTES_MAX:,} are allowed. Give one job a file"
        )
    documents = _from_json(text) if text.lstrip()[:1] == "{" else _from_yaml(text)
    found: list[Document] = []
    for document in documents:
        items = _items_of(document)
        if len(found) + (1 if items is None else len(items)) > DOCUMENTS_MAX:
            raise Unreadable(0, f"has more than {DOCUMENTS_MAX} documents; give one job a file")
        found += (document,) if items is None else _documents_of(document, items)
    return tuple(found)


def _items_of(document: Document) -> list[Any] | None:
    """Return the items of a List; None for another object."""
    value = document.value
    if not (isinstance(value, dict) and value.get("kind") == "List"):
        return None
    items = value.get("items")
    return items if isinstance(items, list) else []


def _documents_of(document: Document, items: list[Any]) -> Iterator[Document]:
    lines: list[dict[Path, int]] = [{} for _ in items]
    for path, line in document.lines.items():
        if len(path) > 1 and path[0] == "items" and isinstance(number := path[1], int):
            lines[number][path[2:]] = line
    for number, item in enumerate(items):
        yield Document(document.number + number, item, lines[number])


def _from_json(text: str) -> list[Document]:
    count = 0

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal count
        count += len(pairs)
        if count > VALUES_MAX:
            raise Unreadable(0, f"has more than {VALUES_MAX:,} values")
        found = dict(pairs)
        if len(found) != len(pairs):
            raise Unreadable(0, "gives a field twice")
        return found

    try:
        value = json.loads(text, object_pairs_hook=mapping, parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        # YAML allows braces, too.
        try:
            return _from_yaml(text)
        except Unreadable:
            raise Unreadable(error.lineno, f"is no JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(0, "is no JSON that can be read") from None
    _check_depth(value)
    return [Document(1, value, {})]


def _no_number(word: str) -> None:
    raise Unreadable(0, f"has the value {word}, which is no JSON")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise Unreadable(0, f"is nested more than {DEPTH_MAX} levels deep")


def _from_yaml(text: str) -> list[Document]:
    try:
        return list(_Reader(text).documents())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 0 if mark is None else mark.line + 1
        raise Unreadable(line, f"is no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(0, f"is no YAML: {str(error)[:200]}") from None


class _Reader:
    """Builds values from the events of a YAML parser."""

    def __init__(self, text: str) -> None:
        self._events = iter(yaml.parse(text, Loader=_Loader))
        self._count = 0
        self._lines: dict[Path, int] = {}
        #: By anchor: the value, and how many values it has. None while it is read.
        self._anchors: dict[str, tuple[Any, int] | None] = {}

    def documents(self) -> Iterator[Document]:
        number = 0
        for event in self._events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            number += 1
            self._lines, self._anchors = {}, {}
            value = self._value(next(self._events), (), 0)
            if value is not None:
                yield Document(number, value, self._lines)

    def _next(self) -> Any:
        return next(self._events)

    def _value(self, event: Any, path: Path, depth: int) -> Any:
        line = event.start_mark.line + 1
        self._lines.setdefault(path, line)
        if depth > DEPTH_MAX:
            raise Unreadable(line, f"is nested more than {DEPTH_MAX} levels deep")
        self._count_up(1, line)
        anchor: str | None = event.anchor
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(anchor), line)
        before = self._count
        if anchor is not None:
            self._anchors[anchor] = None
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                value.append(self._value(item, (*path, len(value)), depth + 1))
        else:
            value = self._mapping(path, depth)
        if anchor is not None:
            self._anchors[anchor] = (value, self._count - before + 1)
        return value

    def _count_up(self, count: int, line: int) -> None:
        self._count += count
        if self._count > VALUES_MAX:
            raise Unreadable(line, f"has more than {VALUES_MAX:,} values, aliases counted")

    def _alias(self, anchor: str, line: int) -> Any:
        known = self._anchors.get(anchor)
        if known is None:
            raise Unreadable(line, f"the alias *{anchor[:_TEXT_MAX]} has no value before it")
        value, count = known
        self._count_up(count, line)
        return value

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: list[Any] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            if not isinstance(event, yaml.ScalarEvent):
                raise Unreadable(line, "has a field whose name is no text")
            name = event.value
            if name == _MERGE and event.implicit[0]:
                value = self._value(next(self._events), (*path, _MERGE), depth + 1)
                merged += value if isinstance(value, list) else [value]
                continue
            if name in found:
                raise Unreadable(line, f"gives the field {name[:_TEXT_MAX]!r} twice")
            self._lines[(*path, name)] = line
            found[name] = self._value(next(self._events), (*path, name), depth + 1)
        for one in merged:
            if not isinstance(one, dict):
                raise Unreadable(self._lines.get(path, 0), "<< merges what is no mapping")
            for name, value in one.items():
                found.setdefault(name, value)
        return found


def _scalar(event: Any, line: int) -> Any:
    text: str = event.value
    if event.tag is not None and event.tag != "!":
        kind = event.tag.removeprefix(_PLAIN)
        if kind == "str":
            return text
        if kind not in ("int", "float", "bool", "null") or event.tag == kind:
            raise Unreadable(line, f"has the tag {event.tag[:_TEXT_MAX]!r}; leave it out")
    elif not event.implicit[0]:
        return text
    return plain_value(text)


def plain_value(text: str) -> Any:
    """Return the value of a scalar without quotes and tag: a text, or what it looks like."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text.replace("o", ""), 8)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return text
