"""The pools in the options of a Kubernetes cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connectors.kubernetes.options import option_values as values
from connectors.kubernetes.options.images import parse_image
from connectors.kubernetes.options.option_values import GPU_RESOURCE
from connectors.options import (
    Path,
    declared_names,
    device_kind,
    listed,
    option,
    optional,
    read_record,
    refusal,
    text,
    texts_by_name,
    whole,
    without_null_device,
)
from connectors.protocol import TOPOLOGY_LEVELS
from primitives.units import DeviceKind

CPU_RESOURCE = "cpu"
WHOLE_MGPU = 1_000
#: The label of every node that is a domain of its own.
HOST_LABEL = "kubernetes.io/hostname"
MIB_MAX = 1 << 30
POOLS_MAX = 100
#: Terms of a node selector that every Pod of a pool of cores may get.
TERMS_MAX = 32

_CPUS_MAX = 1_024
_LEVELS_MAX = 16
_POOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}", re.ASCII)
_OF_GPUS: dict[str, Any] = {"when": {"device": [None]}}
_OF_CORES: dict[str, Any] = {"when": {"device": [DeviceKind.CPU]}}


def _image(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"option {option} must be a container image")
    try:
        parse_image(value)
    except ValueError as error:
        raise ValueError(f"option {option}: {error}") from None
    return value


def _domains(option: str, value: object) -> Mapping[str, str]:
    """Return the labels by level; `_named_domains` checks the labels."""
    if not isinstance(value, Mapping) or not set(value) <= set(TOPOLOGY_LEVELS):
        pool = option.split(".")[1]
        raise ValueError(
            f"topology_domains of pool {pool} must give some of {', '.join(TOPOLOGY_LEVELS)} a "
            "label of topology_levels each, no two the same"
        )
    return dict(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesPool:
    """The description of a pool on the cluster. The order of the fields is that of forms.

    If `device` is a core, `resource` is Kubernetes' own CPU resource, and the values `per_gpu` are
    per core.
    """

    name: str
    image: str | None = option(
        optional(text(_image)),
        title="Image",
        help="Of jobs that name none. Without it, each job must name one.",
        example="nvcr.io/nvidia/pytorch:24.05-py3",
        default=None,
    )
    node_selector: Mapping[str, str] = option(
        texts_by_name(values.node_selector, **{"x-pairs": "label=value"}),
        title="Labels of its nodes",
        help="Its nodes have them and its Pods ask for them. Only the single pool of a cluster, of "
        "GPUs, may have none.",
        example={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        default={},
    )
    device: DeviceKind = option(device_kind(), title="Devices", default=None)
    flavor: str = option(
        optional(text(values.object_name)),
        title="Flavor",
        help="Its ResourceFlavor. Default: the pool's name.",
        default=None,
        is_more=True,
    )
    resource: str = option(
        text(values.resource),
        title="Resource",
        help="The extended resource of its GPUs; a MIG profile has another one.",
        default=GPU_RESOURCE,
        is_more=True,
        **_OF_GPUS,
    )
    mgpu_per_unit: int = option(
        whole(1, WHOLE_MGPU),
        title="Milli-GPU per unit",
        help="Of that resource: the step of rank sizes.",
        default=WHOLE_MGPU,
        is_more=True,
        **_OF_GPUS,
    )
    device_class: str | None = option(
        optional(text(values.object_name)),
        title="Device class",
        help="GPUs are claimed from it (dynamic resource allocation) instead of the resource.",
        default=None,
        is_more=True,
        **_OF_GPUS,
    )
    cpu_per_gpu: int | None = option(
        optional(whole(1, _CPUS_MAX)),
        title="Cores per GPU",
        help="Default: none are requested.",
        default=None,
        is_more=True,
        **_OF_GPUS,
    )
    memory_mib_per_gpu: int | None = option(
        optional(whole(1, MIB_MAX)),
        title="MiB of memory per GPU",
        help="It is also the limit. Default: none is requested, and there is no limit.",
        default=None,
        is_more=True,
        **_OF_GPUS,
    )
    memory_mib_per_core: int | None = option(
        optional(whole(0, MIB_MAX)),
        title="MiB of memory per core",
        help="It is also the limit. Default: none is requested, and there is no limit.",
        default=None,
        is_more=True,
        **_OF_CORES,
    )
    reserved_cpu_milli: int = option(
        whole(0, MIB_MAX),
        title="Reserved milli-cores of each node",
        help="For the node's own services (Pods of DaemonSets); jobs never get them.",
        default=0,
        is_more=True,
        **_OF_CORES,
    )
    topology_name: str | None = option(
        optional(text(values.object_name)),
        title="Topology",
        help="Its levels are those below.",
        default=None,
        is_more=True,
        **_OF_GPUS,
    )
    topology_levels: tuple[str, ...] = option(
        listed(text(values.label_key), values.LIST_MAX),
        title="Levels of the topology",
        help="Labels, from the widest to the narrowest.",
        example=["cloud.provider.com/topology-block", "kubernetes.io/hostname"],
        default=[],
        is_more=True,
        **_OF_GPUS,
    )
    topology_domains: Mapping[str, str] = option(
        optional(texts_by_name(_domains, **{"x-pairs": "level=label"})),
        title="Names of the levels in jobs",
        help="The labels of block, rack and nvlink. Default: the first label is the block, the "
        "second the rack.",
        example={"block": "cloud.provider.com/topology-block"},
        default=None,
        is_more=True,
        **_OF_GPUS,
    )
    required_topology: str | None = option(
        optional(text(values.label_key)),
        title="Required level",
        help="All ranks of a job share one domain of this label. Volcano: a tier of its "
        "HyperNodes. YuniKorn supports none.",
        example="cloud.provider.com/topology-block",
        default=None,
        is_more=True,
        **_OF_GPUS,
    )
    preferred_topology: str | None = option(
        optional(text(values.label_key)),
        title="Preferred level",
        help="The same, where possible. A pool has at most one of the two.",
        example="cloud.provider.com/topology-block",
        default=None,
        is_more=True,
        **_OF_GPUS,
    )
    tolerations: tuple[Mapping[str, str], ...] = option(
        listed(values.TOLERATION, values.LIST_MAX),
        title="Tolerations",
        help="Of its Pods.",
        default=[],
        is_more=True,
    )
    runtime_class: str | None = option(
        optional(text(values.object_name)),
        title="Runtime class",
        help="Of its Pods. Default: the cluster's own.",
        default=None,
        is_more=True,
    )


_CORES_ONLY = frozenset({"device", "memory_mib_per_core", "reserved_cpu_milli"})
_GPUS_KNOWN = declared_names(KubernetesPool) - _CORES_ONLY
_CORES_KNOWN = _CORES_ONLY | {"flavor", "node_selector", "tolerations", "image", "runtime_class"}


def read_pools(path: Path, value: object) -> Mapping[str, KubernetesPool]:
    """Return the checked pools by name. Raises OptionsRefused."""
    if not isinstance(value, Mapping) or not 1 <= len(value) <= POOLS_MAX:
        raise refusal(
            path,
            'option pools must be like {"h100": {"node_selector": {"nvidia.com/gpu.product": '
            '"NVIDIA-H100-80GB-HBM3"}}}',
        )
    pools = {name: _pool((*path, str(name)), name, each) for name, each in value.items()}
    flavors = [pool.flavor for pool in pools.values()]
    if len(set(flavors)) != len(flavors):
        raise refusal(path, "two pools have the same flavor; one kind of device is one pool")
    # Only these two assign nodes and foreign Pods to pools.
    places = {
        (tuple(sorted(pool.node_selector.items())), pool.device_class or pool.resource)
        for pool in pools.values()
    }
    if len(places) != len(pools):
        raise refusal(
            path,
            "two pools have the same node_selector and resource, so that nobody can tell their "
            "nodes apart",
        )
    for pool in pools.values():
        if pool.device is DeviceKind.CPU:
            try:
                not_on_gpus(pool, pools)
            except ValueError as error:
                raise refusal(path, str(error)) from None
    return pools


def _pool(path: Path, name: object, given: object) -> KubernetesPool:
    if not isinstance(name, str) or not values.matches(_POOL, name):
        raise refusal(path, f"{name!r} is no name of a pool: use letters, digits, '.', '_', '-'")
    if isinstance(given, Mapping):
        given = without_null_device(given)
    _refuse_unknown(path, name, given)
    assert isinstance(given, Mapping)
    found = read_record(KubernetesPool, given, "unknown option of a pool", path)
    has_cores = found["device"] is DeviceKind.CPU
    if has_cores:
        found["resource"] = CPU_RESOURCE
        found["memory_mib_per_gpu"] = found["memory_mib_per_core"] or None
    found["flavor"] = found["flavor"] or values.object_name(f"pools.{name}.flavor", name)
    pool = KubernetesPool(name=name, **found)
    if has_cores and not pool.node_selector:
        raise refusal(
            (*path, "node_selector"),
            f"pool {name} of CPU cores needs a node_selector: every node has cores, and only some "
            "of them are meant",
        )
    if pool.device_class is not None and "resource" in given:
        raise refusal(
            (*path, "device_class"), f"pool {name} has either resource or device_class, not both"
        )
    _check_topology(path, pool)
    return replace(pool, topology_domains=_named_domains(path, pool))


def _refuse_unknown(path: Path, name: str, given: object) -> None:
    """Raise OptionsRefused for options that a pool of these devices does not have."""
    if isinstance(given, Mapping) and "device" in given:
        if given["device"] != DeviceKind.CPU or set(given) - _CORES_KNOWN:
            raise refusal(
                (*path, "device"),
                f'pool {name} has device "cpu" beside '
                f"{', '.join(sorted(_CORES_KNOWN - {'device'}))}, nothing else"
                f"{_but_not(given, _CORES_KNOWN)}; a pool of GPUs has no device but a resource",
            )
    elif not isinstance(given, Mapping) or set(given) - _GPUS_KNOWN:
        raise refusal(
            path,
            f"pool {name} has {', '.join(sorted(_GPUS_KNOWN))}, nothing else"
            f"{_but_not(given, _GPUS_KNOWN)}",
        )


def _but_not(settings: object, known: frozenset[str]) -> str:
    """Return the unknown options as the end of a sentence that lists the known ones."""
    if not isinstance(settings, Mapping):
        return ""
    unknown = sorted(str(option)[:100] for option in settings if option not in known)
    if not unknown:
        return ""
    cores = any(option in _CORES_KNOWN - _GPUS_KNOWN for option in unknown)
    hint = '; that is for a pool with "device": "cpu"' if cores and known is _GPUS_KNOWN else ""
    return f" (not {', '.join(unknown[:10])}{hint})"


def _check_topology(path: Path, pool: KubernetesPool) -> None:
    name, levels = pool.name, pool.topology_levels
    if pool.required_topology is not None and pool.preferred_topology is not None:
        raise refusal(
            (*path, "preferred_topology"),
            f"pool {name} has either required_topology or preferred_topology, not both",
        )
    has_one = (pool.topology_name is None) != (not levels)
    if has_one or len(levels) > _LEVELS_MAX or len(set(levels)) < len(levels):
        raise refusal(
            (*path, "topology_levels"),
            f"pool {name} has both topology_name and topology_levels, up to {_LEVELS_MAX} "
            "different labels from the widest to the narrowest, or neither",
        )
    asked = pool.required_topology or pool.preferred_topology
    if asked is not None and levels and asked not in levels:
        raise refusal(
            (*path, "required_topology" if pool.required_topology else "preferred_topology"),
            f"pool {name} asks for topology {asked}, which topology_levels do not have",
        )


def _named_domains(path: Path, pool: KubernetesPool) -> Mapping[str, str]:
    """Return by level the label with a node's domain."""
    levels, given = pool.topology_levels, pool.topology_domains
    if given is None:
        labels = [label for label in levels if label != HOST_LABEL]
        return dict(zip(("block", "rack"), labels, strict=False))
    if not all(label in levels for label in given.values()) or len(set(given.values())) < len(
        given
    ):
        raise refusal(
            (*path, "topology_domains"),
            f"topology_domains of pool {pool.name} must give some of {', '.join(TOPOLOGY_LEVELS)} "
            "a label of topology_levels each, no two the same",
        )
    return {level: str(given[level]) for level in TOPOLOGY_LEVELS if level in given}


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
