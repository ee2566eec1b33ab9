"""Manifests as people publish them, on a real Kubernetes with a real Kueue."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.connector_builders import a_key, eventually, observed, until_released
from builders.kube_queues import a_team
from conformance.rigs import TEAM, KubernetesRig
from connectors.errors import ClusterUnavailable
from connectors.kinds import ManifestTrial
from connectors.kubernetes.attempts.manifest_trials import try_manifest
from connectors.kubernetes.client.api import NotFound
from connectors.kubernetes.objects.naming import KEY, team_namespace, workload_name
from connectors.kubernetes.objects.resources import CONFIG_MAP, JOB, JOBSET, SECRET
from connectors.protocol import Observation, Outcome, RankSlot, Workload, WorkloadPhase
from manifests.reading import read_manifest

pytestmark = pytest.mark.kube

JOB_TEXT = """
apiVersion: batch/v1
kind: Job
metadata:
  generateName: sample-
  namespace: default
  labels:
    kueue.x-k8s.io/queue-name: user-queue
    app: sample
spec:
  parallelism: 3
  completions: 3
  suspend: true
  ttlSecondsAfterFinished: 5
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.example.com/train:1
        command: [/bin/sh, -c, {script}]
        resources:
          limits:
            nvidia.com/gpu: 1
"""

JOBSET_TEXT = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: torch
spec:
  replicatedJobs:
  - name: driver
    template:
      spec:
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: main
              image: registry.example.com/train:1
              command: [/bin/sh, -c, "echo driver of $MASTER"]
              env:
              - {{name: MASTER, value: torch-workers-0-0.torch}}
              resources: {{requests: {{cpu: 100m}}}}
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: main
              image: registry.example.com/train:1
              command: [/bin/sh, -c, {script}]
              resources:
                limits:
                  nvidia.com/gpu: 8
"""


BESIDE_TEXT = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: colour}}
data: {{COLOUR: blue}}
---
apiVersion: v1
kind: Secret
metadata: {{name: colour}}
stringData: {{TOKEN: secret}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: beside}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: registry.example.com/train:1
        command: [/bin/sh, -c, {script}]
        envFrom:
        - configMapRef: {{name: colour}}
        - secretRef: {{name: colour}}
        resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""

SECRETS_ROLE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "secrets-role.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def quoted(script: str) -> str:
    escaped = textwrap.dedent(script).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.strip().replace("\n", "\\n") + '"'


def a_manifest(text: str, script: str, **changes: Any) -> Workload:
    """An attempt of it, with the size that it has."""
    written = text.format(script=quoted(script))
    job = read_manifest(written).job
    assert job is not None
    assert job.gpus is not None
    slots = (RankSlot("", job.gpus.units * 1_000),) * job.nodes
    return replace(
        Workload(
            key=a_key(),
            name="sample",
            pool="h100",
            user="ada",
            script=written,
            slots=slots,
            team=TEAM,
            is_manifest=True,
        ),
        **changes,
    )


@pytest.fixture
def rig(kubernetes_rig: KubernetesRig) -> Iterator[KubernetesRig]:
    return kubernetes_rig


def start(rig: KubernetesRig, workload: Workload) -> str:
    """Submit and release it; its uid."""
    connector = rig.connector
    uid = connector.submit(workload)

    def is_released() -> bool:
        seen = observed(connector, workload.key)
        if seen is not None and seen.phase is WorkloadPhase.HELD:
            connector.release(workload.key, uid)
        return seen is not None and seen.phase is not WorkloadPhase.HELD

    eventually(is_released)
    return uid


def until_slots(rig: KubernetesRig, key: str, count: int) -> Observation:
    def look() -> Observation | None:
        seen = observed(rig.connector, key)
        is_there = seen is not None and seen.phase is WorkloadPhase.RUNNING
        return seen if is_there and seen is not None and len(seen.slots or ()) == count else None

    return eventually(look)


