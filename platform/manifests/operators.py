"""The kinds of operators: PyTorchJob, MPIJob, TrainJob, RayJob and RayCluster.

Ranks follow the roles: the Pod whose output people read first is rank 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from manifests.fields import Field
from manifests.jobs import PodSet
from manifests.pods import (
    Claims,
    PodNeeds,
    check_added_marks,
    needs_of_resources,
    read_template,
)
from manifests.shapes import Shape, check_pod_count, ignore_own, or_default, read_deadline

#: The container that the Training Operator gives the addresses of the other Pods.
TORCH_CONTAINER = "pytorch"
#: The Job of a Trainer's runtime that has the nodes, and its container.
TRAINER_NODE = "node"
#: By the part of a TrainJob's initializer: the Job of its runtime, and its container.
INITIALIZERS = {"dataset": "dataset-initializer", "model": "model-initializer"}
#: How a RayJob is submitted when it does not say.
SUBMITTED_BY_POD = "K8sJobMode"
_FIXED_PODS = "Kueue starts all Pods of a cluster at once, and their number stays"


def read_pytorch_job(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    """Return the Pods of a PyTorchJob: its master is rank 0."""
    spec = item.at("spec")
    elastic = spec.at("elasticPolicy")
    if elastic.at("metrics").is_given:
        elastic.at("metrics").refuse("would add Pods beyond the job's size; leave it out")
    elif elastic.is_given:
        elastic.note("the operator tells the Pods about it; their number is that of replicas")
    pod_sets = _roles(spec.at("pytorchReplicaSpecs"), claims, ("Master", "Worker"))
    for pods in pod_sets:
        containers = item.at(*map(str, pods.template), "spec", "containers")
        names = [one.at("name").text() for one in containers.each()]
        if names and TORCH_CONTAINER not in names:
            containers.note(
                f"the operator wants a container {TORCH_CONTAINER}, so that the first one gets "
                "this name"
            )
    return Shape(pod_sets, _run_policy(spec.at("runPolicy")))


def read_mpi_job(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    """Return the Pods of an MPIJob: its launcher is rank 0."""
    spec = item.at("spec")
    roles = spec.at("mpiReplicaSpecs")
    if roles.is_given and not roles.at("Launcher").is_given:
        roles.at("Launcher").refuse("is required: the Pod that runs mpirun")
    pod_sets = _roles(roles, claims, ("Launcher", "Worker"))
    if spec.at("runLauncherAsWorker").flag():
        # The operator counts the launcher as 0, and the workers from 1 on.
        pod_sets = tuple(replace(one, ranks_from=0) for one in pod_sets)
    if not spec.at("sshAuthMountPath").is_given and len(pod_sets) > 1:
        spec.note(
            "the Pods do not run as root, so that an sshd needs sshAuthMountPath in the home of "
            "its user, such as /home/mpiuser/.ssh"
        )
    return Shape(pod_sets, _run_policy(spec.at("runPolicy")))


def _roles(field: Field, claims: Claims, order: Sequence[str]) -> tuple[PodSet, ...]:
    """Return the Pod sets of the roles in `field`, in the order of their ranks."""
    found: dict[str, PodSet] = {}
    for role, each in field.items():
        if role not in order:
            each.refuse(f"is no role of this kind; roles are {' and '.join(order)}")
            continue
        count = or_default(each.at("replicas").whole(), 1)
        if role != "Worker" and count != 1:
            each.at("replicas").refuse("must be 1")
        needs = read_template(each.at("template"), claims)
        found[role] = PodSet(role, needs, count, count, (*each.path, "template"))
    if not found:
        field.refuse("is required: at least one role with its Pods")
    pod_sets, ranks = [], 0
    for role in order:
        if role in found:
            pod_sets.append(replace(found[role], ranks_from=ranks))
            ranks += found[role].count
    check_pod_count(field, ranks)
    return tuple(pod_sets)


def _run_policy(policy: Field) -> int | None:
    """Check how Kubeflow's operators run a job, and return its time limit in seconds."""
    ignore_own(policy)
    if policy.at("managedBy").value:
        policy.at("managedBy").refuse("the cluster's operator runs it; leave it out")
    if policy.at("cleanPodPolicy").text() not in (None, "Running"):
        policy.at("cleanPodPolicy").ignore(
            "Running: Pods that outlive the job would keep their GPUs"
        )
    if policy.at("schedulingPolicy").is_given:
        policy.at("schedulingPolicy").ignore("the portal starts all Pods together")
    return read_deadline(policy.at("activeDeadlineSeconds"))


