"""Manifests of operators' kinds as people publish them, with the real operators and Kueue."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builders.connector_builders import a_key, eventually, until_released
from conformance.rigs import TEAM, KubernetesRig
from connectors.errors import LogUnavailable
from connectors.kubernetes.objects.naming import team_namespace, workload_name
from connectors.kubernetes.objects.resources import PYTORCHJOB
from connectors.protocol import Outcome, Workload
from kube.test_kube_manifest_jobs import a_manifest, start, until_slots

pytestmark = pytest.mark.kube

RAY_PROGRAM = Path(__file__).parents[1] / "builders" / "ray_program.py"

PYTORCHJOB_TEXT = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: simple}}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: Never
      template: &pods
        spec:
          containers:
          - name: train
            image: registry.example.com/train:1
            command: [/bin/sh, -c, {script}]
            resources: {{limits: {{nvidia.com/gpu: 8}}}}
    Master:
      restartPolicy: Never
      template: *pods
"""


@pytest.fixture
def rig(kubernetes_rig: KubernetesRig) -> Iterator[KubernetesRig]:
    return kubernetes_rig


def test_a_pytorchjob_runs_with_its_master_as_rank_0(rig: KubernetesRig) -> None:
    workload = a_manifest(
        PYTORCHJOB_TEXT, "echo rank $RANK of $WORLD_SIZE to $MASTER_ADDR; sleep 2"
    )
    start(rig, workload)
    seen = until_slots(rig, workload.key, 3)
    assert ([slot.mgpu for slot in seen.slots or ()], seen.pool) == ([8_000] * 3, "h100")
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, dict(ended.exit_codes)) == (Outcome.SUCCEEDED, {0: 0, 1: 0, 2: 0})
    name = workload_name(workload.key)
    assert [rig.log(workload.key, rank=rank) for rank in range(3)] == [
        f"rank {rank} of 3 to {name}-master-0\n" for rank in range(3)
    ]
    found = rig.admin.get(PYTORCHJOB.path(team_namespace(TEAM), name))
    assert found["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"


MPIJOB_TEXT = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: mpi}}
spec:
  slotsPerWorker: 8
  runPolicy: {{cleanPodPolicy: None, backoffLimit: 0}}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: launcher
            image: registry.example.com/mpi:1
            command: [/bin/sh, -c, {script}]
    Worker:
      replicas: 2
      restartPolicy: Never
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
          - name: worker
            image: registry.example.com/mpi:1
            command: [/bin/sh, -c, "echo worker; exec sleep 1000"]
            resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""


def test_an_mpijob_ends_with_its_launcher(rig: KubernetesRig) -> None:
    workload = a_manifest(MPIJOB_TEXT, "cat /etc/mpi/hostfile; sleep 2")
    assert len(workload.slots) == 2
    start(rig, workload)
    until_slots(rig, workload.key, 2)
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.SUCCEEDED
    assert ended.exit_codes[0] == 0
    name, namespace = workload_name(workload.key), team_namespace(TEAM)
    assert rig.log(workload.key) == "".join(
        f"{name}-worker-{number}.{name}.{namespace}.svc slots=8\n" for number in range(2)
    )
    assert [rig.log(workload.key, rank=rank) for rank in (1, 2)] == ["worker\n"] * 2


TRAINJOB_TEXT = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: finetune}}
spec:
  runtimeRef: {{name: torch-distributed}}
  trainer:
    image: registry.example.com/finetune:2
    command: [/bin/sh, -c, {script}]
    numNodes: 2
    resourcesPerNode:
      limits: {{nvidia.com/gpu: 8}}
