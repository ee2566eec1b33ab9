"""Volcano Jobs: each is one job, run as a JobSet, which Volcano's scheduler does not place.

Kueue holds the JobSet until the job starts. Two schedulers would give the same GPUs away twice.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from manifests.documents import Document, Path
from manifests.fields import Field
from manifests.findings import Findings
from manifests.jobs import Origin, PodSet
from manifests.pod_groups import JOBSET_API, KINDS_MAX, template_path
from manifests.pods import Claims, read_template
from manifests.shapes import PODS_MAX, AsJobSet, Shape, check_pod_count, ignore_own, or_default
from manifests.volcano_plugins import Plugins, add_plugins, host_files, read_plugins, torch_roles
from manifests.volcano_policies import Policies, read_policies
from manifests.volcano_tasks import Task

VOLCANO = "batch.volcano.sh"
VOLCANO_API = f"{VOLCANO}/v1alpha1"
_ORIGIN = Origin(VOLCANO_API, "Job", "jobs", "write a JobSet, with a Job for each of its tasks")
_ON_FAILURE = "OnFailure"
#: How often containers of a task are run again in their Pods, as in a Job that does not say.
_CONTAINER_RETRIES = 6
#: The longest value of a label.
_LABEL_MAX = 63
_SPEC = frozenset(
    {
        *("maxRetry", "minAvailable", "minSuccess", "networkTopology", "plugins", "policies"),
        *("priorityClassName", "queue", "runningEstimate", "schedulerName", "suspend", "tasks"),
        *("ttlSecondsAfterFinished", "volumes"),
    }
)
_TASK = frozenset(
    {
        *("dependsOn", "maxRetry", "minAvailable", "name", "partitionPolicy", "policies"),
        *("replicas", "template", "topologyPolicy"),
    }
)
_TOPOLOGY = "write the annotation kueue.x-k8s.io/podset-required-topology into the template"
#: Fields that do not count, and what does.
_IGNORED: Mapping[str, str] = {
    "schedulerName": "the cluster's own scheduler places the Pods",
    "queue": "the job goes to its team's queue",
    "runningEstimate": "the time limit of the job counts",
    "networkTopology": f"topology is Kueue's here; {_TOPOLOGY}",
}
_IGNORED_OF_TASKS: Mapping[str, str] = {
    "partitionPolicy": f"the Pods of a task are one group; {_TOPOLOGY}",
    "topologyPolicy": "the kubelet of each node decides on NUMA",
    "maxRetry": "maxRetry of the job counts",
}


def read_volcano_job(
    document: Document, top: Field, claims: Claims, findings: Findings
) -> AsJobSet:
    """Return the JobSet that runs all tasks, with a Job for each of them."""
    spec = top.at("spec")
    job = _name_of(top)
    ignore_own(spec)
    _ignore(spec, _SPEC, _IGNORED)
    plugins = read_plugins(spec.at("plugins"))
    roles = torch_roles(plugins)
    given = _tasks(spec, claims)
    total = sum(task.replicas for task in given)
    check_pod_count(spec.at("tasks"), total)
    _check_gang(spec, total)
    if total > PODS_MAX:
        # It is refused: nothing is made for each of its Pods.
        given = [replace(task, replicas=1) for task in given]
    tasks = _with_roles(given, spec, roles)
    policies = read_policies(spec, tasks)
    volumes = _volumes(spec)
    places = _in_order(tasks, roles or ())
    made = _jobset(document, job, places, tasks, (plugins, policies, volumes))
    field = Field(made, findings, "Volcano Job run as a JobSet", (), made.value)
    top.note(
        f"{total} Pods are one job, run as a JobSet beside Volcano; it fails when one of them "
        "fails, unless a policy says otherwise"
    )
    shape = Shape(tuple(_pod_sets(places, tasks)))
    files = host_files(plugins, tasks, job)
    return AsJobSet(made, field, shape, files, _ORIGIN, spec.at("priorityClassName").text())


def _name_of(top: Field) -> str:
    metadata = top.at("metadata")
    prefix = (metadata.at("generateName").text() or "").rstrip("-.")
    return metadata.at("name").text() or prefix or "job"


def _ignore(part: Field, known: frozenset[str], ignored: Mapping[str, str]) -> None:
    for name, field in part.items():
        if name not in known:
            field.ignore("is no field that is read here")
        elif name in ignored and field.is_given:
            field.ignore(ignored[name])


def _tasks(spec: Field, claims: Claims) -> list[Task]:
    found: dict[str, Task] = {}
    for number, field in enumerate(spec.at("tasks").each()):
        _ignore(field, _TASK, _IGNORED_OF_TASKS)
        name = field.at("name").text() or f"default{number}"
        if name in found:
            field.at("name").refuse("is the name of another task")
        replicas = or_default(field.at("replicas").whole(), 0)
        least = or_default(field.at("minAvailable").whole(), replicas)
        if least > replicas:
            field.at("minAvailable").refuse(f"is more than the {replicas} Pods of the task")
        elif least < replicas:
            field.at("minAvailable").ignore(f"all {replicas} Pods of the task start together")
        template = field.at("template")
        needs = read_template(template, claims)
        if needs.restart_policy in (None, "Always"):
            template.at("spec", "restartPolicy").note("each Pod runs once: restartPolicy is Never")
        elif needs.restart_policy == _ON_FAILURE:
            template.at("spec", "restartPolicy").note(
                f"containers are run again in their Pods, at most {_CONTAINER_RETRIES} times in a "
                "task"
            )
        for name_of_pod in ("hostname", "subdomain"):
            if template.at("spec", name_of_pod).is_given:
                template.at("spec", name_of_pod).ignore("the Pods have the names of the JobSet")
        if replicas:
            found.setdefault(name, Task(name, replicas, field, template, needs))
        else:
            field.at("replicas").ignore("a task without Pods is left out")
    if not found:
        spec.at("tasks").refuse("is required: at least one task with replicas")
    if len(found) > KINDS_MAX:
        spec.at("tasks").refuse(
            f"has {len(found)} tasks, and Kueue takes at most {KINDS_MAX}; give equal tasks more "
            "replicas, or submit them apart"
        )
    return list(found.values())[:KINDS_MAX]


def _check_gang(spec: Field, total: int) -> None:
    """Say what minAvailable and minSuccess mean: all Pods start together, and all succeed."""
    least = or_default(spec.at("minAvailable").whole(), 0) or total
    if least > total:
        spec.at("minAvailable").refuse(f"is more than the {total} Pods of all tasks")
    elif least < total:
        spec.at("minAvailable").ignore(f"all {total} Pods start together")
    elif spec.at("minAvailable").is_given:
        spec.at("minAvailable").note(f"all {total} Pods start together, or none")
    if or_default(spec.at("minSuccess").whole(1), total) < total:
        spec.at("minSuccess").ignore("all Pods are to succeed, unless a policy says otherwise")


def _with_roles(tasks: list[Task], spec: Field, roles: tuple[str, str] | None) -> list[Task]:
    """Return the tasks with what they wait for, and those of torch so that ranks are labels.

    A rank is the number of a Job: the master is the first one, and each worker is one.
    """
    if roles is None:
        names = {task.name for task in tasks}
        return [replace(task, after=_dependency(task, names)) for task in tasks]
    for task in tasks:
        if task.field.at("dependsOn").is_given:
            task.field.at("dependsOn").ignore("all tasks start at once; torch waits by itself")
        if task.name == roles[0] and task.replicas > 1:
            task.field.at("replicas").refuse("must be 1: plugin pytorch has one master")
    if roles[0] not in {task.name for task in tasks}:
        spec.at("plugins", "pytorch").refuse(
            f"there is no task {roles[0][:63]}; name the master's with --master=TASK"
        )
    return [replace(task, is_split=task.name == roles[1]) for task in tasks]


def _dependency(task: Task, names: set[str]) -> str | None:
    """Return the task that `task` waits for; None where it waits for none."""
    field = task.field.at("dependsOn", "name")
    wanted = [one.text() for one in field.each()]
    if not wanted:
        return None
    if len(wanted) > 1:
        field.ignore("a task waits for one other at most; all start at once")
        return None
    if wanted[0] == task.name or wanted[0] not in names:
        field.refuse("must be the name of another task with Pods")
        return None
    field.note(f"the task starts when all Pods of {wanted[0]} are ready")
    return wanted[0]


def _in_order(tasks: Sequence[Task], roles: Sequence[str]) -> dict[str, int]:
    """Return the place of each task in the JobSet: behind the one that it waits for.

    The master of torch comes first, and then its workers: `roles`.
    """
    found: dict[str, int] = {}
    left = sorted(tasks, key=lambda one: roles.index(one.name) if one.name in roles else len(roles))
    while left:
        ready = next((one for one in left if one.after is None or one.after in found), None)
        if ready is None:
            left[0].field.at("dependsOn").refuse("waits for a task that waits for this one")
            ready = left[0]
        left.remove(ready)
        found[ready.name] = len(found)
    return found


def _pod_sets(places: Mapping[str, int], tasks: Sequence[Task]) -> list[PodSet]:
    """Return the Pods of the tasks; their ranks follow the order of the file."""
    found = []
    rank = 0
    for task in tasks:
        path = template_path(places[task.name])
        copies = task.replicas if task.is_split else 1
        count = task.replicas
        found.append(
            PodSet(task.name, task.needs, count, count, path, copies=copies, ranks_from=rank)
        )
        rank += count
    return found


def _volumes(spec: Field) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the volumes of all Pods, each with its mount."""
    found = []
    for number, volume in enumerate(spec.at("volumes").each()):
        claim = volume.at("volumeClaimName").text()
        if volume.at("volumeClaim").is_given or not claim:
            volume.refuse(
                "claims are not made for jobs; create one with kubectl, and write its name as "
                "volumeClaimName, without volumeClaim"
            )
            continue
        path = volume.at("mountPath").text()
        if not path:
            volume.at("mountPath").refuse("is required: where the containers see the volume")
        name = f"volcano-volume-{number}"
        source = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        found.append((source, {"name": name, "mountPath": path}))
    return found


