"""Slurm's short form of host names: `g[01-03,07],login1` is g01, g02, g03, g07 and login1."""

from __future__ import annotations

import re
from itertools import product

MAX_HOSTS = 100_000
_MAX_TEXT = 1_000_000
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)", re.ASCII)
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
