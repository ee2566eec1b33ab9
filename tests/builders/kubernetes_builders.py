"""Options of Kubernetes clusters, and workloads of every kind that they can run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from builders.connector_builders import a_workload
from connectors.kubernetes.options.options import KubernetesOptions, parse_options
from connectors.protocol import RankSlot, Workload

CLUSTER_ID = "0197a8c0-0000-7000-8000-000000000001"
IMAGE = "docker.io/pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime"
BLOCK = "cloud.provider.com/topology-block"
RACK = "cloud.provider.com/topology-rack"

#: One pool, as small as options can be that run what names no image.
POOL: Mapping[str, Any] = {
    "node_selector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    "image": IMAGE,
}


def a_pool_with(**settings: Any) -> dict[str, Any]:
    return {**POOL, **settings}


def kubernetes_options(*, pool: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Options as an administrator writes them."""
    pools = {"h100": dict(POOL if pool is None else pool)}
    return {"kubeconfig": "/etc/tidegate/gpu-1.kubeconfig", "pools": pools} | changes


def some_options(**changes: Any) -> KubernetesOptions:
    """The same, checked."""
    return parse_options(kubernetes_options(**changes))


def a_kube_workload(script: str = "echo hello", **changes: Any) -> Workload:
    """A workload of team ai-company/research/nlp whose key is always the same."""
    own = ("features", "image", "name", "required_topology", "preferred_topology")
    extra = {name: changes.pop(name) for name in own if name in changes}
    workload = a_workload(
        script,
        **{
            "key": "tg-0197a8c0-1111-7222-8333-444444444444",
            "team": "ai-company/research/nlp",
            "mgpu": 8000,
        }
        | changes,
    )
    return replace(workload, **extra)


@dataclass(frozen=True)
class ManifestCase:
    """A workload and the cluster that it is for."""

    name: str
    workload: Workload
    options: KubernetesOptions


def manifest_cases() -> Iterator[ManifestCase]:
    """Every kind and scheduler, alone and as a gang, and what pools can ask for."""
    alone = a_kube_workload()
    gang = a_kube_workload(ranks=4, time_limit_s=3600, grace_s=60, notice_signal="USR1")
    uneven = a_kube_workload(slots=tuple(RankSlot("", mgpu) for mgpu in (8000, 8000, 4000)))
    for kind in ("job", "jobset", "trainjob", "pytorchjob", "mpijob", "rayjob"):
        options = some_options(kind=kind)
        yield ManifestCase(f"{kind}-single", alone, options)
        yield ManifestCase(f"{kind}-gang", gang, options)
    yield ManifestCase("jobset-uneven", uneven, some_options(kind="jobset"))
    for scheduler in ("volcano", "kai", "yunikorn"):
        pool = a_pool_with(cpu_per_gpu=12, memory_mib_per_gpu=131_072)
        options = some_options(scheduler=scheduler, pool=pool)
        yield ManifestCase(f"{scheduler}-gang", gang, options)
    borrowed = replace(gang, is_borrowed=True)
    rack = {"topology_name": "fabric", "topology_levels": [BLOCK, RACK]}
    for scheduler in ("volcano", "kai"):
        wish = some_options(
            scheduler=scheduler, queue="shared", pool=a_pool_with(preferred_topology=RACK, **rack)
        )
        yield ManifestCase(f"{scheduler}-topology", borrowed, wish)
    topology = some_options(pool=a_pool_with(required_topology=BLOCK, **rack))
    yield ManifestCase("job-topology", borrowed, topology)
    mig = a_pool_with(resource="nvidia.com/mig-1g.10gb", mgpu_per_unit=125)
    yield ManifestCase("job-mig", a_kube_workload(mgpu=250), some_options(pool=mig))
    devices = some_options(pool=a_pool_with(device_class="gpu.nvidia.com"))
    yield ManifestCase("job-devices", gang, devices)
    cores = {
        "device": "cpu",
        "node_selector": {"example.com/pool": "batch"},
        "image": IMAGE,
        "memory_mib_per_core": 2_000,
    }
    planned = a_kube_workload(slots=(RankSlot("c-1", 6_000), RankSlot("c-0", 6_000)))
    yield ManifestCase("job-cores", planned, some_options(pool=cores))
    yield ManifestCase("yunikorn-cores", planned, some_options(scheduler="yunikorn", pool=cores))
    yield ManifestCase("job-everything", *_everything())


def _everything() -> tuple[Workload, KubernetesOptions]:
    workload = a_kube_workload(
        "#!/usr/bin/env python3\nprint('$(HOME) $HOME')\n",
        ranks=2,
        environment={"A": "$(HOME) $HOME $$", "B": "x\ny"},
        features=("infiniband", "nvlink"),
        image="ghcr.io/acme/train@sha256:" + "0" * 64,
        grace_s=0,
        is_borrowed=True,
    )
    pool = a_pool_with(
        image=f"{IMAGE}@sha256:{'1' * 64}",
        tolerations=[
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "tier", "value": "research"},
        ],
        cpu_per_gpu=12,
        memory_mib_per_gpu=131_072,
        runtime_class="nvidia",
    )
    options = some_options(
        pool=pool,
        allowed_registries=["ghcr.io/acme"],
        require_digest=True,
        features={"infiniband": "example.com/fabric=infiniband"},
        pull_secrets=["ghcr"],
        service_account="jobs",
        run_as_user=10_001,
    )
    return workload, options
