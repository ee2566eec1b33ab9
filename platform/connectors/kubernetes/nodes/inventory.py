"""Translates Kubernetes' Nodes into those of the protocol. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from connectors.kubernetes.nodes.cores import NodeUse, core_pools, gpu_pools
from connectors.kubernetes.nodes.features import features_of
from connectors.kubernetes.objects.reading import (
    Object,
    Odd,
    conditions,
    cpu_milli,
    flag,
    memory_mib,
    needed,
    part,
    parts,
    printable,
    text,
    texts,
    true_conditions,
    units,
)
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.protocol import NodeCapacity
from primitives.units import DeviceKind

#: Annotation on a node that we drained: why.
DRAINED = "tidegate.io/drained"
#: Label with the number of GPUs of a node (GPU Feature Discovery), for GPUs that are claimed as
#: devices and are therefore no extended resource.
DEVICE_COUNT = "nvidia.com/gpu.count"
#: The taint of a node that is cordoned, which says nothing more than `spec.unschedulable` does.
_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
#: Conditions that are bad when True; Ready is bad when it is not.
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_NAMED_MAX = 5
_LENGTH_MAX = 200


def nodes_of(
    nodes: Iterable[Object],
    pools: Mapping[str, KubernetesPool],
    features: Mapping[str, tuple[str, str | None]],
    use: NodeUse | None = None,
) -> tuple[tuple[NodeCapacity, ...], tuple[str, ...]]:
    """Return what each node of our pools offers, by name and pool, and complaints about the rest.

    A node with several kinds of GPU, such as whole GPUs and slices, is in a pool for each kind.
    `features` are those of the options: by feature a label with its value, or None for any value. A
    node without a pool causes no complaint. `use` is the amount that nodes of CPU pools must not
    offer.
    """
    use = NodeUse() if use is None else use
    found: list[NodeCapacity] = []
    complaints: list[str] = []
    with_gpus: dict[str, list[str]] = {}
    with_none: dict[str, list[str]] = {}
    having: set[str] = set()
    for node in nodes:
        try:
            name = needed(node, "metadata", "name")
            whose = _pools_of(node, pools)
            having.update(pool.name for pool in (*whose.counting, *whose.disputed))
            for pool in whose.counting:
                offered = _capacity(name, node, pool, features)
                if pool.device is DeviceKind.CPU:
                    offered = _without(offered, pool, use)
                found.append(offered)
            for pool in whose.with_gpus:
                with_gpus.setdefault(pool.name, []).append(printable(name, _LENGTH_MAX))
            for pool in whose.with_none:
                with_none.setdefault(pool.name, []).append(printable(name, _LENGTH_MAX))
            if whose.disputed:
                names = " and ".join(sorted(pool.name for pool in whose.disputed)[:_NAMED_MAX])
                devices = whose.disputed[0].device.plural
                complaints.append(
                    f"Node {printable(name, _LENGTH_MAX)} has the same {devices} for the pools "
                    f"{names} by their node_selector and resource; it is left out of them until it "
                    "has them for one only."
                )
        except Odd as error:
            complaints.append(f"Node {_name_of(node)} makes no sense and is left out: {error}.")
    for pool_name, names_of_nodes in with_gpus.items():
        shown = ", ".join(sorted(names_of_nodes)[:_NAMED_MAX])
        complaints.append(
            f"Pool {pool_name} of CPU cores has {len(names_of_nodes)} nodes with GPUs by its "
            f"node_selector ({shown}): their cores are not offered, and what people start on them "
            "is not counted. Give it a label that only nodes without GPUs have."
        )
    for pool_name in with_none.keys() - having:
        shown = ", ".join(sorted(with_none[pool_name])[:_NAMED_MAX])
        what = pools[pool_name].device_class or pools[pool_name].resource
        complaints.append(
            f"Pool {pool_name} has nothing to offer: none of the nodes with the labels of its "
            f"node_selector has {what} ({shown}). See to the device plugin there; a pool of CPU "
            'cores has "device": "cpu".'
        )
    return tuple(sorted(found, key=lambda one: (one.name, one.pool))), tuple(sorted(complaints))


def pools_of_nodes(
    nodes: Iterable[Object], pools: Mapping[str, KubernetesPool]
) -> Mapping[str, frozenset[str]]:
    """Return by node the pools in which it counts, without nodes of no pool."""
    found: dict[str, frozenset[str]] = {}
    for node in nodes:
        try:
            counting = _pools_of(node, pools).counting
            if counting:
                found[needed(node, "metadata", "name")] = frozenset(pool.name for pool in counting)
        except Odd:
            # `nodes_of` complains about it.
            continue
    return found


@dataclass(frozen=True, slots=True)
class _Pools:
    """The pools whose labels a node has.

    - `counting` are the pools in which it counts.
    - `disputed` are pools that would count the same devices as another pool.
    - `with_gpus` are CPU pools that exclude it because of its GPUs.
    - `with_none` are GPU pools of whose GPUs it has none.
    """

    counting: list[KubernetesPool]
    disputed: list[KubernetesPool]
    with_gpus: list[KubernetesPool]
    with_none: list[KubernetesPool]


def _pools_of(node: Object, pools: Mapping[str, KubernetesPool]) -> _Pools:
    """Return the pools whose labels a node has. Raises Odd."""
    labels = texts(node, "metadata", "labels")
    looks_like = [
        pool
        for pool in pools.values()
        if all(labels.get(name) == value for name, value in pool.node_selector.items())
    ]
    of_cores = [pool for pool in looks_like if pool.device is DeviceKind.CPU]
    # This counts a node whose GPUs are missing for a moment, as during a driver update: it must not
    # start to offer cores.
    has_gpus = bool(of_cores) and any(_may_have(node, pool) for pool in gpu_pools(pools).values())
    alike = [
        pool
        for pool in looks_like
        if (not has_gpus if pool.device is DeviceKind.CPU else _may_have(node, pool))
    ]
    # A GPU that was split into slices leaves 0 whole ones, and a new split leaves 0 of the old
    # slices.
    fitting = [pool for pool in alike if _has_any(node, pool)] or alike
    disputed = [
        pool
        for pool in fitting
        if any(other is not pool and _counts_the_same(pool, other) for other in fitting)
    ]
    return _Pools(
        counting=[pool for pool in fitting if pool not in disputed],
        disputed=disputed,
        with_gpus=of_cores if has_gpus else [],
        with_none=[
            pool
            for pool in looks_like
            if pool.device is DeviceKind.GPU and pool.node_selector and pool not in alike
        ],
    )


def _counts_the_same(one: KubernetesPool, other: KubernetesPool) -> bool:
    # The label that counts devices covers all GPUs of a node.
    by_label = one.device_class is not None or other.device_class is not None
    return by_label or one.resource == other.resource


def _may_have(node: Object, pool: KubernetesPool) -> bool:
    if pool.device_class is not None:
        return DEVICE_COUNT in texts(node, "metadata", "labels")
    return any(
        pool.resource in part(node, "status", where) for where in ("capacity", "allocatable")
    )


def _has_any(node: Object, pool: KubernetesPool) -> bool:
    """Return whether the node has GPUs of the pool, healthy or not. Raises Odd."""
    return _allocatable(node, pool) > 0 or (
        pool.device_class is None
        and pool.device is DeviceKind.GPU
        and units(node, "status", "capacity", pool.resource) > 0
    )


def _allocatable(node: Object, pool: KubernetesPool) -> int:
    """Return the number of units of the pool's resource; for cores, thousandths. Raises Odd."""
    if pool.device is DeviceKind.CPU:
        return cpu_milli(node, "status", "allocatable", "cpu") or 0
    if pool.device_class is not None:
        return units(node, "metadata", "labels", DEVICE_COUNT)
    return units(node, "status", "allocatable", pool.resource)


