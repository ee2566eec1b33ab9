"""The checked options of a Kubernetes cluster.

    kubeconfig          path of a kubeconfig file of the portal's service account there; the
                        operator lists such files in TIDEGATE_KUBECONFIGS. Or instead of it:
    in_cluster          true: the portal runs in this cluster, as its Pod's service account
    context             context of the kubeconfig; null (default): its current one
    scheduler           the scheduler of the Pods: "kueue" (default), "volcano", "kai" or
                        "yunikorn"
    kind                object of a workload with Kueue: "job" (default), "jobset", "trainjob",
                        "pytorchjob", "mpijob" or "rayjob"; the other schedulers run Jobs
    mode                "arbiter" (default): Kueue's quotas are wide and never hold back a job
                        that the portal granted; "shared": they are the tree's own, and hold
                        without the portal
    pools               {pool: {...}}, the description of each pool on the cluster:
      flavor                its ResourceFlavor; the pool's own name by default
      node_selector         labels that its nodes have and its Pods ask for; none by default,
                            which only a cluster with one pool can have
      resource              the extended resource of its GPUs, "nvidia.com/gpu" by default; a
                            MIG profile has another one, like "nvidia.com/mig-1g.10gb"
      mgpu_per_unit         milli-GPU of one unit of it, the step of rank sizes; default: 1000
      device_class          GPUs are claimed from this DeviceClass (dynamic resource allocation)
                            instead of `resource`; null (default): they are not
      tolerations           [{"key", "operator", "value", "effect"}] of its Pods; none by default
      required_topology     label of a topology level: all ranks share one domain of it; null by
                            default. With Volcano it names a tier of its HyperNodes; KAI needs
                            topology_name too; YuniKorn supports no topology
      preferred_topology    the same as a preference; a pool has at most one of the two
      topology_name         the Topology with these levels; null (default): none
      topology_levels       its labels, from the widest to the narrowest
      topology_domains      {"block", "rack", "nvlink": one of these labels}: the meaning of these
                            levels in jobs; by default the first label is the block and the
                            second the rack, without kubernetes.io/hostname
      image                 image of jobs that name none; null (default): they must name one
      cpu_per_gpu           cores of a rank with each GPU; null (default): none are requested
      memory_mib_per_gpu    MiB of a rank with each GPU, which is also its limit; null (default):
                            none are requested and there is no limit
      runtime_class         RuntimeClass of its Pods; null (default): the cluster's own
      device                "cpu": a pool of CPU cores, on nodes without GPUs. It has flavor,
                            node_selector (required), tolerations, image, runtime_class, and
      memory_mib_per_core   like memory_mib_per_gpu
      reserved_cpu_milli    thousandths of a core of each node that are reserved for the node's
                            own services (Pods of DaemonSets), at least; default: 0
    features            {feature: label or "label=value"}: the label of a feature; any other
                        feature NAME is label feature.node.kubernetes.io/NAME, with any value
                        but "false"
    allowed_registries  registries, or beginnings of paths in them ("docker.io/pytorch"), of
                        allowed images; null (default): all, []: only the pools' own images
    require_digest      true: an image must be named with its digest (@sha256:...); default: false
    pull_secrets        names of the Secrets for pulling images, in every team's namespace
    service_account     ServiceAccount of the Pods in every team's namespace; they never get its
                        token; null (default): the namespace's default one
    run_as_user         numeric user and group of every script; default: 1000; never 0
    work_mib            MiB that a rank may write to its working directory; default: 102400
    shared_memory_mib   MiB that a rank may have in /dev/shm; default: 65536; at most its memory
    queue               name of the queue of all teams on a cluster without Kueue; null (default):
                        each team has its own, named as its namespace
    ray_version         version of Ray in the images of kind "rayjob"; null (default): unspecified
    operators           accounts ("system:serviceaccount:NAMESPACE:NAME") of the operators that
                        create Jobs and Pods for objects there, as in gate.yaml; by default
                        those of their own manifests
    unlabelled          workloads that people create in a team's namespace without the label of
                        a queue: "take" (default) puts them into the team's queue; "refuse"
                        refuses them. gate.yaml enforces it; for "refuse" an administrator
                        removes its policy tidegate-take
    exempt              accounts, as in `operators`, whose objects are neither taken nor refused,
                        as in gate.yaml; none by default
    log_root            directory where the portal stores the Pods' output; null (default):
                        outputs cannot be shown
    log_cap_bytes       bytes of the output of each rank that are stored; 16 MiB by default

Either kubeconfig or in_cluster is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from connectors.kubernetes.objects.resources import JOB, KINDS, OTHER_SCHEDULERS, Resource
from connectors.kubernetes.options import option_values as values
from connectors.kubernetes.options.images import (
    ImageReference,
    is_allowed,
    parse_allowed,
    parse_image,
    plain_image,
)
from connectors.kubernetes.options.option_values import GPU_RESOURCE
from connectors.protocol import TOPOLOGY_LEVELS
from primitives.units import DeviceKind

KUEUE = "kueue"
ARBITER_MODE = "arbiter"
SHARED_MODE = "shared"
TAKE = "take"
REFUSE = "refuse"
CPU_RESOURCE = "cpu"
WHOLE_MGPU = 1_000
#: The label of every node that is a domain of its own.
HOST_LABEL = "kubernetes.io/hostname"
RUN_AS_USER = 1_000
WORK_MIB = 100 << 10
SHARED_MEMORY_MIB = 64 << 10
MIB_MAX = 1 << 30
#: The accounts of the operators, as they are installed by their own manifests.
OPERATORS = (
    "system:serviceaccount:jobset-system:jobset-controller-manager",
    "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager",
    "system:serviceaccount:kubeflow:training-operator",
    "system:serviceaccount:mpi-operator:mpi-operator",
    "system:serviceaccount:kuberay-system:kuberay-operator",
)
FEATURE_PREFIX = "feature.node.kubernetes.io/"
LOG_CAP_BYTES = 16 << 20
LOG_CAP_BYTES_MAX = 1 << 40
POOLS_MAX = 100
#: Terms of a node selector that every Pod of a pool of cores may get.
TERMS_MAX = 32

_KNOWN = frozenset(
    {
        *("kubeconfig", "in_cluster", "context", "scheduler", "kind", "mode", "pools", "features"),
        *("allowed_registries", "require_digest", "pull_secrets", "service_account"),
        *(
            "run_as_user",
            "work_mib",
            "shared_memory_mib",
            "queue",
            "ray_version",
            "operators",
            "unlabelled",
            "exempt",
            "log_root",
            "log_cap_bytes",
        ),
    }
)
_POOL_OF_CORES_KNOWN = frozenset(
    {
        *("device", "flavor", "node_selector", "tolerations", "image", "runtime_class"),
        *("memory_mib_per_core", "reserved_cpu_milli"),
    }
)
_POOL_KNOWN = frozenset(
    {
        *("flavor", "node_selector", "resource", "mgpu_per_unit", "device_class", "tolerations"),
        *("required_topology", "preferred_topology", "topology_name", "topology_levels", "image"),
        "topology_domains",
        *("cpu_per_gpu", "memory_mib_per_gpu", "runtime_class"),
    }
)

_CONTEXT = re.compile(r"[!-~]{1,253}")
_POOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}", re.ASCII)
#: The form of features in the portal; see `connectors.workload_checks`.
_FEATURE = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class KubernetesPool:
    """The description of a pool on the cluster; see the module's docstring.

    If `device` is a core, `resource` is Kubernetes' own CPU resource, and the values `per_gpu` are
    per core.
    """

    name: str
    flavor: str
    node_selector: Mapping[str, str]
    resource: str
    mgpu_per_unit: int
    device_class: str | None
    tolerations: tuple[Mapping[str, str], ...]
    required_topology: str | None
    preferred_topology: str | None
    topology_name: str | None
    topology_levels: tuple[str, ...]
    topology_domains: Mapping[str, str]
    image: str | None
    cpu_per_gpu: int | None
    memory_mib_per_gpu: int | None
    runtime_class: str | None
    device: DeviceKind = DeviceKind.GPU
    reserved_cpu_milli: int = 0


@dataclass(frozen=True, slots=True)
class KubernetesOptions:
    """Checked options; see the module's docstring."""

    kubeconfig: str | None
    context: str | None
    scheduler: str
    kind: str
    mode: str
    pools: Mapping[str, KubernetesPool]
    features: Mapping[str, tuple[str, str | None]]
    allowed_registries: tuple[str, ...] | None
    requires_digest: bool
    pull_secrets: tuple[str, ...]
    service_account: str | None
    run_as_user: int
    work_mib: int
    shared_memory_mib: int
    queue: str | None
    ray_version: str | None
    operators: tuple[str, ...]
    unlabelled: str
    exempt: tuple[str, ...]
    log_root: str | None
    log_cap_bytes: int

    @property
    def resource(self) -> Resource:
        """The kind of object that a workload becomes."""
        return KINDS[self.kind] if self.scheduler == KUEUE else JOB

    @property
    def has_kueue(self) -> bool:
        """Return whether Kueue holds and admits the workloads."""
        return self.scheduler == KUEUE


