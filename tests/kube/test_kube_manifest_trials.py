"""Trials of manifests on a real Kubernetes before they are queued."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.connector_builders import a_key, eventually
from conformance.rigs import TEAM, KubernetesRig
from connectors.kinds import ManifestTrial, TrialFinding
from connectors.kubernetes.attempts.manifest_trials import try_manifest
from connectors.kubernetes.objects.naming import team_namespace
from connectors.kubernetes.objects.resources import CONFIG_MAP, JOB, POD, RESOURCE_QUOTA, SECRET
from connectors.protocol import RankSlot, Workload

pytestmark = pytest.mark.kube

TEXT = """
apiVersion: batch/v1
kind: Job
metadata: {name: tried}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: registry.example.com/train:1
        command: [sleep, "1"]
        resources: {limits: {nvidia.com/gpu: 8}}
"""
RECORDINGS = Path(__file__).parents[1] / "recordings" / "manifests"
NAMESPACE = team_namespace(TEAM)
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tidegate-portal"
TRYING_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}


def a_trial(rig: KubernetesRig, text: str = TEXT, **changes: Any) -> ManifestTrial:
    workload = Workload(
        key=a_key("trial"),
        name="tried",
        pool="h100",
        user="ada",
        script=text,
        slots=(RankSlot("", 8_000),) * 2,
        team=TEAM,
        is_manifest=True,
    )
    return try_manifest(rig.options, rig.cluster_id, replace(workload, **changes))


def with_container(lines: str) -> str:
    """The text with more lines in its container."""
    return TEXT.replace("        resources:", f"{lines}        resources:")


@pytest.fixture
def rig(kubernetes_rig: KubernetesRig) -> Iterator[KubernetesRig]:
    return kubernetes_rig


def test_a_manifest_that_fits_has_no_finding_and_leaves_nothing(rig: KubernetesRig) -> None:
    """Planted: the object was created, not tried."""
    before = len(rig.admin.list(JOB.collection(NAMESPACE)).items)
    assert a_trial(rig) == ManifestTrial()
    assert len(rig.admin.list(JOB.collection(NAMESPACE)).items) == before
    assert [
        one
        for one in rig.admin.list(POD.collection(NAMESPACE)).items
        if one["metadata"]["name"].endswith("-trial")
    ] == []


def test_pod_security_refuses_a_pod_that_the_reading_passes(rig: KubernetesRig) -> None:
    """A probe of another host. The Job itself is accepted: only its Pods are refused.

    Planted: the Job alone was tried.
    """
    probe = "        livenessProbe: {httpGet: {host: 10.0.0.1, port: 80}}\n"
    assert a_trial(rig, with_container(probe)).findings == (
        TrialFinding(
            ("spec", "template", "spec"),
            'Pod Security "restricted:latest" of the namespace refuses its Pods: probe or '
            'lifecycle host (container "main" uses probe or lifecycle host "10.0.0.1")',
        ),
    )


def test_securitys_demands_that_are_null_are_filled_in(rig: KubernetesRig) -> None:
    """Planted: a field that is null stayed, and Pod Security refused the Pods."""
    text = with_container(
        "        securityContext: {allowPrivilegeEscalation: null, capabilities: null}\n"
    ).replace(
        "      containers:",
        "      securityContext: {runAsNonRoot: null, runAsUser: null, seccompProfile: null}\n"
        "      containers:",
    )
    assert a_trial(rig, text) == ManifestTrial()


def test_objects_that_the_pods_name_are_looked_for(rig: KubernetesRig) -> None:
    """A missing ConfigMap is named. The portal has no right on Secrets, and says so.

    Planted: optional ones were looked for, too.
    """
    there = {"metadata": {"name": "there", "namespace": NAMESPACE}, "data": {}}
    rig.admin.apply(
        CONFIG_MAP.path(NAMESPACE, "there"),
        {"apiVersion": "v1", "kind": "ConfigMap", **there},
        manager="test",
    )
    text = with_container(
        "        envFrom:\n"
        "        - configMapRef: {name: there}\n"
        "        - configMapRef: {name: absent}\n"
        "        - configMapRef: {name: perhaps, optional: true}\n"
        "        - secretRef: {name: token}\n"
    ).replace(
        "      containers:",
        "      volumes:\n      - {name: data, persistentVolumeClaim: {claimName: gone}}\n"
        "      containers:",
    )
    found = a_trial(rig, text)
    assert found.findings == (
        TrialFinding(
            ("spec", "template", "spec", "volumes", 0, "persistentVolumeClaim", "claimName"),
            f"the team's namespace {NAMESPACE} has no PersistentVolumeClaim gone; create it there, "
            "or name another",
        ),
        TrialFinding(
            ("spec", "template", "spec", "containers", 0, "envFrom", 1, "configMapRef", "name"),
            f"the team's namespace {NAMESPACE} has no ConfigMap absent; create it there, or write "
            "`optional: true` if the Pods can do without",
        ),
    )
    assert found.unchecked == ("the portal's account may not look for Secret token",)


def test_the_administrator_is_told_whether_a_secret_exists(rig: KubernetesRig) -> None:
    """An account with the right to create Secrets finds out without reading one.

    Planted: the answer "it exists" as an absence.
    """
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s1"}}
    rig.admin.apply(SECRET.path(NAMESPACE, "s1"), secret, manager="test")
    rig.options["kubeconfig"] = str(rig.bed.admin_kubeconfig)
    text = with_container("        envFrom: [{secretRef: {name: s1}}, {secretRef: {name: s2}}]\n")
    assert a_trial(rig, text) == ManifestTrial(
        (
            TrialFinding(
                ("spec", "template", "spec", "containers", 0, "envFrom", 1, "secretRef", "name"),
                f"the team's namespace {NAMESPACE} has no Secret s2; create it there, or write "
                "`optional: true` if the Pods can do without",
            ),
        )
    )


def test_a_resource_quota_counts_all_pods_at_once(rig: KubernetesRig) -> None:
    """Each Pod fits in 8 GPUs, and both together never do.

    Planted: the request of one Pod only.
    """
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "trial", "namespace": NAMESPACE},
        "spec": {"hard": {"requests.nvidia.com/gpu": "8"}},
    }
    path = RESOURCE_QUOTA.path(NAMESPACE, "trial")
    rig.admin.apply(path, quota, manager="test")
    try:
        eventually(lambda: rig.admin.get(path).get("status", {}).get("hard"))
        found = a_trial(rig)
        quota["spec"] = {"hard": {"requests.nvidia.com/gpu": "4"}}
        rig.admin.apply(path, quota, manager="test")
        eventually(lambda: rig.admin.get(path)["status"]["hard"]["requests.nvidia.com/gpu"] == "4")
        less = a_trial(rig)
    finally:
        rig.admin.delete(path)
    said = (
        "of requests.nvidia.com/gpu the Pods need 16 at once, and ResourceQuota trial of the "
        "namespace allows {}; ask for less, or have it raised"
    )
    assert found == ManifestTrial((TrialFinding(("spec",), said.format(8)),))
    assert less == ManifestTrial((TrialFinding(("spec",), said.format(4)),))


def test_a_pool_without_nodes_of_a_network_is_told(rig: KubernetesRig) -> None:
    """The cluster lists a resource that none of its nodes shows: the Pods would wait.

    Planted: the nodes were not looked at.
    """
    rig.options["other_resources"] = ["rdma/hca"]
    text = TEXT.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 8, rdma/hca: 1, cpu: 1")
    told = "no node of pool h100 shows 1 rdma/hca; the Pods wait until one does"
    assert a_trial(rig, text) == ManifestTrial((TrialFinding(("spec",), told, False),))


@pytest.mark.parametrize(
    ("name", "slots"),
    [("pytorchjob", (8_000,) * 4), ("mpijob", (4_000,) * 2), ("rayjob", (1_000,))],
)
def test_objects_of_operators_are_tried_with_their_pods(
    rig: KubernetesRig, name: str, slots: tuple[int, ...]
) -> None:
    """The object names its Pods in a part of its own.

    Planted: the Pods of Jobs alone.
    """
    text = (RECORDINGS / f"{name}.yaml").read_text()
    ranks = tuple(RankSlot("", mgpu) for mgpu in slots)
    assert a_trial(rig, text, slots=ranks) == ManifestTrial()
    probe = "livenessProbe: {httpGet: {host: 10.0.0.1, port: 80}}"
    bad = text.replace("resources:\n", f"{probe}\n@resources:\n")
    lines = bad.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("@"):
            indent = len(lines[number - 1]) - len(lines[number - 1].lstrip())
            lines[number] = " " * indent + line[1:]
    found = a_trial(rig, "\n".join(lines), slots=ranks)
    assert found.findings
    assert all("probe or lifecycle host" in one.detail for one in found.findings)
    assert all(one.path[-2:] == ("template", "spec") for one in found.findings)


def test_the_pods_of_a_runtime_are_not_tried(rig: KubernetesRig) -> None:
    """A TrainJob has its Pods from its runtime, of which the portal reads the names of Jobs.

    Planted: an answer as if they had been.
    """
    text = (RECORDINGS / "trainjob.yaml").read_text().replace("torch-distributed", "tried-torch")
    ranks = (RankSlot("", 4_000),) * 2
    (refused,) = a_trial(rig, text, slots=ranks).findings
    # Two parts of the operator look for the runtime. Either may be the first to refuse.
    assert refused.detail.endswith(
        (
            "specified clusterTrainingRuntime must be created before the TrainJob is created",
            "runtime 'tried-torch' not found",
        )
    )
    container = {"name": "node", "image": "registry.example.com/torch:2"}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    marks = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {"name": "node", "template": {"metadata": marks, "spec": {"template": pods}}}
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "tried-torch"},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
            "template": {"spec": {"replicatedJobs": [job]}},
        },
    }
    path = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/tried-torch"
    rig.admin.apply(path, runtime, manager="test")
    try:
        found = eventually(
            lambda: None if (one := a_trial(rig, text, slots=ranks)).findings else one
        )
    finally:
        rig.admin.delete(path)
    assert found == ManifestTrial(
        unchecked=("its runtime describes the Pods, which were not tried",)
    )


def test_an_invalid_field_is_named_with_its_path(rig: KubernetesRig) -> None:
    """Planted: causes at the Pod's template, whatever their field."""
    found = a_trial(rig, TEXT.replace("name: main", "name: Main_1"))
    ((path, said),) = {(one.path, one.detail.partition(":")[0]) for one in found.findings}
    assert path == ("spec", "template", "spec", "containers", 0, "name")
    assert said == "spec.template.spec.containers[0].name"
    assert all(one.is_refusal for one in found.findings)


