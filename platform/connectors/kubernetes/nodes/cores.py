"""CPU cores as the devices of pools: their use by node, and the requests for them. Pure.

CPU that comes with GPUs belongs to no pool. So a node with the labels of a CPU pool offers cores
only if it has no GPUs of a pool. A Pod that asks for GPUs of a pool counts no cores.

The use of a node is counted as the cluster's scheduler does; otherwise the offer would not match
what fits. It counts the requests of every Pod that is bound to the node and has not ended. Cores of
the node's own services (Pods of DaemonSets, and static Pods) are never offered. All other Pods are
in the listing. A Pod that is neither ours nor in a queue counts as held outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connectors.kubernetes.nodes.features import REQUIRED
from connectors.kubernetes.objects.reading import (
    Object,
    Odd,
    cpu_milli_asked,
    flag,
    memory_mib_asked,
    part,
    parts,
    text,
    texts,
)
from connectors.kubernetes.options.pools import KubernetesPool
from primitives.units import DeviceKind

#: Annotation of a static Pod, of which the API server shows only a mirror.
MIRROR = "kubernetes.io/config.mirror"
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


def gpu_pools(pools: Mapping[str, KubernetesPool]) -> dict[str, KubernetesPool]:
    """Return the pools of GPUs."""
    return {name: pool for name, pool in pools.items() if pool.device is DeviceKind.GPU}


def core_pools(pools: Mapping[str, KubernetesPool]) -> tuple[KubernetesPool, ...]:
    """Return the pools of CPU cores."""
    return tuple(pool for pool in pools.values() if pool.device is DeviceKind.CPU)


def in_queue_order(pools: Iterable[KubernetesPool]) -> tuple[KubernetesPool, ...]:
    """Return `pools` in the order of flavors in queues, in which Kueue tries them.

    CPU pools are last. A Pod without GPUs and without the labels of a pool goes to the flavor that
    it had before CPU pools existed.
    """
    return tuple(sorted(pools, key=lambda pool: (pool.device is DeviceKind.CPU, pool.name)))


def most_at_once(spec: Object, asked: Callable[[Object], int]) -> int:
    """Return the request of a Pod with `spec`, whose containers each ask for `asked`. Raises Odd.

    That is the sum of containers and sidecars. It is more if an init container, with the sidecars
    started before it, needs more.
    """
    sidecars = most = 0
    for one in parts(spec, "initContainers"):
        each = asked(one)
        most = max(most, sidecars + each)
        if text(one, "restartPolicy") == "Always":
            sidecars += each
    return max(most, sidecars + sum(asked(one) for one in parts(spec, "containers")))


def cpu_milli_of(spec: Object) -> int:
    """Return the CPU request of a Pod with `spec`, in thousandths of a core. Raises Odd."""
    return _requested(spec, "cpu", cpu_milli_asked)


def memory_mib_of(spec: Object) -> int:
    """Return the memory request of a Pod with `spec`, in MiB. Raises Odd."""
    return _requested(spec, "memory", memory_mib_asked)


def _requested(spec: Object, resource: str, read: Callable[[Object, str], int | None]) -> int:
    def asked(item: Object) -> int | None:
        # If there is only a limit, the API server uses it as the request.
        request = read(part(item, "resources", "requests"), resource)
        return read(part(item, "resources", "limits"), resource) if request is None else request

    whole = asked(spec)
    most = most_at_once(spec, lambda one: asked(one) or 0) if whole is None else whole
    return most + (read(part(spec, "overhead"), resource) or 0)


def is_of_its_node(pod: Object) -> bool:
    """Return whether the Pod is one of its node's own services. Raises Odd.

    These are Pods of DaemonSets, and static Pods of the node.
    """
    return MIRROR in texts(pod, "metadata", "annotations") or any(
        flag(owner, "controller") is True and text(owner, "kind") == "DaemonSet"
        for owner in parts(pod, "metadata", "ownerReferences")
    )


def cores_asked(
    spec: Object, pools: Mapping[str, KubernetesPool], flavor: str = ""
) -> tuple[str, int] | None:
    """Return pool and thousandths of a core of each Pod with `spec` in a queue; None for none.

    Pool "" means that the pool is unknown. This applies only to Pods without GPUs. `flavor` is the
    CPU flavor that Kueue assigned. While it is "", Kueue's choice is predicted. Raises Odd.
    """
    if not core_pools(pools) or not (milli := cpu_milli_of(spec)):
        return None
    meant = _meant(spec, pools)
    if flavor:
        given = next((pool.name for pool in core_pools(pools) if pool.flavor == flavor), None)
        # Kueue assigned other nodes than predicted.
        meant = "" if given is None and meant is not None else given
    return None if meant is None else (meant, milli)


def _meant(spec: Object, pools: Mapping[str, KubernetesPool]) -> str | None:
    """Return the CPU pool whose flavor Kueue gives to Pods with `spec`; None without one.

    "" means that several pools are possible, or that other flavors fit the pool's labels too.
    """
    fitting = [pool for pool in in_queue_order(pools.values()) if _fits(spec, pool.node_selector)]
    if not fitting or fitting[0].device is DeviceKind.GPU:
        # A flavor of GPUs always has enough CPU quota.
        selected = part(spec, "nodeSelector").items()
        named = any(pool.node_selector.items() <= selected for pool in core_pools(pools))
        return "" if named else None
    return fitting[0].name if len(fitting) == 1 else ""


def _fits(spec: Object, labels: Mapping[str, str]) -> bool:
    """Return whether Kueue takes a flavor with `labels` for Pods with `spec`.

    Kueue checks only node labels that this flavor has (`flavorSelector` in its flavorassigner.go).
    """
    selector = part(spec, "nodeSelector")
    if any(selector.get(label, value) != value for label, value in labels.items()):
        return False
    required = ("affinity", "nodeAffinity", REQUIRED)
    terms = [
        [one for one in parts(term, "matchExpressions") if text(one, "key") in labels]
        for term in parts(spec, *required, "nodeSelectorTerms")
    ]
    # A term without the flavor's labels is satisfied, and one satisfied term is enough.
    return not terms or any(
        all(_is_met(one, labels[text(one, "key")]) for one in term) for term in terms
    )


def _is_met(expression: Object, value: str) -> bool:
    match text(expression, "operator"):
        case "In":
            return value in (expression.get("values") or ())
        case "NotIn":
            return value not in (expression.get("values") or ())
        case operator:
            return operator == "Exists"


def cores_held(
    pod: Object, pools: Sequence[KubernetesPool], of_node: Iterable[str], *, asks_gpus: bool
) -> dict[str, int]:
    """Return the thousandths of cores that the Pod holds or awaits, by CPU pool of `pools`.

    `of_node` are the pools of the Pod's node. On a node of a pool, every Pod that asks for CPU
    holds some. Pool "" has cores of a Pod that selects a pool, but is on another node. Raises Odd.
    """
    if not pools or is_of_its_node(pod):
        return {}
    spec = part(pod, "spec")
    milli = cpu_milli_of(spec)
    if not milli:
        return {}
    node = text(spec, "nodeName")
    for pool in pools:
        if node and pool.name in of_node:
            return {pool.name: milli}
    selector = part(spec, "nodeSelector")
    chosen = [pool.name for pool in pools if pool.node_selector.items() <= selector.items()]
    if asks_gpus or len(chosen) != 1:
        return {}
    return {"" if node else chosen[0]: milli}


@dataclass(slots=True)
class NodeUse:
    """Amounts that nodes must not offer, by node name.

    They are the CPU and memory of each node's own services. They also include the memory of native
    Pods beyond the share of their cores.
    """

    cpu_milli: Counter[str] = field(default_factory=Counter)
    memory_mib: Counter[str] = field(default_factory=Counter)


def use_of_nodes(
    pods: Iterable[Object], shares_mib: Mapping[str, int], is_ours: Callable[[Object], bool]
) -> NodeUse:
    """Return what `pods` use on the nodes of `shares_mib`, the MiB per core by node.

    The arbiter counts the cores of all Pods except the nodes' own services. With native cores it
    counts as much memory as our jobs get, and for our own jobs their exact memory.
    """
    found = NodeUse()
    for pod in pods:
        try:
            node = text(pod, "spec", "nodeName")
            if node not in shares_mib or text(pod, "status", "phase") in _ENDED_PHASES:
                continue
            spec = part(pod, "spec")
            cpu, memory = cpu_milli_of(spec), memory_mib_of(spec)
            if is_of_its_node(pod):
                found.cpu_milli[node] += cpu
                found.memory_mib[node] += memory
            elif not is_ours(pod):
                found.memory_mib[node] += max(0, memory - cpu * shares_mib[node] // 1_000)
        except Odd:
            # The listing reports it.
            continue
    return found
