"""The objects of a Volcano Job: its JobSet, and the ConfigMap with the names of its Pods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from builders.kubernetes_builders import CLUSTER_ID, a_kube_workload, some_options
from connectors.kubernetes.manifests.building import objects_for
from connectors.kubernetes.manifests.manifest_places import place_on
from connectors.kubernetes.objects import naming
from connectors.protocol import RankSlot
from manifests.reading import read_manifest

RECORDINGS = Path(__file__).parents[3] / "recordings" / "manifests"
KEY = "tg-0197a8c0-1111-7222-8333-444444444444"


def objects_of(name: str, *slots: int) -> tuple[dict[str, Any], tuple[Any, ...]]:
    text = (RECORDINGS / f"volcano-{name}.yaml").read_text()
    job = read_manifest(text).job
    assert job is not None
    assert place_on(some_options(), "h100", job).refusal == ""
    workload = replace(
        a_kube_workload(text, slots=tuple(RankSlot("n", mgpu) for mgpu in slots)),
        is_manifest=True,
    )
    made = objects_for(workload, some_options(), cluster_id=CLUSTER_ID)
    return dict(made.main), made.others


def pods_of(item: dict[str, Any], number: int) -> dict[str, Any]:
    template: dict[str, Any] = item["spec"]["replicatedJobs"][number]["template"]["spec"]
    return template["template"]


def test_the_pods_of_an_attempt_name_its_own_files_with_its_own_hosts() -> None:
    """The cluster takes no ConfigMaps of files, and this one is the portal's.

    Planted: the names of the file in the ConfigMap.
    """
    item, (files,) = objects_of("tensorflow", 1_000, 1_000)
    assert item["metadata"]["name"] == KEY
    assert (files["kind"], files["metadata"]["name"]) == ("ConfigMap", f"{KEY}-hosts")
    assert files["metadata"]["labels"] == naming.labels(CLUSTER_ID, "ai-company/research/nlp")
    assert files["data"] == {
        "ps.host": f"{KEY}-ps-0-0.{KEY}",
        "VC_PS_HOSTS": f"{KEY}-ps-0-0.{KEY}",
        "VC_PS_NUM": "1",
        "worker.host": f"{KEY}-worker-0-0.{KEY}\n{KEY}-worker-0-1.{KEY}",
        "VC_WORKER_HOSTS": f"{KEY}-worker-0-0.{KEY},{KEY}-worker-0-1.{KEY}",
        "VC_WORKER_NUM": "2",
    }
    spec = pods_of(item, 0)["spec"]
    assert spec["volumes"] == [{"name": "volcano-hosts", "configMap": {"name": f"{KEY}-hosts"}}]
    sources = [one["valueFrom"] for one in spec["containers"][0]["env"]]
    assert {one["configMapKeyRef"]["name"] for one in sources if "configMapKeyRef" in one} == {
        f"{KEY}-hosts"
    }


def test_the_first_rank_is_of_the_first_task_of_the_file() -> None:
    """The task that others wait for comes first in the JobSet.

    Planted: the first rank in the order of the JobSet.
    """
    item, _ = objects_of("mpi", 8_000, 8_000)
    names = [one["name"] for one in item["spec"]["replicatedJobs"]]
    first = [pods_of(item, number)["metadata"]["annotations"] for number in (0, 1)]
    assert names == ["mpiworker", "mpimaster"]
    assert [one.get(naming.FIRST_RANK) for one in first] == ["1", None]


def test_workers_of_torch_have_the_rank_of_their_job() -> None:
    """Planted: all workers with the rank of the first one."""
    item, _ = objects_of("pytorch", 1_000, 1_000, 1_000)
    marks = pods_of(item, 1)["metadata"]["annotations"]
    assert (marks[naming.FIRST_RANK], marks[naming.RANKS_OF_COPY]) == ("1", "1")
    variables = {
        one["name"]: one.get("value") for one in pods_of(item, 1)["spec"]["containers"][0]["env"]
    }
    assert variables["MASTER_ADDR"] == f"{KEY}-master-0-0.{KEY}"
