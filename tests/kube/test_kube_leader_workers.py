"""LeaderWorkerSets on a real Kubernetes with a real Kueue and JobSet, without their operator."""

from __future__ import annotations

import pytest

from builders.connector_builders import until_released
from conformance.rigs import TEAM, KubernetesRig
from connectors.kubernetes.objects.naming import team_namespace, workload_name
from connectors.kubernetes.objects.resources import POD
from connectors.protocol import Outcome
from kube.test_kube_manifest_jobs import a_manifest, start, until_slots

pytestmark = pytest.mark.kube

TEXT = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: serve}}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 3
    restartPolicy: RecreateGroupOnPodRestart
    workerTemplate:
      spec:
        containers:
        - name: model
          image: registry.example.com/serve:1
          command: [/bin/sh, -c, {script}]
          resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""


def test_a_group_is_one_job_whose_pods_know_their_leader(kubernetes_rig: KubernetesRig) -> None:
    """The address that each Pod finds is the name of the leader's Pod in the cluster.

    Planted: an address without the subdomain.
    """
    rig = kubernetes_rig
    script = 'echo "$LWS_WORKER_INDEX of $LWS_GROUP_SIZE with $LWS_LEADER_ADDRESS"; sleep 2'
    workload = a_manifest(TEXT, script)
    start(rig, workload)
    seen = until_slots(rig, workload.key, 3)
    assert [slot.mgpu for slot in seen.slots or ()] == [8_000] * 3
    jobset = workload_name(workload.key)
    pods = rig.admin.list(
        POD.collection(team_namespace(TEAM)), labels=f"jobset.sigs.k8s.io/jobset-name={jobset}"
    ).items
    (leader,) = (
        pod["spec"]
        for pod in pods
        if pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
    )
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, dict(ended.exit_codes)) == (Outcome.SUCCEEDED, {0: 0, 1: 0, 2: 0})
    address = f"{leader['hostname']}.{leader['subdomain']}"
    assert [rig.log(workload.key, rank=rank) for rank in range(3)] == [
        f"{rank} of 3 with {address}\n" for rank in range(3)
    ]
    rig.connector.forget(workload.key)