def _jobset(
    document: Document,
    job: str,
    places: Mapping[str, int],
    tasks: Sequence[Task],
    parts: tuple[Plugins, Policies, list[tuple[dict[str, Any], dict[str, Any]]]],
) -> Document:
    """Return the JobSet as a document whose lines are those of the templates."""
    plugins, policies, volumes = parts
    lines: dict[Path, int] = {(): document.line_of(())}
    jobs = []
    for task in sorted(tasks, key=lambda one: places[one.name]):
        length = len(task.template.path)
        for own, line in document.lines.items():
            if own[:length] == task.template.path:
                lines[(*template_path(places[task.name]), *own[length:])] = line
        template = _template(task, tasks, job, volumes)
        if isinstance(pods := template.get("spec"), dict):
            add_plugins(pods, task, plugins, tasks, job)
        jobs.append(_replicated(task, template, policies.pod_retries.get(task.name, 0)))
    given = document.value.get("metadata")
    marks = {
        name: given[name]
        for name in ("labels", "annotations")
        if isinstance(given, dict) and given.get(name)
    }
    spec: dict[str, Any] = {"network": {"enableDNSHostnames": True}, "replicatedJobs": jobs}
    if policies.success is not None:
        spec["successPolicy"] = policies.success
    if policies.failure is not None:
        spec["failurePolicy"] = policies.failure
    value = {
        "apiVersion": JOBSET_API,
        "kind": "JobSet",
        "metadata": {"name": job, **marks},
        "spec": spec,
    }
    return Document(document.number, value, lines)


