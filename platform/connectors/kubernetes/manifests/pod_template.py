"""The Pods of every kind of workload: one per rank, all made here.

Of what a user wrote a Pod has only the image, the values (and checked names) of environment
variables, and numbers: GPUs, time limit, grace. The script is in a ConfigMap. Everything passes the
Pod Security Standard `restricted`.

Paths in the container: the launcher (see launcher.sh) reads the script and the notice below
/run/tidegate, and the script starts in a directory of its own there, which is gone with the Pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.nodes.features import feature_terms
from connectors.kubernetes.objects import naming
from connectors.kubernetes.options.images import plain_image
from connectors.kubernetes.options.options import (
    HOST_LABEL,
    WHOLE_MGPU,
    KubernetesOptions,
    KubernetesPool,
    image_refusal,
    no_image,
    not_on_gpus,
)
from connectors.protocol import Workload
from primitives.units import DeviceKind

SCRIPT_KEY = "script"
SCRIPT_DIRECTORY = "/run/tidegate/script"
SCRIPT_PATH = f"{SCRIPT_DIRECTORY}/{SCRIPT_KEY}"
POD_DIRECTORY = "/run/tidegate/pod"
NOTICE_PATH = f"{POD_DIRECTORY}/notice"
WORK_DIRECTORY = "/run/tidegate/work"
MESSAGE_PATH = "/dev/termination-log"
#: Where the ranks of one Pod find their index, which the launcher makes the rank of.
INDEX_VARIABLE = "TIDEGATE_POD_INDEX"

#: Longer than any outage that may hide how a workload ended.
TTL_S = 7 * 86_400
#: How much later than our own time limit the cluster's may come: images are drawn in that time.
BACKSTOP_S = 3_600

#: MiB on the disk of its node that a rank may have beside its working directory: what it writes to
#: other places of its image, and its output.
LAYER_MIB = 10 << 10

_CLAIM = "gpus"
_DISK = "ephemeral-storage"
_TASK_GROUP = "ranks"
_SCRIPT_MODE = 0o555


def pool_of(workload: Workload, options: KubernetesOptions) -> KubernetesPool:
    """The workload's pool. Raises WorkloadRejected for one that the cluster has not."""
    pool = options.pools.get(workload.pool)
    if pool is None:
        raise WorkloadRejected(f"this cluster has no pool {workload.pool[:80]!r}")
    return pool


def units(mgpu: int, pool: KubernetesPool) -> int:
    """Units of the pool's GPU resource that `mgpu` milli-GPU are.

    Raises WorkloadRejected for what is no whole number of them.
    """
    count, rest = divmod(mgpu, pool.mgpu_per_unit)
    if rest:
        raise WorkloadRejected(
            f"pool {pool.name} gives out multiples of {pool.device.text(pool.mgpu_per_unit)} on "
            f"this cluster, and a rank asks for {pool.device.text(mgpu)}"
        )
    return count


def image_of(workload: Workload, options: KubernetesOptions) -> str:
    """The image that the workload runs in. Raises WorkloadRejected where there is none, or the
    cluster's policy refuses it."""
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
    """The metadata of one of the workload's objects, with `more` labels and annotations."""
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
    """The labels by which Kueue takes a workload's object into its team's queue."""
    is_borrowed = workload.is_borrowed
    return {
        naming.QUEUE_LABEL: naming.LOCAL_QUEUE,
        naming.PRIORITY_LABEL: naming.BORROWED_CLASS if is_borrowed else naming.GUARANTEED_CLASS,
    }


@dataclass(frozen=True, slots=True)
class Placing:
    """What every Pod tells the scheduler that places it."""

    scheduler_name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def queue_name(workload: Workload, options: KubernetesOptions) -> str:
    """The workload's queue on a cluster without Kueue."""
    if options.queue is not None:
        return options.queue
    name = naming.team_namespace(workload.team)
    return f"root.{name}" if options.scheduler == "yunikorn" else name


def placing_of(workload: Workload, options: KubernetesOptions) -> Placing:
    """What the Pods of `workload` tell the cluster's scheduler; one of Kueue's are Kubernetes' own.

    Volcano finds the PodGroup by an annotation, and may push aside only what says so. KAI wants the
    queue on the Pod, too. YuniKorn has no object for a gang: its Pods describe it, so that it can
    hold the place of those that are not there yet.
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
    """The resources that one rank asks for, as Kubernetes counts them."""
    return dict(_resources(workload, mgpu, pool).get("requests", {}))


def topology_of(workload: Workload, pool: KubernetesPool) -> tuple[str | None, str | None]:
    """The labels that all ranks must share, and should share; one of the two at most.

    What the job requires and what its pool does both hold: the narrower of them says so. What is
    required goes before what is preferred, and the job's wish before its pool's. Raises
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
    """What the Pods of one gang say to Kueue of where they want to be together."""
    required, preferred = topology_of(workload, pool)
    if required is not None:
        return {"kueue.x-k8s.io/podset-required-topology": required}
    if preferred is not None:
        return {"kueue.x-k8s.io/podset-preferred-topology": preferred}
    return {}


