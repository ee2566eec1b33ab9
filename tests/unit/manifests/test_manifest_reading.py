"""Single fields of manifests: what they mean, and the sentence of each refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manifests.devices import is_gpu
from manifests.findings import FINDINGS_MAX
from manifests.reading import Manifest, read_manifest


def a_container(gpus: Any = 1, **more: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    return {"name": "main", "image": "train:1", "resources": {"limits": limits}, **more}


def a_pod(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    listed = list(containers) or [a_container()]
    return {"spec": {"restartPolicy": "Never", "containers": listed, **more}}


def a_job(template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {**spec, "template": template or a_pod()},
    }


def a_jobset(*jobs: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": list(jobs)},
    }


def replicated(name: str, template: dict[str, Any], replicas: int = 1, **spec: Any) -> Any:
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {**spec, "template": template}},
    }


def read(*documents: Any) -> Manifest:
    return read_manifest("\n---\n".join(json.dumps(one) for one in documents))


def refusals(*documents: Any) -> list[tuple[str, str]]:
    return [(one.where.partition(": ")[2], one.detail) for one in read(*documents).refusals]


def test_a_plain_job_has_no_refusal() -> None:
    """All cases below change it in one place."""
    assert refusals(a_job()) == []
    assert read(a_job()).is_accepted


_NODE = "the team's namespace allows no access to the node; leave it out"
_SECURITY = "the team's namespace does not allow it; write `privileged: false`, or leave it out"
_MARK = "is the portal's own mark; leave it out"


@pytest.mark.parametrize(
    ("template", "where", "detail"),
    [
        (a_pod(hostNetwork=True), "hostNetwork", _NODE),
        (a_pod(hostPID=True), "hostPID", _NODE),
        (
            a_pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
            "volumes[0].hostPath",
            "the team's namespace allows no such volume; use persistentVolumeClaim, emptyDir, "
            "configMap or secret",
        ),
        (
            a_pod(
                volumes=[
                    {"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}
                ]
            ),
            "volumes[0].csi.nodePublishSecretRef",
            "gives a driver of the node a Secret; use persistentVolumeClaim",
        ),
        (
            a_pod(a_container(env=[{"value": "x"}])),
            "containers[0].env[0].name",
            "is required: the variable's name",
        ),
        (
            a_pod(nodeName="gpu-1"),
            "nodeName",
            "the scheduler chooses the node; write nodeSelector or leave it out",
        ),
        (
            a_pod(serviceAccountName="admin"),
            "serviceAccountName",
            "the Pods run as the cluster's account for jobs; leave it out",
        ),
        (
            a_pod(a_container(securityContext={"privileged": True})),
            "containers[0].securityContext.privileged",
            _SECURITY,
        ),
        (
            a_pod(a_container(securityContext={"capabilities": {"add": ["IPC_LOCK"]}})),
            "containers[0].securityContext.capabilities.add[0]",
            "the team's namespace allows no more capabilities; write `capabilities: {drop: "
            "[ALL]}`, or leave it out",
        ),
        (
            a_pod(securityContext={"runAsUser": 0}),
            "securityContext.runAsUser",
            "the Pods may not run as root; name another user or none",
        ),
        (
            a_pod(a_container(ports=[{"hostPort": 80}])),
            "containers[0].ports[0].hostPort",
            "the team's namespace allows no port of the node; leave it out",
        ),
        (
            a_pod(a_container(image=None)),
            "containers[0].image",
            "is required: the container's image",
        ),
    ],
)
def test_what_a_team_may_not_do_is_refused_by_its_field(
    template: dict[str, Any], where: str, detail: str
) -> None:
    """Planted: the checks of one container only, the first init container's left out."""
    assert refusals(a_job(template)) == [(f"spec.template.spec.{where}", detail)]


def test_init_containers_are_checked_too() -> None:
    template = a_pod(initContainers=[a_container(0, securityContext={"privileged": True})])
    assert refusals(a_job(template)) == [
        ("spec.template.spec.initContainers[0].securityContext.privileged", _SECURITY)
    ]


