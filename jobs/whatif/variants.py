"""Variants of a request: what a user could request instead of a waiting job.

Pure functions. They turn the body of a request and what is known about its wait into at most
`VARIANTS_MAX` changes of that body, the smallest concession first. The arbiter decides whether a
variant helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from arbiter.api.plan import Code
from arbiter.api.snapshot import Level
from arbiter.explain.phrases import duration_text, level_text
from primitives.units import MGPU_PER_GPU, DeviceKind, mgpu_of

VARIANTS_MAX = 7
#: At most `POOLS_TRIED_MAX` variants are other pools; `POOLS_TRIED_MIN` places are theirs alone.
POOLS_TRIED_MAX, POOLS_TRIED_MIN = 3, 2
#: A time limit in seconds that suits many jobs and fits before many reservations.
SHORT_S = 3_600
#: Time limits before a reservation are multiples of this, and leave as long for the submission.
_STEP_S = 300

#: Reasons that may be about nodes, not about the total of free devices.
ABOUT_NODES = frozenset({Code.TOPOLOGY_FRAGMENTED, Code.NEVER_FITS})
#: Reasons that are only about the limits of the job's team.
ABOUT_QUOTA = frozenset(
    {Code.BORROW_LIMIT_REACHED, Code.PARENT_LIMIT_REACHED, Code.CLASS_CAP_REACHED}
)
#: Members of a request that a change of its size may set.
_SIZE = frozenset({"gpus_per_node", "cpus_per_node", "memory_mib_per_node", "nodes", "nodes_min"})
#: Numbers of a reason that bound what could start now, in milli-GPU.
_BOUNDS = ("available_by_quota_mgpu", "largest_free_on_a_cluster_mgpu", "free_mgpu")


@dataclass(frozen=True, slots=True)
class Hints:
    """Facts about a waiting job that tell which variants may help.

    - `possible_mgpu`: the most milli-GPU that such a job could have; None: unknown.
    - `is_about_nodes`: whether it waits because of its nodes, not because of its total size.
    - `is_about_quota`: whether it waits only because of its team's quota.
    - `limits_s`: time limits in seconds with which it could start.
    - `pools`: the pools of the same devices that are large enough for it. Each has the milli-GPU of
      its largest node; None: unknown.
    - `lower_class`: the next lower priority class, if its own class has a cap.
    """

    possible_mgpu: int | None = None
    is_about_nodes: bool = False
    is_about_quota: bool = False
    limits_s: tuple[int, ...] = ()
    pools: Mapping[str, int | None] = field(default_factory=dict)
    lower_class: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """A change of a request: a label in words, and the members of the body to set.

    A member with the value None is removed. `is_part`: whether the variant requests fewer devices
    or less time.
    """

    label: str
    changes: Mapping[str, Any]
    is_part: bool = False

    def of(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return `body` with the changes."""
        changed = {**body, **self.changes}
        return {name: value for name, value in changed.items() if value is not None}


def variants_of(body: Mapping[str, Any], device: DeviceKind, hints: Hints) -> list[Variant]:
    """Return the variants of `body`, at most `VARIANTS_MAX`.

    `body` must have its size by node, and the names of its pools. Variants that keep the whole
    amount come before those that request a part of it. Changes without an effect are left out.
    """
    found: list[Variant] = []
    # Time limit and nodes do not change how much the job counts against a quota.
    if not hints.is_about_quota:
        found += _less_particular(body, device)
        found += _spread(body, device) if hints.is_about_nodes else ()
        found += _shorter(body, hints.limits_s or (SHORT_S,))
    found += _lower(hints)
    found += _smaller(body, device, hints.possible_mgpu)
    pools = [*_elsewhere(body, device, hints.pools)]
    kept = VARIANTS_MAX - min(len(pools), POOLS_TRIED_MIN)
    return sorted([*found[:kept], *pools][:VARIANTS_MAX], key=lambda one: one.is_part)


def in_smaller_parts(
    body: Mapping[str, Any], device: DeviceKind, possible_mgpu: int | None
) -> Iterator[Variant]:
    """Yield requests that fit into `possible_mgpu`, with a half or a quarter on each node."""
    if possible_mgpu is None or body.get("required_topology") == Level.NODE:
        return
    _, mgpu, _, least = _size(body, device)
    for parts in (2, 4):
        if mgpu % (parts * MGPU_PER_GPU):
            return
        count = min(possible_mgpu, mgpu * least) * parts // mgpu
        if count > 0:
            yield _parts_on(count, body, device, parts)


def on_fitting(
    body: Mapping[str, Any], device: DeviceKind, tried: Variant, fitting: int
) -> Variant | None:
    """Return `tried` with as many nodes as have its devices free (`fitting`).

    None if `tried` changes more than the size, or if `fitting` is 0.
    """
    if fitting < 1 or not _is_size(tried):
        return None
    parts = _size(body, device)[1] // _size(tried.of(body), device)[1]
    return _parts_on(fitting, body, device, parts)


