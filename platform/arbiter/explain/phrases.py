"""Phrases for nodes, features, levels and spans of time, for reasons and for refusals."""

from __future__ import annotations

from collections.abc import Iterable

from arbiter.api.snapshot import Level
from primitives.units import DeviceKind, gpus_text


def missing_features(features: Iterable[str], *, having: int, needed: int, where: str) -> str:
    """Return that the `having` nodes of one cluster with the features are too few.

    `where` is "of pool h100" or the like.
    """
    if having == 0:
        return f"no node {where} has {features_text(features)}"
    have = "1 node of one cluster has" if having == 1 else f"{having:,} nodes of one cluster have"
    return f"{where} at most {have} {features_text(features)}, and it needs {needed:,}"


def features_text(features: Iterable[str]) -> str:
    """ "the feature a" or "the features a, b together"."""
    named = sorted(features)
    if len(named) == 1:
        return f"the feature {named[0]}"
    return f"the features {', '.join(named)} together"


def too_few_large_enough(
    *,
    mgpu: int,
    cpu_and_memory: str,
    having: int,
    needed: int,
    where: str,
    device: DeviceKind = DeviceKind.GPU,
) -> str:
    """Return that the `having` nodes of one cluster that are large enough are too few.

    Each needs `mgpu` and `cpu_and_memory` (see `cpu_and_memory_text`). `where` is "of pool
    h100" or the like.
    """
    each = f"{device.text(mgpu)} and {cpu_and_memory}"
    if having == 0:
        return f"no node {where} has {each}"
    have = "1 node of one cluster has" if having == 1 else f"{having:,} nodes of one cluster have"
    return f"{where} at most {have} {each}, and it needs {needed:,}"


def cpu_and_memory_text(cpu_milli: int, memory_mib: int) -> str:
    """ "16 CPUs and 128 GiB of memory", or either of both where the other is 0."""
    parts = []
    if cpu_milli:
        parts.append(f"{gpus_text(cpu_milli)} CPU{'' if cpu_milli == 1_000 else 's'}")
    if memory_mib:
        gib, rest = divmod(memory_mib, 1_024)
        parts.append(f"{f'{memory_mib:,} MiB' if rest else f'{gib:,} GiB'} of memory")
    return " and ".join(parts)


def level_text(level: Level) -> str:
    """Return the name of a topology level in text."""
    return "NVLink domain" if level is Level.NVLINK else level.value


def too_far_apart(
    level: Level,
    *,
    nodes: int,
    mgpu: int,
    together: int,
    where: str,
    device: DeviceKind = DeviceKind.GPU,
) -> str:
    """Return that no domain of `level` in the fleet has `nodes` with `mgpu` each.

    The best one has `together` of them. `where` is "of pool h100" or the like.
    """
    if level is Level.NODE:
        return (
            f"it must have its {device.text(nodes * mgpu)} on one node, and no node {where}"
            " is so large"
        )
    needs = f"it needs {nodes:,} nodes with {device.text(mgpu)} each in one {level_text(level)}"
    if together == 0:
        name = level_text(level)
        return (
            f"{needs}, and no {name} {where} is known to have even one such node. If the clusters "
            f"do not report {name}s, make it a preference or leave it out"
        )
    return f"{needs}, and none {where} has more than {together:,}"


def duration_text(seconds: int) -> str:
    """Return `seconds` in the two largest units that matter: "4 min 12 s", "2 h", "1 d 3 h"."""
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    parts = []
    left = max(0, seconds)
    for i, (size, name) in enumerate(units):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}")
            if i + 1 < len(units):
                after = left // units[i + 1][0]
                if after:
                    parts.append(f"{after} {units[i + 1][1]}")
            break
    return " ".join(parts) or "0 s"


def percent_text(permille: int) -> str:
    """Return a part in thousandths as text: 823 is "82.3 %", 500 is "50 %"."""
    whole, tenth = divmod(permille, 10)
    return f"{whole}.{tenth} %" if tenth else f"{whole} %"