@pytest.mark.parametrize(
    ("metadata", "where", "detail"),
    [
        (
            {"ownerReferences": []},
            "ownerReferences",
            "is not taken from a manifest; remove it",
        ),
        ({"finalizers": ["a"]}, "finalizers", "is not taken from a manifest; remove it"),
        ({"labels": {"tidegate.io/team": "x"}}, "labels.tidegate.io/team", _MARK),
        ({"annotations": {"tidegate.io/key": "x"}}, "annotations.tidegate.io/key", _MARK),
        (
            {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "x"}},
            "labels.kueue.x-k8s.io/prebuilt-workload-name",
            "is written by a controller or by the portal; leave it out",
        ),
        (
            {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}},
            "annotations.kueue.x-k8s.io/elastic-job",
            "changes the size of a running job, which quotas do not follow; leave it out, or write "
            "kueue.x-k8s.io/job-min-parallelism for a job that starts with fewer Pods",
        ),
    ],
)
def test_marks_of_the_portal_and_of_controllers_are_refused(
    metadata: dict[str, Any], where: str, detail: str
) -> None:
    job = a_job()
    job["metadata"] |= metadata
    assert refusals(job) == [(f"metadata.{where}", detail)]


def test_pods_of_a_jobset_need_no_restart_policy() -> None:
    """JobSet gives them OnFailure. Planted: the rule of a Job, which gives them none."""
    template = a_pod()
    del template["spec"]["restartPolicy"]
    assert refusals(a_jobset(replicated("workers", template))) == []
    assert refusals(a_job(template)) == [
        ("spec.template.spec.restartPolicy", "must be Never or OnFailure in a Job")
    ]
    template["spec"]["restartPolicy"] = "Always"
    assert refusals(a_jobset(replicated("workers", template))) == [
        (
            "spec.replicatedJobs[0].template.spec.template.spec.restartPolicy",
            "must be Never or OnFailure in a Job",
        )
    ]


def test_a_claim_that_is_refused_does_not_count_as_no_gpus() -> None:
    """Planted: "asks for no GPUs", too."""
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "either"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "firstAvailable": []}]}}},
    }
    claims = [{"name": "gpu", "resourceClaimTemplateName": "either"}]
    container = a_container(0, resources={"claims": [{"name": "gpu"}]})
    job = a_job(a_pod(container, resourceClaims=claims))
    assert refusals(claim, job) == [
        ("spec.spec.devices.requests[0]", "must name its devices in `exactly`")
    ]


def test_pods_may_not_carry_marks_of_the_portal() -> None:
    template = a_pod()
    template["metadata"] = {"labels": {"tidegate.io/role": "rank"}}
    assert refusals(a_job(template)) == [("spec.template.metadata.labels.tidegate.io/role", _MARK)]


_OWNED = {"finalizers": ["a.example/b"], "ownerReferences": [{"name": "x"}]}
_CLAIMED = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": _OWNED}}}


@pytest.mark.parametrize(
    ("documents", "where"),
    [
        ([a_job({**a_pod(), "metadata": _OWNED})], "spec.template.metadata"),
        (
            [a_job(a_pod(volumes=[_CLAIMED]))],
            "spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.metadata",
        ),
        (
            [
                a_jobset(
                    {
                        "name": "w",
                        "template": {"metadata": _OWNED, "spec": {"template": a_pod()}},
                    }
                )
            ],
            "spec.replicatedJobs[0].template.metadata",
        ),
        (
            [
                a_job(),
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaimTemplate",
                    "metadata": {"name": "g"},
                    "spec": {"metadata": _OWNED, "spec": {"devices": {}}},
                },
            ],
            "spec.metadata",
        ),
    ],
)
def test_templates_have_no_owners_and_finalizers(documents: list[Any], where: str) -> None:
    """Planted: labels and annotations as the only parts of a template's metadata."""
    detail = "is not taken from a manifest; remove it"
    assert refusals(*documents) == [
        (f"{where}.finalizers", detail),
        (f"{where}.ownerReferences", detail),
    ]


