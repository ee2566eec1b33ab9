"""The Pods of every kind of workload: one per rank, all made here.

From the user's input, a Pod contains only the image, environment variables (with checked names),
and numbers: GPUs, time limit, grace. The script is in a ConfigMap. Everything passes the Pod
Security Standard `restricted`.

Paths in the container: the launcher (see launcher.sh) reads the script and the notice below
/run/tidegate. The script starts in a directory of its own there, which is deleted with the Pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.manifests import scripts
from connectors.kubernetes.nodes.features import REQUIRED, feature_terms, without_nodes
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import JOB
from connectors.kubernetes.options.images import plain_image
from connectors.kubernetes.options.options import KubernetesOptions, image_refusal, no_image
from connectors.kubernetes.options.pools import HOST_LABEL, WHOLE_MGPU, KubernetesPool, not_on_gpus
from connectors.protocol import Workload
from primitives.units import DeviceKind

POD_DIRECTORY = "/run/tidegate/pod"
NOTICE_PATH = f"{POD_DIRECTORY}/notice"
LIMIT_PATH = f"{POD_DIRECTORY}/limit"
WORK_DIRECTORY = "/run/tidegate/work"
MESSAGE_PATH = "/dev/termination-log"
#: The variable with a Pod's index, from which the launcher derives the rank.
INDEX_VARIABLE = "TIDEGATE_POD_INDEX"

#: Longer than any outage that may hide how a workload ended.
TTL_S = 7 * 86_400
#: Seconds between our own time limit and the cluster's, which includes pulling images.
BACKSTOP_S = 3_600

#: MiB on the node's disk for a rank outside of its working directory: for other files in its image,
#: and for its output.
LAYER_MIB = 10 << 10

_CLAIM = "gpus"
_NODE = "TIDEGATE_NODE"
_DISK = "ephemeral-storage"
_TASK_GROUP = "ranks"
_SCRIPT_MODE = 0o555
_PRIVATE_MODE = 0o444


def pool_of(workload: Workload, options: KubernetesOptions) -> KubernetesPool:
    """Return the workload's pool. Raises WorkloadRejected if the cluster lacks it."""
    pool = options.pools.get(workload.pool)
    if pool is None:
        raise WorkloadRejected(f"this cluster has no pool {workload.pool[:80]!r}")
    return pool


def units(mgpu: int, pool: KubernetesPool) -> int:
    """Return `mgpu` milli-GPU in units of the pool's GPU resource.

    Raises WorkloadRejected unless that is a whole number.
    """
    count, rest = divmod(mgpu, pool.mgpu_per_unit)
    if rest:
        raise WorkloadRejected(
            f"pool {pool.name} gives out multiples of {pool.device.text(pool.mgpu_per_unit)} on "
            f"this cluster, and a rank asks for {pool.device.text(mgpu)}"
        )
    return count


def image_of(workload: Workload, options: KubernetesOptions) -> str:
    """Return the image of the workload.

    Raises WorkloadRejected where there is none, or the cluster's policy refuses it.
    """
    if workload.image is None:
        image = pool_of(workload, options).image
        if image is None:
            raise WorkloadRejected(no_image(workload.pool))
        return image
    if refusal := image_refusal(workload.image, options):
        raise WorkloadRejected(refusal)
    return plain_image(workload.image)


def metadata(
    workload: Workload, cluster_id: str, *, name: str | None = None, **more: Mapping[str, str]
) -> dict[str, Any]:
    """Return the metadata of one of the workload's objects, with `more` labels and annotations."""
    return {
        "name": name or naming.workload_name(workload.key),
        "namespace": naming.team_namespace(workload.team),
        "labels": {**naming.labels(cluster_id, workload.team), **more.get("labels", {})},
        "annotations": {
            naming.KEY: workload.key,
            naming.PATH: workload.team,
            **more.get("annotations", {}),
        },
    }


def kueue_labels(workload: Workload) -> dict[str, str]:
    """Return the labels with which Kueue takes a workload's object into its team's queue."""
    is_borrowed = workload.is_borrowed
    return {
        naming.QUEUE_LABEL: naming.LOCAL_QUEUE,
        naming.PRIORITY_LABEL: naming.BORROWED_CLASS if is_borrowed else naming.GUARANTEED_CLASS,
    }


