"""CPU cores as the devices of pools: who holds them on which node, and who asks for them. Pure.

The CPU that comes with GPUs is of no pool. So a node whose labels are those of a pool of cores has
cores only where it has no GPUs of a pool, and what asks for GPUs of a pool asks for no cores.

What is held of a node is counted as the cluster's scheduler does, or what is offered would not be
what fits: by requests, of every Pod that is bound to the node and has not ended. What the node's
own services hold (Pods of DaemonSets, and those that it made for itself) is never offered. Of all
others the listing tells, one by one: what is neither ours nor in a queue is held outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
from connectors.kubernetes.options.options import KubernetesPool
from primitives.units import DeviceKind

#: Annotation of what a node made for itself: the API server shows only a mirror of it.
MIRROR = "kubernetes.io/config.mirror"
_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


def gpu_pools(pools: Mapping[str, KubernetesPool]) -> dict[str, KubernetesPool]:
    """Those of GPUs."""
    return {name: pool for name, pool in pools.items() if pool.device is DeviceKind.GPU}


def core_pools(pools: Mapping[str, KubernetesPool]) -> tuple[KubernetesPool, ...]:
    """Those of CPU cores."""
    return tuple(pool for pool in pools.values() if pool.device is DeviceKind.CPU)


def in_queue_order(pools: Iterable[KubernetesPool]) -> tuple[KubernetesPool, ...]:
    """`pools` in the one order in which queues list their flavors, which is that in which Kueue
    tries them. Pools of cores are last: what asks for neither GPUs nor the labels of a pool goes
    where it went before there were any."""
    return tuple(sorted(pools, key=lambda pool: (pool.device is DeviceKind.CPU, pool.name)))


def most_at_once(spec: Object, asked: Callable[[Object], int]) -> int:
    """What a Pod with `spec` asks for where each of its containers asks for `asked`: containers and
    sidecars together, or an init container with the sidecars that were started before it.

    Raises Odd.
    """
    sidecars = most = 0
    for one in parts(spec, "initContainers"):
        each = asked(one)
        most = max(most, sidecars + each)
        if text(one, "restartPolicy") == "Always":
            sidecars += each
    return max(most, sidecars + sum(asked(one) for one in parts(spec, "containers")))


def cpu_milli_of(spec: Object) -> int:
    """The CPU that a Pod with `spec` asks for, in thousandths of a core. Raises Odd."""
    return _requested(spec, "cpu", cpu_milli_asked)


def memory_mib_of(spec: Object) -> int:
    """The memory that a Pod with `spec` asks for, in MiB. Raises Odd."""
    return _requested(spec, "memory", memory_mib_asked)


def _requested(spec: Object, resource: str, read: Callable[[Object, str], int | None]) -> int:
    def asked(item: Object) -> int | None:
        # Where there is only a limit, the API server takes it for the request.
        request = read(part(item, "resources", "requests"), resource)
        return read(part(item, "resources", "limits"), resource) if request is None else request

    whole = asked(spec)
    most = most_at_once(spec, lambda one: asked(one) or 0) if whole is None else whole
    return most + (read(part(spec, "overhead"), resource) or 0)


def is_of_its_node(pod: Object) -> bool:
    """Whether the Pod is one of its node's own services: of a DaemonSet, or made by the node for
    itself. Raises Odd."""
    return MIRROR in texts(pod, "metadata", "annotations") or any(
        flag(owner, "controller") is True and text(owner, "kind") == "DaemonSet"
        for owner in parts(pod, "metadata", "ownerReferences")
    )


def cores_asked(
    spec: Object, pools: Mapping[str, KubernetesPool], flavor: str = ""
) -> tuple[str, int] | None:
    """The pool of which Pods with `spec` in a queue have cores, and how many thousandths each; pool
    "" where that cannot be told, None for none. For what asks for no GPUs.

    `flavor` is what Kueue has given them of CPU, "" as long as it has given nothing: then it is
    told as Kueue will. Raises Odd.
    """
    if not core_pools(pools) or not (milli := cpu_milli_of(spec)):
        return None
    meant = _meant(spec, pools)
    if flavor:
        given = next((pool.name for pool in core_pools(pools) if pool.flavor == flavor), None)
        # Other nodes than those that it would have been granted on.
        meant = "" if given is None and meant is not None else given
    return None if meant is None else (meant, milli)


def _meant(spec: Object, pools: Mapping[str, KubernetesPool]) -> str | None:
    """The pool of cores whose flavor Kueue gives to Pods with `spec`, None where it is none of
    them; "" where that may be one of several, or a pool's labels and those of others."""
    fitting = [pool for pool in in_queue_order(pools.values()) if _fits(spec, pool.node_selector)]
    if not fitting or fitting[0].device is DeviceKind.GPU:
        # Of CPU there is always enough in a flavor of GPUs.
        selected = part(spec, "nodeSelector").items()
        named = any(pool.node_selector.items() <= selected for pool in core_pools(pools))
        return "" if named else None
    return fitting[0].name if len(fitting) == 1 else ""


def _fits(spec: Object, labels: Mapping[str, str]) -> bool:
    """Whether Kueue takes a flavor with `labels` for Pods with `spec`: of what they say of nodes it
    asks only for labels that this flavor has (`flavorSelector` in its flavorassigner.go)."""
    selector = part(spec, "nodeSelector")
    if any(selector.get(label, value) != value for label, value in labels.items()):
        return False
    required = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = [
        [one for one in parts(term, "matchExpressions") if text(one, "key") in labels]
        for term in parts(spec, *required, "nodeSelectorTerms")
    ]
    # A term that says nothing of the flavor's labels is met by it, and one is enough.
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
    """The thousandths of cores that the Pod holds, or waits for, by pool of `pools`, which are of
    cores; "" where it is on a node that is not its pool's. `of_node` are the pools of the node that
    it is on. Raises Odd.

    On a node of a pool whatever asks for CPU holds some of it.
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
    """What is not to be offered of nodes, by name: CPU and memory of each node's own services, and
    the memory of other Pods that are not ours beyond what comes with their cores."""

    cpu_milli: Counter[str] = field(default_factory=Counter)
    memory_mib: Counter[str] = field(default_factory=Counter)


def use_of_nodes(
    pods: Iterable[Object], shares_mib: Mapping[str, int], is_ours: Callable[[Object], bool]
) -> NodeUse:
    """What `pods` hold of the nodes in `shares_mib`: how many MiB come with a core on each.

    The arbiter counts the cores of all others than the nodes' own services, and as much memory with
    them as a job of ours gets; and of what is ours exactly what it has.
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
            # The listing tells it.
            continue
    return found