def _capacity(
    name: str,
    node: Object,
    pool: KubernetesPool,
    features: Mapping[str, tuple[str, str | None]],
) -> NodeCapacity:
    allocatable, labels = _allocatable(node, pool), texts(node, "metadata", "labels")
    is_of_cores = pool.device is DeviceKind.CPU
    found = true_conditions(node)
    is_ready = "Ready" in found
    is_cordoned = bool(flag(node, "spec", "unschedulable"))
    taints = [
        taint
        for taint in parts(node, "spec", "taints")
        if text(taint, "effect") in _BLOCKING_EFFECTS
        and text(taint, "key") != _CORDON_TAINT
        and not any(_tolerates(one, taint) for one in pool.tolerations)
    ]
    words = ["Ready" if is_ready else "NotReady"]
    reasons: list[str] = []
    if not is_ready:
        ready = conditions(node).get("Ready", {})
        said = text(ready, "message") or text(ready, "reason") or "it has never said that it is"
        reasons.append(f"not ready: {said}")
    reasons += [kind for kind in _PRESSURES if kind in found]
    if is_cordoned:
        words.append("SchedulingDisabled")
        reasons.append(texts(node, "metadata", "annotations").get(DRAINED) or "cordoned")
    for taint in taints[:_NAMED_MAX]:
        value = text(taint, "value")
        shown = f"{text(taint, 'key')}{'=' if value else ''}{value}:{text(taint, 'effect')}"
        reasons.append(f"taint {shown}, which the pool does not tolerate")
    if taints:
        words.append("Tainted")
    if allocatable == 0:
        words.append("NoCores" if is_of_cores else "NoGPUs")
        what = pool.device_class or pool.resource
        reasons.append(f"none of its {what} is allocatable")
    return NodeCapacity(
        name=name,
        pool=pool.name,
        capacity_mgpu=allocatable * (1 if is_of_cores else pool.mgpu_per_unit),
        is_schedulable=is_ready and not is_cordoned and not taints and allocatable > 0,
        state=",".join(words),
        reason=printable("; ".join(reasons), _LENGTH_MAX),
        features=features_of(labels, features),
        domains={
            level: labels[label]
            for level, label in pool.topology_domains.items()
            if labels.get(label)
        },
        cpu_milli=None if is_of_cores else cpu_milli(node, "status", "allocatable", "cpu"),
        memory_mib=memory_mib(node, "status", "allocatable", "memory"),
        cpu_milli_per_gpu=(pool.cpu_per_gpu or 0) * 1_000,
        memory_mib_per_gpu=pool.memory_mib_per_gpu or 0,
        device=pool.device,
    )


