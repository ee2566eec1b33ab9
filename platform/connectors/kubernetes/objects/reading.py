"""Reads parts of objects as the API server sends them.

A missing part is empty. A part of a wrong type raises Odd.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any

Object = Mapping[str, Any]

_QUANTITY = re.compile(
    r"([0-9]{1,15})(?:(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)|[eE]\+?([0-9]{1,2}))?", re.ASCII
)
_FACTORS = {
    **{suffix: 1_000**power for power, suffix in enumerate(("", "k", "M", "G", "T", "P"))},
    **{f"{suffix}i": 1_024**power for power, suffix in enumerate("KMGTP", 1)},
}
#: Quantities with fractions, such as CPU and memory: https://kubernetes.io/docs/reference/
#: kubernetes-api/common-definitions/quantity/.
_DECIMAL = re.compile(
    r"([0-9]{1,18}(?:\.[0-9]{0,9})?)(?:(n|u|m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)|[eE]([+-]?[0-9]{1,2}))?",
    re.ASCII,
)
_FRACTIONS = {suffix: Decimal(10) ** -power for suffix, power in (("m", 3), ("u", 6), ("n", 9))}
_UNITS_MAX = 1 << 53
_EMPTY: Object = {}


class Odd(ValueError):
    """An object is invalid. The text says where."""


def part(item: Object, *path: str) -> Object:
    """Return the object at `path` of `item`; {} where there is none. Raises Odd."""
    found: Any = item
    for name in path:
        found = found.get(name)
        if found is None:
            return _EMPTY
        if not isinstance(found, Mapping):
            raise Odd(f"{'.'.join(path)} is no object")
    return found  # type: ignore[no-any-return]


def parts(item: Object, *path: str) -> tuple[Object, ...]:
    """Return the objects of the list at `path`; () where there is none. Raises Odd."""
    found = part(item, *path[:-1]).get(path[-1])
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise Odd(f"{'.'.join(path)} is no list of objects")
    return tuple(found)


def text(item: Object, *path: str) -> str:
    """Return the text at `path`; "" where there is none. Raises Odd."""
    found = part(item, *path[:-1]).get(path[-1])
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Odd(f"{'.'.join(path)} is no text")
    return found


def needed(item: Object, *path: str) -> str:
    """Return the text at `path`. Raises Odd where there is none."""
    found = text(item, *path)
    if not found:
        raise Odd(f"{'.'.join(path)} is missing")
    return found


def texts(item: Object, *path: str) -> Mapping[str, str]:
    """Return the labels, annotations or other texts by name at `path`. Raises Odd."""
    found = part(item, *path)
    if not all(isinstance(one, str) for one in found.values()):
        raise Odd(f"{'.'.join(path)} has values that are no texts")
    return found


def conditions(item: Object) -> Mapping[str, Object]:
    """Return the conditions of `item` by type. Raises Odd."""
    return {text(one, "type"): one for one in parts(item, "status", "conditions")}


def true_conditions(item: Object) -> frozenset[str]:
    """Return the types of the True conditions of `item`. Raises Odd."""
    return frozenset(
        text(one, "type")
        for one in parts(item, "status", "conditions")
        if text(one, "status") == "True"
    )


def is_true(item: Object, kind: str) -> bool:
    """Return whether `item` has the condition `kind` and it is True. Raises Odd."""
    return kind in true_conditions(item)


def number(item: Object, *path: str) -> int | None:
    """Return the integer at `path`; None where there is none. Raises Odd."""
    found = part(item, *path[:-1]).get(path[-1])
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or abs(found) > 1 << 53:
        raise Odd(f"{'.'.join(path)} is no integer")
    return found


def flag(item: Object, *path: str) -> bool | None:
    """Return the boolean at `path`; None where there is none. Raises Odd."""
    found = part(item, *path[:-1]).get(path[-1])
    if found is not None and not isinstance(found, bool):
        raise Odd(f"{'.'.join(path)} is neither true nor false")
    return found


def moment(item: Object, *path: str) -> int | None:
    """Return the time at `path` in epoch seconds; None where there is none. Raises Odd."""
    found = text(item, *path)
    return _epoch(found, ".".join(path)) if found else None


def units(item: Object, *path: str) -> int:
    """Return the quantity of an extended resource at `path`; 0 where there is none.

    Kubernetes allows only integers here, and stores them as written: also as "2k", "1Ki" or "1e3".
    Raises Odd.
    """
    found = part(item, *path[:-1]).get(path[-1])
    if found is None:
        return 0
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _UNITS_MAX:
        return found
    if not isinstance(found, str):
        raise Odd(f"{'.'.join(path)} is no quantity")
    read = _QUANTITY.fullmatch(found)
    if read is None:
        raise Odd(f"{'.'.join(path)} is no whole quantity")
    digits, suffix, exponent = read.groups()
    count = int(digits) * _FACTORS[suffix or ""] * 10 ** int(exponent or 0)
    if count >= _UNITS_MAX:
        raise Odd(f"{'.'.join(path)} is more than there can be")
    return int(count)


def cpu_milli(item: Object, *path: str) -> int | None:
    """Return the CPU quantity at `path`, rounded down to thousandths; None without one.

    Raises Odd.
    """
    return _scaled(item, path, 1_000)


def memory_mib(item: Object, *path: str) -> int | None:
    """Return the memory quantity at `path`, rounded down to MiB; None without one.

    Raises Odd.
    """
    found = _scaled(item, path, 1)
    return None if found is None else found >> 20


def cpu_nano(item: Object, *path: str) -> int | None:
    """Return the CPU quantity at `path` in billionths, which are exact; None without one.

    Raises Odd.
    """
    return _scaled(item, path, 10**9)


def memory_bytes(item: Object, *path: str) -> int | None:
    """Return the memory quantity at `path` in bytes; None without one. Raises Odd."""
    return _scaled(item, path, 1)


def cpu_milli_asked(item: Object, *path: str) -> int | None:
    """Return the same as `cpu_milli` for a request: rounded up, as the cluster's scheduler does."""
    return _scaled(item, path, 1_000, ROUND_CEILING)


