"""Pools of CPU cores on Kubernetes: what nodes offer, who holds cores, and who asks for them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from builders.kube_states import (
    CLUSTER_ID,
    H100,
    NAMESPACE,
    OUR_LABELS,
    PRODUCT_LABEL,
    a_node,
    alone,
    pools_of,
)
from connectors.kubernetes.manifests.asking import asked_by_native, asked_by_pool, difference_text
from connectors.kubernetes.nodes.cores import cpu_milli_of, memory_mib_of, use_of_nodes
from connectors.kubernetes.nodes.inventory import core_shares_mib, nodes_of, pools_of_nodes
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.kubernetes.workloads.observing import listing_of
from connectors.protocol import NativeWorkload, NodeCapacity, RankSlot, WorkloadPhase
from primitives.units import DeviceKind

Json = dict[str, Any]

BATCH = {"example.com/pool": "batch"}
GPU_NODES = {PRODUCT_LABEL: H100}
#: Beside the GPUs there are cores, 2,000 MiB with each.
POOLS = pools_of(
    h100={"node_selector": GPU_NODES},
    batch={"device": "cpu", "node_selector": BATCH, "memory_mib_per_core": 2_000},
)
DAEMON = {"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
REPLICAS = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


def a_core_node(
    name: str = "c1", *, cpu: str = "15900m", memory: str = "64000Mi", **labels: str
) -> Json:
    """A node of pool batch: 16 cores, of which the node's system has a tenth of one."""
    node = a_node(name, labels={**BATCH, **labels})
    node["status"]["capacity"] = {"cpu": "16", "memory": "66000Mi"}
    node["status"]["allocatable"] = {"cpu": cpu, "memory": memory}
    return node


def asks(**amounts: str) -> Json:
    """A container with these requests."""
    return {"name": "main", "resources": {"requests": dict(amounts)}}


