"""The requests of workloads: GPUs or cores by pool and rank, as Kueue counts them. Pure.

An attempt has its submitted request in annotation `naming.ASKED`. The specs of most kinds may be
changed while they are suspended, and Kueue then counts the changed one. An attempt whose Workload
asks for something else is not started.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from connectors.kubernetes.manifests.pod_template import claim_template_name, pool_of
from connectors.kubernetes.nodes.cores import cores_asked, gpu_pools, most_at_once
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.reading import (
    Object,
    Odd,
    number,
    part,
    parts,
    text,
    texts,
    units,
)
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.kubernetes.options.pools import WHOLE_MGPU, KubernetesPool
from connectors.protocol import Workload
from primitives.units import gpus_text

#: The limit in the quota of a team's namespace. Each Pod is processed at every look.
PODS_MAX = 10_000
_NO_FLAVORS: Mapping[str, str] = {}
#: How many Pods, what each asks for in thousandths, and of which pool.
_DEVICES = re.compile(r"\A([0-9]{1,10})x([0-9]{1,19}) (.*)\Z", re.ASCII)


def asked_for(workload: Workload, options: KubernetesOptions) -> str:
    """Return the request of the Pods of `workload` ("2x8000 h100"), for `naming.ASKED`.

    Raises WorkloadRejected for a pool that the cluster does not have.
    """
    pool = pool_of(workload, options)
    counts: Counter[str] = Counter()
    for slot in workload.slots:
        if slot.mgpu and pool.device_class is not None:
            counts[claim_template_name(workload, slot.mgpu)] += 1
        elif slot.mgpu:
            counts[f"{slot.mgpu} {pool.name}"] += 1
    return _words(counts)


def asked_of_pods(pods: Iterable[tuple[int, Object]], pools: Mapping[str, KubernetesPool]) -> str:
    """Return the request of Pods for `naming.ASKED`, by count and template, as Kueue counts it."""
    pod_sets = [
        {"name": str(number), "count": count, "template": template}
        for number, (count, template) in enumerate(pods)
    ]
    return _asks({"spec": {"podSets": pod_sets}}, pools)


def asks_as_submitted(item: Object, workload: Object, pools: Mapping[str, KubernetesPool]) -> bool:
    """Return whether Kueue's `workload` asks for what was submitted as our object `item`."""
    try:
        return texts(item, "metadata", "annotations").get(naming.ASKED) == _asks(workload, pools)
    except Odd:
        return False


def difference_text(item: Object, workload: Object, pools: Mapping[str, KubernetesPool]) -> str:
    """Return for people what `workload` asks for, and what was submitted. Raises Odd."""
    submitted = texts(item, "metadata", "annotations").get(naming.ASKED, "nothing that is known")
    try:
        asks = _in_devices(_asks(workload, pools), pools)
    except Odd as error:
        asks = str(error)
    return f"{asks} in place of {_in_devices(submitted, pools)}"


def _in_devices(asked: str, pools: Mapping[str, KubernetesPool]) -> str:
    """Return `asked`, in the form of `_words`, in GPUs or cores; unknown parts stay."""
    return ", ".join(
        _DEVICES.sub(lambda found: _devices(found[1], int(found[2]), found[3], pools), one)
        for one in asked.split(", ")
    )


def _devices(count: str, milli: int, name: str, pools: Mapping[str, KubernetesPool]) -> str:
    if name in pools:
        return f"{count} x {pools[name].device.text(milli)} of {name}"
    return f"{count} x {gpus_text(milli)} of {name or 'a pool that cannot be told'}"


def _asks(workload: Object, pools: Mapping[str, KubernetesPool]) -> str:
    counts: Counter[str] = Counter()
    for pool, ranks in asked_by_pool(workload, pools).items():
        for mgpu in ranks:
            counts[f"{mgpu} {pool}"] += 1
    for pod_set in parts(workload, "spec", "podSets"):
        for claim in parts(pod_set, "template", "spec", "resourceClaims"):
            # A claim template of ours is immutable, so a different claim has a different name.
            counts[text(claim, "resourceClaimTemplateName")] += _count(pod_set)
    return _words(counts)


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count}x{what}" for what, count in sorted(counts.items()) if count) or "none"


def _count(pod_set: Object) -> int:
    count = number(pod_set, "count")
    if count is not None and count > PODS_MAX:
        raise Odd(f"it asks for {count} Pods, and at most {PODS_MAX} can be")
    return 1 if count is None else max(0, count)


