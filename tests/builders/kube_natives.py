"""People who give jobs to Kueue beside the portal, on a real Kubernetes, and the product there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from builders.loop_builders import LoopOn
from builders.portal_builders import Company
from clusters.models import Cluster
from clusters.outside import OutsideUse, record_outside_use
from connectors.entitlements import Entitlement, Entitlements, Terms
from connectors.kubernetes.client.api import KubeApi, NotFound
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.natives.natives import control_natives
from connectors.kubernetes.objects.naming import team_namespace
from connectors.kubernetes.options.options import parse_options
from connectors.kubernetes.quotas.entitlements import KubernetesEntitlements
from connectors.kubernetes.quotas.objects import shape_of
from connectors.protocol import ClusterConnector
from jobs.natives.asking_natives import Memory
from jobs.natives.waiting_natives import apply_waiting_natives
from primitives.clock import from_epoch
from quotas.models import Quota
from tenants.models import Node

PRODUCT = "NVIDIA-H100-80GB-HBM3"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
_RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def kube_options(
    kubeconfig: object, flavor: str, nodes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A cluster with one pool, whose flavor is the caller's own, on the H100 nodes that also have
    the labels `nodes`."""
    selector = {"nvidia.com/gpu.product": PRODUCT, **(nodes or {})}
    pool = {"flavor": flavor, "node_selector": selector, "image": "any"}
    return {"kubeconfig": str(kubeconfig), "pools": {"h100": pool}}


def a_pod_spec(*, gpus: int = 1, selector: bool = True) -> dict[str, Any]:
    """What any Pod Security lets in."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2,
        "securityContext": _RESTRICTED,
        "containers": [
            {
                "name": "main",
                "image": "any",
                "resources": {"limits": limits},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }
    if selector:
        spec["nodeSelector"] = {"nvidia.com/gpu.product": PRODUCT}
    return spec


def a_native_job(
    name: str,
    *,
    gpus: int = 8,
    pods: int = 1,
    run_s: int | None = None,
    queue: str | None = "main",
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A Job as a person writes it; without `run_s` it runs until it is stopped."""
    marks = {"bed.tidegate.io/start-seconds": "0"}
    if run_s is not None:
        marks["bed.tidegate.io/run-seconds"] = str(run_s)
    labels = {} if queue is None else {"kueue.x-k8s.io/queue-name": queue}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"metadata": {"annotations": marks}, "spec": a_pod_spec(gpus=gpus)},
        },
    }


def a_native_jobset(name: str, *, gpus: int = 8, pods: int = 2) -> dict[str, Any]:
    """A JobSet as a person writes it."""
    job = a_native_job("worker", gpus=gpus, pods=pods, queue=None)
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "main"}},
        "spec": {
            "replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": job["spec"]}}]
        },
    }


def signed_in(admin: KubeApi, kubeconfig: str, folder: Path, namespace: str, name: str) -> Path:
    """A kubeconfig in `folder` of the service account, for an hour, where `kubeconfig` leads to."""
    token = admin.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        },
    )["status"]["token"]
    config = yaml.safe_load(Path(kubeconfig).read_text())
    config["users"] = [{"name": one["name"], "user": {"token": token}} for one in config["users"]]
    own = folder / f"{namespace}.{name}.kubeconfig"
    own.write_text(yaml.safe_dump(config))
    return own