def memory_mib_asked(item: Object, *path: str) -> int | None:
    """Return the same as `memory_mib` for a request: rounded up."""
    found = _scaled(item, path, 1, ROUND_CEILING)
    return None if found is None else -(-found >> 20)


def _scaled(
    item: Object, path: tuple[str, ...], factor: int, rounding: str = ROUND_FLOOR
) -> int | None:
    """Return `factor` times a quantity with decimals and any suffix, as an integer."""
    found = part(item, *path[:-1]).get(path[-1])
    if found is None:
        return None
    read = None if isinstance(found, bool) else _DECIMAL.fullmatch(str(found))
    if read is None:
        raise Odd(f"{'.'.join(path)} is no quantity")
    number, suffix, exponent = read.groups()
    scale = _FRACTIONS.get(suffix or "") or _FACTORS[suffix or ""]
    value = Decimal(number) * factor * Decimal(scale) * Decimal(10) ** int(exponent or 0)
    if value >= _UNITS_MAX:
        raise Odd(f"{'.'.join(path)} is more than there can be")
    return int(value.to_integral_value(rounding))


def printable(raw: str, length: int) -> str:
    """Return `raw` as a printable line of at most `length` characters."""
    shown = "".join(one if one.isprintable() else " " for one in raw[:length])
    return shown + ("..." if len(raw) > length else "")


@lru_cache(maxsize=1 << 14)
def _epoch(found: str, where: str) -> int:
    try:
        read = datetime.fromisoformat(found)
    except ValueError:
        raise Odd(f"{where} is no time") from None
    if read.tzinfo is None:
        raise Odd(f"{where} is a time without a zone")
    try:
        seconds = int(read.timestamp())
    except (OverflowError, ValueError):
        raise Odd(f"{where} is no time") from None
    if seconds < 0:
        raise Odd(f"{where} is before 1970")
    return seconds
