"""A real API server, with the definitions and webhooks of every kind, accepts what we build.

Everything is validated strictly and written nowhere (`dryRun=All`); every Pod is accepted in a
namespace that enforces Pod Security `restricted`. Volcano's and KAI's gangs are validated against
the fields of their definitions that stand in `recordings/kubernetes/pod_groups.yaml`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.connector_builders import eventually
from builders.kubernetes_builders import CLUSTER_ID, ManifestCase, manifest_cases
from connectors.kubernetes.manifests.building import WorkloadObjects, objects_for
from connectors.kubernetes.objects.resources import resource_of
from kube_bed import KubeBed, until
from kubebed.api import Refused

pytestmark = pytest.mark.kube

DEFINITIONS = Path(__file__).parents[1] / "recordings" / "kubernetes" / "pod_groups.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
CASES = {case.name: case for case in manifest_cases()}


@pytest.fixture
def namespace(kube_bed: KubeBed) -> Iterator[str]:
    with kube_bed.namespace(labels=RESTRICTED) as name:
        account = {"metadata": {"name": "jobs"}}
        kube_bed.api.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
        yield name


@pytest.fixture
def pod_groups(kube_bed: KubeBed) -> None:
    """The gangs of other schedulers, known to the server from now on."""
    for definition in yaml.safe_load_all(DEFINITIONS.read_text()):
        name = definition["metadata"]["name"]
        try:
            kube_bed.api.call("POST", CRDS, definition)
        except Refused as error:
            if error.code != 409:
                raise
        version = definition["spec"]["versions"][0]["name"]
        path = f"/apis/{definition['spec']['group']}/{version}/podgroups"
        until(lambda path=path: _is_served(kube_bed, path), f"{name} is not served")


def _is_served(kube_bed: KubeBed, path: str) -> bool:
    try:
        kube_bed.api.call("GET", path)
    except Refused as error:
        # Not yet known, or its storage is just being made.
        if error.code not in (404, 429):
            raise
        return False
    return True


def pods_in(item: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(item, Mapping):
        if "containers" in item:
            yield item
        for value in item.values():
            yield from pods_in(value)
    elif isinstance(item, list | tuple):
        for value in item:
            yield from pods_in(value)


def validate(
    kube_bed: KubeBed, namespace: str, body: Mapping[str, Any], *, dry: bool = True
) -> Any:
    """Create `body` in `namespace`, strictly, and for good only unless `dry`."""
    document = copy.deepcopy(dict(body))
    document["metadata"]["namespace"] = namespace
    query = "?fieldValidation=Strict&fieldManager=tidegate" + ("&dryRun=All" if dry else "")
    path = resource_of(document).collection(namespace)
    return kube_bed.api.call("POST", path + query, document)


def accepted(kube_bed: KubeBed, namespace: str, objects: WorkloadObjects) -> Any:
    """The main object as the server accepts it; None while a webhook misses one before it."""
    try:
        return validate(kube_bed, namespace, objects.main)
    except Refused as error:
        if objects.before and "must be created before" in str(error):
            return None
        raise


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.usefixtures("pod_groups")
def test_the_server_accepts_it(kube_bed: KubeBed, namespace: str, case: ManifestCase) -> None:
    objects = objects_for(case.workload, case.options, cluster_id=CLUSTER_ID)
    for document in objects.before:
        # Looked for by the webhook of what comes after it.
        validate(kube_bed, namespace, document, dry=False)
    main = eventually(lambda: accepted(kube_bed, namespace, objects))
    assert case.options.resource.is_suspended(main)
    for document in objects.others:
        validate(kube_bed, namespace, document)
    for document in (*objects.before, objects.main):
        for pod in pods_in(document):
            spec = copy.deepcopy(dict(pod))
            # Is no field of the standard, and the bed has no such class.
            spec.pop("runtimeClassName", None)
            spec["containers"][0].setdefault("command", ["true"])
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "tried"},
                "spec": spec,
            }
            validate(kube_bed, namespace, body)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hostNetwork": True}, "violates PodSecurity"),
        ({"securityContext": {}}, "violates PodSecurity"),
        ({"unknownField": 1}, "unknown field"),
    ],
)
def test_the_server_would_refuse_what_is_wrong(
    kube_bed: KubeBed, namespace: str, change: dict[str, Any], why: str
) -> None:
    case = CASES["job-single"]
    objects = objects_for(case.workload, case.options, cluster_id=CLUSTER_ID)
    (pod,) = pods_in(objects.main)
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried"},
        "spec": {**pod, **change},
    }
    with pytest.raises(Refused, match=why):
        validate(kube_bed, namespace, body)
