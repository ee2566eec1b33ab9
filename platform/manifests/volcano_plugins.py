"""The plugins of a Volcano Job: the variables and files that its Pods find.

Names and values are those of Volcano's own plugins
(https://github.com/volcano-sh/volcano/tree/master/pkg/controllers/job/plugins).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manifests.fields import Field
from manifests.volcano_tasks import Task

#: Stands for the ConfigMap with the names of hosts. No object of a file can have this name.
HOST_FILES = "volcano/hosts"
HOST_FOLDER = "/etc/volcano"
_INDEX = "VC_TASK_INDEX"
_ENV, _SVC, _SSH = "env", "svc", "ssh"
_MPI, _PYTORCH, _TENSORFLOW = "mpi", "pytorch", "tensorflow"
_KNOWN = frozenset({_ENV, _SVC, _SSH, _MPI, _PYTORCH, _TENSORFLOW})
#: The roles of tensorflow, and the file with the hosts of all of them.
_ROLES = ("ps", "worker", "chief", "evaluator")
_TF_CLUSTER = "VC_TF_CLUSTER"
_NO_KEYS = (
    "no SSH keys are made; mount a Secret with a key pair and run sshd as a user that is not root, "
    "or write an MPIJob"
)
#: Labels and annotations of the Pods of a JobSet.
_OF_POD = "batch.kubernetes.io/job-completion-index"
_OF_JOB = "jobset.sigs.k8s.io/job-index"
_OF_ALL_JOBS = "jobset.sigs.k8s.io/job-global-index"

#: By plugin: its arguments by name.
Plugins = Mapping[str, Mapping[str, str]]
Variable = dict[str, Any]


def read_plugins(field: Field) -> Plugins:
    """Return the plugins with their arguments, those that others bring in as well."""
    found: dict[str, dict[str, str]] = {}
    for name, plugin in field.items():
        if name not in _KNOWN:
            advice = "write a RayJob or a RayCluster" if name == "ray" else "leave it out"
            plugin.refuse(f"is no plugin of those that run here ({_listed()}); {advice}")
            continue
        words = [word for one in plugin.each() if (word := one.text()) is not None]
        found[name] = _arguments(words)
        if name in (_SSH, _MPI):
            plugin.ignore(_NO_KEYS)
        elif name == _PYTORCH and found[name].get("wait-master-enabled") == "true":
            plugin.ignore("no container waits for the master; torch does so itself")
    if found.keys() & {_MPI, _PYTORCH, _TENSORFLOW}:
        found.setdefault(_SVC, {})
    return found


def _listed() -> str:
    return ", ".join(sorted(_KNOWN))


def _arguments(words: Sequence[str]) -> dict[str, str]:
    """Return flags by name, as Go reads them: --name=value, or --name value."""
    found: dict[str, str] = {}
    waiting = ""
    for word in words:
        if not word.startswith("-"):
            if waiting:
                found[waiting] = word
            waiting = ""
            continue
        name, equals, value = word.lstrip("-").partition("=")
        found[name] = value if equals else "true"
        waiting = "" if equals else name
    return found


def torch_roles(plugins: Plugins) -> tuple[str, str] | None:
    """Return the names of the tasks with torch's master and its workers; None without torch."""
    if _PYTORCH not in plugins:
        return None
    given = plugins[_PYTORCH]
    return given.get("master", "master"), given.get("worker", "worker")


def host_files(plugins: Plugins, tasks: Sequence[Task], job: str) -> Mapping[str, str]:
    """Return by name the files with the hosts of each task; none without plugin svc."""
    found: dict[str, str] = {}
    for task in tasks if _SVC in plugins else ():
        hosts = task.hosts(job)
        found[f"{task.variable}.host"] = "\n".join(hosts)
        found[_hosts_of(task)] = ",".join(hosts)
        found[f"VC_{task.variable.upper()}_NUM"] = str(len(hosts))
    if _TENSORFLOW in plugins:
        found[_TF_CLUSTER] = _tf_cluster(plugins[_TENSORFLOW], tasks, job)
    return found


def _hosts_of(task: Task) -> str:
    return f"VC_{task.variable.upper()}_HOSTS"


def add_plugins(
    spec: dict[str, Any], task: Task, plugins: Plugins, tasks: Sequence[Task], job: str
) -> None:
    """Add to the Pods of `task` with this `spec` what the plugins of the job bring."""
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind)
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict):
                is_first = kind == "initContainers"
                variables = list(_variables(task, plugins, tasks, job, is_first=is_first))
                _set_variables(container, variables)
                if _SVC in plugins:
                    _mount(container)
    volumes = spec.get("volumes") or []
    if _SVC in plugins and isinstance(volumes, list):
        volume = {"name": "volcano-hosts", "configMap": {"name": HOST_FILES}}
        spec["volumes"] = [*volumes, volume]


