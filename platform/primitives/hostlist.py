"""Slurm's short form of host names: `g[01-03,07],login1` is g01, g02, g03, g07 and login1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

MAX_HOSTS = 100_000
_MAX_TEXT = 1_000_000
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)", re.ASCII)
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)", re.ASCII)
_SPAN = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)


def expand(hostlist: str, *, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """Return the names in the order in which Slurm writes them; "" gives none.

    Widths are kept: `[08-10]` is 08, 09, 10. Several brackets in one name give all combinations;
    the last one varies fastest. Raises ValueError for a text that is no host list. Raises it for
    more than `limit` names too, before creating them.
    """
    if len(hostlist) > _MAX_TEXT:
        raise ValueError(f"a host list of {len(hostlist)} characters is too long")
    names: list[str] = []
    for item in _items(hostlist):
        parts, size = _parts(item, limit - len(names))
        if len(names) + size > limit:
            raise ValueError("a host list of too many names")
        names += map("".join, product(*parts))
    return tuple(names)


def _items(hostlist: str) -> list[str]:
    """Split at the commas outside of brackets."""
    if not hostlist:
        return []
    items, depth, start = [], 0, 0
    for at, character in enumerate(hostlist):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and not depth:
            items.append(hostlist[start:at])
            start = at + 1
        if depth not in (0, 1):
            raise ValueError(f"brackets do not match in the host list {hostlist[:80]!r}")
    if depth:
        raise ValueError(f"brackets do not match in the host list {hostlist[:80]!r}")
    return [*items, hostlist[start:]]


def _parts(item: str, limit: int) -> tuple[list[list[str]], int]:
    if not item:
        raise ValueError("a host list with an empty name")
    parts, size = [], 1
    for match in _PIECE.finditer(item):
        spans, literal = match.groups()
        choices = [literal] if literal is not None else _numbers(spans, limit)
        size *= len(choices)
        if size > limit:
            raise ValueError("a host list of too many names")
        parts.append(choices)
    return parts, size


def _numbers(spans: str, limit: int) -> list[str]:
    numbers: list[str] = []
    for span in spans.split(","):
        match = _SPAN.fullmatch(span)
        if match is None:
            raise ValueError(f"{span!r} is no range in a host list")
        first, last = match.group(1), match.group(2) or match.group(1)
        size = int(last) - int(first) + 1
        if size < 1:
            raise ValueError(f"the range {span!r} in a host list runs backwards")
        if len(numbers) + size > limit:
            raise ValueError("a host list of too many names")
        width = len(first)
        numbers += (str(number).zfill(width) for number in range(int(first), int(last) + 1))
    return numbers


def contract(names: Sequence[str]) -> str:
    """Return the host list of `names`, in their order, as Slurm writes it.

    Neighbours that differ only in their last number share one bracket: n01, n02, n04 is
    `n[01-02,04]`. `expand` of the result gives `names` again.
    """
    pieces: list[str] = []
    numbers: list[str] = []
    head: tuple[str, str] | None = None
    for name in names:
        match = _NUMBERED.fullmatch(name)
        found = None if match is None else (match[1], match[3])
        if found is None or found != head:
            pieces += _bracketed(head, numbers)
            head, numbers = found, []
        if match is None:
            pieces.append(name)
        else:
            numbers.append(match[2])
    return ",".join([*pieces, *_bracketed(head, numbers)])


def _bracketed(head: tuple[str, str] | None, numbers: Sequence[str]) -> list[str]:
    """Return the one host list item of `numbers` between the two parts of `head`, if there is any.

    A run ends where a number is not the one before it plus one, in the width of its first.
    """
    if head is None or not numbers:
        return []
    if len(numbers) == 1:
        return [f"{head[0]}{numbers[0]}{head[1]}"]
    spans: list[list[str]] = []
    for number in numbers:
        if spans and number == str(int(spans[-1][-1]) + 1).zfill(len(spans[-1][0])):
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return [f"{head[0]}[{','.join('-'.join(span) for span in spans)}]{head[1]}"]
