"""Nodes of a Kubernetes cluster, and what is said of those that do not count."""

from __future__ import annotations

from typing import Any

import pytest

from builders.kube_states import H100, PRODUCT_LABEL, a_node, pools_of, recorded
from connectors.kubernetes.nodes.inventory import nodes_of, pools_of_nodes
from connectors.protocol import NodeCapacity

BATCH = {"work": "batch"}
WHOLE, SMALL, LARGE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
#: A node whose GPUs are cut in the mixed strategy has these under one product.
MIXED = {
    "whole": {"node_selector": {PRODUCT_LABEL: H100}},
    "small": {"node_selector": {PRODUCT_LABEL: H100}, "resource": SMALL},
    "large": {
        "node_selector": {PRODUCT_LABEL: H100},
        "resource": LARGE,
        "mgpu_per_unit": 500,
    },
}
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def a_mixed_node(*, counts: dict[str, str]) -> dict[str, Any]:
    node = a_node()
    for where in ("capacity", "allocatable"):
        node["status"][where] = {"cpu": "64", **counts}
    return node


def told(found: tuple[NodeCapacity, ...]) -> list[tuple[str, str, int, bool, str]]:
    return [
        (each.name, each.pool, each.capacity_mgpu, each.is_schedulable, each.state)
        for each in found
    ]


def one(node: dict[str, Any], **pools: Any) -> NodeCapacity:
    (found,), complaints = nodes_of([node], pools_of(**pools), {})
    assert complaints == ()
    return found


def test_a_node_that_takes_work() -> None:
    assert one(a_node()) == NodeCapacity("n1", "h100", 8_000, True, "Ready")


@pytest.mark.parametrize(
    ("node", "state", "reason"),
    [
        (a_node(ready="False"), "NotReady", "not ready: kubelet is down"),
        (a_node(ready="Unknown"), "NotReady", "not ready: kubelet is down"),
        (a_node(unschedulable=True), "Ready,SchedulingDisabled", "cordoned"),
        (
            a_node(unschedulable=True, annotations={"tidegate.io/drained": "new fans"}),
            "Ready,SchedulingDisabled",
            "new fans",
        ),
        (
            a_node(taints=(TAINT,)),
            "Ready,Tainted",
            "taint team=a:NoSchedule, which the pool does not tolerate",
        ),
        (a_node(gpus="0"), "Ready,NoGPUs", "none of its nvidia.com/gpu is allocatable"),
    ],
)
def test_a_node_that_takes_no_work(node: dict[str, Any], state: str, reason: str) -> None:
    found = one(node)
    assert (found.is_schedulable, found.state, found.reason) == (False, state, reason)