def a_pod(
    name: str,
    node: str = "",
    *containers: Json,
    phase: str = "Running",
    owner: Mapping[str, Any] | None = None,
    namespace: str = "services",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    return {
        "metadata": {
            "uid": name,
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-11-21T20:00:00Z",
            "ownerReferences": [] if owner is None else [dict(owner)],
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
        },
        "spec": {"containers": list(containers), **({"nodeName": node} if node else {}), **spec},
        "status": {"phase": phase},
    }


def offered(node: Json, *pods: Json, pools: Mapping[str, KubernetesPool] = POOLS) -> NodeCapacity:
    """What the only pool of cores has of `node` on which `pods` are."""
    shares = core_shares_mib([node], pools)
    use = use_of_nodes(pods, shares, lambda pod: pod["metadata"]["namespace"] == NAMESPACE)
    (found,), complaints = nodes_of([node], pools, {}, use)
    assert complaints == ()
    return found


def test_a_node_offers_its_allocatable_cores_and_nothing_beside_them() -> None:
    """Mutants: the capacity, of which the system has some; a core counts as a thousand of them; the
    same CPU is told beside the cores, too."""
    assert offered(a_core_node()) == NodeCapacity(
        "c1",
        "batch",
        15_900,
        True,
        "Ready",
        memory_mib=64_000,
        memory_mib_per_gpu=2_000,
        device=DeviceKind.CPU,
    )


def test_what_the_nodes_own_services_hold_is_not_offered() -> None:
    """By requests, as the cluster's scheduler counts; what has ended holds nothing. Mutants: all
    Pods are the node's own, so that a job of ours is counted twice; a mirror of a static Pod is
    nobody's; what has ended, and what is on another node, holds cores for ever."""
    found = offered(
        a_core_node(),
        a_pod("daemon", "c1", asks(cpu="250m", memory="200Mi"), owner=DAEMON),
        a_pod("proxy", "c1", asks(cpu="0.1"), annotations={"kubernetes.io/config.mirror": "x"}),
        a_pod("old", "c1", asks(cpu="4"), phase="Succeeded", owner=DAEMON),
        a_pod("away", "c2", asks(cpu="4"), owner=DAEMON),
        a_pod("ours", "c1", asks(cpu="4", memory="9000Mi"), namespace=NAMESPACE),
        a_pod("greedy", "c1", {"name": "main", "resources": {}}, owner=DAEMON),
    )
    assert (found.capacity_mgpu, found.memory_mib) == (15_900 - 250 - 100, 64_000 - 200)


def test_memory_of_others_beyond_what_comes_with_their_cores_is_not_offered() -> None:
    """The arbiter counts 2,000 MiB with each core that others hold. Mutants: all of it is taken
    off again; what others save is offered a second time."""
    found = offered(
        a_core_node(),
        a_pod("large", "c1", asks(cpu="1", memory="9000Mi"), owner=REPLICAS),
        a_pod("small", "c1", asks(cpu="2", memory="100Mi"), owner=REPLICAS),
        a_pod("cache", "c1", asks(memory="3Gi"), owner=REPLICAS),
    )
    assert (found.capacity_mgpu, found.memory_mib) == (15_900, 64_000 - 7_000 - 3_072)


def test_cores_that_are_kept_for_the_nodes_own_services_are_never_offered() -> None:
    """Whatever these ask for at the moment, as while a DaemonSet is rolled out. Mutant: kept beside
    what they hold."""
    pools = pools_of(batch={"device": "cpu", "node_selector": BATCH, "reserved_cpu_milli": 900})
    daemon = a_pod("daemon", "c1", asks(cpu="250m"), owner=DAEMON)
    more = a_pod("more", "c1", asks(cpu="1"), owner=DAEMON)
    assert offered(a_core_node(), pools=pools).capacity_mgpu == 15_000
    assert offered(a_core_node(), daemon, pools=pools).capacity_mgpu == 15_000
    assert offered(a_core_node(), daemon, more, pools=pools).capacity_mgpu == 14_650
    assert offered(a_core_node(cpu="500m"), pools=pools).capacity_mgpu == 0


@pytest.mark.parametrize("gpus", ["8", "0"])
def test_a_node_with_gpus_has_no_cores_of_a_pool(gpus: str) -> None:
    """Its CPU goes with its GPUs; also while a driver is installed anew and none are there. It says
    so, once for all such nodes. Mutants: it counts in both pools; 0 GPUs make it one of cores."""
    nodes = [a_node(name, gpus=gpus, labels={**GPU_NODES, **BATCH}) for name in ("n2", "n1")]
    for node in nodes:
        node["status"]["allocatable"]["cpu"] = "128"
    found, complaints = nodes_of([*nodes, a_core_node()], POOLS, {})
    assert [(one.name, one.pool) for one in found] == [
        ("c1", "batch"),
        ("n1", "h100"),
        ("n2", "h100"),
    ]
    assert complaints == (
        "Pool batch of CPU cores has 2 nodes with GPUs by its node_selector (n1, n2): their cores "
        "are not offered, and what people start on them is not counted. Give it a label that only "
        "nodes without GPUs have.",
    )
    assert pools_of_nodes(nodes, POOLS) == {name: frozenset({"h100"}) for name in ("n1", "n2")}


def test_gpus_of_any_pool_take_a_node_out_of_the_cores() -> None:
    """Whose labels are none of the pool's of these GPUs. Mutant: only the pools that it looks
    like are asked."""
    node = a_node(labels=BATCH)
    assert nodes_of([node], POOLS, {})[0] == ()


def test_a_node_of_two_pools_of_cores_is_in_neither() -> None:
    pools = pools_of(
        batch={"device": "cpu", "node_selector": BATCH},
        large={"device": "cpu", "node_selector": {"size": "large"}},
    )
    found, complaints = nodes_of([a_core_node(size="large")], pools, {})
    assert found == ()
    assert complaints == (
        "Node c1 has the same cores for the pools batch and large by their node_selector and "
        "resource; it is left out of them until it has them for one only.",
    )


@pytest.mark.parametrize(
    ("spec", "cpu_milli", "memory_mib"),
    [
        ({"containers": [asks(cpu="0.0005", memory="1"), asks(cpu="1e-1")]}, 101, 1),
        ({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]}, 2_000, 1_024),
        (
            {
                "containers": [asks(cpu="1")],
                "initContainers": [
                    {**asks(cpu="500m"), "restartPolicy": "Always"},
                    asks(cpu="3"),
                ],
            },
            3_500,
            0,
        ),
        (
            {
                "containers": [asks(cpu="1", memory="8Gi")],
                "resources": {"requests": {"cpu": "6"}},
                "overhead": {"cpu": "250m", "memory": "64Mi"},
            },
            6_250,
            8_256,
        ),
    ],
    ids=["rounded up", "a limit alone", "init and sidecar", "of the whole Pod, and overhead"],
)
def test_a_pod_holds_what_the_scheduler_counts(spec: Json, cpu_milli: int, memory_mib: int) -> None:
    """Mutants: rounded down, so that a thousand of them hold nothing; a limit without a request is
    no request; sidecars are left out; the whole Pod's request is added to its containers'."""
    assert (cpu_milli_of(spec), memory_mib_of(spec)) == (cpu_milli, memory_mib)


