"""The options of a Kubernetes cluster, and how they are checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from connectors.kubernetes.options.pools import (
    MIB_MAX,
    POOLS_MAX,
    WHOLE_MGPU,
    KubernetesPool,
    read_pools,
)
from connectors.options import (
    choice,
    constants,
    described,
    flag,
    listed,
    option,
    optional,
    pools,
    read_record,
    refusal,
    text,
    texts_by_name,
    whole,
)
from connectors.software import shared_folders_option, software_option
from manifests.devices import is_of_gpus
from manifests.other_objects import OTHER_OBJECTS

KUEUE = "kueue"
ARBITER_MODE = "arbiter"
SHARED_MODE = "shared"
TAKE = "take"
REFUSE = "refuse"
RUN_AS_USER = 1_000
WORK_MIB = 100 << 10
SHARED_MEMORY_MIB = 64 << 10
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
#: The names of the schedulers for people.
SCHEDULER_TITLES = {KUEUE: "Kueue", "volcano": "Volcano", "kai": "KAI", "yunikorn": "YuniKorn"}

#: With the others of a queue, Kueue takes 64 resources.
OTHER_RESOURCES_MAX = 16
_CONTEXT = re.compile(r"[!-~]{1,253}")
#: The form of features in the portal; see `connectors.workload_checks`.
_FEATURE = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_USER_MAX = (1 << 31) - 1
_OF_KUEUE: dict[str, Any] = {"when": {"scheduler": [KUEUE]}}


def is_label_name(text: str) -> bool:
    """Return whether `text` can be the key of a label after a prefix of its own."""
    return values.matches(values.LABEL_NAME, text)


def _context(option: str, value: object) -> str:
    if not isinstance(value, str) or not values.matches(_CONTEXT, value):
        raise ValueError(f"option {option} must be the name of a context of the kubeconfig")
    return value


def _allowed_registry(option: str, entry: object) -> str:
    if not isinstance(entry, str):
        raise ValueError(f"option {option} must be a list of registries")
    return parse_allowed(entry)


def _features(option: str, value: object) -> Mapping[str, tuple[str, str | None]]:
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


def _other_resource(option: str, value: object) -> str:
    found = values.resource(option, value)
    if is_of_gpus(found):
        raise ValueError(f"option {option}: {found} is of GPUs, which count in a pool")
    return found


_REGISTRIES = optional(listed(text(_allowed_registry), values.LIST_MAX))
_LISTED = {"title": "Listed", "type": "array", "items": {"type": "string"}, "minItems": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """The checked options. The order of the fields is that of forms."""

    in_cluster: bool = option(
        described(
            flag(),
            oneOf=constants(((False, "By a kubeconfig"), (True, "The portal runs in it"))),
        ),
        title="Access",
        help="In the cluster, the portal is its Pod's service account.",
        default=False,
    )
    kubeconfig: str | None = option(
        optional(text(values.path)),
        title="Kubeconfig",
        help="File with the portal's service account there. The operator lists it in "
        "TIDEGATE_KUBECONFIGS.",
        example="/etc/tidegate/kubeconfig",
        default=None,
        when={"in_cluster": [False]},
        is_needed=True,
    )
    context: str | None = option(
        optional(text(_context)),
        title="Context",
        help="Of the kubeconfig. Default: its current one.",
        default=None,
        when={"in_cluster": [False]},
    )
    scheduler: str = option(
        choice(SCHEDULER_TITLES), title="Scheduler", help="It places the Pods.", default=KUEUE
    )
    kind: str = option(
        choice({name: resource.kind for name, resource in KINDS.items()}),
        title="Kind of workload",
        help="Each start becomes an object of this kind.",
        default="job",
        **_OF_KUEUE,
    )
    mode: str = option(
        choice({ARBITER_MODE: "Arbiter", SHARED_MODE: "Shared"}),
        title="Quotas",
        help="Arbiter: Kueue's quotas are wide and never hold back a job that the portal started. "
        "Shared: they are the portal's own, and hold while the portal is away too.",
        default=ARBITER_MODE,
        **_OF_KUEUE,
    )
    unlabelled: str = option(
        choice({TAKE: "Take", REFUSE: "Refuse"}),
        title="Workloads without a queue",
        help="Workloads that people create in a team's namespace without the label of a queue. "
        "Take: they join the team's queue. Refuse: they are not created; an administrator of the "
        "cluster removes its policy tidegate-take, too.",
        default=TAKE,
        **_OF_KUEUE,
    )
    pools: Mapping[str, KubernetesPool] = option(
        pools(read_pools, KubernetesPool, POOLS_MAX),
        title="Pools",
        help="The portal's pools that this cluster has, and which nodes are theirs.",
    )
    allowed_registries: tuple[str, ...] | None = option(
        described(
            _REGISTRIES, anyOf=[*constants(((None, "From anywhere"), ([], "Pools' own"))), _LISTED]
        ),
        title="Images of jobs",
        help="A pool's own image is always allowed. Listed: registries, or beginnings of paths in "
        "them.",
        example=["nvcr.io", "docker.io/pytorch"],
        default=None,
    )
    requires_digest: bool = option(
        flag(),
        name="require_digest",
        title="Images must be named with their digest (@sha256:…)",
        default=False,
    )
    log_root: str | None = option(
        optional(text(values.path)),
        title="Folder for outputs",
        help="The portal stores here what the Pods write. Without it, outputs cannot be shown.",
        example="/var/lib/tidegate/kubernetes-logs",
        default=None,
    )
    portal_url: str | None = option(
        optional(text(values.address)),
        title="Address of the portal for jobs",
        help="As Pods reach it. With it, and job-tokens.yaml applied, sbatch, squeue and the "
        "tidegate command work inside jobs. Only for workloads of kind Job. Default: they do not.",
        example="https://gpus.example.org",
        default=None,
        is_more=True,
    )
    queue: str | None = option(
        optional(text(values.queue)),
        title="Queue",
        help="Of all teams. Default: each team has its own, named as its namespace.",
        default=None,
        when={"scheduler": list(OTHER_SCHEDULERS)},
        is_more=True,
    )
    pull_secrets: tuple[str, ...] = option(
        listed(text(values.object_name), values.LIST_MAX),
        title="Pull secrets",
        help="Names of the Secrets for pulling images, in every team's namespace.",
        default=[],
        is_more=True,
    )
    service_account: str | None = option(
        optional(text(values.object_name)),
        title="Service account of the Pods",
        help="In every team's namespace. The Pods never get its token. Default: the namespace's "
        "own.",
        default=None,
        is_more=True,
    )
    run_as_user: int = option(
        whole(1, _USER_MAX),
        title="User ID of scripts",
        help="Also their group. Never 0.",
        default=RUN_AS_USER,
        is_more=True,
    )
    work_mib: int = option(
        whole(1, MIB_MAX),
        title="MiB of each rank's working directory",
        default=WORK_MIB,
        is_more=True,
    )
    shared_memory_mib: int = option(
        whole(1, MIB_MAX),
        title="MiB of each rank's /dev/shm",
        help="Never more than the rank's memory.",
        default=SHARED_MEMORY_MIB,
        is_more=True,
    )
    log_cap_bytes: int = option(
        whole(0, LOG_CAP_BYTES_MAX),
        title="Bytes of each output that are stored",
        help="Of each rank. Default: 16 MiB.",
        default=LOG_CAP_BYTES,
        is_more=True,
    )
    ray_version: str | None = option(
        optional(text(values.version)),
        title="Version of Ray",
        help="In the images of RayJobs. Default: not specified.",
        example="2.40.0",
        default=None,
        is_more=True,
    )
    manifest_objects: tuple[str, ...] = option(
        listed(choice({name: name for name in OTHER_OBJECTS}), len(OTHER_OBJECTS)),
        title="Objects in manifests",
        help="Kinds of objects in the file of a manifest that are created with its job: ConfigMap, "
        "Secret, Service. For Secrets, secrets-role.yaml is applied, too. Default: none.",
        example=["ConfigMap"],
        default=[],
        is_more=True,
        **_OF_KUEUE,
    )
    other_resources: tuple[str, ...] = option(
        listed(text(_other_resource), OTHER_RESOURCES_MAX),
        title="Resources beside GPUs",
        help="Extended resources that manifests may ask for, such as those of networks. Push the "
        "quotas afterwards, so that Kueue passes them. They count for nothing.",
        example=["rdma/hca", "vpc.amazonaws.com/efa"],
        default=[],
        is_more=True,
        **_OF_KUEUE,
    )
    exempt: tuple[str, ...] = option(
        listed(text(values.account), values.LIST_MAX),
        title="Exempt accounts",
        help="Service accounts whose objects need no queue, as in gate.yaml.",
        example=["system:serviceaccount:monitoring:agent"],
        default=[],
        is_more=True,
        **_OF_KUEUE,
    )
    operators: tuple[str, ...] = option(
        listed(text(values.account), values.LIST_MAX),
        title="Accounts of operators",
        help="Service accounts that create Jobs and Pods for objects there, as in gate.yaml. "
        "Default: those of the operators' own manifests.",
        example=["system:serviceaccount:kuberay-system:kuberay-operator"],
        default=list(OPERATORS),
        is_more=True,
        **_OF_KUEUE,
    )
    features: Mapping[str, tuple[str, str | None]] = option(
        texts_by_name(_features, **{"x-pairs": "feature=label"}),
        title="Features",
        help="The label of a feature of nodes, or label=value. Any other feature NAME is the label "
        "feature.node.kubernetes.io/NAME.",
        example={"nvlink": "nvidia.com/nvlink.present=true"},
        default={},
        is_more=True,
    )
    software: tuple[str, ...] | None = software_option()
    shared_folders: tuple[str, ...] | None = shared_folders_option()

    @property
    def resource(self) -> Resource:
        """The kind of object that a workload becomes."""
        return KINDS[self.kind] if self.scheduler == KUEUE else JOB

    @property
    def has_kueue(self) -> bool:
        """Return whether Kueue holds and admits the workloads."""
        return self.scheduler == KUEUE


def parse_options(options: Mapping[str, Any]) -> KubernetesOptions:
    """Return checked options. Raises OptionsRefused, saying what is wrong, for invalid ones.

    No file is opened.
    """
    found = KubernetesOptions(
        **read_record(KubernetesOptions, options, "unknown options of a Kubernetes cluster")
    )
    if (found.kubeconfig is None) != found.in_cluster:
        raise refusal(
            ("kubeconfig",),
            "a Kubernetes cluster has either option kubeconfig or in_cluster true",
        )
    if found.context is not None and found.in_cluster:
        raise refusal(
            ("context",), "option context must be the name of a context of the kubeconfig"
        )
    _check_scheduler(found, options)
    if found.requires_digest:
        _check_digests(found.pools)
    _check_topology(found.scheduler, found.pools)
    if found.scheduler != "yunikorn":
        return found
    # YuniKorn cannot confine a gang to one domain, so no domains may be offered.
    plain = {name: replace(pool, topology_domains={}) for name, pool in found.pools.items()}
    return replace(found, pools=plain)


def _check_scheduler(found: KubernetesOptions, options: Mapping[str, Any]) -> None:
    if found.has_kueue:
        if found.queue is not None:
            raise refusal(
                ("queue",), "option queue is of the other schedulers; with Kueue leave it out"
            )
    elif found.mode != ARBITER_MODE or "kind" in options:
        raise refusal(
            ("kind" if "kind" in options else "mode",),
            f"options kind and mode are of Kueue; leave them out with {found.scheduler}",
        )


def _check_digests(pools: Mapping[str, KubernetesPool]) -> None:
    for name, pool in pools.items():
        if pool.image is None:
            continue
        if why := _policy_refusal(parse_image(pool.image), None, requires_digest=True):
            raise refusal(("pools", name, "image"), f"option pools.{name}.image: {why}")


def _check_topology(scheduler: str, pools: Mapping[str, KubernetesPool]) -> None:
    for name, pool in pools.items():
        asked = pool.required_topology or pool.preferred_topology
        if asked is None:
            continue
        path = (
            "pools",
            name,
            "required_topology" if pool.required_topology else "preferred_topology",
        )
        if scheduler == "yunikorn":
            raise refusal(path, f"pool {name} asks for topology {asked}, and YuniKorn knows none")
        if scheduler == "kai" and pool.topology_name is None:
            raise refusal(path, f"pool {name} asks for topology {asked}: name it in topology_name")


def image_refusal(image: str, options: KubernetesOptions) -> str:
    """Return why the cluster does not run a job's `image`, and what to do; "" when it does.

    The policy covers images that users name. The pools' own images are the administrators' choice.
    """
    try:
        reference = parse_image(plain_image(image))
    except ValueError as error:
        return str(error)
    return _policy_refusal(
        reference, options.allowed_registries, requires_digest=options.requires_digest
    )


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


def portal_url(options: Mapping[str, Any], own: str) -> str:
    """Return the address of the portal for jobs on a cluster with these options.

    `own` is the installation's own address, which holds without option `portal_url`.
    """
    return str(options.get("portal_url") or own)


def takes_private_environment(options: Mapping[str, Any]) -> bool:
    """Return whether jobs may get a token for the portal on a cluster with these options.

    The cluster's admission policy knows the Secret of an attempt by the name of its Job.
    """
    return bool(options.get("portal_url")) and options.get("kind", "job") == "job"


def holds_natives(options: Mapping[str, Any]) -> bool:
    """Return whether native workloads wait for the portal on a cluster with these options."""
    return bool(options.get("scheduler", KUEUE) == KUEUE)


def unit_mgpu(options: Mapping[str, Any], pool: str) -> int:
    """Return the step of rank sizes in `pool` in milli-GPU, on a cluster with these options."""
    try:
        found = parse_options(options).pools.get(pool)
    except ValueError:
        found = None
    return WHOLE_MGPU if found is None else found.mgpu_per_unit


def _policy_refusal(
    reference: ImageReference, allowed: tuple[str, ...] | None, *, requires_digest: bool
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
