"""Where a manifest that a person wrote may run: its pool, images and topology, by the options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connectors.kinds import ManifestPlace
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import OTHER_SCHEDULERS
from connectors.kubernetes.options.options import KubernetesOptions, image_refusal, parse_options
from connectors.kubernetes.options.pools import HOST_LABEL, KubernetesPool
from connectors.workload_checks import RESERVED_ENVIRONMENT
from manifests.devices import Gpus, is_of_gpus
from manifests.jobs import ManifestJob

_LISTED_MAX = 10
#: Parts of a Pod that name a ConfigMap or a Secret.
_SOURCES = frozenset(
    {
        *("configMap", "configMapRef", "configMapKeyRef", "imagePullSecrets"),
        *("secret", "secretRef", "secretKeyRef"),
    }
)
#: Variables with which Pods find each other. The portal sets them for scripts; a manifest has its
#: own.
_OWN_ENVIRONMENT = frozenset(
    {
        *("LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "RANK"),
        "WORLD_SIZE",
    }
)


def runs_manifests(options: Mapping[str, Any]) -> bool:
    """Return whether a cluster with these options, which may be invalid, runs manifests."""
    return options.get("scheduler") not in OTHER_SCHEDULERS


def place_manifest(options: Mapping[str, Any], pool: str, job: ManifestJob) -> ManifestPlace:
    """Return how a cluster with these options runs `job` in `pool`, or why it does not."""
    try:
        checked = parse_options(options)
    except ValueError:
        return ManifestPlace("its options are invalid")
    return place_on(checked, pool, job)


def place_on(options: KubernetesOptions, name: str, job: ManifestJob) -> ManifestPlace:
    """Return the same for checked options."""
    pool = options.pools.get(name)
    gpus = job.gpus
    if not options.has_kueue:
        return ManifestPlace("only Kueue holds manifests until they start, and it has none")
    if pool is None or gpus is None:
        return ManifestPlace(f"it has no pool {name[:60]}")
    if why := (
        _device_refusal(pool, gpus)
        or _other_device_refusal(pool, job, frozenset(options.other_resources))
        or _way_to_gpus_refusal(pool, job)
        or _selector_refusal(pool, job)
    ):
        return ManifestPlace(why)
    for pods in job.pod_sets:
        for image in pods.needs.images:
            if why := image_refusal(image, options):
                return ManifestPlace(why)
    if others := job.kinds_of_others - frozenset(options.manifest_objects):
        return ManifestPlace(
            f"it takes no {min(others)} beside a job; create it in the team's namespace with "
            "kubectl, or have an administrator add the kind to the cluster's option "
            "manifest_objects"
        )
    if secret := next(_secrets_in(job.document.value, frozenset(options.pull_secrets)), None):
        return ManifestPlace(f"the Secret {secret} is for pulling images only; name another")
    if own := next(_own_objects_in(job.document.value), None):
        return ManifestPlace(f"{own[:100]} is an object of the portal; name another")
    needs = job.holders[0].needs
    required, preferred = needs.required_topology, needs.preferred_topology
    for label in filter(None, (required, preferred)):
        if label not in pool.topology_levels:
            listed = ", ".join(pool.topology_levels[:_LISTED_MAX]) or "none"
            return ManifestPlace(
                f"pool {pool.name} has no topology level {label[:100]}; it has {listed}"
            )
    return ManifestPlace(
        "",
        required_topology=_level_of(pool, required),
        preferred_topology=None if required else _level_of(pool, preferred),
    )


def _device_refusal(pool: KubernetesPool, gpus: Gpus) -> str:
    if gpus.is_claim:
        if pool.device_class == gpus.name:
            return ""
        return f"pool {pool.name} has no device class {gpus.name[:100]}"
    if pool.device_class is not None:
        return (
            f"the GPUs of pool {pool.name} are claimed from device class {pool.device_class}, and "
            f"the manifest asks for {gpus.name[:100]}"
        )
    if pool.resource != gpus.name:
        return f"pool {pool.name} has {pool.resource}, and the manifest asks for {gpus.name[:100]}"
    return ""


def _other_device_refusal(pool: KubernetesPool, job: ManifestJob, passed: frozenset[str]) -> str:
    """Return why the pool has not all devices of `job`.

    Quotas count those of the pool only. The resources in `passed`, such as networks, are free.
    """
    is_claimed = pool.device_class is not None
    resources = frozenset(name for pods in job.pod_sets for name in pods.needs.devices)
    if others := resources - passed - (frozenset() if is_claimed else {pool.resource}):
        name = min(others)
        advice = "leave the resource out"
        if not is_of_gpus(name):
            advice += ", or have an administrator add it to the cluster's option other_resources"
        return f"pool {pool.name} gives its jobs no {name[:100]}; {advice}"
    if others := job.device_classes - {pool.device_class}:
        return f"pool {pool.name} has no device class {min(others)[:100]}"
    return ""


def _way_to_gpus_refusal(pool: KubernetesPool, job: ManifestJob) -> str:
    """Return why `job` might reach GPUs that it does not ask for."""
    for pods in job.pod_sets:
        chosen = {name for name in pods.needs.variables if _chooses_devices(name)}
        if chosen:
            return f"{min(chosen)[:100]} is set by the cluster; remove it from env"
        wanted = pods.needs.runtime_class
        own = pool.runtime_class if pods.needs.gpus is not None else None
        if wanted not in (None, own):
            return f"pool {pool.name} sets runtimeClassName itself; leave {wanted[:100]} out"
    return ""


def _chooses_devices(variable: str) -> bool:
    is_reserved = variable in RESERVED_ENVIRONMENT and variable not in _OWN_ENVIRONMENT
    return is_reserved or variable.endswith("_VISIBLE_DEVICES")


def _selector_refusal(pool: KubernetesPool, job: ManifestJob) -> str:
    for pods in job.holders:
        for label, value in pods.needs.node_selector.items():
            if pool.node_selector.get(label, value) != value:
                return (
                    f"nodes of pool {pool.name} have {label}={pool.node_selector[label]}, and the "
                    f"manifest selects {value[:100]}"
                )
    return ""


def _level_of(pool: KubernetesPool, label: str | None) -> str | None:
    """Return the level of the portal that has this label; None where it has no such name."""
    if label is None:
        return None
    if label == HOST_LABEL:
        return "node"
    return next((level for level, one in pool.topology_domains.items() if one == label), None)


def _own_objects_in(value: Any) -> Iterator[str]:
    """Yield the ConfigMaps and Secrets of the portal, such as scripts of jobs, that a Pod reads."""
    if isinstance(value, list):
        for one in value:
            yield from _own_objects_in(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            named = [one] if isinstance(one, dict) else one if isinstance(one, list) else []
            if key in _SOURCES:
                for source in named:
                    if isinstance(source, dict):
                        names = (source.get("name"), source.get("secretName"))
                        yield from (str(name) for name in names if naming.is_own_name(name))
            yield from _own_objects_in(one)


def _secrets_in(value: Any, names: frozenset[str]) -> Iterator[str]:
    """Yield those of `names` that a part of a Pod mounts or reads as a Secret."""
    if isinstance(value, list):
        for one in value:
            yield from _secrets_in(one, names)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key == "secretName" and isinstance(one, str) and one in names:
                yield one
            elif (
                key in ("secret", "secretRef", "secretKeyRef")
                and isinstance(one, dict)
                and (name := one.get("name")) in names
            ):
                yield str(name)
            yield from _secrets_in(one, names)
