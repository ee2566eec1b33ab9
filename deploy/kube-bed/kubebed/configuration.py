"""The servers' configuration files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kubebed.keys import write
from kubebed.settings import HOST, Settings

PORTAL_NAMESPACE = "tidegate-system"
PORTAL_ACCOUNT = "portal"


def write_configuration(settings: Settings) -> None:
    """NAME.yaml for each server that reads one, and the API server's audit policy."""
    makers: dict[str, Callable[[Settings], dict[str, Any]]] = {
        "scheduler": _scheduler,
        "kueue": _kueue,
        "jobset": _jobset,
        "audit": _audit,
    }
    for name, make in makers.items():
        write(settings.conf / f"{name}.yaml", yaml.safe_dump(make(settings)))
    # The Training Operator's own waits for the master's name; a Pod of the bed has one container.
    write(init_containers(settings), "[]\n")


def init_containers(settings: Settings) -> Path:
    """The template of what the workers of a PyTorchJob run first."""
    return settings.conf / "init-containers.yaml"


def _scheduler(settings: Settings) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(settings.kubeconfig("scheduler")),
            "qps": 500,
            "burst": 1000,
        },
        "leaderElection": {"leaderElect": False},
    }


def _kueue(settings: Settings) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": f"{HOST}:{settings.port('kueue-health')}"},
        "metrics": {
            "bindAddress": f"{HOST}:{settings.port('kueue-metrics')}",
            "enableClusterQueueResources": True,
        },
        "webhook": _webhook(settings, "kueue"),
        "leaderElection": {"leaderElect": False},
        # Off, Kueue wants metrics certificates in a fixed system folder and ends without them; on,
        # it takes those of a Secret that is there before it starts.
        "internalCertManagement": {"enable": True},
        # Its server wants a folder in the root of the file system.
        "featureGates": {"VisibilityOnDemand": False},
        "clientConnection": {"qps": 300, "burst": 500},
        "controller": {
            "groupKindConcurrency": {
                "Job.batch": 5,
                "Pod": 5,
                "Workload.kueue.x-k8s.io": 10,
                "LocalQueue.kueue.x-k8s.io": 5,
                "Cohort.kueue.x-k8s.io": 1,
                "ClusterQueue.kueue.x-k8s.io": 5,
                "ResourceFlavor.kueue.x-k8s.io": 1,
            }
        },
        "manageJobsWithoutQueueName": False,
        "integrations": {
            "frameworks": [
                "batch/job",
                "jobset.x-k8s.io/jobset",
                "kubeflow.org/pytorchjob",
                "kubeflow.org/mpijob",
                "trainer.kubeflow.org/trainjob",
                "ray.io/rayjob",
                "ray.io/raycluster",
                "pod",
            ]
        },
    }


def _jobset(settings: Settings) -> dict[str, Any]:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{HOST}:{settings.port('jobset-health')}"},
        "metrics": {"bindAddress": "0"},
        "webhook": _webhook(settings, "jobset"),
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
    }


def _audit(settings: Settings) -> dict[str, Any]:
    """Each call of the portal's account: which of its rights does it use?"""
    account = f"system:serviceaccount:{PORTAL_NAMESPACE}:{PORTAL_ACCOUNT}"
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": [account]}, {"level": "None"}],
    }


def _webhook(settings: Settings, owner: str) -> dict[str, Any]:
    return {
        "host": HOST,
        "port": settings.port(f"{owner}-webhook"),
        "certDir": str(settings.pki / owner),
    }