def parse_options(options: Mapping[str, Any]) -> KubernetesOptions:
    """Return checked options. Raises ValueError, saying what is wrong, for invalid ones.

    No file is opened.
    """
    if unknown := sorted(map(str, set(options) - _KNOWN)):
        raise ValueError(f"unknown options of a Kubernetes cluster: {', '.join(unknown)}")
    kubeconfig, in_cluster = options.get("kubeconfig"), values.flag(options, "in_cluster")
    if (kubeconfig is None) != in_cluster:
        raise ValueError("a Kubernetes cluster has either option kubeconfig or in_cluster true")
    context = options.get("context")
    if context is not None and (in_cluster or not values.matches(_CONTEXT, context)):
        raise ValueError("option context must be the name of a context of the kubeconfig")
    scheduler = values.choice(options, "scheduler", KUEUE, (KUEUE, *OTHER_SCHEDULERS))
    kind = values.choice(options, "kind", "job", tuple(KINDS))
    mode = values.choice(options, "mode", ARBITER_MODE, (ARBITER_MODE, SHARED_MODE))
    if scheduler != KUEUE and (kind != "job" or mode != ARBITER_MODE or "kind" in options):
        raise ValueError(f"options kind and mode are of Kueue; leave them out with {scheduler}")
    pools = _pools(options.get("pools"), requires_digest=values.flag(options, "require_digest"))
    _check_topology(scheduler, pools)
    if scheduler == "yunikorn":
        # YuniKorn cannot confine a gang to one domain, so no domains may be offered.
        pools = {name: replace(pool, topology_domains={}) for name, pool in pools.items()}
    if scheduler == KUEUE and options.get("queue") is not None:
        raise ValueError("option queue is of the other schedulers; with Kueue leave it out")
    return KubernetesOptions(
        kubeconfig=None if kubeconfig is None else values.path("kubeconfig", kubeconfig),
        context=context,
        scheduler=scheduler,
        kind=kind,
        mode=mode,
        pools=pools,
        features=_features(options.get("features", {})),
        allowed_registries=_allowed(options.get("allowed_registries")),
        requires_digest=values.flag(options, "require_digest"),
        pull_secrets=values.listed(
            "pull_secrets", options.get("pull_secrets", []), values.object_name
        ),
        service_account=values.or_none(
            "service_account", options.get("service_account"), values.object_name
        ),
        run_as_user=values.count(
            "run_as_user", options.get("run_as_user", RUN_AS_USER), 1, (1 << 31) - 1
        ),
        work_mib=values.count("work_mib", options.get("work_mib", WORK_MIB), 1, MIB_MAX),
        shared_memory_mib=values.count(
            "shared_memory_mib", options.get("shared_memory_mib", SHARED_MEMORY_MIB), 1, MIB_MAX
        ),
        queue=values.or_none("queue", options.get("queue"), values.queue),
        ray_version=values.or_none("ray_version", options.get("ray_version"), values.version),
        operators=values.listed("operators", options.get("operators", OPERATORS), values.account),
        unlabelled=values.choice(options, "unlabelled", TAKE, (TAKE, REFUSE)),
        exempt=values.listed("exempt", options.get("exempt", []), values.account),
        log_root=values.or_none("log_root", options.get("log_root"), values.path),
        log_cap_bytes=values.count(
            "log_cap_bytes", options.get("log_cap_bytes", LOG_CAP_BYTES), 0, LOG_CAP_BYTES_MAX
        ),
    )