def read_train_job(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    """Return the Pods of a TrainJob, which its runtime on the cluster describes."""
    spec = item.at("spec")
    ignore_own(spec)
    runtime = spec.at("runtimeRef")
    if not runtime.at("name").text():
        runtime.at("name").refuse("is required: a runtime, such as torch-distributed")
    else:
        runtime.note("the runtime is the cluster's, with what it adds to the Pods")
    if spec.at("managedBy").text() not in (None, "trainer.kubeflow.org/trainjob-controller"):
        spec.at("managedBy").refuse("the cluster's Trainer runs it; leave it out")
    for name in ("runtimePatches", "podTemplateOverrides", "podSpecOverrides"):
        if spec.at(name).is_given:
            spec.at(name).refuse(
                "is not taken: the portal places the Pods, and the rest is the runtime's; leave it "
                "out"
            )
    check_added_marks(spec.at("labels"))
    check_added_marks(spec.at("annotations"))
    trainer = spec.at("trainer")
    count = or_default(trainer.at("numNodes").whole(1), 1)
    if not trainer.at("numNodes").is_given:
        trainer.at("numNodes").note("1 node, whatever the runtime says; write it for more")
    # The trainer has the resources of one container.
    needs = needs_of_resources(
        trainer.at("resourcesPerNode"), trainer.at("image").text(), trainer.at("env")
    )
    pod_sets = [PodSet(TRAINER_NODE, needs, count, count, ())]
    for part, job in INITIALIZERS.items():
        initializer = spec.at("initializer", part)
        if initializer.is_given:
            of_part = needs_of_resources(initializer.at("resources"), None, initializer.at("env"))
            pod_sets.append(PodSet(job, of_part, 1, 1, (), ranks_from=count + len(pod_sets) - 1))
    check_pod_count(trainer.at("numNodes"), count)
    return Shape(tuple(pod_sets), read_deadline(spec.at("activeDeadlineSeconds")))


def read_ray_job(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    """Return the Pods of a RayJob: the one that submits it is rank 0, its head the next one."""
    spec = item.at("spec")
    ignore_own(spec)
    for name, why in (
        ("clusterSelector", "the job brings a Ray cluster of its own, in rayClusterSpec"),
        ("deletionStrategy", "the portal frees the GPUs when the job has ended"),
        ("managedBy", "the cluster's operator runs it"),
    ):
        if spec.at(name).value:
            spec.at(name).refuse(f"is not taken: {why}; leave it out")
    if spec.at("shutdownAfterJobFinishes").value is not True:
        spec.at("shutdownAfterJobFinishes").note(
            "true: the Ray cluster gives its GPUs back when the job has ended"
        )
    if spec.at("rayClusterSpec", "suspend").flag():
        spec.at("rayClusterSpec", "suspend").refuse("would start the job without a cluster")
    cluster = _ray_cluster(spec.at("rayClusterSpec"), claims)
    mode = spec.at("submissionMode").text() or SUBMITTED_BY_POD
    if mode not in (SUBMITTED_BY_POD, "HTTPMode"):
        spec.at("submissionMode").refuse(f"must be {SUBMITTED_BY_POD} or HTTPMode")
    limit_s = read_deadline(spec.at("activeDeadlineSeconds"))
    if mode != SUBMITTED_BY_POD:
        return Shape(cluster, limit_s)
    template = spec.at("submitterPodTemplate")
    if template.is_given:
        needs = read_template(template, claims)
        if needs.gpus is not None:
            template.refuse("asks for GPUs, which the entrypoint cannot use; leave them out")
    else:
        # As the operator makes one itself.
        needs = PodNeeds(images=cluster[0].needs.images[:1], cpu_milli=500, memory_mib=200)
    submitter = PodSet("submitter", needs, 1, 1, template.path)
    behind = tuple(replace(one, ranks_from=one.ranks_from + 1) for one in cluster)
    return Shape((submitter, *behind), limit_s)


def read_ray(item: Field, claims: Claims, marks: Mapping[str, str]) -> Shape:
    """Return the Pods of a RayCluster, which has no end of its own."""
    spec = item.at("spec")
    ignore_own(spec)
    spec.note("the cluster runs until the job is cancelled or reaches its time limit")
    return Shape(_ray_cluster(spec, claims))


def _ray_cluster(spec: Field, claims: Claims) -> tuple[PodSet, ...]:
    """Return the head and the groups of workers of a Ray cluster."""
    for name in ("gcsFaultToleranceOptions", "authOptions", "managedBy"):
        if spec.at(name).value:
            spec.at(name).refuse("is not taken from a manifest; leave it out")
    group_of_head = spec.at("headGroupSpec")
    if group_of_head.at("enableIngress").flag():
        group_of_head.at("enableIngress").refuse("opens the cluster to others; leave it out")
    if group_of_head.at("serviceType").text() not in (None, "", "ClusterIP"):
        group_of_head.at("serviceType").refuse("must be ClusterIP, or left out")
    if group_of_head.at("headService").is_given:
        group_of_head.at("headService").refuse("is made by the operator; leave it out")
    check_added_marks(group_of_head.at("labels"))
    check_added_marks(spec.at("headServiceAnnotations"))
    head = read_template(group_of_head.at("template"), claims)
    pod_sets = [PodSet("head", head, 1, 1, (*group_of_head.path, "template"))]
    may_grow = bool(spec.at("enableInTreeAutoscaling").flag())
    if may_grow:
        spec.at("enableInTreeAutoscaling").ignore(_FIXED_PODS)
    ranks = 1
    for group in spec.at("workerGroupSpecs").each():
        pods = _worker_group(group, claims, may_grow=may_grow)
        pod_sets.append(replace(pods, ranks_from=ranks))
        ranks += pods.count
    names = [one.name for one in pod_sets]
    if len({*names, "submitter"}) <= len(names):
        spec.at("workerGroupSpecs").refuse("need names of their own, other than head and submitter")
    if sum(one.count_min is not None for one in pod_sets) > 1:
        pod_sets = [replace(one, count_min=None) for one in pod_sets]
    check_pod_count(spec.at("workerGroupSpecs"), ranks)
    return tuple(pod_sets)


def _worker_group(group: Field, claims: Claims, *, may_grow: bool) -> PodSet:
    """Return the Pods of a group: as many as the operator starts, or fewer where it may grow."""
    name = group.at("groupName").text()
    if not name:
        group.at("groupName").refuse("is required: the name of the group")
    if group.at("suspend").flag():
        group.at("suspend").refuse("would start the cluster without the group; leave it out")
    check_added_marks(group.at("labels"))
    least = or_default(group.at("minReplicas").whole(), 0)
    most = group.at("maxReplicas").whole()
    count = max(or_default(group.at("replicas").whole(), 0), least)
    if most is not None and count > most:
        group.at("replicas" if group.at("replicas").is_given else "minReplicas").refuse(
            f"must be at most maxReplicas, {most}"
        )
    hosts = or_default(group.at("numOfHosts").whole(1), 1)
    needs = read_template(group.at("template"), claims)
    count_min = None
    # The Pods of a replica with several hosts come and go together, which no count of Pods says.
    if may_grow and hosts == 1 and needs.gpus is not None and 0 < least < count:
        count_min = least
        group.at("minReplicas").note(
            f"the job is elastic: it starts with {least} to {count} replicas of this group"
        )
    return PodSet(
        name or "workers",
        needs,
        count * hosts,
        count * hosts,
        (*group.path, "template"),
        count_min=count_min,
        copies=max(1, count),
    )
