"""The objects of a manifest job: those of the person, with what the portal sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.kubernetes_builders import (
    BLOCK,
    CLUSTER_ID,
    RACK,
    a_kube_workload,
    a_pool_with,
    some_options,
)
from connectors.errors import WorkloadRejected
from connectors.kubernetes.manifests.building import check_manifest_sizes, objects_for
from connectors.kubernetes.manifests.manifest_places import place_manifest, place_on
from connectors.kubernetes.objects import naming
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import RankSlot
from connectors.workload_checks import check_workload
from manifests.jobs import ManifestJob
from manifests.reading import read_manifest

RECORDINGS = Path(__file__).parents[3] / "recordings" / "manifests"
TOPOLOGY = {"topology_name": "fabric", "topology_levels": [BLOCK, RACK]}


def recorded(name: str) -> str:
    return (RECORDINGS / f"{name}.yaml").read_text()


def job_of(text: str) -> ManifestJob:
    job = read_manifest(text).job
    assert job is not None
    return job


def objects_of(
    text: str, *slots: int, options: KubernetesOptions | None = None, **changes: Any
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    workload = replace(
        a_kube_workload(text, slots=tuple(RankSlot("n", mgpu) for mgpu in slots)),
        is_manifest=True,
        **changes,
    )
    made = objects_for(workload, options or some_options(), cluster_id=CLUSTER_ID)
    return dict(made.main), made.others


def test_a_job_gets_queue_marks_place_and_security() -> None:
    """Planted: the person's queue; a Job that removes itself; labels of the object only."""
    text = recorded("job").replace("queue-name: main", "queue-name: theirs")
    text = text.replace("suspend: true", "ttlSecondsAfterFinished: 5")
    item, others = objects_of(text, 3_000, time_limit_s=600, grace_s=45)
    key = "tg-0197a8c0-1111-7222-8333-444444444444"
    namespace = naming.team_namespace("ai-company/research/nlp")
    assert others == ()
    assert item["metadata"] == {
        "name": key,
        "namespace": namespace,
        "labels": {
            **naming.labels(CLUSTER_ID, "ai-company/research/nlp"),
            "kueue.x-k8s.io/queue-name": "main",
            "kueue.x-k8s.io/priority-class": "tidegate-guaranteed",
            "kueue.x-k8s.io/max-exec-time-seconds": "600",
        },
        "annotations": {
            naming.KEY: key,
            naming.PATH: "ai-company/research/nlp",
            naming.MANIFEST: "3",
            naming.ASKED: "3x1000 h100",
        },
    }
    spec = item["spec"]
    assert {name: spec[name] for name in spec if name != "template"} == {
        "parallelism": 3,
        "completions": 3,
        "completionMode": "Indexed",
        "suspend": True,
        "ttlSecondsAfterFinished": 7 * 86_400,
    }
    template = spec["template"]
    assert template["metadata"] == {
        "annotations": {naming.KEY: key},
        "labels": {**naming.labels(CLUSTER_ID, "ai-company/research/nlp"), naming.ROLE: "rank"},
    }
    assert template["spec"] == {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 45,
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsUser": 1_000,
            "runAsGroup": 1_000,
            "fsGroup": 1_000,
        },
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/train:1",
                "command": ["sleep", "30"],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


@pytest.mark.parametrize("kind", ["Job", "Pod"])
@pytest.mark.parametrize("metadata", ["", "metadata:\n", "metadata: {labels: , annotations: }\n"])
def test_an_object_without_metadata_gets_the_portals(kind: str, metadata: str) -> None:
    """Planted: a Job that was accepted, and for which no attempt could be built."""
    spec = (
        "{restartPolicy: Never, containers: [{name: main, image: registry.example.com/a, "
        "resources: {limits: {nvidia.com/gpu: 1}}}]}"
    )
    text = f"apiVersion: v1\nkind: Pod\n{metadata}spec: {spec}\n"
    if kind == "Job":
        text = f"apiVersion: batch/v1\nkind: Job\n{metadata}spec: {{template: {{spec: {spec}}}}}\n"
    item, _ = objects_of(text, 1_000)
    assert item["metadata"]["name"] == "tg-0197a8c0-1111-7222-8333-444444444444"
    assert item["metadata"]["annotations"][naming.MANIFEST] == "1"


