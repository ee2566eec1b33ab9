"""What the bed puts into its API server before anybody uses it.

CRDs and webhooks are those of the modules that the servers are built from; only where a webhook is
served differs, since there are no Services here.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml

from kubebed.api import Api, Document
from kubebed.configuration import PORTAL_ACCOUNT, PORTAL_NAMESPACE
from kubebed.keys import encoded, write_kubeconfig
from kubebed.settings import GPUS_PER_NODE, HOST, REPO, BedError, NodeModel, Settings

NODES_PER_RACK = 8
RACKS_PER_BLOCK = 4
BLOCK_LABEL = "cloud.provider.com/topology-block"
RACK_LABEL = "cloud.provider.com/topology-rack"
PRODUCT_LABEL = "nvidia.com/gpu.product"
_ROLE = REPO / "deploy" / "kubernetes" / "role.yaml"
_TOKEN_LIFE_S = 7 * 86400
_PAUSE_S = 0.1
_READY_S = 120
#: CRDs whose older version Kueue converts through its webhook server.
_CONVERTED = {"clusterqueues", "cohorts", "localqueues", "workloads", "multikueueclusters"}


def crds(settings: Settings) -> list[Document]:
    """Every custom resource's definition, without its prose."""
    documents: list[Document] = [_bare(one) for one in _load(settings, "crd")]
    for document in documents:
        document.pop("status", None)
        plural, _, group = document["metadata"]["name"].partition(".")
        if group == "kueue.x-k8s.io" and plural in _CONVERTED:
            document["spec"]["conversion"] = {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": _at_loopback(settings, "kueue", "/convert"),
                    "conversionReviewVersions": ["v1"],
                },
            }
    return documents


def wait_established(api: Api, documents: list[Document]) -> None:
    """Return once the API server serves these CRDs."""
    wanted = {document["metadata"]["name"] for document in documents}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    deadline = time.monotonic() + _READY_S
    while True:
        served = {
            one["metadata"]["name"]
            for one in api.call("GET", path)["items"]
            if _is_true(one, "Established")
        }
        if wanted <= served:
            return
        if time.monotonic() > deadline:
            raise BedError(f"not established after {_READY_S} s: {sorted(wanted - served)}.")
        time.sleep(_PAUSE_S)


def kueue_home(settings: Settings) -> list[Document]:
    """Kueue's namespace and the Secret with its keys, which have to be there before it starts."""
    keys = settings.pki / "kueue"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "kueue-webhook-server-cert", "namespace": "kueue-system"},
            "data": {
                name: encoded(keys / name) for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")
            },
        },
    ]


def webhooks(settings: Settings) -> list[Document]:
    """The modules' configurations, with the patches that their kustomizations would make."""
    documents = []
    for owner in ("kueue", "jobset", "trainer"):
        file = settings.binaries / "manifests" / "webhook" / f"{owner}.yaml"
        for document in yaml.safe_load_all(file.read_text()):
            document["metadata"] = {"name": f"{owner}-{document['metadata']['name']}"}
            for hook in document["webhooks"]:
                _adapt(settings, owner, hook)
            documents.append(document)
    return documents


def node(model: NodeModel, index: int, first_rack: int) -> Document:
    """A node with 8 GPUs; racks are numbered through all models."""
    rack, name = first_rack + index // NODES_PER_RACK, model.node_name(index)
    amounts = {
        "cpu": "128",
        "memory": "2Ti",
        "ephemeral-storage": "10Ti",
        "pods": "250",
        "nvidia.com/gpu": str(GPUS_PER_NODE),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                PRODUCT_LABEL: model.product,
                BLOCK_LABEL: f"block-{rack // RACKS_PER_BLOCK}",
                RACK_LABEL: f"rack-{rack}",
            },
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def all_nodes(settings: Settings) -> list[Document]:
    """Every node of the bed; a model begins with a block of its own."""
    nodes, first_rack = [], 0
    for model in settings.models:
        nodes += [node(model, index, first_rack) for index in range(model.count)]
        per_block = NODES_PER_RACK * RACKS_PER_BLOCK
        first_rack += -(-model.count // per_block) * RACKS_PER_BLOCK
    return nodes


def make_nodes(api: Api, settings: Settings) -> None:
    """Create the nodes that are not there."""
    there = {one["metadata"]["name"] for one in api.call("GET", "/api/v1/nodes")["items"]}
    missing = [one for one in all_nodes(settings) if one["metadata"]["name"] not in there]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: api.call("POST", "/api/v1/nodes", one), missing))


def wait_nodes(api: Api) -> None:
    """Return once all nodes are Ready and free of taints."""
    deadline = time.monotonic() + _READY_S
    while True:
        nodes = api.call("GET", "/api/v1/nodes")["items"]
        waiting = [
            one["metadata"]["name"]
            for one in nodes
            if not _is_true(one, "Ready") or one["spec"].get("taints")
        ]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise BedError(f"nodes are not Ready after {_READY_S} s: {waiting[:5]}.")
        time.sleep(_PAUSE_S)


def apply_role(api: Api) -> None:
    """The portal's service account has exactly the rights of role.yaml."""
    for document in yaml.safe_load_all(_ROLE.read_text()):
        api.apply(document)


def make_portal_account(api: Api, settings: Settings) -> None:
    """The portal's service account with its rights, and its kubeconfig."""
    apply_role(api)
    token = api.call(
        "POST",
        f"/api/v1/namespaces/{PORTAL_NAMESPACE}/serviceaccounts/{PORTAL_ACCOUNT}/token",
        {"spec": {"expirationSeconds": _TOKEN_LIFE_S}},
    )["status"]["token"]
    write_kubeconfig(settings, "portal", {"token": token}, PORTAL_NAMESPACE)


def _adapt(settings: Settings, owner: str, hook: Document) -> None:
    hook["clientConfig"] = _at_loopback(settings, owner, hook["clientConfig"]["service"]["path"])
    hook["timeoutSeconds"] = 10
    groups = {group for rule in hook["rules"] for group in rule["apiGroups"]}
    resources = {resource for rule in hook["rules"] for resource in rule["resources"]}
    if owner == "kueue" and "kueue.x-k8s.io" not in groups:
        elsewhere = {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "kueue-system"],
        }
        hook["namespaceSelector"] = {"matchExpressions": [elsewhere]}
    if owner == "jobset" and "pods" in resources:
        of_jobset = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
        hook["objectSelector"] = {"matchExpressions": [of_jobset]}


def _at_loopback(settings: Settings, owner: str, path: str) -> dict[str, str]:
    """Where a webhook is served here, in place of the Service that its manifest names."""
    authority = settings.pki / ("kueue/ca.crt" if owner == "kueue" else "ca.crt")
    return {
        "url": f"https://{HOST}:{settings.port(f'{owner}-webhook')}{path}",
        "caBundle": encoded(authority),
    }


def _load(settings: Settings, folder: str) -> list[Document]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    files = sorted((settings.binaries / "manifests" / folder).glob("*.yaml"))
    return [
        document
        for file in files
        for document in yaml.load_all(file.read_text(), loader)
        if document
    ]


def _bare(part: Any) -> Any:
    """A schema without descriptions: a third of the bytes, and the API server is up sooner."""
    if isinstance(part, dict):
        return {
            key: _bare(value)
            for key, value in part.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [_bare(value) for value in part] if isinstance(part, list) else part


def _is_true(document: Document, condition: str) -> bool:
    return any(
        one["type"] == condition and one["status"] == "True"
        for one in document.get("status", {}).get("conditions") or ()
    )
