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
  replicas: 2
  leaderWorkerTemplate:
    size: 10
    restartPolicy: RecreateGroupOnPodRestart
    workerTemplate:
      spec:
        containers:
        - name: model
          image: registry.example.com/serve:1
          command: [/bin/sh, -c, {script}]
          resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""


def test_groups_are_one_job_whose_pods_know_their_leader(kubernetes_rig: KubernetesRig) -> None:
    """20 Pods are 4 kinds. The address that each Pod finds is the name of its leader's Pod.

    Planted: an address without the subdomain; the number of a Job in the JobSet as its index.
    """
    rig = kubernetes_rig
    told = 'echo "$LWS_WORKER_INDEX of $LWS_GROUP_SIZE with $LWS_LEADER_ADDRESS"'
    seen_all = rig.scratch / "seen"
    workload = a_manifest(TEXT, f"{told}; until [ -e {seen_all} ]; do sleep 0.2; done")
    start(rig, workload)
    seen = until_slots(rig, workload.key, 20)
    seen_all.touch()
    assert [slot.mgpu for slot in seen.slots or ()] == [1_000] * 20
    jobset = workload_name(workload.key)
    pods = rig.admin.list(
        POD.collection(team_namespace(TEAM)), labels=f"jobset.sigs.k8s.io/jobset-name={jobset}"
    ).items
    leaders = {
        pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]: pod["spec"]
        for pod in pods
        if "leaderworkerset.sigs.k8s.io/worker-index" in pod["metadata"]["labels"]
    }
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, dict(ended.exit_codes)) == (
        Outcome.SUCCEEDED,
        dict.fromkeys(range(20), 0),
    )
    assert [rig.log(workload.key, rank=rank) for rank in range(20)] == [
        f"{rank % 10} of 10 with {leader['hostname']}.{leader['subdomain']}\n"
        for rank in range(20)
        for leader in (leaders[str(rank // 10)],)
    ]
    rig.connector.forget(workload.key)
