"""Volcano Jobs as JobSets: their tasks and their Pods, what ends them, and what is told."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests.findings import Verdict
from manifests.jobs import ManifestJob
from manifests.reading import Manifest, read_manifest

RECORDINGS = Path(__file__).parents[2] / "recordings" / "manifests"
Json = dict[str, Any]


def recorded(name: str, **spec: Any) -> Json:
    """The recording with other fields in its spec."""
    found: Json = yaml.safe_load((RECORDINGS / f"volcano-{name}.yaml").read_text())
    found["spec"] |= spec
    return found


def read(document: Json) -> Manifest:
    return read_manifest(yaml.safe_dump(document))


def job_of(document: Json) -> ManifestJob:
    found = read(document)
    assert found.job is not None
    assert found.refusals == ()
    return found.job


def jobset(document: Json) -> Json:
    spec: Json = job_of(document).document.value["spec"]
    return spec


def jobs(document: Json) -> dict[str, Json]:
    return {one["name"]: one for one in jobset(document)["replicatedJobs"]}


def pod(document: Json, task: str) -> Json:
    spec: Json = jobs(document)[task]["template"]["spec"]["template"]["spec"]
    return spec


def variables(document: Json, task: str) -> dict[str, Any]:
    (container,) = pod(document, task)["containers"]
    found = {}
    for one in container.get("env", []):
        source = one.get("valueFrom", {})
        found[one["name"]] = (
            one.get("value")
            or source.get("fieldRef", {}).get("fieldPath")
            or source["configMapKeyRef"]["key"]
        )
    return found


def told(document: Json, verdict: Verdict, where: str) -> list[str]:
    """What is said of the field that ends so."""
    return [
        one.detail
        for one in read(document).findings
        if one.verdict is verdict and one.where.endswith(where)
    ]


def with_task(document: Json, number: int, **fields: Any) -> Json:
    found = copy.deepcopy(document)
    found["spec"]["tasks"][number] |= fields
    return found


def test_each_task_is_a_job_of_equal_pods() -> None:
    """Planted: a Job without an index, so that all its Pods had one log."""
    found = jobs(recorded("tensorflow"))
    assert [
        (name, one["template"]["spec"]["completions"], one["template"]["spec"]["backoffLimit"])
        for name, one in found.items()
    ] == [("ps", 1, 0), ("worker", 2, 0)]
    for name, one in found.items():
        spec = one["template"]["spec"]
        assert (spec["parallelism"], spec["completionMode"]) == (spec["completions"], "Indexed")
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
        assert spec["template"]["metadata"]["labels"] == {
            "volcano.sh/job-name": "dist-mnist",
            "volcano.sh/task-spec": name,
        }


def test_pods_find_their_hosts_and_their_index() -> None:
    """Planted: the names that Pods have with Volcano."""
    document = recorded("tensorflow")
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert variables(document, "ps") == {
        "VK_TASK_INDEX": index,
        "VC_TASK_INDEX": index,
        **{name: name for name in ("VC_PS_HOSTS", "VC_PS_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM")},
    }
    worker = pod(document, "worker")
    assert worker["containers"][0]["volumeMounts"] == [
        {"name": "volcano-hosts", "mountPath": "/etc/volcano"}
    ]
    assert worker["volumes"] == [{"name": "volcano-hosts", "configMap": {"name": "volcano/hosts"}}]
    workers = [f"dist-mnist-worker-0-{number}.dist-mnist" for number in (0, 1)]
    assert job_of(document).host_files == {
        "ps.host": "dist-mnist-ps-0-0.dist-mnist",
        "VC_PS_HOSTS": "dist-mnist-ps-0-0.dist-mnist",
        "VC_PS_NUM": "1",
        "worker.host": "\n".join(workers),
        "VC_WORKER_HOSTS": ",".join(workers),
        "VC_WORKER_NUM": "2",
    }


def test_hosts_stay_files_where_the_file_wants_no_variables() -> None:
    document = recorded("tensorflow", plugins={"svc": ["--inject-hosts-env=false"]})
    assert variables(document, "ps") == {}
    assert "ps.host" in job_of(document).host_files
    assert job_of(recorded("job")).host_files == {}


def test_names_of_volcanos_pods_in_the_file_follow() -> None:
    """Planted: a name that only begins like a Pod's."""
    document = recorded("tensorflow")
    container = document["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["args"] = ["dist-mnist-worker-1.dist-mnist:2222,dist-mnist-worker-1-x,dist-mnist-a-0"]
    container["env"] = [
        {"name": "ROOT", "value": "dist-mnist-ps-0"},
        {"name": "VC_PS_NUM", "value": "9"},
    ]
    (made,) = pod(document, "ps")["containers"]
    assert made["args"] == [
        "dist-mnist-worker-0-1.dist-mnist:2222,dist-mnist-worker-1-x,dist-mnist-a-0"
    ]
    assert variables(document, "ps")["ROOT"] == "dist-mnist-ps-0-0"
    assert variables(document, "ps")["VC_PS_NUM"] == "VC_PS_NUM"


def test_a_task_starts_behind_the_one_that_it_depends_on_and_ranks_follow_the_file() -> None:
    """The master is rank 0, and its Job comes after that of the workers.

    Planted: ranks in the order of the JobSet.
    """
    document = recorded("mpi")
    found = jobs(document)
    assert list(found) == ["mpiworker", "mpimaster"]
    assert found["mpimaster"]["dependsOn"] == [{"name": "mpiworker", "status": "Ready"}]
    assert [(one.name, one.ranks_from, one.template[2]) for one in job_of(document).pod_sets] == [
        ("mpimaster", 0, 1),
        ("mpiworker", 1, 0),
    ]
    # A container that fails is run again, as long as sshd of the workers is not up.
    assert {one["template"]["spec"]["backoffLimit"] for one in found.values()} == {6}
    (keys,) = told(document, Verdict.IGNORED, "spec.plugins.ssh")
    assert keys.startswith("no SSH keys are made; mount a Secret with a key pair")


@pytest.mark.parametrize(
    ("names", "detail"),
    [
        (["nobody"], "must be the name of another task with Pods"),
        (["mpimaster"], "must be the name of another task with Pods"),
    ],
)
def test_a_task_cannot_depend_on_itself_or_nothing(names: list[str], detail: str) -> None:
    document = with_task(recorded("mpi"), 0, dependsOn={"name": names})
    assert told(document, Verdict.REFUSED, "dependsOn.name") == [detail]


def test_a_circle_of_tasks_is_refused() -> None:
    document = with_task(recorded("mpi"), 1, dependsOn={"name": ["mpimaster"]})
    assert told(document, Verdict.REFUSED, "tasks[0].dependsOn") == [
        "waits for a task that waits for this one"
    ]


def test_torch_has_its_master_first_and_a_rank_for_each_worker() -> None:
    """Planted: the workers as one Job, whose indices begin at 0 like the master's."""
    document = recorded("pytorch")
    found = jobs(document)
    assert [(name, one.get("replicas")) for name, one in found.items()] == [
        ("master", None),
        ("worker", 2),
    ]
    assert variables(document, "master") | {"RANK": "0"} == variables(document, "master")
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
    assert [variables(document, "worker")[name] for name in names] == [
        "pytorch-job-master-0-0.pytorch-job",
        "23456",
        "3",
        "metadata.labels['jobset.sigs.k8s.io/job-global-index']",
    ]
    assert job_of(document).host_files["worker.host"] == (
        "pytorch-job-worker-0-0.pytorch-job\npytorch-job-worker-1-0.pytorch-job"
    )
    assert [(one.copies, one.total, one.ranks_from) for one in job_of(document).pod_sets] == [
        (1, 1, 0),
        (2, 2, 1),
    ]
    assert told(document, Verdict.IGNORED, "spec.minAvailable") == ["all 3 Pods start together"]


def test_torch_needs_one_master() -> None:
    document = with_task(recorded("pytorch"), 0, replicas=2)
    assert told(document, Verdict.REFUSED, "tasks[0].replicas") == [
        "must be 1: plugin pytorch has one master"
    ]
    document = recorded("pytorch", plugins={"pytorch": ["--master", "leader"]})
    assert told(document, Verdict.REFUSED, "plugins.pytorch") == [
        "there is no task leader; name the master's with --master=TASK"
    ]


def test_tensorflow_and_mpi_have_the_variables_of_their_plugins() -> None:
    """Planted: the port of the default in place of the plugin's argument."""
    document = recorded("tensorflow", plugins={"tensorflow": ["--port=5000"]})
    assert variables(document, "worker")["TF_CONFIG"] == (
        '{"cluster":$(VC_TF_CLUSTER),"task":{"type":"worker","index":$(VC_TASK_INDEX)}}'
    )
    assert job_of(document).host_files["VC_TF_CLUSTER"] == (
        '{"ps":["dist-mnist-ps-0-0.dist-mnist:5000"],'
        '"worker":["dist-mnist-worker-0-0.dist-mnist:5000",'
        '"dist-mnist-worker-0-1.dist-mnist:5000"]}'
    )
    roles = ["--master=mpimaster", "--worker=mpiworker"]
    document = recorded("mpi", plugins={"mpi": roles})
    assert variables(document, "mpimaster")["MPI_HOST"] == "VC_MPIWORKER_HOSTS"
    assert "MPI_HOST" not in variables(document, "mpiworker")


def test_other_plugins_are_refused() -> None:
    document = recorded("job", plugins={"ray": [], "hcclrank": []})
    listed = "is no plugin of those that run here (env, mpi, pytorch, ssh, svc, tensorflow)"
    assert told(document, Verdict.REFUSED, "plugins.ray") == [
        f"{listed}; write a RayJob or a RayCluster"
    ]
    assert told(document, Verdict.REFUSED, "plugins.hcclrank") == [f"{listed}; leave it out"]


COMPLETE = {"event": "TaskCompleted", "action": "CompleteJob"}


def test_a_completed_task_completes_the_job() -> None:
    """Planted: all tasks as the targets; All in place of Any."""
    assert jobset(recorded("tensorflow"))["successPolicy"] == {
        "operator": "All",
        "targetReplicatedJobs": ["worker"],
    }
    every = recorded("tensorflow", policies=[COMPLETE])
    assert jobset(every)["successPolicy"] == {
        "operator": "Any",
        "targetReplicatedJobs": ["ps", "worker"],
    }
    assert "successPolicy" not in jobset(recorded("job"))


RESTARTED = "from its start, at most 2 times"


@pytest.mark.parametrize(
    ("action", "rules", "verdict", "sentence"),
    [
        (
            "RestartJob",
            ["RestartJobSet"],
            Verdict.UNDERSTOOD,
            f"the job is run again {RESTARTED}",
        ),
        (
            "RestartTask",
            ["RestartJobSet"],
            Verdict.IGNORED,
            f"the whole job is run again {RESTARTED}: a JobSet restarts no task alone",
        ),
        (
            "RestartPod",
            [],
            Verdict.UNDERSTOOD,
            "a Pod that fails is run again, at most 2 times in its task",
        ),
        ("AbortJob", [], Verdict.UNDERSTOOD, "the job fails when one of these Pods does"),
        ("TerminateJob", [], Verdict.UNDERSTOOD, "the job fails when one of these Pods does"),
    ],
)
def test_what_a_failed_pod_does(
    action: str, rules: list[str], verdict: Verdict, sentence: str
) -> None:
    """Volcano counts the first run as one of `maxRetry`, which is 3 without one.

    Planted: maxRetry restarts; RestartTask as a restart by JobSet's alpha action RestartJob.
    """
    document = recorded("tensorflow", policies=[{"event": "PodFailed", "action": action}])
    assert told(document, verdict, "spec.policies[0]") == [sentence]
    policy = jobset(document).get("failurePolicy")
    assert [one["action"] for one in (policy or {"rules": []})["rules"]] == rules
    assert policy is None or policy["maxRestarts"] == 2
    limits = {one["template"]["spec"]["backoffLimit"] for one in jobs(document).values()}
    assert limits == ({2} if action == "RestartPod" else {0})


def test_a_policy_of_a_task_comes_before_that_of_the_job() -> None:
    """Other tasks fail the JobSet, whose own default is a restart."""
    document = with_task(
        recorded("tensorflow", maxRetry=5),
        0,
        policies=[{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}],
    )
    assert jobset(document)["failurePolicy"] == {
        "maxRestarts": 4,
        "rules": [
            {
                "name": "RestartJobSet",
                "action": "RestartJobSet",
                "targetReplicatedJobs": ["ps"],
            },
            {"name": "FailJobSet", "action": "FailJobSet", "targetReplicatedJobs": ["worker"]},
        ],
    }


def test_policies_that_mean_nothing_here_are_told() -> None:
    policies = [
        {"event": "PodEvicted", "action": "AbortJob"},
        {"event": "Unknown", "action": "RestartJob", "timeout": "5m"},
        {"exitCode": 3, "action": "RestartJob"},
        {"event": "TaskCompleted", "action": "RestartJob"},
    ]
    document = recorded("job", policies=policies, maxRetry=4)
    assert [told(document, Verdict.IGNORED, f"policies[{number}]") for number in range(4)] == [
        ["a job that is preempted, or loses a node, is queued again as a whole"],
        ["Unknown neither ends nor restarts a job here"],
        [],
        ["the job succeeds when all its tasks do; only CompleteJob changes that"],
    ]
    assert told(document, Verdict.IGNORED, "policies[1].timeout") == ["the action follows at once"]
    assert told(document, Verdict.IGNORED, "policies[2].exitCode") == [
        "a Pod that fails counts, whatever its exit code"
    ]
    assert told(document, Verdict.IGNORED, "spec.maxRetry") == [
        "no policy runs the job again after a failed Pod"
    ]
    assert "failurePolicy" not in jobset(document)


def test_all_pods_start_together() -> None:
    """Planted: a smaller minAvailable passed without a word."""
    at = "spec.minAvailable"
    assert told(recorded("job"), Verdict.UNDERSTOOD, at) == ["all 2 Pods start together, or none"]
    fewer = recorded("job", minAvailable=1, minSuccess=1)
    assert told(fewer, Verdict.IGNORED, at) == ["all 2 Pods start together"]
    assert told(fewer, Verdict.IGNORED, "spec.minSuccess") == [
        "all Pods are to succeed, unless a policy says otherwise"
    ]
    assert told(recorded("job", minAvailable=3), Verdict.REFUSED, at) == [
        "is more than the 2 Pods of all tasks"
    ]
    task = with_task(recorded("job"), 0, minAvailable=1)
    assert told(task, Verdict.IGNORED, "tasks[0].minAvailable") == [
        "all 2 Pods of the task start together"
    ]


def test_what_volcanos_own_scheduler_reads_is_told() -> None:
    document = recorded(
        "job",
        queue="research",
        ttlSecondsAfterFinished=60,
        networkTopology={"mode": "hard"},
        somethingNew=1,
        priorityClassName="high",
    )
    details = {
        one.where.rpartition("spec.")[2]: one.detail
        for one in read(document).findings
        if one.verdict is Verdict.IGNORED
    }
    assert details == {
        "schedulerName": "the cluster's own scheduler places the Pods",
        "queue": "the job goes to its team's queue",
        "ttlSecondsAfterFinished": "the portal removes the object after the job's end",
        "networkTopology": "topology is Kueue's here; write the annotation "
        "kueue.x-k8s.io/podset-required-topology into the template",
        "somethingNew": "is no field that is read here",
    }
    assert job_of(document).priority_class == "high"


def test_claims_are_mounted_and_never_made() -> None:
    """Planted: a mount in the first container only."""
    given = [{"mountPath": "/data", "volumeClaimName": "corpus"}]
    document = recorded("job", volumes=given)
    containers = document["spec"]["tasks"][0]["template"]["spec"]["containers"]
    containers.append({"name": "beside", "image": "x:1"})
    found = pod(document, "worker")
    assert found["volumes"] == [
        {"name": "volcano-volume-0", "persistentVolumeClaim": {"claimName": "corpus"}}
    ]
    assert [one["volumeMounts"] for one in found["containers"]] == [
        [{"name": "volcano-volume-0", "mountPath": "/data"}]
    ] * 2
    made = {"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}
    assert told(recorded("job", volumes=[made]), Verdict.REFUSED, "volumes[0]") == [
        "claims are not made for jobs; create one with kubectl, and write its name as "
        "volumeClaimName, without volumeClaim"
    ]


def test_clusters_have_to_know_volcanos_jobs() -> None:
    origin = job_of(recorded("job")).origin
    assert origin is not None
    assert (origin.api_version, origin.definition) == (
        "batch.volcano.sh/v1alpha1",
        "jobs.batch.volcano.sh",
    )


def test_people_are_told_the_kind_of_their_file() -> None:
    """Planted: the kind of the JobSet, of which the file has none."""
    text = "---\n".join(yaml.safe_dump(recorded(name)) for name in ("job", "mpi"))
    (told,) = read_manifest(text).refusals
    assert told.detail.startswith("has 2 jobs (Job tasks, Job lm-mpi); submit each")


def test_too_many_pods_and_tasks_are_refused_without_a_name_for_each() -> None:
    """Planted: names of two thousand million hosts."""
    document = with_task(recorded("tensorflow", minAvailable=1), 1, replicas=2**31 - 1)
    (detail,) = told(document, Verdict.REFUSED, "spec.tasks")
    assert detail == "have 2,147,483,648 Pods, and a job has at most 4,096"
    (task,) = recorded("job")["spec"]["tasks"]
    many = [{**task, "name": f"t{number}"} for number in range(19)]
    (detail,) = told(recorded("job", tasks=many, minAvailable=1), Verdict.REFUSED, "spec.tasks")
    assert detail == (
        "has 19 tasks, and Kueue takes at most 18; give equal tasks more replicas, or submit them "
        "apart"
    )


@pytest.mark.parametrize("odd", [None, 7, "x", [], [7], {}, {"a": [7]}, [{"name": 7}], [[]]])
def test_odd_values_are_findings_and_nothing_raises(odd: Any) -> None:
    """Against: a part of another type that is read without a look at it."""
    spec = recorded("pytorch")["spec"]
    for name in (*spec, "volumes", "policies", "minSuccess"):
        read(recorded("pytorch", **{name: odd}))
    for name in ("replicas", "name", "template", "policies", "dependsOn", "minAvailable"):
        read(with_task(recorded("mpi"), 1, **{name: odd}))
    for name in ("metadata", "spec"):
        template = copy.deepcopy(spec["tasks"][0]["template"]) | {name: odd}
        read(with_task(recorded("pytorch"), 0, template=template))
    for name in ("containers", "initContainers", "volumes", "restartPolicy"):
        template = copy.deepcopy(spec["tasks"][0]["template"])
        template["spec"][name] = odd
        read(with_task(recorded("pytorch"), 0, template=template))
    for name in ("env", "args", "volumeMounts"):
        template = copy.deepcopy(spec["tasks"][0]["template"])
        template["spec"]["containers"][0][name] = odd
        read(with_task(recorded("pytorch"), 0, template=template))