@dataclass(frozen=True, slots=True)
class Ranks:
    """Ranks of one size whose Pods have one template.

    `mgpu` is what each has and `first` the first of them. `index_field` is where a Pod says which
    of them it is, as the downward API names it; None where there is one only. `master` is the name
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
    """The template of the Pods of `ranks`.

    Their container runs `command`: the launcher where it is None, and what the kind's operator puts
    there where it is empty.
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
    """The name of the ResourceClaimTemplate for Pods with `mgpu` milli-GPU."""
    return f"{naming.workload_name(workload.key)}-{mgpu}"


def launcher_command(workload: Workload, first_rank: int = 0) -> list[str]:
    """The command of a container that runs the script of the workload."""
    return [escaped(word) for word in launcher_words(workload, first_rank)]


def launcher_words(workload: Workload, first_rank: int = 0) -> list[str]:
    """The launcher's command line as the kernel should get it."""
    return [
        "/bin/sh",
        "-c",
        _launcher(),
        "tidegate",
        workload.notice_signal,
        str(workload.grace_s),
        str(workload.time_limit_s or 0),
        str(first_rank),
        SCRIPT_PATH,
        NOTICE_PATH,
        MESSAGE_PATH,
    ]


def escaped(text: str) -> str:
    """`text` in a command or a variable, where Kubernetes replaces $(NAME) and takes $$ for $."""
    return text.replace("$", "$$")


def backstop_s(workload: Workload) -> int | None:
    """Seconds after which the cluster itself ends the workload, None for never."""
    if workload.time_limit_s is None:
        return None
    return workload.time_limit_s + workload.grace_s + BACKSTOP_S


def uniform_mgpu(workload: Workload, kind: str) -> int:
    """What every rank has. Raises WorkloadRejected where they differ, which `kind` cannot be."""
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
            {"name": "script", "mountPath": SCRIPT_DIRECTORY, "readOnly": True},
            {"name": "pod", "mountPath": POD_DIRECTORY, "readOnly": True},
            {"name": "work", "mountPath": WORK_DIRECTORY},
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - not of this machine
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
        # 0 would take the Pod off the API server while its processes may still run.
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
    """The environment of a rank: the workload's own, and its place."""
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
        _field_variable("TIDEGATE_NODE", "spec.nodeName"),
        index,
    ]


def _devices(mgpu: int, pool: KubernetesPool) -> dict[str, str]:
    held = str(units(mgpu, pool))
    if pool.device is DeviceKind.CPU:
        return {"TIDEGATE_CPUS_PER_NODE": held, "TIDEGATE_GPUS_PER_NODE": "0"}
    return {"TIDEGATE_GPUS_PER_NODE": held}


def _field_variable(name: str, field: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": field}}}


def _resources(workload: Workload, mgpu: int, pool: KubernetesPool) -> dict[str, Any]:
    """What one rank is given: GPUs and memory as a limit too, and so are the cores of a pool of
    them; the cores that come with GPUs only as a share."""
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
    """What one rank may have in memory, None for any amount."""
    if workload.memory_mib_per_node is not None and mgpu:
        return workload.memory_mib_per_node * 1024
    if pool.memory_mib_per_gpu is None:
        return None
    # A rank without GPUs has the cores and the memory of one.
    return pool.memory_mib_per_gpu * 1024 * (mgpu or WHOLE_MGPU) // WHOLE_MGPU


def _with_storage(resources_: Mapping[str, Any], options: KubernetesOptions) -> dict[str, Any]:
    """`resources_` with a bound on what a rank writes to the disk of its node.

    It asks for none, so that no node must say how much it has: without that, Kubernetes would take
    the bound for the request.
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
    if every := [[*term, *features] for term in terms if term or features]:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{"matchExpressions": term} for term in every]
        }
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
    """The nodes that the arbiter counted with. The cluster's scheduler would spread small jobs over
    all nodes, and none was left whole for the large one that was started beside them."""
    return sorted({slot.node for slot in workload.slots if slot.node})


def _volumes(workload: Workload, options: KubernetesOptions, mgpu: int) -> list[dict[str, Any]]:
    shared_kib = options.shared_memory_mib * 1024
    memory_kib = _memory_kib(workload, mgpu, pool_of(workload, options))
    if memory_kib is not None:
        shared_kib = min(shared_kib, memory_kib)
    notice = f"metadata.annotations['{naming.NOTICE}']"
    return [
        {
            "name": "script",
            "configMap": {
                "name": naming.workload_name(workload.key),
                "defaultMode": _SCRIPT_MODE,
            },
        },
        {
            "name": "pod",
            "downwardAPI": {
                "items": [{"path": "notice", "fieldRef": {"apiVersion": "v1", "fieldPath": notice}}]
            },
        },
        {"name": "work", "emptyDir": {"sizeLimit": f"{options.work_mib}Mi"}},
        {
            "name": "shared-memory",
            "emptyDir": {"medium": "Memory", "sizeLimit": f"{shared_kib}Ki"},
        },
    ]


@cache
def _launcher() -> str:
    """launcher.sh without its comments, which would only fill lists of processes."""
    text = resources.files("connectors.kubernetes").joinpath("launcher.sh").read_text("ascii")
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("#"))