def _check_topology(scheduler: str, pools: Mapping[str, KubernetesPool]) -> None:
    for name, pool in pools.items():
        asked = pool.required_topology or pool.preferred_topology
        if asked is None:
            continue
        if scheduler == "yunikorn":
            raise ValueError(f"pool {name} asks for topology {asked}, and YuniKorn knows none")
        if scheduler == "kai" and pool.topology_name is None:
            raise ValueError(f"pool {name} asks for topology {asked}: name it in topology_name")


def image_refusal(image: str, options: KubernetesOptions) -> str:
    """Return why the cluster does not run a job's `image`, and what to do; "" when it does.

    The policy covers images that users name. The pools' own images are the administrators' choice.
    """
    try:
        reference = parse_image(plain_image(image))
    except ValueError as error:
        return str(error)
    return _policy_refusal(reference, options.allowed_registries, options.requires_digest)


def names_images(options: Mapping[str, Any]) -> bool:
    """Return whether jobs may name an image on a cluster with these options.

    Other options may be invalid.
    """
    return options.get("allowed_registries") != []


def default_images(options: Mapping[str, Any]) -> Mapping[str, str | None]:
    """Return by pool the image of jobs that name none; None where they must name one.

    Returns {} for invalid options.
    """
    try:
        return {name: pool.image for name, pool in parse_options(options).pools.items()}
    except ValueError:
        return {}


