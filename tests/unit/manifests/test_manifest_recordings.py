"""Manifests as people publish them: the size of each, and whether it runs or is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manifests.findings import Verdict
from manifests.reading import read_manifest

RECORDINGS = Path(__file__).parents[2] / "recordings" / "manifests"
GPU = "nvidia.com/gpu"

#: By file: the kind, Pods with GPUs, the least of them, GPUs of each, all Pods, and if it is run.
SIZES: dict[str, tuple[str, int, int, tuple[str, int], int, bool]] = {
    "job": ("Job", 3, 3, (GPU, 1), 3, True),
    "elastic-job": ("Job", 20, 5, (GPU, 1), 20, True),
    "job-with-mig": ("Job", 1, 1, ("nvidia.com/mig-1g.10gb", 1), 1, True),
    "job-with-claim": ("Job", 1, 1, ("gpu.nvidia.com", 1), 1, True),
    "jobset-in-a-rack": ("JobSet", 8, 8, (GPU, 8), 8, True),
    "pod": ("Pod", 1, 1, (GPU, 1), 1, True),
    "pytorchjob": ("PyTorchJob", 4, 4, (GPU, 8), 4, True),
    "mpijob": ("MPIJob", 2, 2, (GPU, 4), 3, True),
    "trainjob": ("TrainJob", 2, 2, (GPU, 4), 2, True),
    "rayjob": ("RayJob", 1, 1, (GPU, 1), 3, True),
    "raycluster": ("RayCluster", 4, 2, (GPU, 2), 5, True),
    "leaderworkerset": ("JobSet", 6, 6, (GPU, 8), 6, True),
    "volcano-job": ("JobSet", 2, 2, (GPU, 1), 2, True),
    "volcano-tensorflow": ("JobSet", 2, 2, (GPU, 1), 3, True),
    "volcano-mpi": ("JobSet", 2, 2, (GPU, 8), 3, True),
    "volcano-pytorch": ("JobSet", 3, 3, (GPU, 1), 3, True),
    "cronjob": ("CronJob", 1, 1, (GPU, 1), 1, False),
    "deployment": ("Deployment", 2, 2, (GPU, 1), 2, False),
}


def recorded(name: str) -> str:
    return (RECORDINGS / f"{name}.yaml").read_text()


def test_every_recording_is_read() -> None:
    assert {path.stem for path in RECORDINGS.glob("*.yaml")} == SIZES.keys()


@pytest.mark.parametrize("name", SIZES)
def test_a_manifest_is_read_with_its_size(name: str) -> None:
    """Planted: the Pods of a JobSet without its replicas (4 in place of 8)."""
    found = read_manifest(recorded(name))
    job = found.job
    assert job is not None
    assert job.gpus is not None
    assert (
        job.kind,
        job.nodes,
        job.nodes_min,
        (job.gpus.name, job.gpus.units),
        job.ranks,
        job.is_run,
    ) == SIZES[name]
    assert found.is_accepted is job.is_run
    assert len(found.refusals) == (0 if job.is_run else 1)


def test_the_namespace_and_the_queue_are_the_portals() -> None:
    ignored: dict[str, Any] = {
        one.where: one.detail
        for name in ("pod", "job")
        for one in read_manifest(recorded(name)).findings
        if one.verdict is Verdict.IGNORED
    }
    assert ignored == {
        "document 1, Pod: metadata.namespace": "the job runs in the namespace of its team",
        "document 1, Job: metadata.labels.kueue.x-k8s.io/queue-name": "the job goes to its "
        "team's queue",
    }


def test_topology_is_read_from_the_template() -> None:
    job = read_manifest(recorded("jobset-in-a-rack")).job
    assert job is not None
    (pods,) = job.pod_sets
    assert pods.needs.required_topology == "cloud.provider.com/topology-rack"
    assert (pods.copies, pods.ranks_from) == (2, 0)
