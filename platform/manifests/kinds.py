"""The kinds of object that are jobs, and where each has its Pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from manifests.fields import Field
from manifests.jobs import PodSet
from manifests.pods import (
    Claims,
    needs_of_resources,
    read_metadata,
    read_pod_spec,
    read_template,
)

#: As many as a workload of the portal may have ranks.
PODS_MAX = 4_096
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
MAX_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
POD_GROUP = "kueue.x-k8s.io/pod-group-name"


@dataclass(frozen=True, slots=True)
class Shape:
    """The Pods of an object, and its own time limit."""

    pod_sets: tuple[PodSet, ...] = ()
    time_limit_s: int | None = None


#: Reads the object of a job; the marks are its labels and annotations.
Reader = Callable[[Field, Claims, Mapping[str, str]], Shape]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object. `refusal` is why jobs of it are not run here, "" where they are."""

    api_version: str
    read: Reader
    refusal: str = ""


def _job(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    pods = _job_pods(item.at("spec"), claims, "main")
    least = marks.get(MIN_PARALLELISM)
    if least is not None:
        mark = item.at("metadata", "annotations", MIN_PARALLELISM)
        if not least.isdecimal() or not 1 <= int(least) <= pods.count:
            mark.refuse(f"must be a number from 1 to the parallelism, {pods.count}")
        else:
            pods = replace(pods, count_min=int(least))
            mark.note(f"the job is elastic: it starts with {least} to {pods.count} Pods")
    return Shape((pods,), _deadline(item.at("spec", "activeDeadlineSeconds")))


def _job_pods(spec: Field, claims: Claims, name: str) -> PodSet:
    for owned in ("managedBy", "manualSelector"):
        if spec.at(owned).value:
            spec.at(owned).refuse("the cluster's Job controller runs it; leave it out")
    if spec.at("selector").value:
        spec.at("selector").ignore("the cluster's Job controller writes it")
    _ignore_own(spec)
    needs = read_template(spec.at("template"), claims)
    if needs.restart_policy not in ("Never", "OnFailure"):
        spec.at("template", "spec", "restartPolicy").refuse("must be Never or OnFailure in a Job")
    parallelism, completions = spec.at("parallelism"), spec.at("completions")
    at_once = _or(parallelism.whole(), 1)
    total = completions.whole(1)
    if at_once == 0:
        parallelism.refuse("is 0, so that nothing would run; write at least 1")
    if total is None:
        total = max(1, at_once)
        if at_once > 1:
            parallelism.note(f"without completions, each of {at_once} Pods is to succeed once")
    if total > 1 and spec.at("completionMode").text() in (None, "NonIndexed"):
        spec.at("completionMode").note("Indexed, so that each Pod has a log of its own")
    count = max(1, min(at_once, total))
    if total > PODS_MAX:
        completions.refuse(f"is more than {PODS_MAX:,} Pods, the most of a job; use a job array")
    return PodSet(name, needs, count, total, (*spec.path, "template"))


def _ignore_own(spec: Field) -> None:
    """Say that the portal sets what holds an object and what removes it."""
    if spec.at("suspend").flag() is False:
        spec.at("suspend").ignore("the portal holds the object until the job starts")
    if spec.at("ttlSecondsAfterFinished").is_given:
        spec.at("ttlSecondsAfterFinished").ignore(
            "the portal removes the object after the job's end"
        )


def _deadline(field: Field) -> int | None:
    limit_s = field.whole(1)
    if limit_s is not None:
        field.note(f"the time limit of the job is {limit_s} s")
    return limit_s


def _jobset(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    spec = item.at("spec")
    _ignore_own(spec)
    if spec.at("managedBy").is_given:
        spec.at("managedBy").refuse("the cluster's JobSet controller runs it; leave it out")
    for policy in spec.at("volumeClaimPolicies").each():
        for template in policy.at("templates").each():
            read_metadata(template.at("metadata"))
    pod_sets: list[PodSet] = []
    limits: list[int] = []
    ranks = 0
    for replicated in spec.at("replicatedJobs").each():
        name = replicated.at("name").text() or ""
        if not name:
            replicated.at("name").refuse("is required")
        read_metadata(replicated.at("template", "metadata"))
        copies = _or(replicated.at("replicas").whole(), 1)
        pods = _job_pods(replicated.at("template", "spec"), claims, name)
        limit_s = _deadline(replicated.at("template", "spec", "activeDeadlineSeconds"))
        limits += [] if limit_s is None else [limit_s]
        if copies:
            pod_sets.append(
                replace(
                    pods,
                    count=pods.count * copies,
                    total=pods.total * copies,
                    copies=copies,
                    ranks_from=ranks,
                )
            )
            ranks += pods.total * copies
    if not pod_sets:
        spec.at("replicatedJobs").refuse("is required: at least one Job")
    if ranks > PODS_MAX:
        spec.at("replicatedJobs").refuse(f"have {ranks:,} Pods, and a job has at most {PODS_MAX:,}")
    return Shape(tuple(pod_sets), max(limits, default=None))


def _pod(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    needs = read_pod_spec(item.at("spec"), claims, marks)
    policy = item.at("spec", "restartPolicy")
    if needs.restart_policy in (None, "Always"):
        policy.note("the Pod is run as a Job, once: restartPolicy is Never")
    limit = item.at("spec", "activeDeadlineSeconds")
    return Shape((PodSet("main", needs, 1, 1, ()),), _deadline(limit))


def _replicas(
    path: tuple[str, ...], run_policy: tuple[str, ...], replicas: str = "replicas"
) -> Reader:
    """Return the reader of the jobs of Kubeflow: Pod sets by role at `path`."""

    def read(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
        pod_sets = []
        for role, each in item.at(*path).items():
            count = _or(each.at(replicas).whole(), 1)
            needs = read_template(each.at("template"), claims)
            pod_sets.append(PodSet(role, needs, count, count, (*each.path, "template")))
        if not pod_sets:
            item.at(*path).refuse("is required: at least one role with its Pods")
        return Shape(tuple(pod_sets), _deadline(item.at(*run_policy, "activeDeadlineSeconds")))

    return read


def _ray_cluster(spec: Field, claims: Claims) -> tuple[PodSet, ...]:
    head = read_template(spec.at("headGroupSpec", "template"), claims)
    pod_sets = [PodSet("head", head, 1, 1, (*spec.path, "headGroupSpec", "template"))]
    for group in spec.at("workerGroupSpecs").each():
        count = _or(group.at("replicas").whole(), _or(group.at("minReplicas").whole(), 1))
        hosts = _or(group.at("numOfHosts").whole(1), 1)
        needs = read_template(group.at("template"), claims)
        least, most = group.at("minReplicas").whole(), group.at("maxReplicas").whole()
        if spec.at("enableInTreeAutoscaling").flag() and most is not None and most > count:
            group.at("maxReplicas").note(f"the cluster may grow to {most} replicas of this group")
        pod_sets.append(
            PodSet(
                group.at("groupName").text() or "workers",
                needs,
                count * hosts,
                count * hosts,
                (*group.path, "template"),
                None if least is None or least >= count else least * hosts,
            )
        )
    return tuple(pod_sets)


def _ray_job(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    return Shape(
        _ray_cluster(item.at("spec", "rayClusterSpec"), claims),
        _deadline(item.at("spec", "activeDeadlineSeconds")),
    )


def _ray(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    return Shape(_ray_cluster(item.at("spec"), claims))


def _train_job(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    trainer = item.at("spec", "trainer")
    count = _or(trainer.at("numNodes").whole(1), 1)
    # The trainer has the resources of one container.
    needs = needs_of_resources(trainer.at("resourcesPerNode"), trainer.at("image").text())
    return Shape((PodSet("node", needs, count, count, ()),))


def _leader_workers(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    spec = item.at("spec")
    groups = _or(spec.at("replicas").whole(), 1)
    template = spec.at("leaderWorkerTemplate")
    size = _or(template.at("size").whole(1), 1)
    workers = template.at("workerTemplate")
    leaders = template.at("leaderTemplate")
    leader = read_template(leaders if leaders.is_given else workers, claims)
    pod_sets = [PodSet("leader", leader, groups, groups, (*leaders.path,), copies=max(1, groups))]
    if size > 1:
        needs, count = read_template(workers, claims), groups * (size - 1)
        pod_sets.append(PodSet("workers", needs, count, count, workers.path, copies=max(1, groups)))
    return Shape(tuple(pod_sets))


def _cron_job(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    spec = item.at("spec", "jobTemplate", "spec")
    return Shape((_job_pods(spec, claims, "main"),), _deadline(spec.at("activeDeadlineSeconds")))


def _service(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    count = _or(item.at("spec", "replicas").whole(), 1)
    needs = read_template(item.at("spec", "template"), claims)
    return Shape((PodSet("main", needs, count, count, ("spec", "template")),))


def _nothing(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    return Shape()


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _as(other: str) -> str:
    return f"jobs of this kind are not run from manifests yet; write {other}"


_TORCH = _as("a JobSet, whose Pods find each other by their host names")
_SERVICE = (
    "is a service that never ends, and services are not run here yet; write a Job for work "
    "that ends"
)

#: The kinds that are jobs, by the group of their apiVersion and their name.
KINDS: Mapping[tuple[str, str], Kind] = {
    ("batch", "Job"): Kind("batch/v1", _job),
    ("jobset.x-k8s.io", "JobSet"): Kind("jobset.x-k8s.io/v1alpha2", _jobset),
    ("", "Pod"): Kind("v1", _pod),
    ("kubeflow.org", "PyTorchJob"): Kind(
        "kubeflow.org/v1", _replicas(("spec", "pytorchReplicaSpecs"), ("spec", "runPolicy")), _TORCH
    ),
    ("kubeflow.org", "MPIJob"): Kind(
        "kubeflow.org/v2beta1",
        _replicas(("spec", "mpiReplicaSpecs"), ("spec", "runPolicy")),
        _as("a JobSet with a launcher and workers"),
    ),
    ("trainer.kubeflow.org", "TrainJob"): Kind("trainer.kubeflow.org/v1alpha1", _train_job, _TORCH),
    ("ray.io", "RayJob"): Kind("ray.io/v1", _ray_job, _as("a JobSet with a head and workers")),
    ("ray.io", "RayCluster"): Kind("ray.io/v1", _ray, _as("a JobSet with a head and workers")),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Kind(
        "leaderworkerset.x-k8s.io/v1", _leader_workers, _SERVICE
    ),
    ("batch", "CronJob"): Kind(
        "batch/v1",
        _cron_job,
        "runs on a schedule, and schedules are not kept here yet; submit the Job of its "
        "jobTemplate from a scheduler of yours, such as cron with `tidegate submit`",
    ),
    ("apps", "Deployment"): Kind("apps/v1", _service, _SERVICE),
    ("apps", "StatefulSet"): Kind("apps/v1", _service, _SERVICE),
    ("apps", "ReplicaSet"): Kind("apps/v1", _service, _SERVICE),
    ("apps", "DaemonSet"): Kind(
        "apps/v1", _nothing, "runs on every node, which is for administrators of the cluster"
    ),
    ("batch.volcano.sh", "Job"): Kind(
        "batch.volcano.sh/v1alpha1", _nothing, _as("a JobSet, with a Job for each of its tasks")
    ),
}