def job_image_refusal(options: Mapping[str, Any], pool: str, image: str | None) -> str:
    """Return why a cluster with these options does not run `image` in `pool`; "" when it does.

    An `image` of None means that the job names none. The text says what to do. Returns "" for
    invalid options.
    """
    try:
        checked = parse_options(options)
    except ValueError:
        return ""
    if image is not None:
        return image_refusal(image, checked)
    if pool in checked.pools and checked.pools[pool].image is None:
        return no_image(pool)
    return ""


def no_image(pool: str) -> str:
    """Return the message for a job of `pool` without an image, where the pool has none either."""
    return f"jobs run in container images there, and pool {pool} has none of its own: name one"


def unit_mgpu(options: Mapping[str, Any], pool: str) -> int:
    """Return the step of rank sizes in `pool` in milli-GPU, on a cluster with these options."""
    try:
        found = parse_options(options).pools.get(pool)
    except ValueError:
        found = None
    return WHOLE_MGPU if found is None else found.mgpu_per_unit


def not_on_gpus(
    pool: KubernetesPool, pools: Mapping[str, KubernetesPool]
) -> list[list[dict[str, object]]]:
    """Return node selector terms, any one of which is enough, for nodes without GPU pool labels.

    Without them Kueue would choose a flavor of GPUs, which always has CPU left. Raises ValueError
    where no node has the labels of `pool` alone, or for too many terms.
    """
    terms: list[list[dict[str, object]]] = [[]]
    for other in sorted(pools.values(), key=lambda one: one.name):
        if other.device is DeviceKind.CPU:
            continue
        kept = other.node_selector.items() - pool.node_selector.items()
        if not kept:
            raise ValueError(
                f"the node_selector of pool {other.name} takes in all nodes of pool {pool.name} of "
                "CPU cores; give it a label that only nodes with GPUs have"
            )
        if any(label in pool.node_selector for label, _ in kept):
            # The nodes of `other` have another value of this label.
            continue
        terms = [
            [*term, {"key": label, "operator": "NotIn", "values": [value]}]
            for term in terms
            for label, value in sorted(kept)
        ]
        if len(terms) > TERMS_MAX:
            raise ValueError(
                f"the pools of GPUs have too many labels in their node_selector for pool "
                f"{pool.name} of CPU cores to keep out of all of them; give each a label of its own"
            )
    return terms


def is_label_name(text: str) -> bool:
    """Return whether `text` can be the key of a label after a prefix of its own."""
    return values.matches(values.LABEL_NAME, text)


def _policy_refusal(
    reference: ImageReference, allowed: tuple[str, ...] | None, requires_digest: bool
) -> str:
    if allowed is not None and not is_allowed(reference, allowed):
        if not allowed:
            return "jobs may name no image here; leave it out to run in the pool's own"
        listed = ", ".join(allowed[:10]) + (", ..." if len(allowed) > 10 else "")
        return f"images of {reference.repository[:200]} may not be run here; use one of {listed}"
    if requires_digest and reference.digest is None:
        return (
            f"the image {reference.repository[:200]} must be named with its digest, as in "
            f"{reference.repository[:200]}@sha256:..."
        )
    return ""


