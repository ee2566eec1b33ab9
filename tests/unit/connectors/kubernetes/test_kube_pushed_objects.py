"""What a push writes for a pool of CPU cores; and, byte by byte, what it writes on a cluster
without any, of which such pools must not change a single object.

The documents stand in `golden_push/`. After a change that is meant, `TIDEGATE_WRITE_GOLDEN=1
pytest` on this file writes them again: read the difference.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from builders.kube_quota_builders import (
    H100_LABELS,
    KUEUE,
    NLP,
    ORG,
    RESEARCH,
    TOP,
    FakeKubeApi,
    a_company_tree,
    a_control,
    cell,
    gpus,
    kube_shape,
    push,
    queue_path,
)
from connectors.entitlements import Entitlements
from connectors.kubernetes.quotas.objects import Shape
from connectors.kubernetes.quotas.settings import for_apply, manifest
from connectors.kubernetes.quotas.wanted_objects import wanted_items

GOLDEN = Path(__file__).parent / "golden_push"
POOLS = {
    "h100": {
        "node_selector": H100_LABELS,
        "topology_name": "fabric",
        "topology_levels": ["example.com/block", "kubernetes.io/hostname"],
    },
    "slices": {
        "node_selector": {"nvidia.com/gpu.product": "A100"},
        "resource": "nvidia.com/mig-1g.5gb",
        "mgpu_per_unit": 125,
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    },
}


def written(shape: Shape) -> str:
    """Every object of the company's tree as it is applied, in the order of the push."""
    bodies = [
        for_apply(manifest(item.thing, item.name, item.settings, shape))
        for item in wanted_items(a_company_tree(), shape)
    ]
    return json.dumps(bodies, indent=1) + "\n"


