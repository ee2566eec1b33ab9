"""Slurm's trackable resources (TRES) as text: `cpu=8,mem=8000M,gres/gpu=2,gres/gpu:h100=2`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_GPU = re.compile(r"gres/gpu(?::([A-Za-z0-9_.-]+))?", re.ASCII)
_CPU = "cpu"
#: The type of the cores of an object without GPUs. No GPU type in Slurm can have this name.
CORES = "(cores)"
_COUNT = re.compile(r"[0-9]{1,18}", re.ASCII)
#: A type may begin with a digit, as those of MIG slices do ("1g.10gb"), but is no number.
_PER_NODE = re.compile(
    r"(?:gres[:/])?gpu(?::(?![0-9]+(?:[:=]|\Z))([A-Za-z0-9_.-]+))?(?:[:=]([0-9]{1,9}))?", re.ASCII
)
_DETAIL = re.compile(r"gpu(?::([A-Za-z0-9_.-]+))?:([0-9]{1,9})\(", re.ASCII)
_MAX_TEXT = 100_000


def gpus_in(tres: str) -> dict[str, int]:
    """Return the GPUs by type in a TRES text, or the CORES of one without GPUs.

    The type "" has the GPUs of the total that no type accounts for. Raises ValueError on a text
    that is no TRES.
    """
    if len(tres) > _MAX_TEXT:
        raise ValueError(f"resources of {len(tres)} characters are too long")
    counts: dict[str, int] = {}
    for item in filter(None, tres.split(",")):
        name, equals, count = item.partition("=")
        if not equals:
            raise ValueError(f"{item!r} is no resource")
        if _GPU.fullmatch(name) or name == _CPU:
            if not _COUNT.fullmatch(count):
                raise ValueError(f"{item!r} has no whole number")
            counts[name] = int(count)
    return gpus_of(counts)


def gpus_of(counts: Mapping[str, int]) -> dict[str, int]:
    """Return GPUs by type from resource names ("gres/gpu", "gres/gpu:h100") and their counts.

    Without GPUs, return the CORES ("cpu").
    """
    typed: dict[str, int] = {}
    total = 0
    for name, count in counts.items():
        match = _GPU.fullmatch(name)
        if match is None:
            continue
        if match.group(1) is None:
            total = count
        elif count:
            typed[match.group(1)] = count
    rest = total - sum(typed.values())
    found = {**typed, "": rest} if rest > 0 else typed
    return found or ({CORES: counts[_CPU]} if counts.get(_CPU) else {})


def gpus_per_node(tres_per_node: str) -> int:
    """Return the GPUs that a job asked for per node; 0 when it did not ask by node.

    The text is like "gres/gpu:h100:2", or "gres:gpu:2" on older releases.
    """
    found = 0
    for item in tres_per_node.split(","):
        match = _PER_NODE.fullmatch(item)
        if match is not None:
            found += int(match.group(2) or 1)
    return found


def gpus_in_detail(detail: str) -> dict[str, int]:
    """Return the GPUs of a job on one node ("gpu:h100:2(IDX:0-1)"), by their type in that text."""
    found: dict[str, int] = {}
    for match in _DETAIL.finditer(detail):
        if count := int(match.group(2)):
            kind = match.group(1) or ""
            found[kind] = found.get(kind, 0) + count
    return found


def split_name(name: str) -> tuple[str, str]:
    """Return the accounting's `type` and `name` for "gres/gpu:h100" or "cpu"."""
    kind, _, rest = name.partition("/")
    return kind, rest


def joined_name(kind: str, name: str | None) -> str:
    """Return the inverse of `split_name`."""
    return f"{kind}/{name}" if name else kind