def listed(*pods: Json, nodes: tuple[Json, ...] = (a_core_node(),)) -> list[NativeWorkload]:
    state = KubeState((), (), tuple(pods), nodes, 1_795_294_500)
    found = listing_of(state, cluster_id=CLUSTER_ID, pools=POOLS)
    assert found.unread == ()
    return list(found.natives)


def test_pods_of_others_on_a_node_of_cores_are_held_outside() -> None:
    """Each by what it asks for. Not the node's own services, which the node does not offer; not
    what is on other nodes or waits for any. Mutants: these are told as well; 250m is 250 cores."""
    gpu_node = a_node("n1")
    found = listed(
        a_pod("web", "c1", asks(cpu="250m"), owner=REPLICAS),
        a_pod("daemon", "c1", asks(cpu="1"), owner=DAEMON),
        a_pod("elsewhere", "n1", asks(cpu="1"), owner=REPLICAS),
        a_pod("waits", "", asks(cpu="1"), owner=REPLICAS, phase="Pending"),
        a_pod("over", "c1", asks(cpu="1"), owner=REPLICAS, phase="Failed"),
        a_pod("wants", "", asks(cpu="2"), phase="Pending", nodeSelector=BATCH),
        nodes=(a_core_node(), gpu_node),
    )
    assert [(one.name, one.pool, one.mgpu, one.slots, one.place) for one in found] == [
        ("services/wants", "batch", 2_000, (), "services"),
        ("services/web", "batch", 250, (RankSlot("c1", 250),), "services"),
    ]


def test_cpu_of_a_pod_with_gpus_is_of_no_pool() -> None:
    """Where it may have been sent by the labels of a pool of cores. Mutant: it holds both."""
    both = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "4"}}}
    found = listed(
        a_pod("gpu", "n1", both, nodeSelector=BATCH), nodes=(a_core_node(), a_node("n1"))
    )
    assert [(one.pool, one.mgpu) for one in found] == [("h100", 1_000)]


def test_what_is_on_a_node_that_is_not_its_pools_is_of_no_pool() -> None:
    """A node with GPUs that has the pool's labels, too. Mutant: it holds cores that nobody
    offers."""
    node = a_node("n1", labels={**GPU_NODES, **BATCH})
    found = listed(a_pod("job", "n1", asks(cpu="4"), nodeSelector=BATCH), nodes=(node,))
    assert [(one.pool, one.mgpu) for one in found] == [("", 4_000)]


def a_workload(*pod_sets: Json, flavors: tuple[Mapping[str, str], ...] = ()) -> Json:
    """Kueue's Workload of these Pod sets, to which it has given `flavors`."""
    named = [{"name": f"p{index}", **pod_set} for index, pod_set in enumerate(pod_sets)]
    assigned = [{"name": f"p{index}", "flavors": dict(one)} for index, one in enumerate(flavors)]
    return {
        "metadata": {
            "uid": "w",
            "name": "w",
            "namespace": NAMESPACE,
            "creationTimestamp": "2026-11-21T20:00:00Z",
        },
        "spec": {"podSets": named},
        "status": {"admission": {"podSetAssignments": assigned}} if flavors else {},
    }


def a_pod_set(container: Json, count: int = 1, **spec: Any) -> Json:
    return {"count": count, "template": {"spec": {"containers": [container], **spec}}}


FOUR = asks(cpu="4")
EIGHT_GPUS = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "64"}}}
TWO_POOLS = pools_of(
    batch={"device": "cpu", "node_selector": BATCH},
    large={"device": "cpu", "node_selector": {**BATCH, "size": "large"}},
)
#: All told by one label.
ONE_LABEL = pools_of(
    h100={"node_selector": {"example.com/pool": "h100"}},
    batch={"device": "cpu", "node_selector": BATCH},
)
ONLY_CORES = pools_of(batch={"device": "cpu", "node_selector": BATCH})


