"""The objects of operators' kinds: those of the person, with what the portal sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.kubernetes_builders import CLUSTER_ID, a_kube_workload, some_options
from connectors.kubernetes.manifests.building import objects_for
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import resource_of
from connectors.protocol import RankSlot

RECORDINGS = Path(__file__).parents[3] / "recordings" / "manifests"
KEY = "tg-0197a8c0-1111-7222-8333-444444444444"
SELECTOR = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
OF_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def recorded(name: str) -> Any:
    return yaml.safe_load((RECORDINGS / f"{name}.yaml").read_text())


def object_of(item: Any, *slots: int, **changes: Any) -> dict[str, Any]:
    workload = replace(
        a_kube_workload(yaml.safe_dump(item), slots=tuple(RankSlot("n", one) for one in slots)),
        is_manifest=True,
        **changes,
    )
    return dict(objects_for(workload, some_options(), cluster_id=CLUSTER_ID).main)


def marks(template: dict[str, Any]) -> dict[str, str]:
    """The annotations of a template but for its key, which all have."""
    annotations: dict[str, str] = dict(template["metadata"]["annotations"])
    assert annotations.pop(naming.KEY) == KEY
    assert template["metadata"]["labels"][naming.ROLE] == "rank"
    return annotations


@pytest.mark.parametrize(
    ("name", "slots", "asked"),
    [
        ("pytorchjob", (8_000,) * 4, "4x8000 h100"),
        ("mpijob", (4_000,) * 2, "2x4000 h100"),
        ("trainjob", (4_000,) * 2, "2x4000 h100"),
        ("rayjob", (1_000,), "1x1000 h100"),
        ("raycluster", (2_000,) * 3, "3x2000 h100"),
    ],
)
def test_each_is_held_in_its_teams_queue(name: str, slots: tuple[int, ...], asked: str) -> None:
    """Planted: `spec.suspend` for every kind, which Kubeflow's operators do not read."""
    item = object_of(recorded(name), *slots, time_limit_s=600)
    assert resource_of(item).is_suspended(item)
    assert item["metadata"]["name"] == KEY
    assert item["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "main"
    assert item["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] == "600"
    assert item["metadata"]["annotations"][naming.ASKED] == asked
    assert item["metadata"]["annotations"][naming.MANIFEST] == str(len(slots))


def test_a_pytorchjob_ends_whole_and_has_the_container_that_its_operator_wants() -> None:
    """Planted: `cleanPodPolicy` of the person, by which waiting workers keep their GPUs."""
    given = recorded("pytorchjob")
    given["spec"]["runPolicy"] = {
        "cleanPodPolicy": "None",
        "schedulingPolicy": {"queue": "theirs"},
        "activeDeadlineSeconds": 60,
    }
    spec = object_of(given, *(8_000,) * 4)["spec"]
    assert spec["runPolicy"] == {
        "activeDeadlineSeconds": 60,
        "cleanPodPolicy": "Running",
        "suspend": True,
        "ttlSecondsAfterFinished": 7 * 86_400,
    }
    master, worker = (spec["pytorchReplicaSpecs"][role] for role in ("Master", "Worker"))
    assert (worker["replicas"], worker["restartPolicy"]) == (3, "OnFailure")
    assert (marks(master["template"]), marks(worker["template"])) == (
        {},
        {naming.FIRST_RANK: "1"},
    )
    (container,) = worker["template"]["spec"]["containers"]
    assert (container["name"], container["securityContext"]) == ("pytorch", OF_CONTAINER)
    assert worker["template"]["spec"]["nodeSelector"] == SELECTOR


def test_hosts_are_named_as_the_object_is_here() -> None:
    """Planted: the names of JobSets for every kind."""
    given = recorded("mpijob")
    launcher = given["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    launcher["command"] = ["ping", "mpi-worker-0.mpi", "mpi-launcher", "my-mpi-worker-0"]
    spec = object_of(given, *(4_000,) * 2)["spec"]
    (container,) = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    assert container["command"] == [
        *("ping", f"{KEY}-worker-0.{KEY}", f"{KEY}-launcher", "my-mpi-worker-0"),
    ]


def test_a_launcher_without_gpus_goes_to_any_node() -> None:
    spec = object_of(recorded("mpijob"), *(4_000,) * 2)["spec"]["mpiReplicaSpecs"]
    pods = {role: one["template"]["spec"] for role, one in spec.items()}
    assert "nodeSelector" not in pods["Launcher"]
    assert pods["Worker"]["nodeSelector"] == SELECTOR


def test_a_trainjob_patches_the_pods_of_its_runtime() -> None:
    """Planted: containers without `securityContext`, which Pod Security would refuse."""
    given = recorded("trainjob")
    del given["spec"]["trainer"]["numNodes"]
    spec = object_of(given, 4_000)["spec"]
    assert (spec["suspend"], spec["trainer"]["numNodes"]) == (True, 1)
    (patch,) = spec["runtimePatches"]
    assert patch["manager"] == "tidegate.io/portal"
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    template = job["template"]["spec"]["template"]
    assert (job["name"], marks(template)) == ("node", {})
    assert template["spec"] == {
        "containers": [{"name": "node", "securityContext": OF_CONTAINER}],
        "nodeSelector": SELECTOR,
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsUser": 1_000,
            "runAsGroup": 1_000,
            "fsGroup": 1_000,
        },
    }


def test_a_rayjob_gives_its_cluster_back_and_has_a_submitter_that_may_run() -> None:
    """Planted: the submitter of KubeRay itself, which Pod Security would refuse."""
    spec = object_of(recorded("rayjob"), 1_000)["spec"]
    assert (spec["suspend"], spec["shutdownAfterJobFinishes"]) == (True, True)
    assert (spec["ttlSecondsAfterFinished"], spec["entrypoint"]) == (0, "python a.py")
    submitter = spec["submitterPodTemplate"]
    assert marks(submitter) == {}
    (container,) = submitter["spec"]["containers"]
    assert (container["image"], container["securityContext"]) == (
        "registry.example.com/train:1",
        OF_CONTAINER,
    )
    cluster = spec["rayClusterSpec"]
    (group,) = cluster["workerGroupSpecs"]
    assert marks(cluster["headGroupSpec"]["template"]) == {naming.FIRST_RANK: "1"}
    assert marks(group["template"]) == {naming.FIRST_RANK: "2"}
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (1, 1, 10)


def test_a_rayjob_over_http_has_no_submitter() -> None:
    given = recorded("rayjob")
    given["spec"]["submissionMode"] = "HTTPMode"
    assert "submitterPodTemplate" not in object_of(given, 1_000)["spec"]


@pytest.mark.parametrize("granted", [2, 4])
def test_a_raycluster_has_as_many_workers_as_were_granted(granted: int) -> None:
    """Planted: `enableInTreeAutoscaling` kept, which Kueue refuses."""
    spec = object_of(recorded("raycluster"), *(2_000,) * granted)["spec"]
    (group,) = spec["workerGroupSpecs"]
    assert (group["replicas"], group["maxReplicas"]) == (granted, 6)
    assert "enableInTreeAutoscaling" not in spec
    assert marks(group["template"]) == {naming.FIRST_RANK: "1", naming.RANKS_OF_COPY: "1"}


def test_a_head_with_gpus_has_its_own_of_those_that_were_granted() -> None:
    given = recorded("raycluster")
    head = given["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    head["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    (group,) = object_of(given, *(2_000,) * 4)["spec"]["workerGroupSpecs"]
    assert group["replicas"] == 3


def test_a_trainjob_finds_the_configmap_of_its_file() -> None:
    """Against: names in the Pods of templates only, of which a TrainJob has none."""
    given = recorded("trainjob")
    source = {"configMapKeyRef": {"name": "settings", "key": "rate"}}
    given["spec"]["trainer"]["env"] = [{"name": "RATE", "valueFrom": source}]
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    text = yaml.safe_dump_all([given, {**settings, "data": {"rate": "1"}}])
    workload = replace(
        a_kube_workload(text, slots=(RankSlot("n", 4_000),) * 2),
        is_manifest=True,
    )
    options = some_options(manifest_objects=["ConfigMap"])
    made = objects_for(workload, options, cluster_id=CLUSTER_ID)
    (other,) = made.others
    (variable,) = made.main["spec"]["trainer"]["env"]
    named = variable["valueFrom"]["configMapKeyRef"]["name"]
    assert (named, other["metadata"]["name"]) == (f"{KEY}-beside-0", f"{KEY}-beside-0")