@dataclass(frozen=True, slots=True)
class Placing:
    """The instructions of every Pod to its scheduler."""

    scheduler_name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def queue_name(workload: Workload, options: KubernetesOptions) -> str:
    """Return the workload's queue on a cluster without Kueue."""
    if options.queue is not None:
        return options.queue
    name = naming.team_namespace(workload.team)
    return f"root.{name}" if options.scheduler == "yunikorn" else name


def placing_of(workload: Workload, options: KubernetesOptions) -> Placing:
    """Return the instructions of the Pods of `workload` to the cluster's scheduler.

    With Kueue, Kubernetes' own scheduler is used. Volcano finds the PodGroup by an annotation, and
    may preempt only Pods that allow it. KAI needs the queue on the Pod too. YuniKorn has no object
    for a gang: its Pods describe it, so that YuniKorn can reserve space for Pods that do not exist
    yet.
    """
    name = naming.workload_name(workload.key)
    queue = queue_name(workload, options)
    match options.scheduler:
        case "volcano":
            return Placing(
                "volcano",
                {"volcano.sh/preemptable": "true" if workload.is_borrowed else "false"},
                {"scheduling.k8s.io/group-name": name, "scheduling.volcano.sh/queue-name": queue},
            )
        case "kai":
            return Placing(
                "kai-scheduler", {"kai.scheduler/queue": queue}, {"pod-group-name": name}
            )
        case "yunikorn":
            return Placing(
                "yunikorn",
                {"yunikorn.apache.org/app-id": name, "yunikorn.apache.org/queue": queue},
                _task_group(workload, options),
            )
        case _:
            return Placing(annotations=_topology_annotations(workload, pool_of(workload, options)))


def _task_group(workload: Workload, options: KubernetesOptions) -> dict[str, str]:
    pool = pool_of(workload, options)
    mgpu = uniform_mgpu(workload, "gang of YuniKorn")
    group: dict[str, Any] = {
        "name": _TASK_GROUP,
        "minMember": len(workload.slots),
        "minResource": requests_of(workload, mgpu, pool),
        **_placement(workload, options, pool),
    }
    group.pop("runtimeClassName", None)
    return {
        "yunikorn.apache.org/task-group-name": _TASK_GROUP,
        "yunikorn.apache.org/task-groups": json.dumps([group], sort_keys=True),
        "yunikorn.apache.org/schedulingPolicyParameters": "gangSchedulingStyle=Hard",
    }


def requests_of(workload: Workload, mgpu: int, pool: KubernetesPool) -> dict[str, str]:
    """Return the resources that one rank asks for, as Kubernetes counts them."""
    return dict(_resources(workload, mgpu, pool).get("requests", {}))


def topology_of(workload: Workload, pool: KubernetesPool) -> tuple[str | None, str | None]:
    """Return the labels that all ranks must share, and should share; at most one of the two.

    The requirements of the job and of its pool both hold, so the narrower one is returned. Required
    levels take precedence over preferred ones, and the job's preference over its pool's. Raises
    WorkloadRejected for a required level that the pool has no label for.
    """
    labels = {"node": HOST_LABEL, **pool.topology_domains}
    required, preferred = workload.required_topology, workload.preferred_topology
    if len(workload.slots) == 1 or (required is None and preferred is None):
        return pool.required_topology, pool.preferred_topology
    if required is None:
        wished = labels.get(preferred or "")
        known = wished if wished in pool.topology_levels else None
        if pool.required_topology is not None:
            return pool.required_topology, None
        return None, known or pool.preferred_topology
    label = labels.get(required)
    if label is None or label not in pool.topology_levels:
        raise WorkloadRejected(
            f"pool {pool.name} has no label that says in which {required} a node of this cluster "
            "is; have its administrators add it to option topology_domains"
        )
    both = [label] if pool.required_topology is None else [label, pool.required_topology]
    return max(both, key=pool.topology_levels.index), None


