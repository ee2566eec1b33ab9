"""Every object that a workload becomes, as a whole document, and what no Pod of ours may ever have.

The documents stand in `golden/`, with the launcher's text as LAUNCHER. After a change that is
meant, `TIDEGATE_WRITE_GOLDEN=1 pytest` on this file writes them again: read the difference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.kubernetes_builders import (
    BLOCK,
    CLUSTER_ID,
    IMAGE,
    RACK,
    ManifestCase,
    a_kube_workload,
    a_pool_with,
    manifest_cases,
    some_options,
)
from connectors.errors import WorkloadRejected
from connectors.kubernetes.manifests.building import (
    MANIFEST_BYTES_MAX,
    SCRIPT_BYTES_MAX,
    WorkloadObjects,
    check_manifest_sizes,
    objects_for,
    owned,
    owner_patch,
)
from connectors.kubernetes.manifests.pod_template import launcher_words, topology_of
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import resource_of
from connectors.kubernetes.options.pools import HOST_LABEL
from connectors.protocol import RankSlot, Workload

GOLDEN = Path(__file__).parent / "golden"
CASES = {case.name: case for case in manifest_cases()}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def built(case: ManifestCase) -> WorkloadObjects:
    return objects_for(case.workload, case.options, cluster_id=CLUSTER_ID)


def documents(objects: WorkloadObjects) -> list[Mapping[str, Any]]:
    return [*objects.before, objects.main, *objects.others]


def pods_in(item: Any) -> Iterator[Mapping[str, Any]]:
    """Every PodSpec anywhere in a document."""
    if isinstance(item, Mapping):
        if "containers" in item:
            yield item
        for value in item.values():
            yield from pods_in(value)
    elif isinstance(item, list | tuple):
        for value in item:
            yield from pods_in(value)


@every_case
def test_the_documents_are_these(case: ManifestCase) -> None:
    launcher = launcher_words(case.workload)[2]
    text = json.dumps(documents(built(case)))
    for form in (launcher, launcher.replace("$", "$$"), launcher.replace("'", "'\"'\"'")):
        text = text.replace(json.dumps(form)[1:-1], "LAUNCHER")
    found = json.loads(text)
    file = GOLDEN / f"{case.name}.yaml"
    if os.environ.get("TIDEGATE_WRITE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump_all(found, sort_keys=True, width=100))
    assert found == list(yaml.safe_load_all(file.read_text()))


@pytest.mark.parametrize(
    ("of_job", "of_pool", "asked"),
    [
        ({}, {}, (None, None)),
        ({"required_topology": "rack"}, {}, (RACK, None)),
        ({"required_topology": "node"}, {}, (HOST_LABEL, None)),
        ({"preferred_topology": "block"}, {}, (None, BLOCK)),
        ({"preferred_topology": "nvlink"}, {}, (None, None)),
        ({"required_topology": "rack"}, {"required_topology": BLOCK}, (RACK, None)),
        ({"required_topology": "block"}, {"required_topology": RACK}, (RACK, None)),
        ({"required_topology": "block"}, {"preferred_topology": RACK}, (BLOCK, None)),
        ({"preferred_topology": "rack"}, {"required_topology": BLOCK}, (BLOCK, None)),
        ({"preferred_topology": "rack"}, {"preferred_topology": BLOCK}, (None, RACK)),
        ({"preferred_topology": "nvlink"}, {"preferred_topology": BLOCK}, (None, BLOCK)),
        ({"required_topology": "rack", "ranks": 1}, {"preferred_topology": BLOCK}, (None, BLOCK)),
    ],
)
def test_what_a_gang_asks_of_the_topology(
    of_job: dict[str, Any], of_pool: dict[str, Any], asked: tuple[str | None, str | None]
) -> None:
    levels = {"topology_name": "t", "topology_levels": [BLOCK, RACK, HOST_LABEL]}
    options = some_options(pool=a_pool_with(**levels, **of_pool))
    workload = a_kube_workload(**{"ranks": 2, **of_job})
    assert topology_of(workload, options.pools["h100"]) == asked
    annotations = {
        f"kueue.x-k8s.io/podset-{how}-topology": label
        for how, label in zip(("required", "preferred"), asked, strict=True)
        if label is not None
    }
    main = objects_for(workload, options, cluster_id=CLUSTER_ID).main
    found = main["spec"]["template"]["metadata"].get("annotations", {})
    assert {name: found[name] for name in found if name.endswith("-topology")} == annotations


def test_a_level_without_a_label_is_refused() -> None:
    """It is never sent, as the arbiter knows no domain of it; what is older may be."""
    options = some_options(pool=a_pool_with(topology_name="t", topology_levels=[BLOCK]))
    for level in ("rack", "node"):
        workload = a_kube_workload(ranks=2, required_topology=level)
        with pytest.raises(WorkloadRejected, match=f"no label that says in which {level} a node"):
            objects_for(workload, options, cluster_id=CLUSTER_ID)


def test_there_is_no_golden_file_of_nothing() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(CASES)


@every_case
def test_every_pod_passes_the_restricted_standard(case: ManifestCase) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/, and more: no token."""
    pods = [pod for document in documents(built(case)) for pod in pods_in(document)]
    assert pods
    for pod in pods:
        for field in ("hostNetwork", "hostPID", "hostIPC", "hostUsers", "hostAliases", "nodeName"):
            assert field not in pod
        assert "shareProcessNamespace" not in pod
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["restartPolicy"] == "Never"
        assert pod["terminationGracePeriodSeconds"] >= 1
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert security.keys() == {
            *("runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile")
        }
        assert "initContainers" not in pod
        assert "ephemeralContainers" not in pod
        (container,) = pod["containers"]
        assert container["name"] in naming.CONTAINERS
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        for volume in pod["volumes"]:
            (kind,) = volume.keys() - {"name"}
            assert kind in {"configMap", "downwardAPI", "emptyDir"}
        for port in container.get("ports", ()):
            assert port.keys() == {"name", "containerPort"}
        for mount in container["volumeMounts"]:
            assert "mountPropagation" not in mount