def test_a_single_pod_is_told_its_own_fields(rig: KubernetesRig) -> None:
    """The Pod becomes a Job; its fields are named as the file has them.

    Planted: the path in the Job.
    """
    text = """
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers:
  - name: main
    image: registry.example.com/train:1
    envFrom: [{configMapRef: {name: absent}}]
    resources: {limits: {nvidia.com/gpu: 8}}
"""
    (found,) = a_trial(rig, text, slots=(RankSlot("", 8_000),)).findings
    assert found.path == ("spec", "containers", 0, "envFrom", 0, "configMapRef", "name")


def test_a_team_without_a_namespace_is_not_checked(rig: KubernetesRig) -> None:
    assert a_trial(rig, team="a/team/elsewhere") == ManifestTrial(
        unchecked=(
            "its team has no namespace there yet; an administrator pushes the quotas to the "
            "cluster",
        )
    )


def test_an_account_that_may_not_try_pods_says_so(rig: KubernetesRig) -> None:
    """The role of an earlier version. What the server warns of is told as a refusal.

    Planted: the lack of the right as a refusal of the manifest.
    """
    role = rig.admin.get(ROLE)
    without = [one for one in role["rules"] if one != TRYING_PODS]
    assert len(without) == len(role["rules"]) - 1
    probe = "        livenessProbe: {httpGet: {host: 10.0.0.1, port: 80}}\n"
    text = with_container(probe)
    try:
        rig.admin.merge_patch(ROLE, {"rules": without})
        found = eventually(lambda: (one := a_trial(rig, text)).unchecked and one)
    finally:
        rig.admin.merge_patch(ROLE, {"rules": role["rules"]})
    assert found.unchecked == (
        "the portal's account may not try Pods there; an administrator applies role.yaml of this "
        "version",
    )
    (refused,) = found.findings
    assert refused.detail == (
        'Pod Security "restricted:latest" of the namespace refuses its Pods: probe or lifecycle '
        'host (container "main" uses probe or lifecycle host "10.0.0.1")'
    )
    eventually(lambda: not a_trial(rig, text).unchecked)