def _replicated(task: Task, template: dict[str, Any], retries: int) -> dict[str, Any]:
    """Return the Job of a task. Containers that are run again count as failed Pods there."""
    count = 1 if task.is_split else task.replicas
    if task.needs.restart_policy == _ON_FAILURE:
        retries = max(retries, _CONTAINER_RETRIES)
    spec = {
        "backoffLimit": retries,
        "parallelism": count,
        "completions": count,
        "completionMode": "Indexed",
        "template": template,
    }
    found: dict[str, Any] = {"name": task.name, "template": {"spec": spec}}
    if task.is_split:
        found["replicas"] = task.replicas
    if task.after is not None:
        found["dependsOn"] = [{"name": task.after, "status": "Ready"}]
    return found


def _template(
    task: Task,
    tasks: Sequence[Task],
    job: str,
    volumes: list[tuple[dict[str, Any], dict[str, Any]]],
) -> dict[str, Any]:
    """Return the template of the Pods, with the labels, volumes and names of the job."""
    found = copy.deepcopy(task.template.value)
    template: dict[str, Any] = found if isinstance(found, dict) else {}
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return template
    if task.needs.restart_policy != _ON_FAILURE:
        spec["restartPolicy"] = "Never"
    for name in ("hostname", "subdomain"):
        spec.pop(name, None)
    metadata = template.setdefault("metadata", {})
    if isinstance(metadata, dict) and isinstance(metadata.setdefault("labels", {}), dict):
        # With these, Services of the file select the Pods of a task.
        label = job[:_LABEL_MAX].rstrip("-.")
        metadata["labels"] |= {"volcano.sh/job-name": label, "volcano.sh/task-spec": task.name}
    if volumes and isinstance(known := spec.get("volumes") or [], list):
        spec["volumes"] = [*known, *(source for source, _ in volumes)]
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind)
        for container in containers if isinstance(containers, list) else ():
            if not isinstance(container, dict):
                continue
            _rename_hosts(container, tasks, job)
            mounts = container.get("volumeMounts") or []
            if volumes and kind == "containers" and isinstance(mounts, list):
                container["volumeMounts"] = [*mounts, *(mount for _, mount in volumes)]
    return template


def _rename_hosts(container: dict[str, Any], tasks: Sequence[Task], job: str) -> None:
    """Write the names that Pods have in the JobSet where the container names Volcano's."""
    known = {task.name: task for task in tasks}
    listed = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    host = re.compile(rf"(?<![\w.-])({re.escape(job)})-({listed})-([0-9]{{1,9}})(?![\w-])")

    def renamed(text: Any) -> Any:
        if not isinstance(text, str) or not known:
            return text
        return host.sub(
            lambda found: f"{found[1]}-{found[2]}-{known[found[2]].ending(int(found[3]))}", text
        )

    for member in ("command", "args"):
        if isinstance(words := container.get(member), list):
            container[member] = [renamed(one) for one in words]
    for variable in env if isinstance(env := container.get("env"), list) else ():
        if isinstance(variable, dict) and "value" in variable:
            variable["value"] = renamed(variable["value"])