def test_a_job_that_was_read_from_its_cluster_is_accepted() -> None:
    """Planted: a refusal of its selector and its labels, with which `kubectl get` had none run."""
    written = {"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u", "job-name": "j"}
    template = {**a_pod(), "metadata": {"creationTimestamp": None, "labels": written}}
    job = {**a_job(template, selector={"matchLabels": {"controller-uid": "u"}}), "status": {}}
    job["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 1, "labels": written}
    found = read(job)
    assert found.is_accepted
    assert {(one.where.partition(": ")[2], one.detail) for one in found.findings} == {
        *(
            (f"metadata.{name}", "the cluster writes it")
            for name in ("uid", "resourceVersion", "generation")
        ),
        ("status", "the cluster writes it"),
        ("spec.template.metadata.creationTimestamp", "the cluster writes it"),
        ("spec.selector", "the cluster's Job controller writes it"),
        *(
            (f"{where}.labels.{name}", "the cluster's Job controller writes it")
            for where in ("metadata", "spec.template.metadata")
            for name in written
        ),
    }


def test_every_refusal_is_told_not_only_the_first() -> None:
    job = a_job(a_pod(hostNetwork=True, nodeName="a"), parallelism=0)
    job["metadata"]["finalizers"] = ["a"]
    assert [where for where, _ in refusals(job)] == [
        "metadata.finalizers",
        "spec.template.spec.hostNetwork",
        "spec.template.spec.nodeName",
        "spec.parallelism",
    ]


@pytest.mark.parametrize(
    ("template", "where"),
    [
        (a_pod(hostNetwork=True), "hostNetwork"),
        (a_pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), "volumes[0].hostPath"),
        (a_pod(nodeName="gpu-1"), "nodeName"),
    ],
)
def test_a_refusal_after_many_notes_is_told(template: dict[str, Any], where: str) -> None:
    """Planted: a limit that notes and refusals shared, with which such a manifest ran."""
    many = [replicated(f"j{number}", a_pod(), activeDeadlineSeconds=60) for number in range(101)]
    found = read(a_jobset(*many, replicated("last", template)))
    assert len(found.findings) == FINDINGS_MAX + 1
    assert [(one.where.rpartition("spec.")[2]) for one in found.refusals] == [where]
    assert not found.is_accepted


def test_sizes_are_checked_after_many_notes() -> None:
    """Planted: the same."""
    many = [replicated(f"j{number}", a_pod(), activeDeadlineSeconds=60) for number in range(101)]
    assert [
        where for where, _ in refusals(a_jobset(*many, replicated("w", a_pod(a_container(8)))))
    ] == ["spec"]


def test_the_refusals_that_are_shown_have_a_limit() -> None:
    many = [replicated(f"j{number}", a_pod(hostPID=True)) for number in range(101)]
    assert len(read(a_jobset(*many)).refusals) == FINDINGS_MAX


def test_several_jobs_are_told_by_name() -> None:
    assert read(a_job(), a_jobset(replicated("w", a_pod()))).refusals[0].detail == (
        "has 2 jobs (Job train, JobSet set); submit each in a text of its own, or the file with "
        "`tidegate submit`, which does so"
    )


def test_unknown_kinds_are_named() -> None:
    other = {"apiVersion": "example.com/v1", "kind": "Dream", "metadata": {"name": "x"}}
    assert refusals(other)[0][1] == (
        "Dream of example.com is no kind of job; jobs are Job, JobSet, Pod, PyTorchJob, MPIJob, "
        "TrainJob, RayJob, RayCluster, LeaderWorkerSet, Job of Volcano, with "
        "ResourceClaimTemplates, ConfigMaps, Secrets and Services beside them"
    )
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "x"}}
    assert refusals(a_job(), claim) == [
        (
            "kind",
            "is not taken beside a job; create it in the team's namespace with kubectl, and name "
            "it in the Pods",
        )
    ]


def a_service(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "ring"},
        "spec": {"selector": {"app": "ring"}, **spec},
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterIP": "None", "publishNotReadyAddresses": True},
        {"type": "ClusterIP", "ports": [{"name": "a", "port": 80, "targetPort": "http"}]},
    ],
)
def test_a_service_inside_the_cluster_stands_beside_a_job(spec: dict[str, Any]) -> None:
    found = read(a_job(), a_service(**spec))
    assert found.refusals == ()
    assert found.job is not None
    assert found.job.kinds_of_others == {"Service"}


_INSIDE = "must be ClusterIP: the Service of a job is reached from inside the cluster only"
_NOT_TAKEN = "is not taken in the Service of a job; leave it out"