def asked_by_pool(
    workload: Object, pools: Mapping[str, KubernetesPool]
) -> dict[str, tuple[int, ...]]:
    """Return the request of each rank of Kueue's `workload`, by pool, in the order of Pod sets.

    Pool "" has requests of unknown pools. A workload that asks for GPUs counts no cores. Raises
    Odd.
    """
    flavors = {
        text(one, "name"): texts(one, "flavors")
        for one in parts(workload, "status", "admission", "podSetAssignments")
    }
    of_gpus = gpu_pools(pools)
    resources = {pool.resource for pool in of_gpus.values()}
    has_claims = any(pool.device_class is not None for pool in of_gpus.values())
    gpus: list[tuple[str, int, int]] = []
    cores: list[tuple[str, int, int]] = []
    claims_any = False
    for pod_set in parts(workload, "spec", "podSets"):
        spec = part(pod_set, "template", "spec")
        given = flavors.get(text(pod_set, "name"), _NO_FLAVORS)
        each = gpus_by_pool(
            resource_counts(spec, resources),
            of_gpus,
            selector=part(spec, "nodeSelector"),
            flavors=given,
        )
        gpus += [(name, mgpu, _count(pod_set)) for name, mgpu in each.items()]
        claims_any = claims_any or (has_claims and bool(parts(spec, "resourceClaims")))
        if asked := cores_asked(spec, pools, given.get("cpu", "")):
            cores.append((*asked, _count(pod_set)))
    found: dict[str, tuple[int, ...]] = {}
    for name, mgpu, count in gpus if gpus or claims_any else cores:
        found[name] = found.get(name, ()) + (mgpu,) * count
    return found


def asked_by_native(
    workload: Object, pools: Mapping[str, KubernetesPool]
) -> dict[str, tuple[int, ...]]:
    """Return the same for a native workload, including GPUs that are claimed as devices.

    The claim does not reveal the pool. So pool "" gets one GPU for each Pod with a claim. Raises
    Odd.
    """
    found = asked_by_pool(workload, pools)
    if any(pool.device_class is not None for pool in pools.values()):
        for pod_set in parts(workload, "spec", "podSets"):
            if parts(pod_set, "template", "spec", "resourceClaims"):
                found[""] = found.get("", ()) + (WHOLE_MGPU,) * _count(pod_set)
    return found


def resource_counts(spec: Object, resources: Iterable[str]) -> dict[str, int]:
    """Return the amounts of `resources` that a Pod with `spec` asks for. Raises Odd.

    That is the sum of its containers and sidecars. It is more if an init container, with the
    sidecars started before it, needs more.
    """
    counts: dict[str, int] = {}
    for resource in resources:
        if most := most_at_once(spec, partial(_asked, resource=resource)):
            counts[resource] = most
    return counts


def _asked(container: Object, resource: str) -> int:
    limits = part(container, "resources", "limits")
    return units(
        limits if resource in limits else part(container, "resources", "requests"), resource
    )


def gpus_by_pool(
    counts: Mapping[str, int],
    pools: Mapping[str, KubernetesPool],
    *,
    selector: Object,
    of_node: Collection[str] | None = None,
    flavors: Mapping[str, str] = _NO_FLAVORS,
) -> dict[str, int]:
    """Return the milli-GPU by pool of `counts` of resources, for a Pod with `selector`.

    The pools of its node (`of_node`, None: unknown) decide, else the flavors from Kueue by
    resource. Pool "" has the resources of unknown pools. If the node identifies some of them, the
    others belong to no pool.
    """
    found: dict[str, int] = {}
    for resource, count in counts.items():
        wanted = [pool for pool in pools.values() if pool.resource == resource]
        pool = _chosen(wanted, of_node, selector, flavors.get(resource, ""))
        name = "" if pool is None else pool.name
        found[name] = found.get(name, 0) + count * (pool or wanted[0]).mgpu_per_unit
    if of_node is not None and len(found) > 1:
        found.pop("", None)
    return found


def _chosen(
    wanted: Sequence[KubernetesPool], of_node: Collection[str] | None, selector: Object, flavor: str
) -> KubernetesPool | None:
    """Return the pool out of `wanted`: by the node, else by the flavor, else by the selector."""
    if of_node is not None:
        return next((pool for pool in wanted if pool.name in of_node), None)
    if flavor:
        fitting = [pool for pool in wanted if pool.flavor == flavor]
    else:
        fitting = [
            pool
            for pool in wanted
            if all(selector.get(name) == value for name, value in pool.node_selector.items())
        ]
    if len(fitting) == 1:
        return fitting[0]
    return wanted[0] if len(wanted) == 1 else None
