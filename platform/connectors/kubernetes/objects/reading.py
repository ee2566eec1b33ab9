"""Reading parts of objects as the API server sends them: what is missing is empty, what is of the
wrong type is said."""

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
#: What may have parts of a whole, as CPU and memory: https://kubernetes.io/docs/reference/
#: kubernetes-api/common-definitions/quantity/.
_DECIMAL = re.compile(
    r"([0-9]{1,18}(?:\.[0-9]{0,9})?)(?:(n|u|m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)|[eE]([+-]?[0-9]{1,2}))?",
    re.ASCII,
)
_FRACTIONS = {suffix: Decimal(10) ** -power for suffix, power in (("m", 3), ("u", 6), ("n", 9))}
_UNITS_MAX = 1 << 53
_EMPTY: Object = {}


class Odd(ValueError):
    """An object says what makes no sense; the text says where."""


def part(item: Object, *path: str) -> Object:
    """The object at `path` of `item`, {} where there is none. Raises Odd."""
    found: Any = item
    for name in path:
        found = found.get(name)
        if found is None:
            return _EMPTY
        if not isinstance(found, Mapping):
            raise Odd(f"{'.'.join(path)} is no object")
    return found  # type: ignore[no-any-return]


def parts(item: Object, *path: str) -> tuple[Object, ...]:
    """The objects of the list at `path`, () where there is none. Raises Odd."""
    found = part(item, *path[:-1]).get(path[-1])
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise Odd(f"{'.'.join(path)} is no list of objects")
    return tuple(found)


def text(item: Object, *path: str) -> str:
    """The text at `path`, "" where there is none. Raises Odd."""
    found = part(item, *path[:-1]).get(path[-1])
    if found is None:
        return ""
    if not isinstance(found, str):
        raise Odd(f"{'.'.join(path)} is no text")
    return found


def needed(item: Object, *path: str) -> str:
    """The text at `path`. Raises Odd where there is none."""
    found = text(item, *path)
    if not found:
        raise Odd(f"{'.'.join(path)} is missing")
    return found


def texts(item: Object, *path: str) -> Mapping[str, str]:
    """The labels, annotations or other texts by name at `path`. Raises Odd."""
    found = part(item, *path)
    if not all(isinstance(one, str) for one in found.values()):
        raise Odd(f"{'.'.join(path)} has values that are no texts")
    return found


def conditions(item: Object) -> Mapping[str, Object]:
    """The conditions of `item` by type. Raises Odd."""
    return {text(one, "type"): one for one in parts(item, "status", "conditions")}


def true_conditions(item: Object) -> frozenset[str]:
    """The types of those conditions of `item` that are True. Raises Odd."""
    return frozenset(
        text(one, "type")
        for one in parts(item, "status", "conditions")
        if text(one, "status") == "True"
    )


def is_true(item: Object, kind: str) -> bool:
    """Whether the condition `kind` of `item` is there and True. Raises Odd."""
    return kind in true_conditions(item)


def number(item: Object, *path: str) -> int | None:
    """The integer at `path`, None where there is none. Raises Odd."""
    found = part(item, *path[:-1]).get(path[-1])
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or abs(found) > 1 << 53:
        raise Odd(f"{'.'.join(path)} is no integer")
    return found


def flag(item: Object, *path: str) -> bool | None:
    """The truth at `path`, None where there is none. Raises Odd."""
    found = part(item, *path[:-1]).get(path[-1])
    if found is not None and not isinstance(found, bool):
        raise Odd(f"{'.'.join(path)} is neither true nor false")
    return found


def moment(item: Object, *path: str) -> int | None:
    """The time at `path` in epoch seconds, None where there is none. Raises Odd."""
    found = text(item, *path)
    return _epoch(found, ".".join(path)) if found else None


def units(item: Object, *path: str) -> int:
    """How many units of an extended resource the quantity at `path` is, 0 where there is none.

    Kubernetes allows nothing but integers of these, and stores them as they were written: "2k",
    "1Ki" or "1e3" too. Raises Odd.
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
    """The CPU that the quantity at `path` is, rounded down to thousandths; None where there is
    none. Raises Odd."""
    return _scaled(item, path, 1_000)


def memory_mib(item: Object, *path: str) -> int | None:
    """The memory that the quantity at `path` is, rounded down to MiB; None where there is none.
    Raises Odd."""
    found = _scaled(item, path, 1)
    return None if found is None else found >> 20


def cpu_milli_asked(item: Object, *path: str) -> int | None:
    """As `cpu_milli`, for what somebody asks for: rounded up, as the cluster's scheduler does."""
    return _scaled(item, path, 1_000, ROUND_CEILING)


def memory_mib_asked(item: Object, *path: str) -> int | None:
    """As `memory_mib`, for what somebody asks for: rounded up."""
    found = _scaled(item, path, 1, ROUND_CEILING)
    return None if found is None else -(-found >> 20)


def _scaled(
    item: Object, path: tuple[str, ...], factor: int, rounding: str = ROUND_FLOOR
) -> int | None:
    """`factor` times a quantity that may have decimals and any suffix, in whole ones."""
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
    """`raw` on one line of at most `length` characters, that can be shown to anybody."""
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