def apart(operator: str, *values: str, label: str = PRODUCT_LABEL) -> Json:
    """What Pods say of a label of nodes beside their selector."""
    expression = {"key": label, "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("pools", "selector", "affinity", "asked"),
    [
        (ONE_LABEL, BATCH, {}, {"batch": (4_000, 4_000)}),
        (ONE_LABEL, {}, {}, {}),
        (ONE_LABEL, {"example.com/pool": "other"}, {}, {}),
        (POOLS, BATCH, {}, {"": (4_000, 4_000)}),
        (POOLS, BATCH, apart("DoesNotExist"), {"batch": (4_000, 4_000)}),
        (POOLS, BATCH, apart("NotIn", H100), {"batch": (4_000, 4_000)}),
        (POOLS, {}, apart("NotIn", H100), {"batch": (4_000, 4_000)}),
        (POOLS, BATCH, apart("In", H100), {"": (4_000, 4_000)}),
        (POOLS, BATCH, apart("Exists", label="a"), {"": (4_000, 4_000)}),
        (POOLS, {}, {}, {}),
        (POOLS, GPU_NODES, {}, {}),
        (TWO_POOLS, BATCH, {}, {"": (4_000, 4_000)}),
        (TWO_POOLS, {"example.com/pool": "other"}, {}, {}),
        (ONLY_CORES, {}, {}, {"batch": (4_000, 4_000)}),
    ],
    ids=[
        "one label for all pools",
        "no label: as before",
        "another value of it",
        "labels that those of GPUs do not have",
        "and none of those of GPUs",
        "and not that of these GPUs",
        "not that of these GPUs alone",
        "and those of GPUs",
        "and a label of no pool",
        "neither",
        "those of GPUs",
        "labels of two pools",
        "labels of nothing",
        "no GPUs there",
    ],
)
def test_a_native_without_gpus_asks_for_the_cores_that_kueue_will_give_it(
    pools: Mapping[str, KubernetesPool], selector: Json, affinity: Json, asked: Json
) -> None:
    """Kueue 0.19 asks of a flavor only for labels that the flavor has, and tries those of GPUs
    first, where there is always enough CPU. Mutants: what the selector says alone, so that what is
    granted in the pool gets the nodes of GPUs; no label means the only pool of cores; of two the
    first is taken."""
    pod_set = a_pod_set(FOUR, 2, nodeSelector=selector, affinity=affinity)
    assert asked_by_native(a_workload(pod_set), pools) == asked


def test_what_kueue_gave_goes_before_what_the_labels_say() -> None:
    """Mutants: the flavor is not looked at; CPU of GPU nodes stands for cores of the pool."""
    pod_set = a_pod_set(FOUR, nodeSelector=BATCH, affinity=apart("DoesNotExist"))
    assert asked_by_pool(a_workload(pod_set, flavors=({"cpu": "batch"},)), POOLS) == {
        "batch": (4_000,)
    }
    assert asked_by_pool(a_workload(pod_set, flavors=({"cpu": "h100"},)), POOLS) == {"": (4_000,)}
    free = a_workload(a_pod_set(FOUR), flavors=({"cpu": "h100"},))
    assert asked_by_pool(free, POOLS) == {}
    assert asked_by_pool(a_workload(pod_set, flavors=({"cpu": "large"},)), TWO_POOLS) == {
        "large": (4_000,)
    }


def test_what_asks_for_gpus_asks_for_no_cores() -> None:
    """Neither its Pods with GPUs, nor a leader without any. Mutant: each Pod set is looked at
    alone, so that the whole is of several pools and never starts."""
    workload = a_workload(a_pod_set(FOUR, nodeSelector=BATCH), a_pod_set(EIGHT_GPUS, 3))
    assert asked_by_native(workload, POOLS) == {"h100": (8_000,) * 3}