@pytest.mark.parametrize(
    ("spec", "where", "detail"),
    [
        ({"type": "NodePort"}, "spec.type", _INSIDE),
        ({"type": "LoadBalancer"}, "spec.type", _INSIDE),
        ({"type": "ExternalName", "externalName": "x.example.com"}, "spec.type", _INSIDE),
        ({"externalName": "x.example.com"}, "spec.externalName", _NOT_TAKEN),
        ({"externalIPs": ["10.0.0.1"]}, "spec.externalIPs", _NOT_TAKEN),
        ({"loadBalancerIP": "10.0.0.1"}, "spec.loadBalancerIP", _NOT_TAKEN),
        (
            {"ports": [{"port": 80, "nodePort": 30_080}]},
            "spec.ports[0].nodePort",
            "opens no port of nodes in the Service of a job; leave it out",
        ),
        (
            {"clusterIP": "10.96.0.1"},
            "spec.clusterIP",
            "the cluster chooses the address; write None, or leave it out",
        ),
        ({"selector": {}}, "spec.selector", "is required: labels of the job's Pods"),
    ],
)
def test_a_service_opens_nothing_to_others(spec: dict[str, Any], where: str, detail: str) -> None:
    """Planted: a Service of every type; ports with those of nodes."""
    assert (where, detail) in refusals(a_job(), a_service(**spec))


def test_config_maps_and_secrets_stand_beside_a_job() -> None:
    """Planted: a Secret of any type, with which a controller writes the token of an account."""
    texts: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    secret = {**texts, "kind": "Secret", "stringData": {"token": "t"}}
    found = read(a_job(), {**texts, "data": {"a": "b"}}, secret)
    assert found.refusals == ()
    assert found.job is not None
    assert found.job.kinds_of_others == {"ConfigMap", "Secret"}
    assert [one.value["kind"] for one in found.other_objects] == ["ConfigMap", "Secret"]
    assert found.findings[-1].detail == (
        "the portal keeps the file, so that whoever may read the job's script sees it"
    )
    token = {**secret, "type": "kubernetes.io/service-account-token"}
    odd = {**texts, "metadata": {"name": "y"}, "data": {"a": 1}, "spec": {}}
    assert refusals(a_job(), texts, texts, token, odd) == [
        ("metadata.name", "is the name of another ConfigMap in this file"),
        ("type", "must be Opaque; create others in the team's namespace"),
        ("spec", "is no field of such an object; remove it"),
        ("data.a", "must be a text; put it in quotes"),
    ]


def test_an_older_version_of_a_kind_is_told() -> None:
    old = {**a_job(), "apiVersion": "batch/v1beta1"}
    assert refusals(old) == [("apiVersion", "must be batch/v1")]


def test_a_job_without_gpus_is_told_what_to_write() -> None:
    assert refusals(a_job(a_pod(a_container(0)))) == [
        (
            "spec",
            "asks for no GPUs; write resources.limits such as nvidia.com/gpu: 1, or give the job "
            "as a script for a pool of CPU cores",
        )
    ]


def test_pods_with_different_gpus_are_told() -> None:
    head, workers = a_pod(a_container(2)), a_pod(a_container(8))
    jobs = (replicated("head", head), replicated("w", workers, parallelism=3, completions=3))
    assert refusals(a_jobset(*jobs)) == [
        (
            "spec",
            "has Pods with different GPUs (1 x 2 nvidia.com/gpu, 3 x 8 nvidia.com/gpu); give all "
            "Pods that have GPUs as many",
        )
    ]


def test_pods_without_gpus_run_beside_the_others() -> None:
    launcher = a_pod(a_container(0))
    found = read(
        a_jobset(
            replicated("launcher", launcher),
            replicated("w", a_pod(a_container(8)), 2, parallelism=2, completions=2),
        )
    )
    assert found.job is not None
    assert [(one.name, one.count, one.ranks_from) for one in found.job.pod_sets] == [
        ("launcher", 1, 0),
        ("w", 4, 1),
    ]
    assert (found.job.nodes, found.job.ranks) == (4, 5)


@pytest.mark.parametrize(
    ("spec", "count", "total"),
    [
        ({}, 1, 1),
        ({"parallelism": 4}, 4, 4),
        ({"completions": 10}, 1, 10),
        ({"completions": 10, "parallelism": 4}, 4, 10),
        ({"completions": 3, "parallelism": 8}, 3, 3),
    ],
)
def test_parallelism_and_completions(spec: dict[str, int], count: int, total: int) -> None:
    """Planted: the larger of the two as the Pods at once."""
    job = read(a_job(**spec)).job
    assert job is not None
    assert (job.pod_sets[0].count, job.pod_sets[0].total) == (count, total)


