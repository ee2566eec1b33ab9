"""Services in the file of a manifest job: which Pods they select, and their names in the Pods."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from builders.kubernetes_builders import CLUSTER_ID, some_options
from connectors.errors import WorkloadRejected
from connectors.kubernetes.manifests.services import renamed_services
from connectors.kubernetes.objects import naming
from unit.connectors.kubernetes.test_submitted_manifests import objects_of

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: ring, labels: {app: ring}}
spec:
  clusterIP: None
  selector: {SELECTOR}
---
"""
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: torch}
spec:
  network: {enableDNSHostnames: true, subdomain: ring}
  replicatedJobs:
  - name: w
    template:
      spec:
        template:
          metadata: {labels: {app: ring}}
          spec:
            restartPolicy: Never
            subdomain: ring
            containers:
            - name: main
              image: train:1
              command: [train, --master, ring, --rank0=torch-w-0-0.ring:29500]
              env: [{name: MASTER_ADDR, value: torch-w-0-0.ring.default.svc.cluster.local}]
              resources: {limits: {nvidia.com/gpu: 1}}
"""
TEAM = "ai-company/research/nlp"


def made(selector: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JobSet, and the Service with this selector."""
    text = SERVICE.replace("{SELECTOR}", selector) + JOBSET
    item, (service,) = objects_of(text, 1_000, options=some_options(manifest_objects=["Service"]))
    return item, service


def test_a_service_selects_the_pods_of_its_attempt_only() -> None:
    """Other jobs of the team may have the same labels.

    Planted: the selector of the file, with which it named the Pods of every attempt.
    """
    item, service = made("{app: ring, jobset.sigs.k8s.io/jobset-name: torch}")
    name = item["metadata"]["name"]
    assert service["metadata"]["name"] == f"{name}-beside-0"
    assert service["metadata"]["labels"] == naming.labels(CLUSTER_ID, TEAM)
    assert service["spec"] == {
        "clusterIP": "None",
        "selector": {
            "app": "ring",
            "jobset.sigs.k8s.io/jobset-name": name,
            "tidegate.io/of-attempt": name,
        },
    }
    (job,) = item["spec"]["replicatedJobs"]
    labels = job["template"]["spec"]["template"]["metadata"]["labels"]
    assert (labels["app"], labels["tidegate.io/of-attempt"]) == ("ring", name)


def test_pods_name_the_service_of_their_attempt() -> None:
    """Planted: the name of the file as subdomain, and the namespace of the file."""
    item, _ = made("{app: ring}")
    name = item["metadata"]["name"]
    here = f"{name}-beside-0"
    assert item["spec"]["network"]["subdomain"] == here
    (job,) = item["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]["template"]["spec"]
    assert spec["subdomain"] == here
    (container,) = spec["containers"]
    assert container["command"] == [
        *("train", "--master", here),
        f"--rank0={name}-w-0-0.{here}:29500",
    ]
    namespace = naming.team_namespace(TEAM)
    assert container["env"][0]["value"] == (f"{name}-w-0-0.{here}.{namespace}.svc.cluster.local")


def test_a_service_that_selects_no_pod_of_the_job_is_refused() -> None:
    with pytest.raises(WorkloadRejected) as caught:
        made("{app: other}")
    assert str(caught.value) == (
        "the Service ring selects none of the job's Pods; write the labels app=other into their "
        "template"
    )


@pytest.mark.parametrize(
    ("part", "odd"),
    [
        ("            subdomain: ring\n", "            subdomain: [ring]\n"),
        ("network: {enableDNSHostnames: true, subdomain: ring}", "network: ring"),
        ("command: [train, --master, ring, --rank0=torch-w-0-0.ring:29500]", "command: train"),
    ],
)
def test_fields_of_odd_types_are_left_to_the_cluster(part: str, odd: str) -> None:
    """The cluster names them in the plan.

    Planted: a subdomain that is looked up whatever it is; a text as the list of its letters.
    """
    text = SERVICE.replace("{SELECTOR}", "{app: ring}") + JOBSET.replace(part, odd, 1)
    item, _ = objects_of(text, 1_000, options=some_options(manifest_objects=["Service"]))
    (job,) = item["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]["template"]["spec"]
    found = (item["spec"]["network"], spec["subdomain"], spec["containers"][0]["command"])
    assert [one for one in ("ring", ["ring"], "train") if one in found] == [
        next(iter(yaml.safe_load(odd).values()))
    ]


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("ring", "new"),
        ("ring:29500", "new:29500"),
        ("tcp://ring:29500", "tcp://new:29500"),
        ("http://ring/health", "http://new/health"),
        ("leader.ring", "leader.new"),
        ("ring.svc", "new.svc"),
        ("leader.ring.default.svc.cluster.local", "leader.new.ns.svc.cluster.local"),
        ("torchrun --rdzv_endpoint ring:29400 run.py", "torchrun --rdzv_endpoint new:29400 run.py"),
        *((word, word) for word in ("ring.py", "./ring", "/data/ring/x", "string", "ring-2")),
        ("run.py --master-addr=ring --steps 3", "run.py --master-addr=new --steps 3"),
        ("export MASTER_ADDR=ring; run.py", "export MASTER_ADDR=new; run.py"),
        *((word, word) for word in ("git checkout ring", "--role=ring", "python ring --steps 3")),
        *((word, word) for word in ("ring.distributed.run", "--ring=1", "ring_size", "a.ring.py")),
    ],
)
def test_a_name_counts_where_it_is_an_address(text: str, renamed: str) -> None:
    """Planted: every occurrence, so that files, modules and branches of that name were others."""
    change = renamed_services({("Service", "ring"): "new", ("Secret", "run"): "x"}, "ns")
    assert change is not None
    assert change(text) == renamed
