"""Names of pools as people write them: case does not matter, and "_" is "-"."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from clusters.models import Pool, PoolAlias
from primitives.errors import Conflict, FieldError, InvalidRequest

ALIASES_MAX = 20
_ALIAS = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)
#: Words for devices of any type: `--gres=gpu:2`.
_KINDS = frozenset({"cpu", "gpu"})


def folded(name: str) -> str:
    """Return the form in which names are compared: "NVIDIA_H100" is "nvidia-h100"."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def read_aliases(names: Sequence[str]) -> list[str]:
    """Return folded aliases, sorted. Raises InvalidRequest for too many or an impossible one."""
    found = sorted({folded(name) for name in names})
    detail = f"has more than {ALIASES_MAX} names" if len(found) > ALIASES_MAX else ""
    for name in found:
        if not _ALIAS.fullmatch(name):
            detail = (
                f"{name[:63]!r} is no name of a GPU type: write letters, digits, dots, - and _, at "
                "most 63"
            )
        elif name in _KINDS:
            detail = f"{name!r} means devices of any type: choose another name"
    if detail:
        raise InvalidRequest(f"aliases: {detail}.", errors=[FieldError("/aliases", detail)])
    return found


def set_aliases(pool: Pool, names: Collection[str]) -> None:
    """Give a locked pool exactly these folded aliases. Raises Conflict for a name of another."""
    for other, name in (
        PoolAlias.objects.filter(folded__in=names)
        .exclude(pool=pool)
        .values_list("pool__name", "folded")
    ):
        raise Conflict(f"{name} is an alias of pool {other} already. Remove it there first.")
    for name in Pool.objects.filter(name__in=names).values_list("name", flat=True):
        raise Conflict(f"{name} is the name of a pool, so it cannot be an alias.")
    pool.aliases.exclude(folded__in=names).delete()
    known = set(pool.aliases.values_list("folded", flat=True))
    for name in sorted(set(names) - known):
        PoolAlias.objects.create(folded=name, pool=pool)