def test_requests_count_as_kubernetes_counts_them() -> None:
    """Sidecars add up, an init container counts where it needs more, and requests win."""
    init = {"name": "i", "image": "i", "resources": {"requests": {"cpu": "9500m"}}}
    side = {**init, "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    main = a_container(2)
    main["resources"]["limits"] |= {"cpu": 8, "memory": "1.5Gi"}
    main["resources"]["requests"] = {"cpu": "2500m"}
    job = read(a_job(a_pod(main, initContainers=[side, init]))).job
    assert job is not None
    needs = job.pod_sets[0].needs
    assert (needs.cpu_milli, needs.memory_mib) == (10_500, 1_536)
    assert needs.gpus is not None
    assert needs.gpus.units == 2


@pytest.mark.parametrize(
    ("own", "label", "limit_s"),
    [(None, None, None), (600, None, 600), (None, "90", 90), (600, "90", 90), (60, "90", 60)],
)
def test_the_shorter_time_limit_counts(
    own: int | None, label: str | None, limit_s: int | None
) -> None:
    job = a_job(**({} if own is None else {"activeDeadlineSeconds": own}))
    if label is not None:
        job["metadata"]["labels"] = {"kueue.x-k8s.io/max-exec-time-seconds": label}
    found = read(job).job
    assert found is not None
    assert found.time_limit_s == limit_s


def test_time_limits_are_told_in_hours_and_minutes() -> None:
    """As everywhere else. Against: "5400 s"."""
    job = a_job(activeDeadlineSeconds=5_400)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/max-exec-time-seconds": "90"}
    told = [one.detail for one in read(job).findings if "time limit" in one.detail]
    assert sorted(told) == [
        "the time limit of the job is 1h30m",
        "the time limit of the job is at most 1m30s",
    ]


def test_the_least_parallelism_is_checked() -> None:
    job = a_job(parallelism=4, completions=4)
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "5"}
    assert refusals(job) == [
        (
            "metadata.annotations.kueue.x-k8s.io/job-min-parallelism",
            "must be a number from 1 to the parallelism, 4",
        )
    ]


def test_a_claim_needs_its_template_in_the_file() -> None:
    container = a_container(0)
    claims = [{"name": "g", "resourceClaimTemplateName": "gone"}]
    assert refusals(a_job(a_pod(container, resourceClaims=claims)))[0] == (
        "spec.template.spec.resourceClaims[0].resourceClaimTemplateName",
        "has no ResourceClaimTemplate in this file; add it as a document",
    )


def test_a_claim_template_has_devices() -> None:
    """Planted: one without a spec, of which no object could be built."""
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "g"},
    }
    assert refusals(a_job(), claim) == [("spec", "is required: the devices that a claim has")]


@pytest.mark.parametrize(
    ("exactly", "where", "detail"),
    [
        (
            {"deviceClassName": "gpu.nvidia.com", "adminAccess": True},
            "adminAccess",
            "reaches the devices of others; leave it out",
        ),
        ({"count": 1}, "deviceClassName", "is required: the class of its devices"),
    ],
)
def test_a_claim_may_not_reach_the_devices_of_others(
    exactly: dict[str, Any], where: str, detail: str
) -> None:
    """Planted: neither check."""
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "g"},
        "spec": {"spec": {"devices": {"requests": [{"name": "g", "exactly": exactly}]}}},
    }
    where = f"spec.spec.devices.requests[0].exactly.{where}"
    assert refusals(a_job(), claim) == [(where, detail)]


def test_wrong_types_are_refused_by_their_field() -> None:
    job = a_job(a_pod(a_container("many")), parallelism="3", suspend="no")
    assert refusals(job)[:3] == [
        ("spec.suspend", "must be true or false"),
        (
            "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu",
            "must be a quantity, such as 8, 500m or 64Gi",
        ),
        ("spec.parallelism", "must be a whole number from 0 to 2,147,483,647"),
    ]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-3g.40gb", True),
        ("amd.com/gpu", True),
        ("gpu.nvidia.com", True),
        ("habana.ai/gaudi", True),
        ("nvidia.com/gpumem", False),
        ("nvidia.com/gpucores", False),
        ("rdma/hca_shared_devices_a", False),
        ("vpc.amazonaws.com/efa", False),
    ],
)
def test_names_of_gpus(name: str, is_one: bool) -> None:
    assert is_gpu(name) is is_one
