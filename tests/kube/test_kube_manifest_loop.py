"""A manifest job from the queue to its usage on a real Kubernetes: lent, taken back, run again."""

from __future__ import annotations

import pytest

from billing.models import UsageSegment
from builders.kube_loop import KubernetesLoop
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from conformance.rigs import KubernetesRig
from jobs.models import Attempt, Launch
from jobs.submission.requests import read_job_request
from quotas.models import Quota

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.kube]

#: All Pods run for a second at least: usage has whole seconds.
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: lent}
spec:
  parallelism: 4
  completions: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.example.com/train:1
        command: [/bin/sh, -c, "trap 'sleep 2; exit 1' TERM; sleep 1000 & wait"]
        resources: {limits: {nvidia.com/gpu: 8}}
"""

PYTORCHJOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: lent}
spec:
  pytorchReplicaSpecs:
    Master:
      restartPolicy: Never
      template: &pods
        spec:
          containers:
          - name: pytorch
            image: registry.example.com/train:1
            command: [/bin/sh, -c, "trap 'sleep 2; exit 0' TERM; sleep 1000 & wait"]
            resources: {limits: {nvidia.com/gpu: 8}}
    Worker:
      replicas: 3
      restartPolicy: Never
      template: *pods
"""

MPIJOB = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: lent}
spec:
  mpiReplicaSpecs:
    Launcher:
      restartPolicy: Never
      template:
        spec:
          containers:
          - &container
            name: mpi
            image: registry.example.com/mpi:1
            command: [/bin/sh, -c, "trap 'sleep 2; exit 0' TERM; sleep 1000 & wait"]
    Worker:
      replicas: 4
      restartPolicy: Never
      template:
        spec:
          containers:
          - <<: *container
            resources: {limits: {nvidia.com/gpu: 8}}
"""


POD_GROUP = "---".join(
    f"""
apiVersion: v1
kind: Pod
metadata:
  name: pod-{number}
  labels: {{kueue.x-k8s.io/pod-group-name: lent}}
  annotations: {{kueue.x-k8s.io/pod-group-total-count: "4"}}
spec:
  containers:
  - name: main
    image: registry.example.com/train:{min(number, 1)}
    command: [/bin/sh, -c, "trap 'sleep 2; exit 0' TERM; sleep 1000 & wait"]
    resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
    for number in range(4)
)


def metered_mgpu(attempt: Attempt) -> list[int]:
    segments = UsageSegment.objects.filter(attempt_id=attempt.id)
    return [one.guaranteed_mgpu + one.borrowed_mgpu for one in segments]


@pytest.mark.parametrize(
    "manifest",
    [JOB, PYTORCHJOB, MPIJOB, POD_GROUP],
    ids=["Job", "PyTorchJob", "MPIJob", "group of Pods"],
)
def test_a_manifest_gives_back_what_it_borrowed_and_runs_again(
    kubernetes_rig: KubernetesRig, manifest: str
) -> None:
    """Inference borrows all 32 GPUs with a manifest of 4 Pods. The other team takes its 8 back.

    Planted: an MPIJob whose launcher ends with 0 at TERM counted as succeeded. Against: objects of
    one name for both attempts, of which the second was refused.
    """
    company: Company = a_company()
    company.cluster.nodes.all().delete()
    bob = a_user(company.organization, "bob")
    loop = KubernetesLoop(company.cluster, kubernetes_rig, company.nlp, company.inference)
    Quota.objects.filter(node=company.organization).update(borrow_limit_mgpu=0)
    size = read_job_request({"team": "x", "manifest": manifest}).size
    assert (size.mgpu_per_node, size.node_count) == (8_000, 4)
    lent = a_job(
        company.inference,
        bob,
        company.pool,
        gpus=8,
        nodes=4,
        script=manifest,
        launch=Launch.MANIFEST.value,
    )
    loop.until(lent, "running", "failed")
    assert lent.state == "running"
    wanted = a_job(company.nlp, bob, company.pool, gpus=8, script="sleep 1")
    loop.until(wanted, "succeeded", "failed")
    loop.until(lent, "running")
    assert (wanted.state, lent.attempt_number) == ("succeeded", 2)
    first = Attempt.objects.get(job=lent, number=1)
    assert (first.outcome, first.stop_reason) == ("stopped", "preempted")
    assert first.notice_at is not None
    assert metered_mgpu(first) == [32_000]
    assert sorted(slot["mgpu"] for slot in first.slots) == [8_000] * 4
