"""The cells of Kueue's quotas, in settings for people and in Kueue's form. Pure.

A cell is the quota of a queue or cohort in one resource of one flavor: how many units it has, lends
and borrows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.entitlements import Value
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.kubernetes.quotas.objects import WIDE, WIDE_RESOURCES, Json

BORROWS = " borrow limit"
LENDS = " lend limit"
#: Nominal quota, borrowing limit and lending limit; None is no limit.
Cell = tuple[Value, Value, Value]
NOTHING: Cell = (0, 0, 0)
#: A cohort's cell without effect, which its group requires: it adds and limits nothing.
UNSET: Cell = (0, None, None)
_QUANTITY = re.compile(r"([0-9]{1,19})([numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_FACTORS = {
    **{"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18},
    **{"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60},
}


def cell_of(pool: KubernetesPool) -> str:
    """Return the name of the pool's quota in settings."""
    return f"{pool.flavor} {pool.resource}"


def quantity(quantity: Any) -> int | str:
    """Return a quantity of the API in whole units; unchanged if it is no whole number."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None or found[2] in ("n", "u", "m"):
        return str(quantity)
    return int(found[1]) * _FACTORS[found[2] or ""]


def cells_in(spec: Json) -> dict[tuple[str, str], Cell]:
    """Return the cells of a queue or cohort by flavor and resource."""
    found: dict[tuple[str, str], Cell] = {}
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for one in flavor.get("resources") or ():
                limits = [
                    quantity(one[name]) if name in one else None
                    for name in ("borrowingLimit", "lendingLimit")
                ]
                key = str(flavor.get("name")), str(one.get("name"))
                found[key] = (quantity(one.get("nominalQuota", "0")), limits[0], limits[1])
    return found


def cell_settings(
    pool: KubernetesPool, nominal: Value, borrows: Value, lends: Value
) -> dict[str, Value]:
    """Return the pool's cell in settings."""
    name = cell_of(pool)
    return {name: nominal, name + BORROWS: borrows, name + LENDS: lends}


def limits_in(settings: Mapping[str, Value], cell: str) -> Cell:
    """Return the values of the pool's `cell` in the settings."""
    return settings[cell], settings[cell + BORROWS], settings[cell + LENDS]


def quota_of(resource: str, cell: Sequence[Value]) -> Json:
    """Return the cell in Kueue's form."""
    nominal, borrows, lends = (None if value is None else str(value) for value in cell)
    return {
        "name": resource,
        "nominalQuota": nominal,
        "borrowingLimit": borrows,
        "lendingLimit": lends,
    }


def compact(resource: str, cell: Cell) -> Value:
    """Return a short form of a queue's cell outside of all pools: None is wide, 0 is nothing."""
    if cell == (WIDE_RESOURCES.get(resource, WIDE), 0, 0):
        return None
    return 0 if cell == NOTHING else _word(cell)


def expanded(resource: str, value: Value) -> Cell:
    """Return the cell that `compact` turns into `value`."""
    if value is None:
        return WIDE_RESOURCES.get(resource, WIDE), 0, 0
    return NOTHING if value == 0 else _cell(str(value))


def line_of(flavor: str, resource: str, cell: Cell) -> str:
    """Return a line for a cohort's cell outside of all pools ("mine nvidia.com/gpu 3/-/-")."""
    return f"{flavor} {resource} {_word(cell)}"


def cell_in(line: str) -> tuple[tuple[str, str], Cell]:
    """Return flavor and resource, and the cell, that `line_of` turns into `line`."""
    flavor, resource, word = line.split(" ")
    return (flavor, resource), _cell(word)


def _word(cell: Cell) -> str:
    return "/".join("-" if one is None else str(one) for one in cell)


def _cell(word: str) -> Cell:
    nominal, borrows, lends = (None if one == "-" else one for one in word.split("/"))
    return nominal, borrows, lends
