"""Manifests of operators' kinds: their Pods in the order of ranks, and what is told or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests.jobs import ManifestJob
from manifests.reading import Manifest, read_manifest

RECORDINGS = Path(__file__).parents[2] / "recordings" / "manifests"


def recorded(name: str) -> Any:
    return yaml.safe_load((RECORDINGS / f"{name}.yaml").read_text())


def read(value: Any) -> Manifest:
    return read_manifest(yaml.safe_dump(value, sort_keys=False))


def job_of(value: Any) -> ManifestJob:
    job = read(value).job
    assert job is not None
    return job


def roles(job: ManifestJob) -> list[tuple[str, int, int]]:
    """Each Pod set with its Pods and its first rank."""
    return [(one.name, one.count, one.ranks_from) for one in job.pod_sets]


def details(found: Manifest) -> dict[str, str]:
    return {one.where.partition(": ")[2]: one.detail for one in found.findings}


def test_ranks_follow_the_roles_whatever_their_order() -> None:
    """Planted: roles in the order of the file."""
    item = recorded("pytorchjob")
    specs = item["spec"]["pytorchReplicaSpecs"]
    item["spec"]["pytorchReplicaSpecs"] = {"Worker": specs["Worker"], "Master": specs["Master"]}
    assert roles(job_of(item)) == [("Master", 1, 0), ("Worker", 3, 1)]


def test_the_launcher_of_an_mpijob_is_rank_0() -> None:
    item = recorded("mpijob")
    assert roles(job_of(item)) == [("Launcher", 1, 0), ("Worker", 2, 1)]
    item["spec"]["runLauncherAsWorker"] = True
    # The operator counts the workers from 1 on itself.
    assert roles(job_of(item)) == [("Launcher", 1, 0), ("Worker", 2, 0)]


def test_a_trainjob_has_its_nodes_and_what_prepares_them() -> None:
    item = recorded("trainjob")
    item["spec"]["initializer"] = {"dataset": {"storageUri": "hf://a"}, "model": {}}
    assert roles(job_of(item)) == [
        ("node", 2, 0),
        ("dataset-initializer", 1, 2),
        ("model-initializer", 1, 3),
    ]


def test_who_submits_a_rayjob_is_rank_0() -> None:
    item = recorded("rayjob")
    assert roles(job_of(item)) == [("submitter", 1, 0), ("head", 1, 1), ("small", 1, 2)]
    item["spec"]["submissionMode"] = "HTTPMode"
    assert roles(job_of(item)) == [("head", 1, 0), ("small", 1, 1)]


@pytest.mark.parametrize(
    ("group", "count", "count_min"),
    [
        ({"replicas": 4, "minReplicas": 2, "maxReplicas": 6}, 4, 2),
        ({"replicas": 1, "minReplicas": 2, "maxReplicas": 6}, 2, None),
        ({"minReplicas": 3}, 3, None),
        ({"replicas": 3, "numOfHosts": 2, "minReplicas": 1}, 6, None),
        ({"replicas": 2}, 2, None),
    ],
)
def test_a_group_has_the_replicas_that_the_operator_starts(
    group: dict[str, int], count: int, count_min: int | None
) -> None:
    """A replica of several hosts is started whole, so its group is not elastic.

    Planted: replicas below minReplicas; hosts that count once; 5 Pods of replicas with 2.
    """
    item = recorded("raycluster")
    (given,) = item["spec"]["workerGroupSpecs"]
    for name in ("replicas", "minReplicas", "maxReplicas"):
        del given[name]
    given |= group
    _, pods = job_of(item).pod_sets
    assert (pods.count, pods.count_min) == (count, count_min)


def test_a_cluster_without_autoscaling_is_not_elastic() -> None:
    item = recorded("raycluster")
    del item["spec"]["enableInTreeAutoscaling"]
    assert (job_of(item).nodes, job_of(item).nodes_min) == (4, 4)


def test_a_raycluster_tells_how_it_runs() -> None:
    assert details(read(recorded("raycluster"))) == {
        "spec": "the cluster runs until the job is cancelled or reaches its time limit",
        "spec.enableInTreeAutoscaling": "Kueue starts all Pods of a cluster at once, and their "
        "number stays",
        "spec.workerGroupSpecs[0].minReplicas": "the job is elastic: it starts with 2 to 4 "
        "replicas of this group",
    }


def test_a_container_of_another_name_is_told() -> None:
    told = "the operator wants a container pytorch, so that the first one gets this name"
    found = details(read(recorded("pytorchjob")))
    assert {where: one for where, one in found.items() if where.startswith("spec")} == {
        f"spec.pytorchReplicaSpecs.{role}.template.spec.containers": told
        for role in ("Master", "Worker")
    }


CHANGES: tuple[tuple[str, tuple[str, ...], Any, str], ...] = (
    ("pytorchjob", ("pytorchReplicaSpecs", "Chief"), {}, "is no role of this kind"),
    ("pytorchjob", ("pytorchReplicaSpecs", "Master", "replicas"), 2, "must be 1"),
    ("pytorchjob", ("elasticPolicy",), {"metrics": []}, "would add Pods"),
    ("pytorchjob", ("runPolicy",), {"managedBy": "x"}, "the cluster's operator runs it"),
    ("mpijob", ("mpiReplicaSpecs", "Launcher"), None, "is required: the Pod that runs mpirun"),
    ("trainjob", ("runtimeRef",), {}, "is required: a runtime"),
    ("trainjob", ("runtimePatches",), [{"manager": "x"}], "is not taken"),
    ("trainjob", ("podTemplateOverrides",), [{}], "is not taken"),
    ("trainjob", ("managedBy",), "kueue.x-k8s.io/multikueue", "the cluster's Trainer runs it"),
    ("trainjob", ("trainer", "resourcesPerNode"), {}, "asks for no GPUs"),
    ("rayjob", ("clusterSelector",), {"a": "b"}, "the job brings a Ray cluster of its own"),
    ("rayjob", ("submissionMode",), "InteractiveMode", "must be K8sJobMode or HTTPMode"),
    ("raycluster", ("workerGroupSpecs", "0", "replicas"), 7, "must be at most maxReplicas, 6"),
    ("raycluster", ("workerGroupSpecs", "0", "groupName"), "head", "need names of their own"),
    ("raycluster", ("workerGroupSpecs", "0", "suspend"), True, "would start the cluster without"),
    ("raycluster", ("headGroupSpec", "serviceType"), "LoadBalancer", "must be ClusterIP"),
    ("raycluster", ("headGroupSpec", "enableIngress"), True, "opens the cluster to others"),
    ("rayjob", ("rayClusterSpec", "suspend"), True, "would start the job without a cluster"),
    *(
        (name, path, {mark: "x"}, "is written by a controller or by the portal")
        for mark in ("tidegate.io/role", "kueue.x-k8s.io/queue-name", "job-name")
        for name, path in (
            ("rayjob", ("rayClusterSpec", "headGroupSpec", "labels")),
            ("raycluster", ("workerGroupSpecs", "0", "labels")),
            ("raycluster", ("headServiceAnnotations",)),
            ("trainjob", ("labels",)),
            ("trainjob", ("annotations",)),
        )
    ),
    ("raycluster", ("gcsFaultToleranceOptions",), {"redisAddress": "x"}, "is not taken"),
)


@pytest.mark.parametrize(("name", "path", "value", "refusal"), CHANGES)
def test_what_the_portal_cannot_hold_is_refused(
    name: str, path: tuple[str, ...], value: Any, refusal: str
) -> None:
    """Planted: a LoadBalancer, and the patches of a runtime, taken as they are.

    Planted: no check of the labels of the head, of a group, or of a TrainJob.
    """
    item = recorded(name)
    part = item["spec"]
    for step in path[:-1]:
        part = part[int(step)] if step.isdecimal() else part[step]
    part[path[-1]] = value
    found = read(item).refusals
    assert [one.detail for one in found if refusal in one.detail] != []