def test_a_public_job_runs_to_its_end(rig: KubernetesRig) -> None:
    """Its own container's name, image and command; its GPUs are counted, each Pod has a log.

    Planted: logs of the container `main` only.
    """
    workload = a_manifest(JOB_TEXT, "echo rank $JOB_COMPLETION_INDEX; sleep 2; id -u")
    start(rig, workload)
    seen = until_slots(rig, workload.key, 3)
    assert ([slot.mgpu for slot in seen.slots or ()], seen.pool) == ([1_000] * 3, "h100")
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, dict(ended.exit_codes)) == (Outcome.SUCCEEDED, {0: 0, 1: 0, 2: 0})
    assert [rig.log(workload.key, rank=rank) for rank in range(3)] == [
        f"rank {rank}\n1000\n" for rank in range(3)
    ]
    found = rig.admin.get(JOB.path(team_namespace(TEAM), workload_name(workload.key)))
    assert found["metadata"]["labels"]["app"] == "sample"
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "main"
    assert found["metadata"]["annotations"][KEY] == workload.key
    assert found["spec"]["ttlSecondsAfterFinished"] == 7 * 86_400


def test_a_job_runs_more_pods_than_at_once(rig: KubernetesRig) -> None:
    """Planted: each Pod that has ended still counted as a place of the job."""
    text = JOB_TEXT.replace("parallelism: 3", "parallelism: 2")
    workload = a_manifest(text, "echo $JOB_COMPLETION_INDEX; sleep 1")
    assert len(workload.slots) == 2
    start(rig, workload)
    until_slots(rig, workload.key, 2)
    sizes = set()

    def ended() -> Observation | None:
        seen = observed(rig.connector, workload.key)
        assert seen is not None
        sizes.add(len(seen.slots or ()))
        return seen if seen.is_released else None

    found = eventually(ended)
    assert found.outcome is Outcome.SUCCEEDED
    assert sizes <= {0, 2}
    assert [rig.log(workload.key, rank=rank) for rank in range(3)] == ["0\n", "1\n", "2\n"]


def test_a_pod_that_fails_is_run_again_by_its_job(rig: KubernetesRig) -> None:
    """The manifest runs on, and its attempt says so.

    Planted: any exit code that is not 0 makes the job failed.
    """
    marker = rig.scratch / "tried"
    text = JOB_TEXT.replace("parallelism: 3", "parallelism: 1").replace(
        "completions: 3", "completions: 1"
    )
    workload = a_manifest(text, f"[ -e {marker} ] && exec sleep 2; touch {marker}; exit 3")
    start(rig, workload)

    def told() -> str:
        seen = observed(rig.connector, workload.key)
        is_running = seen is not None and seen.phase is WorkloadPhase.RUNNING
        return seen.message if is_running and seen is not None else ""

    assert eventually(told) == (
        "So far 1 Pod of it failed, the last one of rank 0 with exit code 3. Its controller may "
        "start others in place."
    )
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, dict(ended.exit_codes)) == (Outcome.SUCCEEDED, {0: 0})


def test_a_notice_ends_the_pods_with_their_own_grace_and_it_runs_again(
    rig: KubernetesRig,
) -> None:
    """The first attempt is preempted: its Pods get TERM and may save. The second one is another
    object of the same manifest.

    Planted: the notice only as an annotation, which nothing in the Pods reads.
    """
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    first = a_manifest(JOB_TEXT, script, grace_s=20)
    start(rig, first)
    until_slots(rig, first.key, 3)
    eventually(
        lambda: (
            rig.connector.read_log(first.key, rank=0, stream="stdout", offset=0, limit=100).data
            == b"ready\n"
        )
    )
    rig.connector.notify(first.key)
    ended = until_released(rig.connector, first.key)
    assert ended.outcome is Outcome.STOPPED
    assert rig.log(first.key) == "ready\nsaved\n"
    second = replace(first, key=a_key())
    start(rig, second)
    until_slots(rig, second.key, 3)
    rig.connector.stop(second.key)
    assert until_released(rig.connector, second.key).outcome is Outcome.STOPPED


def test_a_jobset_runs_with_its_hosts_renamed_and_a_log_for_each_pod(rig: KubernetesRig) -> None:
    """A driver without GPUs, and two copies of a Job of two Pods each.

    Planted: the ranks of both copies as the same ones.
    """
    script = "echo worker $JOB_COMPLETION_INDEX; sleep 2"
    workload = a_manifest(JOBSET_TEXT, script)
    assert [slot.mgpu for slot in workload.slots] == [8_000] * 4
    start(rig, workload)
    seen = until_slots(rig, workload.key, 4)
    assert [slot.mgpu for slot in seen.slots or ()] == [8_000] * 4
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, dict(ended.exit_codes)) == (
        Outcome.SUCCEEDED,
        dict.fromkeys(range(5), 0),
    )
    name = workload_name(workload.key)
    assert [rig.log(workload.key, rank=rank) for rank in range(5)] == [
        f"driver of {name}-workers-0-0.{name}\n",
        *("worker 0\n", "worker 1\n", "worker 0\n", "worker 1\n"),
    ]
    assert rig.admin.get(JOBSET.path(team_namespace(TEAM), name))["metadata"]["name"] == name


