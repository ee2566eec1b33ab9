"""Translates a workload into objects of a Kubernetes cluster, by its options. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.manifests.asking import asked_for
from connectors.kubernetes.manifests.job import job, service_name
from connectors.kubernetes.manifests.jobset import jobset
from connectors.kubernetes.manifests.mpijob import mpijob
from connectors.kubernetes.manifests.other_schedulers import pod_group, scheduled_job
from connectors.kubernetes.manifests.pod_template import (
    claim_template_name,
    has_secret,
    kueue_labels,
    metadata,
    pool_of,
    units,
)
from connectors.kubernetes.manifests.pytorchjob import pytorchjob
from connectors.kubernetes.manifests.rayjob import rayjob
from connectors.kubernetes.manifests.scripts import script_data
from connectors.kubernetes.manifests.submitted_manifest import manifest_objects
from connectors.kubernetes.manifests.trainjob import training_runtime, trainjob
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import CLAIM_TEMPLATE, CONFIG_MAP, SECRET, SERVICE
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import Workload
from connectors.workload_checks import check_workload

#: etcd accepts requests of 1.5 MiB. Later additions to the object need space too.
MANIFEST_BYTES_MAX = 5 << 18
#: All values of a ConfigMap, by Kubernetes itself.
SCRIPT_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class WorkloadObjects:
    """The objects of a workload.

    `main` is the workload, suspended. `others` are created after it, each with `owned`, so that
    they are deleted with it. `before` must exist when `main` is created; afterwards `owner_patch`
    makes them its dependents too. `secret` is one of the dependents, without which it runs, too:
    the private variables of its script.
    """

    main: Mapping[str, Any]
    others: tuple[Mapping[str, Any], ...]
    before: tuple[Mapping[str, Any], ...] = ()
    secret: Mapping[str, Any] | None = None


def objects_for(
    workload: Workload, options: KubernetesOptions, *, cluster_id: str
) -> WorkloadObjects:
    """Return the objects of `workload` on the cluster that we know as `cluster_id`.

    The same workload always gives the same objects. Raises WorkloadRejected, saying what to change,
    for a workload that this cluster can never run.
    """
    check_workload(workload, takes_manifests=True)
    if workload.is_manifest:
        return WorkloadObjects(*manifest_objects(workload, options, cluster_id))
    others = (
        _script(workload, cluster_id),
        *_claim_templates(workload, options, cluster_id),
    )
    secret = _secret(workload, cluster_id) if has_secret(workload, options) else None
    if not options.has_kueue:
        return WorkloadObjects(
            scheduled_job(workload, options, cluster_id),
            (
                *others,
                *_service(workload, cluster_id),
                *pod_group(workload, options, cluster_id),
            ),
            secret=secret,
        )
    made = _of_kueue(workload, options, cluster_id, others)
    # Before the start, this is compared with the request that Kueue counts then.
    annotations = {
        **made.main["metadata"]["annotations"],
        naming.ASKED: asked_for(workload, options),
    }
    main = {**made.main, "metadata": {**made.main["metadata"], "annotations": annotations}}
    return replace(made, main=main, secret=secret)


def _of_kueue(
    workload: Workload,
    options: KubernetesOptions,
    cluster_id: str,
    others: tuple[Mapping[str, Any], ...],
) -> WorkloadObjects:
    match options.kind:
        case "jobset":
            return WorkloadObjects(jobset(workload, options, cluster_id), others)
        case "trainjob":
            runtime = training_runtime(workload, options, cluster_id)
            return WorkloadObjects(trainjob(workload, cluster_id), others, (runtime,))
        case "pytorchjob":
            return WorkloadObjects(pytorchjob(workload, options, cluster_id), others)
        case "mpijob":
            return WorkloadObjects(mpijob(workload, options, cluster_id), others)
        case "rayjob":
            return WorkloadObjects(rayjob(workload, options, cluster_id), others)
        case _:
            main = job(workload, options, cluster_id, labels=kueue_labels(workload))
            return WorkloadObjects(main, (*others, *_service(workload, cluster_id)))


def check_manifest_sizes(objects: WorkloadObjects) -> None:
    """Raise WorkloadRejected for objects that the API server could not store."""
    for item in (*objects.before, objects.main, *objects.others):
        if item["kind"] == CONFIG_MAP.kind:
            is_script = item["metadata"]["name"] == objects.main["metadata"]["name"]
            what = "the script has" if is_script else "a ConfigMap of the file has"
            limit = SCRIPT_BYTES_MAX
            groups = (item.get(name) or {} for name in ("data", "binaryData"))
            texts = [value for group in groups for value in group.values()]
            size = sum(len(text.encode()) for text in texts)
        else:
            what, limit = f"its {item['kind']} would have", MANIFEST_BYTES_MAX
            size = len(json.dumps(item, ensure_ascii=False).encode())
        if size > limit:
            raise WorkloadRejected(
                f"{what} {size} bytes, and a Kubernetes cluster stores {limit} at most; make the "
                "script and the values of environment variables shorter, and have them read what "
                "is long from storage"
            )


def owned(item: Mapping[str, Any], main: Mapping[str, Any]) -> dict[str, Any]:
    """Return `item` as a dependent of `main`, which has its uid from the API server."""
    patch = owner_patch(main)
    return {**item, "metadata": {**item["metadata"], **patch["metadata"]}}


def owner_patch(main: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that makes an object a dependent of `main`, which has its uid."""
    owner = {
        "apiVersion": main["apiVersion"],
        "kind": main["kind"],
        "name": main["metadata"]["name"],
        "uid": main["metadata"]["uid"],
    }
    return {"metadata": {"ownerReferences": [owner]}}


def _script(workload: Workload, cluster_id: str) -> dict[str, Any]:
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": metadata(workload, cluster_id),
        "immutable": True,
        **script_data(workload),
    }


def _secret(workload: Workload, cluster_id: str) -> dict[str, Any]:
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": metadata(workload, cluster_id, name=naming.token_name(workload.key)),
        "immutable": True,
        "stringData": dict(workload.private_environment),
    }


def _service(workload: Workload, cluster_id: str) -> tuple[dict[str, Any], ...]:
    """Return the headless Service that gives the ranks of a gang their names."""
    name = service_name(workload)
    if name is None:
        return ()
    service = {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": metadata(workload, cluster_id, name=name),
        "spec": {
            "clusterIP": "None",
            # Ranks look for rank 0 while it starts.
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": name},
        },
    }
    return (service,)


def _claim_templates(
    workload: Workload, options: KubernetesOptions, cluster_id: str
) -> tuple[dict[str, Any], ...]:
    pool = pool_of(workload, options)
    if pool.device_class is None:
        return ()
    sizes = sorted({slot.mgpu for slot in workload.slots if slot.mgpu})
    return tuple(
        {
            "apiVersion": CLAIM_TEMPLATE.api_version,
            "kind": CLAIM_TEMPLATE.kind,
            "metadata": metadata(workload, cluster_id, name=claim_template_name(workload, mgpu)),
            "spec": {
                "spec": {
                    "devices": {
                        "requests": [
                            {
                                "name": "gpus",
                                "exactly": {
                                    "deviceClassName": pool.device_class,
                                    "allocationMode": "ExactCount",
                                    "count": units(mgpu, pool),
                                },
                            }
                        ]
                    }
                }
            },
        }
        for mgpu in sizes
    )