class Person:
    """Somebody of a team with the rights that a team may have there, and some that it should not:
    to write Workloads, their status, and queues."""

    def __init__(self, admin: KubeApi, kubeconfig: object, folder: Path, namespace: str) -> None:
        self.namespace = namespace
        self.login = f"system:serviceaccount:{namespace}:person"
        apply(
            admin, f"/api/v1/namespaces/{namespace}/serviceaccounts/person", "v1", "ServiceAccount"
        )
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        verbs = ["create", "get", "list", "watch", "patch", "update", "delete"]
        rules = [
            {
                "apiGroups": ["", "batch"],
                "resources": ["jobs", "jobs/status", "pods", "pods/status"],
                "verbs": verbs,
            },
            {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": verbs},
            {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": verbs},
            {
                "apiGroups": ["kueue.x-k8s.io"],
                "resources": ["workloads", "workloads/status", "localqueues"],
                "verbs": verbs,
            },
        ]
        version = "rbac.authorization.k8s.io/v1"
        apply(admin, f"{rbac}/roles/person", version, "Role", rules=rules)
        apply(
            admin,
            f"{rbac}/rolebindings/person",
            version,
            "RoleBinding",
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "person"},
            subjects=[{"kind": "ServiceAccount", "name": "person", "namespace": namespace}],
        )
        own = signed_in(admin, str(kubeconfig), folder, namespace, "person")
        self.api = KubeApi(kubeconfig=str(own))

    def submit(self, body: dict[str, Any]) -> dict[str, Any]:
        """kubectl create."""
        return self.api.create(self.path(body, ""), body)

    def path(self, body: dict[str, Any], name: str | None = None) -> str:
        """Where it is."""
        plural = f"{body['kind'].lower()}s"
        root = "/api" if body["apiVersion"] == "v1" else "/apis"
        name = body["metadata"]["name"] if name is None else name
        whole = f"{root}/{body['apiVersion']}/namespaces/{self.namespace}/{plural}"
        return f"{whole}/{name}" if name else whole

    def get(self, body: dict[str, Any]) -> dict[str, Any]:
        """kubectl get."""
        return self.api.get(self.path(body))

    def workload(self, body: dict[str, Any]) -> dict[str, Any]:
        """Kueue's Workload of what was submitted. Raises AssertionError while there is none."""
        uid = self.get(body)["metadata"]["uid"]
        for one in self.api.list(WORKLOADS.format(self.namespace)).items:
            if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences") or ()):
                return one
        raise AssertionError("Kueue has not seen it yet")


def apply(api: KubeApi, path: str, version: str, kind: str, **values: Any) -> None:
    """Make the object of this path."""
    name = path.rsplit("/", 1)[-1]
    metadata: dict[str, Any] = {"name": name}
    if "/namespaces/" in path:
        metadata["namespace"] = path.split("/namespaces/")[1].split("/")[0]
    body = {"apiVersion": version, "kind": kind, "metadata": metadata, **values}
    api.apply(path, body, force=True)


def condition(item: dict[str, Any], kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition, empty where there is none."""
    for one in (item.get("status") or {}).get("conditions") or ():
        if one["type"] == kind:
            return one["status"], one.get("reason", ""), one.get("message", "")
    return "", "", ""


class NativesLoop(LoopOn):
    """The product's steps on one Kubernetes cluster, natives included."""

    def __init__(self, cluster: Cluster, options: dict[str, Any]) -> None:
        cluster.kind, cluster.options = "kubernetes", options
        cluster.save()
        self._own = KubernetesConnector(parse_options(options), str(cluster.pk))
        self._own.prepare()
        self.control = control_natives(self._own)
        self.memory = Memory()
        self.outside = OutsideUse(observed_at=0)
        super().__init__(cluster)

    @property
    def connector(self) -> ClusterConnector:
        return self._own

    @property
    def own(self) -> KubernetesConnector:
        """The connector."""
        return self._own

    def asked_by(self, body: dict[str, Any], person: Person) -> tuple[int, ...]:
        """What each rank of a native asks for, as the watches tell now."""
        uid = person.get(body)["metadata"]["uid"]
        natives = self._own.observe().natives
        return next((one.ranks_mgpu for one in natives if one.native_id == uid), ())

    def observe(self) -> int:
        changed = super().observe()
        listing = self._own.observe()
        starter = self.control.starter
        assert starter is not None
        self.outside = apply_waiting_natives(
            self.cluster,
            listing,
            control=self.control,
            starter=starter,
            previous_at=self.listed_at,
            leadership=self.observer,  # type: ignore[arg-type]
            now=self.clock.now(),
            memory=self.memory,
        )
        self.listed_at = from_epoch(listing.observed_at)
        record_outside_use(self.cluster, self.outside)
        return changed


def push_teams(connector: KubernetesConnector, company: Company) -> None:
    """The company's tree, as the product pushes it."""
    nodes = []
    for node in Node.objects.filter(path__startswith=company.organization.path).order_by("path"):
        quotas = Quota.objects.filter(node=node).select_related("pool")
        nodes.append(
            Entitlement(
                path=node.display_path,
                is_team=node.kind == "team",
                shares={},
                weight=1,
                terms={
                    quota.pool.name: Terms(quota.guaranteed_mgpu, None, quota.borrow_limit_mgpu)
                    for quota in quotas
                },
            )
        )
    wanted = Entitlements(tuple(nodes), frozenset({company.organization.slug}), grace_s=30)
    control = KubernetesEntitlements(
        connector.api, shape_of(connector.options, connector.cluster_id)
    )
    for change in control.changes(wanted):
        # What all clusters share by name another test has made: the check and the classes.
        if not change.is_blocked:
            control.apply(change)


def namespace_of(team: Node) -> str:
    """The team's namespace."""
    return team_namespace(team.display_path)


def new_slug() -> str:
    """An organization of this test alone."""
    return f"kn-{uuid4().hex[:8]}"


def is_gone(api: KubeApi, path: str) -> bool:
    """Whether the object is not there."""
    try:
        api.get(path)
    except NotFound:
        return True
    return False


def shown(item: dict[str, Any]) -> str:
    """For the message of an assertion."""
    return json.dumps(item.get("status"))