def test_a_time_limit_ends_it_as_timed_out(rig: KubernetesRig) -> None:
    workload = a_manifest(JOBSET_TEXT, "sleep 100", time_limit_s=4)
    start(rig, workload)
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.TIMED_OUT


def test_a_submission_whose_answer_was_lost_is_one_object(rig: KubernetesRig) -> None:
    """Another connector, whose watches know nothing yet, finds the JobSet by its key.

    Against: a second object, since only objects of the cluster's own kind are looked for.
    """
    workload = a_manifest(JOBSET_TEXT, "sleep 100")
    uid = rig.connector.submit(workload)
    other = rig.open()
    assert other.submit(workload) == uid
    other.stop(workload.key)
    assert until_released(rig.connector, workload.key).outcome is Outcome.STOPPED


def test_objects_of_the_file_come_and_go_with_the_job(rig: KubernetesRig) -> None:
    """A ConfigMap and a Secret; the portal reads no Secret, and repeats its submission.

    Planted: no owner, so that both stayed for ever.
    """
    team = "ai-company/research/secretive"
    namespace = a_team(rig.admin, team, "h100")
    rig.bed.wait_for_namespace(namespace)
    role, binding = yaml.safe_load_all(SECRETS_ROLE.read_text())
    rig.admin.apply(f"{RBAC}/clusterroles/{role['metadata']['name']}", role, manager="test")
    # For this namespace alone: others test what is not known without the right.
    name = binding["metadata"]["name"]
    own = {**binding, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace}}
    path = f"{RBAC}/namespaces/{namespace}/rolebindings/{name}"
    rig.admin.apply(path, own, manager="test")
    rig.options["manifest_objects"] = ["ConfigMap", "Secret"]
    workload = a_manifest(BESIDE_TEXT, "echo $COLOUR $TOKEN", team=team)
    connector = rig.connector = rig.open()

    def submitted() -> str | None:
        # The right to create Secrets takes a moment to count.
        try:
            return connector.submit(workload)
        except ClusterUnavailable:
            return None

    uid = eventually(submitted)
    assert rig.open().submit(workload) == uid
    start(rig, workload)
    assert until_released(connector, workload.key).outcome is Outcome.SUCCEEDED
    assert rig.log(workload.key) == "blue secret\n"
    name = workload_name(workload.key)
    paths = [
        CONFIG_MAP.path(namespace, f"{name}-beside-0"),
        SECRET.path(namespace, f"{name}-beside-1"),
    ]
    assert [rig.admin.get(path)["metadata"]["ownerReferences"][0]["uid"] for path in paths] == [
        uid,
        uid,
    ]
    connector.forget(workload.key)

    def are_gone() -> bool:
        for path in paths:
            try:
                rig.admin.get(path)
            except NotFound:
                continue
            return False
        return True

    eventually(are_gone)


def test_a_manifest_is_tried_with_the_objects_of_its_file(rig: KubernetesRig) -> None:
    """Objects of the file are missing nowhere, and their faults are told.

    Planted: the ConfigMap of the file as one that its namespace lacks.
    """
    rig.options["manifest_objects"] = ["ConfigMap", "Secret"]
    config = BESIDE_TEXT.partition("---\napiVersion: v1\nkind: Secret")[0]
    job = BESIDE_TEXT.rpartition("---\n")[2].replace("- secretRef: {{name: colour}}", "")
    workload = a_manifest(f"{config}---\n{job}", "true")
    assert try_manifest(rig.options, rig.cluster_id, workload) == ManifestTrial()
    bad = a_manifest(f"{config.replace('COLOUR', '/')}---\n{job}", "true")
    (found,) = try_manifest(rig.options, rig.cluster_id, bad).findings
    assert found.detail.startswith("ConfigMap: data[/]: ")