def _topology_annotations(workload: Workload, pool: KubernetesPool) -> dict[str, str]:
    """Return the annotations with which the Pods of a gang ask Kueue for a common domain."""
    required, preferred = topology_of(workload, pool)
    if required is not None:
        return {"kueue.x-k8s.io/podset-required-topology": required}
    if preferred is not None:
        return {"kueue.x-k8s.io/podset-preferred-topology": preferred}
    return {}


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks of one size whose Pods have one template.

    `mgpu` is the size of each, and `first` the index of the first rank. `index_field` is the field
    of the downward API with a Pod's index among them; None for a single Pod. `master` is the name
    under which rank 0 is found.
    """

    mgpu: int
    master: str
    index_field: str | None = None
    first: int = 0


def pod_template(
    workload: Workload,
    options: KubernetesOptions,
    cluster_id: str,
    ranks: Ranks,
    *,
    container_name: str = naming.CONTAINER,
    command: Sequence[str] | None = None,
    ports: Sequence[Mapping[str, Any]] = (),
    role: str = naming.ROLE_RANK,
    subdomain: str | None = None,
) -> dict[str, Any]:
    """Return the template of the Pods of `ranks`.

    Their container runs `command`. None means the launcher, and an empty command the one of the
    kind's operator.
    """
    annotations = {naming.KEY: workload.key}
    if ranks.first:
        annotations[naming.FIRST_RANK] = str(ranks.first)
    placing = placing_of(workload, options)
    if command is None:
        command = launcher_command(workload, ranks.first)
    container = {
        "name": container_name,
        **_container(workload, options, ranks),
        **({"command": list(command)} if command else {}),
        **({"ports": [dict(port) for port in ports]} if ports else {}),
    }
    spec = _pod_spec(workload, options, container, ranks.mgpu)
    pool = pool_of(workload, options)
    if placing.scheduler_name is not None:
        spec["schedulerName"] = placing.scheduler_name
    if subdomain is not None:
        spec["subdomain"] = subdomain
    if pool.device_class is not None and ranks.mgpu:
        name = claim_template_name(workload, ranks.mgpu)
        spec["resourceClaims"] = [{"name": _CLAIM, "resourceClaimTemplateName": name}]
    return {
        "metadata": {
            "labels": {
                **naming.labels(cluster_id, workload.team),
                naming.ROLE: role,
                **placing.labels,
            },
            "annotations": {**annotations, **placing.annotations},
        },
        "spec": spec,
    }


def claim_template_name(workload: Workload, mgpu: int) -> str:
    """Return the name of the ResourceClaimTemplate for Pods with `mgpu` milli-GPU."""
    return f"{naming.workload_name(workload.key)}-{mgpu}"


def launcher_command(workload: Workload, first_rank: int = 0) -> list[str]:
    """Return the command of a container that runs the script of the workload."""
    return [escaped(word) for word in launcher_words(workload, first_rank)]


def launcher_words(workload: Workload, first_rank: int = 0) -> list[str]:
    """Return the launcher's command line as the kernel should get it."""
    return [
        "/bin/sh",
        "-c",
        _launcher(),
        "tidegate",
        workload.notice_signal,
        "shell" if workload.signals_shell_only else "all",
        str(workload.grace_s),
        str(workload.time_limit_s or 0),
        str(100 * workload.wanted_ahead_s),
        str(first_rank),
        scripts.PATH,
        NOTICE_PATH,
        LIMIT_PATH,
        MESSAGE_PATH,
        *workload.arguments,
    ]


def escaped(text: str) -> str:
    """Return `text` escaped for a command or variable.

    Kubernetes replaces $(NAME) and reads $$ as $.
    """
    return text.replace("$", "$$")


def backstop_s(workload: Workload) -> int | None:
    """Return the seconds after which the cluster itself ends the workload; None for never."""
    if workload.time_limit_s is None:
        return None
    return workload.time_limit_s + workload.grace_s + BACKSTOP_S


def uniform_mgpu(workload: Workload, kind: str) -> int:
    """Return the size of every rank. Raises WorkloadRejected if they differ."""
    sizes = {slot.mgpu for slot in workload.slots}
    if len(sizes) != 1:
        raise WorkloadRejected(
            f"all ranks of a {kind} have the same GPUs, and here they differ; ask for as many on "
            "each node"
        )
    return sizes.pop()


def _container(workload: Workload, options: KubernetesOptions, ranks: Ranks) -> dict[str, Any]:
    return {
        "image": image_of(workload, options),
        "env": _variables(workload, options, ranks),
        "workingDir": WORK_DIRECTORY,
        "resources": _with_storage(
            _resources(workload, ranks.mgpu, pool_of(workload, options)), options
        ),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": MESSAGE_PATH,
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "script", "mountPath": scripts.DIRECTORY, "readOnly": True},
            {"name": "pod", "mountPath": POD_DIRECTORY, "readOnly": True},
            {"name": "work", "mountPath": WORK_DIRECTORY},
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - not of this machine
            *_private_mounts(workload, options),
        ],
    }


