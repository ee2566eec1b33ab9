"""Values that all versions of Slurm's REST API share: texts, lists, states, nodes and GPUs.

Every reader raises ClusterUnavailable for a value of a wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.errors import ClusterUnavailable
from connectors.slurm import tres
from primitives import hostlist

Record = Mapping[str, Any]

# NO_VAL and INFINITE of 32 and 64 bits, and their values in signed fields.
_UNSET = {0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, -1, -2}
_BASE_STATES = frozenset(
    {
        *("PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT"),
        *("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"),
    }
)
ENDED_STATES = _BASE_STATES - {"PENDING", "RUNNING", "SUSPENDED"}
# v0.0.38 shows one word: a flag replaces the base state. This is the base state of each flag.
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
    """Return a whole number; None for a value that means unset or unlimited."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ClusterUnavailable(f"the cluster gave {str(value)[:80]!r} for a whole number")
    return None if value in _UNSET else value


def text(record: Record, key: str) -> str:
    """Return the text under `key`; "" when it is missing."""
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ClusterUnavailable(f"the cluster's {key} is no text")
    return value


def name(record: Record) -> str:
    """Return the name, which every record of this kind has."""
    found = text(record, "name")
    if not found:
        raise ClusterUnavailable("a record of the cluster has no name")
    return found


def record(record: Record, key: str) -> Record:
    """Return the record under `key`, or an empty one."""
    value = record.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ClusterUnavailable(f"the cluster's {key} is no record")
    return value


def texts(value: Any) -> list[str]:
    """Return a list of texts, from a list or from one text with commas."""
    if value is None:
        return []
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ClusterUnavailable("a list of the cluster holds something else than text")
    return [item for item in items if item]


def words(value: Any) -> list[str]:
    """Return the same in capitals."""
    return [word.upper() for word in texts(value)]


def job_state(value: Any) -> tuple[str, frozenset[str]]:
    """Return the base state and the flags, from a list or from a word that may itself be a flag.

    An unknown word stays the state; the caller must report it.
    """
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
    """Return the nodes of a node list."""
    try:
        return hostlist.expand(listed if listed != "(null)" else "")
    except ValueError as error:
        raise ClusterUnavailable(f"the cluster's node list: {error}") from error


def gpus(listed: str) -> dict[str, int]:
    """Return the number of GPUs of each type in a list of resources."""
    try:
        return tres.gpus_in(listed)
    except ValueError as error:
        raise ClusterUnavailable(f"the cluster's resources: {error}") from error


def types_by_node(
    record: Record, nodes: tuple[str, ...], allocated: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Return the GPUs of each node by type, as the cluster reports them.

    A job on one node has all its GPUs there. {} when the cluster does not report them, or when the
    parts do not add up to the total.
    """
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
    """Return the number of GPUs on each node: as reported, or as requested per node.

    {} when the parts do not add up to the total. Cores are spread evenly, because a list does not
    report them by node.
    """
    allocated = sum(by_type.values())
    if types or not nodes or not allocated:
        return {node: sum(one.values()) for node, one in types.items()}
    if tres.CORES in by_type:
        each, more = divmod(allocated, len(nodes))
        return {node: each + (rank < more) for rank, node in enumerate(nodes)}
    each = tres.gpus_per_node(text(record, "tres_per_node"))
    return dict.fromkeys(nodes, each) if each * len(nodes) == allocated else {}