def possible_mgpu_of(code: str, numbers: Mapping[str, int]) -> int | None:
    """Return the most milli-GPU that a job with this reason could have now.

    With the reason `never_fits` it is the most that the job could ever have. None if the reason
    does not tell.
    """
    if code == Code.NEVER_FITS:
        return numbers.get("could_ever_mgpu")
    if code == Code.CLASS_CAP_REACHED:
        return numbers["class_cap_mgpu"] - numbers["class_in_use_mgpu"]
    if "user_cap_mgpu" in numbers:
        return numbers["user_cap_mgpu"] - numbers["user_in_use_mgpu"]
    bounds = [numbers[name] for name in _BOUNDS if name in numbers]
    if "nodes_fitting" in numbers:
        bounds.append(numbers["nodes_fitting"] * numbers["mgpu_per_node"])
    return min(bounds, default=None)


def limits_of(
    reasons: Iterable[Mapping[str, int]], allowed_s: Iterable[int], *, at: int
) -> tuple[int, ...]:
    """Return time limits in seconds that could let a job start, the longest first.

    These are the limits that clusters allow, and limits that end before a reservation which the job
    would delay. The start of the reservation is in the numbers of the job's `reasons`. `at` is the
    present time in epoch seconds; some minutes are left for the submission.
    """
    found = set(allowed_s)
    for numbers in reasons:
        if "reserved_start_at" in numbers:
            left_s = numbers["reserved_start_at"] - at - _STEP_S
            found.add(left_s // _STEP_S * _STEP_S)
    return tuple(sorted((limit_s for limit_s in found if limit_s > 0), reverse=True))


def outcome(
    *, would_start_now: bool, fits: bool, latest: str | None, is_part: bool, own_latest: str | None
) -> tuple[int, str]:
    """Return a sort key of an outcome: the best outcome has the smallest key.

    0. It starts sooner than the job itself, with all that was requested.
    1. It starts sooner than the job itself, with a part of it.
    2. It starts at another known time.
    3. It starts at an unknown time.
    4. It never starts.

    Within a group an earlier start comes first. `own_latest` is the estimated start of the job
    itself; if it is None, every known start counts as sooner. Times are ISO 8601 in UTC. Times
    within the same ten minutes are equal, because a gain of seconds is no reason to request less.
    """
    if would_start_now:
        return int(is_part), ""
    if not fits:
        return 4, ""
    if latest is None:
        return 3, ""
    is_sooner = own_latest is None or _about(latest) < _about(own_latest)
    return int(is_part) if is_sooner else 2, _about(latest)


def _about(moment: str) -> str:
    return moment[: len("2026-11-23T03:0")]


def _less_particular(body: Mapping[str, Any], device: DeviceKind) -> Iterator[Variant]:
    """Yield requests without one of the constraints on nodes, apart from number and size."""
    level = body.get("required_topology")
    if level is not None:
        yield Variant(
            f"Not all in one {level_text(Level(level))}",
            {"required_topology": None, "preferred_topology": level},
        )
    if features := body.get("features"):
        yield Variant(f"On nodes without {', '.join(features)}", {"features": None})
    if device is DeviceKind.CPU:
        if "memory_mib_per_node" in body:
            yield Variant(
                "With the memory that comes with its cores", {"memory_mib_per_node": None}
            )
    elif members := [name for name in ("cpus_per_node", "memory_mib_per_node") if name in body]:
        yield Variant(
            "With the CPUs and memory that come with its GPUs", dict.fromkeys(members, None)
        )
    if "cluster" in body:
        yield Variant("On any cluster", {"cluster": None})


def _spread(body: Mapping[str, Any], device: DeviceKind) -> Iterator[Variant]:
    """Yield requests for the same total on more nodes, with a half or a quarter on each."""
    if body.get("required_topology") == Level.NODE:
        return
    mgpu = _size(body, device)[1]
    for parts in (2, 4):
        if mgpu % (parts * MGPU_PER_GPU):
            return
        shown, changes = _in_parts(body, device, parts)
        yield Variant(f"On {shown}", changes)


def _in_parts(
    body: Mapping[str, Any], device: DeviceKind, parts: int
) -> tuple[str, dict[str, Any]]:
    """Return the same total on `parts` times as many nodes.

    The first value is the size in words, the second has the members of the body.
    """
    member, mgpu, nodes, least = _size(body, device)
    changes: dict[str, Any] = {member: mgpu // parts // MGPU_PER_GPU, "nodes": nodes * parts}
    if least < nodes:
        changes["nodes_min"] = least * parts
    for other in ("cpus_per_node", "memory_mib_per_node"):
        if other in body and other != member:
            changes[other] = -(-body[other] // parts)
    shown = f"{_nodes(nodes * parts, least * parts)} with {device.text(mgpu // parts)} each"
    return shown, changes


def least_mgpu(body: Mapping[str, Any], device: DeviceKind) -> int:
    """Return the milli-GPU that a request needs in total; of an elastic job the minimum."""
    _, mgpu, _, least = _size(body, device)
    return mgpu * least


def _is_size(variant: Variant) -> bool:
    """Return whether the variant changes the number of nodes, and nothing besides the size."""
    changed = variant.changes.keys()
    return changed <= _SIZE and not changed.isdisjoint(("nodes", "nodes_min"))


def _parts_on(count: int, body: Mapping[str, Any], device: DeviceKind, parts: int) -> Variant:
    """Return a request for `count` nodes, each with one of `parts` parts of the present devices.

    For an elastic job `count` is the minimum number of nodes.
    """
    _, mgpu, nodes, least = _size(body, device)
    each = mgpu // parts
    changes = _in_parts(body, device, parts)[1] if parts > 1 else {}
    label = f"{device.text(count * each)} on {_nodes(count)} with {device.text(each)} each"
    if least < nodes:
        return Variant(f"With at least {label}", {**changes, "nodes_min": count}, True)
    return Variant(f"With {label}", {**changes, "nodes": count}, True)


def _shorter(body: Mapping[str, Any], limits_s: Iterable[int]) -> Iterator[Variant]:
    asked_s = body.get("time_limit_s")
    for limit_s in limits_s:
        if asked_s is None or limit_s < asked_s:
            yield Variant(
                f"With a time limit of {duration_text(limit_s)}",
                {"time_limit_s": limit_s},
                is_part=True,
            )


def _lower(hints: Hints) -> Iterator[Variant]:
    if hints.lower_class is not None:
        yield Variant(
            f"In the priority class {hints.lower_class}", {"priority_class": hints.lower_class}
        )


def _smaller(
    body: Mapping[str, Any], device: DeviceKind, possible_mgpu: int | None
) -> Iterator[Variant]:
    """Yield requests for the available devices, for a half, and for a quarter.

    Nodes stay whole, unless not even one whole node is left. For an elastic job only the minimum
    becomes smaller.
    """
    member, mgpu, nodes, least = _size(body, device)
    asked_mgpu = mgpu * least
    wanted = {asked_mgpu // 2, asked_mgpu // 4}
    if possible_mgpu is not None:
        wanted.add(min(possible_mgpu, asked_mgpu))
    tested = {asked_mgpu}
    for part_mgpu in sorted(wanted, reverse=True):
        fewer = part_mgpu // mgpu
        if fewer >= 1:
            size_mgpu = fewer * mgpu
            if least < nodes:
                label = f"With at least {device.text(size_mgpu)} on {_nodes(fewer)}"
                changes: dict[str, Any] = {"nodes_min": fewer}
            else:
                label = f"With {device.text(size_mgpu)} on {_nodes(fewer)}"
                changes = {"nodes": fewer}
        else:
            size_mgpu = part_mgpu // MGPU_PER_GPU * MGPU_PER_GPU
            label = f"With {device.text(size_mgpu)}" + ("" if nodes == 1 else " on 1 node")
            changes = {member: size_mgpu // MGPU_PER_GPU}
            if nodes > 1:
                changes["nodes"] = 1
            if "nodes_min" in body:
                changes["nodes_min"] = None
        if size_mgpu > 0 and size_mgpu not in tested:
            tested.add(size_mgpu)
            yield Variant(label, changes, is_part=True)


def _elsewhere(
    body: Mapping[str, Any], device: DeviceKind, pools: Mapping[str, int | None]
) -> Iterator[Variant]:
    """Yield requests in other pools.

    Features and cluster are left out, because they were meant for the requested pool. Where the
    nodes of a pool are too small, the request is split into parts that fit.
    """
    accepted = body.get("pools") or [body["pool"]]
    others = [name for name in pools if name not in accepted]
    bound = [name for name in ("pools", "features", "cluster") if name in body]
    for name in others[:POOLS_TRIED_MAX]:
        label, changes = f"In pool {name}", {"pool": name, **dict.fromkeys(bound, None)}
        parts = _parts_for(pools[name], body, device)
        if parts > 1:
            shown, size = _in_parts(body, device, parts)
            label, changes = f"{label} on {shown}", changes | size
        yield Variant(label, changes)


def _parts_for(largest_mgpu: int | None, body: Mapping[str, Any], device: DeviceKind) -> int:
    """Return the smallest number of equal parts per node that fit on the largest node.

    1 if its nodes may not be divided, or cannot be.
    """
    mgpu = _size(body, device)[1]
    if not largest_mgpu or body.get("required_topology") == Level.NODE:
        return 1
    for parts in range(-(-mgpu // largest_mgpu), mgpu // MGPU_PER_GPU + 1):
        if mgpu % (parts * MGPU_PER_GPU) == 0:
            return parts
    return 1


def _size(body: Mapping[str, Any], device: DeviceKind) -> tuple[str, int, int, int]:
    """Return (member with the devices per node, milli-GPU per node, most nodes, fewest nodes)."""
    member = "cpus_per_node" if device is DeviceKind.CPU else "gpus_per_node"
    nodes = body["nodes"]
    return member, mgpu_of(Decimal(str(body[member]))), nodes, body.get("nodes_min", nodes)


def _nodes(most: int, least: int | None = None) -> str:
    if least is not None and least < most:
        return f"{least:,} to {most:,} nodes"
    return "1 node" if most == 1 else f"{most:,} nodes"