"""

#: As the Trainer's own manifests have it, with the restart policy that the bed's Pods have.
RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {
        "name": "torch-distributed",
        "labels": {"trainer.kubeflow.org/framework": "torch"},
    },
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {
                                "backoffLimit": 0,
                                "template": {
                                    "spec": {
                                        "restartPolicy": "Never",
                                        "containers": [
                                            {"name": "node", "image": "pytorch/pytorch:2.7.1"}
                                        ],
                                    }
                                },
                            },
                        },
                    }
                ]
            }
        },
    },
}


@pytest.fixture
def torch_distributed(rig: KubernetesRig) -> None:
    """The runtime of the same name, as an administrator installs it."""
    path = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/torch-distributed"
    rig.admin.apply(path, RUNTIME)


@pytest.mark.usefixtures("torch_distributed")
def test_a_trainjob_runs_in_the_pods_of_its_runtime(rig: KubernetesRig) -> None:
    script = "echo node $PET_NODE_RANK of $PET_NNODES to $PET_MASTER_ADDR; id -u; sleep 2"
    workload = a_manifest(TRAINJOB_TEXT, script)
    start(rig, workload)
    until_slots(rig, workload.key, 2)
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, dict(ended.exit_codes)) == (Outcome.SUCCEEDED, {0: 0, 1: 0})
    name = workload_name(workload.key)
    assert [rig.log(workload.key, rank=rank) for rank in range(2)] == [
        f"node {rank} of 2 to {name}-node-0-0.{name}\n1000\n" for rank in range(2)
    ]


RAYJOB_TEXT = """
apiVersion: ray.io/v1
kind: RayJob
metadata: {{name: sample}}
spec:
  entrypoint: {script}
  rayClusterSpec:
    rayVersion: 2.46.0
    headGroupSpec:
      rayStartParams: {{}}
      template:
        spec: &pod
          restartPolicy: Never
          terminationGracePeriodSeconds: 1
          containers:
          - name: ray
            image: registry.example.com/ray:2.46.0
            env: &environment
            - {{name: PATH, value: "$FOLDER:/usr/bin:/bin"}}
            - {{name: RAY_HEADS, value: $FOLDER}}
            - {{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}
            resources: {{limits: {{cpu: "1", memory: 1Gi}}}}
    workerGroupSpecs:
    - groupName: gpu
      replicas: 2
      minReplicas: 1
      maxReplicas: 5
      rayStartParams: {{}}
      template:
        spec:
          <<: *pod
          containers:
          - name: ray
            image: registry.example.com/ray:2.46.0
            env: *environment
            resources: {{limits: {{cpu: "1", memory: 1Gi, nvidia.com/gpu: 8}}}}
  submitterPodTemplate:
    spec:
      restartPolicy: Never
      containers:
      - name: submitter
        image: registry.example.com/ray:2.46.0
        env: *environment
"""

_CLUSTER = RAYJOB_TEXT.partition("  rayClusterSpec:\n")[2].partition("  submitterPodTemplate:")[0]
RAYCLUSTER_TEXT = f"""
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{{{name: explore}}}}
spec:
  enableInTreeAutoscaling: true
{textwrap.indent(textwrap.dedent(_CLUSTER), "  ")}
"""


def with_ray(rig: KubernetesRig, text: str) -> str:
    """The manifest with the stand-in of `ray` on the path of its Pods."""
    folder = rig.scratch / "ray"
    folder.mkdir()
    folder.chmod(0o777)
    program = folder / "ray"
    program.write_bytes(RAY_PROGRAM.read_bytes())
    program.chmod(0o755)
    return text.replace("$FOLDER", str(folder))


def test_a_rayjob_runs_its_entrypoint_and_gives_its_cluster_back(rig: KubernetesRig) -> None:
    workload = a_manifest(with_ray(rig, RAYJOB_TEXT), in_a_shell("echo trained; sleep 4"))
    assert [slot.mgpu for slot in workload.slots] == [8_000] * 2
    start(rig, workload)
    until_slots(rig, workload.key, 2)
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes[0]) == (Outcome.SUCCEEDED, 0)
    assert [rig.log(workload.key, rank=rank).splitlines()[-1] for rank in range(4)] == [
        *("trained", "head", "worker", "worker"),
    ]


def test_a_raycluster_runs_until_it_is_stopped(rig: KubernetesRig) -> None:
    """A RayCluster is elastic: of 1 to 2 replicas, 1 is granted, and KubeRay makes one worker."""
    workload = a_manifest(with_ray(rig, RAYCLUSTER_TEXT), "")
    assert [slot.mgpu for slot in workload.slots] == [8_000] * 2
    workload = replace(workload, slots=workload.slots[:1])
    start(rig, workload)
    until_slots(rig, workload.key, 1)

    def has_a_worker() -> bool | None:
        try:
            return rig.log(workload.key, rank=1).endswith("worker\n") or None
        except LogUnavailable:
            # Its Pod has not started.
            return None

    eventually(has_a_worker)
    rig.connector.notify(workload.key)
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, rig.log(workload.key).splitlines()[-1]) == (Outcome.STOPPED, "head")


KINDS = {
    "PyTorchJob": (PYTORCHJOB_TEXT, 3),
    "MPIJob": (MPIJOB_TEXT, 2),
    "TrainJob": (TRAINJOB_TEXT, 2),
    "RayJob": (RAYJOB_TEXT, 2),
}


def in_a_shell(script: str) -> str:
    """The entrypoint of a RayJob, which `ray job submit` reads word by word."""
    return f"sh -c {shlex.quote(script)}"


def an_operator_job(rig: KubernetesRig, kind: str, script: str) -> Workload:
    text = with_ray(rig, KINDS[kind][0])
    return a_manifest(text, in_a_shell(script) if kind == "RayJob" else script)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("torch_distributed")
def test_a_notice_ends_its_pods_and_it_runs_again(rig: KubernetesRig, kind: str) -> None:
    pods = KINDS[kind][1]
    first = an_operator_job(rig, kind, "trap 'exit 0' TERM; while :; do sleep 0.1; done")
    start(rig, first)
    until_slots(rig, first.key, pods)
    rig.connector.notify(first.key)
    ended = until_released(rig.connector, first.key)
    assert ended.outcome is Outcome.STOPPED
    second = replace(first, key=a_key())
    start(rig, second)
    until_slots(rig, second.key, pods)
    rig.connector.stop(second.key)
    assert until_released(rig.connector, second.key).outcome is Outcome.STOPPED


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("torch_distributed")
def test_a_failure_has_the_exit_code_of_rank_0(rig: KubernetesRig, kind: str) -> None:
    workload = an_operator_job(rig, kind, "sleep 2; exit 3")
    start(rig, workload)
    ended = until_released(rig.connector, workload.key)
    # The stand-in of `ray job logs` says only that the entrypoint failed.
    code = 1 if kind == "RayJob" else 3
    assert (ended.outcome, ended.exit_codes[0]) == (Outcome.FAILED, code)


@pytest.mark.parametrize("kind", ["PyTorchJob", "RayJob"])
def test_a_time_limit_ends_it_as_timed_out(rig: KubernetesRig, kind: str) -> None:
    workload = an_operator_job(rig, kind, "sleep 100")
    start(rig, replace(workload, time_limit_s=5))
    assert until_released(rig.connector, workload.key).outcome is Outcome.TIMED_OUT