def _pools(value: object, *, requires_digest: bool) -> Mapping[str, KubernetesPool]:
    if not isinstance(value, Mapping) or not 1 <= len(value) <= POOLS_MAX:
        raise ValueError(
            'option pools must be like {"h100": {"node_selector": {"nvidia.com/gpu.product": '
            '"NVIDIA-H100-80GB-HBM3"}}}'
        )
    pools: dict[str, KubernetesPool] = {}
    for name, settings in value.items():
        if not values.matches(_POOL, name):
            raise ValueError(f"{name!r} is no name of a pool: use letters, digits, '.', '_', '-'")
        if isinstance(settings, Mapping) and "device" in settings:
            pools[name] = _pool_of_cores(name, settings, requires_digest=requires_digest)
            continue
        if not isinstance(settings, Mapping) or set(settings) - _POOL_KNOWN:
            raise ValueError(
                f"pool {name} has {', '.join(sorted(_POOL_KNOWN))}, nothing else"
                f"{_but_not(settings, _POOL_KNOWN)}"
            )
        pools[name] = _pool(name, settings, requires_digest=requires_digest)
    flavors = [pool.flavor for pool in pools.values()]
    if len(set(flavors)) != len(flavors):
        raise ValueError("two pools have the same flavor; one kind of device is one pool")
    # Only these two assign nodes and foreign Pods to pools.
    places = {
        (tuple(sorted(pool.node_selector.items())), pool.device_class or pool.resource)
        for pool in pools.values()
    }
    if len(places) != len(pools):
        raise ValueError(
            "two pools have the same node_selector and resource, so that nobody can tell their "
            "nodes apart"
        )
    for pool in pools.values():
        if pool.device is DeviceKind.CPU:
            not_on_gpus(pool, pools)
    return pools


def _pool(name: str, settings: Mapping[str, Any], *, requires_digest: bool) -> KubernetesPool:
    def named(option: str) -> str:
        return f"pools.{name}.{option}"

    def optional(option: str, check: Callable[[str, object], str]) -> str | None:
        return values.or_none(named(option), settings.get(option), check)

    required = optional("required_topology", values.label_key)
    preferred = optional("preferred_topology", values.label_key)
    if required is not None and preferred is not None:
        raise ValueError(
            f"pool {name} has either required_topology or preferred_topology, not both"
        )
    levels = values.listed(
        named("topology_levels"), settings.get("topology_levels", []), values.label_key
    )
    topology_name = optional("topology_name", values.object_name)
    if (
        (topology_name is None) != (not levels)
        or len(levels) > 16
        or len(set(levels)) < len(levels)
    ):
        raise ValueError(
            f"pool {name} has both topology_name and topology_levels, up to 16 different labels "
            "from the widest to the narrowest, or neither"
        )
    asked = required or preferred
    if asked is not None and levels and asked not in levels:
        raise ValueError(
            f"pool {name} asks for topology {asked}, which topology_levels do not have"
        )
    device_class = optional("device_class", values.object_name)
    if device_class is not None and "resource" in settings:
        raise ValueError(f"pool {name} has either resource or device_class, not both")
    return KubernetesPool(
        name=name,
        flavor=values.object_name(named("flavor"), settings.get("flavor", name)),
        node_selector=values.node_selector(
            named("node_selector"), settings.get("node_selector", {})
        ),
        resource=values.resource(named("resource"), settings.get("resource", GPU_RESOURCE)),
        mgpu_per_unit=values.count(
            named("mgpu_per_unit"), settings.get("mgpu_per_unit", WHOLE_MGPU), 1, WHOLE_MGPU
        ),
        device_class=device_class,
        tolerations=values.listed(
            named("tolerations"), settings.get("tolerations", []), values.toleration
        ),
        required_topology=required,
        preferred_topology=preferred,
        topology_name=topology_name,
        topology_levels=levels,
        topology_domains=_domains(name, settings.get("topology_domains"), levels),
        image=_pool_image(name, settings.get("image"), requires_digest=requires_digest),
        cpu_per_gpu=values.or_none(
            named("cpu_per_gpu"),
            settings.get("cpu_per_gpu"),
            lambda o, v: values.count(o, v, 1, 1_024),
        ),
        memory_mib_per_gpu=values.or_none(
            named("memory_mib_per_gpu"),
            settings.get("memory_mib_per_gpu"),
            lambda o, v: values.count(o, v, 1, 1 << 30),
        ),
        runtime_class=optional("runtime_class", values.object_name),
    )


