"""Groups of Pods in one file, on a real Kubernetes with a real Kueue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from builders.connector_builders import a_key, eventually, observed, until_released
from conformance.rigs import TEAM, KubernetesRig
from connectors.kinds import ManifestTrial
from connectors.kubernetes.attempts.manifest_trials import try_manifest
from connectors.kubernetes.client.api import NotFound
from connectors.kubernetes.objects.naming import OF_ATTEMPT, team_namespace, workload_name
from connectors.kubernetes.objects.resources import JOBSET, POD, SERVICE
from connectors.protocol import Outcome, WorkloadPhase
from kube.test_kube_manifest_jobs import a_manifest, start, until_slots

pytestmark = pytest.mark.kube

#: A leader without GPUs and two equal workers, as Kueue's documentation writes a group.
GROUP_TEXT = """
apiVersion: v1
kind: Pod
metadata:
  generateName: sample-leader-
  labels:
    kueue.x-k8s.io/queue-name: user-queue
    kueue.x-k8s.io/pod-group-name: sample-group
  annotations:
    kueue.x-k8s.io/pod-group-total-count: "3"
spec:
  hostname: leader
  containers:
  - name: sleep
    image: registry.example.com/train:1
    command: [/bin/sh, -c, "echo leader on $(hostname); sleep 3"]
    resources: {{requests: {{cpu: 100m}}}}
---
apiVersion: v1
kind: Pod
metadata:
  generateName: sample-worker-
  labels:
    kueue.x-k8s.io/queue-name: user-queue
    kueue.x-k8s.io/pod-group-name: sample-group
  annotations:
    kueue.x-k8s.io/pod-group-total-count: "3"
spec:
  restartPolicy: Never
  containers:
  - name: sleep
    image: registry.example.com/train:1
    command: [/bin/sh, -c, {script}]
    resources: {{limits: {{nvidia.com/gpu: 4}}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: other-worker
  labels:
    kueue.x-k8s.io/pod-group-name: sample-group
  annotations:
    kueue.x-k8s.io/pod-group-total-count: "3"
spec:
  restartPolicy: Never
  containers:
  - name: sleep
    image: registry.example.com/train:1
    command: [/bin/sh, -c, {script}]
    resources: {{limits: {{nvidia.com/gpu: 4}}}}
"""


@pytest.fixture
def rig(kubernetes_rig: KubernetesRig) -> Iterator[KubernetesRig]:
    return kubernetes_rig


def test_a_group_of_pods_is_one_workload_with_a_log_for_each_pod(rig: KubernetesRig) -> None:
    """A group is held whole: only its JobSet and Kueue's one Workload exist.

    Planted: ranks from 0 in each kind of Pod; the host name of an Indexed Job.
    """
    workload = a_manifest(GROUP_TEXT, "echo worker; sleep 3")
    assert [slot.mgpu for slot in workload.slots] == [4_000] * 2
    namespace, name = team_namespace(TEAM), workload_name(workload.key)
    uid = rig.connector.submit(workload)
    eventually(
        lambda: (
            (seen := observed(rig.connector, workload.key)) is not None
            and seen.native_state == "QuotaReserved"
        )
    )
    listed = rig.admin.list(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads").items
    of_it = [
        one
        for one in listed
        if uid in {owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()}
    ]
    assert [[pods["count"] for pods in one["spec"]["podSets"]] for one in of_it] == [[1, 2]]
    assert name not in str(rig.admin.list(POD.collection(namespace)).items)
    start(rig, workload)
    seen = until_slots(rig, workload.key, 2)
    assert ([slot.mgpu for slot in seen.slots or ()], seen.pool) == ([4_000] * 2, "h100")
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, dict(ended.exit_codes)) == (Outcome.SUCCEEDED, {0: 0, 1: 0, 2: 0})
    assert [rig.log(workload.key, rank=rank) for rank in range(3)] == [
        "leader on leader\n",
        *["worker\n"] * 2,
    ]
    assert rig.admin.get(JOBSET.path(namespace, name))["metadata"]["uid"] == uid


def test_a_group_ends_when_one_of_its_pods_fails(rig: KubernetesRig) -> None:
    """The leader waits for ever. Against: a group that holds its GPUs until the last Pod ends."""
    text = GROUP_TEXT.replace("sleep 3", "sleep 1000")
    workload = a_manifest(text, "exit 3")
    start(rig, workload)
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.FAILED
    assert 3 in ended.exit_codes.values()


def test_a_group_is_stopped_with_all_its_pods(rig: KubernetesRig) -> None:
    workload = a_manifest(GROUP_TEXT.replace("sleep 3", "sleep 1000"), "sleep 1000")
    start(rig, workload)
    until_slots(rig, workload.key, 2)
    rig.connector.stop(workload.key)
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, ended.phase) == (Outcome.STOPPED, WorkloadPhase.ENDED)
    second = replace(workload, key=a_key())
    start(rig, second)
    until_slots(rig, second.key, 2)
    rig.connector.notify(second.key)
    assert until_released(rig.connector, second.key).outcome is Outcome.STOPPED


SERVICE_TEXT = """
apiVersion: v1
kind: Service
metadata: {{name: ring}}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{app: ring}}
---
"""


def test_pods_of_a_group_find_each_other_by_a_service_of_their_file(rig: KubernetesRig) -> None:
    """The Service goes with the job.

    Planted: no owner, so that it stayed; the subdomain with the name of the file.
    """
    rig.options["manifest_objects"] = ["Service"]
    connector = rig.connector = rig.open()
    text = GROUP_TEXT.replace(
        "kueue.x-k8s.io/pod-group-name: sample-group",
        "kueue.x-k8s.io/pod-group-name: sample-group\n    app: ring",
    ).replace("  hostname: leader", "  hostname: leader\n  subdomain: ring")
    text = text.replace("sleep 3", "sleep 8")
    text = text.replace("  restartPolicy: Never\n", "  restartPolicy: Never\n  subdomain: ring\n")
    script = """
    for i in 1 2 3 4 5 6 7 8 9; do getent hosts leader.ring >/dev/null && break; sleep 0.3; done
    getent hosts leader.ring | grep -c leader
    """
    workload = a_manifest(SERVICE_TEXT + text, script)
    assert try_manifest(rig.options, rig.cluster_id, workload) == ManifestTrial()
    uid = start(rig, workload)
    assert until_released(connector, workload.key).outcome is Outcome.SUCCEEDED
    assert [rig.log(workload.key, rank=rank) for rank in (1, 2)] == ["1\n"] * 2
    namespace, name = team_namespace(TEAM), workload_name(workload.key)
    path = SERVICE.path(namespace, f"{name}-beside-0")
    found = rig.admin.get(path)
    assert found["metadata"]["ownerReferences"][0]["uid"] == uid
    assert found["spec"]["selector"] == {"app": "ring", OF_ATTEMPT: name}
    selected = rig.admin.list(POD.collection(namespace), labels=f"{OF_ATTEMPT}={name}").items
    assert len(selected) == 3
    connector.forget(workload.key)

    def is_gone() -> bool:
        try:
            rig.admin.get(path)
        except NotFound:
            return True
        return False

    eventually(is_gone)