@pytest.mark.parametrize("mode", ["arbiter", "shared"])
def test_without_a_pool_of_cores_a_push_writes_what_it_always_wrote(mode: str) -> None:
    text = written(kube_shape(mode, pools=POOLS))
    path = GOLDEN / f"{mode}.json"
    if os.environ.get("TIDEGATE_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


#: A name that goes before that of the GPUs, and a flavor of its own.
CORES = {
    "h100": {"node_selector": H100_LABELS},
    "batch": {"device": "cpu", "node_selector": {"pool": "batch"}, "flavor": "any-cpu"},
}
_NOTHING = {"nominalQuota": "0", "borrowingLimit": "0", "lendingLimit": "0"}
_WIDE = {"nominalQuota": str(10**15), "borrowingLimit": "0", "lendingLimit": "0"}


def a_tree_with_cores() -> Entitlements:
    """The company's; research has 96 cores besides, of which nlp is guaranteed 32 and lends 4 of
    them, and 20 are nobody's."""
    tree = a_company_tree()
    cores = {
        "org": gpus(96),
        "org/research": gpus(96, borrows=8),
        "org/research/nlp": gpus(32, lends=4, borrows=16),
    }
    nodes = tuple(
        replace(node, terms={**node.terms, "batch": cores[node.path]})
        if node.path in cores
        else node
        for node in tree.nodes
    )
    return replace(tree, nodes=nodes, spare_mgpu={**tree.spare_mgpu, "batch": 20_000})


def test_cores_are_cpu_of_a_flavor_of_their_own() -> None:
    """Behind those of GPUs, where Kueue looks first for what names neither: these have CPU without
    bound, and the cores have none of their GPUs. The quota is in cores. Mutants: the flavors by
    their pools' names alone; thousandths; CPU of GPU flavors bounded by the cores' quota."""
    api, shape = FakeKubeApi(), kube_shape("shared", pools=CORES)
    push(a_control(api, shape), a_tree_with_cores())
    (group,) = api.get(queue_path(NLP))["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"]
    assert [one["name"] for one in group["flavors"]] == ["h100", "any-cpu"]
    of_gpus, of_cores = (
        {one.pop("name"): one for one in flavor["resources"]} for flavor in group["flavors"]
    )
    assert of_gpus["cpu"] == _WIDE
    assert of_cores == {
        "cpu": {"nominalQuota": "32", "borrowingLimit": "16", "lendingLimit": "4"},
        "memory": {**_WIDE, "nominalQuota": str(2**60)},
        "ephemeral-storage": {**_WIDE, "nominalQuota": str(2**60)},
        "nvidia.com/gpu": _NOTHING,
    }
    assert api.get(f"{KUEUE}/resourceflavors/any-cpu")["spec"] == {"nodeLabels": {"pool": "batch"}}
    hard = api.get(f"/api/v1/namespaces/{NLP}/resourcequotas/tidegate")["spec"]["hard"]
    # A limit of CPU would count what comes with GPUs, and refuse Pods that name none.
    assert [name for name in hard if "cpu" in name] == []


def test_resources_beside_gpus_are_wide_in_each_queue() -> None:
    """Kueue holds a workload with a resource that its queue does not have.

    Planted: the queue without the resource.
    """
    api, shape = FakeKubeApi(), kube_shape("shared", other_resources=["rdma/hca"])
    control = a_control(api, shape)
    push(control, a_company_tree())
    (group,) = api.get(queue_path(NLP))["spec"]["resourceGroups"]
    assert group["coveredResources"] == [
        *("cpu", "memory", "ephemeral-storage", "rdma/hca", "nvidia.com/gpu"),
    ]
    cells = {one["name"]: one for one in group["flavors"][0]["resources"]}
    assert cells["rdma/hca"] == {"name": "rdma/hca", **_WIDE}
    assert control.changes(a_company_tree()) == ()
    plain = a_control(api, kube_shape("shared"))
    assert sorted(
        change.subject.rpartition(" ")[2] for change in plain.changes(a_company_tree())
    ) == [
        *("(org/production)", "(org/research/nlp)", "(org/research/vision)"),
    ]


def test_cohorts_own_the_cores_that_their_members_are_not_guaranteed() -> None:
    """In cohorts a pool of cores shares the group of the GPUs, so that each flavor has a cell of
    nothing of the other's resource. Mutants: its own cells are left out, so that nothing can be
    borrowed; a cell of nothing counts as quota of somebody else, so that the push fails."""
    api, shape = FakeKubeApi(), kube_shape("shared", pools=CORES)
    push(a_control(api, shape), a_tree_with_cores())
    research = api.get(f"{KUEUE}/cohorts/{RESEARCH}")
    assert cell(research, "any-cpu", "cpu") == {
        "name": "cpu",
        "nominalQuota": "64",
        "borrowingLimit": "8",
    }
    assert cell(research, "h100", "cpu") == {"name": "cpu", "nominalQuota": "0"}
    (group,) = research["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "nvidia.com/gpu"]
    assert cell(api.get(f"{KUEUE}/cohorts/{TOP}"), "any-cpu", "cpu") == {
        "name": "cpu",
        "nominalQuota": "20",
    }
    assert "resourceGroups" not in api.get(f"{KUEUE}/cohorts/{ORG}")["spec"]


def test_the_arbiter_alone_bounds_cores_in_its_own_mode() -> None:
    api, shape = FakeKubeApi(), kube_shape("arbiter", pools=CORES)
    push(a_control(api, shape), a_tree_with_cores())
    assert cell(api.get(queue_path(NLP)), "any-cpu", "cpu") == {"name": "cpu", **_WIDE}
    assert "resourceGroups" not in api.get(f"{KUEUE}/cohorts/{RESEARCH}")["spec"]


@pytest.mark.parametrize("mode", ["arbiter", "shared"])
def test_what_somebody_changes_of_the_cores_is_seen_and_overwritten(mode: str) -> None:
    """Mutant: CPU is one of the resources that are wide, and nobody looks at its quota."""
    api, shape = FakeKubeApi(), kube_shape(mode, pools=CORES)
    control = a_control(api, shape)
    push(control, a_tree_with_cores())
    assert control.changes(a_tree_with_cores()) == ()
    before = dict(cell(api.get(queue_path(NLP)), "any-cpu", "cpu"))
    flavors = api.objects[queue_path(NLP)]["spec"]["resourceGroups"][0]["flavors"]
    flavors[1]["resources"][0]["nominalQuota"] = "7"
    (change,) = control.changes(a_tree_with_cores())
    wanted = None if mode == "arbiter" else 32
    assert {name: now for name, now in change.after.items() if change.before[name] != now} == {
        "any-cpu cpu": wanted
    }
    assert change.before["any-cpu cpu"] == 7
    push(control, a_tree_with_cores())
    assert cell(api.get(queue_path(NLP)), "any-cpu", "cpu") == before


def test_a_pool_of_cores_is_added_to_queues_that_are_there() -> None:
    """And taken away again, with nothing else of them changed."""
    api = FakeKubeApi()
    plain = kube_shape("shared", pools={"h100": CORES["h100"]})
    push(a_control(api, plain), a_company_tree())
    before = json.dumps(api.get(queue_path(NLP))["spec"])
    push(a_control(api, kube_shape("shared", pools=CORES)), a_tree_with_cores())
    assert cell(api.get(queue_path(NLP)), "any-cpu", "cpu")["nominalQuota"] == "32"
    push(a_control(api, plain), a_company_tree())
    assert json.dumps(api.get(queue_path(NLP))["spec"]) == before
