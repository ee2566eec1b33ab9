"""A workload as a JobSet. Ranks may differ: consecutive ranks of one size are one of its Jobs."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.manifests.job import INDEX_FIELD, job_spec
from connectors.kubernetes.manifests.pod_template import (
    TTL_S,
    Ranks,
    kueue_labels,
    metadata,
    pod_template,
)
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import JOBSET
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import Workload

#: Kueue's limit of Pod sets in one workload.
GROUPS_MAX = 18


def jobset(workload: Workload, options: KubernetesOptions, cluster_id: str) -> dict[str, Any]:
    """Return the suspended JobSet in its team's queue.

    Raises WorkloadRejected for ranks whose sizes change too often.
    """
    name = naming.workload_name(workload.key)
    sizes = [(mgpu, len(list(same))) for mgpu, same in groupby(s.mgpu for s in workload.slots)]
    if len(sizes) > GROUPS_MAX:
        raise WorkloadRejected(
            f"the ranks change their size {len(sizes) - 1} times, and this cluster takes at most "
            f"{GROUPS_MAX} groups of equal ranks; ask for as many GPUs on each node"
        )
    # The JobSet's own headless Service is named as it is.
    master = f"{name}-{_group(0)}-0-0.{name}" if len(workload.slots) > 1 else "127.0.0.1"
    jobs: list[dict[str, Any]] = []
    first = 0
    for number, (mgpu, count) in enumerate(sizes):
        template = pod_template(
            workload, options, cluster_id, Ranks(mgpu, master, INDEX_FIELD, first)
        )
        jobs.append(
            {
                "name": _group(number),
                "replicas": 1,
                "template": {"spec": job_spec(workload, count, template)},
            }
        )
        first += count
    return {
        "apiVersion": JOBSET.api_version,
        "kind": JOBSET.kind,
        "metadata": metadata(workload, cluster_id, labels=kueue_labels(workload)),
        "spec": {
            "suspend": True,
            "ttlSecondsAfterFinished": TTL_S,
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "replicatedJobs": jobs,
        },
    }


def _group(number: int) -> str:
    return f"w{number}"