def _set_variables(container: dict[str, Any], variables: list[Variable]) -> None:
    """Put `variables` first, so that those of the file may name them; theirs go."""
    given = container.get("env") or []
    if isinstance(given, list) and variables:
        own = {one["name"] for one in variables}
        rest = [one for one in given if not (isinstance(one, dict) and one.get("name") in own)]
        container["env"] = [*variables, *rest]


def _mount(container: dict[str, Any]) -> None:
    mounts = container.get("volumeMounts") or []
    if isinstance(mounts, list) and not any(
        isinstance(one, dict) and one.get("mountPath") == HOST_FOLDER for one in mounts
    ):
        mount = {"name": "volcano-hosts", "mountPath": HOST_FOLDER}
        container["volumeMounts"] = [*mounts, mount]


def _variables(
    task: Task, plugins: Plugins, tasks: Sequence[Task], job: str, *, is_first: bool
) -> Iterator[Variable]:
    if plugins.keys() & {_ENV, _TENSORFLOW}:
        index = f"metadata.labels['{_OF_JOB}']"
        if not task.is_split:
            index = f"metadata.annotations['{_OF_POD}']"
        for name in ("VK_TASK_INDEX", _INDEX):
            yield _from_field(name, index)
    if _SVC in plugins and plugins[_SVC].get("inject-hosts-env") != "false":
        for other in tasks:
            for name in (_hosts_of(other), f"VC_{other.variable.upper()}_NUM"):
                yield _from_file(name, name)
    by_name = {one.name: one for one in tasks}
    if _MPI in plugins:
        given = plugins[_MPI]
        workers = by_name.get(given.get("worker", "worker"))
        if task.name == given.get("master", "master") and workers is not None:
            yield _from_file("MPI_HOST", _hosts_of(workers))
    if _PYTORCH in plugins and not is_first:
        yield from _torch(task, plugins, by_name, job)
    if _TENSORFLOW in plugins and not is_first and sum(one.replicas for one in tasks) > 1:
        kind = _roles(plugins[_TENSORFLOW]).get(task.name, task.name)
        # The kubelet puts the hosts and the index of the Pod into it.
        text = f'{{"cluster":$({_TF_CLUSTER}),"task":{{"type":"{kind}","index":$({_INDEX})}}}}'
        yield _from_file(_TF_CLUSTER, _TF_CLUSTER)
        yield {"name": "TF_CONFIG", "value": text}


def _from_file(name: str, key: str) -> Variable:
    return {"name": name, "valueFrom": {"configMapKeyRef": {"name": HOST_FILES, "key": key}}}


def _from_field(name: str, path: str) -> Variable:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _torch(
    task: Task, plugins: Plugins, by_name: Mapping[str, Task], job: str
) -> Iterator[Variable]:
    """Yield what torch.distributed reads. The master is the first Job of the JobSet."""
    roles = torch_roles(plugins)
    master = by_name.get(roles[0]) if roles else None
    if roles is None or master is None:
        return
    known = [by_name[name] for name in roles if name in by_name]
    yield {"name": "MASTER_ADDR", "value": master.hosts(job)[0]}
    yield {"name": "MASTER_PORT", "value": plugins[_PYTORCH].get("port", "23456")}
    yield {"name": "WORLD_SIZE", "value": str(sum(one.replicas for one in known))}
    if task.name == roles[0]:
        yield {"name": "RANK", "value": "0"}
    elif task.name == roles[1]:
        yield _from_field("RANK", f"metadata.labels['{_OF_ALL_JOBS}']")


def _roles(given: Mapping[str, str]) -> dict[str, str]:
    """Return the roles of tensorflow by the names of their tasks."""
    return {given.get(role, role): role for role in _ROLES}


def _tf_cluster(given: Mapping[str, str], tasks: Sequence[Task], job: str) -> str:
    """Return the hosts of each role with their port, as TF_CONFIG has them."""
    port = given.get("port", "2222")
    roles = _roles(given)
    cluster = {
        roles[task.name]: [f"{host}:{port}" for host in task.hosts(job)]
        for task in tasks
        if task.name in roles
    }
    return json.dumps(cluster, separators=(",", ":"))