@pytest.mark.parametrize(
    ("submitted", "asks_for", "words"),
    [
        (
            "4x1500 batch",
            a_pod_set(FOUR, 3, nodeSelector=BATCH, affinity=apart("DoesNotExist")),
            "3 x 4 cores of batch in place of 4 x 1.5 cores of batch",
        ),
        (
            "1x1000 batch",
            a_pod_set(EIGHT_GPUS, 2),
            "2 x 8 GPUs of h100 in place of 1 x 1 core of batch",
        ),
        (
            "2x500 gone, 1x1000 ",
            a_pod_set(FOUR, nodeSelector=BATCH),
            "1 x 4 of a pool that cannot be told in place of 2 x 0.5 of gone, "
            "1 x 1 of a pool that cannot be told",
        ),
        (
            "2xtg-claim-500, 1x9" + "9" * 19 + " batch",
            a_pod_set({"name": "main"}),
            "none in place of 2xtg-claim-500, 1x9" + "9" * 19 + " batch",
        ),
    ],
    ids=["cores", "GPUs", "no pool", "others' words"],
)
def test_what_was_changed_is_told_in_devices(submitted: str, asks_for: Json, words: str) -> None:
    """Mutants: thousandths; GPUs whatever the pool; what somebody wrote there is taken for ours."""
    item = {"metadata": {"annotations": {naming.ASKED: submitted}}}
    assert difference_text(item, a_workload(asks_for), POOLS) == words


def test_a_leader_without_gpus_on_a_node_of_cores_is_held_outside() -> None:
    """Its cores are nobody else's, and its job is of one pool."""
    gpus = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    workload = a_workload(a_pod_set(FOUR, nodeSelector=BATCH), a_pod_set(gpus))
    workload["metadata"]["ownerReferences"] = [
        {"kind": "JobSet", "name": "j", "uid": "j", "controller": True}
    ]
    workload["status"] = {
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T20:00:01Z"}
            for kind in ("QuotaReserved", "Admitted")
        ]
    }
    owner = workload["metadata"]["ownerReferences"][0]
    state = alone(
        None,
        workload,
        [
            a_pod("leader", "c1", FOUR, owner=owner, namespace=NAMESPACE),
            a_pod("worker", "n1", gpus, owner=owner, namespace=NAMESPACE),
        ],
        nodes=(a_core_node(), a_node("n1")),
    )
    found = listing_of(state, cluster_id=CLUSTER_ID, pools=POOLS).natives
    assert [(one.native_id, one.pool, one.slots, one.is_mixed, one.phase) for one in found] == [
        ("j", "h100", (RankSlot("n1", 8_000),), False, WorkloadPhase.RUNNING),
        ("leader", "batch", (RankSlot("c1", 4_000),), False, WorkloadPhase.RUNNING),
    ]


def test_without_a_pool_of_cores_nobody_looks_at_cpu() -> None:
    """Mutant: what cannot be read of it makes a workload odd that only asks for GPUs."""
    pools = pools_of(h100={"node_selector": GPU_NODES})
    odd = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "much"}}}
    assert asked_by_pool(a_workload(a_pod_set(odd)), pools) == {"h100": (1_000,)}
    state = KubeState((), (), (a_pod("web", "n1", odd),), (a_node("n1"),), 1_795_294_500)
    found = listing_of(state, cluster_id=CLUSTER_ID, pools=pools)
    assert ([one.mgpu for one in found.natives], found.unread) == ([1_000], ())


def test_an_attempt_has_its_cores_where_its_pods_are() -> None:
    """Mutant: only GPUs are held, so that nobody knows where it is."""
    item = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "uid": "j",
            "name": "j",
            "namespace": NAMESPACE,
            "creationTimestamp": "2026-11-21T20:00:00Z",
            "labels": dict(OUR_LABELS),
            "annotations": {naming.KEY: "k"},
        },
        "spec": {"suspend": False, "parallelism": 2},
    }
    workload = a_workload(a_pod_set(FOUR, 2, nodeSelector=BATCH), flavors=({"cpu": "batch"},))
    owner = {"kind": "Job", "name": "j", "uid": "j", "controller": True}
    workload["metadata"]["ownerReferences"] = [owner]
    workload["status"]["conditions"] = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T20:00:01Z"}
        for kind in ("QuotaReserved", "Admitted")
    ]
    pods = [
        a_pod(
            f"j-{index}",
            node,
            FOUR,
            owner=owner,
            namespace=NAMESPACE,
            labels=OUR_LABELS,
            annotations={
                naming.KEY: "k",
                "batch.kubernetes.io/job-completion-index": str(index),
            },
            nodeSelector=BATCH,
        )
        for index, node in enumerate(("c1", "c2"))
    ]
    state = alone(item, workload, copy.deepcopy(pods), nodes=(a_core_node(), a_core_node("c2")))
    seen = listing_of(state, cluster_id=CLUSTER_ID, pools=POOLS).observations["k"]
    assert (seen.pool, seen.slots) == ("batch", (RankSlot("c1", 4_000), RankSlot("c2", 4_000)))