def test_a_rank_of_cores_asks_for_no_gpus() -> None:
    """And may not have more than is charged. Mutants: cores are only a share; a core is a thousand;
    CPUs that a job asks for beside GPUs stand in their place."""
    case = CASES["job-cores"]
    asked = replace(case.workload, cpus_per_node=3)
    main = objects_for(asked, case.options, cluster_id=CLUSTER_ID).main
    (pod,) = pods_in(main)
    amounts = {"cpu": "6", "memory": "12288000Ki"}
    assert pod["containers"][0]["resources"] == {
        "requests": {**amounts, "ephemeral-storage": "0"},
        "limits": {**amounts, "ephemeral-storage": "112640Mi"},
    }


def test_a_rank_of_parts_of_cores_is_refused() -> None:
    case = CASES["job-cores"]
    half = replace(case.workload, slots=(RankSlot("c-0", 500),))
    with pytest.raises(WorkloadRejected, match="multiples of 1 core on this cluster"):
        objects_for(half, case.options, cluster_id=CLUSTER_ID)


@every_case
def test_every_pod_is_bounded_in_what_it_writes(case: ManifestCase) -> None:
    """Mutant: a directory without a limit; one job filled the disk of a node, and others died."""
    # No more than the memory of the rank, where its pool says how much that is.
    shared = "12288000Ki" if case.name.endswith("cores") else "67108864Ki"
    for pod in [pod for document in documents(built(case)) for pod in pods_in(document)]:
        limits = [one["emptyDir"]["sizeLimit"] for one in pod["volumes"] if "emptyDir" in one]
        assert limits == ["102400Mi", shared]
        resources = pod["containers"][0]["resources"]
        assert resources["limits"]["ephemeral-storage"] == "112640Mi"
        assert resources["requests"]["ephemeral-storage"] == "0"


def test_the_bounds_are_the_options_and_shared_memory_is_no_more_than_the_memory() -> None:
    pool = a_pool_with(memory_mib_per_gpu=1_024)
    options = some_options(pool=pool, work_mib=2_048, shared_memory_mib=4_096)
    for mgpu, shared in ((8_000, "4194304Ki"), (2_000, "2097152Ki")):
        objects = objects_for(a_kube_workload(mgpu=mgpu), options, cluster_id=CLUSTER_ID)
        (pod,) = pods_in(objects.main)
        limits = [one["emptyDir"]["sizeLimit"] for one in pod["volumes"] if "emptyDir" in one]
        assert limits == ["2048Mi", shared]
        limit = pod["containers"][0]["resources"]["limits"]["ephemeral-storage"]
        assert limit == "12288Mi"