def test_what_a_cluster_wrote_into_a_job_is_left_out() -> None:
    """Planted: the old selector and labels in the new Job, which its cluster would refuse."""
    text = recorded("job").replace(
        "  template:\n    spec:\n",
        "  selector: {matchLabels: {controller-uid: u}}\n  template:\n"
        "    metadata:\n      creationTimestamp: null\n      name: x\n"
        "      labels: {controller-uid: u, batch.kubernetes.io/job-name: j, app: a}\n"
        '      annotations: {batch.kubernetes.io/job-completion-index: "7"}\n    spec:\n',
    )
    text = text.replace("  labels:\n", "  labels:\n    job-name: j\n", 1)
    item, _ = objects_of(text, 3_000)
    ours = naming.labels(CLUSTER_ID, "ai-company/research/nlp")
    assert "job-name" not in item["metadata"]["labels"]
    assert "selector" not in item["spec"]
    assert item["spec"]["template"]["metadata"] == {
        "annotations": {naming.KEY: "tg-0197a8c0-1111-7222-8333-444444444444"},
        "labels": {"app": "a", **ours, naming.ROLE: "rank"},
    }


def test_the_jobs_of_a_jobset_keep_the_marks_of_the_person_only() -> None:
    """Planted: metadata of a JobSet's Jobs as it was given, with a queue of another team."""
    text = recorded("jobset-in-a-rack").replace(
        "    template:\n      spec:\n        parallelism",
        "    template:\n      metadata: {name: x, uid: u, labels: {a: b, "
        "kueue.x-k8s.io/queue-name: theirs}}\n      spec:\n        parallelism",
    )
    item, _ = objects_of(text, *([8_000] * 8), options=a_pool_of(**TOPOLOGY))
    assert item["spec"]["replicatedJobs"][0]["template"]["metadata"] == {"labels": {"a": "b"}}


def test_the_pods_are_for_the_scheduler_of_the_cluster() -> None:
    """Planted: the scheduler of the file, which the cluster may not have."""
    text = recorded("job").replace(
        "restartPolicy", "schedulerName: kai-scheduler\n      restartPolicy"
    )
    assert [one.detail for one in read_manifest(text).findings if "schedulerName" in one.where] == [
        "the cluster's own scheduler places the Pods"
    ]
    assert "schedulerName" not in objects_of(text, 3_000)[0]["spec"]["template"]["spec"]


