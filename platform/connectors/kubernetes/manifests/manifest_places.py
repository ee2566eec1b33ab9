"""Where a manifest that a person wrote may run: its pool, images and topology, by the options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connectors.kinds import ManifestPlace
from connectors.kubernetes.objects.resources import OTHER_SCHEDULERS
from connectors.kubernetes.options.options import KubernetesOptions, image_refusal, parse_options
from connectors.kubernetes.options.pools import HOST_LABEL, KubernetesPool
from manifests.devices import Gpus
from manifests.jobs import ManifestJob

_LISTED_MAX = 10


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
    if why := _device_refusal(pool, gpus) or _selector_refusal(pool, job):
        return ManifestPlace(why)
    for pods in job.pod_sets:
        for image in pods.needs.images:
            if why := image_refusal(image, options):
                return ManifestPlace(why)
    if secret := next(_secrets_in(job.document.value, frozenset(options.pull_secrets)), None):
        return ManifestPlace(f"the Secret {secret} is for pulling images only; name another")
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