def _but_not(settings: object, known: frozenset[str]) -> str:
    """Return the unknown options as the end of a sentence that lists the known ones."""
    if not isinstance(settings, Mapping):
        return ""
    unknown = sorted(str(option)[:100] for option in settings if option not in known)
    if not unknown:
        return ""
    cores = any(option in _POOL_OF_CORES_KNOWN - _POOL_KNOWN for option in unknown)
    hint = '; that is for a pool with "device": "cpu"' if cores and known is _POOL_KNOWN else ""
    return f" (not {', '.join(unknown[:10])}{hint})"


def _pool_of_cores(
    name: str, settings: Mapping[str, Any], *, requires_digest: bool
) -> KubernetesPool:
    if settings["device"] != DeviceKind.CPU or set(settings) - _POOL_OF_CORES_KNOWN:
        raise ValueError(
            f'pool {name} has device "cpu" beside '
            f"{', '.join(sorted(_POOL_OF_CORES_KNOWN - {'device'}))}, nothing else"
            f"{_but_not(settings, _POOL_OF_CORES_KNOWN)}; a pool of GPUs has no device but a "
            "resource"
        )
    plain = _pool(
        name,
        {
            option: settings[option]
            for option in ("flavor", "node_selector", "tolerations", "image", "runtime_class")
            if option in settings
        },
        requires_digest=requires_digest,
    )
    if not plain.node_selector:
        raise ValueError(
            f"pool {name} of CPU cores needs a node_selector: every node has cores, and only some "
            "of them are meant"
        )

    def count(option: str, value: object) -> int:
        return values.count(f"pools.{name}.{option}", value, 0, MIB_MAX)

    return replace(
        plain,
        resource=CPU_RESOURCE,
        memory_mib_per_gpu=values.or_none(
            "memory_mib_per_core", settings.get("memory_mib_per_core"), count
        )
        or None,
        device=DeviceKind.CPU,
        reserved_cpu_milli=count("reserved_cpu_milli", settings.get("reserved_cpu_milli", 0)),
    )


def _domains(pool: str, value: object, levels: tuple[str, ...]) -> Mapping[str, str]:
    """Return by level the label with a node's domain."""
    if value is None:
        labels = [label for label in levels if label != HOST_LABEL]
        return dict(zip(("block", "rack"), labels, strict=False))
    if (
        not isinstance(value, Mapping)
        or not set(value) <= set(TOPOLOGY_LEVELS)
        or not all(label in levels for label in value.values())
        or len(set(value.values())) < len(value)
    ):
        raise ValueError(
            f"topology_domains of pool {pool} must give some of {', '.join(TOPOLOGY_LEVELS)} a "
            "label of topology_levels each, no two the same"
        )
    return {level: str(value[level]) for level in TOPOLOGY_LEVELS if level in value}


def _pool_image(pool: str, value: object, *, requires_digest: bool) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"option pools.{pool}.image must be a container image")
    try:
        reference = parse_image(value)
    except ValueError as error:
        raise ValueError(f"option pools.{pool}.image: {error}") from None
    if refusal := _policy_refusal(reference, None, requires_digest):
        raise ValueError(f"option pools.{pool}.image: {refusal}")
    return value


def _features(value: object) -> Mapping[str, tuple[str, str | None]]:
    if not isinstance(value, Mapping) or len(value) > values.LIST_MAX:
        raise ValueError(
            'option features must be like {"infiniband": "example.com/fabric=infiniband"}, of at '
            f"most {values.LIST_MAX} features"
        )
    features: dict[str, tuple[str, str | None]] = {}
    for feature, label in value.items():
        if not values.matches(_FEATURE, feature):
            raise ValueError(f"{feature!r} is no feature: use letters, digits, '.', '_' and '-'")
        if not isinstance(label, str):
            raise ValueError(f"feature {feature} must be a label of nodes, or label=value")
        key, equals, label_value = label.partition("=")
        if not values.is_label_key(key) or not values.matches(values.LABEL_VALUE, label_value):
            raise ValueError(f"feature {feature} must be a label of nodes, or label=value")
        features[feature] = (key, label_value if equals else None)
    return features


def _allowed(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None

    def check(option: str, entry: object) -> str:
        if not isinstance(entry, str):
            raise ValueError(f"option {option} must be a list of registries")
        return parse_allowed(entry)

    return values.listed("allowed_registries", value, check)
