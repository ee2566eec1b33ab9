"""Groups of Pods in one file: which are one job, and the sentence of each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from manifests.findings import Verdict
from manifests.reading import read_manifest
from unit.manifests.test_manifest_reading import a_container, a_job, read, refusals

GROUP = "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"


def a_grouped_pod(
    name: str, count: int | None = 2, group: str = "ring", gpus: int = 1, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {GROUP: group, "app": "ring"},
            "annotations": {} if count is None else {COUNT: str(count)},
        },
        "spec": {"containers": [a_container(gpus)], **spec},
    }


def test_equal_pods_are_one_job_of_one_set() -> None:
    found = read(a_grouped_pod("a"), a_grouped_pod("b"))
    assert found.is_accepted
    assert found.job is not None
    assert (found.job.kind, found.job.name, found.job.nodes) == ("JobSet", "ring", 2)
    assert [(one.name, one.count, one.ranks_from) for one in found.job.pod_sets] == [
        ("pods-0", 2, 0)
    ]
    (job,) = found.job.document.value["spec"]["replicatedJobs"]
    assert job["template"]["spec"] == {
        "backoffLimit": 0,
        "parallelism": 2,
        "completions": 2,
        "completionMode": "Indexed",
        "template": {
            "metadata": {"labels": {"app": "ring"}, "annotations": {}},
            "spec": {"containers": [a_container(1)], "restartPolicy": "Never"},
        },
    }


def test_unlike_pods_are_sets_of_one_job_in_the_order_of_the_file() -> None:
    """A leader without GPUs, and two workers that are alike. Ranks go on from set to set.

    Planted: each set with ranks from 0.
    """
    found = read(
        a_grouped_pod("leader", 3, gpus=0, hostname="leader", subdomain="ring"),
        a_grouped_pod("one", 3),
        a_grouped_pod("two", 3),
    )
    assert found.is_accepted
    assert found.job is not None
    assert (found.job.nodes, found.job.ranks) == (2, 3)
    assert [(one.count, one.ranks_from) for one in found.job.pod_sets] == [(1, 0), (2, 1)]
    spec = found.job.document.value["spec"]
    assert spec["network"] == {"enableDNSHostnames": False}
    leader = spec["replicatedJobs"][0]["template"]["spec"]
    assert leader["completionMode"] == "NonIndexed"
    assert leader["template"]["spec"]["hostname"] == "leader"
    told = {one.detail for one in found.findings if one.verdict is Verdict.UNDERSTOOD}
    assert told == {
        "each Pod of a group runs once: restartPolicy is Never",
        "3 Pods are one job, run as a JobSet; it ends when one of them fails",
    }


def test_a_field_of_the_jobset_has_the_line_of_its_pod() -> None:
    """A cluster names fields of the JobSet. Planted: lines of the first Pod for all."""
    text = """
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {GROUP: ring}, annotations: {COUNT: "2"}}
spec:
  containers: [{name: a, image: "train:1", resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: b, labels: {GROUP: ring}, annotations: {COUNT: "2"}}
spec:
  nodeSelector: {x: y}
  containers: [{name: b, image: "train:1", resources: {limits: {nvidia.com/gpu: 1}}}]
"""
    job = read_manifest(text.replace("GROUP", GROUP).replace("COUNT", COUNT)).job
    assert job is not None
    first, second = (one.template for one in job.pod_sets)
    line_of = job.document.line_of
    assert [line_of((*first, "spec", "containers", 0)), line_of((*first, "metadata"))] == [6, 4]
    assert [line_of((*second, "spec", "containers", 0)), line_of((*second, "metadata"))] == [13, 10]


def test_a_group_takes_limit_and_class_of_its_pods() -> None:
    """Marks of the whole job make no Pod unlike. Planted: one set for each value of a mark."""
    pods = [a_grouped_pod(name, activeDeadlineSeconds=600) for name in ("a", "b")]
    pods[1]["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    job = read(*pods).job
    assert job is not None
    assert (job.time_limit_s, job.priority_class) == (600, "high")
    (only,) = job.document.value["spec"]["replicatedJobs"]
    assert "activeDeadlineSeconds" not in only["template"]["spec"]["template"]["spec"]


def _unlike(count: int) -> list[dict[str, Any]]:
    return [a_grouped_pod(f"p{number}", count, hostname=f"p{number}") for number in range(count)]


@pytest.mark.parametrize(
    ("documents", "where", "detail"),
    [
        (
            [a_grouped_pod("a")],
            f"metadata.annotations.{COUNT}",
            "is 2, and the file has 1 of the group's Pods; write all in one file",
        ),
        (
            [a_grouped_pod("a", None)],
            f"metadata.annotations.{COUNT}",
            'is required: how many Pods the group has, "1" in this file',
        ),
        (
            [a_grouped_pod("a"), a_grouped_pod("a")],
            "metadata.name",
            "is the name of another Pod in this file",
        ),
        (
            [a_grouped_pod("a"), a_grouped_pod("b", gpus=2)],
            "spec",
            "has Pods with different GPUs (1 x 1 nvidia.com/gpu, 1 x 2 nvidia.com/gpu); give all "
            "Pods that have GPUs as many",
        ),
        (
            [a_grouped_pod("a", 1, group="one"), a_grouped_pod("b", 1, group="two")],
            "",
            "has 2 jobs (Pods of group one, Pods of group two); submit each in a text of its own, "
            "or the file with `tidegate submit`, which does so",
        ),
        (
            [a_job(), a_grouped_pod("b", 1)],
            "",
            "has 2 jobs (Job train, Pods of group ring); submit each in a text of its own, or the "
            "file with `tidegate submit`, which does so",
        ),
        (
            [a_grouped_pod("a", activeDeadlineSeconds=60), a_grouped_pod("b")],
            "spec.activeDeadlineSeconds",
            "differs; give all Pods of the group the same",
        ),
        (
            [a_grouped_pod("a", 1, group="")],
            f"metadata.labels.{GROUP}",
            "must be the name of the group",
        ),
        (
            _unlike(19),
            "spec",
            "has 19 kinds of Pods, and Kueue takes at most 18; write more of them alike, or an "
            "Indexed Job",
        ),
    ],
)
def test_a_group_is_refused_with_what_to_write(
    documents: list[dict[str, Any]], where: str, detail: str
) -> None:
    """Planted: the count of the first Pod only; Pods of all groups as one job."""
    assert (where, detail) in refusals(*documents)


def test_a_template_joins_no_group() -> None:
    """Kueue would take the Pods of a Job for a group, and admit them beside it."""
    job = a_job()
    job["spec"]["template"]["metadata"] = {"labels": {GROUP: "ring"}}
    ((where, detail),) = refusals(job)
    assert where == f"spec.template.metadata.labels.{GROUP}"
    assert detail == "is written by a controller or by the portal; leave it out"