def _without(offered: NodeCapacity, pool: KubernetesPool, use: NodeUse) -> NodeCapacity:
    """Return what a node of a CPU pool offers after subtracting `use`."""
    kept = max(use.cpu_milli[offered.name], pool.reserved_cpu_milli)
    memory = offered.memory_mib
    return replace(
        offered,
        capacity_mgpu=max(0, offered.capacity_mgpu - kept),
        memory_mib=None if memory is None else max(0, memory - use.memory_mib[offered.name]),
    )


def core_shares_mib(
    nodes: Iterable[Object], pools: Mapping[str, KubernetesPool]
) -> Mapping[str, int]:
    """Return the MiB of memory that come with each core, by node of the CPU pools."""
    of_cores = {pool.name: pool.memory_mib_per_gpu or 0 for pool in core_pools(pools)}
    if not of_cores:
        return {}
    return {
        node: of_cores[name]
        for node, counting in pools_of_nodes(nodes, pools).items()
        for name in counting
        if name in of_cores
    }


def _tolerates(toleration: Mapping[str, str], taint: Object) -> bool:
    """Return whether `toleration` tolerates `taint`, by Kubernetes' rule. Raises Odd.

    The rule: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/.
    """
    if toleration.get("effect") and toleration["effect"] != text(taint, "effect"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key", "") in ("", text(taint, "key"))
    return toleration.get("key") == text(taint, "key") and toleration.get("value", "") == text(
        taint, "value"
    )


def _name_of(node: Object) -> str:
    try:
        return printable(text(node, "metadata", "name") or "without a name", _LENGTH_MAX)
    except Odd:
        return "without a name"
