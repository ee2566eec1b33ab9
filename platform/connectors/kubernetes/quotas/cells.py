"""The cells of Kueue's quotas: how many units of a resource a queue or cohort has of a flavor, and
how many it lends and borrows; in settings, where people see them, and as Kueue has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from connectors.entitlements import Value
from connectors.kubernetes.options.options import KubernetesPool
from connectors.kubernetes.quotas.objects import Json

#: More than anybody can ask for, see `wanted_objects`.
WIDE = 10**15
WIDE_RESOURCES = {"cpu": WIDE, "memory": 2**60, "ephemeral-storage": 2**60}
BORROWS = " borrow limit"
LENDS = " lend limit"
#: Nominal quota, borrowing limit and lending limit; None is no limit.
Cell = tuple[Value, Value, Value]
NOTHING: Cell = (0, 0, 0)
#: What a cohort's cell is where its group has others: it adds nothing and limits nothing.
UNSET: Cell = (0, None, None)
_QUANTITY = re.compile(r"([0-9]{1,19})([numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_FACTORS = {
    **{"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18},
    **{"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60},
}


def cell_of(pool: KubernetesPool) -> str:
    """The name of the pool's quota in settings."""
    return f"{pool.flavor} {pool.resource}"


def quantity(quantity: Any) -> int | str:
    """A quantity of the API in whole units, or as it stands where that is no whole number."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None or found[2] in ("n", "u", "m"):
        return str(quantity)
    return int(found[1]) * _FACTORS[found[2] or ""]


def cells_in(spec: Json) -> dict[tuple[str, str], Cell]:
    """The cells of a queue or cohort by flavor and resource."""
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
    """The pool's cell in settings."""
    name = cell_of(pool)
    return {name: nominal, name + BORROWS: borrows, name + LENDS: lends}


def limits_in(settings: Mapping[str, Value], cell: str) -> Cell:
    """What the settings have for the pool's `cell`."""
    return settings[cell], settings[cell + BORROWS], settings[cell + LENDS]


def quota_of(resource: str, cell: Sequence[Value]) -> Json:
    """The cell as Kueue has it."""
    nominal, borrows, lends = (None if value is None else str(value) for value in cell)
    return {
        "name": resource,
        "nominalQuota": nominal,
        "borrowingLimit": borrows,
        "lendingLimit": lends,
    }


def compact(resource: str, cell: Cell) -> Value:
    """A queue's cell that is no pool's in one word: None is wide, 0 is nothing."""
    if cell == (WIDE_RESOURCES.get(resource), 0, 0):
        return None
    return 0 if cell == NOTHING else _word(cell)


def expanded(resource: str, value: Value) -> Cell:
    """The cell of which `value` is what `compact` makes."""
    if value is None:
        return WIDE_RESOURCES[resource], 0, 0
    return NOTHING if value == 0 else _cell(str(value))


def line_of(flavor: str, resource: str, cell: Cell) -> str:
    """A cohort's cell that is no pool's, in a list of them ("mine nvidia.com/gpu 3/-/-")."""
    return f"{flavor} {resource} {_word(cell)}"


def cell_in(line: str) -> tuple[tuple[str, str], Cell]:
    """Flavor and resource, and the cell, of which `line` is what `line_of` makes."""
    flavor, resource, word = line.split(" ")
    return (flavor, resource), _cell(word)


def _word(cell: Cell) -> str:
    return "/".join("-" if one is None else str(one) for one in cell)


def _cell(word: str) -> Cell:
    nominal, borrows, lends = (None if one == "-" else one for one in word.split("/"))
    return nominal, borrows, lends