@pytest.mark.parametrize(
    ("toleration", "takes_work"),
    [
        ({"key": "team", "operator": "Equal", "value": "a"}, True),
        ({"key": "team", "operator": "Equal", "value": "a", "effect": "NoExecute"}, False),
        ({"key": "team", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "b"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_taints_that_the_pool_tolerates(toleration: dict[str, str], takes_work: bool) -> None:
    pool = {"node_selector": {PRODUCT_LABEL: H100}, "tolerations": [toleration]}
    assert one(a_node(taints=(TAINT,)), h100=pool).is_schedulable is takes_work


def test_a_soft_taint_and_the_taint_of_a_cordon_say_nothing_more() -> None:
    soft = {"key": "x", "effect": "PreferNoSchedule"}
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert one(a_node(taints=(soft, cordon))).is_schedulable is True


def test_parts_of_gpus() -> None:
    node = a_node(gpus="0")
    node["status"]["allocatable"] = {"nvidia.com/mig-1g.10gb": "7"}
    pool = {
        "node_selector": {PRODUCT_LABEL: H100},
        "resource": "nvidia.com/mig-1g.10gb",
        "mgpu_per_unit": 142,
    }
    assert one(node, mig=pool).capacity_mgpu == 994


def test_devices_are_counted_by_their_label() -> None:
    node = a_node(labels={PRODUCT_LABEL: H100, "nvidia.com/gpu.count": "4"})
    pool = {"node_selector": {PRODUCT_LABEL: H100}, "device_class": "gpu.nvidia.com"}
    assert one(node, h100=pool).capacity_mgpu == 4_000


def test_nodes_of_no_pool_are_left_out() -> None:
    nodes = [a_node("cpu", labels={}), a_node("other", labels={PRODUCT_LABEL: "A100"})]
    assert nodes_of(nodes, pools_of(), {}) == ((), ())


def test_a_pool_whose_nodes_have_none_of_its_gpus_says_so() -> None:
    """Such as one of CPU cores whose options do not say so. One without nodes, or without a
    selector, says nothing.

    Planted bugs that died of it: said where another node has them; nobody said so.
    """
    pools = pools_of(batch={"node_selector": BATCH}, far={"node_selector": {"at": "moon"}}, rest={})
    without = [a_node(name, labels=BATCH) for name in ("n2", "n1")]
    for node in without:
        for where in ("capacity", "allocatable"):
            node["status"][where].pop(WHOLE)
    assert nodes_of(without, pools, {}) == (
        (),
        (
            "Pool batch has nothing to offer: none of the nodes with the labels of its "
            f"node_selector has {WHOLE} (n1, n2). See to the device plugin there; a pool of CPU "
            'cores has "device": "cpu".',
        ),
    )
    pools = pools_of(batch={"node_selector": BATCH})
    found, complaints = nodes_of([*without, a_node("n3", labels=BATCH)], pools, {})
    assert ([one.name for one in found], complaints) == (["n3"], ())


def test_the_same_gpus_of_two_pools_are_complained_of_and_left_out() -> None:
    """Mutant: they counted for the first, and what ran there for the second."""
    node = a_node(labels={"a": "1", "b": "1"})
    pools = {"one": {"node_selector": {"a": "1"}}, "two": {"node_selector": {"b": "1"}}}
    found, complaints = nodes_of([node, a_node("n2", labels={"a": "1"})], pools_of(**pools), {})
    assert [(each.name, each.pool) for each in found] == [("n2", "one")]
    assert complaints == (
        "Node n1 has the same GPUs for the pools one and two by their node_selector and resource; "
        "it is left out of them until it has them for one only.",
    )
    assert pools_of_nodes([node], pools_of(**pools)) == {}


def test_so_are_all_pools_beside_one_that_counts_by_the_label() -> None:
    """It has all GPUs of the node, slices of them included.

    Mutant: only equal resources are the same GPUs.
    """
    node = a_mixed_node(counts={SMALL: "7"})
    node["metadata"]["labels"]["nvidia.com/gpu.count"] = "1"
    claimed = {"node_selector": {PRODUCT_LABEL: H100}, "device_class": "gpu.nvidia.com"}
    pools = pools_of(claimed=claimed, small=MIXED["small"])
    found, (complaint,) = nodes_of([node], pools, {})
    assert found == ()
    assert complaint.startswith("Node n1 has the same GPUs for the pools claimed and small by ")


def test_a_node_with_gpus_of_several_kinds_counts_in_a_pool_with_each() -> None:
    """With what it has of each, and in one state.

    Mutants: it counted in the first alone; with the devices of the first in all; cordoned for one.
    """
    counts = {WHOLE: "6", SMALL: "7", LARGE: "2"}
    node = a_mixed_node(counts=counts)
    found, complaints = nodes_of([node], pools_of(**MIXED), {})
    assert complaints == ()
    assert told(found) == [
        ("n1", "large", 1_000, True, "Ready"),
        ("n1", "small", 7_000, True, "Ready"),
        ("n1", "whole", 6_000, True, "Ready"),
    ]
    assert {each.cpu_milli for each in found} == {64_000}
    assert pools_of_nodes([node], pools_of(**MIXED)) == {"n1": {"large", "small", "whole"}}
    node["spec"]["unschedulable"] = True
    found, _ = nodes_of([node], pools_of(**MIXED), {})
    assert [(each.is_schedulable, each.reason) for each in found] == [(False, "cordoned")] * 3


def test_what_a_node_has_no_more_of_does_not_count_there() -> None:
    """GPUs that were cut in slices leave 0 whole ones behind, slices that were cut anew 0 of their
    kind; but GPUs that are there and broken are shown as such.

    Mutants: pools of which a node has 0 count, or those of which none is healthy do not.
    """
    node = a_mixed_node(counts={WHOLE: "0", SMALL: "7", LARGE: "0"})
    found, complaints = nodes_of([node], pools_of(**MIXED), {})
    assert (told(found), complaints) == ([("n1", "small", 7_000, True, "Ready")], ())
    node["status"]["capacity"][LARGE] = "2"
    found, complaints = nodes_of([node], pools_of(**MIXED), {})
    assert told(found) == [
        ("n1", "large", 0, False, "Ready,NoGPUs"),
        ("n1", "small", 7_000, True, "Ready"),
    ]
    assert found[0].reason == f"none of its {LARGE} is allocatable"
    node = a_mixed_node(counts={WHOLE: "0"})
    found, _ = nodes_of([node], pools_of(**MIXED), {})
    assert told(found) == [("n1", "whole", 0, False, "Ready,NoGPUs")]


def test_a_node_that_makes_no_sense_is_complained_of() -> None:
    node = a_node()
    node["status"]["allocatable"] = {"nvidia.com/gpu": "0.5"}
    assert nodes_of([node, a_node("n2")], pools_of(), {}) == (
        (NodeCapacity("n2", "h100", 8_000, True, "Ready"),),
        (
            "Node n1 makes no sense and is left out: status.allocatable.nvidia.com/gpu is no whole "
            "quantity.",
        ),
    )


def test_features_are_labels() -> None:
    labels = {
        PRODUCT_LABEL: H100,
        "feature.node.kubernetes.io/rdma": "true",
        "feature.node.kubernetes.io/sriov": "false",
        "feature.node.kubernetes.io/own": "true",
        "fabric": "ib",
    }
    options = {"infiniband": ("fabric", "ib"), "ethernet": ("fabric", "eth"), "own": ("x", None)}
    ((found,), _) = nodes_of([a_node(labels=labels)], pools_of(), options)
    assert found.features == ("infiniband", "rdma")


def test_where_a_node_stands_are_labels() -> None:
    """Of the levels that its pool names, and of those only."""
    labels = {PRODUCT_LABEL: H100, "example.com/rack": "r7", "example.com/block": ""}
    levels = ["example.com/block", "example.com/rack", "example.com/row"]
    pool = {"node_selector": {PRODUCT_LABEL: H100}, "topology_name": "t", "topology_levels": levels}
    assert one(a_node(labels=labels), h100=pool).domains == {"rack": "r7"}
    named = {**pool, "topology_domains": {"nvlink": "example.com/rack"}}
    assert one(a_node(labels=labels), h100=named).domains == {"nvlink": "r7"}
    assert one(a_node(labels=labels)).domains == {}


def test_the_nodes_of_a_real_cluster() -> None:
    found, complaints = nodes_of(recorded("node-down").nodes, pools_of(), {})
    assert complaints == ()
    assert {node.name for node in found if not node.is_schedulable} == {"gpu-007"}
    down = next(node for node in found if node.name == "gpu-007")
    assert down.state == "NotReady,Tainted"
    assert down.reason.startswith("not ready: down by annotation; taint node.kubernetes.io/not-rea")


@pytest.mark.parametrize(
    ("cpu", "memory", "cpu_milli", "memory_mib"),
    [
        ("128", "2Ti", 128_000, 2 << 20),
        ("127610m", "2113432Ki", 127_610, 2_063),
        ("1.5", "1.5Gi", 1_500, 1_536),
        (64, "128e9", 64_000, 122_070),
        ("0", "1000", 0, 0),
        ("2k", "1048576000m", 2_000_000, 1),
    ],
)
def test_the_cpus_and_the_memory_of_a_node(
    cpu: Any, memory: Any, cpu_milli: int, memory_mib: int
) -> None:
    """As Kubernetes writes them, and what jobs get of them with each GPU.

    Mutants: memory in millions of bytes; parts of a CPU rounded up.
    """
    node = a_node()
    node["status"]["allocatable"] |= {"cpu": cpu, "memory": memory}
    found = one(node)
    assert (found.cpu_milli, found.memory_mib) == (cpu_milli, memory_mib)
    assert (found.cpu_milli_per_gpu, found.memory_mib_per_gpu) == (0, 0)
    pool = {"node_selector": {PRODUCT_LABEL: H100}, "cpu_per_gpu": 12, "memory_mib_per_gpu": 9}
    found = one(node, h100=pool)
    assert (found.cpu_milli_per_gpu, found.memory_mib_per_gpu) == (12_000, 9)


def test_a_node_whose_cpus_make_no_sense_is_complained_of() -> None:
    node = a_node()
    node["status"]["allocatable"] |= {"cpu": "many"}
    assert nodes_of([node], pools_of(), {}) == (
        (),
        ("Node n1 makes no sense and is left out: status.allocatable.cpu is no quantity.",),
    )
