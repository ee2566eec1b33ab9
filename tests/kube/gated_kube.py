"""A real Kueue whose gate is in place, a company's queues on it, and a person who uses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.connector_builders import eventually
from builders.kube_natives import (
    NativesLoop,
    Person,
    a_native_job,
    a_pod_spec,
    condition,
    kube_options,
    namespace_of,
    new_slug,
    push_teams,
)
from builders.portal_builders import Company, a_company
from connectors.kubernetes.admission.gating import GATE, gate_manifests, path_of
from connectors.kubernetes.client.api import KubeApi
from jobs.models import Job
from kube_bed import KubeBed
from kubebed.api import Refused


@pytest.fixture
def admin(kube_bed: KubeBed) -> Iterator[KubeApi]:
    """The cluster's administrator, who has applied what deploy/kubernetes has for them.

    Taken away with each test: other workers' tests know no gate.
    """
    api = KubeApi(kubeconfig=str(kube_bed.admin_kubeconfig))
    manifests = [*gate_manifests(), *LAST]
    for manifest in manifests:
        api.apply(path_of(manifest), manifest, force=True)
    # The server takes policies up in the order in which they were made, a moment later.
    eventually(lambda: is_refused(kube_bed))
    yield api
    for manifest in reversed(manifests):
        api.delete(path_of(manifest))
    api.close()


_POLICY = "admissionregistration.k8s.io/v1"


#: A policy of the tests' own, behind those of the gate: what it says is how far the server is.
LAST: tuple[dict[str, Any], ...] = (
    {
        "apiVersion": _POLICY,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "tests-last"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "validations": [{"expression": 'object.metadata.name != "tests-last"'}],
        },
    },
    {
        "apiVersion": _POLICY,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "tests-last"},
        "spec": {"policyName": "tests-last", "validationActions": ["Deny"]},
    },
)


def is_refused(bed: KubeBed) -> bool:
    """Whether the last policy is in effect."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tests-last"}}
    try:
        bed.api.call("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", body)
    except Refused:
        return True
    return False


@pytest.fixture
def company() -> Company:
    return a_company(new_slug())


@pytest.fixture
def nodes() -> dict[str, str]:
    """Labels that nodes must have to be the pool's."""
    return {}


@pytest.fixture
def loop(
    kube_bed: KubeBed, admin: KubeApi, company: Company, nodes: dict[str, str]
) -> Iterator[NativesLoop]:
    options = kube_options(kube_bed.portal_kubeconfig, new_slug(), nodes)
    loop = NativesLoop(company.cluster, options)
    push_teams(loop.own, company)
    eventually(lambda: loop.own.inventory().complaints == () or None)
    eventually(lambda: is_gated(kube_bed, namespace_of(company.nlp)))
    yield loop
    for team in (company.nlp, company.vision, company.inference):
        clear(admin, namespace_of(team))


def is_gated(bed: KubeBed, namespace: str) -> bool:
    """Whether what is given to the team's queue gets its gate: another kind of policy."""
    body = a_native_job("gated-yet")
    try:
        made = bed.api.call("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All", body)
    except Refused:
        return False  # by a webhook that does not know the namespace yet
    return GATE in made["metadata"].get("annotations", {})


def clear(admin: KubeApi, namespace: str) -> None:
    """Nothing of the team is left to hold GPUs or quota."""
    for plural in ("batch/v1/namespaces/{}/jobs", "jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"):
        collection = f"/apis/{plural.format(namespace)}"
        for one in admin.list(collection).items:
            admin.delete(f"{collection}/{one['metadata']['name']}", propagation="Background")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for pod in admin.list(pods).items:
        admin.delete(f"{pods}/{pod['metadata']['name']}", grace_s=0)
    admin.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def person(
    kube_bed: KubeBed, admin: KubeApi, loop: NativesLoop, company: Company, tmp_path: Path
) -> Person:
    return Person(admin, kube_bed.admin_kubeconfig, tmp_path, namespace_of(company.nlp))


def native(loop: NativesLoop, body: dict[str, Any], person: Person) -> Job:
    """The job that it becomes."""
    uid = person.get(body)["metadata"]["uid"]

    def look() -> Job | None:
        loop.observe()
        return Job.objects.filter(native_id=uid).first()

    return eventually(look)


def a_workload(name: str) -> dict[str, Any]:
    """One that Kueue made of nothing."""
    template = {"spec": a_pod_spec()}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "queueName": "main",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def gated(person: Person, body: dict[str, Any]) -> dict[str, Any]:
    """Its Workload, once Kueue says that it is gated."""

    def look() -> dict[str, Any] | None:
        try:
            workload = person.workload(body)
        except AssertionError:
            return None
        return workload if condition(workload, "QuotaReserved")[1] == "AdmissionGated" else None

    return eventually(look)


def reserved(admin: KubeApi, queue: str) -> int:
    """GPUs for which the queue has reserved quota."""
    found = admin.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{queue}")
    return sum(
        int(one["total"])
        for flavor in found["status"].get("flavorsReservation") or ()
        for one in flavor["resources"]
        if one["name"] == "nvidia.com/gpu"
    )
