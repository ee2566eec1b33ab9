"""The kinds of object that are jobs, and where each has its Pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from manifests.fields import Field
from manifests.jobs import PodSet
from manifests.operators import (
    read_mpi_job,
    read_pytorch_job,
    read_ray,
    read_ray_job,
    read_train_job,
)
from manifests.pod_groups import JOBSET_API
from manifests.pods import Claims, read_metadata, read_pod_spec, read_template
from manifests.shapes import (
    PODS_MAX,
    Reader,
    Shape,
    check_pod_count,
    ignore_own,
    or_default,
    read_deadline,
)
from manifests.volcano_jobs import VOLCANO, VOLCANO_API

MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
MAX_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object. `refusal` is why jobs of it are not run here, "" where they are.

    `title` names it beside a kind of the same name.
    """

    api_version: str
    read: Reader
    refusal: str = ""
    title: str = ""


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
    return Shape((pods,), read_deadline(item.at("spec", "activeDeadlineSeconds")))


def _job_pods(
    spec: Field, claims: Claims, name: str, *, restart_policy: str | None = None
) -> PodSet:
    """Return the Pods of a Job's `spec`. `restart_policy` is the one of Pods that name none."""
    for owned in ("managedBy", "manualSelector"):
        if spec.at(owned).value:
            spec.at(owned).refuse("the cluster's Job controller runs it; leave it out")
    if spec.at("selector").value:
        spec.at("selector").ignore("the cluster's Job controller writes it")
    ignore_own(spec)
    needs = read_template(spec.at("template"), claims)
    if not spec.at("template", "spec", "restartPolicy").is_given:
        needs = replace(needs, restart_policy=restart_policy)
    if needs.restart_policy not in ("Never", "OnFailure"):
        spec.at("template", "spec", "restartPolicy").refuse("must be Never or OnFailure in a Job")
    parallelism, completions = spec.at("parallelism"), spec.at("completions")
    at_once = or_default(parallelism.whole(), 1)
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


def _jobset(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    spec = item.at("spec")
    ignore_own(spec)
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
        copies = or_default(replicated.at("replicas").whole(), 1)
        # JobSet's own webhook gives Pods without a policy this one.
        pods = _job_pods(
            replicated.at("template", "spec"), claims, name, restart_policy="OnFailure"
        )
        limit_s = read_deadline(replicated.at("template", "spec", "activeDeadlineSeconds"))
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
    check_pod_count(spec.at("replicatedJobs"), ranks)
    return Shape(tuple(pod_sets), max(limits, default=None))


def _pod(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    needs = read_pod_spec(item.at("spec"), claims, marks)
    policy = item.at("spec", "restartPolicy")
    if needs.restart_policy in (None, "Always"):
        policy.note("the Pod is run as a Job, once: restartPolicy is Never")
    limit = item.at("spec", "activeDeadlineSeconds")
    return Shape((PodSet("main", needs, 1, 1, ()),), read_deadline(limit))


def _cron_job(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    spec = item.at("spec", "jobTemplate", "spec")
    return Shape(
        (_job_pods(spec, claims, "main"),), read_deadline(spec.at("activeDeadlineSeconds"))
    )


def _service(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    count = or_default(item.at("spec", "replicas").whole(), 1)
    needs = read_template(item.at("spec", "template"), claims)
    return Shape((PodSet("main", needs, count, count, ("spec", "template")),))


def _nothing(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    return Shape()


_SERVICE = (
    "is a service that never ends, and services are not run here yet; write a Job for work "
    "that ends"
)

#: The kinds that are jobs, by the group of their apiVersion and their name.
KINDS: Mapping[tuple[str, str], Kind] = {
    ("batch", "Job"): Kind("batch/v1", _job),
    ("jobset.x-k8s.io", "JobSet"): Kind(JOBSET_API, _jobset),
    ("", "Pod"): Kind("v1", _pod),
    ("kubeflow.org", "PyTorchJob"): Kind("kubeflow.org/v1", read_pytorch_job),
    ("kubeflow.org", "MPIJob"): Kind("kubeflow.org/v2beta1", read_mpi_job),
    ("trainer.kubeflow.org", "TrainJob"): Kind("trainer.kubeflow.org/v1alpha1", read_train_job),
    ("ray.io", "RayJob"): Kind("ray.io/v1", read_ray_job),
    ("ray.io", "RayCluster"): Kind("ray.io/v1", read_ray),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Kind(
        # `leader_workers` reads it.
        "leaderworkerset.x-k8s.io/v1",
        _nothing,
    ),
    # `volcano_jobs` reads it.
    (VOLCANO, "Job"): Kind(VOLCANO_API, _nothing, title="Job of Volcano"),
    ("batch", "CronJob"): Kind(
        "batch/v1",
        _cron_job,
        "is a schedule and no job; give it to POST /api/v1/schedules, as `tidegate submit` and "
        "the page do",
    ),
    ("apps", "Deployment"): Kind("apps/v1", _service, _SERVICE),
    ("apps", "StatefulSet"): Kind("apps/v1", _service, _SERVICE),
    ("apps", "ReplicaSet"): Kind("apps/v1", _service, _SERVICE),
    ("apps", "DaemonSet"): Kind(
        "apps/v1", _nothing, "runs on every node, which is for administrators of the cluster"
    ),
}
