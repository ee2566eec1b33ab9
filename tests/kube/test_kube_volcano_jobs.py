"""Volcano Jobs on a real Kubernetes with a real Kueue and JobSet. Volcano's definition is there,
and neither its scheduler nor its controller."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from billing.models import UsageSegment
from builders.connector_builders import eventually, until_released
from builders.kube_loop import KubernetesLoop
from builders.loop_builders import a_job
from builders.portal_builders import a_company, a_user
from conformance.rigs import TEAM, KubernetesRig
from connectors.kinds import ManifestTrial
from connectors.kubernetes.attempts.manifest_trials import try_manifest
from connectors.kubernetes.client.api import AlreadyExists, NotFound
from connectors.kubernetes.objects.naming import team_namespace, workload_name
from connectors.kubernetes.objects.resources import CONFIG_MAP, JOBSET, POD
from connectors.protocol import Outcome
from jobs.models import Attempt, Launch
from jobs.submission.requests import read_job_request
from kube.test_kube_manifest_jobs import a_manifest, quoted, start, until_slots
from manifests import volcano_jobs
from manifests.reading import read_manifest
from quotas.models import Quota

pytestmark = pytest.mark.kube

RECORDINGS = Path(__file__).parents[1] / "recordings" / "manifests"
DEFINITION = RECORDINGS.parent / "kubernetes" / "volcano_jobs.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE = team_namespace(TEAM)

PS_AND_WORKERS = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: mnist}}
spec:
  minAvailable: 3
  schedulerName: volcano
  queue: default
  plugins: {{env: [], svc: []}}
  policies: [{{event: PodEvicted, action: RestartJob}}]
  tasks:
  - name: ps
    replicas: 1
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: registry.example.com/train:1
          command: [/bin/sh, -c, "trap 'exit 9' TERM; sleep 1000 & wait"]
  - name: worker
    replicas: 2
    policies: [{{event: TaskCompleted, action: CompleteJob}}]
    dependsOn: {{name: [ps]}}
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: registry.example.com/train:1
          command: [/bin/sh, -c, {script}]
          env: [{{name: FIRST, value: "http://mnist-worker-0.mnist:2222"}}]
          resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""

TORCH = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: torch}}
spec:
  schedulerName: volcano
  plugins: {{pytorch: ["--master=main", "--worker=worker", "--port=29500"]}}
  tasks:
  - name: worker
    replicas: 2
    template: &pods
      spec:
        restartPolicy: Never
        containers:
        - name: torch
          image: registry.example.com/train:1
          command: [/bin/sh, -c, {script}]
          resources: {{limits: {{nvidia.com/gpu: 8}}}}
  - name: main
    replicas: 1
    policies: [{{event: TaskCompleted, action: CompleteJob}}]
    template: *pods
"""


@pytest.fixture
def rig(kubernetes_rig: KubernetesRig) -> Iterator[KubernetesRig]:
    """The rig of a cluster that knows Volcano's Jobs from now on."""
    with contextlib.suppress(AlreadyExists):
        kubernetes_rig.admin.create(CRDS, yaml.safe_load(DEFINITION.read_text()))

    def is_served() -> bool:
        try:
            kubernetes_rig.admin.get("/apis/batch.volcano.sh/v1alpha1")
        except NotFound:
            return False
        return True

    eventually(is_served)
    return kubernetes_rig


