"""What Slurm's REST API says in each of its versions alike: texts, lists, states, nodes and GPUs.

All that is read raises ClusterUnavailable where it is of another kind than it should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.errors import ClusterUnavailable
from connectors.slurm import hostlist, tres

Record = Mapping[str, Any]

# NO_VAL and INFINITE of 32 and 64 bits, and what signed fields make of them.
_UNSET = {0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, -1, -2}
_BASE_STATES = frozenset(
    {
        *("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT"),
        *("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"),
    }
)
ENDED_STATES = _BASE_STATES - {"PENDING", "RUNNING", "SUSPENDED"}
# v0.0.38 shows one word, and a flag in place of the state that it goes with.
_STATE_UNDER_FLAG = {
    **dict.fromkeys(
        (
            *("COMPLETING", "SIGNALING", "CONFIGURING", "POWER_UP_NODE", "RESIZING", "STAGE_OUT"),
            "STOPPED",
        ),
        "RUNNING",
    ),
    **dict.fromkeys(
        ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"), "PENDING"
    ),
}


def plain_number(value: Any) -> int | None:
    """A whole number; None where it stands for none, or for no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ClusterUnavailable(f"the cluster gave {str(value)[:80]!r} for a whole number")
    return None if value in _UNSET else value


def text(record: Record, key: str) -> str:
    """The text under `key`, or none at all."""
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ClusterUnavailable(f"the cluster's {key} is no text")
    return value


def name(record: Record) -> str:
    """The name, which every record of this kind has."""
    found = text(record, "name")
    if not found:
        raise ClusterUnavailable("a record of the cluster has no name")
    return found


def record(record: Record, key: str) -> Record:
    """The record under `key`, or an empty one."""
    value = record.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ClusterUnavailable(f"the cluster's {key} is no record")
    return value


def texts(value: Any) -> list[str]:
    """A list of texts, or one text with commas in it."""
    if value is None:
        return []
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ClusterUnavailable("a list of the cluster holds something else than text")
    return [item for item in items if item]


def words(value: Any) -> list[str]:
    """The same in capitals."""
    return [word.upper() for word in texts(value)]


def job_state(value: Any) -> tuple[str, frozenset[str]]:
    """The base state and the flags, from a list or from a word that may be a flag itself. A word
    that we do not know stays the state: whoever reads it must say so."""
    said = words(value)
    if not said:
        raise ClusterUnavailable("a job of the cluster has no state")
    base = next((word for word in said if word in _BASE_STATES), None)
    if base is None:
        base = next((word for word in said if word not in _STATE_UNDER_FLAG), None)
    if base is None:
        base = _STATE_UNDER_FLAG[said[0]]
    return base, frozenset(said) - {base}


def hosts(listed: str) -> tuple[str, ...]:
    """The nodes of a node list."""
    try:
        return hostlist.expand(listed if listed != "(null)" else "")
    except ValueError as error:
        raise ClusterUnavailable(f"the cluster's node list: {error}") from error


def gpus(listed: str) -> dict[str, int]:
    """How many GPUs of which type a list of resources has."""
    try:
        return tres.gpus_in(listed)
    except ValueError as error:
        raise ClusterUnavailable(f"the cluster's resources: {error}") from error


def types_by_node(
    record: Record, nodes: tuple[str, ...], allocated: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Who holds how many GPUs of which type: as the cluster says, or all of them on an only node.
    {} where it does not say it, or the parts do not make the whole."""
    details = record.get("gres_detail")
    if isinstance(details, list) and len(details) == len(nodes):
        found = [tres.gpus_in_detail(str(detail)) for detail in details]
    elif len(nodes) == 1:
        found = [dict(allocated)]
    else:
        return {}
    if sum(sum(one.values()) for one in found) != sum(allocated.values()):
        return {}
    return {node: one for node, one in zip(nodes, found, strict=True) if one}


def gpus_by_node(
    record: Record,
    types: Mapping[str, Mapping[str, int]],
    nodes: tuple[str, ...],
    by_type: Mapping[str, int],
) -> dict[str, int]:
    """Who holds how many GPUs: as the cluster says, or as was asked for by node. {} when the parts
    do not make the whole. Cores are as even as they go: a list does not say whose they are."""
    allocated = sum(by_type.values())
    if types or not nodes or not allocated:
        return {node: sum(one.values()) for node, one in types.items()}
    if tres.CORES in by_type:
        each, more = divmod(allocated, len(nodes))
        return {node: each + (rank < more) for rank, node in enumerate(nodes)}
    each = tres.gpus_per_node(text(record, "tres_per_node"))
    return dict.fromkeys(nodes, each) if each * len(nodes) == allocated else {}