def _pod_spec(
    workload: Workload, options: KubernetesOptions, container: Mapping[str, Any], mgpu: int
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": options.run_as_user,
            "runAsGroup": options.run_as_user,
            "fsGroup": options.run_as_user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # With 0, the API server would delete the Pod while its processes may still run.
        "terminationGracePeriodSeconds": max(1, workload.grace_s),
        "volumes": _volumes(workload, options, mgpu),
        **_placement(workload, options, pool_of(workload, options)),
    }
    if options.service_account is not None:
        spec["serviceAccountName"] = options.service_account
    if options.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    return spec


def _variables(
    workload: Workload, options: KubernetesOptions, ranks: Ranks
) -> list[dict[str, Any]]:
    """Return the environment of a rank: the workload's own variables, and those of its place."""
    count = str(len(workload.slots))
    fixed = {
        "HOME": WORK_DIRECTORY,
        **workload.environment,
        "LOCAL_RANK": "0",
        "MASTER_ADDR": ranks.master,
        "MASTER_PORT": str(naming.master_port(workload.key)),
        "NNODES": count,
        **_devices(ranks.mgpu, pool_of(workload, options)),
        "WORLD_SIZE": count,
    }
    index: dict[str, Any] = {"name": INDEX_VARIABLE, "value": "0"}
    if ranks.index_field is not None:
        index = _field_variable(INDEX_VARIABLE, ranks.index_field)
    return [
        *({"name": name, "value": escaped(value)} for name, value in fixed.items()),
        _field_variable(_NODE, "spec.nodeName"),
        index,
        *_batch_variables(workload, options, ranks),
        *(
            {"name": scripts.PRIVATE_VARIABLE, "value": scripts.PRIVATE_DIRECTORY}
            for _ in _private_mounts(workload, options)
        ),
    ]


def has_secret(workload: Workload, options: KubernetesOptions) -> bool:
    """Return whether the workload's private variables are handed over, in a Secret."""
    return bool(workload.private_environment) and options.resource is JOB


def _private_mounts(workload: Workload, options: KubernetesOptions) -> list[dict[str, Any]]:
    if not has_secret(workload, options):
        return []
    return [{"name": "private", "mountPath": scripts.PRIVATE_DIRECTORY, "readOnly": True}]


def _batch_variables(
    workload: Workload, options: KubernetesOptions, ranks: Ranks
) -> list[dict[str, Any]]:
    # Kubernetes puts in the name of the node, which nobody knows before the start.
    node = f"$({_NODE})"
    pool = pool_of(workload, options)
    gpus = 0 if pool.device is DeviceKind.CPU else units(ranks.mgpu, pool)
    found = scripts.batch_variables(workload, node=node, gpus=gpus, folder=WORK_DIRECTORY)
    found.pop(_NODE, None)
    return [
        {"name": name, "value": escaped(value).replace(escaped(node), node)}
        for name, value in found.items()
    ]


def _devices(mgpu: int, pool: KubernetesPool) -> dict[str, str]:
    held = str(units(mgpu, pool))
    if pool.device is DeviceKind.CPU:
        return {"TIDEGATE_CPUS_PER_NODE": held, "TIDEGATE_GPUS_PER_NODE": "0"}
    return {"TIDEGATE_GPUS_PER_NODE": held}


def _field_variable(name: str, field: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}


def _resources(workload: Workload, mgpu: int, pool: KubernetesPool) -> dict[str, Any]:
    """Return the resources of one rank.

    GPUs and memory are limits too, as are the cores of a CPU pool. Cores that come with GPUs are
    only a request.
    """
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if workload.cpus_per_node is not None and mgpu:
        requests["cpu"] = str(workload.cpus_per_node)
    elif pool.cpu_per_gpu is not None:
        requests["cpu"] = f"{pool.cpu_per_gpu * (mgpu or WHOLE_MGPU)}m"
    memory_kib = _memory_kib(workload, mgpu, pool)
    if memory_kib is not None:
        requests["memory"] = limits["memory"] = f"{memory_kib}Ki"
    count = units(mgpu, pool)
    resources_: dict[str, Any] = {"requests": requests, "limits": limits}
    if count and pool.device_class is not None:
        resources_["claims"] = [{"name": _CLAIM}]
    elif count:
        requests[pool.resource] = limits[pool.resource] = str(count)
    return {name: value for name, value in resources_.items() if value}


