"""The ConfigMap with which the Pods of a manifest job find each other. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connectors.kubernetes.manifests.pod_template import metadata
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import CONFIG_MAP
from connectors.protocol import Workload
from manifests.jobs import ManifestJob


def host_files_name(workload: Workload) -> str:
    """Return the name of the ConfigMap of an attempt."""
    return f"{naming.workload_name(workload.key)}-hosts"


def host_files(
    workload: Workload, cluster_id: str, job: ManifestJob, renamed: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Return the ConfigMap with the files of `job`, if it has some.

    `renamed` writes the names that the Pods of the attempt have.
    """
    if not job.host_files:
        return []
    return [
        {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": metadata(workload, cluster_id, name=host_files_name(workload)),
            "immutable": True,
            "data": {file: renamed(text) for file, text in job.host_files.items()},
        }
    ]