def test_what_the_person_said_of_security_stays() -> None:
    text = recorded("job").replace(
        "restartPolicy: Never",
        "restartPolicy: Never\n      terminationGracePeriodSeconds: 9\n"
        "      securityContext: {runAsUser: 4711}",
    )
    spec = objects_of(text, 3_000)[0]["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == 9
    assert spec["securityContext"]["runAsUser"] == 4_711
    assert "fsGroup" not in spec["securityContext"]


@pytest.mark.parametrize(("granted", "pods"), [(5_000, 5), (12_000, 12), (20_000, 20)])
def test_an_elastic_job_has_as_many_pods_as_were_granted(granted: int, pods: int) -> None:
    """Planted: completions reduced as well, so that work was left out."""
    item, _ = objects_of(recorded("elastic-job"), granted)
    assert (item["spec"]["parallelism"], item["spec"]["completions"]) == (pods, 20)
    assert "kueue.x-k8s.io/job-min-parallelism" not in item["metadata"]["annotations"]
    assert item["metadata"]["annotations"][naming.ASKED] == f"{pods}x1000 h100"


@pytest.mark.parametrize("granted", [4_000, 21_000, 5_500])
def test_another_size_than_the_manifest_allows_is_refused(granted: int) -> None:
    with pytest.raises(WorkloadRejected, match="submit it anew"):
        objects_of(recorded("elastic-job"), granted)


def test_a_pod_becomes_a_job_that_runs_once() -> None:
    item, _ = objects_of(recorded("pod"), 1_000)
    assert (item["kind"], item["spec"]["backoffLimit"]) == ("Job", 0)
    assert item["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert item["metadata"]["namespace"] != "default"


def test_claims_are_copied_under_names_of_the_attempt() -> None:
    """Planted: the person's name, which the next attempt would have found taken."""
    options = some_options(pool=a_pool_with(device_class="gpu.nvidia.com"))
    item, (template,) = objects_of(recorded("job-with-claim"), 1_000, options=options)
    name = "tg-0197a8c0-1111-7222-8333-444444444444-claim-0"
    assert template["metadata"]["name"] == name
    claims = item["spec"]["template"]["spec"]["resourceClaims"]
    assert claims == [{"name": "gpu", "resourceClaimTemplateName": name}]
    assert item["metadata"]["annotations"][naming.ASKED] == f"1x{name}"


def test_a_jobset_has_ranks_of_each_copy_and_its_new_host_names() -> None:
    text = recorded("jobset-in-a-rack").replace(
        "              - sleep\n              - '30'",
        "              - --master=jobset-tas-workers-0-0.jobset-tas:29500\n"
        "              - jobset-tas-workers-0-0x",
    )
    options = some_options(pool=a_pool_with(**TOPOLOGY))
    item, _ = objects_of(text, *[8_000] * 8, options=options)
    template = item["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    key = "tg-0197a8c0-1111-7222-8333-444444444444"
    assert template["metadata"]["annotations"] == {
        "kueue.x-k8s.io/podset-required-topology": RACK,
        naming.KEY: key,
        naming.RANKS_OF_COPY: "4",
    }
    assert template["spec"]["containers"][0]["command"] == [
        f"--master={key}-workers-0-0.{key}:29500",
        "jobset-tas-workers-0-0x",
    ]
    assert item["metadata"]["annotations"][naming.ASKED] == "8x8000 h100"


def test_aliases_do_not_share_what_is_filled_in() -> None:
    """Planted: a deep copy that keeps what is shared; the second template had the first's rank."""
    text = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: two}
spec:
  replicatedJobs:
  - name: a
    template: &job
      spec:
        template:
          spec:
            restartPolicy: Never
            containers:
            - {name: m, image: i, resources: {limits: {nvidia.com/gpu: 1}}}
  - name: b
    template: *job
"""
    item, _ = objects_of(text, 1_000, 1_000)
    first, second = (
        one["template"]["spec"]["template"]["metadata"]["annotations"]
        for one in item["spec"]["replicatedJobs"]
    )
    assert naming.FIRST_RANK not in first
    assert second[naming.FIRST_RANK] == "1"


def test_other_clusters_refuse_a_manifest() -> None:
    with pytest.raises(WorkloadRejected, match="runs no Kubernetes manifests"):
        check_workload(replace(a_kube_workload("kind: Job"), is_manifest=True))


def a_pool_of(**settings: Any) -> KubernetesOptions:
    return some_options(pool=a_pool_with(**settings))


@pytest.mark.parametrize(
    ("options", "name", "refusal"),
    [
        (some_options(), "job", ""),
        (
            some_options(scheduler="volcano"),
            "job",
            "only Kueue holds manifests until they start, and it has none",
        ),
        (
            some_options(allowed_registries=["nvcr.io"]),
            "job",
            "images of registry.example.com/train may not be run here; use one of nvcr.io",
        ),
        (
            a_pool_of(resource="nvidia.com/mig-3g.40gb"),
            "job-with-mig",
            "pool h100 has nvidia.com/mig-3g.40gb, and the manifest asks for "
            "nvidia.com/mig-1g.10gb",
        ),
        (
            a_pool_of(device_class="gpu.nvidia.com"),
            "job",
            "the GPUs of pool h100 are claimed from device class gpu.nvidia.com, and the manifest "
            "asks for nvidia.com/gpu",
        ),
        (
            some_options(),
            "job-with-claim",
            "pool h100 has no device class gpu.nvidia.com",
        ),
        (
            some_options(),
            "jobset-in-a-rack",
            f"pool h100 has no topology level {RACK}; it has none",
        ),
    ],
)
def test_why_a_cluster_does_not_run_it(options: KubernetesOptions, name: str, refusal: str) -> None:
    assert place_on(options, "h100", job_of(recorded(name))).refusal == refusal


def test_another_nodes_label_is_another_pool() -> None:
    text = recorded("job").replace(
        "restartPolicy: Never",
        "restartPolicy: Never\n      nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100}",
    )
    assert place_on(some_options(), "h100", job_of(text)).refusal == (
        "nodes of pool h100 have nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3, and the manifest "
        "selects NVIDIA-A100"
    )


@pytest.mark.parametrize(
    "resource",
    [
        "vendor.example/accelerator",
        "nvidia.com/gpumem",
        "nvidia.com/mig-1g.10gb",
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    ],
)
def test_devices_that_the_pool_does_not_count_are_refused(resource: str) -> None:
    """Planted: names with a word for GPUs only; Kubernetes' own domains as no devices."""
    text = recorded("job").replace(
        "restartPolicy: Never",
        "restartPolicy: Never\n      initContainers: [{name: i, image: registry.example.com/i, "
        f"resources: {{limits: {{{resource}: 1}}}}}}]",
    )
    found = place_on(some_options(), "h100", job_of(text)).refusal
    advice = "leave the resource out"
    if resource.startswith("vendor."):
        advice += ", or have an administrator add it to the cluster's option other_resources"
    assert found == f"pool h100 gives its jobs no {resource}; {advice}"


def test_resources_of_networks_pass_where_the_cluster_lists_them() -> None:
    """Planted: all resources that are no GPUs."""
    text = recorded("job").replace(
        "nvidia.com/gpu: 1", "{nvidia.com/gpu: 1, rdma/hca: 1, vpc.amazonaws.com/efa: 4}"
    )
    some = some_options(other_resources=["rdma/hca"])
    assert place_on(some, "h100", job_of(text)).refusal == (
        "pool h100 gives its jobs no vpc.amazonaws.com/efa; leave the resource out, or have an "
        "administrator add it to the cluster's option other_resources"
    )
    options = some_options(other_resources=["rdma/hca", "vpc.amazonaws.com/efa"])
    item, _ = objects_of(text, 3_000, options=options)
    (container,) = item["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["rdma/hca"] == 1
    for name in ("nvidia.com/gpumem", "amd.com/gpu"):
        with pytest.raises(ValueError, match=f"{name} is of GPUs, which count in a pool"):
            some_options(other_resources=[name])


@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi"])
def test_every_node_has_cores_and_memory(resource: str) -> None:
    text = recorded("job").replace("nvidia.com/gpu: 1", f"{{nvidia.com/gpu: 1, {resource}: 1}}")
    assert place_on(some_options(), "h100", job_of(text)).refusal == ""


def test_all_device_classes_of_the_claims_are_the_pools() -> None:
    """Planted: classes with a word for GPUs only."""
    text = recorded("job-with-claim") + (
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: b}\n"
        "spec: {spec: {devices: {requests: [{name: a, exactly: {deviceClassName: vendor.example}}]"
        "}}}\n"
    )
    options = a_pool_of(device_class="gpu.nvidia.com")
    assert place_on(options, "h100", job_of(text)).refusal == (
        "pool h100 has no device class vendor.example"
    )


@pytest.mark.parametrize(
    ("part", "refusal"),
    [
        (
            "initContainers: [{name: i, image: i, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"
            "}]",
            "NVIDIA_VISIBLE_DEVICES is set by the cluster; remove it from env",
        ),
        (
            "initContainers: [{name: i, image: i, env: [{name: AMD_VISIBLE_DEVICES, value: all}]}]",
            "AMD_VISIBLE_DEVICES is set by the cluster; remove it from env",
        ),
        (
            "initContainers: [{name: i, image: i, env: [{name: TIDEGATE_NODE, value: a}]}]",
            "TIDEGATE_NODE is set by the cluster; remove it from env",
        ),
        ("initContainers: [{name: i, image: i, env: [{name: MASTER_ADDR, value: a}]}]", ""),
        ("runtimeClassName: other", "pool h100 sets runtimeClassName itself; leave other out"),
        ("runtimeClassName: nvidia", ""),
    ],
)
def test_there_is_no_other_way_to_gpus(part: str, refusal: str) -> None:
    """Planted: no check of variables and runtime classes."""
    text = recorded("job").replace("restartPolicy: Never", f"restartPolicy: Never\n      {part}")
    options = a_pool_of(runtime_class="nvidia")
    assert place_on(options, "h100", job_of(text)).refusal == refusal


def test_pods_without_gpus_have_no_runtime_class_of_gpus() -> None:
    """Planted: the pool's own for all Pods; images with NVIDIA_VISIBLE_DEVICES then see all."""
    container = "{name: main, image: registry.example.com/l, resources: {}}"
    text = recorded("jobset-in-a-rack").replace(
        "replicatedJobs:\n",
        "replicatedJobs:\n  - name: launcher\n    template: {spec: {template: {spec: {"
        f"restartPolicy: Never, runtimeClassName: nvidia, containers: [{container}]}}}}}}}}\n",
    )
    options = a_pool_of(runtime_class="nvidia", **TOPOLOGY)
    assert place_on(options, "h100", job_of(text)).refusal == (
        "pool h100 sets runtimeClassName itself; leave nvidia out"
    )


@pytest.mark.parametrize(
    "part",
    [
        "volumes: [{name: s, configMap: {name: tg-1}}]",
        "volumes: [{name: s, secret: {secretName: tg-1}}]",
        "volumes: [{name: s, projected: {sources: [{configMap: {name: tg-1}}]}}]",
        "initContainers: [{name: i, image: i, envFrom: [{configMapRef: {name: tg-1}}]}]",
        "initContainers: [{name: i, image: i, env: [{name: A, valueFrom: {configMapKeyRef: "
        "{name: tg-1, key: k}}}]}]",
        "imagePullSecrets: [{name: tg-1}]",
    ],
)
def test_objects_of_the_portal_are_no_volumes(part: str) -> None:
    """Planted: no such check: a manifest mounted the scripts of the team's other jobs."""
    text = recorded("job").replace("restartPolicy: Never", f"restartPolicy: Never\n      {part}")
    assert place_on(some_options(), "h100", job_of(text)).refusal == (
        "tg-1 is an object of the portal; name another"
    )


@pytest.mark.parametrize(
    "part",
    [
        "volumes: [{name: s, secret: {secretName: pull}}]",
        "volumes: [{name: s, projected: {sources: [{secret: {name: pull}}]}}]",
        "initContainers: [{name: i, image: i, envFrom: [{secretRef: {name: pull}}]}]",
    ],
)
def test_the_secret_for_pulling_images_is_nobodys(part: str) -> None:
    """Against: a person who reads the registry's password."""
    text = recorded("job").replace("restartPolicy: Never", f"restartPolicy: Never\n      {part}")
    options = some_options(pull_secrets=["pull"])
    assert place_on(options, "h100", job_of(text)).refusal == (
        "the Secret pull is for pulling images only; name another"
    )


def test_invalid_options_refuse() -> None:
    assert place_manifest({}, "h100", job_of(recorded("job"))).refusal == "its options are invalid"


@pytest.mark.parametrize(
    ("annotations", "labels", "rank"),
    [
        ({naming.INDEX_OF_JOB: "3"}, {}, 3),
        ({naming.INDEX_OF_JOB: "3", naming.FIRST_RANK: "2"}, {}, 5),
        ({naming.INDEX_OF_JOB: "3", naming.RANKS_OF_COPY: "4"}, {naming.INDEX_OF_COPY: "1"}, 7),
        ({naming.RANKS_OF_COPY: "1", naming.FIRST_RANK: "1"}, {naming.INDEX_OF_COPY: "2"}, 3),
        ({naming.RANKS_OF_COPY: "4"}, {}, None),
        # A worker of Ray: the group's first rank, its replica, and its host of several.
        ({naming.RANKS_OF_COPY: "1", naming.FIRST_RANK: "2"}, {naming.INDEX_OF_WORKER: "3"}, 5),
        (
            {naming.RANKS_OF_COPY: "2", naming.FIRST_RANK: "2"},
            {naming.INDEX_OF_WORKER: "3", naming.INDEX_OF_HOST: "1"},
            9,
        ),
    ],
)
def test_the_rank_of_a_pod_of_several_copies(
    annotations: dict[str, str], labels: dict[str, str], rank: int | None
) -> None:
    pod = {"metadata": {"annotations": annotations, "labels": {naming.ROLE: "rank", **labels}}}
    assert naming.rank_of(pod) == rank


OTHER_OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: a}}
data: {A: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: settings}
stringData: {TOKEN: t}
---
"""


def test_objects_beside_a_job_are_created_where_the_cluster_takes_them() -> None:
    """The Pods name the objects of their own attempt, a ConfigMap and a Secret of one name.

    Planted: every part with the name of a ConfigMap, those of Secrets too.
    """
    parts = (
        "volumes:\n      - {name: a, configMap: {name: settings}}\n"
        "      - {name: b, secret: {secretName: settings}}\n"
        "      - {name: c, projected: {sources: [{secret: {name: settings}}]}}\n"
        "      - {name: d, configMap: {name: other}}\n"
        "      initContainers:\n      - name: i\n        image: i\n"
        "        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: settings}}]\n"
        "        env: [{name: T, valueFrom: {secretKeyRef: {name: settings, key: TOKEN}}}]\n"
    )
    text = OTHER_OBJECTS + recorded("job").replace(
        "restartPolicy: Never", f"restartPolicy: Never\n      {parts}", 1
    )
    assert place_on(some_options(manifest_objects=["Secret"]), "h100", job_of(text)).refusal == (
        "it takes no ConfigMap beside a job; create it in the team's namespace with kubectl, or "
        "have an administrator add the kind to the cluster's option manifest_objects"
    )
    options = some_options(manifest_objects=["ConfigMap", "Secret"])
    item, others = objects_of(text, 3_000, options=options)
    name = item["metadata"]["name"]
    assert [
        (one["kind"], one["metadata"]["name"], one.get("data") or one.get("stringData"))
        for one in others
    ] == [
        ("ConfigMap", f"{name}-beside-0", {"A": "1"}),
        ("Secret", f"{name}-beside-1", {"TOKEN": "t"}),
    ]
    labels = naming.labels(CLUSTER_ID, "ai-company/research/nlp")
    assert [one["metadata"]["labels"] for one in others] == [labels, labels]
    spec = item["spec"]["template"]["spec"]
    assert spec["volumes"] == [
        {"name": "a", "configMap": {"name": f"{name}-beside-0"}},
        {"name": "b", "secret": {"secretName": f"{name}-beside-1"}},
        {"name": "c", "projected": {"sources": [{"secret": {"name": f"{name}-beside-1"}}]}},
        {"name": "d", "configMap": {"name": "other"}},
    ]
    (container,) = spec["initContainers"]
    assert container["envFrom"] == [
        {"configMapRef": {"name": f"{name}-beside-0"}},
        {"secretRef": {"name": f"{name}-beside-1"}},
    ]
    assert container["env"][0]["valueFrom"]["secretKeyRef"]["name"] == f"{name}-beside-1"


def test_a_config_map_that_is_too_large_is_told() -> None:
    text = OTHER_OBJECTS.replace('A: "1"', "A: " + "x" * 250_000)
    text = text.partition("---\napiVersion: v1\nkind: Secret")[0] + "---\n" + recorded("job")
    workload = replace(a_kube_workload(text, slots=(RankSlot("n", 3_000),)), is_manifest=True)
    made = objects_for(
        workload, some_options(manifest_objects=["ConfigMap"]), cluster_id=CLUSTER_ID
    )
    check_manifest_sizes(made)
    data = {"A": "x" * (1 << 20), "B": "x"}
    large = replace(made, others=({**made.others[0], "data": data},))
    with pytest.raises(WorkloadRejected, match=r"^a ConfigMap of the file has 1048577 bytes"):
        check_manifest_sizes(large)


def test_pods_stay_off_closed_nodes_beside_what_the_person_selects() -> None:
    """Planted: the person's own terms are lost."""
    text = recorded("job")
    item, _ = objects_of(text, 3_000, closed_nodes=("n1",))
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    assert item["spec"]["template"]["spec"]["affinity"] == {
        "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    }
    own = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    document = yaml.safe_load(text)
    document["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {required: {"nodeSelectorTerms": [own]}}
    }
    item, _ = objects_of(yaml.safe_dump(document), 3_000, closed_nodes=("n1",))
    assert item["spec"]["template"]["spec"]["affinity"] == {
        "nodeAffinity": {required: {"nodeSelectorTerms": [{**own, "matchFields": [field]}]}}
    }