def _memory_kib(workload: Workload, mgpu: int, pool: KubernetesPool) -> int | None:
    """Return the memory limit of one rank in KiB; None for any amount."""
    if workload.memory_mib_per_node is not None and mgpu:
        return workload.memory_mib_per_node * 1024
    if pool.memory_mib_per_gpu is None:
        return None
    # A rank without GPUs has the cores and the memory of one.
    return pool.memory_mib_per_gpu * 1024 * (mgpu or WHOLE_MGPU) // WHOLE_MGPU


def _with_storage(resources_: Mapping[str, Any], options: KubernetesOptions) -> dict[str, Any]:
    """Return `resources_` with a limit on what a rank writes to the disk of its node.

    The request is 0, so that no node needs to report its disk size. Without it, Kubernetes would
    use the limit as the request.
    """
    limit_mib = options.work_mib + LAYER_MIB
    return {
        **resources_,
        "requests": {**resources_.get("requests", {}), _DISK: "0"},
        "limits": {**resources_.get("limits", {}), _DISK: f"{limit_mib}Mi"},
    }


def _placement(
    workload: Workload, options: KubernetesOptions, pool: KubernetesPool
) -> dict[str, Any]:
    placement: dict[str, Any] = {}
    if pool.node_selector:
        placement["nodeSelector"] = dict(pool.node_selector)
    affinity: dict[str, Any] = {}
    features = feature_terms(workload.features, options.features)
    is_of_cores = pool.device is DeviceKind.CPU
    terms = not_on_gpus(pool, options.pools) if is_of_cores else [[]]
    every = [[*term, *features] for term in terms if term or features]
    selected = without_nodes([{"matchExpressions": one} for one in every], workload.closed_nodes)
    if selected:
        affinity[REQUIRED] = {"nodeSelectorTerms": selected}
    if is_of_cores and (nodes := _planned_nodes(workload)):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {
                "weight": 100,
                "preference": {
                    "matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": nodes}]
                },
            }
        ]
    if affinity:
        placement["affinity"] = {"nodeAffinity": affinity}
    if pool.tolerations:
        placement["tolerations"] = [dict(toleration) for toleration in pool.tolerations]
    if pool.runtime_class is not None:
        placement["runtimeClassName"] = pool.runtime_class
    return placement


def _planned_nodes(workload: Workload) -> list[str]:
    """Return the nodes that the arbiter planned with, as a preference.

    Otherwise the cluster's scheduler would spread small jobs over all nodes. Then no whole node
    would be left for a large job that starts at the same time.
    """
    return sorted({slot.node for slot in workload.slots if slot.node})


def _volumes(workload: Workload, options: KubernetesOptions, mgpu: int) -> list[dict[str, Any]]:
    shared_kib = options.shared_memory_mib * 1024
    memory_kib = _memory_kib(workload, mgpu, pool_of(workload, options))
    if memory_kib is not None:
        shared_kib = min(shared_kib, memory_kib)
    marks = {"notice": naming.NOTICE, "limit": naming.LIMIT}
    return [
        {
            "name": "script",
            "configMap": {
                "name": naming.workload_name(workload.key),
                "defaultMode": _SCRIPT_MODE,
                **scripts.script_items(workload),
            },
        },
        {
            "name": "pod",
            "downwardAPI": {
                "items": [
                    {
                        "path": path,
                        "fieldRef": {
                            "apiVersion": "v1",
                            "fieldPath": f"metadata.annotations['{mark}']",
                        },
                    }
                    for path, mark in marks.items()
                ]
            },
        },
        *_private_volumes(workload, options),
        {"name": "work", "emptyDir": {"sizeLimit": f"{options.work_mib}Mi"}},
        {
            "name": "shared-memory",
            "emptyDir": {"medium": "Memory", "sizeLimit": f"{shared_kib}Ki"},
        },
    ]


def _private_volumes(workload: Workload, options: KubernetesOptions) -> list[dict[str, Any]]:
    if not has_secret(workload, options):
        return []
    # A cluster may not let us create Secrets. The job then runs without.
    source = {
        "secretName": naming.token_name(workload.key),
        "optional": True,
        "defaultMode": _PRIVATE_MODE,
    }
    return [{"name": "private", "secret": source}]


@cache
def _launcher() -> str:
    """Return launcher.sh without its comments, which would only fill lists of processes."""
    text = resources.files("connectors.kubernetes").joinpath("launcher.sh").read_text("ascii")
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("#"))