def test_what_the_cluster_could_not_store_is_rejected() -> None:
    """Mutant: the limit of a ConfigMap was 1 MiB of characters."""
    objects = objects_for(a_kube_workload(), some_options(), cluster_id=CLUSTER_ID)
    check_manifest_sizes(objects)
    large = {**objects.main, "filler": "x" * MANIFEST_BYTES_MAX}
    with pytest.raises(WorkloadRejected, match=r"its Job would have [0-9]+ bytes, and a"):
        check_manifest_sizes(WorkloadObjects(large, objects.others))
    with pytest.raises(WorkloadRejected, match="its Job would have"):
        check_manifest_sizes(WorkloadObjects(objects.main, (), (large,)))
    full = {**objects.others[0], "data": {"script": "é" * (SCRIPT_BYTES_MAX // 2)}}
    check_manifest_sizes(WorkloadObjects(objects.main, (full,)))
    above = {**full, "data": {"script": full["data"]["script"] + "x"}}
    with pytest.raises(WorkloadRejected, match="the script has 1048577 bytes"):
        check_manifest_sizes(WorkloadObjects(objects.main, (above,)))


@every_case
def test_gpus_are_requested_as_they_are_limited(case: ManifestCase) -> None:
    for document in documents(built(case)):
        for pod in pods_in(document):
            resources = pod["containers"][0]["resources"]
            requests, limits = resources.get("requests", {}), resources.get("limits", {})
            gpus = {name for name in requests if "/" in name}
            assert {name: limits[name] for name in gpus} == {name: requests[name] for name in gpus}
            assert limits.keys() <= requests.keys()


@every_case
def test_all_that_belongs_to_an_attempt_is_found_by_label_and_key(case: ManifestCase) -> None:
    for document in documents(built(case)):
        resource_of(document)
        assert naming.key_of(document, CLUSTER_ID) == case.workload.key
        assert naming.key_of(document, "another") is None
        assert document["metadata"]["namespace"] == naming.team_namespace(case.workload.team)
        assert document["metadata"]["labels"][naming.ATTEMPT] == "true"


@every_case
def test_the_main_object_is_suspended(case: ManifestCase) -> None:
    objects = built(case)
    assert resource_of(objects.main) == case.options.resource
    assert case.options.resource.is_suspended(objects.main)
    queue = objects.main["metadata"]["labels"].get(naming.QUEUE_LABEL)
    assert queue == (naming.LOCAL_QUEUE if case.options.has_kueue else None)


def test_the_same_workload_gives_the_same_objects() -> None:
    for case in CASES.values():
        assert built(case) == built(case)


def test_what_belongs_to_a_workload_goes_with_it() -> None:
    objects = built(CASES["job-gang"])
    main = {**objects.main, "metadata": {**objects.main["metadata"], "uid": "u-1"}}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": objects.main["metadata"]["name"],
        "uid": "u-1",
    }
    for other in objects.others:
        assert owned(other, main)["metadata"]["ownerReferences"] == [owner]
        assert "ownerReferences" not in other["metadata"]
    assert owner_patch(main) == {"metadata": {"ownerReferences": [owner]}}


@pytest.mark.parametrize("kind", ["job", "trainjob", "pytorchjob", "mpijob"])
def test_ranks_that_differ_are_refused_where_the_kind_has_one_size(kind: str) -> None:
    workload = a_kube_workload(slots=(RankSlot("", 8000), RankSlot("", 4000)))
    with pytest.raises(WorkloadRejected, match="ask for as many on each node"):
        objects_for(workload, some_options(kind=kind), cluster_id=CLUSTER_ID)


def test_a_ray_cluster_may_have_another_head_but_not_other_workers() -> None:
    options = some_options(kind="rayjob")
    slots = tuple(RankSlot("", mgpu) for mgpu in (1000, 8000, 8000))
    objects_for(a_kube_workload(slots=slots), options, cluster_id=CLUSTER_ID)
    with pytest.raises(WorkloadRejected, match="all ranks of a RayJob but the first"):
        objects_for(a_kube_workload(slots=slots[1:] + slots[:1]), options, cluster_id=CLUSTER_ID)


def test_a_jobset_has_as_many_groups_as_kueue_takes() -> None:
    options = some_options(kind="jobset")
    slots = tuple(RankSlot("", 1000 + 1000 * (rank % 2)) for rank in range(19))
    objects_for(a_kube_workload(slots=slots[:18]), options, cluster_id=CLUSTER_ID)
    with pytest.raises(WorkloadRejected, match="change their size 18 times, and this cluster"):
        objects_for(a_kube_workload(slots=slots), options, cluster_id=CLUSTER_ID)


def refusal(workload: Workload, **options: Any) -> str:
    with pytest.raises(WorkloadRejected) as error:
        objects_for(workload, some_options(**options), cluster_id=CLUSTER_ID)
    return str(error.value)


def test_what_a_cluster_never_runs_is_refused_with_what_to_do() -> None:
    assert refusal(a_kube_workload(pool="b200")) == "this cluster has no pool 'b200'"
    assert refusal(a_kube_workload(mgpu=1500)) == (
        "pool h100 gives out multiples of 1 GPU on this cluster, and a rank asks for 1.5 GPUs"
    )
    assert refusal(
        a_kube_workload(mgpu=300), pool=a_pool_with(resource="a.b/mig", mgpu_per_unit=125)
    ) == (
        "pool h100 gives out multiples of 0.125 GPUs on this cluster, and a rank asks for 0.3 GPUs"
    )
    assert refusal(a_kube_workload(), pool={}) == (
        "jobs run in container images there, and pool h100 has none of its own: name one"
    )
    assert refusal(a_kube_workload(image="quay.io/x/y:1"), allowed_registries=["ghcr.io"]) == (
        "images of quay.io/x/y may not be run here; use one of ghcr.io"
    )
    assert refusal(a_kube_workload(image="Upper"), allowed_registries=["ghcr.io"]).startswith(
        "'Upper' is no container image: write registry/path:tag"
    )
    assert refusal(a_kube_workload(image=IMAGE), allowed_registries=[]) == (
        "jobs may name no image here; leave it out to run in the pool's own"
    )
    pool = a_pool_with(image=f"{IMAGE}@sha256:{'0' * 64}")
    assert refusal(a_kube_workload(image="x:1"), require_digest=True, pool=pool) == (
        "the image docker.io/library/x must be named with its digest, as in "
        "docker.io/library/x@sha256:..."
    )
    assert refusal(a_kube_workload(features=("-ib",))).startswith(
        "feature '-ib' can be no label of this cluster's nodes"
    )


def test_a_jobs_image_is_named_as_kubernetes_names_it() -> None:
    workload = a_kube_workload(image="docker://nvcr.io#nvidia/pytorch:24.05-py3")
    main = objects_for(workload, some_options(), cluster_id=CLUSTER_ID).main
    (container,) = main["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "nvcr.io/nvidia/pytorch:24.05-py3"


def test_a_rank_without_gpus_has_the_share_of_one() -> None:
    options = some_options(pool=a_pool_with(cpu_per_gpu=12, memory_mib_per_gpu=1024))
    objects = objects_for(a_kube_workload(mgpu=0), options, cluster_id=CLUSTER_ID)
    (pod,) = pods_in(objects.main)
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "12000m", "memory": "1048576Ki", "ephemeral-storage": "0"},
        "limits": {"memory": "1048576Ki", "ephemeral-storage": "112640Mi"},
    }


@pytest.mark.parametrize(
    ("labels", "annotations", "rank"),
    [
        ({}, {}, None),
        ({naming.ROLE: "member"}, {naming.FIRST_RANK: "1"}, None),
        ({naming.ROLE: "rank"}, {}, 0),
        ({naming.ROLE: "rank"}, {naming.INDEX_OF_JOB: "3"}, 3),
        ({naming.ROLE: "rank"}, {naming.INDEX_OF_JOB: "3", naming.FIRST_RANK: "8"}, 11),
        ({naming.ROLE: "rank", naming.INDEX_OF_REPLICA: "2"}, {naming.FIRST_RANK: "1"}, 3),
        ({naming.ROLE: "rank", naming.INDEX_OF_REPLICA: "x"}, {}, None),
        ({naming.ROLE: "rank"}, {naming.FIRST_RANK: "٣"}, None),
    ],
)
def test_a_pod_says_which_rank_it_is(
    labels: dict[str, str], annotations: dict[str, str], rank: int | None
) -> None:
    pod = {"metadata": {"labels": labels, "annotations": annotations}}
    assert naming.rank_of(pod) == rank


@every_case
def test_every_rank_gets_the_cpus_and_the_memory_that_are_asked_for(case: ManifestCase) -> None:
    """Memory as a limit, too; who has no GPUs of the job's keeps to what its pool gives."""
    asked = replace(case.workload, cpus_per_node=3, memory_mib_per_node=5_000)
    objects = objects_for(asked, case.options, cluster_id=CLUSTER_ID)
    found = set()
    for document in documents(objects):
        for pod in pods_in(document):
            resources = pod["containers"][0]["resources"]
            if any("/" in name for name in resources.get("limits", {})):
                requests = resources["requests"]
                found.add((requests["cpu"], requests["memory"], resources["limits"]["memory"]))
                (shared,) = (one for one in pod["volumes"] if one["name"] == "shared-memory")
                assert shared["emptyDir"]["sizeLimit"] == "5120000Ki"
    assert found <= {("3", "5120000Ki", "5120000Ki")}
    assert found or case.name.endswith(("devices", "cores"))