def test_pods_find_each_other_as_with_volcano_and_a_task_completes_the_job(
    rig: KubernetesRig,
) -> None:
    """Variables and files have the names of the Pods here. The last worker ends the server.

    Planted: the names of the file in the files; no successPolicy, so that the job never ended.
    """
    script = """
        echo "$VC_TASK_INDEX $VK_TASK_INDEX of $VC_WORKER_NUM beside $VC_PS_HOSTS"
        echo "$FIRST"; cat /etc/volcano/worker.host; sleep 2
    """
    workload = a_manifest(PS_AND_WORKERS, script)
    start(rig, workload)
    until_slots(rig, workload.key, 2)
    jobset = workload_name(workload.key)
    pods = rig.admin.list(
        POD.collection(NAMESPACE), labels=f"jobset.sigs.k8s.io/jobset-name={jobset}"
    ).items
    hosts = sorted(f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" for pod in pods)
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.SUCCEEDED
    server, first, second = hosts
    assert [rig.log(workload.key, rank=rank) for rank in (1, 2)] == [
        f"{index} {index} of 2 beside {server}\nhttp://{first}:2222\n{first}\n{second}"
        for index in (0, 1)
    ]
    rig.connector.forget(workload.key)

    def is_gone() -> bool:
        try:
            rig.admin.get(CONFIG_MAP.path(NAMESPACE, f"{jobset}-hosts"))
        except NotFound:
            return True
        return False

    eventually(is_gone)


@pytest.mark.parametrize(
    ("action", "restarts", "runs"),
    [("RestartJob", 1, (2, 2, 2)), ("RestartTask", 1, (2, 2, 2)), ("RestartPod", 0, (1, 1, 2))],
)
def test_a_failed_pod_restarts_what_its_policy_says(
    rig: KubernetesRig, action: str, restarts: int, runs: tuple[int, ...]
) -> None:
    """The server, and two workers of which the second fails once, in the same attempt.

    Each Pod adds a letter to a file of its own.

    Planted: no failurePolicy; no backoffLimit.
    """
    folder = rig.scratch / action
    folder.mkdir()
    folder.chmod(0o777)
    text = PS_AND_WORKERS.replace("event: PodEvicted, action: RestartJob", "POLICY").replace(
        "POLICY", f"event: PodFailed, action: {action}"
    )
    # The server has no index of its own here: it is the first file.
    text = text.replace('"trap ', f'"echo x >> {folder}/0; trap ')
    script = f"""
        echo x >> {folder}/$((VC_TASK_INDEX + 1))
        [ -e {folder}/failed ] && exec sleep 2
        until [ $VC_TASK_INDEX = 1 ] || [ -e {folder}/failed ]; do sleep 0.2; done
        [ $VC_TASK_INDEX = 1 ] || exec sleep 5
        until [ -s {folder}/0 ] && [ -s {folder}/1 ]; do sleep 0.2; done
        touch {folder}/failed; exit 3
    """
    workload = a_manifest(text, script)
    start(rig, workload)
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.SUCCEEDED
    found = rig.admin.get(JOBSET.path(NAMESPACE, workload_name(workload.key)))
    assert found["status"].get("restarts", 0) == restarts
    assert tuple((folder / str(number)).read_text().count("x") for number in range(3)) == runs
    rig.connector.forget(workload.key)


def test_torch_has_a_rank_for_each_pod(rig: KubernetesRig) -> None:
    """The master is rank 0 of torch, wherever its task stands in the file.

    Planted: the index in the task as the rank of workers.
    """
    script = 'echo "$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"; sleep 2'
    workload = a_manifest(TORCH, script)
    start(rig, workload)
    until_slots(rig, workload.key, 3)
    ended = until_released(rig.connector, workload.key)
    assert ended.outcome is Outcome.SUCCEEDED
    name = workload_name(workload.key)
    assert [rig.log(workload.key, rank=rank) for rank in range(3)] == [
        f"{rank} of 3 at {name}-main-0-0.{name}:29500\n" for rank in (1, 2, 0)
    ]
    rig.connector.forget(workload.key)


def test_a_master_waits_for_its_workers_and_is_run_again_in_its_pod(rig: KubernetesRig) -> None:
    """The file of an MPI job, with other commands. Its first task is rank 0, and starts last.

    Planted: OnFailure without any try more than the first.
    """
    found = yaml.safe_load((RECORDINGS / "volcano-mpi.yaml").read_text())
    marker = rig.scratch / "mpi"
    master, worker = (task["template"]["spec"]["containers"][0] for task in found["spec"]["tasks"])
    master["command"] = ["/bin/sh", "-c"]
    master["args"] = [
        f"[ -e {marker} ] && exec echo $VC_MPIWORKER_NUM; ls {marker}.up; touch {marker}; exit 1"
    ]
    worker["command"] = ["/bin/sh", "-c", f"touch {marker}.up; exec sleep 1000"]
    text = yaml.safe_dump(found).replace("{", "{{").replace("}", "}}")
    workload = a_manifest(text, "")
    start(rig, workload)
    ended = until_released(rig.connector, workload.key)
    assert (ended.outcome, ended.exit_codes[0]) == (Outcome.SUCCEEDED, 0)
    assert rig.log(workload.key).splitlines()[-1] == "2"
    rig.connector.forget(workload.key)


@pytest.mark.parametrize("name", ["job", "tensorflow", "mpi", "pytorch"])
def test_a_cluster_takes_the_files_that_people_publish(rig: KubernetesRig, name: str) -> None:
    """The server, its webhooks and Pod Security accept the JobSet and its Pods.

    Planted: the folder with the hosts mounted twice.
    """
    text = (RECORDINGS / f"volcano-{name}.yaml").read_text()
    workload = a_manifest(text.replace("{", "{{").replace("}", "}}"), "")
    assert try_manifest(rig.options, rig.cluster_id, workload) == ManifestTrial()


def test_a_cluster_without_volcano_refuses_it_in_the_plan(
    rig: KubernetesRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster is asked what it serves; with the definition it has no finding.

    Planted: the question whether the group is served, and not the kind.
    """
    workload = a_manifest(PS_AND_WORKERS, "echo tried")
    assert try_manifest(rig.options, rig.cluster_id, workload) == ManifestTrial()
    for origin, absent in (
        ({"api_version": "batch.absent.example/v1alpha1"}, "jobs.batch.absent.example"),
        ({"plural": "flows"}, "flows.batch.volcano.sh"),
    ):
        read_manifest.cache_clear()
        changed = volcano_jobs._ORIGIN._replace(**origin)
        with monkeypatch.context() as context:
            context.setattr(volcano_jobs, "_ORIGIN", changed)
            (told,) = try_manifest(rig.options, rig.cluster_id, workload).findings
        assert told.detail == (
            f"it has no kind {absent}: it is not installed; write a JobSet, with a Job for each of "
            "its tasks"
        )
    read_manifest.cache_clear()


@pytest.mark.django_db(transaction=True)
def test_it_is_gated_preempted_run_again_metered_and_ends(rig: KubernetesRig) -> None:
    """Inference borrows all 32 GPUs with 4 workers. The other team takes its 8 back.

    Against: the server, which ends with 9 at TERM, counted as the end of the job.
    """
    marker = rig.scratch / "again"
    text = PS_AND_WORKERS.replace("replicas: 2", "replicas: 4").replace("minAvailable: 3", "")
    script = f"[ -e {marker}.$VC_TASK_INDEX ] && exec sleep 2; touch {marker}.$VC_TASK_INDEX; "
    manifest = text.format(script=quoted(f"{script} trap 'exit 1' TERM; sleep 1000 & wait"))
    company = a_company()
    company.cluster.nodes.all().delete()
    bob = a_user(company.organization, "bob")
    loop = KubernetesLoop(company.cluster, rig, company.nlp, company.inference)
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
    eventually(lambda: all(Path(f"{marker}.{index}").exists() for index in range(4)))
    wanted = a_job(company.nlp, bob, company.pool, gpus=8, script="sleep 1")
    loop.until(wanted, "succeeded", "failed")
    loop.until(lent, "succeeded", "failed")
    assert (wanted.state, lent.state, lent.attempt_number) == ("succeeded", "succeeded", 2)
    first, second = Attempt.objects.filter(job=lent).order_by("number")
    assert (first.outcome, first.stop_reason) == ("stopped", "preempted")
    assert second.outcome == "succeeded"
    for attempt in (first, second):
        segments = UsageSegment.objects.filter(attempt_id=attempt.id)
        assert [one.guaranteed_mgpu + one.borrowed_mgpu for one in segments] == [32_000]
